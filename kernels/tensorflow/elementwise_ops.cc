// AscendSigmoid and AscendSigmoidGrad for TensorFlow, on DEVICE_CPU.
//
// The kernel objects hold nothing: the plan and its tiling live on the stack of each call, so that
// any number of steps may run the same node at once. The emulated cores are spread over the
// worker threads that TensorFlow gives the device.
#include "elementwise_support.h"

namespace ascend_ops {

Status SigmoidShape(InferenceContext* context) {
    const ShapeHandle x = context->input(0);
    if (context->RankKnown(x)) {
        const Status status = CheckRank("AscendSigmoid", context->Rank(x));
        if (!status.ok()) return status;
    }
    context->set_output(0, x);
    return OkStatus();
}

Status SigmoidGradShape(InferenceContext* context) {
    ShapeHandle merged;
    const Status same = context->Merge(context->input(0), context->input(1), &merged);
    if (!same.ok()) return same;
    if (context->RankKnown(merged)) {
        const Status status = CheckRank("AscendSigmoidGrad", context->Rank(merged));
        if (!status.ok()) return status;
    }
    context->set_output(0, merged);
    return OkStatus();
}

REGISTER_OP("AscendSigmoid")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {float, half, bfloat16}")
    .SetShapeFn(SigmoidShape)
    .Doc("y = 1 / (1 + exp(-x)), elementwise. The rank of x is at most 8.");

REGISTER_OP("AscendSigmoidGrad")
    .Input("y: T")
    .Input("dy: T")
    .Output("dx: T")
    .Attr("T: {float, half, bfloat16}")
    .SetShapeFn(SigmoidGradShape)
    .Doc("dx = y * (1 - y) * dy, where y is the sigmoid's result; y and dy have one shape.");

// The CPU backend's one pass, measured on AVX-512 and AVX2.
constexpr int64_t kCyclesASigmoid = 2;

class SigmoidOp : public OpKernel {
   public:
    explicit SigmoidOp(OpKernelConstruction* context)
        : OpKernel(context), op_(FindOperator(context, "sigmoid")) {}
    void Compute(OpKernelContext* context) override {
        OP_REQUIRES_OK(context, CheckRank("AscendSigmoid", context->input(0).dims()));
        OP_REQUIRES_OK(context, RunElementwise(context, op_, 1, kCyclesASigmoid));
    }

   private:
    const AscendOperator* const op_;
};

class SigmoidGradOp : public OpKernel {
   public:
    explicit SigmoidGradOp(OpKernelConstruction* context)
        : OpKernel(context), op_(FindOperator(context, "sigmoid_grad")) {}
    void Compute(OpKernelContext* context) override {
        const Tensor& y = context->input(0);
        const Tensor& dy = context->input(1);
        OP_REQUIRES_OK(context, CheckRank("AscendSigmoidGrad", y.dims()));
        OP_REQUIRES(context, y.shape() == dy.shape(),
                    InvalidArgument("AscendSigmoidGrad: y has shape ", y.shape().DebugString(),
                                    " and dy has shape ", dy.shape().DebugString(),
                                    "; they must be the same"));
        OP_REQUIRES_OK(context, RunElementwise(context, op_, 2));
    }

   private:
    const AscendOperator* const op_;
};

ASCEND_REGISTER_TYPES("AscendSigmoid", SigmoidOp);
ASCEND_REGISTER_TYPES("AscendSigmoidGrad", SigmoidGradOp);

}  // namespace ascend_ops
