// Tiling of the sigmoid kernel (host and device).
#pragma once

#include "../common/elementwise_tiling.h"

namespace ascend_ops {

using SigmoidTiling = ElementwiseTiling;

// Unified Buffer a tile element: two input and two output buffers (double buffering) and a
// float of ones; half and bfloat16 compute in one more float.
constexpr uint32_t SigmoidBytesAnElement(uint32_t element_bytes) {
    return 4 * element_bytes + 4 + (element_bytes == 4 ? 0 : 4);
}

inline TilingStatus TileSigmoid(int64_t length, uint32_t element_bytes, const Platform& platform,
                                SigmoidTiling* tiling) {
    return TileElementwise(length, SigmoidBytesAnElement(element_bytes), platform, tiling);
}

}  // namespace ascend_ops
