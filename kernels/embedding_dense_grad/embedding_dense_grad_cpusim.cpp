// The embedding gradient on cpusim: the entry file compiled for each type, and its plan.
#include "../runtime/cpusim_operator.h"
#include "kernel_operator.h"
#include "embedding_dense_grad_kernel.h"

#define DTYPE_GRAD float
#define ascend_embedding_dense_grad ascend_embedding_dense_grad_float
#include "op_kernel/ascend_embedding_dense_grad.cpp"
#undef DTYPE_GRAD
#undef ascend_embedding_dense_grad

#define DTYPE_GRAD half
#define ascend_embedding_dense_grad ascend_embedding_dense_grad_half
#include "op_kernel/ascend_embedding_dense_grad.cpp"
#undef DTYPE_GRAD
#undef ascend_embedding_dense_grad

#if CPUSIM_HAS_BFLOAT16
#define DTYPE_GRAD bfloat16_t
#define ascend_embedding_dense_grad ascend_embedding_dense_grad_bfloat16
#include "op_kernel/ascend_embedding_dense_grad.cpp"
#undef DTYPE_GRAD
#undef ascend_embedding_dense_grad
#endif

namespace ascend_ops {
namespace {

template <void (*kEntry)(GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR)>
void Call(const AscendTensor* tensors, uint8_t* tiling) {
    kEntry(static_cast<uint8_t*>(tensors[0].data), static_cast<uint8_t*>(tensors[1].data),
           static_cast<uint8_t*>(tensors[2].data), nullptr, tiling);
}

constexpr KernelBody kBodies[] = {Call<ascend_embedding_dense_grad_float>, Call<ascend_embedding_dense_grad_half>,
#if CPUSIM_HAS_BFLOAT16
                                  Call<ascend_embedding_dense_grad_bfloat16>
#endif
};

int Run(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
        int32_t begin, int32_t end, AscendError* error) {
    return RunCores("embedding_dense_grad", kBodies[problem->dtype], 3, plan, tensors, begin, end, error);
}

}  // namespace

// sizes: lookups, rows of the table, width, padding index (−1: none), scale by frequency (0 or 1).
// The CPU backend refuses what this plan refuses.
int PlanEmbeddingDenseGrad(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    const int supported = CheckDtype(problem->dtype, kBodies, "embedding_dense_grad", error);
    if (supported != ASCEND_OK) return supported;
    const int64_t* sizes = problem->sizes;
    if (sizes[0] > INT32_MAX || sizes[1] > INT32_MAX) {
        return Fail(error, ASCEND_INVALID,
                    "embedding_dense_grad: at most 2147483647 lookups and rows");
    }
    EmbeddingDenseGradTiling tiling;
    static_assert(sizeof tiling <= ASCEND_TILING_BYTES, "tiling fits the plan");
    switch (TileEmbeddingDenseGrad(sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] != 0,
                                   ElementBytes(problem->dtype), cpusim::kHasDataCopyPad,
                                   EmulatedPlatform(), &tiling)) {
        case EmbeddingStatus::kNegativeSize:
            return Fail(error, ASCEND_INVALID, "embedding_dense_grad: a size is negative");
        case EmbeddingStatus::kPaddingIndex:
            std::snprintf(error->text, sizeof error->text,
                          "embedding_dense_grad: padding_idx is %lld, which is not a row of the "
                          "table of %lld rows; use -1 for no padding",
                          static_cast<long long>(sizes[3]), static_cast<long long>(sizes[1]));
            return ASCEND_INVALID;
        case EmbeddingStatus::kUnalignedWidth:
            return Fail(error, ASCEND_INVALID,
                        "embedding_dense_grad: on this SoC a row must be a multiple of 32 bytes");
        case EmbeddingStatus::kOk: break;
    }
    plan->core_count = static_cast<int32_t>(tiling.core_count);
    plan->workspace_bytes = 0;
    std::memcpy(plan->tiling, &tiling, sizeof tiling);
    return ASCEND_OK;
}

extern const AscendOperator kEmbeddingDenseGradCpusim;
const AscendOperator kEmbeddingDenseGradCpusim = {
    cpusim::kChecked ? "embedding_dense_grad" : "embedding_dense_grad_cpusim", 3,
    PlanEmbeddingDenseGrad, Run};

}  // namespace ascend_ops
