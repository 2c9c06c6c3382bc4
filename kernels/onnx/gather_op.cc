// CustomFusedGatherAddRelu: relu(table[indices] + addend).
#include "custom_op.h"

namespace ascend_ops::ort {
namespace {

template <typename Index>
OrtStatus* CheckIndices(const OrtApi* api, const TensorView& indices, int64_t rows) {
    const auto* values = static_cast<const Index*>(indices.data);
    const int64_t count = indices.Elements();
    for (int64_t i = 0; i < count; ++i) {
        if (values[i] < -rows || values[i] >= rows) {
            return Invalid(api, "CustomFusedGatherAddRelu: index " + std::to_string(values[i]) +
                                    " at position " + std::to_string(i) +
                                    " is outside the table of " + std::to_string(rows) +
                                    " rows; correct the index, or enlarge the table");
        }
    }
    return nullptr;
}

}  // namespace

OrtStatus* ComputeGather(void* state, OrtKernelContext* context) {
    const Kernel& kernel = *static_cast<Kernel*>(state);
    const OrtApi* api = kernel.api;
    TensorView table, indices, addend, y;
    if (OrtStatus* status = ReadInput(api, context, 0, &table)) return status;
    if (OrtStatus* status = ReadInput(api, context, 1, &indices)) return status;
    if (OrtStatus* status = ReadInput(api, context, 2, &addend)) return status;
    if (table.shape.empty()) {
        return Invalid(api, "CustomFusedGatherAddRelu: the table is a scalar and has no rows");
    }
    const std::vector<int64_t> row(table.shape.begin() + 1, table.shape.end());
    std::vector<int64_t> shape = indices.shape;
    shape.insert(shape.end(), row.begin(), row.end());
    if (addend.shape != row && addend.shape != shape) {
        return Invalid(api, "CustomFusedGatherAddRelu: the addend has shape " + addend.ShapeText() +
                                "; it must have that of a row of the table " + table.ShapeText() +
                                ", or of the result");
    }
    const int64_t rows = table.shape[0];
    if (OrtStatus* status = kernel.index_bytes == 8 ? CheckIndices<int64_t>(api, indices, rows)
                                                    : CheckIndices<int32_t>(api, indices, rows)) {
        return status;
    }
    if (OrtStatus* status = MakeOutput(api, context, shape, &y)) return status;
    const AscendProblem problem = {kernel.dtype,
                                   {indices.Elements(), rows, table.Elements(1),
                                    addend.shape == row ? 1 : 0, kernel.index_bytes}};
    const auto index_bytes = static_cast<uint64_t>(indices.Elements() * kernel.index_bytes);
    return RunOperator(api, context, kernel.op, problem,
                       {Operand(table, kernel.dtype),
                        {indices.data, index_bytes},
                        Operand(addend, kernel.dtype),
                        Operand(y, kernel.dtype)},
                       y.Elements());
}

}  // namespace ascend_ops::ort
