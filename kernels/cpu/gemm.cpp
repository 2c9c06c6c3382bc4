#include "gemm.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <type_traits>

#include "packed_right.h"

namespace ascend_ops::cpu {
namespace {

// Rows of a task: eighteen passes of the micro-kernel share a panel in the first-level cache, and
// their left rows (270 KiB on AVX-512) stay in the second.
constexpr int64_t kTaskRows = 18 * kRowsMax;
// Columns whose sums a task keeps at once. Those of float stay in the result, which the last-level
// cache serves fast enough; others are in memory of the thread's own.
constexpr int64_t kFloatColumns = 4096;
constexpr int64_t kTaskColumns = 1024;
// Of so many rows a task takes all, when it has so many columns: each panel is packed once even so.
constexpr int64_t kRowsOfOneTask = 2 * kTaskRows;
constexpr int64_t kColumnsOfOneTask = 256;
// Below so many rows the right matrix is used too little to be worth packing.
constexpr int64_t kRowsWorthPacking = 2 * kRowsMax;

struct FreeAligned {
    void operator()(float* memory) const { ::operator delete[](memory, std::align_val_t(64)); }
};

// Memory of a thread that grows to what its largest task needed.
class Scratch {
   public:
    float* Floats(int64_t count) {
        if (count > count_) {
            memory_.reset(new (std::align_val_t(64)) float[static_cast<size_t>(count)]);
            count_ = count;
        }
        return memory_.get();
    }

   private:
    std::unique_ptr<float[], FreeAligned> memory_;
    int64_t count_ = 0;
};

thread_local Scratch t_left;
thread_local Scratch t_sums;
thread_local Scratch t_bias;
thread_local Scratch t_panel;

// A part of the result, and where its float sums stand.
struct Block {
    int64_t row;
    int64_t rows;
    int64_t column;
    int64_t columns;
    float* sums;
    int64_t pitch;
};

void Activate(float* row, const float* bias, int64_t count, Activation activation) {
    if (activation == Activation::kRelu) {
        // A NaN stays one: the comparison is false for it.
        for (int64_t i = 0; i < count; ++i) {
            const float value = row[i] + bias[i];
            row[i] = value < 0.0f ? 0.0f : value;
        }
        return;
    }
    for (int64_t i = 0; i < count; ++i) row[i] += bias[i];
    if (activation == Activation::kNone) return;
    for (int64_t i = 0; i < count; ++i) row[i] = 1.0f / (1.0f + cpusim::Exp(-row[i]));
}

// Runs the micro-kernel on a panel that is narrower than its vectors, through a whole one.
void MultiplyNarrow(MicroKernelFunction kernel, const float* left, const float* panel,
                    int64_t panel_pitch, int64_t depth, float* sums, int64_t pitch, int64_t rows,
                    int64_t width, bool accumulate) {
    alignas(64) float whole[kRowsMax * kPanel];
    kernel(left, panel, panel_pitch, depth, whole, kPanel, false);
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < width; ++j) {
            float* to = sums + i * pitch + j;
            *to = accumulate ? *to + whole[i * kPanel + j] : whole[i * kPanel + j];
        }
    }
}

class Task {
   public:
    Task(const GemmPlan& plan, const GemmOperands& operands)
        : plan_(plan), operands_(operands),
          packed_(plan, operands.right, operands.workspace) {}

    void Run(int32_t task) const {
        if (plan_.packing == Packing::kShared) {
            packed_.PackUnclaimed(Claims(plan_.shape) * task /
                                  (plan_.row_tasks * plan_.column_tasks));
        }
        const int64_t row = task / plan_.column_tasks * plan_.task_rows;
        const int64_t first = task % plan_.column_tasks * plan_.task_columns;
        const int64_t end = std::min(first + plan_.task_columns, plan_.shape.n);
        const int64_t rows = std::min(plan_.task_rows, plan_.shape.m - row);
        const int64_t most = operands_.dtype == ASCEND_FLOAT ? kFloatColumns : kTaskColumns;
        for (int64_t column = first; column < end; column += most) {
            const int64_t columns = std::min(most, end - column);
            ComputeBlock({row, rows, column, columns, nullptr, 0});
        }
        if (plan_.packing == Packing::kShared && plan_.keeps == 0) {
            packed_.FinishTask(static_cast<uint64_t>(GemmTasks(plan_)));
        }
    }

   private:
    // Float results are summed where they will stay, others in the thread's own memory.
    void ComputeBlock(Block block) const {
        if (operands_.dtype == ASCEND_FLOAT) {
            block.sums = static_cast<float*>(operands_.y) + block.row * plan_.shape.n + block.column;
            block.pitch = plan_.shape.n;
        } else {
            block.pitch = RoundUp(block.columns, kPanel);
            block.sums = t_sums.Floats(block.rows * block.pitch);
        }
        float* left = t_left.Floats(block.rows * kLeftPitch);
        for (int64_t chunk = 0; chunk < DepthChunks(plan_.shape); ++chunk) {
            const int64_t first = chunk * kDepth;
            const int64_t depth = std::min<int64_t>(kDepth, plan_.shape.k - first);
            operands_.left->ReadBlock(left, kLeftPitch, block.row, block.rows, first, depth);
            AddChunk(block, left, chunk, depth);
        }
        if (plan_.shape.k == 0) {
            for (int64_t i = 0; i < block.rows; ++i) {
                std::fill_n(block.sums + i * block.pitch, block.columns, 0.0f);
            }
        }
        Finish(block);
    }

    void AddChunk(const Block& block, const float* left, int64_t chunk, int64_t depth) const {
        // Passes of nearly equal height: a short one at the end would run at half the speed.
        const int64_t passes = CeilDivide(block.rows, kRowsMax);
        for (int64_t column = 0; column < block.columns; column += kPanel) {
            const int64_t width = std::min<int64_t>(kPanel, block.columns - column);
            int64_t pitch = kPanel;
            const float* panel = RightPanel(block, chunk, column, depth, width, &pitch);
            for (int64_t pass = 0; pass < passes; ++pass) {
                const int64_t row = block.rows * pass / passes;
                const int64_t rows = block.rows * (pass + 1) / passes - row;
                const MicroKernelFunction kernel = MicroKernelOf(static_cast<int>(rows));
                float* sums = block.sums + row * block.pitch + column;
                if (plan_.packing == Packing::kShared) PrefetchNext(panel, depth, pass, passes);
                if (plan_.packing == Packing::kOwn && column + kPanel < block.columns) {
                    PrefetchSource(block.column + column + kPanel, chunk, pass, passes);
                }
                const float* from = left + row * kLeftPitch;
                if (width == kPanel) {
                    kernel(from, panel, pitch, depth, sums, block.pitch, chunk != 0);
                } else {
                    MultiplyNarrow(kernel, from, panel, pitch, depth, sums, block.pitch, rows,
                                   width, chunk != 0);
                }
            }
        }
    }

    // A share of the panel that follows, into the second-level cache.
    static void PrefetchNext(const float* panel, int64_t depth, int64_t pass, int64_t passes) {
        const float* next = panel + depth * kPanel;
        const int64_t lines = depth * kPanel / kLineFloats;
        for (int64_t i = lines * pass / passes; i < lines * (pass + 1) / passes; ++i) {
            __builtin_prefetch(next + i * kLineFloats, 0, 2);
        }
    }

    // A share of the rows that the panel at `column` will be packed from.
    void PrefetchSource(int64_t column, int64_t chunk, int64_t pass, int64_t passes) const {
        const Matrix& right = operands_.right;
        if (right.transposed) return;  // whole lines of it are read one after the other
        const int64_t bytes = right.dtype == ASCEND_FLOAT ? 4 : 2;
        const int64_t depth = ChunkDepth(plan_.shape, chunk);
        const char* from = static_cast<const char*>(right.data) +
                           (chunk * kDepth * right.pitch + column) * bytes;
        for (int64_t k = depth * pass / passes; k < depth * (pass + 1) / passes; ++k) {
            const char* row = from + k * right.pitch * bytes;
            for (int64_t at = 0; at < kPanel * bytes; at += kLineBytes) __builtin_prefetch(row + at);
        }
    }

    // A panel of the right matrix: packed, or where it lies; the last one may be narrow, and is
    // then copied, as the micro-kernel reads whole panels.
    const float* RightPanel(const Block& block, int64_t chunk, int64_t column, int64_t depth,
                            int64_t width, int64_t* pitch) const {
        const int64_t number = (block.column + column) / kPanel;
        if (plan_.packing == Packing::kShared) return packed_.Panel(chunk, number);
        if (plan_.packing == Packing::kOwn) {
            float* own = t_panel.Floats(kDepth * kPanel);
            PackPanel(own, operands_.right, plan_.shape, chunk, number);
            return own;
        }
        const Matrix& right = operands_.right;
        const float* from = static_cast<const float*>(right.data) +
                            chunk * kDepth * right.pitch + block.column + column;
        if (width == kPanel) {
            *pitch = right.pitch;
            return from;
        }
        float* panel = t_panel.Floats(kDepth * kPanel);
        std::fill_n(panel, depth * kPanel, 0.0f);
        for (int64_t k = 0; k < depth; ++k) Widen(panel + k * kPanel, from + k * right.pitch, width);
        return panel;
    }

    void Finish(const Block& block) const {
        float* bias = t_bias.Floats(block.columns);
        WithType(operands_.dtype, operands_.bias, [&](const auto* from) {
            Widen(bias, from + block.column, block.columns);
        });
        WithType(operands_.dtype, operands_.y, [&](const auto* y) {
            using Element = std::remove_const_t<std::remove_pointer_t<decltype(y)>>;
            for (int64_t i = 0; i < block.rows; ++i) {
                float* row = block.sums + i * block.pitch;
                Activate(row, bias, block.columns, plan_.activation);
                if constexpr (!std::is_same_v<Element, float>) {
                    auto* to = const_cast<Element*>(y) + (block.row + i) * plan_.shape.n + block.column;
                    Narrow(to, row, block.columns);
                }
            }
        });
    }

    const GemmPlan& plan_;
    const GemmOperands& operands_;
    const PackedRight packed_;
};

// A number that no word of used memory has by chance: the processes' start, mixed (splitmix64,
// G. Steele et al., OOPSLA 2014).
uint64_t NextCall() {
    static std::atomic<uint64_t> state{static_cast<uint64_t>(
        std::chrono::steady_clock::now().time_since_epoch().count())};
    uint64_t mixed = state.fetch_add(0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return (mixed ^ mixed >> 31) >> 2;
}

}  // namespace

GemmPlan PlanGemm(const GemmShape& shape, Activation activation, const Matrix& right,
                  int32_t threads, uint64_t kept_call) {
    GemmPlan plan{};
    plan.shape = shape;
    plan.activation = activation;
    const bool readable = right.dtype == ASCEND_FLOAT && !right.transposed;
    plan.keeps = kept_call != 0 ? 1 : 0;
    plan.call = plan.keeps != 0 ? kept_call : NextCall();
    const bool packs = plan.keeps != 0 || !readable || shape.m >= kRowsWorthPacking;
    plan.packing = packs ? Packing::kShared : Packing::kNever;
    if (shape.m == 0 || shape.n == 0) return plan;
    // A whole number of tasks for each thread, so that none waits for the last one.
    int64_t row_tasks = CeilDivide(shape.m, kTaskRows);
    if (packs && plan.keeps == 0 && shape.m <= kRowsOfOneTask &&
        shape.n >= kColumnsOfOneTask * threads) {
        plan.packing = Packing::kOwn;
        row_tasks = 1;
    }
    if (row_tasks > 1) row_tasks = RoundUp(row_tasks, threads);
    plan.task_rows = CeilDivide(shape.m, row_tasks);
    plan.row_tasks = static_cast<int32_t>(CeilDivide(shape.m, plan.task_rows));
    const int64_t wanted = CeilDivide(threads, plan.row_tasks);
    plan.task_columns = RoundUp(CeilDivide(shape.n, wanted), kPanel);
    plan.column_tasks = static_cast<int32_t>(CeilDivide(shape.n, plan.task_columns));
    return plan;
}

uint64_t GemmWorkspaceBytes(const GemmPlan& plan) {
    if (plan.packing != Packing::kShared) return 0;
    return ClaimBytes(plan.shape) + kLineBytes +
           static_cast<uint64_t>(plan.shape.k * Panels(plan.shape) * kPanel) * sizeof(float);
}

void RunGemm(const GemmPlan& plan, const GemmOperands& operands, int32_t begin, int32_t end) {
    const Task task(plan, operands);
    for (int32_t i = begin; i < end; ++i) task.Run(i);
}

int32_t CpuCount() {
    static const int32_t count = [] {
        cpu_set_t set;
        if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
        return std::max(1, CPU_COUNT(&set));
    }();
    return count;
}

}  // namespace ascend_ops::cpu
