// The vector cores' half of a matrix product: bias and activation on float sums that their cube
// core left in the workspace (device code).
//
// The two vector cores of a block take the upper and the lower rows of each tile.
#pragma once

#include "kernel_operator.h"

#include "cube_gemm_tiling.h"
#include "tile_copy.h"

namespace ascend_ops {

constexpr uint16_t kTilesFlag = 3;  // the cube core's flag: tiles are in the workspace

// Where a tile lies in the result, and how much of it is there.
struct TilePlace {
    int64_t row;
    int64_t column;
    uint32_t rows;
    uint32_t columns;
};

__aicore__ inline TilePlace PlaceOfTile(const CubeTiling& tiling, uint32_t tile)
{
    TilePlace place;
    place.row = int64_t(tile % tiling.tiles_m) * tiling.base_m;
    place.column = int64_t(tile / tiling.tiles_m) * tiling.base_n;
    const int64_t rows = tiling.m - place.row, columns = tiling.n - place.column;
    place.rows = static_cast<uint32_t>(rows < tiling.base_m ? rows : tiling.base_m);
    place.columns = static_cast<uint32_t>(columns < tiling.base_n ? columns : tiling.base_n);
    return place;
}

template <typename T>
class CubeEpilogue {
public:
    __aicore__ inline void Init(GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                const CubeTiling& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        bias_.SetGlobalBuffer((__gm__ T*)bias, tiling.n);
        y_.SetGlobalBuffer((__gm__ T*)y, tiling.m * tiling.n);
        sums_.SetGlobalBuffer((__gm__ float*)workspace,
                              int64_t(tiling.tiles_m) * tiling.tiles_n * tiling.base_m *
                                  tiling.base_n);
        constexpr uint32_t kPart = kRowsAtOnce * kTileMax;
        pipe->InitBuffer(sum_in_, kBufferCount, kPart * sizeof(float));
        pipe->InitBuffer(bias_in_, kBufferCount, kTileMax * sizeof(T));
        pipe->InitBuffer(out_, kBufferCount, kPart * sizeof(T));
        pipe->InitBuffer(ones_, kPart * sizeof(float));
        if constexpr (kThroughFloat) pipe->InitBuffer(wide_bias_, kTileMax * sizeof(float));
    }

    __aicore__ inline void Process()
    {
        const uint32_t tiles = tiling_.tiles_m * tiling_.tiles_n;
        const uint32_t block = AscendC::GetBlockIdx() / AscendC::GetSubBlockNum();
        AscendC::Duplicate(ones_.template Get<float>(), 1.0f,
                           static_cast<int32_t>(kRowsAtOnce * kTileMax));
        uint32_t told = 0;
        for (uint32_t tile = block; tile < tiles; tile += tiling_.core_count) {
            if (told == 0 && tiling_.chunk_count != 0) {
                AscendC::CrossCoreWaitFlag(kTilesFlag);
                told = tiling_.tiles_a_flag;
            }
            --told;
            FinishTile(tile);
        }
    }

private:
    static constexpr uint8_t kBufferCount = 2;
    static constexpr bool kThroughFloat = sizeof(T) < sizeof(float);
    static constexpr uint32_t kRowsAtOnce = 32;

    __aicore__ inline void FinishTile(uint32_t tile)
    {
        const TilePlace place = PlaceOfTile(tiling_, tile);
        const uint32_t upper = (place.rows + 1) / 2;
        const bool first = AscendC::GetSubBlockIdx() == 0;
        const uint32_t end = first ? upper : place.rows;
        AscendC::LocalTensor<T> bias = bias_in_.template AllocTensor<T>();
        CopyTileIn(bias, bias_[place.column], place.columns);
        bias_in_.EnQue(bias);
        bias = bias_in_.template DeQue<T>();
        AscendC::LocalTensor<float> wide;
        if constexpr (kThroughFloat) {
            wide = wide_bias_.template Get<float>();
            AscendC::Cast(wide, bias, AscendC::RoundMode::CAST_NONE, place.columns);
        } else {
            wide = bias;
        }
        for (uint32_t row = first ? 0 : upper; row < end; row += kRowsAtOnce) {
            const uint32_t left = end - row;
            FinishRows(tile, place, row, left < kRowsAtOnce ? left : kRowsAtOnce, wide);
        }
        bias_in_.FreeTensor(bias);
    }

    __aicore__ inline void FinishRows(uint32_t tile, const TilePlace& place, uint32_t row,
                                      uint32_t rows, const AscendC::LocalTensor<float>& bias)
    {
        const uint32_t pitch = tiling_.base_n;
        AscendC::LocalTensor<float> sum = CopySums(tile, row, rows);
        for (uint32_t i = 0; i < rows; ++i) {
            AscendC::Add(sum[i * pitch], sum[i * pitch], bias,
                         static_cast<int32_t>(place.columns));
        }
        Activate(sum, static_cast<int32_t>(rows * pitch));
        AscendC::LocalTensor<T> out = out_.template AllocTensor<T>();
        if constexpr (kThroughFloat) {
            AscendC::Cast(out, sum, AscendC::RoundMode::CAST_RINT, rows * pitch);
        } else {
            AscendC::Muls(out, sum, 1.0f, static_cast<int32_t>(rows * pitch));
        }
        sum_in_.FreeTensor(sum);
        out_.EnQue(out);
        out = out_.template DeQue<T>();
        CopyRowsOut(y_[(place.row + row) * tiling_.n + place.column], out, rows, place.columns,
                    pitch, tiling_.n);
        out_.FreeTensor(out);
    }

    // The sums of whole rows of the tile, also of columns that the result does not have.
    __aicore__ inline AscendC::LocalTensor<float> CopySums(uint32_t tile, uint32_t row,
                                                           uint32_t rows)
    {
        const uint32_t count = rows * tiling_.base_n;
        AscendC::LocalTensor<float> sum = sum_in_.template AllocTensor<float>();
        if (tiling_.chunk_count != 0) {
            const int64_t at = (int64_t(tile) * tiling_.base_m + row) * tiling_.base_n;
            AscendC::DataCopy(sum, sums_[at], count);
        }
        sum_in_.EnQue(sum);
        sum = sum_in_.template DeQue<float>();
        if (tiling_.chunk_count == 0) {
            AscendC::Duplicate(sum, 0.0f, static_cast<int32_t>(count));
        }
        return sum;
    }

    __aicore__ inline void Activate(const AscendC::LocalTensor<float>& x, int32_t count)
    {
        if (tiling_.activation == kRelu) AscendC::Relu(x, x, count);
        if (tiling_.activation != kSigmoid) return;
        AscendC::Muls(x, x, -1.0f, count);
        AscendC::Exp(x, x, count);
        AscendC::Adds(x, x, 1.0f, count);
        AscendC::Div(x, ones_.template Get<float>(), x, count);
    }

    AscendC::TQue<AscendC::TPosition::VECIN, 1> sum_in_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> bias_in_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> out_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> ones_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wide_bias_;
    AscendC::GlobalTensor<T> bias_;
    AscendC::GlobalTensor<T> y_;
    AscendC::GlobalTensor<float> sums_;
    CubeTiling tiling_;
};

}  // namespace ascend_ops
