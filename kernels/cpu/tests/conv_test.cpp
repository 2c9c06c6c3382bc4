// The CPU backend's convolution under threads: whole numbers, so that each sum is exact; each way
// of reading an image, and tasks whose lines belong to several images. Run with sanitizers as well.
#include <cstdio>

#include "run_plan.h"
#include "../../conv2d_bias_relu/conv2d_bias_relu_tiling.h"

namespace ascend_ops {
extern const AscendOperator kConv2dBiasReluCpu;
}

namespace {

using ascend_ops::ConvShape;

// What a place of the result is before the bias.
float SumAt(const ConvShape& s, const std::vector<float>& x, const std::vector<float>& filter,
            const int64_t (&at)[4]) {
    float sum = 0;
    for (int64_t ky = 0; ky < s.kernel_height; ++ky) {
        for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
            const int64_t iy = at[1] * s.stride_height - s.pad_top + ky * s.dilation_height;
            const int64_t ix = at[2] * s.stride_width - s.pad_left + kx * s.dilation_width;
            if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
            for (int64_t c = 0; c < s.channels; ++c) {
                sum += x[Size(((at[0] * s.height + iy) * s.width + ix) * s.channels + c)] *
                       filter[Size(((ky * s.kernel_width + kx) * s.channels + c) * s.out_channels +
                                   at[3])];
            }
        }
    }
    return sum;
}

bool IsRight(const ConvShape& s) {
    AscendProblem problem = {ASCEND_FLOAT,
                             {s.batch, s.height, s.width, s.channels, s.out_channels,
                              s.kernel_height, s.kernel_width, s.stride_height, s.stride_width,
                              s.dilation_height, s.dilation_width, s.pad_top, s.pad_left,
                              s.out_height, s.out_width, 1}};
    AscendPlan plan;
    AscendError error;
    const AscendOperator& op = ascend_ops::kConv2dBiasReluCpu;
    if (op.plan(&problem, &plan, &error) != ASCEND_OK) return false;
    std::vector<float> x = WholeNumbers(s.batch * s.height * s.width * s.channels);
    std::vector<float> filter = WholeNumbers(ascend_ops::ConvDepth(s) * s.out_channels);
    std::vector<float> bias = WholeNumbers(s.out_channels);
    std::vector<float> y(Size(ascend_ops::ConvRows(s) * s.out_channels), -1.0f);
    std::vector<uint64_t> memory = UsedWorkspace(plan);
    const AscendTensor tensors[] = {TensorOf(x), TensorOf(filter), TensorOf(bias), TensorOf(y),
                                    {memory.data(), memory.size() * 8}};
    RunOnThreads(op, problem, plan, tensors);
    size_t index = 0;
    for (int64_t b = 0; b < s.batch; ++b) {
        for (int64_t oy = 0; oy < s.out_height; ++oy) {
            for (int64_t ox = 0; ox < s.out_width; ++ox) {
                for (int64_t o = 0; o < s.out_channels; ++o, ++index) {
                    const float sum = SumAt(s, x, filter, {b, oy, ox, o}) + bias[Size(o)];
                    if (y[index] != (sum < 0 ? 0.0f : sum)) return false;
                }
            }
        }
    }
    return true;
}

ConvShape Same(int64_t batch, int64_t height, int64_t width, int64_t channels, int64_t out,
               int64_t kernel, int64_t stride, int64_t dilation) {
    ConvShape s = {batch, height, width, channels, out, kernel, kernel, stride, stride,
                   dilation, dilation, 0, 0, 0, 0};
    ascend_ops::ConvAxis rows, columns;
    ascend_ops::MeasureConvAxis(true, height, kernel, stride, dilation, &rows);
    ascend_ops::MeasureConvAxis(true, width, kernel, stride, dilation, &columns);
    s.pad_top = rows.before;
    s.pad_left = columns.before;
    s.out_height = rows.out;
    s.out_width = columns.out;
    return s;
}

}  // namespace

int main() {
    std::srand(2);
    const ConvShape shapes[] = {
        Same(3, 21, 37, 3, 33, 3, 1, 1),    // lines of several images
        Same(2, 23, 30, 64, 70, 3, 1, 1),   // several tasks
        Same(1, 12, 15, 260, 40, 3, 1, 1),  // more depth than is summed at once
        Same(2, 9, 14, 1024, 5, 2, 1, 1),   // pixels that would crowd a cache
        Same(2, 25, 31, 8, 9, 3, 2, 1),     // strides
        Same(2, 16, 40, 5, 17, 3, 1, 3),    // dilation
        Same(5, 3, 3, 20, 40, 3, 1, 1),     // too narrow: gathered
        Same(2, 9, 9, 6, 40, 1, 2, 1),      // no window shares a pixel: gathered
        Same(3, 7, 11, 70, 64, 1, 1, 1),    // a matrix
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        if (!IsRight(shapes[i])) {
            std::fprintf(stderr, "wrong: shape %zu\n", i);
            return 1;
        }
    }
    return 0;
}
