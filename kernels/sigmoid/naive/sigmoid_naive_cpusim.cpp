// The naive sigmoid as an operator of the checked build; float only.
#include "../../runtime/cpusim_operator.h"
#include "kernel_operator.h"
#include "sigmoid_naive_kernel.h"

namespace ascend_ops {
namespace {

void Call(const AscendTensor* tensors, uint8_t* tiling) {
    SigmoidTiling data;
    std::memcpy(&data, tiling, sizeof data);
    AscendC::TPipe pipe;
    SigmoidNaiveKernel kernel;
    kernel.Run(static_cast<uint8_t*>(tensors[0].data), static_cast<uint8_t*>(tensors[1].data), data,
               &pipe);
}

int Plan(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    if (problem->dtype != ASCEND_FLOAT) {
        return Fail(error, ASCEND_INVALID, "sigmoid_naive: float only");
    }
    SigmoidTiling tiling;
    const TilingStatus status = TileSigmoid(problem->sizes[0], 4, EmulatedPlatform(), &tiling);
    return PlanElementwise(status, tiling, "sigmoid_naive", plan, error);
}

int Run(const AscendProblem*, const AscendPlan* plan, const AscendTensor* tensors, int32_t begin,
        int32_t end, AscendError* error) {
    return RunCores("sigmoid_naive", Call, 2, plan, tensors, begin, end, error);
}

}  // namespace

extern const AscendOperator kSigmoidNaive;
const AscendOperator kSigmoidNaive = {"sigmoid_naive", 2, Plan, Run};

}  // namespace ascend_ops
