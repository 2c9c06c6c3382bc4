// The innermost product: a few rows by a panel of columns, summed in registers.
//
// Method: K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM
// TOMS 34, 2008); sizes after F. Van Zee and R. van de Geijn, "BLIS" (ACM TOMS 41, 2015).
#pragma once

#include "simd.h"

namespace ascend_ops::cpu {

// Depth that is summed at once: a panel of the right matrix (32 KiB on AVX-512) stays in the
// first-level cache while all rows of a block pass by.
inline constexpr int kDepth = 256;
// Rows of the packed left block lie this many floats apart: a line more than kDepth, so that they
// do not all fall into the same sets of the cache.
inline constexpr int kLeftPitch = kDepth + 16;

// c[kRows][kColumns vectors] = (or +=) a · b, `depth` deep; `a` has rows of kLeftPitch floats, `b`
// and `c` rows of `b_pitch` and `c_pitch`.
template <int kRows, int kColumns>
void MicroKernel(const float* a, const float* b, int64_t b_pitch, int64_t depth, float* c,
                 int64_t c_pitch, bool accumulate) {
    Vector sum[kRows][kColumns] = {};
    // The sums are fetched while they are not needed yet.
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kColumns; ++j) __builtin_prefetch(c + i * c_pitch + j * kLanes, 1);
    }
    for (int64_t k = 0; k < depth; ++k) {
        Vector right[kColumns];
#pragma GCC unroll 4
        for (int j = 0; j < kColumns; ++j) right[j] = Load(b + k * b_pitch + j * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
            const float factor = a[i * kLeftPitch + k];
#pragma GCC unroll 4
            for (int j = 0; j < kColumns; ++j) sum[i][j] += factor * right[j];
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kColumns; ++j) {
            float* to = c + i * c_pitch + j * kLanes;
            Store(to, accumulate ? Load(to) + sum[i][j] : sum[i][j]);
        }
    }
}

using MicroKernelFunction = void (*)(const float*, const float*, int64_t, int64_t, float*, int64_t,
                                     bool);

// The micro-kernel for so many rows, 1 to kRowsMax.
MicroKernelFunction MicroKernelOf(int rows);

}  // namespace ascend_ops::cpu
