// The left matrix of a convolution: a row is what the filter sees at one place of the result,
// filter row after filter row, and in each pixel after pixel.
#pragma once

#include <algorithm>

#include "../conv2d_bias_relu/conv2d_bias_relu_tiling.h"
#include "left_matrix.h"

namespace ascend_ops::cpu {

// How the rows of an image are read.
enum class ImageReading {
    kMatrix,    // a filter of one pixel: they lie in memory
    kBordered,  // from a copy of the lines that a task needs, with a border of zeros
    kGathered,  // each copied a pass at a time
};

// What the copy for some lines of the result looks like.
struct BorderedLines {
    int64_t width;        // pixels
    int64_t pixel_pitch;  // floats
    int64_t line_pitch;   // floats
    int64_t reach;        // lines of the image that a line of the result sees

    explicit BorderedLines(const ConvShape& shape)
        : width((shape.out_width - 1) * shape.stride_width +
                (shape.kernel_width - 1) * shape.dilation_width + 1),
          pixel_pitch(shape.channels),
          reach((shape.kernel_height - 1) * shape.dilation_height + 1) {
        if (shape.stride_width * pixel_pitch % kCrowdedPitch == 0) pixel_pitch += kLineFloats;
        line_pitch = width * pixel_pitch;
    }
};

// Half of the second-level cache that most CPUs have, for a task's lines.
inline constexpr int64_t kTaskFloats = 96 * 1024;

// Rows of the result whose lines a task keeps, at least those of a line.
inline int64_t BorderedTaskRows(const ConvShape& shape) {
    const BorderedLines lines(shape);
    const int64_t more = kTaskFloats / std::max<int64_t>(1, lines.line_pitch) - lines.reach;
    return (1 + std::max<int64_t>(0, more / shape.stride_height)) * shape.out_width;
}

inline ImageReading ReadingOf(const ConvShape& shape) {
    const int64_t window = shape.kernel_height * shape.kernel_width;
    const int64_t steps = shape.stride_height * shape.stride_width;
    const bool bordered = HasBorder(shape);
    if (window == 1 && steps == 1 && !bordered) return ImageReading::kMatrix;
    // Narrow results would leave passes half empty, and pixels that no window shares are copied
    // only once anyway. Of very long lines one window's worth is too much for a cache.
    const BorderedLines lines(shape);
    const bool fits = lines.reach * lines.line_pitch <= 8 * kTaskFloats;
    return shape.out_width > kRowsMax / 2 && window > steps && fits ? ImageReading::kBordered
                                                                    : ImageReading::kGathered;
}

// Each row is copied; without dilation a filter row is one run of memory.
template <typename T>
class GatheredRows : public LeftRows {
   public:
    GatheredRows(const ConvShape& shape, const void* image)
        : shape_(shape), image_(static_cast<const T*>(image)),
          line_(shape.kernel_width * shape.channels) {}

    LeftPlace Read(const LeftPart& part, std::vector<Run>* runs) const override {
        runs->assign(1, {0, part.count});
        const int64_t pitch = SpreadPitch(part.count);
        float* to = t_left.Floats(kRowsMax * pitch);
        // Divisions only here: one for each row would cost a third of a narrow product.
        int64_t out_x = part.row % shape_.out_width;
        const int64_t out_row = part.row / shape_.out_width;
        int64_t out_y = out_row % shape_.out_height;
        const T* image = image_ + out_row / shape_.out_height * ImageElements();
        const int64_t kernel_y = part.first / line_, begin = part.first % line_;
        for (int64_t i = 0; i < part.rows; ++i) {
            ReadRow(to + i * pitch, image, {out_x, out_y}, {kernel_y, begin}, part.count);
            if (++out_x < shape_.out_width) continue;
            out_x = 0;
            if (++out_y < shape_.out_height) continue;
            out_y = 0;
            image += ImageElements();
        }
        return {to, pitch};
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
        Widen(to + (low - begin), line + x * shape_.channels + low, high - low);
        std::fill_n(to + (high - begin), end - high, 0.0f);
    }

    const ConvShape shape_;
    const T* const image_;
    const int64_t line_;
};

// A line of an image, of which a line of the result sees some; nullptr: beyond the image.
using ImageLine = const void*;

// The lines that a thread's task sees, and how many of them are copied already.
struct TaskLines {
    Scratch copies;
    std::vector<ImageLine> lines;
    std::vector<int64_t> starts;  // the first line that each line of the result sees
    int64_t copied;
    int64_t first;  // line of the result
};
inline thread_local TaskLines t_task_lines;

template <typename T>
class BorderedRows : public LeftRows {
   public:
    BorderedRows(const ConvShape& shape, const void* image)
        : shape_(shape), image_(static_cast<const T*>(image)), copy_(shape) {}

    int64_t LineRows() const override { return shape_.out_width; }

    // Lists what the lines of the result see, image after image.
    void Begin(int64_t row, int64_t rows) const override {
        TaskLines& task = t_task_lines;
        task.lines.clear();
        task.starts.clear();
        task.copied = 0;
        task.first = row / shape_.out_width;
        const int64_t end = task.first + rows / shape_.out_width;
        for (int64_t line = task.first; line < end;) {
            const int64_t image = line / shape_.out_height, y = line % shape_.out_height;
            const int64_t count = std::min(end - line, shape_.out_height - y);
            for (int64_t i = 0; i < count; ++i) {
                task.starts.push_back(static_cast<int64_t>(task.lines.size()) +
                                      i * shape_.stride_height);
            }
            const int64_t top = y * shape_.stride_height - shape_.pad_top;
            const int64_t seen = (count - 1) * shape_.stride_height + copy_.reach;
            for (int64_t i = 0; i < seen; ++i) task.lines.push_back(LineAt(image, top + i));
            line += count;
        }
        task.copies.Floats(static_cast<int64_t>(task.lines.size()) * copy_.line_pitch);
    }

    // Lines are copied when the first pass comes to them: what was fetched is still in a cache.
    LeftPlace Read(const LeftPart& part, std::vector<Run>* runs) const override {
        TaskLines& task = t_task_lines;
        const int64_t line = part.row / shape_.out_width - task.first;
        const int64_t start = task.starts[static_cast<size_t>(line)];
        float* copies = task.copies.Floats(0);
        for (; task.copied < start + copy_.reach; ++task.copied) {
            CopyLine(copies + task.copied * copy_.line_pitch,
                     task.lines[static_cast<size_t>(task.copied)]);
        }
        ListRuns(part.first, part.first + part.count, runs);
        const int64_t pitch = shape_.stride_width * copy_.pixel_pitch;
        return {copies + start * copy_.line_pitch + part.row % shape_.out_width * pitch, pitch};
    }

    // A share of the line that will be copied next.
    int64_t ListFetches(const LeftPart& next, int64_t index, int64_t count,
                        FetchRange* ranges) const override {
        const TaskLines& task = t_task_lines;
        const auto copied = static_cast<size_t>(task.copied);
        if (copied == task.lines.size() || task.lines[copied] == nullptr) return 0;
        const int64_t bytes = shape_.width * shape_.channels * static_cast<int64_t>(sizeof(T));
        const int64_t share = CeilDivide(bytes * kRowsMax, shape_.out_width * count);
        const int64_t x = next.row % shape_.out_width;
        const int64_t from = bytes * x / shape_.out_width + share * index;
        ranges[0] = {static_cast<const char*>(task.lines[copied]) + from,
                     CeilDivide(share, kLineBytes)};
        return 1;
    }

   private:
    ImageLine LineAt(int64_t image, int64_t y) const {
        if (y < 0 || y >= shape_.height) return nullptr;
        return image_ + (image * shape_.height + y) * shape_.width * shape_.channels;
    }

    // A line of an image, between what is padded.
    void CopyLine(float* to, ImageLine line) const {
        if (line == nullptr) {
            std::fill_n(to, copy_.line_pitch, 0.0f);
            return;
        }
        const T* from = static_cast<const T*>(line);
        const int64_t pitch = copy_.pixel_pitch, channels = shape_.channels;
        const int64_t before = std::min(shape_.pad_left, copy_.width);
        const int64_t count = std::min(shape_.width, copy_.width - before);
        std::fill_n(to, before * pitch, 0.0f);
        to += before * pitch;
        if (pitch == channels) {
            Widen(to, from, count * channels);
        } else {
            for (int64_t x = 0; x < count; ++x) {
                Widen(to + x * pitch, from + x * channels, channels);
            }
        }
        std::fill_n(to + count * pitch, (copy_.width - before - count) * pitch, 0.0f);
    }

    // The pieces of the depth [first, end): a filter row's, or a pixel's where they lie apart.
    void ListRuns(int64_t first, int64_t end, std::vector<Run>* runs) const {
        const bool joined = shape_.dilation_width == 1 && copy_.pixel_pitch == shape_.channels;
        const int64_t piece = joined ? shape_.kernel_width * shape_.channels : shape_.channels;
        const int64_t pieces = joined ? 1 : shape_.kernel_width;  // of a filter row
        runs->clear();
        for (int64_t at = first; at < end;) {
            const int64_t index = at / piece, within = at % piece;
            const int64_t count = std::min(end - at, piece - within);
            const int64_t y = index / pieces * shape_.dilation_height;
            const int64_t x = index % pieces * shape_.dilation_width;
            runs->push_back({y * copy_.line_pitch + x * copy_.pixel_pitch + within, count});
            at += count;
        }
    }

    const ConvShape shape_;
    const T* const image_;
    const BorderedLines copy_;
};

}  // namespace ascend_ops::cpu
