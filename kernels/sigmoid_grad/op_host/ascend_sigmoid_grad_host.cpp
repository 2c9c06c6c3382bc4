// The sigmoid gradient's host side under CANN: definition, shapes and tiling.
#include "../../common/op_host_support.h"
#include "../sigmoid_grad_tiling.h"

namespace ascend_ops {

static ge::graphStatus TilingOfSigmoidGrad(gert::TilingContext* context) {
    const int64_t length = context->GetInputShape(0)->GetOriginShape().GetShapeSize();
    auto* tiling = context->GetTilingData<SigmoidGradTiling>();
    const TilingStatus status =
        TileSigmoidGrad(length, ElementBytes(context), DevicePlatform(context), tiling);
    if (status != TilingStatus::kOk) return ge::GRAPH_FAILED;
    return FinishTiling(context, tiling->core_count);
}

}  // namespace ascend_ops

namespace ops {

class AscendSigmoidGrad : public OpDef {
public:
    explicit AscendSigmoidGrad(const char* name) : OpDef(name)
    {
        ascend_ops::DeclareTensor(this->Input("y"), ascend_ops::FloatTypes());
        ascend_ops::DeclareTensor(this->Input("dy"), ascend_ops::FloatTypes());
        ascend_ops::DeclareTensor(this->Output("dx"), ascend_ops::FloatTypes());
        this->SetInferShape(ascend_ops::SameShape).SetInferDataType(ascend_ops::SameType);
        this->AICore()
            .SetTiling(ascend_ops::TilingOfSigmoidGrad)
            .AddConfig("ascend910b")
            .AddConfig("ascend910_93")
            .AddConfig("ascend950");
    }
};
OP_ADD(AscendSigmoidGrad);

}  // namespace ops
