// table_grad[indices[i]] += grad[i] for each i (device code, Ascend C).
//
// A core owns a range of the table's rows and is the only one to write it: it reads all indices,
// and adds up the rows that are its own. So each output is written once, in the order of i, and
// the same input gives the same bits, which atomic adds to global memory would not. Sums are
// float for each type. An index outside the table matches no row and is never written.
//
// One pass over the indices collects the lookups of the core's own rows; when there are more than
// fit its list, each chunk reads the indices again.
#pragma once

#include "kernel_operator.h"

#include "../common/tile_copy.h"
#include "embedding_dense_grad_tiling.h"

namespace ascend_ops {

template <typename T>
class EmbeddingDenseGradKernel {
public:
    __aicore__ inline void Init(GM_ADDR grad, GM_ADDR indices, GM_ADDR table_grad,
                                const EmbeddingDenseGradTiling& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        pipe_ = pipe;
        first_row_ = AscendC::GetBlockIdx() * tiling.core_rows;
        const int64_t left = tiling.row_count - first_row_;
        rows_ = left < tiling.core_rows ? left : tiling.core_rows;
        if (rows_ <= 0) return;
        grad_.SetGlobalBuffer((__gm__ T*)grad, tiling.lookup_count * tiling.width);
        indices_.SetGlobalBuffer((__gm__ int32_t*)indices, Reach<int32_t>(tiling.lookup_count));
        table_.SetGlobalBuffer((__gm__ T*)table_grad, tiling.row_count * tiling.width);
        const uint32_t chunk = tiling.chunk_rows * tiling.column_pitch;
        pipe->InitBuffer(index_in_, kBufferCount, kIndexWindow * sizeof(int32_t));
        pipe->InitBuffer(row_in_, kBufferCount, tiling.column_pitch * sizeof(T));
        pipe->InitBuffer(sum_out_, kBufferCount, chunk * sizeof(T));
        if constexpr (kThroughFloat) {
            pipe->InitBuffer(wide_row_, tiling.column_pitch * sizeof(float));
            pipe->InitBuffer(wide_sum_, chunk * sizeof(float));
        }
        pipe->InitBuffer(own_lookups_, kOwnLookupsMax * sizeof(int32_t));
        pipe->InitBuffer(own_rows_, kOwnLookupsMax * sizeof(int32_t));
        pipe->InitBuffer(frequency_, tiling.chunk_rows * sizeof(int32_t));
    }

    __aicore__ inline void Process()
    {
        if (rows_ <= 0) return;
        ForEachLookup(first_row_, rows_, [this](int64_t lookup, int64_t row) {
            if (own_count_ < kOwnLookupsMax) {
                own_lookups_.template Get<int32_t>().SetValue(own_count_, lookup);
                own_rows_.template Get<int32_t>().SetValue(own_count_, row);
            }
            ++own_count_;
        });
        for (int64_t row = 0; row < rows_; row += tiling_.chunk_rows) {
            const int64_t left = rows_ - row;
            const uint32_t rows = left < tiling_.chunk_rows ? left : tiling_.chunk_rows;
            for (int64_t column = 0; column < tiling_.width; column += tiling_.column_tile) {
                const int64_t rest = tiling_.width - column;
                const uint32_t columns = rest < tiling_.column_tile ? rest : tiling_.column_tile;
                SumChunk(first_row_ + row, rows, column, columns);
            }
        }
    }

private:
    static constexpr uint8_t kBufferCount = 2;
    static constexpr bool kThroughFloat = sizeof(T) < sizeof(float);

    // Lets the scalar unit read what another pipe has written, or the other way round.
    template <AscendC::HardEvent event>
    __aicore__ inline void Order()
    {
        const AscendC::TEventID id = pipe_->FetchEventID(event);
        AscendC::SetFlag<event>(id);
        AscendC::WaitFlag<event>(id);
    }

    __aicore__ inline void SumChunk(int64_t first, uint32_t rows, int64_t column, uint32_t columns)
    {
        const int32_t elements = static_cast<int32_t>(rows * tiling_.column_pitch);
        AscendC::LocalTensor<T> out = sum_out_.template AllocTensor<T>();
        AscendC::LocalTensor<float> sum;
        if constexpr (kThroughFloat) {
            sum = wide_sum_.template Get<float>();
        } else {
            sum = out;
        }
        AscendC::Duplicate(sum, 0.0f, elements);
        ClearFrequency(rows);
        const auto add = [&](int64_t lookup, int64_t row) {
            AddRow(sum[static_cast<uint32_t>(row) * tiling_.column_pitch], lookup, column, columns);
            CountLookup(static_cast<uint32_t>(row));
        };
        if (own_count_ <= kOwnLookupsMax) {
            ForEachOwnLookup(first - first_row_, rows, add);
        } else {
            ForEachLookup(first, rows, add);
        }
        if (tiling_.scale_by_frequency != 0) ScaleByFrequency(sum, rows);
        if constexpr (kThroughFloat) {
            AscendC::Cast(out, sum, AscendC::RoundMode::CAST_RINT,
                          static_cast<uint32_t>(elements));
        }
        sum_out_.EnQue(out);
        CopyOut(first, rows, column, columns);
    }

    __aicore__ inline void ClearFrequency(uint32_t rows)
    {
        if (tiling_.scale_by_frequency == 0) return;
        AscendC::Duplicate(frequency_.template Get<int32_t>(), int32_t(0),
                           static_cast<int32_t>(rows));
        Order<AscendC::HardEvent::V_S>();
    }

    __aicore__ inline void CountLookup(uint32_t row)
    {
        if (tiling_.scale_by_frequency == 0) return;
        AscendC::LocalTensor<int32_t> frequency = frequency_.template Get<int32_t>();
        frequency.SetValue(row, frequency.GetValue(row) + 1);
    }

    // Calls visit(lookup, index − first) for each index in [first, first + rows), in order.
    template <typename Visit>
    __aicore__ inline void ForEachLookup(int64_t first, int64_t rows, const Visit& visit)
    {
        for (int64_t start = 0; start < tiling_.lookup_count; start += kIndexWindow) {
            const int64_t left = tiling_.lookup_count - start;
            const uint32_t count = left < kIndexWindow ? left : kIndexWindow;
            AscendC::LocalTensor<int32_t> window = index_in_.template AllocTensor<int32_t>();
            CopyTileIn(window, indices_[start], count);
            index_in_.EnQue(window);
            window = index_in_.template DeQue<int32_t>();
            Order<AscendC::HardEvent::MTE2_S>();
            for (uint32_t i = 0; i < count; ++i) {
                const int64_t index = window.GetValue(i);
                const int64_t row = index - first;
                if (row < 0 || row >= rows || index == tiling_.padding_index) continue;
                visit(start + i, row);
            }
            Order<AscendC::HardEvent::S_MTE2>();
            index_in_.FreeTensor(window);
        }
    }

    // The same for the lookups that the core remembers; `first` counts from its own first row.
    template <typename Visit>
    __aicore__ inline void ForEachOwnLookup(int64_t first, int64_t rows, const Visit& visit)
    {
        const AscendC::LocalTensor<int32_t> own_lookups = own_lookups_.template Get<int32_t>();
        const AscendC::LocalTensor<int32_t> own_rows = own_rows_.template Get<int32_t>();
        for (uint32_t i = 0; i < own_count_; ++i) {
            const int64_t row = own_rows.GetValue(i) - first;
            if (row < 0 || row >= rows) continue;
            visit(own_lookups.GetValue(i), row);
        }
    }

    __aicore__ inline void AddRow(const AscendC::LocalTensor<float>& sum, int64_t lookup,
                                  int64_t column, uint32_t columns)
    {
        AscendC::LocalTensor<T> row = row_in_.template AllocTensor<T>();
        CopyTileIn(row, grad_[lookup * tiling_.width + column], columns);
        row_in_.EnQue(row);
        row = row_in_.template DeQue<T>();
        const int32_t n = static_cast<int32_t>(columns);
        if constexpr (kThroughFloat) {
            AscendC::LocalTensor<float> wide = wide_row_.template Get<float>();
            AscendC::Cast(wide, row, AscendC::RoundMode::CAST_NONE, columns);
            AscendC::Add(sum, sum, wide, n);
        } else {
            AscendC::Add(sum, sum, row, n);
        }
        row_in_.FreeTensor(row);
    }

    // Divides each row by how often it was looked up.
    __aicore__ inline void ScaleByFrequency(const AscendC::LocalTensor<float>& sum, uint32_t rows)
    {
        AscendC::LocalTensor<int32_t> frequency = frequency_.template Get<int32_t>();
        for (uint32_t row = 0; row < rows; ++row) {
            const int32_t times = frequency.GetValue(row);
            if (times < 2) continue;
            const AscendC::LocalTensor<float> values = sum[row * tiling_.column_pitch];
            AscendC::Muls(values, values, 1.0f / static_cast<float>(times),
                          static_cast<int32_t>(tiling_.column_pitch));
        }
        Order<AscendC::HardEvent::S_V>();
    }

    __aicore__ inline void CopyOut(int64_t first, uint32_t rows, int64_t column, uint32_t columns)
    {
        AscendC::LocalTensor<T> out = sum_out_.template DeQue<T>();
        const AscendC::GlobalTensor<T> table = table_[first * tiling_.width + column];
        CopyRowsOut(table, out, rows, columns, tiling_.column_pitch, tiling_.width);
        sum_out_.FreeTensor(out);
    }

    AscendC::TPipe* pipe_ = nullptr;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> index_in_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> row_in_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> sum_out_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wide_row_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wide_sum_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> frequency_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> own_lookups_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> own_rows_;
    AscendC::GlobalTensor<T> grad_;
    AscendC::GlobalTensor<int32_t> indices_;
    AscendC::GlobalTensor<T> table_;
    EmbeddingDenseGradTiling tiling_;
    int64_t first_row_ = 0;
    int64_t rows_ = 0;
    uint32_t own_count_ = 0;
};

}  // namespace ascend_ops
