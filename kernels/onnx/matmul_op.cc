// CustomFusedMatMul: activation(x · weight + bias), x of any rank from 2 on.
#include "custom_op.h"

namespace ascend_ops::ort {
namespace {

// Products that cost as much as an element of an elementwise operator.
constexpr int64_t kProductsAnElement = 16;

}  // namespace

OrtStatus* ComputeMatMul(void* state, OrtKernelContext* context) {
    Kernel& kernel = *static_cast<Kernel*>(state);
    const OrtApi* api = kernel.api;
    TensorView x, weight, bias, y;
    if (OrtStatus* status = ReadInput(api, context, 0, &x)) return status;
    if (OrtStatus* status = ReadInput(api, context, 1, &weight)) return status;
    if (OrtStatus* status = ReadInput(api, context, 2, &bias)) return status;
    const bool matrix = x.shape.size() >= 2 && weight.shape.size() == 2;
    const size_t k_axis = kernel.transpose_b ? 1 : 0;
    if (!matrix || x.shape.back() != weight.shape[k_axis] ||
        bias.shape != std::vector<int64_t>{weight.shape[1 - k_axis]}) {
        return Invalid(api, "CustomFusedMatMul: x has shape " + x.ShapeText() + ", the weight " +
                                weight.ShapeText() + (kernel.transpose_b ? " (transposed)" : "") +
                                " and the bias " + bias.ShapeText() +
                                "; they must be [..., k], [k, n] and [n]");
    }
    const int64_t k = x.shape.back();
    const int64_t n = bias.shape[0];
    std::vector<int64_t> shape(x.shape.begin(), x.shape.end() - 1);
    int64_t m = 1;
    for (const int64_t dimension : shape) m *= dimension;
    shape.push_back(n);
    if (OrtStatus* status = MakeOutput(api, context, shape, &y)) return status;
    const AscendProblem problem = {kernel.dtype,
                                   {m, n, k, 0, kernel.transpose_b ? 1 : 0, kernel.activation,
                                    kernel.constant_weight ? kKeptNumber : 0}};
    const int32_t type = kernel.dtype;
    return RunOperator(
        api, context, kernel.op, problem,
        {Operand(x, type), Operand(weight, type), Operand(bias, type), Operand(y, type)},
        m * n * (k / kProductsAnElement + 1), kernel.constant_weight ? &kernel.packed : nullptr);
}

}  // namespace ascend_ops::ort
