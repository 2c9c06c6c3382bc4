// What the TensorFlow kernels share: operands, types, and running a plan on TensorFlow's threads.
#pragma once

#include <initializer_list>
#include <mutex>
#include <string>

#include "ascend_abi.h"
#include "status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/threadpool.h"
#include "workspace.h"

// Registers a kernel on CPUs for each type T; with indices, a class template for each type of these.
#define ASCEND_REGISTER_TYPE(op, kernel, type) \
    REGISTER_KERNEL_BUILDER(                   \
        Name(op).Device(tensorflow::DEVICE_CPU).TypeConstraint<type>("T"), kernel)
#define ASCEND_REGISTER_TYPES(op, kernel)           \
    ASCEND_REGISTER_TYPE(op, kernel, float);        \
    ASCEND_REGISTER_TYPE(op, kernel, Eigen::half);  \
    ASCEND_REGISTER_TYPE(op, kernel, tensorflow::bfloat16)

#define ASCEND_REGISTER_INDEX(op, kernel, type, index)                \
    REGISTER_KERNEL_BUILDER(Name(op)                                  \
                                .Device(tensorflow::DEVICE_CPU)       \
                                .TypeConstraint<type>("T")            \
                                .TypeConstraint<index>("Tindices"),   \
                            kernel<index>)
#define ASCEND_REGISTER_INDEXED(op, kernel, index)              \
    ASCEND_REGISTER_INDEX(op, kernel, float, index);            \
    ASCEND_REGISTER_INDEX(op, kernel, Eigen::half, index);      \
    ASCEND_REGISTER_INDEX(op, kernel, tensorflow::bfloat16, index)

namespace ascend_ops {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

inline int32_t AbiType(tensorflow::DataType type) {
    switch (type) {
        case tensorflow::DT_FLOAT: return ASCEND_FLOAT;
        case tensorflow::DT_HALF: return ASCEND_HALF;
        default: return ASCEND_BFLOAT16;
    }
}

inline AscendTensor Operand(const Tensor& tensor) {
    return {const_cast<char*>(tensor.tensor_data().data()), tensor.tensor_data().size()};
}

// Runs the plan's cores on the device's worker threads; the first failure is the call's. `cycles`
// is what a core costs, for TensorFlow's decision how many threads the call is worth.
inline Status RunSharded(OpKernelContext* context, const AscendOperator* op,
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
// together cost, and `kept` the workspace of a plan that keeps something there for later calls.
inline Status RunOperator(OpKernelContext* context, const AscendOperator* op,
                          const AscendProblem& problem,
                          std::initializer_list<AscendTensor> operands, int64_t cycles,
                          Workspace* kept = nullptr) {
    AscendPlan plan;
    AscendError error;
    if (op->plan(&problem, &plan, &error) != ASCEND_OK) return InvalidArgument(error.text);
    if (plan.core_count == 0) return OkStatus();
    Tensor workspace;
    AscendTensor memory = {nullptr, plan.workspace_bytes};
    if (kept != nullptr) {
        memory.data = kept->Kept(plan.workspace_bytes);
        if (memory.data == nullptr) {
            return InvalidArgument("an operand that was said to be constant has another shape");
        }
    } else if (plan.workspace_bytes != 0) {
        const TensorShape shape({static_cast<int64_t>(plan.workspace_bytes)});
        const Status allocated =
            context->allocate_temp(tensorflow::DT_UINT8, shape, &workspace);
        if (!allocated.ok()) return allocated;
        memory = Operand(workspace);
    }
    AscendTensor tensors[ASCEND_MAX_TENSORS + 1];
    int32_t count = 0;
    for (const AscendTensor& operand : operands) tensors[count++] = operand;
    tensors[count] = memory;
    return RunSharded(context, op, problem, plan, tensors, cycles / plan.core_count);
}

// Finds the operator once, when the graph is built: a missing library is an error there.
inline const AscendOperator* FindOperator(OpKernelConstruction* context,
                                          const char* name) {
    AscendError error;
    const AscendOperator* op = ascend_operator(name, &error);
    if (op == nullptr) context->CtxFailure(Internal(error.text));
    return op;
}

}  // namespace ascend_ops
