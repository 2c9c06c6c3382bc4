// Rows of the operand types as float, and back.
#pragma once

#include <stdint.h>
#include <string.h>

#include "cpusim/float_bits.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace ascend_ops::cpu {

inline float Sigmoid(float x) { return 1.0f / (1.0f + cpusim::Exp(-x)); }

struct Half { uint16_t bits; };
struct Bfloat16 { uint16_t bits; };

inline void Widen(float* to, const float* from, int64_t count) {
    memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}
inline void Widen(float* to, const Bfloat16* from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = cpusim::FloatFromBfloat16(from[i].bits);
}
inline void Narrow(float* to, const float* from, int64_t count) { Widen(to, from, count); }
inline void Narrow(Bfloat16* to, const float* from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i].bits = cpusim::Bfloat16FromFloat(from[i]);
}

// The compiler leaves half conversions scalar, so whole groups go through AVX-512 and F16C. The masked
// forms do the same as the plain ones, of which g++ 12 warns that they read what is not initialised.
inline void Widen(float* to, const Half* from, int64_t count) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16) {
        const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
        _mm512_storeu_ps(to + i, _mm512_maskz_cvtph_ps(0xffff, bits));
    }
#endif
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
        const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(bits));
    }
#endif
    for (; i < count; ++i) to[i] = cpusim::FloatFromHalf(from[i].bits);
}
inline void Narrow(Half* to, const float* from, int64_t count) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16) {
        const __m512 values = _mm512_loadu_ps(from + i);
        const __m256i bits = _mm512_maskz_cvtps_ph(0xffff, values, _MM_FROUND_TO_NEAREST_INT);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), bits);
    }
#endif
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
        const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), bits);
    }
#endif
    for (; i < count; ++i) to[i].bits = cpusim::HalfFromFloat(from[i]);
}

}  // namespace ascend_ops::cpu
