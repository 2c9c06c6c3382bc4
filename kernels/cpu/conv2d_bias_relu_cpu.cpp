// conv2d_bias_relu on CPUs: the product whose left rows are read from the image, so that no image
// of columns is ever in memory.
#include <type_traits>

#include "../runtime/conv2d_bias_relu_problem.h"
#include "gemm_operator.h"
#include "image_rows.h"

namespace ascend_ops {
namespace {

cpu::Matrix FilterOf(const ConvShape& shape, int32_t dtype, const void* data) {
    return {data, dtype, false, shape.out_channels};
}

int Plan(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    const ConvShape shape = ReadConvShape(*problem);
    const uint32_t activation = ReadConvActivation(*problem);
    const char* wrong = ConvMessage(CheckConv(shape, activation));
    const int code = cpu::CheckProblem(*problem, wrong, "conv2d_bias_relu", error);
    if (code != ASCEND_OK) return code;
    cpu::GemmRequest request{{ConvRows(shape), shape.out_channels, ConvDepth(shape)},
                             static_cast<cpu::Activation>(activation),
                             FilterOf(shape, problem->dtype, nullptr), cpu::CpuCount()};
    if (cpu::ReadingOf(shape) == cpu::ImageReading::kBordered) {
        request.line_rows = shape.out_width;
        request.task_rows_max = cpu::BorderedTaskRows(shape);
    }
    return cpu::WritePlan(cpu::PlanGemm(request), plan);
}

int Run(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
        int32_t begin, int32_t end, AscendError*) {
    const ConvShape shape = ReadConvShape(*problem);
    const cpu::Matrix filter = FilterOf(shape, problem->dtype, tensors[1].data);
    const auto run = [&](const cpu::LeftRows& left) {
        return cpu::RunPlan(*plan, tensors, left, filter, begin, end);
    };
    const cpu::ImageReading reading = cpu::ReadingOf(shape);
    if (reading == cpu::ImageReading::kMatrix) {
        return run(cpu::LeftMatrix({tensors[0].data, problem->dtype, false, shape.channels}));
    }
    return cpu::WithType(problem->dtype, tensors[0].data, [&](const auto* image) {
        using Element = std::remove_const_t<std::remove_pointer_t<decltype(image)>>;
        if (reading == cpu::ImageReading::kBordered) {
            return run(cpu::BorderedRows<Element>(shape, image));
        }
        return run(cpu::GatheredRows<Element>(shape, image));
    });
}

}  // namespace

extern const AscendOperator kConv2dBiasReluCpu;
const AscendOperator kConv2dBiasReluCpu = {"conv2d_bias_relu", 4, Plan, Run};

}  // namespace ascend_ops
