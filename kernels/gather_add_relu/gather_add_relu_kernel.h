// y[i] = relu(table[indices[i]] + addend) for each i (device code, Ascend C).
//
// A core has a range of the lookups. It reads their indices a window at a time, copies the rows of
// a chunk side by side into one buffer, and adds and clips the chunk as a whole. half and bfloat16
// are added in float and rounded once, which is exact rounding: float has twice their digits.
//
// A negative index counts from the end, as in ONNX. One outside the table is never followed: its
// row of the result is NaN. The front ends refuse it before the kernel starts.
#pragma once

#include "kernel_operator.h"

#include "../common/tile_copy.h"
#include "gather_add_relu_tiling.h"

namespace ascend_ops {

template <typename T, typename Index>
class GatherAddReluKernel {
public:
    __aicore__ inline void Init(GM_ADDR table, GM_ADDR indices, GM_ADDR addend, GM_ADDR y,
                                const GatherAddReluTiling& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        pipe_ = pipe;
        first_ = AscendC::GetBlockIdx() * tiling.core_lookups;
        const int64_t left = tiling.lookup_count - first_;
        lookups_ = left < tiling.core_lookups ? left : tiling.core_lookups;
        if (lookups_ <= 0) return;
        const int64_t elements = tiling.lookup_count * tiling.width;
        table_.SetGlobalBuffer((__gm__ T*)table, tiling.row_count * tiling.width);
        indices_.SetGlobalBuffer((__gm__ int32_t*)indices,
                                 Reach<int32_t>(tiling.lookup_count * kWordsAnIndex));
        addend_.SetGlobalBuffer((__gm__ T*)addend,
                                tiling.addend_is_row != 0 ? tiling.width : elements);
        y_.SetGlobalBuffer((__gm__ T*)y, elements);
        const uint32_t chunk = tiling.chunk_rows * tiling.column_pitch;
        pipe->InitBuffer(index_in_, kBufferCount, kGatherIndexWindow * sizeof(Index));
        pipe->InitBuffer(row_in_, kBufferCount, chunk * sizeof(T));
        pipe->InitBuffer(addend_in_, kBufferCount, chunk * sizeof(T));
        pipe->InitBuffer(y_out_, kBufferCount, chunk * sizeof(T));
        if constexpr (kThroughFloat) {
            pipe->InitBuffer(wide_sum_, chunk * sizeof(float));
            pipe->InitBuffer(wide_addend_, chunk * sizeof(float));
        }
#if defined(__NPU_ARCH__) && __NPU_ARCH__ == 1001
        pipe->InitBuffer(zeros_, chunk * sizeof(float));
#endif
    }

    __aicore__ inline void Process()
    {
        if (lookups_ <= 0) return;
        for (int64_t column = 0; column < tiling_.width; column += tiling_.column_tile) {
            const int64_t rest = tiling_.width - column;
            column_ = column;
            columns_ = rest < tiling_.column_tile ? rest : tiling_.column_tile;
            pitch_ = (columns_ + kBlockElements - 1) / kBlockElements * kBlockElements;
            ProcessColumns();
        }
    }

private:
    static constexpr uint8_t kBufferCount = 2;
    static constexpr bool kThroughFloat = sizeof(T) < sizeof(float);
    static constexpr uint32_t kBlockElements = 32 / sizeof(T);
    // Indices are read as 32-bit words, which every SoC's copies and scalar reads take.
    static constexpr uint32_t kWordsAnIndex = sizeof(Index) / sizeof(int32_t);

    // Lets the scalar unit read what another pipe has written, or the other way round.
    template <AscendC::HardEvent event>
    __aicore__ inline void Order()
    {
        const AscendC::TEventID id = pipe_->FetchEventID(event);
        AscendC::SetFlag<event>(id);
        AscendC::WaitFlag<event>(id);
    }

    // All lookups of the core, for the columns at hand.
    __aicore__ inline void ProcessColumns()
    {
        AscendC::LocalTensor<T> row_addend;
        if (tiling_.addend_is_row != 0) row_addend = TakeRowAddend();
        for (int64_t start = 0; start < lookups_; start += kGatherIndexWindow) {
            const int64_t left = lookups_ - start;
            const uint32_t count = left < kGatherIndexWindow ? left : kGatherIndexWindow;
            AscendC::LocalTensor<int32_t> window = index_in_.template AllocTensor<int32_t>();
            CopyTileIn(window, indices_[(first_ + start) * kWordsAnIndex], count * kWordsAnIndex);
            index_in_.EnQue(window);
            window = index_in_.template DeQue<int32_t>();
            Order<AscendC::HardEvent::MTE2_S>();
            for (uint32_t row = 0; row < count; row += tiling_.chunk_rows) {
                const uint32_t rest = count - row;
                const uint32_t rows = rest < tiling_.chunk_rows ? rest : tiling_.chunk_rows;
                Gather(window, row, rows);
                if (tiling_.addend_is_row == 0) CopyAddendIn(first_ + start + row, rows);
                Compute(window, row, rows, row_addend);
                CopyOut(first_ + start + row, rows);
            }
            Order<AscendC::HardEvent::S_MTE2>();
            index_in_.FreeTensor(window);
        }
        if (tiling_.addend_is_row != 0) addend_in_.FreeTensor(row_addend);
    }

    // The row of the table that the index names, or -1.
    __aicore__ inline int64_t RowOf(const AscendC::LocalTensor<int32_t>& window, uint32_t i) const
    {
        int64_t index = window.GetValue(i * kWordsAnIndex);
        if constexpr (kWordsAnIndex == 2) {
            const int64_t high = window.GetValue(i * kWordsAnIndex + 1);
            index = high * (int64_t(1) << 32) + static_cast<uint32_t>(index);
        }
        if (index < 0) index += tiling_.row_count;
        return index >= 0 && index < tiling_.row_count ? index : -1;
    }

    // Copies rows of the columns at hand; what is missing to whole blocks becomes zero.
    __aicore__ inline void CopyRowsIn(const AscendC::LocalTensor<T>& dst,
                                      const AscendC::GlobalTensor<T>& src, uint32_t rows)
    {
#if defined(__NPU_ARCH__) && (__NPU_ARCH__ == 2002 || __NPU_ARCH__ == 1001)
        for (uint32_t row = 0; row < rows; ++row) {
            AscendC::DataCopy(dst[row * pitch_], src[row * tiling_.width], columns_);
        }
#else
        AscendC::DataCopyExtParams copy;
        copy.blockCount = static_cast<uint16_t>(rows);
        copy.blockLen = columns_ * static_cast<uint32_t>(sizeof(T));
        copy.srcStride = static_cast<uint32_t>((tiling_.width - columns_) * sizeof(T));
        AscendC::DataCopyPadExtParams<T> padding;
        padding.isPad = pitch_ != columns_;
        padding.rightPadding = static_cast<uint8_t>(pitch_ - columns_);
        AscendC::DataCopyPad(dst, src, copy, padding);
#endif
    }

    // The one row that is added to all, as often as a chunk has rows.
    __aicore__ inline AscendC::LocalTensor<T> TakeRowAddend()
    {
        AscendC::LocalTensor<T> addend = addend_in_.template AllocTensor<T>();
        for (uint32_t row = 0; row < tiling_.chunk_rows; ++row) {
            CopyRowsIn(addend[row * pitch_], addend_[column_], 1);
        }
        addend_in_.EnQue(addend);
        return addend_in_.template DeQue<T>();
    }

    __aicore__ inline void Gather(const AscendC::LocalTensor<int32_t>& window, uint32_t first,
                                  uint32_t rows)
    {
        AscendC::LocalTensor<T> gathered = row_in_.template AllocTensor<T>();
        outside_ = 0;
        for (uint32_t i = 0; i < rows; ++i) {
            const int64_t row = RowOf(window, first + i);
            if (row >= 0) {
                CopyRowsIn(gathered[i * pitch_], table_[row * tiling_.width + column_], 1);
            } else {
                FillRow(gathered[i * pitch_], 0, 0);
                ++outside_;
            }
        }
        row_in_.EnQue(gathered);
    }

    __aicore__ inline void CopyAddendIn(int64_t lookup, uint32_t rows)
    {
        AscendC::LocalTensor<T> addend = addend_in_.template AllocTensor<T>();
        CopyRowsIn(addend, addend_[lookup * tiling_.width + column_], rows);
        addend_in_.EnQue(addend);
    }

    __aicore__ inline void Compute(const AscendC::LocalTensor<int32_t>& window, uint32_t first,
                                   uint32_t rows, const AscendC::LocalTensor<T>& row_addend)
    {
        AscendC::LocalTensor<T> gathered = row_in_.template DeQue<T>();
        AscendC::LocalTensor<T> addend = row_addend;
        if (tiling_.addend_is_row == 0) addend = addend_in_.template DeQue<T>();
        AscendC::LocalTensor<T> y = y_out_.template AllocTensor<T>();
        const uint32_t count = rows * pitch_;
        if constexpr (kThroughFloat) {
            AscendC::LocalTensor<float> sum = wide_sum_.template Get<float>();
            AscendC::LocalTensor<float> wide = wide_addend_.template Get<float>();
            AscendC::Cast(sum, gathered, AscendC::RoundMode::CAST_NONE, count);
            AscendC::Cast(wide, addend, AscendC::RoundMode::CAST_NONE, count);
            AddRelu(sum, sum, wide, static_cast<int32_t>(count));
            AscendC::Cast(y, sum, AscendC::RoundMode::CAST_RINT, count);
        } else {
            AddRelu(y, gathered, addend, static_cast<int32_t>(count));
        }
        if (outside_ != 0) MarkOutside(y, window, first, rows);
        y_out_.EnQue(y);
        row_in_.FreeTensor(gathered);
        if (tiling_.addend_is_row == 0) addend_in_.FreeTensor(addend);
    }

    __aicore__ inline void AddRelu(const AscendC::LocalTensor<float>& sum,
                                   const AscendC::LocalTensor<float>& rows,
                                   const AscendC::LocalTensor<float>& addend, int32_t count)
    {
        AscendC::Add(sum, rows, addend, count);
#if defined(__NPU_ARCH__) && __NPU_ARCH__ == 1001
        // 910A has Relu for half only.
        AscendC::LocalTensor<float> zeros = zeros_.template Get<float>();
        AscendC::Duplicate(zeros, 0.0f, count);
        AscendC::Max(sum, sum, zeros, count);
#else
        AscendC::Relu(sum, sum, count);
#endif
    }

    // A row whose index is outside the table is NaN in the result.
    __aicore__ inline void MarkOutside(const AscendC::LocalTensor<T>& y,
                                       const AscendC::LocalTensor<int32_t>& window, uint32_t first,
                                       uint32_t rows)
    {
        for (uint32_t i = 0; i < rows; ++i) {
            if (RowOf(window, first + i) < 0) FillRow(y[i * pitch_], kNanWord, kNanHalfWord);
        }
    }

    // Bits rather than values: no type of the hardware has a literal for NaN.
    __aicore__ inline void FillRow(const AscendC::LocalTensor<T>& row, int32_t word,
                                   uint16_t half_word)
    {
        if constexpr (kThroughFloat) {
            AscendC::Duplicate(row.template ReinterpretCast<uint16_t>(), half_word,
                               static_cast<int32_t>(pitch_));
        } else {
            AscendC::Duplicate(row.template ReinterpretCast<int32_t>(), word,
                               static_cast<int32_t>(pitch_));
        }
    }

    __aicore__ inline void CopyOut(int64_t lookup, uint32_t rows)
    {
        AscendC::LocalTensor<T> y = y_out_.template DeQue<T>();
        CopyRowsOut(y_[lookup * tiling_.width + column_], y, rows, columns_, pitch_, tiling_.width);
        y_out_.FreeTensor(y);
    }

    static constexpr int32_t kNanWord = 0x7fc00000;
    // A quiet NaN both as half and as bfloat16.
    static constexpr uint16_t kNanHalfWord = 0x7fff;

    AscendC::TPipe* pipe_ = nullptr;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> index_in_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> row_in_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> addend_in_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> y_out_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wide_sum_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wide_addend_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> zeros_;
    AscendC::GlobalTensor<T> table_;
    AscendC::GlobalTensor<int32_t> indices_;
    AscendC::GlobalTensor<T> addend_;
    AscendC::GlobalTensor<T> y_;
    GatherAddReluTiling tiling_;
    int64_t first_ = 0;    // the core's first lookup
    int64_t lookups_ = 0;  // how many it has
    int64_t column_ = 0;   // the columns at hand
    uint32_t columns_ = 0;
    uint32_t pitch_ = 0;
    uint32_t outside_ = 0;  // rows of the chunk at hand whose index is outside the table
};

}  // namespace ascend_ops
