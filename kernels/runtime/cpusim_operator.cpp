#include "cpusim_operator.h"

#include <algorithm>
#include <memory>
#include <new>

namespace ascend_ops {
namespace {

struct FreeAligned {
    void operator()(uint8_t* memory) const { ::operator delete[](memory, std::align_val_t(4096)); }
};

// One set of local memories a host thread, kept for the thread's life: a core starts in no time.
uint8_t* ThreadMemory() {
    thread_local std::unique_ptr<uint8_t[], FreeAligned> memory(
        new (std::align_val_t(4096)) uint8_t[cpusim::kLocalMemoryBytes]);
    return memory.get();
}

cpusim::Core& ThreadCore() {
    thread_local cpusim::Core core;
    return core;
}

// What a core is: its number among its kind, and its place in its block.
struct CoreKind {
    int64_t index;
    int64_t count;
    bool is_cube = false;
    int64_t sub_block = 0;
    int64_t sub_block_count = 1;
};

// Makes a core the current one of this thread for the length of a kernel.
class CoreScope {
   public:
    explicit CoreScope(const CoreKind& kind) {
        cpusim::Core& core = ThreadCore();
        core.memory = ThreadMemory();
        for (uint32_t& used : core.used) used = 0;
        core.index = kind.index;
        core.count = kind.count;
        core.is_cube = kind.is_cube;
        core.sub_block = kind.sub_block;
        core.sub_block_count = kind.sub_block_count;
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
    for (int pipe = 0; pipe < ASCEND_PIPE_FIX; ++pipe) {
        t_estimate->busy_cycles[pipe] += core.busy[static_cast<size_t>(pipe)];
    }
    t_estimate->busy_cycles[ASCEND_PIPE_FIX] += core.busy[PIPE_FIX];
}

void StartChecker(const char* name, int64_t block, const AscendTensor* tensors, int32_t count,
                  cpusim::BlockHistory* history) {
    std::vector<std::pair<const uint8_t*, uint64_t>> global;
    for (int32_t i = 0; i < count; ++i) {
        global.emplace_back(static_cast<const uint8_t*>(tensors[i].data), tensors[i].bytes);
    }
    cpusim::Core& core = cpusim::ThisCore();
    core.checker.Start(name, {core.index, block, core.is_cube, core.sub_block}, core.memory,
                       std::move(global), history);
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

namespace {

// The cores of a block in the order in which they run.
struct Block {
    CoreKind cores[3];
    int count;
};

Block VectorBlock(int64_t index, int64_t count) { return {{{index, count}}, 1}; }

Block MixedBlock(int64_t index, int64_t count) {
    return {{{index, count, true, 0, 2}, {2 * index, count, false, 0, 2},
             {2 * index + 1, count, false, 1, 2}}, 3};
}

#if CPUSIM_CHECKED
void RunBlockChecked(const char* name, KernelBody body, const Block& block, int64_t index,
                     int32_t tensor_count, const AscendTensor* tensors, uint8_t* tiling,
                     std::vector<cpusim::GlobalAccess>* accesses) {
    cpusim::BlockHistory history;
    for (int i = 0; i < block.count; ++i) {
        CoreScope scope(block.cores[i]);
        StartChecker(name, index, tensors, tensor_count, &history);
        body(tensors, tiling);
        AddEstimate(cpusim::ThisCore().checker.Estimate());
        const bool adds = cpusim::ThisCore().atomic != cpusim::AtomicMode::kNone;
        const auto touched = cpusim::ThisCore().checker.Finish(adds);
        accesses->insert(accesses->end(), touched.begin(), touched.end());
    }
}
#endif

int RunBlocks(const char* name, KernelBody body, [[maybe_unused]] int32_t tensor_count,
              Block (*make_block)(int64_t, int64_t), const AscendPlan* plan,
              const AscendTensor* tensors, int32_t begin, int32_t end, AscendError* error) {
    uint8_t tiling[ASCEND_TILING_BYTES];
    std::memcpy(tiling, plan->tiling, sizeof tiling);
#if CPUSIM_CHECKED
    try {
        std::vector<cpusim::GlobalAccess> accesses;
        for (int32_t index = begin; index < end; ++index) {
            RunBlockChecked(name, body, make_block(index, plan->core_count), index, tensor_count,
                            tensors, tiling, &accesses);
        }
        cpusim::RequireCoresApart(name, std::move(accesses));
    } catch (const cpusim::Violation& violation) {
        return Fail(error, ASCEND_VIOLATION, violation.what());
    }
#else
    (void)name;
    (void)error;
    for (int32_t index = begin; index < end; ++index) {
        const Block block = make_block(index, plan->core_count);
        for (int i = 0; i < block.count; ++i) {
            CoreScope scope(block.cores[i]);
            body(tensors, tiling);
        }
    }
#endif
    return ASCEND_OK;
}

}  // namespace

int RunCores(const char* name, KernelBody body, int32_t tensor_count, const AscendPlan* plan,
             const AscendTensor* tensors, int32_t begin, int32_t end, AscendError* error) {
    return RunBlocks(name, body, tensor_count, VectorBlock, plan, tensors, begin, end, error);
}

int RunMixedCores(const char* name, KernelBody body, int32_t tensor_count, const AscendPlan* plan,
                  const AscendTensor* tensors, int32_t begin, int32_t end, AscendError* error) {
    return RunBlocks(name, body, tensor_count + 1, MixedBlock, plan, tensors, begin, end, error);
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
