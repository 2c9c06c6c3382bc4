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

// The cube cores of an A2 are half as many and copy twice as fast; L1 feeds L0, and L0C drains,
// at 128 bytes a cycle.
inline constexpr double kCubeCopyBytesACycle = 34;
inline constexpr double kLoadBytesACycle = 128;
inline constexpr double kLoadStartCycles = 30;
// One 16 × 16 × 16 block of a 16-bit type a cycle; float takes four times as long for as many
// products, and its block is half as deep.
inline constexpr double kMmadStartCycles = 20;

constexpr double CubeCopyCycles(uint64_t bytes) {
    return kCopyStartCycles + static_cast<double>(bytes) / kCubeCopyBytesACycle;
}

constexpr double LoadCycles(uint64_t bytes) {
    return kLoadStartCycles + static_cast<double>(bytes) / kLoadBytesACycle;
}

constexpr double MmadCycles(uint32_t m, uint32_t n, uint32_t k, uint32_t element_bytes) {
    const uint32_t depth = kBlockBytes / element_bytes;
    const double blocks = static_cast<double>((m + 15) / 16) * ((n + 15) / 16) *
                          ((k + depth - 1) / depth);
    return kMmadStartCycles + blocks * (element_bytes == 4 ? 2 : 1);
}

constexpr double CopyCycles(uint64_t bytes) {
    return kCopyStartCycles + static_cast<double>(bytes) / kCopyBytesACycle;
}

constexpr double VectorCycles(uint64_t bytes, double repeat_cycles = 1) {
    const auto repeats = static_cast<double>((bytes + kRepeatBytes - 1) / kRepeatBytes);
    return kVectorStartCycles + repeats * repeat_cycles;
}

}  // namespace cpusim
