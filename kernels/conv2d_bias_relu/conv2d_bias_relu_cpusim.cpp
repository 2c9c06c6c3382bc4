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

struct ConvOperator {
    using Tiling = Conv2dBiasReluTiling;
    static constexpr char kName[] = "conv2d_bias_relu";
#if CPUSIM_HAS_CUBE_UNIT
    static constexpr KernelBody kBodies[] = {CallCube<ascend_conv2d_bias_relu_float>,
                                             CallCube<ascend_conv2d_bias_relu_half>,
                                             CallCube<ascend_conv2d_bias_relu_bfloat16>};
#else
    static constexpr KernelBody kBodies[] = {nullptr, nullptr, nullptr};
#endif

    static const char* Tile(const AscendProblem& problem, Tiling* tiling) {
        return ConvMessage(TileConv2dBiasRelu(
            ReadConvShape(problem), ReadConvActivation(problem), ElementBytes(problem.dtype),
            problem.dtype != ASCEND_BFLOAT16, CubeCoreCount(), tiling));
    }
};

}  // namespace

extern const AscendOperator kConv2dBiasReluCpusim;
const AscendOperator kConv2dBiasReluCpusim = {ASCEND_CUBE_NAME("conv2d_bias_relu"), kCubeTensors,
                                      PlanCube<ConvOperator>, RunCube<ConvOperator>};

}  // namespace ascend_ops
