// The memories of one AI core, side by side in one block of host memory.
#pragma once

#include "cpusim/arch.h"

namespace cpusim {

enum class Region : uint8_t { kUnifiedBuffer, kL1, kL0A, kL0B, kL0C, kBiasTable, kCount };
inline constexpr int kRegionCount = static_cast<int>(Region::kCount);

inline constexpr uint32_t kRegionBytes[kRegionCount] = {
    kUnifiedBufferBytes, kL1Bytes, kL0ABytes, kL0BBytes, kL0CBytes, kBiasTableBytes};
inline constexpr const char* kRegionNames[kRegionCount] = {"UB", "L1", "L0A", "L0B", "L0C", "BT"};

// Where a region begins: at a multiple of 4096, so that host alignment is device alignment.
constexpr uint32_t RegionOffset(int region) {
    uint32_t offset = 0;
    for (int i = 0; i < region; ++i) offset += (kRegionBytes[i] + 4095) / 4096 * 4096;
    return offset;
}
inline constexpr uint32_t kLocalMemoryBytes = RegionOffset(kRegionCount);

// The region of a byte at that offset, or kCount for what is outside or between regions.
constexpr Region RegionAt(uint64_t offset) {
    for (int i = 0; i < kRegionCount; ++i) {
        const uint64_t begin = RegionOffset(i);
        if (offset >= begin && offset < begin + kRegionBytes[i]) return static_cast<Region>(i);
    }
    return Region::kCount;
}

constexpr Region RegionOf(AscendC::TPosition position) {
    using AscendC::TPosition;
    switch (position) {
        case TPosition::A1: case TPosition::B1: case TPosition::C1: return Region::kL1;
        case TPosition::A2: return Region::kL0A;
        case TPosition::B2: return Region::kL0B;
        case TPosition::C2: return Region::kBiasTable;
        case TPosition::CO1: return Region::kL0C;
        default: return Region::kUnifiedBuffer;
    }
}

}  // namespace cpusim
