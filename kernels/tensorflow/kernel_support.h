// What the TensorFlow kernels share: operands, types, and running a plan on TensorFlow's threads.
#pragma once

#include <initializer_list>
#include <mutex>
#include <string>

#include "ascend_abi.h"
#include "status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/threadpool.h"

namespace ascend_ops {

inline int32_t AbiType(tensorflow::DataType type) {
    switch (type) {
        case tensorflow::DT_FLOAT: return ASCEND_FLOAT;
        case tensorflow::DT_HALF: return ASCEND_HALF;
        default: return ASCEND_BFLOAT16;
    }
}

inline AscendTensor Operand(const tensorflow::Tensor& tensor) {
    return {const_cast<char*>(tensor.tensor_data().data()), tensor.tensor_data().size()};
}

// Runs the plan's cores on the device's worker threads; the first failure is the call's. `cycles`
// is what a core costs, for TensorFlow's decision how many threads the call is worth.
inline Status RunSharded(tensorflow::OpKernelContext* context, const AscendOperator* op,
                         const AscendProblem& problem, const AscendPlan& plan,
                         const AscendTensor* tensors, int64_t cycles) {
    std::mutex mutex;
    Status outcome = OkStatus();
    const auto* workers = context->device()->tensorflow_cpu_worker_threads();
    using Pool = tensorflow::thread::ThreadPool;
    const Pool::SchedulingParams params(Pool::SchedulingStrategy::kAdaptive, cycles, {});
    workers->workers->ParallelFor(plan.core_count, params, [&](int64_t begin, int64_t end) {
        AscendError error;
        const int code = op->run(&problem, &plan, tensors, static_cast<int32_t>(begin),
                                 static_cast<int32_t>(end), &error);
        if (code == ASCEND_OK) return;
        const std::lock_guard<std::mutex> lock(mutex);
        outcome = Internal(error.text);
    });
    return outcome;
}

// Plans a call on tensors of one type and runs it with its workspace; `cycles` is what all cores
// together cost.
inline Status RunOperator(tensorflow::OpKernelContext* context, const AscendOperator* op,
                          const AscendProblem& problem,
                          std::initializer_list<AscendTensor> operands, int64_t cycles) {
    AscendPlan plan;
    AscendError error;
    if (op->plan(&problem, &plan, &error) != ASCEND_OK) return InvalidArgument(error.text);
    if (plan.core_count == 0) return OkStatus();
    tensorflow::Tensor workspace;
    const auto bytes = static_cast<int64_t>(plan.workspace_bytes);
    const Status allocated = context->allocate_temp(
        tensorflow::DT_UINT8, tensorflow::TensorShape({bytes}), &workspace);
    if (!allocated.ok()) return allocated;
    AscendTensor tensors[ASCEND_MAX_TENSORS + 1];
    int32_t count = 0;
    for (const AscendTensor& operand : operands) tensors[count++] = operand;
    tensors[count] = Operand(workspace);
    return RunSharded(context, op, problem, plan, tensors, cycles / plan.core_count);
}

// What follows the bias: the numbers of the operators' `activation`.
inline Status ReadActivation(tensorflow::OpKernelConstruction* context, int64_t* activation) {
    std::string name;
    const Status status = context->GetAttr("activation", &name);
    if (!status.ok()) return status;
    *activation = name == "relu" ? 1 : name == "sigmoid" ? 2 : 0;
    return OkStatus();
}

// Finds the operator once, when the graph is built: a missing library is an error there.
inline const AscendOperator* FindOperator(tensorflow::OpKernelConstruction* context,
                                          const char* name) {
    AscendError error;
    const AscendOperator* op = ascend_operator(name, &error);
    if (op == nullptr) context->CtxFailure(Internal(error.text));
    return op;
}

}  // namespace ascend_ops
