// DataCopy and DataCopyPad between global memory and the Unified Buffer, and atomic stores.
#pragma once

#include "cpusim/atomic_add.h"
#include "cpusim/cycles.h"
#include "cpusim/tensor.h"

namespace AscendC {
namespace detail {

inline void CheckLocalAddress(const uint8_t* address, const char* instruction) {
    cpusim::Require(
        (address - cpusim::ThisCore().memory) % cpusim::kBlockBytes == 0, instruction,
        "an address in local memory must be a multiple of 32 bytes", address);
}

// What the copy engine moves: it drops what is left over beyond whole 32-byte blocks.
template <typename T>
uint64_t WholeBlocks(uint32_t count, const void* address, const char* instruction) {
    const uint64_t bytes = uint64_t{count} * sizeof(T);
    cpusim::Require(bytes % cpusim::kBlockBytes == 0, instruction,
                    "the byte count must be a multiple of 32, the rest is silently not copied",
                    address);
    return bytes / cpusim::kBlockBytes * cpusim::kBlockBytes;
}

template <typename T>
void Store(T* destination, const T* source, uint64_t bytes) {
    if (cpusim::ThisCore().atomic == cpusim::AtomicMode::kAdd) {
        cpusim::AddAtomically(destination, source, bytes / sizeof(T));
    } else {
        __builtin_memcpy(destination, source, bytes);
    }
}

}  // namespace detail

// Global memory → Unified Buffer, `count` elements.
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count) {
    const uint64_t bytes = detail::WholeBlocks<T>(count, dst.Bytes(), "DataCopy");
    detail::CheckLocalAddress(dst.Bytes(), "DataCopy");
    dst.CheckIndex(0, count, "DataCopy");
    src.CheckRange(0, count, "DataCopy");
    cpusim::ObserveGlobalRead(src.Data(), bytes, "DataCopy");
    cpusim::ObserveWrite(PIPE_MTE2, dst.Bytes(), bytes, "DataCopy");
    cpusim::ObserveCycles(PIPE_MTE2, cpusim::CopyCycles(bytes));
    __builtin_memcpy(dst.Bytes(), src.Data(), bytes);
}

// Unified Buffer → global memory, `count` elements.
template <typename T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {
    const uint64_t bytes = detail::WholeBlocks<T>(count, src.Bytes(), "DataCopy");
    detail::CheckLocalAddress(src.Bytes(), "DataCopy");
    src.CheckIndex(0, count, "DataCopy");
    dst.CheckRange(0, count, "DataCopy");
    cpusim::ObserveGlobalStore(dst.Data(), bytes, "DataCopy");
    cpusim::ObserveRead(PIPE_MTE3, src.Bytes(), bytes, "DataCopy");
    cpusim::ObserveCycles(PIPE_MTE3, cpusim::CopyCycles(bytes));
    detail::Store(dst.Data(), src.Data(), bytes);
}

namespace detail {

inline void CheckPadCopy(const DataCopyExtParams& copy, const void* address) {
    cpusim::Require(copy.blockCount >= 1 && copy.blockCount <= cpusim::kPadCopyRows, "DataCopyPad",
                    "blockCount is from 1 to 4095", address);
    cpusim::Require(copy.blockLen >= 1 && copy.blockLen <= cpusim::kPadCopyRowBytes, "DataCopyPad",
                    "blockLen is from 1 to 2097151 bytes", address);
}

template <typename T>
void FillPadding(T* row, uint64_t elements, T value, const char* instruction) {
    if (elements == 0) return;
    cpusim::ObserveWrite(PIPE_MTE2, row, elements * sizeof(T), instruction);
    for (uint64_t i = 0; i < elements; ++i) row[i] = value;
}

}  // namespace detail

// Global memory → Unified Buffer, rows of any length; each row starts at a 32-byte block. Bytes
// between the end of a row and the end of its block are undefined unless padding covers them.
template <typename T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                        const DataCopyExtParams& dataCopyParams,
                        const DataCopyPadExtParams<T>& padParams) {
    static_assert(cpusim::kHasDataCopyPad && sizeof(T) > 0, "DataCopyPad: not on this SoC");
    detail::CheckPadCopy(dataCopyParams, dst.Bytes());
    detail::CheckLocalAddress(dst.Bytes(), "DataCopyPad");
    const uint64_t left = padParams.isPad ? padParams.leftPadding : 0;
    const uint64_t right = padParams.isPad ? padParams.rightPadding : 0;
    cpusim::Require(left * sizeof(T) <= 32 && right * sizeof(T) <= 32, "DataCopyPad",
                    "at most 32 bytes of padding on a side", dst.Bytes());
    const uint64_t body = dataCopyParams.blockLen;
    const uint64_t row = cpusim::RoundUp(body + (left + right) * sizeof(T), cpusim::kBlockBytes);
    const uint64_t step = row + uint64_t{dataCopyParams.dstStride} * cpusim::kBlockBytes;
    uint8_t* out = dst.Bytes();
    const auto* in = reinterpret_cast<const uint8_t*>(src.Data());
    cpusim::ObserveCycles(PIPE_MTE2, cpusim::CopyCycles(body * dataCopyParams.blockCount));
    for (uint32_t i = 0; i < dataCopyParams.blockCount; ++i) {
        dst.CheckIndex((out - dst.Bytes()) / sizeof(T), left + body / sizeof(T) + right,
                       "DataCopyPad");
        src.CheckRange((in - reinterpret_cast<const uint8_t*>(src.Data())) / sizeof(T),
                       (body + sizeof(T) - 1) / sizeof(T), "DataCopyPad");
        cpusim::ObserveGlobalRead(in, body, "DataCopyPad");
        detail::FillPadding(reinterpret_cast<T*>(out), left, padParams.paddingValue, "DataCopyPad");
        cpusim::ObserveWrite(PIPE_MTE2, out + left * sizeof(T), body, "DataCopyPad");
        __builtin_memcpy(out + left * sizeof(T), in, body);
        detail::FillPadding(reinterpret_cast<T*>(out + left * sizeof(T) + body), right,
                            padParams.paddingValue, "DataCopyPad");
        out += step;
        in += body + dataCopyParams.srcStride;
    }
}

// Unified Buffer → global memory, rows of any length.
template <typename T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                        const DataCopyExtParams& dataCopyParams) {
    static_assert(cpusim::kHasDataCopyPad && sizeof(T) > 0, "DataCopyPad: not on this SoC");
    detail::CheckPadCopy(dataCopyParams, src.Bytes());
    detail::CheckLocalAddress(src.Bytes(), "DataCopyPad");
    const uint64_t body = dataCopyParams.blockLen;
    const uint64_t step = cpusim::RoundUp(body, cpusim::kBlockBytes) +
                          uint64_t{dataCopyParams.srcStride} * cpusim::kBlockBytes;
    const uint8_t* in = src.Bytes();
    auto* out = reinterpret_cast<uint8_t*>(dst.Data());
    cpusim::ObserveCycles(PIPE_MTE3, cpusim::CopyCycles(body * dataCopyParams.blockCount));
    for (uint32_t i = 0; i < dataCopyParams.blockCount; ++i) {
        src.CheckIndex((in - src.Bytes()) / sizeof(T), body / sizeof(T), "DataCopyPad");
        dst.CheckRange((out - reinterpret_cast<uint8_t*>(dst.Data())) / sizeof(T),
                       (body + sizeof(T) - 1) / sizeof(T), "DataCopyPad");
        cpusim::ObserveGlobalStore(out, body, "DataCopyPad");
        cpusim::ObserveRead(PIPE_MTE3, in, body, "DataCopyPad");
        detail::Store(reinterpret_cast<T*>(out), reinterpret_cast<const T*>(in), body);
        in += step;
        out += body + dataCopyParams.dstStride;
    }
}

// From here each store of this core to global memory adds instead of overwriting.
template <typename T>
inline void SetAtomicAdd() {
    static_assert(cpusim::kAtomicAdd<T>, "SetAtomicAdd: this SoC cannot add this type");
    cpusim::ThisCore().atomic = cpusim::AtomicMode::kAdd;
}

inline void SetAtomicNone() { cpusim::ThisCore().atomic = cpusim::AtomicMode::kNone; }
inline void DisableDmaAtomic() { SetAtomicNone(); }

}  // namespace AscendC
