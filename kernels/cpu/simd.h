// Vectors of the instruction set that a file is compiled for, by the compiler's vector extension.
#pragma once

#include <stdint.h>

namespace ascend_ops::cpu {

// kRowsMax × kVectors accumulators, kVectors of the right matrix and a factor fill the registers.
#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
inline constexpr int kRowsMax = 14;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
inline constexpr int kRowsMax = 6;
#elif defined(__aarch64__)
inline constexpr int kLanes = 4;
inline constexpr int kRowsMax = 12;
#else
inline constexpr int kLanes = 4;
inline constexpr int kRowsMax = 6;
#endif
inline constexpr int kVectors = 2;
inline constexpr int kPanel = kLanes * kVectors;  // columns of a micro-kernel

using Vector = float __attribute__((vector_size(kLanes * 4)));
// The same at any address, and beside any other type.
using LooseVector = float __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

inline Vector Load(const float* from) { return *reinterpret_cast<const LooseVector*>(from); }
inline void Store(float* to, Vector value) { *reinterpret_cast<LooseVector*>(to) = value; }

}  // namespace ascend_ops::cpu
