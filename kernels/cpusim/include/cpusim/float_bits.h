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

// One rounding where the instruction set has it; the last bit then differs between builds.
inline float MultiplyAdd(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}
// The same for a compiler's vector of floats, in a file whose products and sums may become one.
template <typename Floats>
inline Floats MultiplyAdd(Floats a, Floats b, Floats c) {
    return a * b + c;
}

// e^x with an error below 1 ulp for x in [−87, 88], and NaN for a NaN whose last 9 bits are 0. Floats
// is float, or a vector of floats, and Bits the unsigned integers of its size.
//
// x = n·ln 2 + r with |r| ≤ ln 2 / 2, and e^r = 1 + r + r²·p(r). p is the polynomial of degree 4
// with the least maximal relative error of e^r (4e-9, a sixteenth of an ulp; found by linear
// programming on 400 Chebyshev nodes). 2^n is added to the exponent bits.
template <typename Floats, typename Bits>
inline Floats ExpInRange(Floats x) {
    const auto all = [](float value) { return Floats{} + value; };
    const Floats round_to_integer = all(0x1.8p23f);  // adding it leaves round(x) in the low bits
    const Floats shifted = MultiplyAdd(x, all(0x1.715476p+0f), round_to_integer);
    const Floats n = shifted - round_to_integer;
    Floats r = MultiplyAdd(n, all(-0x1.62e4p-1f), x);  // 15 bits of ln 2: the product is exact
    r = MultiplyAdd(n, all(-0x1.7f7d1cp-20f), r);
    Floats p = MultiplyAdd(all(0x1.6a23bcp-10f), r, all(0x1.123a1ep-7f));
    p = MultiplyAdd(p, r, all(0x1.5558f4p-5f));
    p = MultiplyAdd(p, r, all(0x1.555492p-3f));
    p = MultiplyAdd(p, r, all(0x1.fffffcp-2f));
    const Floats value = all(1.0f) + MultiplyAdd(p, r * r, r);
    return __builtin_bit_cast(
        Floats, __builtin_bit_cast(Bits, value) + (__builtin_bit_cast(Bits, shifted) << 23));
}

// The same for any x: overflow gives infinity, and a result below the smallest normal number gives
// 0. The selects replace what the exponent bits spoil outside the range.
inline float Exp(float x) {
    const float kOverflow = 0x1.62e42ep+6f;   // the largest x with a finite e^x
    const float kUnderflow = -0x1.5d589ep+6f; // the smallest x with a normal e^x
    const float result = x < kUnderflow ? 0.0f : ExpInRange<float, uint32_t>(x);
    return x <= kOverflow ? result : x * FloatOfBits(0x7f800000u);
}

}  // namespace cpusim
