// The operator's `sizes` (m, n, k, transpose a, transpose b, activation) and what is wrong with them.
//
// For the CPU backend a seventh: 0, or the caller's number for a right matrix and a workspace that
// stay from call to call; the workspace begins as zeros, and the right matrix is packed there once.
#pragma once

#include "ascend_abi.h"
#include "../matmul_bias_act/matmul_bias_act_tiling.h"

namespace ascend_ops {

inline MatmulProblem ReadMatmulProblem(const AscendProblem& problem) {
    const int64_t* sizes = problem.sizes;
    const bool known = sizes[5] >= 0 && sizes[5] <= kSigmoid;
    return {sizes[0], sizes[1], sizes[2], sizes[3] != 0, sizes[4] != 0,
            known ? static_cast<uint32_t>(sizes[5]) : kSigmoid + 1};
}

// Nothing (nullptr) when all is well.
inline const char* MatmulMessage(MatmulStatus status) {
    switch (status) {
        case MatmulStatus::kNegativeSize: return "matmul_bias_act: a size is negative";
        case MatmulStatus::kUnknownActivation:
            return "matmul_bias_act: the activation is 0 (none), 1 (Relu) or 2 (Sigmoid)";
        case MatmulStatus::kTooLarge:
            return "matmul_bias_act: the result has more than 2147483647 tiles of 16 x 16, or a "
                   "row more elements than 32 bits count; cut the product into parts";
        case MatmulStatus::kOk: break;
    }
    return nullptr;
}

}  // namespace ascend_ops
