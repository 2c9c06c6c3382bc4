// The sigmoid operator on cpusim: the entry file compiled for each type, and its plan.
#include "../runtime/cpusim_operator.h"
#include "kernel_operator.h"
#include "sigmoid_kernel.h"

#define DTYPE_X float
#define ascend_sigmoid ascend_sigmoid_float
#include "op_kernel/ascend_sigmoid.cpp"
#undef DTYPE_X
#undef ascend_sigmoid

#define DTYPE_X half
#define ascend_sigmoid ascend_sigmoid_half
#include "op_kernel/ascend_sigmoid.cpp"
#undef DTYPE_X
#undef ascend_sigmoid

#if CPUSIM_HAS_BFLOAT16
#define DTYPE_X bfloat16_t
#define ascend_sigmoid ascend_sigmoid_bfloat16
#include "op_kernel/ascend_sigmoid.cpp"
#undef DTYPE_X
#undef ascend_sigmoid
#endif

namespace ascend_ops {
namespace {

template <void (*kEntry)(GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR)>
void Call(const AscendTensor* tensors, uint8_t* tiling) {
    kEntry(static_cast<uint8_t*>(tensors[0].data), static_cast<uint8_t*>(tensors[1].data), nullptr,
           tiling);
}

constexpr KernelBody kBodies[] = {Call<ascend_sigmoid_float>, Call<ascend_sigmoid_half>,
#if CPUSIM_HAS_BFLOAT16
                                  Call<ascend_sigmoid_bfloat16>
#endif
};

int Run(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
        int32_t begin, int32_t end, AscendError* error) {
    return RunCores("sigmoid", kBodies[problem->dtype], 2, plan, tensors, begin, end, error);
}

}  // namespace

// The CPU backend has the same plan.
int PlanSigmoid(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    SigmoidTiling tiling;
    const int supported = CheckDtype(problem->dtype, kBodies, "sigmoid", error);
    if (supported != ASCEND_OK) return supported;
    const TilingStatus status = TileSigmoid(problem->sizes[0], ElementBytes(problem->dtype),
                                            EmulatedPlatform(), &tiling);
    return PlanElementwise(status, tiling, "sigmoid", plan, error);
}

extern const AscendOperator kSigmoidCpusim;
const AscendOperator kSigmoidCpusim = {cpusim::kChecked ? "sigmoid" : "sigmoid_cpusim", 2,
                                       PlanSigmoid, Run};

}  // namespace ascend_ops
