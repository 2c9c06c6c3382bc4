// What the operators' host sides share under CANN: the platform, and the outcome of a tiling.
#pragma once

#include <utility>
#include <vector>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

#include "elementwise_tiling.h"

namespace ascend_ops {

// The types of an operator's variants, one each.
inline std::vector<ge::DataType> FloatTypes() {
    return {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16};
}

// Declares a tensor that must be given, in any layout: its type in each variant of the operator.
inline void DeclareTensor(ops::OpParamDef& tensor, std::vector<ge::DataType> types) {
    std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
    tensor.ParamType(ops::REQUIRED).DataType(std::move(types)).Format(std::move(formats));
}

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
