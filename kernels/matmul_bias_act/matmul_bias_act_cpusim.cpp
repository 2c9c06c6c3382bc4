// The matrix product on cpusim: the entry file compiled for each type, and its plan.
#include "../runtime/cpusim_cube.h"
#include "kernel_operator.h"

#include "../runtime/matmul_bias_act_problem.h"

#if CPUSIM_HAS_CUBE_UNIT
#include "matmul_bias_act_kernel.h"

#define DTYPE_A float
#define ascend_matmul_bias_act ascend_matmul_bias_act_float
#include "op_kernel/ascend_matmul_bias_act.cpp"
#undef DTYPE_A
#undef ascend_matmul_bias_act

#define DTYPE_A half
#define ascend_matmul_bias_act ascend_matmul_bias_act_half
#include "op_kernel/ascend_matmul_bias_act.cpp"
#undef DTYPE_A
#undef ascend_matmul_bias_act

#define DTYPE_A bfloat16_t
#define ascend_matmul_bias_act ascend_matmul_bias_act_bfloat16
#include "op_kernel/ascend_matmul_bias_act.cpp"
#undef DTYPE_A
#undef ascend_matmul_bias_act
#endif

namespace ascend_ops {
namespace {

struct MatmulOperator {
    using Tiling = MatmulBiasActTiling;
    static constexpr char kName[] = "matmul_bias_act";
#if CPUSIM_HAS_CUBE_UNIT
    static constexpr KernelBody kBodies[] = {CallCube<ascend_matmul_bias_act_float>,
                                             CallCube<ascend_matmul_bias_act_half>,
                                             CallCube<ascend_matmul_bias_act_bfloat16>};
#else
    static constexpr KernelBody kBodies[] = {nullptr, nullptr, nullptr};
#endif

    static const char* Tile(const AscendProblem& problem, Tiling* tiling) {
        return MatmulMessage(TileMatmulBiasAct(
            ReadMatmulProblem(problem), ElementBytes(problem.dtype),
            problem.dtype != ASCEND_BFLOAT16, CubeCoreCount(), tiling));
    }
};

}  // namespace

extern const AscendOperator kMatmulBiasActCpusim;
const AscendOperator kMatmulBiasActCpusim = {ASCEND_CUBE_NAME("matmul_bias_act"), kCubeTensors,
                                      PlanCube<MatmulOperator>, RunCube<MatmulOperator>};

}  // namespace ascend_ops
