// One custom operator: its row of callbacks, the state of a kernel, and how a call runs.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ascend_abi.h"
#include "tensor_view.h"
#include "workspace.h"

namespace ascend_ops::ort {

// What each custom operator adds to the table of callbacks.
struct Description : CustomOp {
    const char* name;
    const char* operator_name;
    int32_t dtype;
    ElementType type;
    ElementType index_type;  // of CustomFusedGatherAddRelu's second input
};

inline const Description& Self(const CustomOp* op) { return *static_cast<const Description*>(op); }

// A node's kernel; sessions run it from many threads at once.
struct Kernel {
    const OrtApi* api = nullptr;
    const AscendOperator* op = nullptr;
    int32_t dtype = ASCEND_FLOAT;
    int64_t index_bytes = 8;
    int64_t activation = 0;
    bool transpose_b = false;
    // The weight is part of the model, so that what a call packs of it serves all later ones.
    bool constant_weight = false;
    Workspace packed;
};

OrtStatus* ComputeGather(void* kernel, OrtKernelContext* context);
OrtStatus* ComputeMatMul(void* kernel, OrtKernelContext* context);

// Plans and runs an operator on ONNX Runtime's own threads. `elements` decides whether a second
// thread is worth its start; `kept` is the workspace of a plan that keeps something there.
OrtStatus* RunOperator(const OrtApi* api, const OrtKernelContext* context, const AscendOperator* op,
                       const AscendProblem& problem, std::vector<AscendTensor> tensors,
                       int64_t elements, Workspace* kept = nullptr);

}  // namespace ascend_ops::ort
