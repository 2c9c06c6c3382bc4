// y = 1 / (1 + e^-x), elementwise (device code, Ascend C).
//
// Each core walks over its part of the tensor in tiles; two buffers on each side let the copy in
// of tile i+1, the computation of tile i and the copy out of tile i−1 overlap. half and bfloat16
// are computed in float: the hardware's half arithmetic would lose two bits, and A2 and A3 have
// no bfloat16 arithmetic at all. Division rather than Reciprocal, whose error is 1e-4.
#pragma once

#include "kernel_operator.h"

#include "../common/tile_copy.h"
#include "sigmoid_tiling.h"

namespace ascend_ops {

template <typename T>
class SigmoidKernel {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, const SigmoidTiling& tiling,
                                AscendC::TPipe* pipe)
    {
        const int64_t begin = AscendC::GetBlockIdx() * tiling.core_length;
        const int64_t left = tiling.total_length - begin;
        length_ = left < tiling.core_length ? left : tiling.core_length;
        tile_length_ = tiling.tile_length;
        if (length_ <= 0) return;
        x_.SetGlobalBuffer((__gm__ T*)x + begin, Reach<T>(length_));
        y_.SetGlobalBuffer((__gm__ T*)y + begin, Reach<T>(length_));
        pipe->InitBuffer(in_, kBufferCount, tile_length_ * sizeof(T));
        pipe->InitBuffer(out_, kBufferCount, tile_length_ * sizeof(T));
        pipe->InitBuffer(ones_, tile_length_ * sizeof(float));
        if constexpr (kThroughFloat) pipe->InitBuffer(wide_, tile_length_ * sizeof(float));
    }

    __aicore__ inline void Process()
    {
        if (length_ <= 0) return;
        AscendC::LocalTensor<float> ones = ones_.template Get<float>();
        AscendC::Duplicate(ones, 1.0f, static_cast<int32_t>(FirstTileLength()));
        for (int64_t offset = 0; offset < length_; offset += tile_length_) {
            const int64_t left = length_ - offset;
            const uint32_t count = Reach<T>(left < tile_length_ ? left : tile_length_);
            CopyIn(offset, count);
            Compute(ones, count);
            CopyOut(offset, count);
        }
    }

private:
    static constexpr uint8_t kBufferCount = 2;
    static constexpr bool kThroughFloat = sizeof(T) < sizeof(float);

    __aicore__ inline uint32_t FirstTileLength() const
    {
        return Reach<T>(length_ < tile_length_ ? length_ : tile_length_);
    }

    __aicore__ inline void CopyIn(int64_t offset, uint32_t count)
    {
        AscendC::LocalTensor<T> x = in_.template AllocTensor<T>();
        CopyTileIn(x, x_[offset], count);
        in_.EnQue(x);
    }

    __aicore__ inline void Compute(const AscendC::LocalTensor<float>& ones, uint32_t count)
    {
        AscendC::LocalTensor<T> x = in_.template DeQue<T>();
        AscendC::LocalTensor<T> y = out_.template AllocTensor<T>();
        if constexpr (kThroughFloat) {
            AscendC::LocalTensor<float> wide = wide_.template Get<float>();
            AscendC::Cast(wide, x, AscendC::RoundMode::CAST_NONE, count);
            ComputeFloat(wide, wide, ones, count);
            AscendC::Cast(y, wide, AscendC::RoundMode::CAST_RINT, count);
        } else {
            ComputeFloat(y, x, ones, count);
        }
        out_.EnQue(y);
        in_.FreeTensor(x);
    }

    __aicore__ inline void ComputeFloat(const AscendC::LocalTensor<float>& y,
                                        const AscendC::LocalTensor<float>& x,
                                        const AscendC::LocalTensor<float>& ones, uint32_t count)
    {
        const int32_t n = static_cast<int32_t>(count);
        AscendC::Muls(y, x, -1.0f, n);
        AscendC::Exp(y, y, n);
        AscendC::Adds(y, y, 1.0f, n);
        AscendC::Div(y, ones, y, n);
    }

    __aicore__ inline void CopyOut(int64_t offset, uint32_t count)
    {
        AscendC::LocalTensor<T> y = out_.template DeQue<T>();
        CopyTileOut(y_[offset], y, count);
        out_.FreeTensor(y);
    }

    AscendC::TQue<AscendC::TPosition::VECIN, 1> in_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> out_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> ones_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wide_;
    AscendC::GlobalTensor<T> x_;
    AscendC::GlobalTensor<T> y_;
    int64_t length_ = 0;
    int64_t tile_length_ = 0;
};

}  // namespace ascend_ops
