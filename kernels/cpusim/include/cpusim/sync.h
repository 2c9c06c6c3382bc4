// Flags and barriers between the pipes of one core.
#pragma once

#include "cpusim/core.h"

namespace AscendC {
namespace detail {

constexpr pipe_t SourceOf(HardEvent event) {
    switch (event) {
        case HardEvent::MTE2_MTE1: return PIPE_MTE2;
        case HardEvent::MTE1_MTE2: case HardEvent::MTE1_M: return PIPE_MTE1;
        case HardEvent::M_MTE1: case HardEvent::M_FIX: return PIPE_M;
        case HardEvent::FIX_M: return PIPE_FIX;
        case HardEvent::MTE2_V: case HardEvent::MTE2_MTE3: case HardEvent::MTE2_S: return PIPE_MTE2;
        case HardEvent::V_MTE2: case HardEvent::V_MTE3: case HardEvent::V_S: case HardEvent::V_V:
            return PIPE_V;
        case HardEvent::MTE3_V: case HardEvent::MTE3_MTE2: case HardEvent::MTE3_S: return PIPE_MTE3;
        case HardEvent::S_V: case HardEvent::S_MTE2: case HardEvent::S_MTE3: return PIPE_S;
        default: return PIPE_ALL;
    }
}

constexpr pipe_t DestinationOf(HardEvent event) {
    switch (event) {
        case HardEvent::MTE2_MTE1: case HardEvent::M_MTE1: return PIPE_MTE1;
        case HardEvent::MTE1_MTE2: return PIPE_MTE2;
        case HardEvent::MTE1_M: case HardEvent::FIX_M: return PIPE_M;
        case HardEvent::M_FIX: return PIPE_FIX;
        case HardEvent::MTE2_V: case HardEvent::MTE3_V: case HardEvent::S_V: case HardEvent::V_V:
            return PIPE_V;
        case HardEvent::V_MTE2: case HardEvent::MTE3_MTE2: case HardEvent::S_MTE2: return PIPE_MTE2;
        case HardEvent::V_MTE3: case HardEvent::MTE2_MTE3: case HardEvent::S_MTE3: return PIPE_MTE3;
        case HardEvent::MTE2_S: case HardEvent::V_S: case HardEvent::MTE3_S: return PIPE_S;
        default: return PIPE_ALL;
    }
}

}  // namespace detail

template <HardEvent event>
inline void SetFlag([[maybe_unused]] int32_t eventID) {
    static_assert(detail::SourceOf(event) != PIPE_ALL, "cpusim: an event that it does not know");
#if CPUSIM_CHECKED
    cpusim::ThisCore().checker.SetFlag(static_cast<int>(event), eventID, detail::SourceOf(event));
#endif
}

template <HardEvent event>
inline void WaitFlag([[maybe_unused]] int32_t eventID) {
    static_assert(detail::SourceOf(event) != PIPE_ALL, "cpusim: an event that it does not know");
#if CPUSIM_CHECKED
    cpusim::ThisCore().checker.WaitFlag(static_cast<int>(event), eventID,
                                        detail::DestinationOf(event));
#endif
}

// PIPE_ALL waits for everything; one pipe is in order with itself in the emulator.
template <pipe_t pipe>
inline void PipeBarrier() {
#if CPUSIM_CHECKED
    if constexpr (pipe == PIPE_ALL) cpusim::ThisCore().checker.OrderAll();
    if constexpr (pipe == PIPE_ALL || pipe == PIPE_M) {
        cpusim::ThisCore().checker.SettleProducts();
    }
#endif
}

// A cube core tells the vector cores of its block that all of `pipe` so far is done; a vector core
// waits for it. The emulator runs a block's cube core to its end and then its vector cores, so
// that a cube core cannot wait for its vector cores.
template <uint8_t modeId, pipe_t pipe>
inline void CrossCoreSetFlag([[maybe_unused]] uint16_t flagId) {
    static_assert(modeId == 2, "cpusim: mode 2, from the cube core to its vector cores, only");
    static_assert(pipe != PIPE_S && pipe != PIPE_ALL, "CrossCoreSetFlag: not after this pipe");
#if CPUSIM_CHECKED
    cpusim::ThisCore().checker.SetCrossFlag(cpusim::ThisCore().is_cube, flagId, pipe);
#endif
}

template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
inline void CrossCoreWaitFlag([[maybe_unused]] uint16_t flagId) {
#if CPUSIM_CHECKED
    cpusim::ThisCore().checker.WaitCrossFlag(cpusim::ThisCore().is_cube, flagId);
#endif
}

}  // namespace AscendC
