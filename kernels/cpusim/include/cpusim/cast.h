// Cast between element types, with the rounding modes that the operators use.
#pragma once

#include "cpusim/vector_ops.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace AscendC {
namespace detail {

#if defined(__F16C__)
// The compiler leaves half conversions scalar, so whole groups of eight go through F16C.
inline void WidenHalf(float* out, const half* in, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(bits));
    }
    for (; i < count; ++i) out[i] = static_cast<float>(in[i]);
}

inline void NarrowHalf(half* out, const float* in, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), bits);
    }
    for (; i < count; ++i) out[i] = half(in[i]);
}
#else
inline void WidenHalf(float* out, const half* in, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(in[i]);
}
inline void NarrowHalf(half* out, const float* in, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = half(in[i]);
}
#endif

inline int32_t RoundToInteger(float value, RoundMode mode) {
    switch (mode) {
        case RoundMode::CAST_FLOOR: return static_cast<int32_t>(__builtin_floorf(value));
        case RoundMode::CAST_CEIL: return static_cast<int32_t>(__builtin_ceilf(value));
        case RoundMode::CAST_ROUND: return static_cast<int32_t>(__builtin_roundf(value));
        case RoundMode::CAST_TRUNC: return static_cast<int32_t>(value);
        default: return static_cast<int32_t>(__builtin_rintf(value));
    }
}

}  // namespace detail

template <typename T, typename U>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
                 const uint32_t count) {
    static_assert(cpusim::kCast<T, U>, "Cast: this SoC does not have this pair of types");
    if constexpr (cpusim::kChecked) {
        detail::CheckOperand(dst, count, "Cast");
        detail::CheckOperand(src, count, "Cast");
        detail::CheckOverlap(dst, src, count, "Cast");
        cpusim::ObserveRead(PIPE_V, src.Bytes(), uint64_t{count} * sizeof(U), "Cast");
        cpusim::ObserveWrite(PIPE_V, dst.Bytes(), uint64_t{count} * sizeof(T), "Cast");
        constexpr uint64_t kWider = sizeof(T) > sizeof(U) ? sizeof(T) : sizeof(U);
        cpusim::ObserveCycles(PIPE_V, cpusim::VectorCycles(count * kWider));
        const bool exact = cpusim::kSame<T, float> && cpusim::kOneOf<U, half, bfloat16_t>;
        cpusim::Require(exact == (roundMode == RoundMode::CAST_NONE) || !cpusim::kSame<T, float>,
                        "Cast", "a widening cast takes CAST_NONE", dst.Bytes());
        cpusim::Require(!cpusim::kOneOf<T, half, bfloat16_t> || roundMode == RoundMode::CAST_RINT ||
                            roundMode == RoundMode::CAST_NONE,
                        "Cast", "the emulator narrows with CAST_RINT (or CAST_NONE) only",
                        dst.Bytes());
    }
    T* out = dst.Data();
    const U* in = src.Data();
    if constexpr (cpusim::kSame<U, half>) {
        detail::WidenHalf(out, in, count);
    } else if constexpr (cpusim::kSame<T, half>) {
        detail::NarrowHalf(out, in, count);
    } else if constexpr (cpusim::kSame<T, int32_t>) {
        for (uint32_t i = 0; i < count; ++i) out[i] = detail::RoundToInteger(in[i], roundMode);
    } else {
        for (int64_t i = 0; i < int64_t{count}; ++i) out[i] = static_cast<T>(in[i]);
    }
}

}  // namespace AscendC
