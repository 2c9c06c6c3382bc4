// What the operators' host sides share under CANN: the platform, and the outcome of a tiling.
#pragma once

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

#include "elementwise_tiling.h"

namespace ascend_ops {

// Some vector instructions of 2201 and 3510 keep the top of the Unified Buffer for themselves.
constexpr uint64_t kReservedBytes = 8 * 1024;

inline Platform DevicePlatform(gert::TilingContext* context) {
    const auto soc = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    uint64_t bytes = 0;
    soc.GetCoreMemSize(platform_ascendc::CoreMemType::UB, bytes);
    Platform platform;
    platform.core_count = soc.GetCoreNumAiv();
    platform.unified_buffer_bytes = static_cast<uint32_t>(bytes - kReservedBytes);
    platform.tile_elements_max = kTileElementsMax;
    return platform;
}

inline uint32_t ElementBytes(const gert::TilingContext* context) {
    return context->GetInputDesc(0)->GetDataType() == ge::DT_FLOAT ? 4 : 2;
}

// Hands the number of cores over, and no workspace. A launch needs a core even without work.
inline ge::graphStatus FinishTiling(gert::TilingContext* context, uint32_t core_count) {
    context->SetBlockDim(core_count == 0 ? 1 : core_count);
    size_t* workspace = context->GetWorkspaceSizes(1);
    workspace[0] = 0;
    return ge::GRAPH_SUCCESS;
}

inline ge::graphStatus SameShape(gert::InferShapeContext* context) {
    *context->GetOutputShape(0) = *context->GetInputShape(0);
    return ge::GRAPH_SUCCESS;
}

inline ge::graphStatus SameType(gert::InferDataTypeContext* context) {
    context->SetOutputDataType(0, context->GetInputDataType(0));
    return ge::GRAPH_SUCCESS;
}

}  // namespace ascend_ops
