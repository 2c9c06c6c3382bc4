// The convolution on cpusim: the entry file compiled for each type, and its plan.
#include "../runtime/cpusim_cube.h"
#include "kernel_operator.h"

#include "../runtime/conv2d_bias_relu_problem.h"

#if CPUSIM_HAS_CUBE_UNIT
#include "conv2d_bias_relu_kernel.h"

#define DTYPE_X float
#define ascend_conv2d_bias_relu ascend_conv2d_bias_relu_float
#include "op_kernel/ascend_conv2d_bias_relu.cpp"
#undef DTYPE_X
#undef ascend_conv2d_bias_relu

#define DTYPE_X half
#define ascend_conv2d_bias_relu ascend_conv2d_bias_relu_half
#include "op_kernel/ascend_conv2d_bias_relu.cpp"
#undef DTYPE_X
#undef ascend_conv2d_bias_relu

#define DTYPE_X bfloat16_t
#define ascend_conv2d_bias_relu ascend_conv2d_bias_relu_bfloat16
#include "op_kernel/ascend_conv2d_bias_relu.cpp"
#undef DTYPE_X
#undef ascend_conv2d_bias_relu
#endif

namespace ascend_ops {
namespace {

constexpr char kName[] = "conv2d_bias_relu";

#if CPUSIM_HAS_CUBE_UNIT
template <void (*kEntry)(GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR)>
void Call(const AscendTensor* tensors, uint8_t* tiling) {
    const auto address = [&](int i) { return static_cast<uint8_t*>(tensors[i].data); };
    kEntry(address(0), address(1), address(2), address(3), address(4), tiling);
}

constexpr KernelBody kBodies[] = {Call<ascend_conv2d_bias_relu_float>,
                                  Call<ascend_conv2d_bias_relu_half>,
                                  Call<ascend_conv2d_bias_relu_bfloat16>};
#else
constexpr KernelBody kBodies[] = {nullptr, nullptr, nullptr};
#endif

int Plan(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    const int unit = CheckCubeUnit(kName, error);
    if (unit != ASCEND_OK) return unit;
    const int supported = CheckDtype(problem->dtype, kBodies, kName, error);
    if (supported != ASCEND_OK) return supported;
    Conv2dBiasReluTiling tiling;
    static_assert(sizeof tiling <= ASCEND_TILING_BYTES, "tiling fits the plan");
    const ConvStatus status = TileConv2dBiasRelu(
        ReadConvShape(*problem), ReadConvActivation(*problem), ElementBytes(problem->dtype),
        problem->dtype != ASCEND_BFLOAT16, CubeCoreCount(), &tiling);
    if (status != ConvStatus::kOk) return Fail(error, ASCEND_INVALID, ConvMessage(status));
    plan->core_count = static_cast<int32_t>(tiling.cube.core_count);
    plan->workspace_bytes = WorkspaceBytes(tiling.cube);
    std::memcpy(plan->tiling, &tiling, sizeof tiling);
    return ASCEND_OK;
}

int Run(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
        int32_t begin, int32_t end, AscendError* error) {
    return RunMixedCores(kName, kBodies[problem->dtype], 4, plan, tensors, begin, end, error);
}

}  // namespace

extern const AscendOperator kConv2dBiasReluCpusim;
const AscendOperator kConv2dBiasReluCpusim = {ASCEND_CUBE_NAME("conv2d_bias_relu"), 4, Plan, Run};

}  // namespace ascend_ops
