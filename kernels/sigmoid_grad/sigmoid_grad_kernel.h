// dx = y · (1 − y) · dy, elementwise, where y is the sigmoid's result (device code, Ascend C).
//
// The same pipeline as the sigmoid kernel, with two inputs. 1 − y is exact in float for
// y ≥ 0.5 (Sterbenz) and within half an ulp below, so three roundings are the whole error.
#pragma once

#include "kernel_operator.h"

#include "../common/tile_copy.h"
#include "sigmoid_grad_tiling.h"

namespace ascend_ops {

template <typename T>
class SigmoidGradKernel {
public:
    __aicore__ inline void Init(GM_ADDR y, GM_ADDR dy, GM_ADDR dx, const SigmoidGradTiling& tiling,
                                AscendC::TPipe* pipe)
    {
        const int64_t begin = AscendC::GetBlockIdx() * tiling.core_length;
        const int64_t left = tiling.total_length - begin;
        length_ = left < tiling.core_length ? left : tiling.core_length;
        tile_length_ = tiling.tile_length;
        if (length_ <= 0) return;
        y_.SetGlobalBuffer((__gm__ T*)y + begin, Reach<T>(length_));
        dy_.SetGlobalBuffer((__gm__ T*)dy + begin, Reach<T>(length_));
        dx_.SetGlobalBuffer((__gm__ T*)dx + begin, Reach<T>(length_));
        pipe->InitBuffer(y_in_, kBufferCount, tile_length_ * sizeof(T));
        pipe->InitBuffer(dy_in_, kBufferCount, tile_length_ * sizeof(T));
        pipe->InitBuffer(dx_out_, kBufferCount, tile_length_ * sizeof(T));
        pipe->InitBuffer(slope_, tile_length_ * sizeof(float));
        if constexpr (kThroughFloat) {
            pipe->InitBuffer(wide_y_, tile_length_ * sizeof(float));
            pipe->InitBuffer(wide_dy_, tile_length_ * sizeof(float));
        }
    }

    __aicore__ inline void Process()
    {
        for (int64_t offset = 0; offset < length_; offset += tile_length_) {
            const int64_t left = length_ - offset;
            const uint32_t count = Reach<T>(left < tile_length_ ? left : tile_length_);
            CopyIn(offset, count);
            Compute(count);
            CopyOut(offset, count);
        }
    }

private:
    static constexpr uint8_t kBufferCount = 2;
    static constexpr bool kThroughFloat = sizeof(T) < sizeof(float);

    __aicore__ inline void CopyIn(int64_t offset, uint32_t count)
    {
        AscendC::LocalTensor<T> y = y_in_.template AllocTensor<T>();
        AscendC::LocalTensor<T> dy = dy_in_.template AllocTensor<T>();
        CopyTileIn(y, y_[offset], count);
        CopyTileIn(dy, dy_[offset], count);
        y_in_.EnQue(y);
        dy_in_.EnQue(dy);
    }

    __aicore__ inline void Compute(uint32_t count)
    {
        AscendC::LocalTensor<T> y = y_in_.template DeQue<T>();
        AscendC::LocalTensor<T> dy = dy_in_.template DeQue<T>();
        AscendC::LocalTensor<T> dx = dx_out_.template AllocTensor<T>();
        if constexpr (kThroughFloat) {
            AscendC::LocalTensor<float> wide_y = wide_y_.template Get<float>();
            AscendC::LocalTensor<float> wide_dy = wide_dy_.template Get<float>();
            AscendC::Cast(wide_y, y, AscendC::RoundMode::CAST_NONE, count);
            AscendC::Cast(wide_dy, dy, AscendC::RoundMode::CAST_NONE, count);
            ComputeFloat(wide_dy, wide_y, wide_dy, count);
            AscendC::Cast(dx, wide_dy, AscendC::RoundMode::CAST_RINT, count);
        } else {
            ComputeFloat(dx, y, dy, count);
        }
        dx_out_.EnQue(dx);
        y_in_.FreeTensor(y);
        dy_in_.FreeTensor(dy);
    }

    __aicore__ inline void ComputeFloat(const AscendC::LocalTensor<float>& dx,
                                        const AscendC::LocalTensor<float>& y,
                                        const AscendC::LocalTensor<float>& dy, uint32_t count)
    {
        const int32_t n = static_cast<int32_t>(count);
        AscendC::LocalTensor<float> slope = slope_.template Get<float>();
        AscendC::Muls(slope, y, -1.0f, n);
        AscendC::Adds(slope, slope, 1.0f, n);
        AscendC::Mul(slope, slope, y, n);
        AscendC::Mul(dx, slope, dy, n);
    }

    __aicore__ inline void CopyOut(int64_t offset, uint32_t count)
    {
        AscendC::LocalTensor<T> dx = dx_out_.template DeQue<T>();
        CopyTileOut(dx_[offset], dx, count);
        dx_out_.FreeTensor(dx);
    }

    AscendC::TQue<AscendC::TPosition::VECIN, 1> y_in_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> dy_in_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> dx_out_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> slope_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wide_y_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wide_dy_;
    AscendC::GlobalTensor<T> y_;
    AscendC::GlobalTensor<T> dy_;
    AscendC::GlobalTensor<T> dx_;
    int64_t length_ = 0;
    int64_t tile_length_ = 0;
};

}  // namespace ascend_ops
