// The operator's `sizes` (those of ConvShape in order, then the activation) and what is wrong with
// them.
#pragma once

#include "ascend_abi.h"
#include "../conv2d_bias_relu/conv2d_bias_relu_tiling.h"

namespace ascend_ops {

inline ConvShape ReadConvShape(const AscendProblem& problem) {
    const int64_t* s = problem.sizes;
    return {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7],
            s[8], s[9], s[10], s[11], s[12], s[13], s[14]};
}

inline uint32_t ReadConvActivation(const AscendProblem& problem) {
    const int64_t activation = problem.sizes[15];
    const bool known = activation >= 0 && activation <= kSigmoid;
    return known ? static_cast<uint32_t>(activation) : kSigmoid + 1;
}

// Nothing (nullptr) when all is well.
inline const char* ConvMessage(ConvStatus status) {
    switch (status) {
        case ConvStatus::kNegativeSize: return "conv2d_bias_relu: a size is negative";
        case ConvStatus::kStep: return "conv2d_bias_relu: strides and dilations are at least 1";
        case ConvStatus::kUnknownActivation:
            return "conv2d_bias_relu: the activation is 0 (none), 1 (Relu) or 2 (Sigmoid)";
        case ConvStatus::kTooLarge:
            return "conv2d_bias_relu: a size is above 2147483647, or the result has more tiles of "
                   "16 x 16; cut the batch into parts";
        case ConvStatus::kOk: break;
    }
    return nullptr;
}

}  // namespace ascend_ops
