// y = activation(a · b + bias) (device code, Ascend C): where the operands of the product lie. How
// they are multiplied stands in common/cube_gemm.h.
#pragma once

#include "kernel_operator.h"

#include "../common/cube_gemm.h"
#include "matmul_bias_act_tiling.h"

namespace ascend_ops {

template <typename T>
class MatmulSource {
public:
    __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, const MatmulBiasActTiling& tiling)
    {
        tiling_ = tiling;
        a_.SetGlobalBuffer((__gm__ T*)a, tiling.cube.m * tiling.k);
        b_.SetGlobalBuffer((__gm__ T*)b, tiling.cube.n * tiling.k);
    }

    __aicore__ inline Operand CopyLeft(const AscendC::LocalTensor<T>& to, const TilePlace& place,
                                       uint32_t chunk) const
    {
        const Operand operand = {place.rows, Depth(chunk), tiling_.transpose_a != 0};
        // A single row is multiplied as sixteen, of which fifteen must be numbers.
        if (place.rows == 1) {
            FillZero(to, static_cast<uint32_t>(
                             kFractalRows * RoundUpTo(operand.depth, kFractalRows)));
        }
        Copy(to, a_, place.row, tiling_.cube.m, operand, chunk);
        return operand;
    }

    __aicore__ inline Operand CopyRight(const AscendC::LocalTensor<T>& to, const TilePlace& place,
                                        uint32_t chunk) const
    {
        const Operand operand = {place.columns, Depth(chunk), tiling_.transpose_b == 0};
        Copy(to, b_, place.column, tiling_.cube.n, operand, chunk);
        return operand;
    }

private:
    static constexpr uint32_t kChunk = ReductionChunk(sizeof(T));

    __aicore__ inline uint32_t Depth(uint32_t chunk) const
    {
        const int64_t left = tiling_.k - int64_t(chunk) * kChunk;
        return static_cast<uint32_t>(left < kChunk ? left : kChunk);
    }

    // Part of [length, k], or of [k, length] when the reduction runs along the rows.
    __aicore__ inline void Copy(const AscendC::LocalTensor<T>& to,
                                const AscendC::GlobalTensor<T>& from, int64_t begin,
                                int64_t length, const Operand& operand, uint32_t chunk) const
    {
        const int64_t k = int64_t(chunk) * kChunk;
        if (operand.across) {
            const MatrixPart<T> part = {from[k * length + begin], operand.depth, operand.length,
                                        length};
            CopyOperand(to, part, true);
        } else {
            const MatrixPart<T> part = {from[begin * tiling_.k + k], operand.length,
                                        operand.depth, tiling_.k};
            CopyOperand(to, part, false);
        }
    }

    AscendC::GlobalTensor<T> a_;
    AscendC::GlobalTensor<T> b_;
    MatmulBiasActTiling tiling_;
};

template <typename T>
__aicore__ inline void MatmulBiasAct(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR y,
                                     GM_ADDR workspace, const MatmulBiasActTiling& tiling)
{
    AscendC::TPipe pipe;
    MatmulSource<T> source;
    source.Init(a, b, tiling);
    CubeGemm<T, MatmulSource<T>> gemm;
    gemm.Init(source, bias, y, workspace, tiling.cube, &pipe);
    gemm.Process();
}

}  // namespace ascend_ops
