// matmul_bias_act on CPUs: the same operator as the Ascend C kernel's, by a tuned product.
#include <cstdio>
#include <cstring>

#include "../runtime/matmul_bias_act_problem.h"
#include "gemm.h"
#include "matrix_rows.h"

namespace ascend_ops {
namespace {

// Where a task's rows come from.
class MatrixLeft : public cpu::LeftRows {
   public:
    explicit MatrixLeft(const cpu::Matrix& matrix) : matrix_(matrix) {}

    void ReadBlock(float* to, int64_t pitch, int64_t row, int64_t rows, int64_t first,
                   int64_t count) const override {
        cpu::WithType(matrix_.dtype, matrix_.data, [&](const auto* data) {
            if (matrix_.transposed) {
                cpu::WidenTransposed(to, pitch, data + first * matrix_.pitch + row, matrix_.pitch,
                                     rows, count);
                return;
            }
            for (int64_t i = 0; i < rows; ++i) {
                cpu::Widen(to + i * pitch, data + (row + i) * matrix_.pitch + first, count);
            }
        });
    }

   private:
    const cpu::Matrix matrix_;
};

cpu::Matrix RightOf(const MatmulProblem& problem, int32_t dtype, const void* data) {
    return {data, dtype, problem.transpose_b, problem.transpose_b ? problem.k : problem.n};
}

int Plan(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    const MatmulProblem matmul = ReadMatmulProblem(*problem);
    MatmulBiasActTiling tiling;  // the device's limits are this operator's limits
    const MatmulStatus status = TileMatmulBiasAct(matmul, 4, true, 1, &tiling);
    if (status != MatmulStatus::kOk || problem->dtype < 0 || problem->dtype > ASCEND_BFLOAT16) {
        std::snprintf(error->text, sizeof error->text, "%s",
                      status != MatmulStatus::kOk ? MatmulMessage(status)
                                                  : "matmul_bias_act: the type is unknown");
        return ASCEND_INVALID;
    }
    const cpu::GemmPlan gemm = cpu::PlanGemm(
        {matmul.m, matmul.n, matmul.k}, static_cast<cpu::Activation>(matmul.activation),
        RightOf(matmul, problem->dtype, nullptr), cpu::CpuCount(),
        static_cast<uint64_t>(problem->sizes[6]));
    static_assert(sizeof gemm <= ASCEND_TILING_BYTES, "the plan has room for it");
    plan->core_count = cpu::GemmTasks(gemm);
    plan->workspace_bytes = cpu::GemmWorkspaceBytes(gemm);
    std::memcpy(plan->tiling, &gemm, sizeof gemm);
    return ASCEND_OK;
}

int Run(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
        int32_t begin, int32_t end, AscendError*) {
    cpu::GemmPlan gemm;
    std::memcpy(&gemm, plan->tiling, sizeof gemm);
    const MatmulProblem matmul = ReadMatmulProblem(*problem);
    const MatrixLeft left({tensors[0].data, problem->dtype, matmul.transpose_a,
                           matmul.transpose_a ? matmul.m : matmul.k});
    const cpu::GemmOperands operands = {&left,
                                        RightOf(matmul, problem->dtype, tensors[1].data),
                                        tensors[2].data,
                                        tensors[3].data,
                                        problem->dtype,
                                        tensors[4].data};
    cpu::RunGemm(gemm, operands, begin, end);
    return ASCEND_OK;
}

}  // namespace

extern const AscendOperator kMatmulBiasActCpu;
const AscendOperator kMatmulBiasActCpu = {"matmul_bias_act", 4, Plan, Run};

}  // namespace ascend_ops
