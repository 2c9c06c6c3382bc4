// Tiling of the sigmoid gradient kernel (host and device).
#pragma once

#include "../common/elementwise_tiling.h"

namespace ascend_ops {

using SigmoidGradTiling = ElementwiseTiling;

// Unified Buffer a tile element: two inputs and one output with two buffers each, and for half
// and bfloat16 three floats to compute in; float needs one, because y is used twice.
constexpr uint32_t SigmoidGradBytesAnElement(uint32_t element_bytes) {
    return 6 * element_bytes + (element_bytes == 4 ? 4 : 12);
}

inline TilingStatus TileSigmoidGrad(int64_t length, uint32_t element_bytes,
                                    const Platform& platform, SigmoidGradTiling* tiling) {
    return TileElementwise(length, SigmoidGradBytesAnElement(element_bytes), platform, tiling);
}

}  // namespace ascend_ops
