// y = activation(conv2d(x, filter) + bias), NHWC (device code, Ascend C): the image's rows as the
// product wants them. How they are multiplied stands in common/cube_gemm.h.
//
// The copy engine gathers: for each position of the kernel, the pixels that a tile's results need
// from one image row lie `stride` pixels apart, which is one strided copy into L1. So no image of
// columns exists in global memory, and each pixel is read once for each position.
#pragma once

#include "kernel_operator.h"

#include "../common/cube_gemm.h"
#include "conv2d_bias_relu_tiling.h"

namespace ascend_ops {

// What a chunk of the reduction holds.
struct ConvChunk {
    uint32_t first_position;
    uint32_t positions;
    uint32_t first_channel;
    uint32_t channels;
    uint32_t pitch;  // of a position in the reduction

    __aicore__ inline uint32_t Depth() const
    {
        return positions == 1 ? channels : positions * pitch;
    }
    __aicore__ inline bool HasGaps() const { return positions > 1 && channels != pitch; }
};

template <typename T>
class ConvSource {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR filter, const Conv2dBiasReluTiling& tiling)
    {
        tiling_ = tiling;
        const int64_t pixels = int64_t(tiling.height) * tiling.width;
        const int64_t images = tiling.cube.m == 0 ? 0
            : tiling.cube.m / (int64_t(tiling.out_height) * tiling.out_width);
        x_.SetGlobalBuffer((__gm__ T*)x, images * pixels * tiling.channels);
        filter_.SetGlobalBuffer((__gm__ T*)filter, int64_t(tiling.kernel_height) *
                                tiling.kernel_width * tiling.channels * tiling.cube.n);
    }

    __aicore__ inline Operand CopyLeft(const AscendC::LocalTensor<T>& to, const TilePlace& place,
                                       uint32_t chunk) const
    {
        const ConvChunk part = ChunkOf(chunk);
        const uint32_t rows = static_cast<uint32_t>(RoundUpTo(place.rows, kFractalRows));
        // Outside the image, between positions, and in the rows that a single row is padded with.
        if (tiling_.has_border != 0 || part.HasGaps() || place.rows == 1) {
            FillZero(to, rows * static_cast<uint32_t>(RoundUpTo(part.Depth(), kFractalRows)));
        }
        for (uint32_t i = 0; i < part.positions; ++i) {
            CopyPosition(to[i * part.pitch * rows], place, rows, part, part.first_position + i);
        }
        return {place.rows, part.Depth(), false};
    }

    __aicore__ inline Operand CopyRight(const AscendC::LocalTensor<T>& to, const TilePlace& place,
                                        uint32_t chunk) const
    {
        const ConvChunk part = ChunkOf(chunk);
        const uint32_t depth = static_cast<uint32_t>(RoundUpTo(part.Depth(), kFractalRows));
        const uint32_t width = static_cast<uint32_t>(RoundUpTo(place.columns, kFractalRows));
        if (part.HasGaps()) FillZero(to, depth * width);
        for (uint32_t i = 0; i < part.positions; ++i) {
            const int64_t row = int64_t(part.first_position + i) * tiling_.channels +
                                part.first_channel;
            const MatrixPart<T> rows = {filter_[row * tiling_.cube.n + place.column],
                                        part.channels, place.columns, tiling_.cube.n};
            if constexpr (kInBands<T>) {
                CopyBands(to[i * part.pitch * width], rows);
            } else {
                CopyColumns(to[i * part.pitch * kColumnWidth<T>], rows, depth);
            }
        }
        return {place.columns, part.Depth(), true};
    }

private:
    __aicore__ inline ConvChunk ChunkOf(uint32_t chunk) const
    {
        ConvChunk part;
        part.pitch = tiling_.channel_pitch;
        if (tiling_.chunks_a_position > 1) {
            constexpr uint32_t kChunk = ReductionChunk(sizeof(T));
            part.first_position = chunk / tiling_.chunks_a_position;
            part.positions = 1;
            part.first_channel = chunk % tiling_.chunks_a_position * kChunk;
            const uint32_t left = tiling_.channels - part.first_channel;
            part.channels = left < kChunk ? left : kChunk;
            return part;
        }
        const uint32_t all = tiling_.kernel_height * tiling_.kernel_width;
        part.first_position = chunk * tiling_.positions_a_chunk;
        const uint32_t left = all - part.first_position;
        part.positions = left < tiling_.positions_a_chunk ? left : tiling_.positions_a_chunk;
        part.first_channel = 0;
        part.channels = tiling_.channels;
        return part;
    }

    // The pixels of a kernel position for all rows of a tile, image row after image row.
    __aicore__ inline void CopyPosition(const AscendC::LocalTensor<T>& to, const TilePlace& place,
                                        uint32_t column_rows, const ConvChunk& part,
                                        uint32_t position) const
    {
        const int64_t down = int64_t(position / tiling_.kernel_width) * tiling_.dilation_height -
                             tiling_.pad_top;
        const int64_t across = int64_t(position % tiling_.kernel_width) *
                               tiling_.dilation_width - tiling_.pad_left;
        for (uint32_t row = 0; row < place.rows;) {
            const int64_t result = place.row + row;
            const int64_t out_x = result % tiling_.out_width;
            const int64_t out_row = result / tiling_.out_width;  // of all images together
            const int64_t left = tiling_.out_width - out_x;
            const uint32_t rest = place.rows - row;
            const uint32_t count = left < rest ? static_cast<uint32_t>(left) : rest;
            const int64_t y = out_row % tiling_.out_height * tiling_.stride_height + down;
            if (y >= 0 && y < tiling_.height) {
                const int64_t image = out_row / tiling_.out_height;
                const int64_t line = image * tiling_.height + y;
                CopyLine(to[row * kColumnWidth<T>], column_rows, part, line,
                         out_x * tiling_.stride_width + across, count);
            }
            row += count;
        }
    }

    // `count` pixels of an image row from x on, `stride` apart; those outside stay zero.
    __aicore__ inline void CopyLine(const AscendC::LocalTensor<T>& to, uint32_t column_rows,
                                    const ConvChunk& part, int64_t line, int64_t x,
                                    uint32_t count) const
    {
        const int64_t stride = tiling_.stride_width;
        const int64_t first = x < 0 ? CeilDivide(-x, stride) : 0;
        const int64_t reach = x < tiling_.width ? CeilDivide(tiling_.width - x, stride) : 0;
        const int64_t end = reach < count ? reach : count;
        if (first >= end) return;
        const int64_t pixel = line * tiling_.width + x + first * stride;
        const MatrixPart<T> pixels = {x_[pixel * tiling_.channels + part.first_channel],
                                      static_cast<uint32_t>(end - first), part.channels,
                                      stride * tiling_.channels};
        CopyColumns(to[static_cast<uint32_t>(first) * kColumnWidth<T>], pixels, column_rows);
    }

    AscendC::GlobalTensor<T> x_;
    AscendC::GlobalTensor<T> filter_;
    Conv2dBiasReluTiling tiling_;
};

template <typename T>
__aicore__ inline void Conv2dBiasRelu(GM_ADDR x, GM_ADDR filter, GM_ADDR bias, GM_ADDR y,
                                      GM_ADDR workspace, const Conv2dBiasReluTiling& tiling)
{
    AscendC::TPipe pipe;
    ConvSource<T> source;
    source.Init(x, filter, tiling);
    CubeGemm<T, ConvSource<T>> gemm;
    gemm.Init(source, bias, y, workspace, tiling.cube, &pipe);
    gemm.Process();
}

}  // namespace ascend_ops
