// AscendEmbeddingDenseGrad for TensorFlow, on DEVICE_CPU. The name is not CANN's
// EmbeddingDenseGrad, so that both can be loaded.
#include <cstdint>
#include <limits>

#include "kernel_support.h"

namespace ascend_ops {

// What an element of the table or of the gradient costs a core.
constexpr int64_t kCyclesASum = 2;

Status EmbeddingShape(InferenceContext* context) {
    int64_t rows = 0;
    const Status status = context->GetAttr("num_weights", &rows);
    if (!status.ok()) return status;
    const ShapeHandle grad = context->input(0);
    if (!context->RankKnown(grad)) {
        context->set_output(0, context->Matrix(rows, InferenceContext::kUnknownDim));
        return OkStatus();
    }
    if (context->Rank(grad) < 1) {
        return InvalidArgument("AscendEmbeddingDenseGrad: grad must have a last axis, the width");
    }
    ShapeHandle lookups, merged;
    const Status cut = context->Subshape(grad, 0, -1, &lookups);
    if (!cut.ok()) return cut;
    const Status same = context->Merge(lookups, context->input(1), &merged);
    if (!same.ok()) return same;
    context->set_output(0, context->MakeShape({context->MakeDim(rows), context->Dim(grad, -1)}));
    return OkStatus();
}

REGISTER_OP("AscendEmbeddingDenseGrad")
    .Input("grad: T")
    .Input("indices: Tindices")
    .Output("table_grad: T")
    .Attr("T: {float, half, bfloat16}")
    .Attr("Tindices: {int32, int64} = DT_INT32")
    .Attr("num_weights: int >= 0")
    .Attr("padding_idx: int = -1")
    .Attr("scale_grad_by_freq: bool = false")
    .SetShapeFn(EmbeddingShape)
    .Doc("table_grad[indices[i]] += grad[i]; the row padding_idx stays zero. An index outside "
         "[0, num_weights) is an InvalidArgument.");

// The first index outside the table is an error.
template <typename Index>
Status CheckIndices(const Tensor& indices, int64_t rows) {
    const auto values = indices.flat<Index>();
    const auto outside = [&](int64_t i) {
        // A negative number becomes larger than any table.
        return static_cast<uint64_t>(static_cast<int64_t>(values(i))) >= static_cast<uint64_t>(rows);
    };
    bool any = false;
    for (int64_t i = 0; i < values.size(); ++i) any |= outside(i);  // no branch: vectorised
    for (int64_t i = 0; any && i < values.size(); ++i) {
        if (!outside(i)) continue;
        return InvalidArgument("AscendEmbeddingDenseGrad: index ", values(i), " at position ", i,
                               " is outside the table of ", rows,
                               " rows; correct the index, or enlarge the table");
    }
    return OkStatus();
}

// The indices as the kernel takes them: those of int32 where they are.
inline Status NarrowIndices(OpKernelContext* context, const Tensor& indices, Tensor* narrow) {
    if (indices.dtype() == tensorflow::DT_INT32) {
        *narrow = indices;
        return OkStatus();
    }
    const Status allocated =
        context->allocate_temp(tensorflow::DT_INT32, indices.shape(), narrow);
    if (!allocated.ok()) return allocated;
    const auto from = indices.flat<int64_t>();
    auto to = narrow->flat<int32_t>();
    for (int64_t i = 0; i < from.size(); ++i) to(i) = static_cast<int32_t>(from(i));
    return OkStatus();
}

template <typename Index>
class EmbeddingDenseGradOp : public OpKernel {
   public:
    explicit EmbeddingDenseGradOp(OpKernelConstruction* context)
        : OpKernel(context), op_(FindOperator(context, "embedding_dense_grad")) {
        OP_REQUIRES_OK(context, context->GetAttr("num_weights", &rows_));
        OP_REQUIRES_OK(context, context->GetAttr("padding_idx", &padding_));
        OP_REQUIRES_OK(context, context->GetAttr("scale_grad_by_freq", &scale_));
        OP_REQUIRES(context, rows_ <= std::numeric_limits<int32_t>::max(),
                    InvalidArgument("AscendEmbeddingDenseGrad: num_weights is ", rows_,
                                    ", and at most 2147483647 rows are supported"));
    }

    void Compute(OpKernelContext* context) override {
        const Tensor& grad = context->input(0);
        const Tensor& indices = context->input(1);
        OP_REQUIRES(context, Fits(grad, indices),
                    InvalidArgument("AscendEmbeddingDenseGrad: grad has shape ",
                                    grad.shape().DebugString(), " and indices have shape ",
                                    indices.shape().DebugString(),
                                    "; grad must have one more axis, the width"));
        const int64_t width = grad.dim_size(grad.dims() - 1);
        Tensor narrow;
        OP_REQUIRES_OK(context, CheckIndices<Index>(indices, rows_));
        OP_REQUIRES_OK(context, NarrowIndices(context, indices, &narrow));
        Tensor* table = nullptr;
        OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({rows_, width}), &table));
        const AscendProblem problem = {
            AbiType(grad.dtype()),
            {indices.NumElements(), rows_, width, padding_, scale_ ? 1 : 0}};
        const int64_t sums = table->NumElements() + grad.NumElements();
        OP_REQUIRES_OK(context, RunOperator(context, op_, problem,
                                            {Operand(grad), Operand(narrow), Operand(*table)},
                                            sums * kCyclesASum));
    }

   private:
    static bool Fits(const Tensor& grad, const Tensor& indices) {
        if (grad.dims() != indices.dims() + 1) return false;
        for (int axis = 0; axis < indices.dims(); ++axis) {
            if (grad.dim_size(axis) != indices.dim_size(axis)) return false;
        }
        return true;
    }

    const AscendOperator* const op_;
    int64_t rows_ = 0;
    int64_t padding_ = -1;
    bool scale_ = false;
};

ASCEND_REGISTER_INDEXED("AscendEmbeddingDenseGrad", EmbeddingDenseGradOp, int32_t);
ASCEND_REGISTER_INDEXED("AscendEmbeddingDenseGrad", EmbeddingDenseGradOp, int64_t);

}  // namespace ascend_ops
