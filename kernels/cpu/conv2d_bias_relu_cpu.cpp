// conv2d_bias_relu on CPUs: the product whose left rows are gathered from the image while they are
// packed, so that no image of columns is ever in memory.
#include <algorithm>
#include <type_traits>

#include "../runtime/conv2d_bias_relu_problem.h"
#include "gemm_operator.h"
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

    void ReadBlock(float* to, int64_t pitch, int64_t row, int64_t rows, int64_t first,
                   int64_t count) const override {
        // Divisions only here: one for each row would cost a third of a narrow product.
        int64_t out_x = row % shape_.out_width;
        const int64_t out_row = row / shape_.out_width;
        int64_t out_y = out_row % shape_.out_height;
        const T* image = image_ + out_row / shape_.out_height * ImageElements();
        const int64_t kernel_y = first / line_, begin = first % line_;
        for (int64_t i = 0; i < rows; ++i) {
            ReadRow(to + i * pitch, image, {out_x, out_y}, {kernel_y, begin}, count);
            if (++out_x < shape_.out_width) continue;
            out_x = 0;
            if (++out_y < shape_.out_height) continue;
            out_y = 0;
            image += ImageElements();
        }
    }

   private:
    struct Pixel {
        int64_t x;
        int64_t y;
    };
    struct KernelPlace {
        int64_t y;
        int64_t element;  // of the kernel row
    };

    int64_t ImageElements() const { return shape_.height * shape_.width * shape_.channels; }

    // `count` elements of what the kernel sees from a pixel of the result, from a place on.
    void ReadRow(float* to, const T* image, Pixel out, KernelPlace place, int64_t count) const {
        const int64_t y = out.y * shape_.stride_height - shape_.pad_top;
        const int64_t x = out.x * shape_.stride_width - shape_.pad_left;
        while (count > 0) {
            const int64_t end = std::min(line_, place.element + count);
            const int64_t image_y = y + place.y * shape_.dilation_height;
            if (image_y < 0 || image_y >= shape_.height) {
                std::fill_n(to, end - place.element, 0.0f);
            } else {
                const T* line = image + image_y * shape_.width * shape_.channels;
                ReadLine(to, line, x, place.element, end);
            }
            to += end - place.element;
            count -= end - place.element;
            place = {place.y + 1, 0};
        }
    }

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
    const char* wrong = ConvMessage(CheckConv(shape, activation));
    const int code = cpu::CheckProblem(*problem, wrong, "conv2d_bias_relu", error);
    if (code != ASCEND_OK) return code;
    return cpu::WritePlan(cpu::PlanGemm({ConvRows(shape), shape.out_channels, ConvDepth(shape)},
                                        static_cast<cpu::Activation>(activation),
                                        FilterOf(shape, problem->dtype, nullptr),
                                        cpu::CpuCount()),
                          plan);
}

int Run(const AscendProblem* problem, const AscendPlan* plan, const AscendTensor* tensors,
        int32_t begin, int32_t end, AscendError*) {
    const ConvShape shape = ReadConvShape(*problem);
    return cpu::WithType(problem->dtype, tensors[0].data, [&](const auto* image) {
        using Element = std::remove_const_t<std::remove_pointer_t<decltype(image)>>;
        const ImageRows<Element> left(shape, image);
        return cpu::RunPlan(*plan, tensors, left,
                            FilterOf(shape, problem->dtype, tensors[1].data), begin, end);
    });
}

}  // namespace

extern const AscendOperator kConv2dBiasReluCpu;
const AscendOperator kConv2dBiasReluCpu = {"conv2d_bias_relu", 4, Plan, Run};

}  // namespace ascend_ops
