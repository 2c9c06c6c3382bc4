// The sigmoid as a first attempt writes it, to show what the real kernel's structure gains.
//
// One buffer on each side and tiles of 256 elements: nothing overlaps, and each instruction is
// started for four repeats. The arithmetic is the same.
#pragma once

#include "kernel_operator.h"

#include "../../common/tile_copy.h"
#include "../sigmoid_tiling.h"

namespace ascend_ops {

constexpr uint32_t kNaiveTileLength = 256;

class SigmoidNaiveKernel {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, const SigmoidTiling& tiling,
                               AscendC::TPipe* pipe)
    {
        const int64_t begin = AscendC::GetBlockIdx() * tiling.core_length;
        const int64_t left = tiling.total_length - begin;
        const int64_t length = left < tiling.core_length ? left : tiling.core_length;
        if (length <= 0) return;
        x_.SetGlobalBuffer((__gm__ float*)x + begin, Reach<float>(length));
        y_.SetGlobalBuffer((__gm__ float*)y + begin, Reach<float>(length));
        pipe->InitBuffer(in_, 1, kNaiveTileLength * sizeof(float));
        pipe->InitBuffer(out_, 1, kNaiveTileLength * sizeof(float));
        pipe->InitBuffer(ones_, kNaiveTileLength * sizeof(float));
        for (int64_t offset = 0; offset < length; offset += kNaiveTileLength) {
            const int64_t rest = length - offset;
            RunTile(offset, Reach<float>(rest < kNaiveTileLength ? rest : kNaiveTileLength));
            AscendC::PipeBarrier<PIPE_ALL>();
        }
    }

private:
    __aicore__ inline void RunTile(int64_t offset, uint32_t count)
    {
        const int32_t n = static_cast<int32_t>(count);
        AscendC::LocalTensor<float> x = in_.AllocTensor<float>();
        CopyTileIn(x, x_[offset], count);
        in_.EnQue(x);
        x = in_.DeQue<float>();
        AscendC::LocalTensor<float> y = out_.AllocTensor<float>();
        AscendC::LocalTensor<float> ones = ones_.Get<float>();
        AscendC::Duplicate(ones, 1.0f, n);
        AscendC::Muls(y, x, -1.0f, n);
        AscendC::Exp(y, y, n);
        AscendC::Adds(y, y, 1.0f, n);
        AscendC::Div(y, ones, y, n);
        in_.FreeTensor(x);
        out_.EnQue(y);
        y = out_.DeQue<float>();
        CopyTileOut(y_[offset], y, count);
        out_.FreeTensor(y);
    }

    AscendC::TQue<AscendC::TPosition::VECIN, 1> in_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> out_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> ones_;
    AscendC::GlobalTensor<float> x_;
    AscendC::GlobalTensor<float> y_;
};

}  // namespace ascend_ops
