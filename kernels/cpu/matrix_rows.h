// Reading rows of a matrix in memory as float, as it lies or transposed.
#pragma once

#include "element.h"
#include "gemm.h"

namespace ascend_ops::cpu {

// Calls visit with a pointer of the matrix's element type.
template <typename Visit>
auto WithType(int32_t dtype, const void* data, const Visit& visit) {
    switch (dtype) {
        case ASCEND_FLOAT: return visit(static_cast<const float*>(data));
        case ASCEND_HALF: return visit(static_cast<const Half*>(data));
        default: return visit(static_cast<const Bfloat16*>(data));
    }
}

// to[i][j] = from[j][i] for `rows` × `count` results: small squares, so that both sides stay in
// the cache.
template <typename T>
void WidenTransposed(float* to, int64_t to_pitch, const T* from, int64_t from_pitch, int64_t rows,
                     int64_t count) {
    constexpr int64_t kSquare = 16;
    float square[kSquare][kSquare];
    for (int64_t j = 0; j < count; j += kSquare) {
        const int64_t height = count - j < kSquare ? count - j : kSquare;
        for (int64_t i = 0; i < rows; i += kSquare) {
            const int64_t width = rows - i < kSquare ? rows - i : kSquare;
            for (int64_t y = 0; y < height; ++y) {
                Widen(square[y], from + (j + y) * from_pitch + i, width);
            }
            for (int64_t x = 0; x < width; ++x) {
                for (int64_t y = 0; y < height; ++y) to[(i + x) * to_pitch + j + y] = square[y][x];
            }
        }
    }
}

}  // namespace ascend_ops::cpu
