// The table of operators of one build. A new operator is one row here.
#include "ascend_abi.h"
#include "cpusim/arch.h"
#include "cpusim_operator.h"

namespace ascend_ops {

extern const AscendOperator kConv2dBiasReluCpu;
extern const AscendOperator kConv2dBiasReluCpusim;
extern const AscendOperator kEmbeddingDenseGradCpu;
extern const AscendOperator kEmbeddingDenseGradCpusim;
extern const AscendOperator kGatherAddRelu;
extern const AscendOperator kMatmulBiasActCpu;
extern const AscendOperator kMatmulBiasActCpusim;
extern const AscendOperator kSigmoidCpu;
extern const AscendOperator kSigmoidCpusim;
extern const AscendOperator kSigmoidGrad;
extern const AscendOperator kSigmoidNaive;

// The operators of a user's own folders (ASCEND_EXTRA_OPERATORS).
#define ASCEND_OPERATOR(symbol) extern const AscendOperator symbol;
#include "extra_operators.inc"
#undef ASCEND_OPERATOR

namespace {
const AscendOperator* const kOperators[] = {
    &kConv2dBiasReluCpusim, &kEmbeddingDenseGradCpusim, &kGatherAddRelu,
    &kMatmulBiasActCpusim, &kSigmoidCpusim, &kSigmoidGrad,
#define ASCEND_OPERATOR(symbol) &symbol,
#include "extra_operators.inc"
#undef ASCEND_OPERATOR
#if CPUSIM_CHECKED
    &kSigmoidNaive,  // to compare estimates with
#else
    &kConv2dBiasReluCpu, &kEmbeddingDenseGradCpu, &kMatmulBiasActCpu, &kSigmoidCpu,
#endif
};
}

}  // namespace ascend_ops

extern "C" __attribute__((visibility("default"))) const AscendLibrary* ascend_variant() {
    static const AscendLibrary library = {
        ASCEND_ABI_VERSION, ASCEND_VARIANT, cpusim::kArch,
        static_cast<int32_t>(sizeof ascend_ops::kOperators / sizeof ascend_ops::kOperators[0]),
        ascend_ops::kOperators,
#if CPUSIM_CHECKED
        ascend_ops::EstimateCycles
#else
        nullptr
#endif
    };
    return &library;
}
