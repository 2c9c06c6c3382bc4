// matmul_bias_act on CPUs: the same operator as the Ascend C kernel's, by a tuned product.
#include "../runtime/matmul_bias_act_problem.h"
#include "gemm_operator.h"
#include "left_matrix.h"

namespace ascend_ops {
namespace {

cpu::Matrix RightOf(const MatmulProblem& problem, int32_t dtype, const void* data) {
    return {data, dtype, problem.transpose_b, problem.transpose_b ? problem.k : problem.n};
}

int Plan(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    const MatmulProblem matmul = ReadMatmulProblem(*problem);
    MatmulBiasActTiling tiling;  // the device's limits are this operator's limits
    const char* wrong = MatmulMessage(TileMatmulBiasAct(matmul, 4, true, 1, &tiling));
    const int code = cpu::CheckProblem(*problem, wrong, "matmul_bias_act", error);
    if (code != ASCEND_OK) return code;
    return cpu::WritePlan(
        cpu::PlanGemm({{matmul.m, matmul.n, matmul.k},
                       static_cast<cpu::Activation>(matmul.activation),
                       RightOf(matmul, problem->dtype, nullptr), cpu::CpuCount(),
                       static_cast<uint64_t>(problem->sizes[6])}),
        plan);
}

int Run(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
        int32_t begin, int32_t end, AscendError*) {
    const MatmulProblem matmul = ReadMatmulProblem(*problem);
    const cpu::LeftMatrix left({tensors[0].data, problem->dtype, matmul.transpose_a,
                                matmul.transpose_a ? matmul.m : matmul.k});
    return cpu::RunPlan(*plan, tensors, left, RightOf(matmul, problem->dtype, tensors[1].data),
                        begin, end);
}

}  // namespace

extern const AscendOperator kMatmulBiasActCpu;
const AscendOperator kMatmulBiasActCpu = {"matmul_bias_act", 4, Plan, Run};

}  // namespace ascend_ops
