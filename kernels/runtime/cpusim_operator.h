// What an operator's cpusim file needs: the platform, and running a kernel core by core.
#pragma once

#include <cstdio>
#include <cstring>

#include "../common/elementwise_tiling.h"
#include "ascend_abi.h"
#include "cpusim/core.h"

namespace ascend_ops {

using KernelBody = void (*)(const AscendTensor* tensors, uint8_t* tiling);

// The emulated SoC. Its tiles are small enough that the buffers of a core stay in the first-level
// cache of a CPU, which has no Unified Buffer to fill; the checked build uses the hardware's size.
inline Platform EmulatedPlatform() {
    Platform platform;
    platform.core_count = cpusim::kArch == 2201 ? 40 : 8;
    platform.unified_buffer_bytes = cpusim::kUnifiedBufferBytes;
    platform.tile_elements_max = cpusim::kChecked ? kTileElementsMax : 2048;
    return platform;
}

inline int Fail(AscendError* error, int code, const char* text) {
    std::snprintf(error->text, sizeof error->text, "%s", text);
    return code;
}

// Refuses a type that the operator has no kernel for on this SoC; the bodies stand in the order of
// the ABI's type numbers.
template <int kCount>
int CheckDtype(int32_t dtype, const KernelBody (&)[kCount], const char* name, AscendError* error) {
    if (dtype >= 0 && dtype < kCount) return ASCEND_OK;
    std::snprintf(error->text, sizeof error->text,
                  "%s: type %s does not exist on SoC family %d; use float or half", name,
                  dtype == ASCEND_BFLOAT16 ? "bfloat16" : "of an unknown number", cpusim::kArch);
    return ASCEND_INVALID;
}

inline uint32_t ElementBytes(int32_t dtype) { return dtype == ASCEND_FLOAT ? 4 : 2; }

// Turns the tiling of an elementwise operator into a plan.
int PlanElementwise(TilingStatus status, const ElementwiseTiling& tiling, const char* name,
                    AscendPlan* plan, AscendError* error);

#if CPUSIM_CHECKED
// The estimate of AscendLibrary.
int EstimateCycles(const AscendOperator* op, const AscendProblem* problem, const AscendPlan* plan,
                   const AscendTensor* tensors, AscendEstimate* estimate, AscendError* error);
#endif

// Runs `body` for the cores [begin, end), each with a fresh Unified Buffer.
int RunCores(const char* name, KernelBody body, int32_t tensor_count, const AscendPlan* plan,
             const AscendTensor* tensors, int32_t begin, int32_t end, AscendError* error);

// The same for kernels of the cube unit: a core of the plan is a block of one cube core and two
// vector cores, and the workspace, after the tensors, is theirs as well.
int RunMixedCores(const char* name, KernelBody body, int32_t tensor_count, const AscendPlan* plan,
                  const AscendTensor* tensors, int32_t begin, int32_t end, AscendError* error);

}  // namespace ascend_ops
