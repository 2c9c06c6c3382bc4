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
        this->Input("y")
            .ParamType(REQUIRED)
            .DataType({ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16})
            .Format({ge::FORMAT_ND, ge::FORMAT_ND, ge::FORMAT_ND});
        this->Input("dy")
            .ParamType(REQUIRED)
            .DataType({ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16})
            .Format({ge::FORMAT_ND, ge::FORMAT_ND, ge::FORMAT_ND});
        this->Output("dx")
            .ParamType(REQUIRED)
            .DataType({ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16})
            .Format({ge::FORMAT_ND, ge::FORMAT_ND, ge::FORMAT_ND});
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
