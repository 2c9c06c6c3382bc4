// A model of what instructions cost on an AI core, in cycles. Its results are estimates.
//
// It tells kernels of different structure apart: how much they overlap, how often they start an
// instruction, how many bytes they move. It does not replace a measurement on an NPU: the vendor
// publishes sizes and rates, and no table of latencies.
#pragma once

#include "cpusim/arch.h"

namespace cpusim {

// Global memory of an A2 gives about 1.2 TB/s to 40 vector cores at 1.8 GHz: 17 bytes a cycle each.
inline constexpr double kCopyBytesACycle = 17;
// Time to the first byte from global memory, a few hundred nanoseconds.
inline constexpr double kCopyStartCycles = 400;
// Filling the vector pipeline; after that one repeat of 256 bytes ends each cycle.
inline constexpr double kVectorStartCycles = 20;
// The exponential and the division take several passes through the pipeline.
inline constexpr double kSlowRepeatCycles = 4;
// The scalar unit reads or writes the Unified Buffer.
inline constexpr double kScalarAccessCycles = 2;

constexpr double CopyCycles(uint64_t bytes) {
    return kCopyStartCycles + static_cast<double>(bytes) / kCopyBytesACycle;
}

constexpr double VectorCycles(uint64_t bytes, double repeat_cycles = 1) {
    const auto repeats = static_cast<double>((bytes + kRepeatBytes - 1) / kRepeatBytes);
    return kVectorStartCycles + repeats * repeat_cycles;
}

}  // namespace cpusim
