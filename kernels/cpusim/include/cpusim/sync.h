// Flags and barriers between the pipes of one core.
#pragma once

#include "cpusim/core.h"

namespace AscendC {
namespace detail {

constexpr pipe_t SourceOf(HardEvent event) {
    switch (event) {
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
    static_assert(detail::SourceOf(event) != PIPE_ALL, "cpusim: an event between vector pipes");
#if CPUSIM_CHECKED
    cpusim::ThisCore().checker.SetFlag(static_cast<int>(event), eventID, detail::SourceOf(event));
#endif
}

template <HardEvent event>
inline void WaitFlag([[maybe_unused]] int32_t eventID) {
    static_assert(detail::SourceOf(event) != PIPE_ALL, "cpusim: an event between vector pipes");
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
#endif
}

}  // namespace AscendC
