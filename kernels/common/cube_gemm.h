// y = activation(left · right + bias) on cube cores, and on vector cores where these must help
// (device code, Ascend C).
//
// A block (one cube core, two vector cores) computes every core_count-th tile of the result. The
// cube core reads the reduction in chunks into L1 and in steps into L0, both with two buffers, and
// sums in L0C in float. Without a sigmoid and a bfloat16 bias, which only the vector unit has, the
// bias comes from the bias table, and Relu and the narrowing happen on the way out (Fixpipe).
// Otherwise the float sums go to the workspace and the vector cores finish them.
//
// `Source` knows where the operands lie: CopyLeft, CopyRight and ChunkDepth.
#pragma once

#include "kernel_operator.h"

#if defined(__NPU_ARCH__) && (__NPU_ARCH__ == 2002 || __NPU_ARCH__ == 1001)
#error "ascend-ops: 310P and 910A have no float or bfloat16 in their cube unit, no bias table and no \
Fixpipe: leave matmul_bias_act and conv2d_bias_relu out of a build for them"
#endif

#include "cube_epilogue.h"
#include "cube_load.h"

namespace ascend_ops {

// The unit of a copy into the bias table.
constexpr uint32_t kBiasCopyBytes = kLoadsMatrices ? 32 : 64;

template <typename T>
constexpr bool kBiasFitsTable = sizeof(T) == 4;
template <>
constexpr bool kBiasFitsTable<half> = true;

// What Fixpipe does to float sums on their way to T.
template <typename T>
constexpr QuantMode_t kNarrowing = QuantMode_t::NoQuant;
template <>
constexpr QuantMode_t kNarrowing<half> = QuantMode_t::F322F16;
template <>
constexpr QuantMode_t kNarrowing<bfloat16_t> = QuantMode_t::F322BF16;

template <typename T, typename Source>
class CubeGemm {
public:
    __aicore__ inline void Init(const Source& source, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                const CubeTiling& tiling, AscendC::TPipe* pipe)
    {
        source_ = source;
        tiling_ = tiling;
        if ASCEND_IS_AIV {
            if (tiling.through_vector != 0) epilogue_.Init(bias, y, workspace, tiling, pipe);
            return;
        }
        bias_.SetGlobalBuffer((__gm__ T*)bias, tiling.n);
        y_.SetGlobalBuffer((__gm__ T*)y, tiling.m * tiling.n);
        sums_.SetGlobalBuffer((__gm__ float*)workspace,
                              int64_t(tiling.tiles_m) * tiling.tiles_n * tiling.base_m *
                                  tiling.base_n);
        constexpr uint32_t kChunkBytes = kTileMax * ReductionChunk(sizeof(T)) * sizeof(T);
        pipe->InitBuffer(left_l1_, kBufferCount, kChunkBytes);
        pipe->InitBuffer(right_l1_, kBufferCount, kChunkBytes);
        pipe->InitBuffer(left_l0_, kBufferCount, kChunkBytes / 2);
        pipe->InitBuffer(right_l0_, kBufferCount, kChunkBytes / 2);
        pipe->InitBuffer(sum_, kBufferCount, kTileMax * kTileMax * sizeof(float));
        if constexpr (kBiasFitsTable<T>) {
            pipe->InitBuffer(bias_l1_, kBufferCount, kTileMax * sizeof(float));
            pipe->InitBuffer(bias_table_, kBufferCount, kTileMax * sizeof(float));
        }
    }

    __aicore__ inline void Process()
    {
        if ASCEND_IS_AIV {
            if (tiling_.through_vector != 0) epilogue_.Process();
            return;
        }
        if (tiling_.chunk_count == 0) return;  // the vector cores know that the sums are zero
        const uint32_t tiles = tiling_.tiles_m * tiling_.tiles_n;
        uint32_t untold = 0;
        for (uint32_t tile = AscendC::GetBlockIdx(); tile < tiles; tile += tiling_.core_count) {
            ComputeTile(tile);
            if (tiling_.through_vector == 0) continue;
            if (++untold == tiling_.tiles_a_flag || tile + tiling_.core_count >= tiles) {
                AscendC::CrossCoreSetFlag<2, PIPE_FIX>(kTilesFlag);
                untold = 0;
            }
        }
    }

private:
    static constexpr uint8_t kBufferCount = 2;

    __aicore__ inline void ComputeTile(uint32_t tile)
    {
        const TilePlace place = PlaceOfTile(tiling_, tile);
        AscendC::LocalTensor<float> sum = sum_.template AllocTensor<float>();
        const bool with_bias = kBiasFitsTable<T> && tiling_.through_vector == 0;
        if constexpr (kBiasFitsTable<T>) {
            if (with_bias) CopyBias(place);
        }
        for (uint32_t chunk = 0; chunk < tiling_.chunk_count; ++chunk) {
            AddChunk(sum, place, chunk, with_bias && chunk == 0);
        }
        sum_.EnQue(sum);
        CopyOut(place, tile);
    }

    __aicore__ inline void CopyBias(const TilePlace& place)
    {
        AscendC::LocalTensor<T> bias = bias_l1_.template AllocTensor<T>();
        CopyColumns(bias, MatrixPart<T>{bias_[place.column], 1, place.columns, place.columns}, 1);
        bias_l1_.EnQue(bias);
        bias = bias_l1_.template DeQue<T>();
        AscendC::LocalTensor<float> table = bias_table_.template AllocTensor<float>();
        AscendC::DataCopyParams copy;
        copy.blockLen =
            static_cast<uint16_t>(RoundUpTo(place.columns * sizeof(T), 64) / kBiasCopyBytes);
        AscendC::DataCopy(table, bias, copy);
        bias_l1_.FreeTensor(bias);
        bias_table_.EnQue(table);
    }

    __aicore__ inline void AddChunk(const AscendC::LocalTensor<float>& sum, const TilePlace& place,
                                    uint32_t chunk, bool with_bias)
    {
        AscendC::LocalTensor<T> left = left_l1_.template AllocTensor<T>();
        const Operand left_operand = source_.CopyLeft(left, place, chunk);
        left_l1_.EnQue(left);
        AscendC::LocalTensor<T> right = right_l1_.template AllocTensor<T>();
        const Operand right_operand = source_.CopyRight(right, place, chunk);
        right_l1_.EnQue(right);
        left = left_l1_.template DeQue<T>();
        right = right_l1_.template DeQue<T>();
        constexpr uint32_t kStep = ReductionStep(sizeof(T));
        for (uint32_t k = 0; k < left_operand.depth; k += kStep) {
            const uint32_t rest = left_operand.depth - k;
            const uint32_t depth = rest < kStep ? rest : kStep;
            AscendC::LocalTensor<T> left_part = left_l0_.template AllocTensor<T>();
            LoadOperand<Side::kLeft>(left_part, left, left_operand, k, depth);
            left_l0_.EnQue(left_part);
            AscendC::LocalTensor<T> right_part = right_l0_.template AllocTensor<T>();
            LoadOperand<Side::kRight>(right_part, right, right_operand, k, depth);
            right_l0_.EnQue(right_part);
            Multiply(sum, place, depth, chunk == 0 && k == 0, with_bias && k == 0);
        }
        left_l1_.FreeTensor(left);
        right_l1_.FreeTensor(right);
    }

    __aicore__ inline void Multiply(const AscendC::LocalTensor<float>& sum, const TilePlace& place,
                                    uint32_t depth, bool first, bool with_bias)
    {
        AscendC::LocalTensor<T> left = left_l0_.template DeQue<T>();
        AscendC::LocalTensor<T> right = right_l0_.template DeQue<T>();
        AscendC::MmadParams product;
        // With one row the hardware would read the left matrix as a plain vector.
        product.m = static_cast<uint16_t>(place.rows == 1 ? kFractalRows : place.rows);
        product.n = static_cast<uint16_t>(place.columns);
        product.k = static_cast<uint16_t>(depth);
        product.kDirectionAlign = kInBands<T>;
        product.cmatrixInitVal = first && !with_bias;
        // Small products are not ordered by the hardware when they add to the same sums.
        if (!first) AscendC::PipeBarrier<PIPE_M>();
        if constexpr (kBiasFitsTable<T>) {
            if (with_bias) {
                AscendC::LocalTensor<float> bias = bias_table_.template DeQue<float>();
                AscendC::Mmad(sum, left, right, bias, product);
                bias_table_.FreeTensor(bias);
            }
        }
        if (!with_bias) AscendC::Mmad(sum, left, right, product);
        left_l0_.FreeTensor(left);
        right_l0_.FreeTensor(right);
    }

    __aicore__ inline void CopyOut(const TilePlace& place, uint32_t tile)
    {
        AscendC::LocalTensor<float> sum = sum_.template DeQue<float>();
        AscendC::FixpipeParamsV220 copy;
        copy.mSize = static_cast<uint16_t>(place.rows);
        copy.nSize = static_cast<uint16_t>(place.columns);
        copy.srcStride = static_cast<uint16_t>(RoundUpTo(place.rows, kFractalRows));
        if (tiling_.through_vector != 0) {
            copy.dstStride = tiling_.base_n;
            const int64_t at = int64_t(tile) * tiling_.base_m * tiling_.base_n;
            AscendC::Fixpipe<float, float, AscendC::CFG_ROW_MAJOR>(sums_[at], sum, copy);
        } else {
            copy.dstStride = static_cast<uint32_t>(tiling_.n);
            copy.reluEn = tiling_.activation == kRelu;
            copy.quantPre = kNarrowing<T>;
            const int64_t at = place.row * tiling_.n + place.column;
            AscendC::Fixpipe<T, float, AscendC::CFG_ROW_MAJOR>(y_[at], sum, copy);
        }
        sum_.FreeTensor(sum);
    }

    AscendC::TQue<AscendC::TPosition::A1, 1> left_l1_;
    AscendC::TQue<AscendC::TPosition::B1, 1> right_l1_;
    AscendC::TQue<AscendC::TPosition::A2, 1> left_l0_;
    AscendC::TQue<AscendC::TPosition::B2, 1> right_l0_;
    AscendC::TQue<AscendC::TPosition::CO1, 1> sum_;
    AscendC::TQue<AscendC::TPosition::C1, 1> bias_l1_;
    AscendC::TQue<AscendC::TPosition::C2, 1> bias_table_;
    AscendC::GlobalTensor<T> bias_;
    AscendC::GlobalTensor<T> y_;
    AscendC::GlobalTensor<float> sums_;
    CubeTiling tiling_;
    Source source_;
    CubeEpilogue<T> epilogue_;
};

}  // namespace ascend_ops
