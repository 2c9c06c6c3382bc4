// One emulated AI core: its Unified Buffer, its place among the cores, and the rules' observer.
//
// A core runs on one host thread; `ThisCore()` is that thread's core while a kernel runs on it.
// Built with CPUSIM_CHECKED=1 every access is shown to a Checker, which throws Violation when the
// hardware would compute garbage, hang or trap; in the fast build the same calls are empty.
#pragma once

#include "cpusim/arch.h"

#if CPUSIM_CHECKED
#include "cpusim/checker.h"
#endif

namespace cpusim {

inline constexpr bool kChecked = CPUSIM_CHECKED != 0;

enum class AtomicMode : uint8_t { kNone, kAdd };

struct Core {
    uint8_t* unified_buffer = nullptr;
    uint32_t unified_buffer_used = 0;  // bytes that InitBuffer has given away
    int64_t index = 0;
    int64_t count = 1;
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

// Shows a read of global memory, or a store, which adds in the core's atomic mode.
inline void ObserveGlobalRead([[maybe_unused]] const void* address, [[maybe_unused]] uint64_t bytes,
                              [[maybe_unused]] const char* instruction) {
#if CPUSIM_CHECKED
    ThisCore().checker.Global(GlobalAccess::Kind::kRead, address, bytes, instruction);
#endif
}

inline void ObserveGlobalStore([[maybe_unused]] const void* address,
                               [[maybe_unused]] uint64_t bytes,
                               [[maybe_unused]] const char* instruction) {
#if CPUSIM_CHECKED
    const bool adds = ThisCore().atomic == AtomicMode::kAdd;
    ThisCore().checker.Global(adds ? GlobalAccess::Kind::kAtomic : GlobalAccess::Kind::kWrite,
                              address, bytes, instruction);
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

inline uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace cpusim

namespace AscendC {

inline int64_t GetBlockIdx() { return cpusim::ThisCore().index; }
inline int64_t GetBlockNum() { return cpusim::ThisCore().count; }

}  // namespace AscendC
