// What the two CPU operators that are a product share: their plan, and their operands.
#pragma once

#include <cstdio>
#include <cstring>

#include "gemm.h"

namespace ascend_ops::cpu {

// Refuses a problem that is `wrong` (nullptr: it is not) or of an unknown type.
inline int CheckProblem(const AscendProblem& problem, const char* wrong, const char* name,
                        AscendError* error) {
    if (wrong != nullptr) {
        std::snprintf(error->text, sizeof error->text, "%s", wrong);
        return ASCEND_INVALID;
    }
    if (problem.dtype < 0 || problem.dtype > ASCEND_BFLOAT16) {
        std::snprintf(error->text, sizeof error->text, "%s: the type is unknown", name);
        return ASCEND_INVALID;
    }
    return ASCEND_OK;
}

inline int WritePlan(const GemmPlan& gemm, AscendPlan* plan) {
    static_assert(sizeof gemm <= ASCEND_TILING_BYTES, "the plan has room for it");
    plan->core_count = GemmTasks(gemm);
    plan->workspace_bytes = GemmWorkspaceBytes(gemm);
    std::memcpy(plan->tiling, &gemm, sizeof gemm);
    return ASCEND_OK;
}

// Runs the tasks [begin, end) of what WritePlan wrote. The tensors are the left operand, of which
// `left` gives the rows, the right one, the bias, the result and the workspace.
inline int RunPlan(const AscendPlan& plan, const AscendTensor* tensors, const LeftRows& left,
                   const Matrix& right, int32_t begin, int32_t end) {
    GemmPlan gemm;
    std::memcpy(&gemm, plan.tiling, sizeof gemm);
    const GemmOperands operands = {&left,           right,       tensors[2].data,
                                   tensors[3].data, right.dtype, tensors[4].data};
    RunGemm(gemm, operands, begin, end);
    return ASCEND_OK;
}

}  // namespace ascend_ops::cpu
