// Types, qualifiers and enumerations of Ascend C, as a host compiler sees them.
//
// The device compiler gives `half`, `bfloat16_t` and the qualifiers as built-ins; here they are
// declared so that a kernel file needs no host header. Names and enumerators follow the public
// headers of CANN 9 (basic_api); values carry no meaning.
#pragma once

#include <stdint.h>

#include "cpusim/float_bits.h"

#define __aicore__
#define __global__
#define __vector__
#define __cube__
#define __mix__(cubes, vectors)
#define __gm__
#define __ubuf__
#define GM_ADDR __gm__ uint8_t*

// IEEE binary16 storage. Conversions are explicit: the hardware has them only as Cast.
struct half {
    uint16_t bits;
    half() = default;
    explicit half(float value) : bits(cpusim::HalfFromFloat(value)) {}
    explicit operator float() const { return cpusim::FloatFromHalf(bits); }
};

// bfloat16 storage. It has no arithmetic, as A2 and A3 have none.
struct bfloat16_t {
    uint16_t bits;
    bfloat16_t() = default;
    explicit bfloat16_t(float value) : bits(cpusim::Bfloat16FromFloat(value)) {}
    explicit operator float() const { return cpusim::FloatFromBfloat16(bits); }
};

// The instruction queues of an AI core.
enum pipe_t { PIPE_S = 0, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_FIX };

namespace AscendC {

enum class TPosition : uint8_t {
    GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM = VECCALC, SPM, SHM = SPM,
    TSCM, C2PIPE2GM, C2PIPE2LOCAL, MAX,
};
using QuePosition = TPosition;

enum class RoundMode : uint8_t {
    CAST_NONE = 0, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD,
};

// Named SOURCE_DESTINATION: the destination pipe waits for the source pipe.
enum class HardEvent : uint8_t {
    MTE2_MTE1, MTE1_MTE2, MTE1_M, M_MTE1, MTE2_V, V_MTE2, MTE3_V, V_MTE3, M_V, V_M, V_V,
    MTE3_MTE1, MTE1_MTE3, MTE1_V, MTE2_M, M_MTE2, V_MTE1, M_FIX, FIX_M, MTE3_MTE2, MTE2_MTE3,
    S_V, V_S, S_MTE2, MTE2_S, S_MTE3, MTE3_S, MTE2_FIX, FIX_MTE2, FIX_S, M_S, FIX_MTE3, MTE1_FIX,
    FIX_MTE1, FIX_FIX, MAX,
};

using TEventID = int8_t;

// A copy of `blockCount` rows; lengths and gaps in units of 32 bytes.
struct DataCopyParams {
    DataCopyParams() {}
    DataCopyParams(const uint16_t count, const uint16_t len, const uint16_t srcStrideIn,
                   const uint16_t dstStrideIn)
        : blockCount(count), blockLen(len), srcStride(srcStrideIn), dstStride(dstStrideIn) {}
    uint16_t blockCount = 1;
    uint16_t blockLen = 0;
    uint16_t srcStride = 0;
    uint16_t dstStride = 0;
};

// A copy of `blockCount` rows of `blockLen` bytes. The gap is in bytes on the side of global
// memory and in units of 32 bytes on the side of the Unified Buffer.
struct DataCopyExtParams {
    DataCopyExtParams() {}
    DataCopyExtParams(const uint16_t count, const uint32_t len, const uint32_t srcStrideIn,
                      const uint32_t dstStrideIn, const uint32_t rsvIn)
        : blockCount(count), blockLen(len), srcStride(srcStrideIn), dstStride(dstStrideIn),
          rsv(rsvIn) {}
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    uint32_t srcStride = 0;
    uint32_t dstStride = 0;
    uint32_t rsv = 0;
};

// What DataCopyPad writes around a row: whole elements, and at most 32 bytes on each side.
template <typename T>
struct DataCopyPadExtParams {
    DataCopyPadExtParams() {}
    DataCopyPadExtParams(const bool isPadValue, const uint8_t leftPadValue,
                         const uint8_t rightPadValue, T padValue)
        : isPad(isPadValue), leftPadding(leftPadValue), rightPadding(rightPadValue),
          paddingValue(padValue) {}
    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    T paddingValue{};
};

}  // namespace AscendC
