// The matrix product's host side under CANN: definition, shapes and tiling.
#include "../../common/cube_host_support.h"
#include "../matmul_bias_act_tiling.h"

namespace ascend_ops {

static ge::graphStatus TilingOfMatmul(gert::TilingContext* context) {
    const auto& a = context->GetInputShape(0)->GetOriginShape();
    const auto& b = context->GetInputShape(1)->GetOriginShape();
    const gert::RuntimeAttrs* attributes = context->GetAttrs();
    const bool transpose_a = *attributes->GetBool(0), transpose_b = *attributes->GetBool(1);
    const MatmulProblem problem = {a.GetDim(transpose_a ? 1 : 0), b.GetDim(transpose_b ? 0 : 1),
                                   a.GetDim(transpose_a ? 0 : 1), transpose_a, transpose_b,
                                   ActivationOf(attributes->GetStr(2))};
    auto* tiling = context->GetTilingData<MatmulBiasActTiling>();
    const MatmulStatus status = TileMatmulBiasAct(
        problem, ElementBytes(context), BiasFitsTable(context), CubeCores(context), tiling);
    if (status != MatmulStatus::kOk) return ge::GRAPH_FAILED;
    return FinishCubeTiling(context, tiling->cube);
}

static ge::graphStatus ShapeOfMatmul(gert::InferShapeContext* context) {
    const gert::Shape* a = context->GetInputShape(0);
    const gert::Shape* b = context->GetInputShape(1);
    const gert::RuntimeAttrs* attributes = context->GetAttrs();
    gert::Shape* y = context->GetOutputShape(0);
    y->SetDimNum(2);
    y->SetDim(0, a->GetDim(*attributes->GetBool(0) ? 1 : 0));
    y->SetDim(1, b->GetDim(*attributes->GetBool(1) ? 0 : 1));
    return ge::GRAPH_SUCCESS;
}

}  // namespace ascend_ops

namespace ops {

class AscendMatmulBiasAct : public OpDef {
public:
    explicit AscendMatmulBiasAct(const char* name) : OpDef(name)
    {
        ascend_ops::DeclareTensor(this->Input("a"), ascend_ops::FloatTypes());
        ascend_ops::DeclareTensor(this->Input("b"), ascend_ops::FloatTypes());
        ascend_ops::DeclareTensor(this->Input("bias"), ascend_ops::FloatTypes());
        ascend_ops::DeclareTensor(this->Output("y"), ascend_ops::FloatTypes());
        this->Attr("transpose_a").AttrType(OPTIONAL).Bool(false);
        this->Attr("transpose_b").AttrType(OPTIONAL).Bool(false);
        this->Attr("activation").AttrType(OPTIONAL).String("none");
        this->SetInferShape(ascend_ops::ShapeOfMatmul).SetInferDataType(ascend_ops::SameType);
        this->AICore()
            .SetTiling(ascend_ops::TilingOfMatmul)
            .AddConfig("ascend910b")
            .AddConfig("ascend910_93")
            .AddConfig("ascend950");
    }
};
OP_ADD(AscendMatmulBiasAct);

}  // namespace ops
