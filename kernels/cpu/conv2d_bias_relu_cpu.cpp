// conv2d_bias_relu on CPUs: the product whose left rows are gathered from the image while they are
// packed, so that no image of columns is ever in memory.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "../runtime/conv2d_bias_relu_problem.h"
#include "gemm.h"
#include "matrix_rows.h"

namespace ascend_ops {
namespace {

// A row is what the kernel sees at one place of the result: kernel row after kernel row, and in
// each pixel after pixel, which without dilation is one run of memory.
template <typename T>
class ImageRows : public cpu::LeftRows {
   public:
    ImageRows(const ConvShape& shape, const void* image)
        : shape_(shape), image_(static_cast<const T*>(image)),
          line_(shape.kernel_width * shape.channels) {}

    void Read(float* to, int64_t row, int64_t first, int64_t count) const override {
        const int64_t out_x = row % shape_.out_width;
        const int64_t out_row = row / shape_.out_width;
        const int64_t y = out_row % shape_.out_height * shape_.stride_height - shape_.pad_top;
        const int64_t x = out_x * shape_.stride_width - shape_.pad_left;
        const T* image = image_ + out_row / shape_.out_height * shape_.height * shape_.width *
                                      shape_.channels;
        for (int64_t at = first; at < first + count;) {
            const int64_t kernel_y = at / line_, begin = at % line_;
            const int64_t end = std::min(line_, begin + first + count - at);
            const int64_t image_y = y + kernel_y * shape_.dilation_height;
            if (image_y < 0 || image_y >= shape_.height) {
                std::fill_n(to, end - begin, 0.0f);
            } else {
                ReadLine(to, image + image_y * shape_.width * shape_.channels, x, begin, end);
            }
            to += end - begin;
            at += end - begin;
        }
    }

   private:
    // Elements [begin, end) of a kernel row whose first pixel lies at x of the image's row.
    void ReadLine(float* to, const T* line, int64_t x, int64_t begin, int64_t end) const {
        if (shape_.dilation_width == 1) {
            ReadRun(to, line, x, begin, end);
            return;
        }
        for (int64_t at = begin; at < end;) {
            const int64_t pixel = at / shape_.channels;
            const int64_t next = std::min(end, (pixel + 1) * shape_.channels);
            const int64_t from = at - pixel * shape_.channels;
            ReadRun(to, line, x + pixel * shape_.dilation_width, from, from + next - at);
            to += next - at;
            at = next;
        }
    }

    // A run of memory that starts at pixel x; what lies outside the row is zero.
    void ReadRun(float* to, const T* line, int64_t x, int64_t begin, int64_t end) const {
        const int64_t low = std::clamp(-x * shape_.channels, begin, end);
        const int64_t high = std::clamp((shape_.width - x) * shape_.channels, low, end);
        std::fill_n(to, low - begin, 0.0f);
        cpu::Widen(to + (low - begin), line + x * shape_.channels + low, high - low);
        std::fill_n(to + (high - begin), end - high, 0.0f);
    }

    const ConvShape shape_;
    const T* const image_;
    const int64_t line_;
};

cpu::Matrix FilterOf(const ConvShape& shape, int32_t dtype, const void* data) {
    return {data, dtype, false, shape.out_channels};
}

int Plan(const AscendProblem* problem, AscendPlan* plan, AscendError* error) {
    const ConvShape shape = ReadConvShape(*problem);
    const uint32_t activation = ReadConvActivation(*problem);
    const ConvStatus status = CheckConv(shape, activation);
    if (status != ConvStatus::kOk || problem->dtype < 0 || problem->dtype > ASCEND_BFLOAT16) {
        std::snprintf(error->text, sizeof error->text, "%s",
                      status != ConvStatus::kOk ? ConvMessage(status)
                                                : "conv2d_bias_relu: the type is unknown");
        return ASCEND_INVALID;
    }
    const cpu::GemmPlan gemm = cpu::PlanGemm(
        {ConvRows(shape), shape.out_channels, ConvDepth(shape)},
        static_cast<cpu::Activation>(activation), FilterOf(shape, problem->dtype, nullptr),
        cpu::CpuCount());
    static_assert(sizeof gemm <= ASCEND_TILING_BYTES, "the plan has room for it");
    plan->core_count = cpu::GemmTasks(gemm);
    plan->workspace_bytes = cpu::GemmWorkspaceBytes(gemm);
    std::memcpy(plan->tiling, &gemm, sizeof gemm);
    return ASCEND_OK;
}

int Run(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
        int32_t begin, int32_t end, AscendError*) {
    cpu::GemmPlan gemm;
    std::memcpy(&gemm, plan->tiling, sizeof gemm);
    const ConvShape shape = ReadConvShape(*problem);
    cpu::WithType(problem->dtype, tensors[0].data, [&](const auto* image) {
        using Element = std::remove_const_t<std::remove_pointer_t<decltype(image)>>;
        const ImageRows<Element> left(shape, image);
        const cpu::GemmOperands operands = {&left,
                                            FilterOf(shape, problem->dtype, tensors[1].data),
                                            tensors[2].data,
                                            tensors[3].data,
                                            problem->dtype,
                                            tensors[4].data};
        cpu::RunGemm(gemm, operands, begin, end);
    });
    return ASCEND_OK;
}

}  // namespace

extern const AscendOperator kConv2dBiasReluCpu;
const AscendOperator kConv2dBiasReluCpu = {"conv2d_bias_relu", 4, Plan, Run};

}  // namespace ascend_ops
