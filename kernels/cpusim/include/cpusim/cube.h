// Mmad (matrix product on pipe M) and Fixpipe (its result to global memory).
#pragma once

#include "cpusim/cube_copy.h"
#include "cpusim/vector_ops.h"

namespace AscendC {
namespace detail {

// Fractals of the operands in the direction of k: whole ones, in pairs when a float kernel asks.
template <typename T>
uint32_t DepthInFractals(const MmadParams& p) {
    const uint32_t fractals = (p.k + kC0<T> - 1) / kC0<T>;
    return sizeof(T) == 4 && p.kDirectionAlign ? (fractals + 1) / 2 * 2 : fractals;
}

// Which fractal of L0A holds a place of the left matrix.
inline uint32_t LeftFractal(uint32_t row, uint32_t column, uint32_t rows, uint32_t depth) {
    return cpusim::kLeftInRows ? row * depth + column : column * rows + row;
}

// With one row the hardware reads the left matrix as a plain vector, unless 3510 is told not to.
inline bool ReadsVector([[maybe_unused]] const MmadParams& p) {
#if __NPU_ARCH__ == 3510
    return p.m == 1 && !p.disableGemv;
#else
    return p.m == 1;
#endif
}

template <typename C, typename A>
void CheckMmad(const LocalTensor<C>& dst, const LocalTensor<A>& fm, const LocalTensor<A>& filter,
               const MmadParams& p) {
    const auto require = [&](bool allowed, const char* rule, const void* address) {
        cpusim::Require(allowed, "Mmad", rule, address);
    };
    cpusim::RequireRegion(cpusim::Region::kL0C, dst.Bytes(), "Mmad", "the result must lie in L0C");
    cpusim::RequireRegion(cpusim::Region::kL0A, fm.Bytes(), "Mmad",
                          "the left matrix must lie in L0A");
    cpusim::RequireRegion(cpusim::Region::kL0B, filter.Bytes(), "Mmad",
                          "the right matrix must lie in L0B");
    require(dst.GetPhyAddr() % 1024 == 0, "the result must be a multiple of 1024 bytes",
            dst.Bytes());
    require(fm.GetPhyAddr() % 512 == 0 && filter.GetPhyAddr() % 512 == 0,
            "the operands must be a multiple of 512 bytes", fm.Bytes());
    require(p.m <= 4095 && p.n <= 4095 && p.k <= 4095, "m, n and k are at most 4095", dst.Bytes());
    require(!ReadsVector(p), "with m = 1 the hardware reads the left matrix as a plain vector (GEMV), which "
            "the emulator does not: give it a whole fractal, m = 16", fm.Bytes());
    require(!p.kDirectionAlign || cpusim::kArch == 2201,
            "kDirectionAlign is false on this SoC", fm.Bytes());
    require(p.unitFlag == 0 && !p.isBias, "the emulator has no unitFlag and no isBias",
            dst.Bytes());
    const uint64_t depth = DepthInFractals<A>(p);
    fm.CheckIndex(0, (p.m + 15u) / 16 * depth * kFractal<A>, "Mmad");
    filter.CheckIndex(0, (p.n + 15u) / 16 * depth * kFractal<A>, "Mmad");
    dst.CheckIndex(0, (p.n + 15u) / 16 * ((p.m + 15u) / 16) * 256, "Mmad");
}

// Shows the parts of the operands that count: m rows, n columns, k deep.
template <typename C, typename A>
void ObserveMmad(const LocalTensor<C>& dst, const LocalTensor<A>& fm,
                 const LocalTensor<A>& filter, const MmadParams& p, bool accumulates) {
    const uint32_t depth = DepthInFractals<A>(p);
    const uint32_t rows = (p.m + 15u) / 16 * 16, columns = (p.n + 15u) / 16 * 16;
    for (uint32_t k = 0; k < p.k; k += kC0<A>) {
        const uint32_t left = p.k - k;
        const uint32_t bytes = (left < kC0<A> ? left : kC0<A>) * sizeof(A);
        for (uint32_t m = 0; m < p.m; ++m) {
            const uint32_t fractal = LeftFractal(m / 16, k / kC0<A>, rows / 16, depth);
            const uint32_t at = fractal * kFractal<A> + m % 16 * kC0<A>;
            cpusim::ObserveRead(PIPE_M, fm.Data() + at, bytes, "Mmad");
        }
        for (uint32_t n = 0; n < p.n; ++n) {
            const uint32_t at = k / kC0<A> * columns * kC0<A> + n * kC0<A>;
            cpusim::ObserveRead(PIPE_M, filter.Data() + at, bytes, "Mmad");
        }
    }
    for (uint32_t n = 0; n < p.n; n += 16) {
        const uint32_t left = p.n - n;
        const uint32_t bytes = (left < 16 ? left : 16) * sizeof(C);
        for (uint32_t m = 0; m < p.m; ++m) {
            const C* at = dst.Data() + (n / 16 * rows + m) * 16;
            if (accumulates) cpusim::ObserveRead(PIPE_M, at, bytes, "Mmad");
            cpusim::ObserveWrite(PIPE_M, at, bytes, "Mmad");
        }
    }
#if CPUSIM_CHECKED
    const bool small = (p.m / 16) * (p.n / 16) < 10;
    cpusim::ThisCore().checker.AddProduct(dst.Data(), small, accumulates);
#endif
    cpusim::ObserveCycles(PIPE_M, cpusim::MmadCycles(p.m, p.n, p.k, sizeof(A)));
}

// A fractal of 16 × C0 elements as float, `across` exchanging rows and columns.
template <typename T>
void WidenFractal(float* out, const T* in, bool across) {
    for (uint32_t i = 0; i < kFractal<T>; ++i) {
        out[across ? i % kC0<T> * 16 + i / kC0<T> : i] = static_cast<float>(in[i]);
    }
}

// sum[16][16] += left · right over one pair of fractals, `depth` elements of them.
inline void AddFractals(float* sum, const float* left, uint32_t left_pitch, const float* right,
                        uint32_t depth) {
    for (uint32_t i = 0; i < 16; ++i) {
        for (uint32_t k = 0; k < depth; ++k) {
            const float factor = left[i * left_pitch + k];
#pragma GCC ivdep  // the sums and the operands lie in different memories
            for (uint32_t j = 0; j < 16; ++j) sum[i * 16 + j] += factor * right[k * 16 + j];
        }
    }
}

// The product in the order of the fractals; `bias` is null, or starts each column's sum.
template <typename A>
void Multiply(const LocalTensor<float>& dst, const LocalTensor<A>& fm,
              const LocalTensor<A>& filter, const float* bias, const MmadParams& p,
              bool accumulates) {
    const uint32_t depth = DepthInFractals<A>(p);
    const uint32_t blocks_m = (p.m + 15u) / 16, blocks_n = (p.n + 15u) / 16;
    float left[kFractal<A>], right[kFractal<A>];
    for (uint32_t n = 0; n < blocks_n; ++n) {
        for (uint32_t m = 0; m < blocks_m; ++m) {
            float* sum = dst.Data() + (n * blocks_m + m) * 256;
            for (uint32_t i = 0; i < 256 && !accumulates; ++i) {
                sum[i] = bias == nullptr ? 0.0f : bias[n * 16 + i % 16];
            }
            for (uint32_t k = 0; k < p.k; k += kC0<A>) {
                const uint32_t rest = p.k - k;
                const uint32_t at = k / kC0<A>;
                const uint32_t fractal = LeftFractal(m, at, blocks_m, depth);
                WidenFractal(left, fm.Data() + fractal * kFractal<A>, false);
                WidenFractal(right, filter.Data() + (at * blocks_n + n) * kFractal<A>, true);
                AddFractals(sum, left, kC0<A>, right, rest < kC0<A> ? rest : kC0<A>);
            }
        }
    }
}

}  // namespace detail

// dst = fm · filter, or dst += fm · filter without cmatrixInitVal.
template <typename T, typename U, typename S>
inline void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
                 const MmadParams& mmadParams) {
    static_assert(cpusim::kHasCubeUnit && cpusim::kMmad<T, U, S> && cpusim::kSame<T, float>,
                  "Mmad: not on this SoC, or not for these types");
    const MmadParams& p = mmadParams;
    if (p.m == 0 || p.n == 0 || p.k == 0) return;
    detail::CheckMmad(dst, fm, filter, p);
    cpusim::Require(!p.cmatrixSource, "Mmad", "without a bias tensor cmatrixSource is false",
                    dst.Bytes());
    if constexpr (cpusim::kChecked) detail::ObserveMmad(dst, fm, filter, p, !p.cmatrixInitVal);
    detail::Multiply(dst, fm, filter, nullptr, p, !p.cmatrixInitVal);
}

// dst = bias + fm · filter; the bias lies in the bias table, one float a column.
template <typename T, typename U, typename S, typename V>
inline void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
                 const LocalTensor<V>& bias, const MmadParams& mmadParams) {
    static_assert(cpusim::kHasCubeUnit && cpusim::kMmad<T, U, S> && cpusim::kSame<T, float> &&
                      cpusim::kSame<V, float>,
                  "Mmad: not on this SoC, or not for these types");
    const MmadParams& p = mmadParams;
    if (p.m == 0 || p.n == 0 || p.k == 0) return;
    detail::CheckMmad(dst, fm, filter, p);
    cpusim::RequireRegion(cpusim::Region::kBiasTable, bias.Bytes(), "Mmad",
                          "the bias must lie in the bias table");
    cpusim::Require(bias.GetPhyAddr() % 64 == 0, "Mmad", "the bias must be a multiple of 64 bytes",
                    bias.Bytes());
    cpusim::Require(!p.cmatrixInitVal, "Mmad", "with a bias cmatrixInitVal is false, or the sums "
                    "would start at 0", dst.Bytes());
    bias.CheckIndex(0, p.n, "Mmad");
    cpusim::ObserveRead(PIPE_M, bias.Bytes(), p.n * sizeof(V), "Mmad");
    if constexpr (cpusim::kChecked) detail::ObserveMmad(dst, fm, filter, p, false);
    float padded[4096];  // what lies beyond the bias in the last fractal counts for nothing
    for (uint32_t i = 0; i < (p.n + 15u) / 16 * 16; ++i) padded[i] = i < p.n ? bias.Data()[i] : 0.0f;
    detail::Multiply(dst, fm, filter, padded, p, false);
}

namespace detail {

template <typename T>
constexpr QuantMode_t NarrowingMode() {
    if constexpr (cpusim::kSame<T, half>) return QuantMode_t::F322F16;
    if constexpr (cpusim::kSame<T, bfloat16_t>) return QuantMode_t::F322BF16;
    return QuantMode_t::NoQuant;
}

template <typename T>
void CheckFixpipe(const LocalTensor<float>& src, const FixpipeParamsV220& p) {
    const auto require = [&](bool allowed, const char* rule) {
        cpusim::Require(allowed, "Fixpipe", rule, src.Bytes());
    };
    cpusim::RequireRegion(cpusim::Region::kL0C, src.Bytes(), "Fixpipe",
                          "the source must lie in L0C");
    require(src.GetPhyAddr() % 64 == 0, "the source must be a multiple of 64 bytes");
    require(p.quantPre == NarrowingMode<T>(),
            "quantPre must be NoQuant for float, F322F16 for half and F322BF16 for bfloat16");
    require(p.nSize <= 4095 && p.mSize <= 8192, "nSize is at most 4095 and mSize at most 8192");
    require(p.dstStride != 0, "dstStride is the row of the destination in elements, not 0");
    require(p.ndNum == 1 && p.unitFlag == 0 && !p.isChannelSplit,
            "the emulator moves one matrix, without unitFlag and channel split");
    require(p.srcStride >= p.mSize && p.srcStride % 16 == 0,
            "srcStride is mSize rounded up to 16");
}

}  // namespace detail

// L0C → row-major global memory, with the narrowing and Relu on the way.
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
inline void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
                    const FixpipeParamsV220& intriParams) {
    static_assert(cpusim::kHasCubeUnit && cpusim::kSame<U, float> &&
                      cpusim::kOneOf<T, float, half, bfloat16_t>,
                  "Fixpipe: not on this SoC, or not for these types");
    static_assert(config.format == CO2Layout::ROW_MAJOR, "cpusim: Fixpipe writes row-major only");
    const FixpipeParamsV220& p = intriParams;
    if (p.mSize == 0 || p.nSize == 0) return;
    detail::CheckFixpipe<T>(src, p);
    src.CheckIndex(0, uint64_t{(p.nSize - 1u) / 16} * p.srcStride * 16 + p.mSize * 16, "Fixpipe");
    cpusim::ObserveCycles(PIPE_FIX, cpusim::CubeCopyCycles(uint64_t{p.mSize} * p.nSize * sizeof(T)));
    // All reads come before the stores, which carry the time of the whole instruction.
    for (uint32_t n = 0; cpusim::kChecked && n < p.nSize; n += 16) {
        const uint32_t left = p.nSize - n;
        for (uint32_t m = 0; m < p.mSize; ++m) {
            cpusim::ObserveRead(PIPE_FIX, src.Data() + (n / 16 * p.srcStride + m) * 16,
                                (left < 16 ? left : 16) * sizeof(float), "Fixpipe");
        }
    }
    for (uint32_t m = 0; m < p.mSize; ++m) {
        T* row = dst.Data() + uint64_t{m} * p.dstStride;
        dst.CheckRange(uint64_t{m} * p.dstStride, p.nSize, "Fixpipe");
        cpusim::ObserveGlobalStore(row, p.nSize * sizeof(T), "Fixpipe", PIPE_FIX);
        for (uint32_t n = 0; n < p.nSize; ++n) {
            const float value = src.Data()[(n / 16 * p.srcStride + m) * 16 + n % 16];
            row[n] = static_cast<T>(p.reluEn && value < 0.0f ? 0.0f : value);
        }
    }
}

}  // namespace AscendC
