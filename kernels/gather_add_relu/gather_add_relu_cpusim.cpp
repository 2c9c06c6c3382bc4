// Gather, add and relu on cpusim: the entry file compiled for each pair of types, and its plan.
#include "../runtime/cpusim_operator.h"
#include "kernel_operator.h"
#include "gather_add_relu_kernel.h"

#define DTYPE_TABLE float
#define DTYPE_INDICES int32_t
#define ascend_gather_add_relu ascend_gather_add_relu_float_int32
#include "op_kernel/ascend_gather_add_relu.cpp"
#undef DTYPE_TABLE
#undef DTYPE_INDICES
#undef ascend_gather_add_relu

#define DTYPE_TABLE float
#define DTYPE_INDICES int64_t
#define ascend_gather_add_relu ascend_gather_add_relu_float_int64
#include "op_kernel/ascend_gather_add_relu.cpp"
#undef DTYPE_TABLE
#undef DTYPE_INDICES
#undef ascend_gather_add_relu

#define DTYPE_TABLE half
#define DTYPE_INDICES int32_t
#define ascend_gather_add_relu ascend_gather_add_relu_half_int32
#include "op_kernel/ascend_gather_add_relu.cpp"
#undef DTYPE_TABLE
#undef DTYPE_INDICES
#undef ascend_gather_add_relu

#define DTYPE_TABLE half
#define DTYPE_INDICES int64_t
#define ascend_gather_add_relu ascend_gather_add_relu_half_int64
#include "op_kernel/ascend_gather_add_relu.cpp"
#undef DTYPE_TABLE
#undef DTYPE_INDICES
#undef ascend_gather_add_relu

#if CPUSIM_HAS_BFLOAT16
#define DTYPE_TABLE bfloat16_t
#define DTYPE_INDICES int32_t
#define ascend_gather_add_relu ascend_gather_add_relu_bfloat16_int32
#include "op_kernel/ascend_gather_add_relu.cpp"
#undef DTYPE_TABLE
#undef DTYPE_INDICES
#undef ascend_gather_add_relu

#define DTYPE_TABLE bfloat16_t
#define DTYPE_INDICES int64_t
#define ascend_gather_add_relu ascend_gather_add_relu_bfloat16_int64
#include "op_kernel/ascend_gather_add_relu.cpp"
#undef DTYPE_TABLE
#undef DTYPE_INDICES
#undef ascend_gather_add_relu
#endif

namespace ascend_ops {
namespace {

template <void (*kEntry)(GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR)>
void Call(const AscendTensor* tensors, uint8_t* tiling) {
    kEntry(static_cast<uint8_t*>(tensors[0].data), static_cast<uint8_t*>(tensors[1].data),
           static_cast<uint8_t*>(tensors[2].data), static_cast<uint8_t*>(tensors[3].data), nullptr,
           tiling);
}

constexpr KernelBody kBodiesOfInt32[] = {Call<ascend_gather_add_relu_float_int32>,
                                         Call<ascend_gather_add_relu_half_int32>,
#if CPUSIM_HAS_BFLOAT16
                                         Call<ascend_gather_add_relu_bfloat16_int32>
#endif
};
constexpr KernelBody kBodiesOfInt64[] = {Call<ascend_gather_add_relu_float_int64>,
                                         Call<ascend_gather_add_relu_half_int64>,
#if CPUSIM_HAS_BFLOAT16
                                         Call<ascend_gather_add_relu_bfloat16_int64>
#endif
};

// sizes: lookups, rows of the table, width, 1 when the addend is one row (0: the result's shape),
// bytes of an index (4 or 8).
int Plan(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    const int supported = CheckDtype(problem->dtype, kBodiesOfInt32, "gather_add_relu", error);
    if (supported != ASCEND_OK) return supported;
    const int64_t* sizes = problem->sizes;
    if (sizes[4] != 4 && sizes[4] != 8) {
        return Fail(error, ASCEND_INVALID, "gather_add_relu: indices have 4 or 8 bytes");
    }
    GatherAddReluTiling tiling;
    static_assert(sizeof tiling <= ASCEND_TILING_BYTES, "tiling fits the plan");
    switch (TileGatherAddRelu(sizes[0], sizes[1], sizes[2], sizes[3] != 0,
                              ElementBytes(problem->dtype), static_cast<uint32_t>(sizes[4]),
                              cpusim::kHasDataCopyPad, EmulatedPlatform(), &tiling)) {
        case GatherStatus::kNegativeSize:
            return Fail(error, ASCEND_INVALID, "gather_add_relu: a size is negative");
        case GatherStatus::kUnalignedWidth:
            return Fail(error, ASCEND_INVALID,
                        "gather_add_relu: on this SoC a row must be a multiple of 32 bytes");
        case GatherStatus::kOk: break;
    }
    plan->core_count = static_cast<int32_t>(tiling.core_count);
    plan->workspace_bytes = 0;
    std::memcpy(plan->tiling, &tiling, sizeof tiling);
    return ASCEND_OK;
}

int Run(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
        int32_t begin, int32_t end, AscendError* error) {
    const KernelBody* bodies = problem->sizes[4] == 8 ? kBodiesOfInt64 : kBodiesOfInt32;
    return RunCores("gather_add_relu", bodies[problem->dtype], 4, plan, tensors, begin, end, error);
}

}  // namespace

extern const AscendOperator kGatherAddRelu;
const AscendOperator kGatherAddRelu = {"gather_add_relu", 4, Plan, Run};

}  // namespace ascend_ops
