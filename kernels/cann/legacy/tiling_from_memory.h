// Tiling of a kernel that is launched directly by the legacy tools (device code).
//
// They generate no reader of a tiling structure: it lies in global memory, and a core copies it
// word by word, as no pipe may be used before there is a TPipe.
#pragma once

#include "kernel_operator.h"

namespace ascend_ops {

template <typename T>
__aicore__ inline void ReadTiling(T* tiling, GM_ADDR address)
{
    static_assert(sizeof(T) % sizeof(uint32_t) == 0, "a tiling is whole words");
    auto* words = reinterpret_cast<uint32_t*>(tiling);
    auto* source = reinterpret_cast<__gm__ uint32_t*>(address);
    for (uint32_t i = 0; i < sizeof(T) / sizeof(uint32_t); ++i) words[i] = source[i];
}

}  // namespace ascend_ops

#undef REGISTER_TILING_DEFAULT
#undef GET_TILING_DATA
#define REGISTER_TILING_DEFAULT(type) using AscendTilingStruct = type
#define GET_TILING_DATA(name, address) \
    AscendTilingStruct name;           \
    ascend_ops::ReadTiling(&name, address)
