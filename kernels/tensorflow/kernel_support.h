// What the TensorFlow kernels share: operands, types, and running a plan on TensorFlow's threads.
#pragma once

#include <mutex>

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

// Finds the operator once, when the graph is built: a missing library is an error there.
inline const AscendOperator* FindOperator(tensorflow::OpKernelConstruction* context,
                                          const char* name) {
    AscendError error;
    const AscendOperator* op = ascend_operator(name, &error);
    if (op == nullptr) context->CtxFailure(Internal(error.text));
    return op;
}

}  // namespace ascend_ops
