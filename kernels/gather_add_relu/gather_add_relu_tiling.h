// Tiling of gather, add and relu (host and device).
//
// The lookups are cut over the cores; a core gathers as many rows as fit its buffers, adds and
// clips them in one instruction each, and writes them in one copy. Wide rows go in column tiles.
#pragma once

#include "../common/elementwise_tiling.h"

namespace ascend_ops {

struct GatherAddReluTiling {
    int64_t lookup_count;   // rows of the result
    int64_t row_count;      // rows of the table
    int64_t width;          // elements a row
    int64_t core_lookups;   // lookups a core; the last core has what is left
    uint32_t chunk_rows;    // rows that are computed at once
    uint32_t column_tile;   // elements of a row that are computed at once
    uint32_t column_pitch;  // distance of rows in the Unified Buffer, in elements
    uint32_t addend_is_row;  // 1: one row is added to every row; 0: one for each row of the result
    uint32_t core_count;
};

constexpr uint32_t kGatherIndexWindow = 1024;    // indices that are read at once
constexpr int64_t kIndexBlock = 8;               // indices of either type that fill whole blocks
constexpr uint32_t kGatherColumnTileMax = 4096;  // elements; a wider tile gains nothing
constexpr uint32_t kGatherRowsMax = 1024;        // below DataCopyPad's limit of 4095 rows

// What the kernel keeps for each element of a tile, at most: two buffers each of rows, addends and
// results, for a 16-bit type the sum and the addend in float, and on 910A zeros.
constexpr uint32_t GatherBytesAnElement(uint32_t element_bytes) {
    return 6 * element_bytes + (element_bytes < 4 ? 8 : 0) + 4;
}

enum class GatherStatus { kOk, kNegativeSize, kUnalignedWidth };

inline GatherStatus TileGatherAddRelu(int64_t lookups, int64_t rows, int64_t width,
                                      bool addend_is_row, uint32_t element_bytes,
                                      uint32_t index_bytes, bool copies_any_length,
                                      const Platform& platform, GatherAddReluTiling* tiling) {
    if (lookups < 0 || rows < 0 || width < 0) return GatherStatus::kNegativeSize;
    if (!copies_any_length && width * element_bytes % 32 != 0) return GatherStatus::kUnalignedWidth;
    const int64_t unit = 32 / element_bytes;  // rows in the Unified Buffer start at a block
    const int64_t fits = (platform.unified_buffer_bytes - 2 * kGatherIndexWindow * index_bytes) /
                         GatherBytesAnElement(element_bytes);
    int64_t tile = fits < platform.tile_elements_max ? fits : platform.tile_elements_max;
    tile = tile / unit * unit;
    int64_t columns = width < kGatherColumnTileMax ? width : kGatherColumnTileMax;
    columns = columns < tile ? columns : tile;
    const int64_t pitch = (columns + unit - 1) / unit * unit;
    const int64_t useful = (lookups * width + kCoreElementsMin - 1) / kCoreElementsMin;
    int64_t cores = useful < platform.core_count ? useful : platform.core_count;
    cores = cores < 1 ? 1 : cores;
    int64_t core_lookups = (lookups + cores - 1) / cores;
    // Each core's indices begin at a block, so that where copies move whole blocks none of them
    // goes beyond the last index's.
    core_lookups = (core_lookups + kIndexBlock - 1) / kIndexBlock * kIndexBlock;
    core_lookups = core_lookups < kIndexBlock ? kIndexBlock : core_lookups;
    const int64_t core_rows = core_lookups < lookups ? core_lookups : lookups;
    int64_t chunk = pitch == 0 ? 1 : tile / pitch;
    chunk = chunk < kGatherRowsMax ? chunk : kGatherRowsMax;
    *tiling = GatherAddReluTiling{};
    tiling->lookup_count = lookups;
    tiling->row_count = rows;
    tiling->width = width;
    tiling->core_lookups = core_lookups;
    tiling->chunk_rows = static_cast<uint32_t>(chunk < core_rows ? chunk : core_rows);
    tiling->column_tile = static_cast<uint32_t>(columns);
    tiling->column_pitch = static_cast<uint32_t>(pitch);
    tiling->addend_is_row = addend_is_row ? 1 : 0;
    const bool empty = lookups == 0 || width == 0;
    tiling->core_count =
        empty ? 0 : static_cast<uint32_t>((lookups + core_lookups - 1) / core_lookups);
    return GatherStatus::kOk;
}

}  // namespace ascend_ops
