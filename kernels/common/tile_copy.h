// Copies of one tile of any length between global memory and the Unified Buffer (device code).
//
// 2201 and 3510 have DataCopyPad, which moves whole bytes. 2002 and 1001 do not: there the copy
// is rounded up to whole 32-byte blocks, and the host must allocate each global buffer with its
// size rounded up to 32 bytes, as aclrtMalloc does.
#pragma once

#include "kernel_operator.h"

namespace ascend_ops {

template <typename T>
__aicore__ inline uint32_t RoundUpToBlock(uint32_t count) {
    constexpr uint32_t kElements = 32 / sizeof(T);
    return (count + kElements - 1) / kElements * kElements;
}

// Elements that a copy of `count` elements moves, and that are therefore computed as well.
template <typename T>
__aicore__ inline uint64_t Reach(int64_t count) {
#if defined(__NPU_ARCH__) && (__NPU_ARCH__ == 2002 || __NPU_ARCH__ == 1001)
    constexpr int64_t kElements = 32 / sizeof(T);
    return static_cast<uint64_t>((count + kElements - 1) / kElements * kElements);
#else
    return static_cast<uint64_t>(count);
#endif
}

template <typename T>
__aicore__ inline void CopyTileIn(const AscendC::LocalTensor<T>& dst,
                                  const AscendC::GlobalTensor<T>& src, uint32_t count) {
#if defined(__NPU_ARCH__) && (__NPU_ARCH__ == 2002 || __NPU_ARCH__ == 1001)
    AscendC::DataCopy(dst, src, RoundUpToBlock<T>(count));
#else
    AscendC::DataCopyExtParams copy;
    copy.blockLen = count * static_cast<uint32_t>(sizeof(T));
    AscendC::DataCopyPadExtParams<T> padding;
    AscendC::DataCopyPad(dst, src, copy, padding);
#endif
}

template <typename T>
__aicore__ inline void CopyTileOut(const AscendC::GlobalTensor<T>& dst,
                                   const AscendC::LocalTensor<T>& src, uint32_t count) {
#if defined(__NPU_ARCH__) && (__NPU_ARCH__ == 2002 || __NPU_ARCH__ == 1001)
    AscendC::DataCopy(dst, src, RoundUpToBlock<T>(count));
#else
    AscendC::DataCopyExtParams copy;
    copy.blockLen = count * static_cast<uint32_t>(sizeof(T));
    AscendC::DataCopyPad(dst, src, copy);
#endif
}

// Copies `rows` rows of `columns` elements, `pitch` elements apart in the Unified Buffer and
// `width` apart in global memory. `pitch` is a multiple of 32 bytes; where there is no
// DataCopyPad, so is a row.
template <typename T>
__aicore__ inline void CopyRowsOut(const AscendC::GlobalTensor<T>& dst,
                                   const AscendC::LocalTensor<T>& src, uint32_t rows,
                                   uint32_t columns, uint32_t pitch, int64_t width)
{
#if defined(__NPU_ARCH__) && (__NPU_ARCH__ == 2002 || __NPU_ARCH__ == 1001)
    for (uint32_t row = 0; row < rows; ++row) {
        AscendC::DataCopy(dst[row * width], src[row * pitch], columns);
    }
#else
    constexpr uint32_t kElements = 32 / sizeof(T);
    AscendC::DataCopyExtParams copy;
    copy.blockCount = static_cast<uint16_t>(rows);
    copy.blockLen = columns * static_cast<uint32_t>(sizeof(T));
    copy.srcStride = (pitch - RoundUpToBlock<T>(columns)) / kElements;
    copy.dstStride = static_cast<uint32_t>((width - columns) * sizeof(T));
    AscendC::DataCopyPad(dst, src, copy);
#endif
}

}  // namespace ascend_ops
