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

#if defined(__AVX512F__)
using Bits = uint32_t __attribute__((vector_size(64)));

// Halves never leave the registers between their two conversions. Their sigmoid needs neither selects
// nor a division, and is the same half as that of Sigmoid's float for each of the 65,536.
__m512 SigmoidForHalf(__m512 x) {
    constexpr __mmask16 kAll = 0xffff;
    const __m512 end = _mm512_set1_ps(20.0f);  // beyond it the half is 0 or 1
    // Of a NaN and another number min and max give their second operand: here the NaN.
    const __m512 low = _mm512_maskz_min_ps(kAll, end, -x);
    const __m512 t = _mm512_maskz_max_ps(kAll, -end, low);
    const __m512 d = cpusim::ExpInRange<__m512, Bits>(t) + 1.0f;
    const __m512 guess = _mm512_maskz_rcp14_ps(kAll, d);  // of 14 bits; one of Newton's steps: 28
    return guess + guess * (1.0f - d * guess);
}

void Compute(cpu::Half* y, const cpu::Half* x, int64_t count) {
    constexpr int64_t kLanes = 16;
    constexpr __mmask16 kAll = 0xffff;
    const int64_t whole = count / kLanes * kLanes;
    for (int64_t i = 0; i < whole; i += kLanes) {
        const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
        const __m512 result = SigmoidForHalf(_mm512_maskz_cvtph_ps(kAll, bits));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                            _mm512_maskz_cvtps_ph(kAll, result, _MM_FROUND_TO_NEAREST_INT));
    }
    Compute<cpu::Half>(y + whole, x + whole, count - whole);
}
#endif

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
