// What each SoC family has: buffer sizes and the element types of each instruction.
//
// `__NPU_ARCH__` chooses the family: 1001 (910A), 2002 (310P), 2201 (A2 and A3), 3510 (950).
// Sizes and types are those of the vendor's API pages (facts: sections "Ascend C" of the design
// notes); the real headers check less than the hardware does, so the tables here are the check.
#pragma once

#include "cpusim/types.h"

#ifndef __NPU_ARCH__
#define __NPU_ARCH__ 2201
#endif

#if __NPU_ARCH__ != 1001 && __NPU_ARCH__ != 2002 && __NPU_ARCH__ != 2201 && __NPU_ARCH__ != 3510
#error "cpusim: __NPU_ARCH__ must be 1001 (910A), 2002 (310P), 2201 (A2, A3) or 3510 (950)"
#endif

// For the preprocessor: a file cannot even name a kernel that the SoC lacks the type for.
#define CPUSIM_HAS_BFLOAT16 (__NPU_ARCH__ == 2201 || __NPU_ARCH__ == 3510)
// Cube cores apart from the vector cores, with Fixpipe and a bias table: 2201 and 3510. The cube unit
// of 1001 and 2002 is part of the vector core and has neither.
#define CPUSIM_HAS_CUBE_UNIT (__NPU_ARCH__ == 2201 || __NPU_ARCH__ == 3510)

namespace cpusim {

template <typename A, typename B>
inline constexpr bool kSame = false;
template <typename A>
inline constexpr bool kSame<A, A> = true;

template <typename T, typename... Ts>
inline constexpr bool kOneOf = (kSame<T, Ts> || ...);

inline constexpr int kArch = __NPU_ARCH__;
inline constexpr uint32_t kBlockBytes = 32;    // a data block: the unit of the Unified Buffer
inline constexpr uint32_t kRepeatBytes = 256;  // what a vector instruction does in one repeat

// Size of the Unified Buffer that a kernel may use, in bytes. On 2201 some instructions keep the
// top 8 KiB for themselves, and 256 B hold the system's own data.
inline constexpr uint32_t kUnifiedBufferBytes = kArch == 2201   ? 192 * 1024 - 8 * 1024 - 256
                                                : kArch == 3510 ? 248 * 1024 - 8 * 1024
                                                                : 256 * 1024 - 8 * 1024;
// The cube core's memories, in bytes: L1, the operands' L0A and L0B, the result's L0C, and the bias
// table, which 2002 and 1001 do not have.
inline constexpr uint32_t kL1Bytes = (kArch == 2201 || kArch == 3510 ? 512 : 1024) * 1024;
inline constexpr uint32_t kL0ABytes = 64 * 1024;
inline constexpr uint32_t kL0BBytes = 64 * 1024;
inline constexpr uint32_t kL0CBytes = (kArch == 2201 ? 128 : 256) * 1024;
inline constexpr uint32_t kBiasTableBytes = kArch == 2201 ? 1024 : kArch == 3510 ? 4096 : 0;
inline constexpr uint32_t kFractalBytes = 512;  // the unit of the cube: 16 rows of 32 bytes
inline constexpr bool kHasCubeUnit = CPUSIM_HAS_CUBE_UNIT;
inline constexpr bool kHasBfloat16 = CPUSIM_HAS_BFLOAT16;
inline constexpr bool kHasBfloat16Arithmetic = kArch == 3510;
inline constexpr bool kHasDataCopyPad = kArch == 2201 || kArch == 3510;
// Beyond this the destination row of DataCopyPad does not fit its length field.
inline constexpr uint32_t kPadCopyRowBytes = 2097151;
inline constexpr uint32_t kPadCopyRows = 4095;
// Tensors that the queues of one position may have taken at once: each holds a hardware event.
inline constexpr int kTakenTensors = kArch == 1001 ? 4 : 8;
inline constexpr int kBuffersOfAKernel = 64;  // all InitBuffer calls together
inline constexpr int kEventIds = 8;           // 0 to 7 for each pair of pipes

// Exp, Div, Reciprocal, Ln, Sqrt, Rsqrt.
template <typename T>
inline constexpr bool kFloatMath = kOneOf<T, half, float>;

template <typename T>
inline constexpr bool kAbs = kOneOf<T, half, float>;

// Add, Sub, Mul, Max, Min.
template <typename T>
inline constexpr bool kArithmetic =
    kOneOf<T, half, float, int32_t> || (kArch != 1001 && kSame<T, int16_t>) ||
    (kHasBfloat16Arithmetic && kSame<T, bfloat16_t>);

// Adds, Muls, Maxs, Mins: the same, but 910A has only the floating types.
template <typename T>
inline constexpr bool kScalarArithmetic =
    kArch == 1001 ? kOneOf<T, half, float> : kArithmetic<T>;

template <typename T>
inline constexpr bool kRelu = kArch == 1001 ? kSame<T, half> : kOneOf<T, half, float, int32_t>;

template <typename T>
inline constexpr bool kDuplicate = kOneOf<T, half, float, int16_t, uint16_t, int32_t, uint32_t> ||
                                   (kHasBfloat16 && kSame<T, bfloat16_t>);

// Cast from From to To, for the pairs that the operators use.
template <typename To, typename From>
inline constexpr bool kCast =
    (kSame<To, float> && kOneOf<From, half, int32_t>) ||
    (kSame<From, float> && kOneOf<To, half, int32_t>) ||
    (kHasBfloat16 && ((kSame<To, float> && kSame<From, bfloat16_t>) ||
                      (kSame<To, bfloat16_t> && kSame<From, float>)));

// Types that a copy from the Unified Buffer can add to global memory.
template <typename T>
inline constexpr bool kAtomicAdd =
    kSame<T, float> || (kArch != 1001 && kOneOf<T, int16_t, half>) ||
    ((kArch == 2201 || kArch == 3510) && kOneOf<T, int8_t, int32_t, bfloat16_t>);

// Mmad's operands: result, left and right matrix. The float and bfloat16 of 2201 and 3510 do not
// exist on 1001 and 2002, which also have sums in half.
template <typename C, typename A, typename B>
inline constexpr bool kMmad =
    (kSame<A, B> && ((kSame<C, float> && kSame<A, half>) || (kSame<C, int32_t> && kSame<A, int8_t>))) ||
    (kHasCubeUnit && kSame<A, B> && kSame<C, float> && kOneOf<A, float, bfloat16_t>) ||
    (!kHasCubeUnit && kSame<A, B> && kSame<C, half> && kSame<A, half>);

// What a copy into the bias table makes of the bias.
template <typename To, typename From>
inline constexpr bool kBiasCopy =
    kHasCubeUnit && ((kSame<To, float> && kOneOf<From, half, float>) ||
                     (kSame<To, int32_t> && kSame<From, int32_t>) ||
                     (kArch == 3510 && kSame<To, float> && kSame<From, bfloat16_t>));
// The unit of that copy's blockLen, in bytes; on 3510 there must be an even number of them.
inline constexpr uint32_t kBiasCopyBytes = kArch == 3510 ? 32 : 64;

// How fractals of the left matrix lie in L0A: row of fractals after row of fractals (Zz) on 2201,
// column after column (Nz) on 3510.
inline constexpr bool kLeftInRows = kArch == 2201;

// What the hardware's tables say, so that a change here does not pass unseen.
static_assert(kMmad<float, half, half> && kMmad<int32_t, int8_t, int8_t>, "on each SoC");
static_assert(!kMmad<float, half, float> && !kMmad<int32_t, half, half>, "on no SoC");
static_assert(kMmad<float, float, float> == kHasCubeUnit, "float: 2201 and 3510");
static_assert(kMmad<float, bfloat16_t, bfloat16_t> == kHasCubeUnit, "bfloat16: 2201 and 3510");
static_assert(kMmad<half, half, half> == !kHasCubeUnit, "sums in half: 1001 and 2002");
static_assert(kBiasCopy<float, half> == (kBiasTableBytes != 0), "a bias table: 2201 and 3510");
static_assert(kBiasCopy<float, bfloat16_t> == (kArch == 3510), "of bfloat16: 3510");

}  // namespace cpusim
