// AscendGatherAddRelu for TensorFlow, on DEVICE_CPU: relu(table[indices] + addend).
#include <cstdint>

#include "kernel_support.h"

namespace ascend_ops {

// What an element of the result costs a core.
constexpr int64_t kCyclesAGatheredElement = 2;

// The result has the shape of the indices and then that of a row; the addend is a row or the like.
Status GatherShape(InferenceContext* context) {
    ShapeHandle table, row, y, addend;
    const Status at_least = context->WithRankAtLeast(context->input(0), 1, &table);
    if (!at_least.ok()) return at_least;
    const Status cut = context->Subshape(table, 1, &row);
    if (!cut.ok()) return cut;
    const Status joined = context->Concatenate(context->input(1), row, &y);
    if (!joined.ok()) return joined;
    addend = context->input(2);
    if (context->RankKnown(addend) && context->RankKnown(y)) {
        const bool is_row = context->Rank(addend) == context->Rank(row);
        const Status same = context->Merge(addend, is_row ? row : y, &addend);
        if (!same.ok()) return same;
    }
    context->set_output(0, y);
    return OkStatus();
}

REGISTER_OP("AscendGatherAddRelu")
    .Input("table: T")
    .Input("indices: Tindices")
    .Input("addend: T")
    .Output("y: T")
    .Attr("T: {float, half, bfloat16}")
    .Attr("Tindices: {int32, int64} = DT_INT32")
    .SetShapeFn(GatherShape)
    .Doc("y[i] = relu(table[indices[i]] + addend). A negative index counts from the end; one "
         "outside [-rows, rows) is an InvalidArgument. The addend has the shape of a row or of y.");

// The first index outside the table is an error.
template <typename Index>
Status CheckIndices(const Tensor& indices, int64_t rows) {
    const auto values = indices.flat<Index>();
    for (int64_t i = 0; i < values.size(); ++i) {
        if (values(i) < -rows || values(i) >= rows) {
            return InvalidArgument("AscendGatherAddRelu: index ", values(i), " at position ", i,
                                   " is outside the table of ", rows,
                                   " rows; correct the index, or enlarge the table");
        }
    }
    return OkStatus();
}

template <typename Index>
class GatherAddReluOp : public OpKernel {
   public:
    explicit GatherAddReluOp(OpKernelConstruction* context)
        : OpKernel(context), op_(FindOperator(context, "gather_add_relu")) {}

    void Compute(OpKernelContext* context) override {
        const Tensor& table = context->input(0);
        const Tensor& indices = context->input(1);
        const Tensor& addend = context->input(2);
        OP_REQUIRES(context, table.dims() >= 1,
                    InvalidArgument("AscendGatherAddRelu: the table is a scalar and has no rows"));
        TensorShape row = table.shape();
        row.RemoveDim(0);
        TensorShape shape = indices.shape();
        shape.AppendShape(row);
        const bool is_row = addend.shape() == row;
        OP_REQUIRES(context, is_row || addend.shape() == shape,
                    InvalidArgument("AscendGatherAddRelu: the addend has shape ",
                                    addend.shape().DebugString(), "; it must have that of a row, ",
                                    row.DebugString(), ", or of the result, ",
                                    shape.DebugString()));
        const int64_t rows = table.dim_size(0);
        OP_REQUIRES_OK(context, CheckIndices<Index>(indices, rows));
        Tensor* y = nullptr;
        OP_REQUIRES_OK(context, context->allocate_output(0, shape, &y));
        const AscendProblem problem = {AbiType(table.dtype()),
                                       {indices.NumElements(), rows, row.num_elements(),
                                        is_row ? 1 : 0, sizeof(Index)}};
        OP_REQUIRES_OK(context, RunOperator(context, op_, problem,
                                            {Operand(table), Operand(indices), Operand(addend),
                                             Operand(*y)},
                                            y->NumElements() * kCyclesAGatheredElement));
    }

   private:
    const AscendOperator* const op_;
};

ASCEND_REGISTER_INDEXED("AscendGatherAddRelu", GatherAddReluOp, int32_t);
ASCEND_REGISTER_INDEXED("AscendGatherAddRelu", GatherAddReluOp, int64_t);

}  // namespace ascend_ops
