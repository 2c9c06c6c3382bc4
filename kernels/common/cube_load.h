// Moves parts of matrices from global memory to L1 and from L1 to L0 (device code, cube cores).
//
// In L1 an operand lies in columns of 32 bytes (Nz). On 3510 one instruction loads it, transposed
// where that is asked for. On 2201 one that must be transposed on its way to L0 is loaded fractal by
// fractal when its type has 2 bytes; of a 4-byte type only squares of 16 × 16 can be transposed, so
// that it lies in bands of 16 rows, each in columns.
#pragma once

#include "kernel_operator.h"

#include "cube_gemm_tiling.h"

namespace ascend_ops {

constexpr uint32_t kFractalRows = 16;
constexpr uint32_t kStrideMax = 65535;  // of the source, in elements, in Nd2NzParams

template <typename T>
constexpr uint32_t kColumnWidth = 32 / sizeof(T);

#if defined(__NPU_ARCH__) && __NPU_ARCH__ == 3510
constexpr bool kLoadsMatrices = true;
#else
constexpr bool kLoadsMatrices = false;
#endif
// The operand lies in bands when it is loaded across.
template <typename T>
constexpr bool kInBands = sizeof(T) == 4 && !kLoadsMatrices;

// A row-major matrix in global memory.
template <typename T>
struct MatrixPart {
    AscendC::GlobalTensor<T> from;
    uint32_t rows;
    uint32_t columns;
    int64_t pitch;  // elements from row to row
};

// `rows` rows to L1; columns of 32 bytes lie `column_rows` rows apart.
template <typename T>
__aicore__ inline void CopyColumns(const AscendC::LocalTensor<T>& to, const MatrixPart<T>& part,
                                   uint32_t column_rows)
{
    AscendC::Nd2NzParams copy;
    copy.ndNum = 1;
    copy.dValue = static_cast<uint16_t>(part.columns);
    copy.dstNzC0Stride = static_cast<uint16_t>(column_rows);
    copy.dstNzNStride = 1;
    if (part.pitch <= kStrideMax) {
        copy.nValue = static_cast<uint16_t>(part.rows);
        copy.srcDValue = static_cast<uint16_t>(part.pitch);
        AscendC::DataCopy(to, part.from, copy);
        return;
    }
    copy.nValue = 1;
    copy.srcDValue = copy.dValue;
    for (uint32_t row = 0; row < part.rows; ++row) {
        AscendC::DataCopy(to[row * kColumnWidth<T>], part.from[row * part.pitch], copy);
    }
}

// The same in bands of 16 rows, one after the other.
template <typename T>
__aicore__ inline void CopyBands(const AscendC::LocalTensor<T>& to, const MatrixPart<T>& part)
{
    const uint32_t width = static_cast<uint32_t>(RoundUpTo(part.columns, kFractalRows));
    for (uint32_t row = 0; row < part.rows; row += kFractalRows) {
        MatrixPart<T> band = part;
        const uint32_t left = part.rows - row;
        band.rows = left < kFractalRows ? left : kFractalRows;
        band.from = part.from[row * part.pitch];
        CopyColumns(to[row * width], band, kFractalRows);
    }
}

// An operand that is `length` long (rows of the left, columns of the right matrix), as it lies in
// L1: the reduction along its columns, or, when `across`, along its rows.
struct Operand {
    uint32_t length;
    uint32_t depth;  // of the chunk in L1
    bool across;
};

template <typename T>
__aicore__ inline void CopyOperand(const AscendC::LocalTensor<T>& to, const MatrixPart<T>& part,
                                   bool across)
{
    if constexpr (kInBands<T>) {
        if (across) {
            CopyBands(to, part);
            return;
        }
    }
    CopyColumns(to, part, static_cast<uint32_t>(RoundUpTo(part.rows, kFractalRows)));
}

// Zeros where a copy leaves gaps. A chunk of float is up to 64 KiB, 2048 blocks.
template <typename T>
__aicore__ inline void FillZero(const AscendC::LocalTensor<T>& to, uint32_t elements)
{
    AscendC::InitConstValueParams<T> zeros(
        1, static_cast<uint16_t>(RoundUpTo(elements, kColumnWidth<T>) / kColumnWidth<T>), 0, T(0));
    AscendC::Fill(to, zeros);
    AscendC::PipeBarrier<PIPE_MTE2>();
}

// Fractals of a depth in L0. Of float always an even number, as transposed squares need it.
template <typename T>
__aicore__ inline uint32_t DepthFractals(uint32_t depth)
{
    return static_cast<uint32_t>(RoundUpTo(depth, kFractalRows)) / kColumnWidth<T>;
}

enum class Side { kLeft, kRight };

#if defined(__NPU_ARCH__) && __NPU_ARCH__ == 3510
// An operand to L0, from `first` on, `depth` deep: column of fractals after column, on either side.
template <Side kSide, typename T>
__aicore__ inline void LoadOperand(const AscendC::LocalTensor<T>& to,
                                   const AscendC::LocalTensor<T>& from, const Operand& operand,
                                   uint32_t first, uint32_t depth)
{
    const uint32_t blocks = static_cast<uint32_t>(CeilDivide(operand.length, kFractalRows));
    AscendC::LoadData2DParamsV2 load;
    load.dstStride = static_cast<uint16_t>(blocks);
    load.ifTranspose = operand.across;
    if (operand.across) {
        load.mStartPosition = first / kFractalRows;
        load.mStep = static_cast<uint16_t>(CeilDivide(depth, kFractalRows));
        load.kStep = static_cast<uint16_t>(blocks * (kFractalRows / kColumnWidth<T>));
        load.srcStride = static_cast<int32_t>(CeilDivide(operand.depth, kFractalRows));
    } else {
        load.kStartPosition = first / kColumnWidth<T>;
        load.mStep = static_cast<uint16_t>(blocks);
        load.kStep = static_cast<uint16_t>(CeilDivide(depth, kColumnWidth<T>));
        load.srcStride = static_cast<int32_t>(blocks);
    }
    AscendC::LoadData(to, from, load);
}
#else
// An operand to L0, from `first` on, `depth` deep. The left one: for each 16 rows the fractals along
// k. The right one: for each fractal along k all columns.
template <Side kSide, typename T>
__aicore__ inline void LoadOperand(const AscendC::LocalTensor<T>& to,
                                   const AscendC::LocalTensor<T>& from, const Operand& operand,
                                   uint32_t first, uint32_t depth)
{
    constexpr bool kLeft = kSide == Side::kLeft;
    constexpr uint32_t kFractal = kFractalRows * kColumnWidth<T>;
    const uint32_t blocks = static_cast<uint32_t>(CeilDivide(operand.length, kFractalRows));
    const uint32_t fractals = DepthFractals<T>(depth);
    if constexpr (sizeof(T) == 4) {
        if (operand.across) {
            AscendC::LoadData2dTransposeParams load;
            load.repeatTimes = static_cast<uint8_t>(blocks);
            load.srcStride = 1;
            if constexpr (kLeft) {
                load.dstGap = static_cast<uint16_t>(fractals - 1);
            } else {
                load.dstFracGap = static_cast<uint16_t>(blocks - 1);
            }
            for (uint32_t band = 0; band * 2 < fractals; ++band) {
                AscendC::LoadDataWithTranspose(
                    to[band * 2 * (kLeft ? 1 : blocks) * kFractal],
                    from[(first / kFractalRows + band) * blocks * 2 * kFractal], load);
            }
            return;
        }
    }
    // Fractals in L1 from one to the next along the operand's length, and along the reduction.
    const uint32_t bands = static_cast<uint32_t>(CeilDivide(operand.depth, kFractalRows));
    const uint32_t along_length = operand.across ? bands : 1;
    const uint32_t along_depth = operand.across ? 1 : blocks;
    const uint32_t used = static_cast<uint32_t>(CeilDivide(depth, kColumnWidth<T>));
    AscendC::LoadData2DParams load;
    load.repeatTimes = static_cast<uint8_t>(kLeft ? used : blocks);
    load.srcStride = static_cast<uint16_t>(kLeft ? along_depth : along_length);
    load.ifTranspose = operand.across;
    const uint32_t start = first / kColumnWidth<T> * along_depth;
    for (uint32_t i = 0; i < (kLeft ? blocks : used); ++i) {
        const uint32_t at = start + i * (kLeft ? along_length : along_depth);
        AscendC::LoadData(to[i * (kLeft ? fractals : blocks) * kFractal], from[at * kFractal],
                          load);
    }
}
#endif

}  // namespace ascend_ops
