// Conversions between float, binary16 and bfloat16, and an exponential, all without branches so
// that a compiler vectorises the loops around them on any instruction set.
//
// Sources: IEEE 754-2019 for formats and round-to-nearest-even; Cody and Waite, "Software Manual
// for the Elementary Functions" (1980), for the two-part reduction by ln 2.
#pragma once

#include <stdint.h>

namespace cpusim {

inline float FloatOfBits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t BitsOfFloat(float value) { return __builtin_bit_cast(uint32_t, value); }

// Exact. A subnormal becomes normal through the multiplication by 2^112, which is the distance
// of the two exponent biases (127 − 15); infinity and NaN keep an exponent of ones.
inline float FloatFromHalf(uint16_t half_bits) {
    const uint32_t magnitude = (half_bits & 0x7fffu) << 13;
    const uint32_t sign = (half_bits & 0x8000u) << 16;
    const float scaled = FloatOfBits(magnitude) * 0x1p112f;
    const uint32_t special = magnitude | 0x7f800000u;
    const uint32_t bits = (half_bits & 0x7c00u) == 0x7c00u ? special : BitsOfFloat(scaled);
    return FloatOfBits(bits | sign);
}

// Round to nearest, ties to even; overflow becomes infinity and each NaN becomes quiet.
inline uint16_t HalfFromFloat(float value) {
    const uint32_t bits = BitsOfFloat(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    // Normal results: drop 13 bits of the fraction, rebias the exponent by 127 − 15.
    const uint32_t odd = (magnitude >> 13) & 1u;
    const uint32_t normal = (magnitude + 0xfffu + odd - (112u << 23)) >> 13;
    // Subnormal results: adding 0.5 puts the unit of 2^-24 into the last place of the sum.
    const uint32_t subnormal = BitsOfFloat(FloatOfBits(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
    result = magnitude >= 0x477ff000u ? 0x7c00u : result;  // 65520 and above round to infinity
    result = magnitude > 0x7f800000u ? 0x7e00u : result;
    return static_cast<uint16_t>(result | sign);
}

inline float FloatFromBfloat16(uint16_t bits) {
    return FloatOfBits(static_cast<uint32_t>(bits) << 16);
}

// Round to nearest, ties to even; each NaN becomes quiet.
inline uint16_t Bfloat16FromFloat(float value) {
    const uint32_t bits = BitsOfFloat(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40u;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

// e^x with an error below 1 ulp; overflows to infinity, underflows gradually, keeps NaN.
//
// x = n·ln 2 + r with |r| ≤ ln 2 / 2; the polynomial is the Taylor series of e^r to r^7, whose
// remainder (r^8/8!, 5e-9) is a tenth of an ulp. 2^n is applied in two factors, because n may be
// outside the exponent range of float while the product is not.
inline float Exp(float x) {
    const float kRoundToInteger = 0x1.8p23f;  // adding it leaves round(x) in the low bits
    float bounded = x > 89.0f ? 89.0f : x;    // e^89 is infinite in float
    bounded = bounded < -104.0f ? -104.0f : bounded;  // e^-104 is zero in float
    const float shifted = bounded * 0x1.715476p+0f + kRoundToInteger;
    const float n = shifted - kRoundToInteger;
    const int32_t exponent =
        static_cast<int32_t>(BitsOfFloat(shifted) - BitsOfFloat(kRoundToInteger));
    float r = bounded - n * 0x1.62e4p-1f;  // 14 bits of ln 2: the product is exact
    r = r - n * 0x1.7f7d1cp-20f;
    float tail = r * (1.0f / 5040) + 1.0f / 720;
    tail = tail * r + 1.0f / 120;
    tail = tail * r + 1.0f / 24;
    tail = tail * r + 1.0f / 6;
    tail = tail * r + 0.5f;
    const float value = (tail * (r * r) + r) + 1.0f;
    const int32_t first = exponent >> 1;
    const float scale = FloatOfBits(static_cast<uint32_t>(first + 127) << 23);
    const float rest = FloatOfBits(static_cast<uint32_t>(exponent - first + 127) << 23);
    return value * scale * rest;
}

}  // namespace cpusim
