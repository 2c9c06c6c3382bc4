// CustomFusedConv for TensorFlow, on DEVICE_CPU: Conv2D (NHWC), BiasAdd and activation in one pass.
#include <string>
#include <vector>

#include "../conv2d_bias_relu/conv2d_bias_relu_tiling.h"
#include "fused_support.h"

namespace ascend_ops {

// The window's steps along height and width.
struct Window {
    bool same = false;
    int64_t stride[2] = {1, 1};
    int64_t dilation[2] = {1, 1};
};

Status ReadSteps(const char* name, const std::vector<int32_t>& values, int64_t* steps) {
    const bool four = values.size() == 4;
    if (!four || values[0] != 1 || values[3] != 1 || values[1] < 1 || values[2] < 1) {
        return InvalidArgument("CustomFusedConv: ", name, " must be [1, height, width, 1] with "
                               "height and width of at least 1; batch and channels (NHWC) have "
                               "no steps");
    }
    steps[0] = values[1];
    steps[1] = values[2];
    return OkStatus();
}

// From the attributes of a node, which the shape function and the kernel read alike.
template <typename Context>
Status ReadWindow(Context* context, Window* window) {
    std::string padding;
    std::vector<int32_t> strides, dilations;
    Status status = context->GetAttr("padding", &padding);
    if (status.ok()) status = context->GetAttr("strides", &strides);
    if (status.ok()) status = context->GetAttr("dilations", &dilations);
    if (status.ok()) status = ReadSteps("strides", strides, window->stride);
    if (status.ok()) status = ReadSteps("dilations", dilations, window->dilation);
    window->same = padding == "SAME";
    return status;
}

// The extent of the result along an axis, and what is padded before the image.
Status MeasureAxis(const Window& window, int axis, int64_t size, int64_t kernel, int64_t* out,
                   int64_t* before) {
    ConvAxis measured;
    const bool fits = MeasureConvAxis(window.same, size, kernel, window.stride[axis],
                                      window.dilation[axis], &measured);
    *out = measured.out;
    *before = measured.before;
    if (fits) return OkStatus();
    return InvalidArgument("CustomFusedConv: the image is ", size, axis == 0 ? " high" : " wide",
                           " and the kernel reaches over ",
                           (kernel - 1) * window.dilation[axis] + 1,
                           ": nothing is left with VALID padding; use SAME or a larger image");
}

Status FusedConvShape(InferenceContext* context) {
    ShapeHandle x, filter, bias;
    Window window;
    Status status = ReadWindow(context, &window);
    if (status.ok()) status = context->WithRank(context->input(0), 4, &x);
    if (status.ok()) status = context->WithRank(context->input(1), 4, &filter);
    if (status.ok()) status = context->WithRank(context->input(2), 1, &bias);
    DimensionHandle channels, out_channels;
    if (status.ok()) {
        status = context->Merge(context->Dim(x, 3), context->Dim(filter, 2), &channels);
    }
    if (status.ok()) {
        status = context->Merge(context->Dim(filter, 3), context->Dim(bias, 0), &out_channels);
    }
    if (!status.ok()) return status;
    DimensionHandle extents[2];
    for (int axis = 0; axis < 2; ++axis) {
        const DimensionHandle size = context->Dim(x, axis + 1), kernel = context->Dim(filter, axis);
        extents[axis] = context->UnknownDim();
        if (!context->ValueKnown(size) || !context->ValueKnown(kernel)) continue;
        int64_t out = 0, before = 0;
        status = MeasureAxis(window, axis, context->Value(size), context->Value(kernel), &out,
                             &before);
        if (!status.ok()) return status;
        extents[axis] = context->MakeDim(out);
    }
    context->set_output(0, context->MakeShape({context->Dim(x, 0), extents[0], extents[1],
                                               out_channels}));
    return OkStatus();
}

REGISTER_OP("CustomFusedConv")
    .Input("x: T")
    .Input("filter: T")
    .Input("bias: T")
    .Output("y: T")
    .Attr("T: {float, half, bfloat16}")
    .Attr("strides: list(int)")
    .Attr("padding: {'SAME', 'VALID'}")
    .Attr("dilations: list(int) = [1, 1, 1, 1]")
    .Attr("activation: {'none', 'relu', 'sigmoid'} = 'relu'")
    .SetShapeFn(FusedConvShape)
    .Doc("y = activation(conv2d(x, filter) + bias): x is [batch, height, width, channels] and the "
         "filter [height, width, channels, out_channels]. Sums are float for each type.");

class FusedConvOp : public FusedOp {
   public:
    explicit FusedConvOp(OpKernelConstruction* context) : FusedOp(context, "conv2d_bias_relu") {
        OP_REQUIRES_OK(context, ReadWindow(context, &window_));
    }

    void Compute(OpKernelContext* context) override {
        const Tensor& x = context->input(0);
        const Tensor& filter = context->input(1);
        const Tensor& bias = context->input(2);
        OP_REQUIRES_OK(context, CheckShapes(x.shape(), filter.shape(), bias.shape()));
        int64_t out[2], before[2];
        for (int axis = 0; axis < 2; ++axis) {
            OP_REQUIRES_OK(context, MeasureAxis(window_, axis, x.dim_size(axis + 1),
                                                filter.dim_size(axis), &out[axis], &before[axis]));
        }
        const int64_t channels = x.dim_size(3), out_channels = filter.dim_size(3);
        const AscendProblem problem = {
            AbiType(x.dtype()),
            {x.dim_size(0), x.dim_size(1), x.dim_size(2), channels, out_channels,
             filter.dim_size(0), filter.dim_size(1), window_.stride[0], window_.stride[1],
             window_.dilation[0], window_.dilation[1], before[0], before[1], out[0], out[1],
             activation()}};
        const int64_t depth = filter.dim_size(0) * filter.dim_size(1) * channels;
        const TensorShape shape({x.dim_size(0), out[0], out[1], out_channels});
        OP_REQUIRES_OK(context, ComputeProduct(context, problem, shape, depth));
    }

   private:
    static Status CheckShapes(const TensorShape& x, const TensorShape& filter,
                              const TensorShape& bias) {
        if (x.dims() == 4 && filter.dims() == 4 && bias.dims() == 1 &&
            x.dim_size(3) == filter.dim_size(2) && filter.dim_size(3) == bias.dim_size(0)) {
            return OkStatus();
        }
        return InvalidArgument("CustomFusedConv: x has shape ", x.DebugString(), ", the filter ",
                               filter.DebugString(), " and the bias ", bias.DebugString(),
                               "; they must be [batch, height, width, channels], [height, width, "
                               "channels, out_channels] and [out_channels]");
    }

    Window window_;
};

ASCEND_REGISTER_TYPES("CustomFusedConv", FusedConvOp);

}  // namespace ascend_ops
