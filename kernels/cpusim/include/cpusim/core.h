// One emulated AI core: its Unified Buffer, its place among the cores, and the rules' observer.
//
// A core runs on one host thread; `ThisCore()` is that thread's core while a kernel runs on it.
// Built with CPUSIM_CHECKED=1 every access is shown to a Checker, which throws Violation when the
// hardware would compute garbage, hang or trap; in the fast build the same calls are empty.
#pragma once

#include "cpusim/arch.h"
#include "cpusim/local_memory.h"

#if CPUSIM_CHECKED
#include "cpusim/checker.h"
#endif

namespace cpusim {

inline constexpr bool kChecked = CPUSIM_CHECKED != 0;

enum class AtomicMode : uint8_t { kNone, kAdd };

struct Core {
    uint8_t* memory = nullptr;         // all local memories, local_memory.h says which where
    uint32_t used[kRegionCount] = {};   // bytes that InitBuffer has given away, by region
    int64_t index = 0;
    int64_t count = 1;
    bool is_cube = false;  // a cube core, with L1 and L0 and without a Unified Buffer
    int64_t sub_block = 0;        // which vector core of its block
    int64_t sub_block_count = 1;  // vector cores of a block
    AtomicMode atomic = AtomicMode::kNone;
#if CPUSIM_CHECKED
    Checker checker;
#endif
};

// A pointer needs no dynamic initialisation, so that access costs no guard.
inline thread_local Core* t_core = nullptr;

inline Core& ThisCore() { return *t_core; }

// Shows a read (or a write) of `bytes` bytes in the Unified Buffer by an instruction of `pipe`.
inline void ObserveRead([[maybe_unused]] pipe_t pipe, [[maybe_unused]] const void* address,
                        [[maybe_unused]] uint64_t bytes, [[maybe_unused]] const char* instruction) {
#if CPUSIM_CHECKED
    ThisCore().checker.Read(pipe, address, bytes, instruction);
#endif
}

inline void ObserveWrite([[maybe_unused]] pipe_t pipe, [[maybe_unused]] const void* address,
                         [[maybe_unused]] uint64_t bytes,
                         [[maybe_unused]] const char* instruction) {
#if CPUSIM_CHECKED
    ThisCore().checker.Write(pipe, address, bytes, instruction);
#endif
}

// Shows a read of whole fractals, parts of which nothing may have written.
inline void ObserveUnsureRead([[maybe_unused]] pipe_t pipe, [[maybe_unused]] const void* address,
                              [[maybe_unused]] uint64_t bytes,
                              [[maybe_unused]] const char* instruction) {
#if CPUSIM_CHECKED
    ThisCore().checker.ReadUnsure(pipe, address, bytes, instruction);
#endif
}

// An element that was loaded is as initialised as the one that it came from.
inline void CarryInitialised([[maybe_unused]] const void* to, [[maybe_unused]] const void* from,
                             [[maybe_unused]] uint64_t bytes) {
#if CPUSIM_CHECKED
    auto& checker = ThisCore().checker;
    if (!checker.IsInitialised(from, bytes)) checker.MarkUninitialised(to, bytes);
#endif
}

// Shows a read of global memory by MTE2, or a store of `pipe`, which adds in the atomic mode.
inline void ObserveGlobalRead([[maybe_unused]] const void* address, [[maybe_unused]] uint64_t bytes,
                              [[maybe_unused]] const char* instruction) {
#if CPUSIM_CHECKED
    ThisCore().checker.Global(GlobalAccess::Kind::kRead, PIPE_MTE2, address, bytes, instruction);
#endif
}

inline void ObserveGlobalStore([[maybe_unused]] const void* address,
                               [[maybe_unused]] uint64_t bytes,
                               [[maybe_unused]] const char* instruction,
                               [[maybe_unused]] pipe_t pipe = PIPE_MTE3) {
#if CPUSIM_CHECKED
    const bool adds = ThisCore().atomic == AtomicMode::kAdd;
    ThisCore().checker.Global(adds ? GlobalAccess::Kind::kAtomic : GlobalAccess::Kind::kWrite,
                              pipe, address, bytes, instruction);
#endif
}

// An instruction of `pipe` takes so many cycles; see cycles.h for the model.
inline void ObserveCycles([[maybe_unused]] pipe_t pipe, [[maybe_unused]] double cycles) {
#if CPUSIM_CHECKED
    ThisCore().checker.Spend(pipe, cycles);
#endif
}

// Refuses what `allowed` does not hold for; `rule` says what the hardware asks for.
inline void Require([[maybe_unused]] bool allowed, [[maybe_unused]] const char* instruction,
                    [[maybe_unused]] const char* rule, [[maybe_unused]] const void* address) {
#if CPUSIM_CHECKED
    if (!allowed) ThisCore().checker.Fail(instruction, rule, address);
#endif
}

// The local memory that an address lies in.
inline Region RegionOfAddress(const void* address) {
    return RegionAt(static_cast<uint64_t>(static_cast<const uint8_t*>(address) -
                                          ThisCore().memory));
}

// Refuses an operand in another memory than the instruction reaches.
inline void RequireRegion([[maybe_unused]] Region region, [[maybe_unused]] const void* address,
                          [[maybe_unused]] const char* instruction,
                          [[maybe_unused]] const char* rule) {
#if CPUSIM_CHECKED
    Require(RegionOfAddress(address) == region, instruction, rule, address);
#endif
}

inline uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace cpusim

namespace AscendC {

inline int64_t GetBlockIdx() { return cpusim::ThisCore().index; }
inline int64_t GetBlockNum() { return cpusim::ThisCore().count; }
inline int64_t GetSubBlockIdx() { return cpusim::ThisCore().sub_block; }
inline int64_t GetSubBlockNum() { return cpusim::ThisCore().sub_block_count; }

}  // namespace AscendC

// One build serves both kinds of cores here, so that these are no constants as in CANN.
#define ASCEND_IS_AIC (cpusim::ThisCore().is_cube)
#define ASCEND_IS_AIV (!cpusim::ThisCore().is_cube)
