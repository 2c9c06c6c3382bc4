// What the host sides of the cube operators share under CANN: cores, activation, workspace.
#pragma once

#include <cstring>

#include "cube_gemm_tiling.h"
#include "op_host_support.h"

namespace ascend_ops {

inline uint32_t CubeCores(gert::TilingContext* context) {
    return platform_ascendc::PlatformAscendC(context->GetPlatformInfo()).GetCoreNumAic();
}

// A2 and A3 copy no bfloat16 into the bias table, and 950 gets the same kernel.
inline bool BiasFitsTable(const gert::TilingContext* context) {
    return context->GetInputDesc(0)->GetDataType() != ge::DT_BF16;
}

// The number of an activation's name; one above the last for a name that there is not.
inline uint32_t ActivationOf(const char* name) {
    const char* const names[] = {"none", "relu", "sigmoid"};
    for (uint32_t i = 0; i <= kSigmoid; ++i) {
        if (name != nullptr && std::strcmp(name, names[i]) == 0) return i;
    }
    return kSigmoid + 1;
}

// Hands over the blocks, and a workspace of which CANN keeps the first part.
inline ge::graphStatus FinishCubeTiling(gert::TilingContext* context, const CubeTiling& tiling) {
    const auto soc = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    const ge::graphStatus status = FinishTiling(context, tiling.core_count);
    context->GetWorkspaceSizes(1)[0] = soc.GetLibApiWorkSpaceSize() + WorkspaceBytes(tiling);
    return status;
}

}  // namespace ascend_ops
