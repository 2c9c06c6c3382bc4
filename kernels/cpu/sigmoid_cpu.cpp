// sigmoid on CPUs: one pass over the tensor where the emulated kernel takes six, one an instruction,
// with the same arithmetic, so that both give the same numbers.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "../runtime/cpusim_operator.h"
#include "element.h"
#include "matrix_rows.h"

namespace ascend_ops {
namespace {

// Elements of 16 bits that are widened at once: their floats stay in the first-level cache.
constexpr int64_t kWidened = 1024;

void Compute(float* y, const float* x, int64_t count) {
#pragma GCC ivdep  // the tensors are the same memory or apart, so iterations are independent
    for (int64_t i = 0; i < count; ++i) y[i] = cpu::Sigmoid(x[i]);
}

template <typename T>
void Compute(T* y, const T* x, int64_t count) {
    alignas(64) float wide[kWidened];
    for (int64_t i = 0; i < count; i += kWidened) {
        const int64_t part = std::min(kWidened, count - i);
        cpu::Widen(wide, x + i, part);
        Compute(wide, wide, part);
        cpu::Narrow(y + i, wide, part);
    }
}

// The elements of the cores [begin, end) lie side by side.
int Run(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
        int32_t begin, int32_t end, AscendError*) {
    ElementwiseTiling tiling;
    std::memcpy(&tiling, plan->tiling, sizeof tiling);
    const int64_t first = begin * tiling.core_length;
    const int64_t last = std::min(end * tiling.core_length, tiling.total_length);
    cpu::WithType(problem->dtype, tensors[0].data, [&](const auto* x) {
        using Element = std::remove_const_t<std::remove_pointer_t<decltype(x)>>;
        auto* y = static_cast<Element*>(tensors[1].data);
        Compute(y + first, x + first, last - first);
    });
    return ASCEND_OK;
}

}  // namespace

// The emulated kernel's plan: what the SoC family refuses is refused here as well.
int PlanSigmoid(const AscendProblem* problem, AscendPlan* plan, AscendError* error);

extern const AscendOperator kSigmoidCpu;
const AscendOperator kSigmoidCpu = {"sigmoid", 2, PlanSigmoid, Run};

}  // namespace ascend_ops
