// A left matrix in memory: read where it lies, or copied a pass at a time.
#pragma once

#include "matrix_rows.h"
#include "packed_right.h"
#include "scratch.h"

namespace ascend_ops::cpu {

// Memory of a thread for the rows of a pass.
inline thread_local Scratch t_left;

// Rows of so many floats and multiples of it fall into the same few sets of the first-level cache.
inline constexpr int64_t kCrowdedPitch = 1024;

// An odd number of cache lines from row to row: they fall into different sets.
inline int64_t SpreadPitch(int64_t count) {
    return (CeilDivide(count, 2 * kLineFloats) * 2 + 1) * kLineFloats;
}

class LeftMatrix : public LeftRows {
   public:
    explicit LeftMatrix(const Matrix& matrix) : matrix_(matrix) {}

    LeftPlace Read(const LeftPart& part, std::vector<Run>* runs) const override {
        runs->assign(1, {0, part.count});
        if (matrix_.dtype == ASCEND_FLOAT && !matrix_.transposed &&
            matrix_.pitch % kCrowdedPitch != 0) {
            return {static_cast<const float*>(matrix_.data) + part.row * matrix_.pitch + part.first,
                    matrix_.pitch};
        }
        const int64_t pitch = SpreadPitch(part.count);
        float* to = t_left.Floats(kRowsMax * pitch);
        WithType(matrix_.dtype, matrix_.data, [&](const auto* data) {
            if (matrix_.transposed) {
                WidenTransposed(to, pitch, data + part.first * matrix_.pitch + part.row,
                                matrix_.pitch, part.rows, part.count);
                return;
            }
            for (int64_t i = 0; i < part.rows; ++i) {
                Widen(to + i * pitch, data + (part.row + i) * matrix_.pitch + part.first,
                      part.count);
            }
        });
        return {to, pitch};
    }

    int64_t ListFetches(const LeftPart& next, int64_t index, int64_t count,
                        FetchRange* ranges) const override {
        if (matrix_.transposed) return 0;  // whole lines of it are read one after the other
        const int64_t bytes = matrix_.dtype == ASCEND_FLOAT ? 4 : 2;
        const int64_t end = std::min(next.rows * (index + 1) / count,
                                     next.rows * index / count + kLeftFetches);
        int64_t ranges_count = 0;
        for (int64_t i = next.rows * index / count; i < end; ++i) {
            const char* row = static_cast<const char*>(matrix_.data) +
                              ((next.row + i) * matrix_.pitch + next.first) * bytes;
            ranges[ranges_count++] = {row, CeilDivide(next.count * bytes, kLineBytes)};
        }
        return ranges_count;
    }

   private:
    const Matrix matrix_;
};

}  // namespace ascend_ops::cpu
