// How an elementwise operator is cut into cores and tiles: a pure function of length and SoC.
//
// Shared by host (CANN's op_host, cpusim) and device code, so plain types only.
#pragma once

#include <stdint.h>

namespace ascend_ops {

// What a SoC offers to one kernel launch.
struct Platform {
    uint32_t core_count;             // vector cores
    uint32_t unified_buffer_bytes;   // usable by the kernel, a core
    uint32_t tile_elements_max;      // at most kTileElementsMax
};

struct ElementwiseTiling {
    int64_t total_length;  // elements of the whole tensor
    int64_t core_length;   // elements a core; the last core has what is left
    uint32_t tile_length;  // elements a tile; the last tile of a core has what is left
    uint32_t core_count;   // cores that have work
};

// One DMA of more elements than this gains nothing: the copy engine is at its peak rate.
constexpr uint32_t kTileElementsMax = 32768;
// A multiple of the 32-byte block and of the 256-byte vector repeat for each element size, so
// that each core and each full tile start aligned.
constexpr uint32_t kTileUnit = 128;
// Below this many elements a second core costs more to start than it saves.
constexpr int64_t kCoreElementsMin = 2048;

enum class TilingStatus { kOk, kNegativeLength, kBufferTooSmall };

// Cuts `length` elements; `bytes_an_element` is what the kernel keeps in the Unified Buffer for
// each element of a tile, all its queues and scratch buffers together.
inline TilingStatus TileElementwise(int64_t length, uint32_t bytes_an_element,
                                    const Platform& platform, ElementwiseTiling* tiling) {
    if (length < 0) return TilingStatus::kNegativeLength;
    const uint32_t fits = platform.unified_buffer_bytes / bytes_an_element;
    uint32_t tile = fits < platform.tile_elements_max ? fits : platform.tile_elements_max;
    tile = tile / kTileUnit * kTileUnit;
    if (tile == 0) return TilingStatus::kBufferTooSmall;
    const int64_t useful = (length + kCoreElementsMin - 1) / kCoreElementsMin;
    int64_t cores = useful < platform.core_count ? useful : platform.core_count;
    if (cores < 1) cores = 1;
    const int64_t units = (length + kTileUnit - 1) / kTileUnit;
    const int64_t core_length = (units + cores - 1) / cores * kTileUnit;
    tiling->total_length = length;
    tiling->core_length = core_length;
    tiling->tile_length = tile;
    // Rounding up to whole units can leave the last cores without work.
    tiling->core_count =
        length == 0 ? 0 : static_cast<uint32_t>((length + core_length - 1) / core_length);
    return TilingStatus::kOk;
}

}  // namespace ascend_ops
