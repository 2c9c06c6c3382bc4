// Running an operator's plan on the threads of an ONNX Runtime session.
#include "custom_op.h"

namespace ascend_ops::ort {
namespace {

// Below this many elements a second thread costs more to start than it saves.
constexpr int64_t kElementsOfASecondThread = 65536;

struct Run {
    const AscendOperator* op;
    const AscendProblem* problem;
    const AscendPlan* plan;
    const AscendTensor* tensors;
    std::mutex mutex;
    int code = ASCEND_OK;
    AscendError error;
};

// Runs one core; the first failure is the call's.
void RunCore(void* user, size_t core) {
    Run& run = *static_cast<Run*>(user);
    AscendError error;
    const auto begin = static_cast<int32_t>(core);
    const int code = run.op->run(run.problem, run.plan, run.tensors, begin, begin + 1, &error);
    if (code == ASCEND_OK) return;
    const std::lock_guard<std::mutex> lock(run.mutex);
    if (run.code == ASCEND_OK) run.error = error;
    run.code = code;
}

}  // namespace

OrtStatus* RunOperator(const OrtApi* api, const OrtKernelContext* context, const AscendOperator* op,
                       const AscendProblem& problem, std::vector<AscendTensor> tensors,
                       int64_t elements, Workspace* kept) {
    AscendPlan plan;
    AscendError error;
    if (op->plan(&problem, &plan, &error) != ASCEND_OK) return Invalid(api, error.text);
    if (plan.core_count == 0) return nullptr;
    Workspace own;
    void* memory = kept == nullptr ? own.Uninitialised(plan.workspace_bytes)
                                   : kept->Kept(plan.workspace_bytes);
    if (memory == nullptr) return Invalid(api, "the kept workspace has another size");
    tensors.push_back({memory, plan.workspace_bytes});
    Run run{op, &problem, &plan, tensors.data(), {}, ASCEND_OK, {}};
    const auto cores = static_cast<size_t>(plan.core_count);
    if (elements < kElementsOfASecondThread || cores == 1) {
        run.code = op->run(&problem, &plan, tensors.data(), 0, plan.core_count, &run.error);
    } else if (OrtStatus* status =
                   KernelContext_ParallelFor(api)(context, RunCore, cores, 0, &run)) {
        return status;
    }
    return run.code == ASCEND_OK ? nullptr : CreateStatus(api)(kFail, run.error.text);
}

}  // namespace ascend_ops::ort
