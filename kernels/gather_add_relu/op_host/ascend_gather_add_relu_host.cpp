// The host side of gather, add and relu under CANN: definition, shapes and tiling.
#include "../../common/op_host_support.h"
#include "../gather_add_relu_tiling.h"

namespace ascend_ops {

// The table's first axis is looked up; the others are the row.
static ge::graphStatus TilingOfGather(gert::TilingContext* context) {
    const auto& table = context->GetInputShape(0)->GetOriginShape();
    const auto& addend = context->GetInputShape(2)->GetOriginShape();
    const int64_t lookups = context->GetInputShape(1)->GetOriginShape().GetShapeSize();
    const int64_t rows = table.GetDim(0);
    int64_t width = 1;
    for (size_t axis = 1; axis < table.GetDimNum(); ++axis) width *= table.GetDim(axis);
    const int64_t added = addend.GetShapeSize();
    if (added != width && added != lookups * width) return ge::GRAPH_FAILED;
    const uint32_t index_bytes = context->GetInputDesc(1)->GetDataType() == ge::DT_INT64 ? 8 : 4;
    auto* tiling = context->GetTilingData<GatherAddReluTiling>();
    const GatherStatus status =
        TileGatherAddRelu(lookups, rows, width, added == width, ElementBytes(context), index_bytes,
                          true, DevicePlatform(context), tiling);
    if (status != GatherStatus::kOk) return ge::GRAPH_FAILED;
    return FinishTiling(context, tiling->core_count);
}

// The shape of the indices, and then that of a row.
static ge::graphStatus ShapeOfGather(gert::InferShapeContext* context) {
    const gert::Shape* table = context->GetInputShape(0);
    const gert::Shape* indices = context->GetInputShape(1);
    gert::Shape* y = context->GetOutputShape(0);
    const size_t lookup_rank = indices->GetDimNum();
    y->SetDimNum(lookup_rank + table->GetDimNum() - 1);
    for (size_t axis = 0; axis < lookup_rank; ++axis) y->SetDim(axis, indices->GetDim(axis));
    for (size_t axis = 1; axis < table->GetDimNum(); ++axis) {
        y->SetDim(lookup_rank + axis - 1, table->GetDim(axis));
    }
    return ge::GRAPH_SUCCESS;
}

}  // namespace ascend_ops

namespace ops {

class AscendGatherAddRelu : public OpDef {
public:
    explicit AscendGatherAddRelu(const char* name) : OpDef(name)
    {
        // Each type of the table with each type of the indices.
        std::vector<ge::DataType> types = ascend_ops::FloatTypes();
        types.insert(types.end(), {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16});
        ascend_ops::DeclareTensor(this->Input("table"), types);
        ascend_ops::DeclareTensor(this->Input("indices"),
                                  {ge::DT_INT32, ge::DT_INT32, ge::DT_INT32, ge::DT_INT64,
                                   ge::DT_INT64, ge::DT_INT64});
        ascend_ops::DeclareTensor(this->Input("addend"), types);
        ascend_ops::DeclareTensor(this->Output("y"), types);
        this->SetInferShape(ascend_ops::ShapeOfGather).SetInferDataType(ascend_ops::SameType);
        this->AICore()
            .SetTiling(ascend_ops::TilingOfGather)
            .AddConfig("ascend910b")
            .AddConfig("ascend910_93")
            .AddConfig("ascend950");
    }
};
OP_ADD(AscendGatherAddRelu);

}  // namespace ops
