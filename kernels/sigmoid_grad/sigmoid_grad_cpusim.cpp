// The sigmoid gradient on cpusim: the entry file compiled for each type, and its plan.
#include "../runtime/cpusim_operator.h"
#include "kernel_operator.h"
#include "sigmoid_grad_kernel.h"

#define DTYPE_Y float
#define ascend_sigmoid_grad ascend_sigmoid_grad_float
#include "op_kernel/ascend_sigmoid_grad.cpp"
#undef DTYPE_Y
#undef ascend_sigmoid_grad

#define DTYPE_Y half
#define ascend_sigmoid_grad ascend_sigmoid_grad_half
#include "op_kernel/ascend_sigmoid_grad.cpp"
#undef DTYPE_Y
#undef ascend_sigmoid_grad

#if CPUSIM_HAS_BFLOAT16
#define DTYPE_Y bfloat16_t
#define ascend_sigmoid_grad ascend_sigmoid_grad_bfloat16
#include "op_kernel/ascend_sigmoid_grad.cpp"
#undef DTYPE_Y
#undef ascend_sigmoid_grad
#endif

namespace ascend_ops {
namespace {

template <void (*kEntry)(GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR)>
void Call(const AscendTensor* tensors, uint8_t* tiling) {
    kEntry(static_cast<uint8_t*>(tensors[0].data), static_cast<uint8_t*>(tensors[1].data),
           static_cast<uint8_t*>(tensors[2].data), nullptr, tiling);
}

constexpr KernelBody kBodies[] = {Call<ascend_sigmoid_grad_float>, Call<ascend_sigmoid_grad_half>,
#if CPUSIM_HAS_BFLOAT16
                                  Call<ascend_sigmoid_grad_bfloat16>
#endif
};

int Plan(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    SigmoidGradTiling tiling;
    const int supported = CheckDtype(problem->dtype, kBodies, "sigmoid_grad", error);
    if (supported != ASCEND_OK) return supported;
    const TilingStatus status = TileSigmoidGrad(problem->sizes[0], ElementBytes(problem->dtype),
                                            EmulatedPlatform(), &tiling);
    return PlanElementwise(status, tiling, "sigmoid_grad", plan, error);
}

int Run(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
        int32_t begin, int32_t end, AscendError* error) {
    return RunCores("sigmoid_grad", kBodies[problem->dtype], 3, plan, tensors, begin, end, error);
}

}  // namespace

extern const AscendOperator kSigmoidGrad;
const AscendOperator kSigmoidGrad = {"sigmoid_grad", 3, Plan, Run};

}  // namespace ascend_ops
