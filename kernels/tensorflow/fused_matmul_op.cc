// CustomFusedMatMul for TensorFlow, on DEVICE_CPU: MatMul, BiasAdd and activation in one pass.
#include "fused_support.h"

namespace ascend_ops {

Status FusedMatMulShape(InferenceContext* context) {
    ShapeHandle a, b, bias;
    bool transpose_a = false, transpose_b = false;
    Status status = context->GetAttr("transpose_a", &transpose_a);
    if (status.ok()) status = context->GetAttr("transpose_b", &transpose_b);
    if (status.ok()) status = context->WithRank(context->input(0), 2, &a);
    if (status.ok()) status = context->WithRank(context->input(1), 2, &b);
    if (status.ok()) status = context->WithRank(context->input(2), 1, &bias);
    if (!status.ok()) return status;
    DimensionHandle depth, columns;
    status = context->Merge(context->Dim(a, transpose_a ? 0 : 1),
                            context->Dim(b, transpose_b ? 1 : 0), &depth);
    if (status.ok()) {
        status = context->Merge(context->Dim(b, transpose_b ? 0 : 1), context->Dim(bias, 0),
                                &columns);
    }
    if (!status.ok()) return status;
    context->set_output(0, context->Matrix(context->Dim(a, transpose_a ? 1 : 0), columns));
    return OkStatus();
}

REGISTER_OP("CustomFusedMatMul")
    .Input("a: T")
    .Input("b: T")
    .Input("bias: T")
    .Output("y: T")
    .Attr("T: {float, half, bfloat16}")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("constant_b: bool = false")
    .Attr("activation: {'none', 'relu', 'sigmoid'} = 'none'")
    .SetShapeFn(FusedMatMulShape)
    .Doc("y = activation(a . b + bias) for matrices a and b, each transposed where asked for, and a "
         "bias for each column. Sums are float for each type. constant_b says that b is the same in "
         "each call: the kernel then packs it once, and keeps that for its life.");

class FusedMatMulOp : public FusedOp {
   public:
    explicit FusedMatMulOp(OpKernelConstruction* context) : FusedOp(context, "matmul_bias_act") {
        OP_REQUIRES_OK(context, context->GetAttr("transpose_a", &transpose_a_));
        OP_REQUIRES_OK(context, context->GetAttr("transpose_b", &transpose_b_));
        OP_REQUIRES_OK(context, context->GetAttr("constant_b", &constant_b_));
    }

    void Compute(OpKernelContext* context) override {
        const Tensor& a = context->input(0);
        const Tensor& b = context->input(1);
        const Tensor& bias = context->input(2);
        OP_REQUIRES_OK(context, CheckShapes(a.shape(), b.shape(), bias.shape()));
        const int64_t m = a.dim_size(transpose_a_ ? 1 : 0), k = a.dim_size(transpose_a_ ? 0 : 1);
        const int64_t n = bias.dim_size(0);
        const AscendProblem problem = {
            AbiType(a.dtype()),
            {m, n, k, transpose_a_ ? 1 : 0, transpose_b_ ? 1 : 0, activation(),
             constant_b_ ? kKeptNumber : 0}};
        OP_REQUIRES_OK(context, ComputeProduct(context, problem, TensorShape({m, n}), k,
                                               constant_b_ ? &packed_b_ : nullptr));
    }

   private:
    Status CheckShapes(const TensorShape& a, const TensorShape& b, const TensorShape& bias) const {
        const bool matrices = a.dims() == 2 && b.dims() == 2 && bias.dims() == 1;
        if (matrices && a.dim_size(transpose_a_ ? 0 : 1) == b.dim_size(transpose_b_ ? 1 : 0) &&
            b.dim_size(transpose_b_ ? 0 : 1) == bias.dim_size(0)) {
            return OkStatus();
        }
        return InvalidArgument("CustomFusedMatMul: a has shape ", a.DebugString(),
                               transpose_a_ ? " (transposed)" : "", ", b ", b.DebugString(),
                               transpose_b_ ? " (transposed)" : "", " and the bias ",
                               bias.DebugString(),
                               "; they must be [m, k], [k, n] and [n]. Reshape them first");
    }

    bool transpose_a_ = false;
    bool transpose_b_ = false;
    bool constant_b_ = false;
    Workspace packed_b_;  // no call's own: packed by the first calls, read by all
};

ASCEND_REGISTER_TYPES("CustomFusedMatMul", FusedMatMulOp);

}  // namespace ascend_ops
