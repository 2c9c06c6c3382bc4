// The sigmoid operator's host side under CANN: definition, shapes and tiling.
#include "../../common/op_host_support.h"
#include "../sigmoid_tiling.h"

namespace ascend_ops {

static ge::graphStatus TilingOfSigmoid(gert::TilingContext* context) {
    const int64_t length = context->GetInputShape(0)->GetOriginShape().GetShapeSize();
    auto* tiling = context->GetTilingData<SigmoidTiling>();
    const TilingStatus status =
        TileSigmoid(length, ElementBytes(context), DevicePlatform(context), tiling);
    if (status != TilingStatus::kOk) return ge::GRAPH_FAILED;
    return FinishTiling(context, tiling->core_count);
}

}  // namespace ascend_ops

namespace ops {

class AscendSigmoid : public OpDef {
public:
    explicit AscendSigmoid(const char* name) : OpDef(name)
    {
        ascend_ops::DeclareTensor(this->Input("x"), ascend_ops::FloatTypes());
        ascend_ops::DeclareTensor(this->Output("y"), ascend_ops::FloatTypes());
        this->SetInferShape(ascend_ops::SameShape).SetInferDataType(ascend_ops::SameType);
        this->AICore()
            .SetTiling(ascend_ops::TilingOfSigmoid)
            .AddConfig("ascend910b")
            .AddConfig("ascend910_93")
            .AddConfig("ascend950");
    }
};
OP_ADD(AscendSigmoid);

}  // namespace ops
