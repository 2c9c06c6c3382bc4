// What TensorFlow kernels of elementwise operators share, a user's own among them.
#pragma once

#include "kernel_support.h"

namespace ascend_ops {

// Also the limit of the NPU's tensor descriptors.
constexpr int kMaxRank = 8;
// What an element of an emulated kernel costs a core, measured on AVX2.
constexpr int64_t kCyclesAnElement = 8;

inline Status CheckRank(const char* op, int rank) {
    if (rank <= kMaxRank) return OkStatus();
    return InvalidArgument(op, ": the input has rank ", rank, ", and at most ", kMaxRank,
                           " is supported; reshape it first");
}

// Allocates an output of the first input's shape and computes into it; all inputs have one shape.
// `cycles_an_element` decides from which size on a second thread is worth its start.
inline Status RunElementwise(OpKernelContext* context, const AscendOperator* op,
                             int32_t input_count,
                             int64_t cycles_an_element = kCyclesAnElement) {
    const Tensor& first = context->input(0);
    AscendTensor tensors[ASCEND_MAX_TENSORS];
    Tensor* output = nullptr;
    const Status allocated = context->allocate_output(0, first.shape(), &output);
    if (!allocated.ok()) return allocated;
    for (int32_t i = 0; i < input_count; ++i) tensors[i] = Operand(context->input(i));
    tensors[input_count] = Operand(*output);
    AscendProblem problem = {AbiType(first.dtype()), {first.NumElements()}};
    AscendPlan plan;
    AscendError error;
    if (op->plan(&problem, &plan, &error) != ASCEND_OK) return InvalidArgument(error.text);
    if (plan.core_count == 0) return OkStatus();
    const int64_t cycles = first.NumElements() / plan.core_count * cycles_an_element;
    return RunSharded(context, op, problem, plan, tensors, cycles);
}

}  // namespace ascend_ops
