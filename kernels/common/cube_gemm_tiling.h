// How a matrix product is cut into cores and tiles (host and device): shared by matmul_bias_act and
// by conv2d_bias_relu, which is a product of gathered rows.
#pragma once

#include <stdint.h>

namespace ascend_ops {

enum Activation : uint32_t { kNone = 0, kRelu = 1, kSigmoid = 2 };

struct CubeTiling {
    int64_t m;             // rows of the result
    int64_t n;             // columns of the result
    uint32_t base_m;       // rows of a tile, a multiple of 16
    uint32_t base_n;       // columns of a tile, a multiple of 16
    uint32_t tiles_m;
    uint32_t tiles_n;
    uint32_t core_count;   // blocks of a cube core and its vector cores that have work
    uint32_t chunk_count;  // parts that the reduction is read in; 0: nothing to sum
    uint32_t activation;
    // The vector cores add the bias and apply the activation, from float sums in the workspace.
    // Otherwise the cube core does both on its way out.
    uint32_t through_vector;
    uint32_t tiles_a_flag;  // how many tiles the cube core finishes before it tells its vector cores
};

// A tile of the result: 128 × 128 floats are half of L0C, so that one is computed while the other
// leaves.
constexpr uint32_t kTileMax = 128;
constexpr uint32_t kTileMin = 16;
// A flag's counter holds 15; eight flags a core let the vector cores start early enough.
constexpr uint32_t kFlagsACore = 8;

// Depth of the operands in L0 (half of it, 32 KiB, at 128 rows) and of what is read into L1 at once.
constexpr uint32_t ReductionStep(uint32_t element_bytes) {
    return 32 * 1024 / kTileMax / element_bytes;
}
constexpr uint32_t ReductionChunk(uint32_t element_bytes) {
    return 2 * ReductionStep(element_bytes);
}

constexpr int64_t RoundUpTo(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
constexpr int64_t CeilDivide(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

// Cuts a result of m × n over `core_count` blocks. Small results get small tiles, so that more
// cores have one.
inline void TileCube(int64_t m, int64_t n, uint32_t core_count, CubeTiling* tiling) {
    uint32_t base_m = kTileMax, base_n = kTileMax;
    const auto tiles = [&] { return CeilDivide(m, base_m) * CeilDivide(n, base_n); };
    while (tiles() < core_count && (base_m > kTileMin || base_n > kTileMin)) {
        uint32_t& longer = base_m >= base_n ? base_m : base_n;
        longer /= 2;
    }
    tiling->m = m;
    tiling->n = n;
    tiling->base_m = base_m;
    tiling->base_n = base_n;
    tiling->tiles_m = static_cast<uint32_t>(CeilDivide(m, base_m));
    tiling->tiles_n = static_cast<uint32_t>(CeilDivide(n, base_n));
    const int64_t count = m == 0 || n == 0 ? 0 : tiles();
    tiling->core_count = static_cast<uint32_t>(count < core_count ? count : core_count);
    if (count == 0) return;
    const int64_t of_a_core = CeilDivide(count, tiling->core_count);
    tiling->tiles_a_flag = static_cast<uint32_t>(CeilDivide(of_a_core, kFlagsACore));
}

// Tiles in all are counted in 32 bits on the device.
constexpr bool TilesFit(int64_t m, int64_t n) {
    return CeilDivide(m, kTileMin) < (int64_t{1} << 31) / (CeilDivide(n, kTileMin) + 1);
}

inline uint64_t WorkspaceBytes(const CubeTiling& tiling) {
    if (tiling.through_vector == 0) return 0;
    return uint64_t{4} * tiling.tiles_m * tiling.tiles_n * tiling.base_m * tiling.base_n;
}

}  // namespace ascend_ops
