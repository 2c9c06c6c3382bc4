// The cube core's copies: global memory → L1 in columns of 32 bytes (Nz), L1 → L0A and L0B by
// fractals, L1 → bias table, and constants into L1.
//
// A fractal is 512 bytes: 16 rows of 32. L0A holds fractals of 16 rows of the left matrix, row of
// fractals after row of fractals (Zz), or on 3510 column after column (Nz); L0B holds fractals of 16 columns of the right matrix, each
// column's 32 bytes together (Zn).
#pragma once

#include "cpusim/cube_types.h"
#include "cpusim/data_copy.h"

namespace AscendC {
namespace detail {

template <typename T>
inline constexpr uint32_t kC0 = cpusim::kBlockBytes / sizeof(T);  // elements in 32 bytes
template <typename T>
inline constexpr uint32_t kFractal = cpusim::kFractalBytes / sizeof(T);

inline void CheckNdToNz(const Nd2NzParams& p, const void* address) {
    const auto require = [&](bool allowed, const char* rule) {
        cpusim::Require(allowed, "DataCopy(Nd2Nz)", rule, address);
    };
    require(p.ndNum <= 4095, "ndNum is from 0 to 4095");
    require(p.nValue <= 16384, "nValue is from 0 to 16384");
    require(p.srcDValue >= 1, "srcDValue is from 1 to 65535");
    require(p.dstNzC0Stride >= 1 && p.dstNzC0Stride <= 16384, "dstNzC0Stride is from 1 to 16384");
    require(p.dstNzNStride >= 1 && p.dstNzNStride <= 16384, "dstNzNStride is from 1 to 16384");
    require(p.dstNzMatrixStride <= 16384, "dstNzMatrixStride is from 0 to 16384");
}

// One row: its 32-byte pieces go to different columns, the last one filled up with zeros.
template <typename T>
void CopyRowToNz(const LocalTensor<T>& dst, uint64_t to, const T* row, const Nd2NzParams& p) {
    for (uint32_t d = 0; d < p.dValue; d += kC0<T>) {
        const uint32_t left = p.dValue - d;
        const uint32_t count = left < kC0<T> ? left : kC0<T>;
        dst.CheckIndex(to, kC0<T>, "DataCopy(Nd2Nz)");
        T* out = dst.Data() + to;
        cpusim::ObserveWrite(PIPE_MTE2, out, cpusim::kBlockBytes, "DataCopy(Nd2Nz)");
        __builtin_memcpy(out, row + d, count * sizeof(T));
        __builtin_memset(out + count, 0, (kC0<T> - count) * sizeof(T));
        to += uint64_t{p.dstNzC0Stride} * kC0<T>;
    }
}

}  // namespace detail

// Global memory → L1: `nValue` rows of `dValue` elements, `srcDValue` apart.
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                     const Nd2NzParams& intriParams) {
    static_assert(cpusim::kHasCubeUnit && sizeof(T) >= 2 && sizeof(T) <= 4,
                  "DataCopy(Nd2Nz): not on this SoC, or not for this type");
    const Nd2NzParams& p = intriParams;
    detail::CheckNdToNz(p, dst.Bytes());
    detail::CheckLocalAddress(dst.Bytes(), "DataCopy(Nd2Nz)");
    cpusim::RequireRegion(cpusim::Region::kL1, dst.Bytes(), "DataCopy(Nd2Nz)",
                          "the destination must lie in L1");
    const uint64_t bytes = uint64_t{p.ndNum} * p.nValue * p.dValue * sizeof(T);
    if (bytes == 0) return;
    cpusim::ObserveCycles(PIPE_MTE2, cpusim::CubeCopyCycles(bytes));
    for (uint32_t matrix = 0; matrix < p.ndNum; ++matrix) {
        for (uint32_t n = 0; n < p.nValue; ++n) {
            const uint64_t from = uint64_t{matrix} * p.srcNdMatrixStride + uint64_t{n} * p.srcDValue;
            src.CheckRange(from, p.dValue, "DataCopy(Nd2Nz)");
            cpusim::ObserveGlobalRead(src.Data() + from, p.dValue * sizeof(T), "DataCopy(Nd2Nz)");
            detail::CopyRowToNz(dst, uint64_t{matrix} * p.dstNzMatrixStride +
                                uint64_t{n} * p.dstNzNStride * detail::kC0<T>,
                                src.Data() + from, p);
        }
    }
}

// L1 → bias table, widening to float. `blockLen` counts 64 bytes of the source, on 3510 32.
template <typename T, typename U>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src,
                     const DataCopyParams& repeatParams) {
    static_assert(cpusim::kHasCubeUnit && cpusim::kBiasCopy<T, U>,
                  "DataCopy into the bias table: not on this SoC, or not for these types");
    cpusim::RequireRegion(cpusim::Region::kBiasTable, dst.Bytes(), "DataCopy(bias)",
                          "the destination must lie in the bias table");
    cpusim::RequireRegion(cpusim::Region::kL1, src.Bytes(), "DataCopy(bias)",
                          "the source must lie in L1");
    cpusim::Require(dst.GetPhyAddr() % 64 == 0, "DataCopy(bias)",
                    "the address in the bias table must be a multiple of 64 bytes", dst.Bytes());
    cpusim::Require(repeatParams.blockCount == 1, "DataCopy(bias)",
                    "the emulator copies one block", dst.Bytes());
    const uint32_t bytes = repeatParams.blockLen * cpusim::kBiasCopyBytes;
    cpusim::Require(bytes % 64 == 0, "DataCopy(bias)", "blockLen must be even", dst.Bytes());
    const uint32_t count = bytes / sizeof(U);
    src.CheckIndex(0, count, "DataCopy(bias)");
    dst.CheckIndex(0, count, "DataCopy(bias)");
    cpusim::ObserveUnsureRead(PIPE_MTE1, src.Bytes(), count * sizeof(U), "DataCopy(bias)");
    cpusim::ObserveWrite(PIPE_MTE1, dst.Bytes(), count * sizeof(T), "DataCopy(bias)");
    cpusim::ObserveCycles(PIPE_MTE1, cpusim::LoadCycles(count * sizeof(U)));
    for (uint32_t i = 0; i < count; ++i) {
        dst.Data()[i] = static_cast<T>(src.Data()[i]);
        cpusim::CarryInitialised(dst.Data() + i, src.Data() + i, sizeof(U));
    }
}

// A constant into L1.
template <typename T>
inline void Fill(const LocalTensor<T>& dst, const InitConstValueParams<T>& initConstValueParams) {
    static_assert(cpusim::kHasCubeUnit && sizeof(T) > 0, "Fill of L1: not on this SoC");
    cpusim::RequireRegion(cpusim::Region::kL1, dst.Bytes(), "Fill",
                          "the emulator fills L1 only");
    detail::CheckLocalAddress(dst.Bytes(), "Fill");
    const InitConstValueParams<T>& p = initConstValueParams;
    cpusim::Require(p.repeatTimes <= 32767 && p.blockNum <= 32767 && p.dstGap <= 32767, "Fill",
                    "repeatTimes, blockNum and dstGap are at most 32767", dst.Bytes());
    const uint32_t count = p.blockNum * detail::kC0<T>;
    cpusim::ObserveCycles(PIPE_MTE2, cpusim::LoadCycles(uint64_t{p.repeatTimes} * count * sizeof(T)));
    for (uint32_t repeat = 0; repeat < p.repeatTimes; ++repeat) {
        const uint64_t to = uint64_t{repeat} * (p.blockNum + p.dstGap) * detail::kC0<T>;
        dst.CheckIndex(to, count, "Fill");
        cpusim::ObserveWrite(PIPE_MTE2, dst.Data() + to, count * sizeof(T), "Fill");
        for (uint32_t i = 0; i < count; ++i) dst.Data()[to + i] = p.initValue;
    }
}

namespace detail {

template <typename T>
void CheckLoad(const LocalTensor<T>& dst, const LocalTensor<T>& src, const char* instruction) {
    const cpusim::Region to = cpusim::RegionOfAddress(dst.Bytes());
    cpusim::Require(to == cpusim::Region::kL0A || to == cpusim::Region::kL0B, instruction,
                    "the destination must lie in L0A or L0B", dst.Bytes());
    cpusim::RequireRegion(cpusim::Region::kL1, src.Bytes(), instruction,
                          "the source must lie in L1");
    cpusim::Require(dst.GetPhyAddr() % cpusim::kFractalBytes == 0, instruction,
                    "the destination must be a multiple of 512 bytes", dst.Bytes());
    cpusim::Require(src.GetPhyAddr() % cpusim::kBlockBytes == 0, instruction,
                    "the source must be a multiple of 32 bytes", src.Bytes());
}

template <typename T>
void MoveElement(T* to, const T* from) {
    *to = *from;
    if constexpr (cpusim::kChecked) cpusim::CarryInitialised(to, from, sizeof(T));
}

// One fractal as it is, or with rows and columns exchanged (16 × 16 of a 2-byte type).
template <typename T>
void LoadFractal(T* to, const T* from, bool transpose, const char* instruction) {
    cpusim::ObserveUnsureRead(PIPE_MTE1, from, cpusim::kFractalBytes, instruction);
    cpusim::ObserveWrite(PIPE_MTE1, to, cpusim::kFractalBytes, instruction);
    if (!cpusim::kChecked && !transpose) {
        __builtin_memcpy(to, from, cpusim::kFractalBytes);
        return;
    }
    for (uint32_t i = 0; i < kFractal<T>; ++i) {
        MoveElement(to + i, from + (transpose ? i % 16 * 16 + i / 16 : i));
    }
}

}  // namespace detail

// L1 → L0A or L0B, `repeatTimes` fractals.
template <typename T>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                     const LoadData2DParams& loadDataParams) {
    static_assert(cpusim::kArch == 2201 && sizeof(T) > 0,
                  "LoadData: on 3510 take LoadData2DParamsV2; others have no kernel");
    detail::CheckLoad(dst, src, "LoadData");
    const LoadData2DParams& p = loadDataParams;
    cpusim::Require(!p.ifTranspose || sizeof(T) == 2, "LoadData",
                    "only 2-byte types can be transposed on the way; others take "
                    "LoadDataWithTranspose", dst.Bytes());
    cpusim::Require(p.addrMode == 0, "LoadData", "addrMode is 0 from L1", dst.Bytes());
    cpusim::ObserveCycles(PIPE_MTE1, cpusim::LoadCycles(uint64_t{p.repeatTimes} * 512));
    for (uint32_t repeat = 0; repeat < p.repeatTimes; ++repeat) {
        const uint64_t from = (p.startIndex + uint64_t{repeat} * p.srcStride) * detail::kFractal<T>;
        const uint64_t to = uint64_t{repeat} * (1u + p.dstGap) * detail::kFractal<T>;
        src.CheckIndex(from, detail::kFractal<T>, "LoadData");
        dst.CheckIndex(to, detail::kFractal<T>, "LoadData");
        detail::LoadFractal(dst.Data() + to, src.Data() + from, p.ifTranspose, "LoadData");
    }
}

// L1 → L0A or L0B, `repeatTimes` squares of 16 × 16 with rows and columns exchanged. A square of a
// 4-byte type is two fractals: side by side in the source (columns 0–7 and 8–15), and after the
// exchange again two, `dstFracGap` fractals apart.
template <typename T>
inline void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                  const LoadData2dTransposeParams& loadDataParams) {
    static_assert(cpusim::kArch == 2201 && (sizeof(T) == 2 || sizeof(T) == 4),
                  "LoadDataWithTranspose: the emulator has it for 2- and 4-byte types of 2201");
    detail::CheckLoad(dst, src, "LoadDataWithTranspose");
    const LoadData2dTransposeParams& p = loadDataParams;
    constexpr uint32_t kHalves = sizeof(T) / 2;
    constexpr uint32_t kWidth = 16 / kHalves;
    const uint32_t half_step = kHalves == 1 ? 0 : (1u + p.dstFracGap) * detail::kFractal<T>;
    cpusim::ObserveCycles(PIPE_MTE1, cpusim::LoadCycles(uint64_t{p.repeatTimes} * kHalves * 512));
    for (uint32_t repeat = 0; repeat < p.repeatTimes; ++repeat) {
        const uint64_t from = (p.startIndex + uint64_t{repeat} * p.srcStride) * 256;
        const uint64_t to = uint64_t{repeat} * (1u + p.dstGap) * detail::kFractal<T>;
        src.CheckIndex(from, 256, "LoadDataWithTranspose");
        dst.CheckIndex(to, half_step * (kHalves - 1) + detail::kFractal<T>,
                       "LoadDataWithTranspose");
        const T* in = src.Data() + from;
        cpusim::ObserveUnsureRead(PIPE_MTE1, in, 256 * sizeof(T), "LoadDataWithTranspose");
        for (uint32_t half = 0; half < kHalves; ++half) {
            T* out = dst.Data() + to + half * half_step;
            cpusim::ObserveWrite(PIPE_MTE1, out, cpusim::kFractalBytes, "LoadDataWithTranspose");
            for (uint32_t i = 0; i < detail::kFractal<T>; ++i) {
                const uint32_t column = i / kWidth;  // of the source
                const uint32_t row = half * kWidth + i % kWidth;
                detail::MoveElement(out + i, in + column / kWidth * detail::kFractal<T> +
                                    row * kWidth + column % kWidth);
            }
        }
    }
}

namespace detail {

inline void CheckMatrixLoad(const LoadData2DParamsV2& p, uint32_t element_bytes,
                            const void* address) {
    cpusim::Require(p.mStep <= 255 && p.kStep <= 255, "LoadData", "mStep and kStep are at most 255",
                    address);
    cpusim::Require(p.srcStride >= 0, "LoadData", "the emulator reads forwards only", address);
    cpusim::Require(!p.ifTranspose || element_bytes != 4 || p.kStep % 2 == 0, "LoadData",
                    "kStep must be even for a 4-byte type that is transposed", address);
}

// A square of 16 × 16 elements, `kHalves` fractals side by side in the source, exchanged: as many
// fractals in the destination, `step` elements apart.
template <typename T, uint32_t kHalves>
void LoadSquare(T* to, uint64_t step, const T* from, uint64_t from_step) {
    constexpr uint32_t kWidth = 16 / kHalves;
    for (uint32_t half = 0; half < kHalves; ++half) {
        T* out = to + half * step;
        cpusim::ObserveUnsureRead(PIPE_MTE1, from + half * from_step, cpusim::kFractalBytes,
                                  "LoadData");
        cpusim::ObserveWrite(PIPE_MTE1, out, cpusim::kFractalBytes, "LoadData");
        for (uint32_t i = 0; i < kFractal<T>; ++i) {
            const uint32_t column = i / kWidth;  // of the source
            const uint32_t row = half * kWidth + i % kWidth;
            MoveElement(out + i, from + column / kWidth * from_step + row * kWidth +
                                     column % kWidth);
        }
    }
}

}  // namespace detail

// L1 → L0A or L0B on 3510: mStep × kStep fractals.
template <typename T>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                     const LoadData2DParamsV2& loadDataParams) {
    static_assert(cpusim::kArch == 3510 && (sizeof(T) == 2 || sizeof(T) == 4),
                  "LoadData2DParamsV2: of 3510, and the emulator has it for 2- and 4-byte types");
    const LoadData2DParamsV2& p = loadDataParams;
    detail::CheckLoad(dst, src, "LoadData");
    detail::CheckMatrixLoad(p, sizeof(T), dst.Bytes());
    constexpr uint32_t kFractal = detail::kFractal<T>;
    const uint32_t halves = p.ifTranspose ? sizeof(T) / 2 : 1;
    cpusim::ObserveCycles(PIPE_MTE1, cpusim::LoadCycles(uint64_t{p.mStep} * p.kStep * 512));
    for (uint32_t k = 0; k < p.kStep; k += halves) {
        for (uint32_t m = 0; m < p.mStep; ++m) {
            const uint64_t from_step = static_cast<uint64_t>(p.srcStride) * kFractal;
            const uint64_t to_step = uint64_t{p.dstStride} * kFractal;
            const uint64_t from = (p.kStartPosition + k) * from_step +
                                  (uint64_t{p.mStartPosition} + m) * kFractal;
            const uint64_t to = p.ifTranspose ? m * halves * to_step + k / halves * kFractal
                                              : k * to_step + m * kFractal;
            src.CheckIndex(from + (halves - 1) * from_step, kFractal, "LoadData");
            dst.CheckIndex(to + (halves - 1) * to_step, kFractal, "LoadData");
            if (p.ifTranspose) {
                detail::LoadSquare<T, sizeof(T) / 2>(dst.Data() + to, to_step, src.Data() + from,
                                                     from_step);
            } else {
                detail::LoadFractal(dst.Data() + to, src.Data() + from, false, "LoadData");
            }
        }
    }
}

}  // namespace AscendC
