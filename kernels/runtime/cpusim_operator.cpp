#include "cpusim_operator.h"

#include <algorithm>
#include <memory>
#include <new>

namespace ascend_ops {
namespace {

struct FreeAligned {
    void operator()(uint8_t* memory) const { ::operator delete[](memory, std::align_val_t(4096)); }
};

// One Unified Buffer a host thread, kept for the thread's life: a core starts in no time.
uint8_t* ThreadUnifiedBuffer() {
    thread_local std::unique_ptr<uint8_t[], FreeAligned> buffer(
        new (std::align_val_t(4096)) uint8_t[cpusim::kUnifiedBufferBytes]);
    return buffer.get();
}

cpusim::Core& ThreadCore() {
    thread_local cpusim::Core core;
    return core;
}

// Makes a core the current one of this thread for the length of a kernel.
class CoreScope {
   public:
    CoreScope(int64_t index, int64_t count) {
        cpusim::Core& core = ThreadCore();
        core.unified_buffer = ThreadUnifiedBuffer();
        core.unified_buffer_used = 0;
        core.index = index;
        core.count = count;
        core.atomic = cpusim::AtomicMode::kNone;
        cpusim::t_core = &core;
    }
    ~CoreScope() { cpusim::t_core = nullptr; }
    CoreScope(const CoreScope&) = delete;
    CoreScope& operator=(const CoreScope&) = delete;
};

#if CPUSIM_CHECKED
// Where the cores of this thread add what they took, while somebody estimates.
thread_local AscendEstimate* t_estimate = nullptr;

void AddEstimate(const cpusim::CycleEstimate& core) {
    if (t_estimate == nullptr) return;
    t_estimate->total_cycles = std::max(t_estimate->total_cycles, core.total);
    for (int pipe = 0; pipe < ASCEND_PIPE_COUNT; ++pipe) {
        t_estimate->busy_cycles[pipe] += core.busy[static_cast<size_t>(pipe)];
    }
}

void StartChecker(const char* name, int64_t core, const AscendTensor* tensors, int32_t count) {
    std::vector<std::pair<const uint8_t*, uint64_t>> global;
    for (int32_t i = 0; i < count; ++i) {
        global.emplace_back(static_cast<const uint8_t*>(tensors[i].data), tensors[i].bytes);
    }
    cpusim::ThisCore().checker.Start(name, core, cpusim::ThisCore().unified_buffer,
                                     std::move(global));
}
#endif

}  // namespace

int PlanElementwise(TilingStatus status, const ElementwiseTiling& tiling, const char* name,
                    AscendPlan* plan, AscendError* error) {
    static_assert(sizeof(ElementwiseTiling) <= ASCEND_TILING_BYTES, "tiling fits the plan");
    if (status == TilingStatus::kNegativeLength) {
        std::snprintf(error->text, sizeof error->text, "%s: the length is negative", name);
        return ASCEND_INVALID;
    }
    if (status == TilingStatus::kBufferTooSmall) {
        std::snprintf(error->text, sizeof error->text,
                      "%s: not one tile fits the Unified Buffer of %u bytes", name,
                      cpusim::kUnifiedBufferBytes);
        return ASCEND_INVALID;
    }
    plan->core_count = static_cast<int32_t>(tiling.core_count);
    plan->workspace_bytes = 0;
    std::memcpy(plan->tiling, &tiling, sizeof tiling);
    return ASCEND_OK;
}

int RunCores(const char* name, KernelBody body, [[maybe_unused]] int32_t tensor_count,
             const AscendPlan* plan, const AscendTensor* tensors, int32_t begin, int32_t end,
             AscendError* error) {
    uint8_t tiling[ASCEND_TILING_BYTES];
    std::memcpy(tiling, plan->tiling, sizeof tiling);
#if CPUSIM_CHECKED
    try {
        std::vector<cpusim::GlobalAccess> accesses;
        for (int32_t index = begin; index < end; ++index) {
            CoreScope scope(index, plan->core_count);
            StartChecker(name, index, tensors, tensor_count);
            body(tensors, tiling);
            AddEstimate(cpusim::ThisCore().checker.Estimate());
            const bool adds = cpusim::ThisCore().atomic != cpusim::AtomicMode::kNone;
            const auto touched = cpusim::ThisCore().checker.Finish(adds);
            accesses.insert(accesses.end(), touched.begin(), touched.end());
        }
        cpusim::RequireCoresApart(name, std::move(accesses));
    } catch (const cpusim::Violation& violation) {
        return Fail(error, ASCEND_VIOLATION, violation.what());
    }
#else
    (void)name;
    (void)error;
    for (int32_t index = begin; index < end; ++index) {
        CoreScope scope(index, plan->core_count);
        body(tensors, tiling);
    }
#endif
    return ASCEND_OK;
}

#if CPUSIM_CHECKED
int EstimateCycles(const AscendOperator* op, const AscendProblem* problem, const AscendPlan* plan,
                   const AscendTensor* tensors, AscendEstimate* estimate, AscendError* error) {
    *estimate = AscendEstimate{};
    t_estimate = estimate;
    const int code = op->run(problem, plan, tensors, 0, plan->core_count, error);
    t_estimate = nullptr;
    return code;
}
#endif

}  // namespace ascend_ops
