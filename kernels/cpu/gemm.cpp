#include "gemm.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "packed_right.h"
#include "scratch.h"

namespace ascend_ops::cpu {
namespace {

// Rows whose sums are kept in memory of the thread's own while more depth is to come.
constexpr int64_t kSumRows = 1024;
constexpr int64_t kTileFloats = kRowsMax * kPanel;

thread_local Scratch t_sums;
thread_local Scratch t_bias;
thread_local Scratch t_right;

// Rows and columns of the result that are multiplied together.
struct Block {
    int64_t row;
    int64_t rows;
    int64_t column;
    int64_t columns;
};

// A pass of a block: some of its rows at some depth.
struct Pass {
    LeftPart part{};
    LeftPlace left{};
    std::vector<Run> runs;
    bool first = true;  // no sums are there yet
    bool last = true;   // no depth is to come
};

// Where a tile's sums are kept.
struct Sums {
    float* data;
    int64_t pitch;
};

class Task {
   public:
    Task(const GemmPlan& plan, const GemmOperands& operands)
        : plan_(plan), operands_(operands),
          packed_(plan, operands.right, operands.workspace) {}

    void Run(int32_t task) const {
        if (plan_.packing == Packing::kShared) {
            packed_.PackUnclaimed(Claims(plan_) * task / GemmTasks(plan_));
        }
        const int64_t row = task / plan_.column_tasks * plan_.task_rows;
        const int64_t end_row = std::min(row + plan_.task_rows, plan_.shape.m);
        const int64_t column = task % plan_.column_tasks * plan_.task_columns;
        const int64_t end_column = std::min(column + plan_.task_columns, plan_.shape.n);
        operands_.left->Begin(row, end_row - row);
        const int64_t most = KeepsSums() ? std::max(kSumRows, LineRows()) / LineRows() * LineRows()
                                         : plan_.task_rows;
        for (int64_t i = row; i < end_row; i += most) {
            for (int64_t j = column; j < end_column; j += plan_.group_columns) {
                ComputeBlock({i, std::min(most, end_row - i), j,
                              std::min(plan_.group_columns, end_column - j)});
            }
        }
        if (plan_.packing == Packing::kShared && plan_.keeps == 0) {
            packed_.FinishTask(static_cast<uint64_t>(GemmTasks(plan_)));
        }
    }

   private:
    bool IsFloat() const { return operands_.dtype == ASCEND_FLOAT; }
    // Sums of another type than the result's wait in memory of the thread's own.
    bool KeepsSums() const { return !IsFloat() && DepthChunks(plan_) > 1; }
    int64_t LineRows() const { return std::max<int64_t>(1, operands_.left->LineRows()); }

    void ComputeBlock(const Block& block) const {
        float* bias = t_bias.Floats(RoundUp(block.columns, kPanel));
        WithType(operands_.dtype, operands_.bias, [&](const auto* from) {
            Widen(bias, from + block.column, block.columns);
        });
        // Nobody reads what lies beyond the last column; it must only be a number.
        std::fill(bias + block.columns, bias + RoundUp(block.columns, kPanel), 0.0f);
        if (KeepsSums()) t_sums.Floats(block.rows * RoundUp(block.columns, kPanel));
        const int64_t chunks = std::max<int64_t>(1, DepthChunks(plan_));
        Pass pass;
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
            pass.first = chunk == 0;
            pass.last = chunk + 1 == chunks;
            pass.part.first = chunk * plan_.depth;
            pass.part.count = ChunkDepth(plan_, chunk);
            AddChunk(block, chunk, &pass);
        }
    }

    // Passes of nearly equal height: a short one at the end would run at half the speed.
    void AddChunk(const Block& block, int64_t chunk, Pass* pass) const {
        PrepareRight(block, chunk);
        const int64_t lines = operands_.left->LineRows();
        const int64_t line = lines == 0 ? block.rows : lines, end = block.row + block.rows;
        for (int64_t first = block.row; first < end; first += line) {
            const int64_t rows = std::min(line, end - first);
            const int64_t passes = CeilDivide(rows, kRowsMax);
            for (int64_t i = 0; i < passes; ++i) {
                pass->part.row = first + rows * i / passes;
                pass->part.rows = first + rows * (i + 1) / passes - pass->part.row;
                if (plan_.shape.k != 0) pass->left = operands_.left->Read(pass->part, &pass->runs);
                RunPass(block, chunk, *pass);
            }
        }
    }

    void RunPass(const Block& block, int64_t chunk, const Pass& pass) const {
        const TileFunction multiply = TileFunctionOf(pass.part.rows);
        const int64_t panels = CeilDivide(block.columns, kPanel);
        LeftPart next = pass.part;
        next.row += next.rows;
        next.rows = std::min(next.rows, block.row + block.rows - next.row);
        FetchRange fetches[kLeftFetches + 1];
        TileCall call;
        call.left = pass.left.data;
        call.left_pitch = pass.left.pitch;
        call.runs = pass.runs.data();
        call.run_count = static_cast<int64_t>(pass.runs.size());
        call.floor = pass.last && plan_.activation == Activation::kRelu
                         ? 0.0f : -std::numeric_limits<float>::infinity();
        call.fetches = fetches;
        for (int64_t panel = 0; panel < panels; ++panel) {
            call.fetch_count = operands_.left->ListFetches(next, panel, panels, fetches);
            call.right = RightPanel(block, chunk, panel, &call.right_pitch);
            if (HasNextGroup(block)) {
                fetches[call.fetch_count++] = NextGroup(block, chunk, pass.part.row, panel);
            }
            RunTile(block, pass, panel * kPanel, multiply, &call);
        }
    }

    // Own panels are packed right before they are used, and are in a cache.
    bool HasNextGroup(const Block& block) const {
        return plan_.packing == Packing::kShared && plan_.shape.k != 0 &&
               block.column + block.columns < plan_.shape.n;
    }

    // A share of the panels that follow the block's: as many lines for each of its tiles.
    FetchRange NextGroup(const Block& block, int64_t chunk, int64_t row, int64_t panel) const {
        const int64_t panels = CeilDivide(block.columns, kPanel);
        const int64_t lines = panels * ChunkDepth(plan_, chunk) * kPanel / kLineFloats;
        const int64_t done = (row - block.row) * panels + panel * kRowsMax;
        const int64_t from = lines * done / (block.rows * panels);
        const int64_t share = CeilDivide(lines * kRowsMax, block.rows * panels);
        const float* next = packed_.Panel(chunk, block.column / kPanel) + lines * kLineFloats;
        return {next + from * kLineFloats, share};
    }

    // Multiplies, and finishes the tile while it is in the first-level cache.
    void RunTile(const Block& block, const Pass& pass, int64_t column, TileFunction multiply,
                 TileCall* call) const {
        const int64_t width = std::min<int64_t>(kPanel, block.columns - column);
        alignas(64) float tile[kTileFloats];
        const Sums sums = SumsOf(block, pass.part.row, column);
        const bool apart = sums.data == nullptr || (IsFloat() && width < kPanel);
        const Sums to = apart ? Sums{tile, kPanel} : sums;
        if (apart && !pass.first) CopyTile(tile, kPanel, sums, pass.part.rows, width);
        call->start = pass.first ? t_bias.Floats(0) + column : to.data;
        call->start_pitch = pass.first ? 0 : to.pitch;
        call->c = to.data;
        call->c_pitch = to.pitch;
        multiply(*call);
        if (pass.last && plan_.activation == Activation::kSigmoid) {
            for (int64_t i = 0; i < pass.part.rows; ++i) Activate(to.data + i * to.pitch, width);
        }
        if (IsFloat()) {
            if (apart) CopyTile(sums.data, sums.pitch, to, pass.part.rows, width);
        } else if (pass.last) {
            NarrowTile(to, pass.part, block.column + column, width);
        }
    }

    static void Activate(float* row, int64_t count) {
        for (int64_t i = 0; i < count; ++i) row[i] = Sigmoid(row[i]);
    }

    static void CopyTile(float* to, int64_t pitch, const Sums& from, int64_t rows, int64_t width) {
        for (int64_t i = 0; i < rows; ++i) Widen(to + i * pitch, from.data + i * from.pitch, width);
    }

    void NarrowTile(const Sums& from, const LeftPart& part, int64_t column, int64_t width) const {
        WithType(operands_.dtype, operands_.y, [&](const auto* y) {
            using Element = std::remove_const_t<std::remove_pointer_t<decltype(y)>>;
            for (int64_t i = 0; i < part.rows; ++i) {
                Narrow(const_cast<Element*>(y) + (part.row + i) * plan_.shape.n + column,
                       from.data + i * from.pitch, width);
            }
        });
    }

    // In the result when it is float; nowhere when no sum has to wait.
    Sums SumsOf(const Block& block, int64_t row, int64_t column) const {
        if (IsFloat()) {
            const int64_t n = plan_.shape.n;
            return {static_cast<float*>(operands_.y) + row * n + block.column + column, n};
        }
        if (!KeepsSums()) return {nullptr, 0};
        const int64_t pitch = RoundUp(block.columns, kPanel);
        return {t_sums.Floats(0) + (row - block.row) * pitch + column, pitch};
    }

    // Packs the block's panels, where each task has its own.
    void PrepareRight(const Block& block, int64_t chunk) const {
        if (plan_.packing != Packing::kOwn) return;
        const int64_t depth = ChunkDepth(plan_, chunk), panels = CeilDivide(block.columns, kPanel);
        PackPanels(t_right.Floats(depth * panels * kPanel), operands_.right, plan_.shape.n,
                   {chunk * plan_.depth, depth, block.column / kPanel, panels});
    }

    // A panel of the right matrix: packed, or where it lies; the last one may be narrow, and is
    // then copied, as the micro-kernel reads whole panels.
    const float* RightPanel(const Block& block, int64_t chunk, int64_t panel,
                            int64_t* pitch) const {
        const int64_t depth = ChunkDepth(plan_, chunk);
        *pitch = kPanel;
        if (depth == 0) return nullptr;
        if (plan_.packing == Packing::kShared) {
            return packed_.Panel(chunk, block.column / kPanel + panel);
        }
        if (plan_.packing == Packing::kOwn) return t_right.Floats(0) + panel * depth * kPanel;
        const Matrix& right = operands_.right;
        const int64_t column = block.column + panel * kPanel;
        if (plan_.shape.n - column < kPanel) {
            float* own = t_right.Floats(depth * kPanel);
            PackPanels(own, right, plan_.shape.n, {chunk * plan_.depth, depth, column / kPanel, 1});
            return own;
        }
        *pitch = right.pitch;
        return static_cast<const float*>(right.data) + chunk * plan_.depth * right.pitch + column;
    }

    const GemmPlan& plan_;
    const GemmOperands& operands_;
    const PackedRight packed_;
};

}  // namespace

void RunGemm(const GemmPlan& plan, const GemmOperands& operands, int32_t begin, int32_t end) {
    const Task task(plan, operands);
    for (int32_t i = begin; i < end; ++i) task.Run(i);
}

}  // namespace ascend_ops::cpu
