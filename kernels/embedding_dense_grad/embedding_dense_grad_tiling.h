// Tiling of the embedding gradient (host and device).
//
// The gradient's table is cut by rows over the cores; a core sums its rows in chunks that stay in
// the Unified Buffer, and wide rows in column tiles.
#pragma once

#include "../common/elementwise_tiling.h"

namespace ascend_ops {

struct EmbeddingDenseGradTiling {
    int64_t lookup_count;   // rows of the incoming gradient
    int64_t row_count;      // rows of the table
    int64_t width;          // elements a row
    int64_t padding_index;  // a row that gets no gradient, or -1
    int64_t core_rows;      // rows a core; the last core has what is left
    uint32_t chunk_rows;    // rows that a core sums at once
    uint32_t column_tile;   // elements of a row that it sums at once
    uint32_t column_pitch;  // distance of rows in the Unified Buffer, in elements
    uint32_t scale_by_frequency;
    uint32_t core_count;
};

constexpr uint32_t kIndexWindow = 2048;    // indices that are read at once
constexpr uint32_t kOwnLookupsMax = 2048;  // lookups of its own rows that a core remembers
constexpr uint32_t kColumnTileMax = 4096;  // elements; a wider tile gains nothing
// Rows in the Unified Buffer start at a multiple of 16 elements: 32 bytes for the 16-bit types.
constexpr uint32_t kColumnUnit = 16;
constexpr uint32_t kRowsOfACopy = 4095;  // DataCopyPad's limit

// Unified Buffer without the sums: two windows of indices, the core's own lookups and their rows,
// two incoming rows, one row in float, and what rounding the buffer of counts up to a block costs.
constexpr uint32_t EmbeddingFixedBytes(uint32_t column_pitch, uint32_t element_bytes) {
    return 2 * kIndexWindow * 4 + 2 * kOwnLookupsMax * 4 + column_pitch * (2 * element_bytes + 4) + 32;
}
// A sum: two float buffers, or one and two of the 16-bit type. And 4 bytes a row to count lookups.
constexpr uint32_t kBytesASum = 8;

enum class EmbeddingStatus { kOk, kNegativeSize, kUnalignedWidth, kPaddingIndex };

inline EmbeddingStatus TileEmbeddingDenseGrad(int64_t lookups, int64_t rows, int64_t width,
                                              int64_t padding_index, bool scale_by_frequency,
                                              uint32_t element_bytes, bool copies_any_length,
                                              const Platform& platform,
                                              EmbeddingDenseGradTiling* tiling) {
    if (lookups < 0 || rows < 0 || width < 0) return EmbeddingStatus::kNegativeSize;
    if (padding_index < -1 || padding_index >= rows) return EmbeddingStatus::kPaddingIndex;
    if (!copies_any_length && width * element_bytes % 32 != 0) {
        return EmbeddingStatus::kUnalignedWidth;
    }
    const int64_t column_tile = width < kColumnTileMax ? width : kColumnTileMax;
    const auto pitch =
        static_cast<uint32_t>((column_tile + kColumnUnit - 1) / kColumnUnit * kColumnUnit);
    const uint32_t left =
        platform.unified_buffer_bytes - EmbeddingFixedBytes(pitch, element_bytes);
    int64_t chunk = pitch == 0 ? 1 : left / (pitch * kBytesASum + 4);
    chunk = chunk < kRowsOfACopy ? chunk : kRowsOfACopy;
    int64_t core_rows = (rows + platform.core_count - 1) / platform.core_count;
    core_rows = core_rows < 1 ? 1 : core_rows;
    *tiling = EmbeddingDenseGradTiling{};
    tiling->lookup_count = lookups;
    tiling->row_count = rows;
    tiling->width = width;
    tiling->padding_index = padding_index;
    tiling->core_rows = core_rows;
    tiling->chunk_rows = static_cast<uint32_t>(chunk < core_rows ? chunk : core_rows);
    tiling->column_tile = static_cast<uint32_t>(column_tile);
    tiling->column_pitch = pitch;
    tiling->scale_by_frequency = scale_by_frequency ? 1 : 0;
    tiling->core_count =
        rows * width == 0 ? 0 : static_cast<uint32_t>((rows + core_rows - 1) / core_rows);
    return EmbeddingStatus::kOk;
}

}  // namespace ascend_ops
