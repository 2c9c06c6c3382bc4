// Tiling of the matrix product (host and device).
#pragma once

#include "../common/cube_gemm_tiling.h"

namespace ascend_ops {

struct MatmulBiasActTiling {
    CubeTiling cube;
    int64_t k;
    uint32_t transpose_a;  // the left matrix lies as [k, m]
    uint32_t transpose_b;  // the right matrix lies as [n, k]
};

// What the caller asks for.
struct MatmulProblem {
    int64_t m;
    int64_t n;
    int64_t k;
    bool transpose_a;
    bool transpose_b;
    uint32_t activation;
};

enum class MatmulStatus { kOk, kNegativeSize, kUnknownActivation, kTooLarge };

// `bias_fits_table`: the bias table takes a bias of the type, so that the cube core can add it.
inline MatmulStatus TileMatmulBiasAct(const MatmulProblem& problem, uint32_t element_bytes,
                                      bool bias_fits_table, uint32_t core_count,
                                      MatmulBiasActTiling* tiling) {
    if (problem.m < 0 || problem.n < 0 || problem.k < 0) return MatmulStatus::kNegativeSize;
    if (problem.activation > kSigmoid) return MatmulStatus::kUnknownActivation;
    if (!TilesFit(problem.m, problem.n) || problem.n > UINT32_MAX || problem.k > INT32_MAX) {
        return MatmulStatus::kTooLarge;
    }
    *tiling = MatmulBiasActTiling{};
    TileCube(problem.m, problem.n, core_count, &tiling->cube);
    tiling->cube.activation = problem.activation;
    tiling->cube.chunk_count =
        static_cast<uint32_t>(CeilDivide(problem.k, ReductionChunk(element_bytes)));
    tiling->cube.through_vector =
        problem.activation == kSigmoid || !bias_fits_table || problem.k == 0 ? 1 : 0;
    tiling->k = problem.k;
    tiling->transpose_a = problem.transpose_a ? 1 : 0;
    tiling->transpose_b = problem.transpose_b ? 1 : 0;
    return MatmulStatus::kOk;
}

}  // namespace ascend_ops
