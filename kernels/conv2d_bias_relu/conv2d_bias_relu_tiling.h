// Tiling of the convolution (host and device): a product of gathered rows of the image with the
// filter, [batch · out_h · out_w, kernel_h · kernel_w · channels] by [the same, out_channels].
#pragma once

#include "../common/cube_gemm_tiling.h"

namespace ascend_ops {

// Image and result are [batch, height, width, channels], the filter is [height, width, channels,
// out_channels].
struct ConvShape {
    int64_t batch;
    int64_t height;
    int64_t width;
    int64_t channels;
    int64_t out_channels;
    int64_t kernel_height;
    int64_t kernel_width;
    int64_t stride_height;
    int64_t stride_width;
    int64_t dilation_height;
    int64_t dilation_width;
    int64_t pad_top;
    int64_t pad_left;
    int64_t out_height;
    int64_t out_width;
};

struct Conv2dBiasReluTiling {
    CubeTiling cube;
    int32_t height, width, channels;
    int32_t kernel_height, kernel_width;
    int32_t stride_height, stride_width;
    int32_t dilation_height, dilation_width;
    int32_t pad_top, pad_left;
    int32_t out_height, out_width;
    uint32_t channel_pitch;       // channels rounded up to 16: a position's place in the reduction
    uint32_t positions_a_chunk;   // positions of the kernel that a chunk holds, or
    uint32_t chunks_a_position;   // chunks that a position's channels are read in
    uint32_t has_border;          // some positions lie outside the image
};

enum class ConvStatus { kOk, kNegativeSize, kStep, kUnknownActivation, kTooLarge };

constexpr int64_t ConvRows(const ConvShape& shape) {
    return shape.batch * shape.out_height * shape.out_width;
}
constexpr int64_t ConvDepth(const ConvShape& shape) {
    return shape.kernel_height * shape.kernel_width * shape.channels;
}

// Along one axis: the result's extent, and what is padded before the image.
struct ConvAxis {
    int64_t out;
    int64_t before;
};

// As TensorFlow defines SAME and VALID; false when VALID padding leaves nothing.
inline bool MeasureConvAxis(bool same, int64_t size, int64_t extent, int64_t stride,
                            int64_t dilation, ConvAxis* axis) {
    const int64_t reach = (extent - 1) * dilation + 1;
    if (same) {
        axis->out = CeilDivide(size, stride);
        const int64_t missing = (axis->out - 1) * stride + reach - size;
        axis->before = missing > 0 ? missing / 2 : 0;
        return true;
    }
    axis->out = size < reach ? 0 : (size - reach) / stride + 1;
    axis->before = 0;
    return extent >= 1 && size >= reach;
}

// Where the last position that is read lies beyond the image, or the first before it.
constexpr bool HasBorder(const ConvShape& s) {
    const int64_t bottom = (s.out_height - 1) * s.stride_height - s.pad_top +
                           (s.kernel_height - 1) * s.dilation_height;
    const int64_t right = (s.out_width - 1) * s.stride_width - s.pad_left +
                          (s.kernel_width - 1) * s.dilation_width;
    return s.pad_top > 0 || s.pad_left > 0 || bottom >= s.height || right >= s.width;
}

inline ConvStatus CheckConv(const ConvShape& shape, uint32_t activation) {
    const int64_t sizes[] = {shape.batch, shape.height, shape.width, shape.channels,
                             shape.out_channels, shape.kernel_height, shape.kernel_width,
                             shape.pad_top, shape.pad_left, shape.out_height, shape.out_width};
    for (const int64_t size : sizes) {
        if (size < 0) return ConvStatus::kNegativeSize;
        if (size > INT32_MAX) return ConvStatus::kTooLarge;
    }
    const int64_t steps[] = {shape.stride_height, shape.stride_width, shape.dilation_height,
                             shape.dilation_width};
    for (const int64_t step : steps) {
        if (step < 1) return ConvStatus::kStep;
        if (step > INT32_MAX) return ConvStatus::kTooLarge;
    }
    if (activation > kSigmoid) return ConvStatus::kUnknownActivation;
    if (shape.kernel_height * shape.kernel_width > INT32_MAX ||
        ConvDepth(shape) > INT32_MAX || !TilesFit(ConvRows(shape), shape.out_channels)) {
        return ConvStatus::kTooLarge;
    }
    return ConvStatus::kOk;
}

inline void TileReduction(uint32_t element_bytes, Conv2dBiasReluTiling* tiling) {
    const int64_t chunk = ReductionChunk(element_bytes);
    const int64_t positions = int64_t{tiling->kernel_height} * tiling->kernel_width;
    const int64_t pitch = RoundUpTo(tiling->channels, 16);
    tiling->channel_pitch = static_cast<uint32_t>(pitch);
    tiling->positions_a_chunk = 1;
    tiling->chunks_a_position = 1;
    if (positions * pitch == 0) return;
    if (pitch <= chunk) {
        const int64_t fit = chunk / pitch;
        tiling->positions_a_chunk = static_cast<uint32_t>(fit < positions ? fit : positions);
        tiling->cube.chunk_count =
            static_cast<uint32_t>(CeilDivide(positions, tiling->positions_a_chunk));
    } else {
        tiling->chunks_a_position = static_cast<uint32_t>(CeilDivide(tiling->channels, chunk));
        tiling->cube.chunk_count = static_cast<uint32_t>(positions * tiling->chunks_a_position);
    }
}

inline ConvStatus TileConv2dBiasRelu(const ConvShape& shape, uint32_t activation,
                                     uint32_t element_bytes, bool bias_fits_table,
                                     uint32_t core_count, Conv2dBiasReluTiling* tiling) {
    const ConvStatus status = CheckConv(shape, activation);
    if (status != ConvStatus::kOk) return status;
    const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
    *tiling = Conv2dBiasReluTiling{};
    TileCube(ConvRows(shape), shape.out_channels, core_count, &tiling->cube);
    tiling->height = narrow(shape.height);
    tiling->width = narrow(shape.width);
    tiling->channels = narrow(shape.channels);
    tiling->kernel_height = narrow(shape.kernel_height);
    tiling->kernel_width = narrow(shape.kernel_width);
    tiling->stride_height = narrow(shape.stride_height);
    tiling->stride_width = narrow(shape.stride_width);
    tiling->dilation_height = narrow(shape.dilation_height);
    tiling->dilation_width = narrow(shape.dilation_width);
    tiling->pad_top = narrow(shape.pad_top);
    tiling->pad_left = narrow(shape.pad_left);
    tiling->out_height = narrow(shape.out_height);
    tiling->out_width = narrow(shape.out_width);
    tiling->has_border = HasBorder(shape) ? 1 : 0;
    TileReduction(element_bytes, tiling);
    tiling->cube.activation = activation;
    const bool nothing = tiling->cube.chunk_count == 0;
    tiling->cube.through_vector =
        activation == kSigmoid || !bias_fits_table || nothing ? 1 : 0;
    return ConvStatus::kOk;
}

}  // namespace ascend_ops
