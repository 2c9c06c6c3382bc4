// How a product is cut into tasks, and its sizes for the caches.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "packed_right.h"

namespace ascend_ops::cpu {
namespace {

// Depth that is summed at once: the left rows of a pass (28 KiB on AVX-512) stay in the first-level
// cache. A convolution's rows overlap, so that more of them fits.
constexpr int64_t kDepthMax = 512;
constexpr int64_t kLineDepthMax = 2304;
// The second-level cache, where the system does not say how large it is, and what is made use of.
constexpr int64_t kCacheBytes = 512 * 1024;
constexpr int64_t kCacheBytesMin = 256 * 1024;
constexpr int64_t kCacheBytesMax = 2 * 1024 * 1024;
// Rows of a task where all threads share the packed panels.
constexpr int64_t kTaskRows = 18 * kRowsMax;
constexpr int64_t kBlocksAThread = 4;
// With so many columns for each thread, tasks share these out, and each packs panels of its own.
constexpr int64_t kColumnsOfOneTask = 128;
// Rows for each column up to which that is worth it: the left matrix is read by each of the tasks.
constexpr int64_t kRowsAColumn = 4;
// A right matrix of so many floats is packed by each thread for itself sooner than fetched from the
// one that packed it.
constexpr int64_t kSmallRight = 64 * 1024;
// Below so many rows the right matrix is used too little to be worth packing.
constexpr int64_t kRowsWorthPacking = 2 * kRowsMax;

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

// Depth in chunks of nearly equal size; what was packed by it may be kept, so that it depends on
// nothing but the right matrix.
int64_t DepthOf(const GemmRequest& request) {
    const int64_t k = std::max<int64_t>(1, request.shape.k);
    const int64_t chunks = CeilDivide(k, request.line_rows == 0 ? kDepthMax : kLineDepthMax);
    return std::min(k, RoundUp(CeilDivide(k, chunks), kLineFloats));
}

// Right panels that all passes meet take half of the second-level cache.
int64_t GroupFloats() {
    static const int64_t floats = [] {
        const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
        return std::clamp(bytes > 0 ? bytes : kCacheBytes, kCacheBytesMin, kCacheBytesMax) / 8;
    }();
    return floats;
}

void CutRows(const GemmRequest& request, GemmPlan* plan) {
    const int64_t m = request.shape.m, line = std::max<int64_t>(1, request.line_rows);
    const int64_t most = request.line_rows == 0 ? kTaskRows : request.task_rows_max;
    // A whole number of tasks for each thread, so that none waits for the last one. Many are handed
    // out kBlocksAThread blocks a thread (by Eigen's pool, which is TensorFlow's), also whole ones.
    int64_t tasks = CeilDivide(m, std::max(line, most));
    const int64_t blocks = kBlocksAThread * request.threads;
    if (tasks > 1) tasks = RoundUp(tasks, tasks > blocks ? blocks : request.threads);
    plan->task_rows = RoundUp(CeilDivide(m, tasks), line);
}

}  // namespace

GemmPlan PlanGemm(const GemmRequest& request) {
    GemmPlan plan{};
    const GemmShape& shape = plan.shape = request.shape;
    plan.activation = request.activation;
    plan.depth = DepthOf(request);
    plan.keeps = request.kept_call != 0 ? 1 : 0;
    plan.call = plan.keeps != 0 ? request.kept_call : NextCall();
    const bool readable = request.right.dtype == ASCEND_FLOAT && !request.right.transposed;
    const bool packs = plan.keeps != 0 || !readable || shape.m >= kRowsWorthPacking;
    plan.packing = packs ? Packing::kShared : Packing::kNever;
    if (shape.m == 0 || shape.n == 0) return plan;
    if (packs && plan.keeps == 0 && request.line_rows == 0 &&
        shape.n >= kColumnsOfOneTask * request.threads && shape.m <= kRowsAColumn * shape.n) {
        plan.packing = Packing::kOwn;
        plan.task_rows = shape.m;
    } else {
        CutRows(request, &plan);
        const bool once = shape.m <= plan.task_rows * request.threads;  // a thread has one task
        if (packs && plan.keeps == 0 && once && shape.k * shape.n <= kSmallRight) {
            plan.packing = Packing::kOwn;
        }
    }
    plan.row_tasks = static_cast<int32_t>(CeilDivide(shape.m, plan.task_rows));
    const int64_t wanted = CeilDivide(request.threads, plan.row_tasks);
    plan.task_columns = RoundUp(CeilDivide(shape.n, wanted), kPanel);
    plan.column_tasks = static_cast<int32_t>(CeilDivide(shape.n, plan.task_columns));
    plan.group_columns = std::max<int64_t>(1, GroupFloats() / plan.depth / kPanel) * kPanel;
    return plan;
}

uint64_t GemmWorkspaceBytes(const GemmPlan& plan) {
    if (plan.packing != Packing::kShared) return 0;
    return ClaimBytes(plan) + kLineBytes +
           static_cast<uint64_t>(plan.shape.k * Panels(plan.shape) * kPanel) * sizeof(float);
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
