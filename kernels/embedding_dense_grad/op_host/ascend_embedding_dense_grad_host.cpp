// The embedding gradient's host side under CANN: definition, shapes and tiling. The name is not
// that of CANN's own EmbeddingDenseGrad, so that both can be installed.
#include "../../common/op_host_support.h"
#include "../embedding_dense_grad_tiling.h"

namespace ascend_ops {

static ge::graphStatus TilingOfEmbedding(gert::TilingContext* context) {
    const auto& grad = context->GetInputShape(0)->GetOriginShape();
    const int64_t lookups = context->GetInputShape(1)->GetOriginShape().GetShapeSize();
    const gert::RuntimeAttrs* attributes = context->GetAttrs();
    auto* tiling = context->GetTilingData<EmbeddingDenseGradTiling>();
    const EmbeddingStatus status = TileEmbeddingDenseGrad(
        lookups, *attributes->GetAttrPointer<int64_t>(0), grad.GetDim(grad.GetDimNum() - 1),
        *attributes->GetAttrPointer<int64_t>(1), *attributes->GetAttrPointer<bool>(2),
        ElementBytes(context), true, DevicePlatform(context), tiling);
    if (status != EmbeddingStatus::kOk) return ge::GRAPH_FAILED;
    return FinishTiling(context, tiling->core_count);
}

static ge::graphStatus ShapeOfEmbedding(gert::InferShapeContext* context) {
    const gert::Shape* grad = context->GetInputShape(0);
    gert::Shape* table = context->GetOutputShape(0);
    table->SetDimNum(2);
    table->SetDim(0, *context->GetAttrs()->GetAttrPointer<int64_t>(0));
    table->SetDim(1, grad->GetDim(grad->GetDimNum() - 1));
    return ge::GRAPH_SUCCESS;
}

}  // namespace ascend_ops

namespace ops {

class AscendEmbeddingDenseGrad : public OpDef {
public:
    explicit AscendEmbeddingDenseGrad(const char* name) : OpDef(name)
    {
        ascend_ops::DeclareTensor(this->Input("grad"), ascend_ops::FloatTypes());
        ascend_ops::DeclareTensor(this->Input("indices"),
                                  {ge::DT_INT32, ge::DT_INT32, ge::DT_INT32});
        ascend_ops::DeclareTensor(this->Output("table_grad"), ascend_ops::FloatTypes());
        this->Attr("num_weights").AttrType(REQUIRED).Int();
        this->Attr("padding_idx").AttrType(OPTIONAL).Int(-1);
        this->Attr("scale_grad_by_freq").AttrType(OPTIONAL).Bool(false);
        this->SetInferShape(ascend_ops::ShapeOfEmbedding).SetInferDataType(ascend_ops::SameType);
        this->AICore()
            .SetTiling(ascend_ops::TilingOfEmbedding)
            .AddConfig("ascend910b")
            .AddConfig("ascend910_93")
            .AddConfig("ascend950");
    }
};
OP_ADD(AscendEmbeddingDenseGrad);

}  // namespace ops
