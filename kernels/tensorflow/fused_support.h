// What the fused ops share: two operands and a bias in, a product with its activation out.
#pragma once

#include "kernel_support.h"

namespace ascend_ops {

// Products a cycle of a core, for TensorFlow's decision how many threads a call is worth.
constexpr int64_t kProductsACycle = 16;

class FusedOp : public OpKernel {
   protected:
    FusedOp(OpKernelConstruction* context, const char* name)
        : OpKernel(context), op_(FindOperator(context, name)) {
        std::string activation;
        OP_REQUIRES_OK(context, context->GetAttr("activation", &activation));
        activation_ = activation == "relu" ? 1 : activation == "sigmoid" ? 2 : 0;
    }

    // The number of the operators' `activation`.
    int64_t activation() const { return activation_; }

    // Allocates the result and computes it from the three inputs; each of its elements is a sum of
    // `depth` products. `kept` has what is packed of a constant right operand.
    Status ComputeProduct(OpKernelContext* context, const AscendProblem& problem,
                          const TensorShape& shape, int64_t depth,
                          Workspace* kept = nullptr) const {
        Tensor* y = nullptr;
        const Status allocated = context->allocate_output(0, shape, &y);
        if (!allocated.ok()) return allocated;
        return RunOperator(context, op_, problem,
                           {Operand(context->input(0)), Operand(context->input(1)),
                            Operand(context->input(2)), Operand(*y)},
                           y->NumElements() * (depth / kProductsACycle + 1), kept);
    }

   private:
    const AscendOperator* const op_;
    int64_t activation_ = 0;
};

}  // namespace ascend_ops
