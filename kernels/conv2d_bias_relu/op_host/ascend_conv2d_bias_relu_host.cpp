// The convolution's host side under CANN: definition, shapes and tiling.
#include "../../common/cube_host_support.h"
#include "../conv2d_bias_relu_tiling.h"

namespace ascend_ops {

// The attributes' places: strides, padding, dilations (both [1, height, width, 1]), activation.
enum ConvAttribute : size_t { kStrides, kPadding, kDilations, kActivation };

// Shapes and attributes together; false when they make no convolution.
static bool ReadConv(const gert::Shape& x, const gert::Shape& filter,
                     const gert::RuntimeAttrs* attributes, ConvShape* shape) {
    const auto* strides = attributes->GetListInt(kStrides);
    const auto* dilations = attributes->GetListInt(kDilations);
    const char* padding = attributes->GetStr(kPadding);
    if (x.GetDimNum() != 4 || filter.GetDimNum() != 4 || strides == nullptr ||
        dilations == nullptr || padding == nullptr || strides->GetSize() != 4 ||
        dilations->GetSize() != 4) {
        return false;
    }
    *shape = ConvShape{};
    shape->batch = x.GetDim(0);
    shape->height = x.GetDim(1);
    shape->width = x.GetDim(2);
    shape->channels = x.GetDim(3);
    shape->kernel_height = filter.GetDim(0);
    shape->kernel_width = filter.GetDim(1);
    shape->out_channels = filter.GetDim(3);
    shape->stride_height = strides->GetData()[1];
    shape->stride_width = strides->GetData()[2];
    shape->dilation_height = dilations->GetData()[1];
    shape->dilation_width = dilations->GetData()[2];
    if (shape->stride_height < 1 || shape->stride_width < 1) return false;
    const bool same = std::strcmp(padding, "SAME") == 0;
    ConvAxis down, across;
    const bool fits = MeasureConvAxis(same, shape->height, shape->kernel_height,
                                      shape->stride_height, shape->dilation_height, &down) &&
                      MeasureConvAxis(same, shape->width, shape->kernel_width,
                                      shape->stride_width, shape->dilation_width, &across);
    if (!fits) return false;
    shape->pad_top = down.before;
    shape->pad_left = across.before;
    shape->out_height = down.out;
    shape->out_width = across.out;
    return true;
}

static ge::graphStatus TilingOfConv(gert::TilingContext* context) {
    ConvShape shape;
    const gert::RuntimeAttrs* attributes = context->GetAttrs();
    if (!ReadConv(context->GetInputShape(0)->GetOriginShape(),
                  context->GetInputShape(1)->GetOriginShape(), attributes, &shape)) {
        return ge::GRAPH_FAILED;
    }
    auto* tiling = context->GetTilingData<Conv2dBiasReluTiling>();
    const ConvStatus status = TileConv2dBiasRelu(
        shape, ActivationOf(attributes->GetStr(kActivation)), ElementBytes(context),
        BiasFitsTable(context), CubeCores(context), tiling);
    if (status != ConvStatus::kOk) return ge::GRAPH_FAILED;
    return FinishCubeTiling(context, tiling->cube);
}

static ge::graphStatus ShapeOfConv(gert::InferShapeContext* context) {
    ConvShape shape;
    if (!ReadConv(*context->GetInputShape(0), *context->GetInputShape(1), context->GetAttrs(),
                  &shape)) {
        return ge::GRAPH_FAILED;
    }
    gert::Shape* y = context->GetOutputShape(0);
    y->SetDimNum(4);
    y->SetDim(0, shape.batch);
    y->SetDim(1, shape.out_height);
    y->SetDim(2, shape.out_width);
    y->SetDim(3, shape.out_channels);
    return ge::GRAPH_SUCCESS;
}

}  // namespace ascend_ops

namespace ops {

class AscendConv2dBiasRelu : public OpDef {
public:
    explicit AscendConv2dBiasRelu(const char* name) : OpDef(name)
    {
        ascend_ops::DeclareTensor(this->Input("x"), ascend_ops::FloatTypes());
        ascend_ops::DeclareTensor(this->Input("filter"), ascend_ops::FloatTypes());
        ascend_ops::DeclareTensor(this->Input("bias"), ascend_ops::FloatTypes());
        ascend_ops::DeclareTensor(this->Output("y"), ascend_ops::FloatTypes());
        this->Attr("strides").AttrType(REQUIRED).ListInt();
        this->Attr("padding").AttrType(REQUIRED).String();
        this->Attr("dilations").AttrType(OPTIONAL).ListInt({1, 1, 1, 1});
        this->Attr("activation").AttrType(OPTIONAL).String("relu");
        this->SetInferShape(ascend_ops::ShapeOfConv).SetInferDataType(ascend_ops::SameType);
        this->AICore()
            .SetTiling(ascend_ops::TilingOfConv)
            .AddConfig("ascend910b")
            .AddConfig("ascend910_93")
            .AddConfig("ascend950");
    }
};
OP_ADD(AscendConv2dBiasRelu);

}  // namespace ops
