// The innermost product: a few rows by a panel of columns, summed in registers.
//
// Method: K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM
// TOMS 34, 2008); sizes after F. Van Zee and R. van de Geijn, "BLIS" (ACM TOMS 41, 2015).
#pragma once

#include "simd.h"

namespace ascend_ops::cpu {

// A part of the depth that lies in one piece in each row of the left matrix.
struct Run {
    int64_t offset;  // floats from where the row begins
    int64_t count;
};

// Cache lines that a later tile will read.
struct FetchRange {
    const void* data;
    int64_t lines;
};

inline constexpr int64_t kLineBytes = 64;  // a cache line
inline constexpr int64_t kLineFloats = kLineBytes / 4;

// What a tile of the result is computed from: c = max(floor, start + left · right).
struct TileCall {
    const float* left;   // rows lie left_pitch floats apart
    int64_t left_pitch;
    const Run* runs;     // the depth, in order
    int64_t run_count;
    const float* right;  // rows of whole vectors, right_pitch floats apart
    int64_t right_pitch;
    const float* start;  // the bias (start_pitch is 0), or what c has so far
    int64_t start_pitch;
    float* c;
    int64_t c_pitch;
    float floor;         // 0 for Relu, otherwise -infinity; a NaN stays one
    const FetchRange* fetches;  // into the second-level cache, meanwhile
    int64_t fetch_count;
};

// Depth of the unrolled loop, and from one fetch of a line to the next.
inline constexpr int kSteps = 4;
// The right rows are fetched so many steps before they are used.
inline constexpr int kStepsAhead = 8;
// Rows of the left matrix that one pointer and its pitch reach: 0, 1 and 2 pitches on.
inline constexpr int kRowsAPointer = 3;

// One step of the depth: each row's factor times the right row.
template <int kRows>
inline void Step(Vector (&sum)[kRows][kVectors], const float* const* left, int64_t pitch, int at,
                 const float* from) {
    Vector right[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) right[j] = Load(from + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
        const float factor = left[i / kRowsAPointer][i % kRowsAPointer * pitch + at];
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) sum[i][j] += factor * right[j];
    }
}

// Fetches ranges a line at a time: many at once would fill the buffers that the product's own
// loads need.
class LineFetcher {
   public:
    explicit LineFetcher(const TileCall& call)
        : range_(call.fetches), end_(call.fetches + call.fetch_count) {}

    void FetchLine() {
        if (lines_ > 0) {
            __builtin_prefetch(at_, 0, 2);
            at_ += kLineBytes;
            --lines_;
        } else if (range_ != end_) {
            at_ = static_cast<const char*>(range_->data);
            lines_ = range_->lines;
            ++range_;
        }
    }

   private:
    const FetchRange* range_;
    const FetchRange* const end_;
    const char* at_ = nullptr;
    int64_t lines_ = 0;
};

template <int kRows>
void MultiplyTile(const TileCall& call) {
    constexpr int kPointers = (kRows + kRowsAPointer - 1) / kRowsAPointer;
    Vector sum[kRows][kVectors] = {};
    const float* right = call.right;
    const int64_t right_pitch = call.right_pitch, pitch = call.left_pitch;
    const float* c = call.c;
    int rows_to_fetch = kRows;
    LineFetcher fetcher(call);
    for (const Run* run = call.runs; run != call.runs + call.run_count; ++run) {
        const float* left[kPointers];
#pragma GCC unroll 8
        for (int p = 0; p < kPointers; ++p) {
            left[p] = call.left + run->offset + p * kRowsAPointer * pitch;
        }
        int64_t k = run->count;
        for (; k >= kSteps; k -= kSteps) {
            // The tile's memory is fetched a row at a time, while nobody waits for it.
            if (rows_to_fetch > 0) {
                --rows_to_fetch;
                for (int j = 0; j < kVectors; ++j) __builtin_prefetch(c + j * kLanes, 1);
                c += call.c_pitch;
            }
            fetcher.FetchLine();
#pragma GCC unroll 4
            for (int step = 0; step < kSteps; ++step) {
                for (int j = 0; j < kVectors; ++j) {
                    __builtin_prefetch(right + kStepsAhead * right_pitch + j * kLanes);
                }
                Step<kRows>(sum, left, pitch, step, right);
                right += right_pitch;
            }
#pragma GCC unroll 8
            for (int p = 0; p < kPointers; ++p) {
                left[p] += kSteps;
                // Else the compiler makes a pointer of each row, and has no registers for them.
                asm("" : "+r"(left[p]));
            }
        }
        for (; k > 0; --k) {
            Step<kRows>(sum, left, pitch, 0, right);
            right += right_pitch;
#pragma GCC unroll 8
            for (int p = 0; p < kPointers; ++p) ++left[p];
        }
    }
    const Vector floor = Vector{} + call.floor;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) {
            const Vector value = sum[i][j] + Load(call.start + i * call.start_pitch + j * kLanes);
            Store(call.c + i * call.c_pitch + j * kLanes, value < floor ? floor : value);
        }
    }
}

using TileFunction = void (*)(const TileCall&);

// The function for so many rows, 1 to kRowsMax.
TileFunction TileFunctionOf(int64_t rows);

}  // namespace ascend_ops::cpu
