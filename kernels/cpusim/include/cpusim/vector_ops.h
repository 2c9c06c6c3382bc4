// Vector instructions in their "first count elements" form, all on pipe V.
//
// Each states its element types for the SoC; half is computed in float and rounded after each
// instruction, which is at least as exact as the hardware.
#pragma once

#include "cpusim/cycles.h"
#include "cpusim/tensor.h"

namespace AscendC {
namespace detail {

template <typename T>
inline float Widen(T value) {
    return static_cast<float>(value);
}
template <typename T>
inline T Narrow(float value) {
    return static_cast<T>(value);
}

template <typename T>
void CheckOperand(const LocalTensor<T>& tensor, int64_t count, const char* instruction) {
    cpusim::Require(count >= 0, instruction, "count is negative", tensor.Bytes());
    tensor.CheckIndex(0, static_cast<uint64_t>(count), instruction);
    cpusim::Require(
        (tensor.Bytes() - cpusim::ThisCore().memory) % cpusim::kBlockBytes == 0,
        instruction, "an operand's address must be a multiple of 32 bytes", tensor.Bytes());
}

// A source and the destination are the same memory or apart; what overlaps in part is overwritten
// before it is read.
template <typename To, typename From>
void CheckOverlap(const LocalTensor<To>& dst, const LocalTensor<From>& src, int64_t count,
                  const char* instruction) {
    const uint8_t* dst_end = dst.Bytes() + count * sizeof(To);
    const uint8_t* src_end = src.Bytes() + count * sizeof(From);
    const bool apart = dst_end <= src.Bytes() || src_end <= dst.Bytes();
    cpusim::Require(apart || (dst.Bytes() == src.Bytes() && sizeof(To) == sizeof(From)),
                    instruction, "source and destination overlap in part", dst.Bytes());
}

template <typename To, typename From, typename F>
inline void Unary(const char* instruction, const LocalTensor<To>& dst, const LocalTensor<From>& src,
                  int64_t count, F compute, double repeat_cycles = 1) {
    if constexpr (cpusim::kChecked) {
        CheckOperand(dst, count, instruction);
        CheckOperand(src, count, instruction);
        CheckOverlap(dst, src, count, instruction);
        cpusim::ObserveRead(PIPE_V, src.Bytes(), count * sizeof(From), instruction);
        cpusim::ObserveWrite(PIPE_V, dst.Bytes(), count * sizeof(To), instruction);
        cpusim::ObserveCycles(PIPE_V, cpusim::VectorCycles(count * sizeof(From), repeat_cycles));
    }
    To* out = dst.Data();
    const From* in = src.Data();
#pragma GCC ivdep  // operands are the same tensor or apart, so iterations are independent
    for (int64_t i = 0; i < count; ++i) out[i] = compute(in[i]);
}

template <typename T, typename F>
inline void Binary(const char* instruction, const LocalTensor<T>& dst, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, int64_t count, F compute,
                   double repeat_cycles = 1) {
    if constexpr (cpusim::kChecked) {
        CheckOperand(dst, count, instruction);
        CheckOperand(src0, count, instruction);
        CheckOperand(src1, count, instruction);
        CheckOverlap(dst, src0, count, instruction);
        CheckOverlap(dst, src1, count, instruction);
        cpusim::ObserveRead(PIPE_V, src0.Bytes(), count * sizeof(T), instruction);
        cpusim::ObserveRead(PIPE_V, src1.Bytes(), count * sizeof(T), instruction);
        cpusim::ObserveWrite(PIPE_V, dst.Bytes(), count * sizeof(T), instruction);
        cpusim::ObserveCycles(PIPE_V, cpusim::VectorCycles(count * sizeof(T), repeat_cycles));
    }
    T* out = dst.Data();
    const T* a = src0.Data();
    const T* b = src1.Data();
#pragma GCC ivdep  // operands are the same tensor or apart, so iterations are independent
    for (int64_t i = 0; i < count; ++i) out[i] = compute(a[i], b[i]);
}

// Integers are computed as they are, half and bfloat16 through float.
template <typename T, typename F>
inline auto ThroughFloat(F compute) {
    return [compute](auto... values) {
        if constexpr (cpusim::kOneOf<T, half, bfloat16_t>) {
            return Narrow<T>(compute(Widen(values)...));
        } else {
            return static_cast<T>(compute(values...));
        }
    };
}

}  // namespace detail

// On 950 the functions have a template argument that chooses the algorithm; elsewhere none.
#if __NPU_ARCH__ == 3510
enum class ExpAlgo { INTRINSIC = 0 };
enum class DivAlgo { INTRINSIC = 0 };
struct ExpConfig {
    ExpAlgo algo = ExpAlgo::INTRINSIC;
};
struct DivConfig {
    DivAlgo algo = DivAlgo::INTRINSIC;
};
constexpr ExpConfig DEFAULT_EXP_CONFIG = {ExpAlgo::INTRINSIC};
constexpr DivConfig DEFAULT_DIV_CONFIG = {DivAlgo::INTRINSIC};
#define CPUSIM_CONFIG(type, value) , const type& config = value
#else
#define CPUSIM_CONFIG(type, value)
#endif

template <typename T CPUSIM_CONFIG(ExpConfig, DEFAULT_EXP_CONFIG)>
inline void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {
    static_assert(cpusim::kFloatMath<T>, "Exp takes half and float only");
    const auto exponential = [](T x) { return detail::Narrow<T>(cpusim::Exp(detail::Widen(x))); };
    detail::Unary("Exp", dst, src, count, exponential, cpusim::kSlowRepeatCycles);
}

template <typename T>
inline void Abs(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {
    static_assert(cpusim::kAbs<T>, "Abs takes half and float only");
    detail::Unary("Abs", dst, src, count, [](T x) {
        return detail::Narrow<T>(__builtin_fabsf(detail::Widen(x)));
    });
}

template <typename T>
inline void Relu(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {
    static_assert(cpusim::kRelu<T>, "Relu: this SoC does not have it for this type");
    // NaN stays NaN, as in every framework.
    detail::Unary("Relu", dst, src, count, detail::ThroughFloat<T>([](auto x) {
        return x < 0 ? decltype(x){0} : x;
    }));
}

// The hardware's reciprocal is documented with an error of 1e-4 (float) and 2e-3 (half); the
// emulator errs by as much, so that a kernel that relies on it shows it here.
template <typename T>
inline void Reciprocal(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {
    static_assert(cpusim::kFloatMath<T>, "Reciprocal takes half and float only");
    constexpr float kError = cpusim::kSame<T, float> ? 1e-4f : 2e-3f;
    detail::Unary("Reciprocal", dst, src, count, [](T x) {
        return detail::Narrow<T>((1.0f / detail::Widen(x)) * (1.0f - 0.5f * kError));
    });
}

template <typename T>
inline void Add(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                const int32_t& count) {
    static_assert(cpusim::kArithmetic<T>, "Add: this SoC does not have it for this type");
    detail::Binary("Add", dst, src0, src1, count,
                   detail::ThroughFloat<T>([](auto a, auto b) { return a + b; }));
}

template <typename T>
inline void Sub(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                const int32_t& count) {
    static_assert(cpusim::kArithmetic<T>, "Sub: this SoC does not have it for this type");
    detail::Binary("Sub", dst, src0, src1, count,
                   detail::ThroughFloat<T>([](auto a, auto b) { return a - b; }));
}

template <typename T>
inline void Mul(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                const int32_t& count) {
    static_assert(cpusim::kArithmetic<T>, "Mul: this SoC does not have it for this type");
    detail::Binary("Mul", dst, src0, src1, count,
                   detail::ThroughFloat<T>([](auto a, auto b) { return a * b; }));
}

template <typename T>
inline void Max(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                const int32_t& count) {
    static_assert(cpusim::kArithmetic<T>, "Max: this SoC does not have it for this type");
    // NaN of the first operand stays NaN.
    detail::Binary("Max", dst, src0, src1, count,
                   detail::ThroughFloat<T>([](auto a, auto b) { return a < b ? b : a; }));
}

template <typename T CPUSIM_CONFIG(DivConfig, DEFAULT_DIV_CONFIG)>
inline void Div(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                const int32_t& count) {
    static_assert(cpusim::kFloatMath<T>, "Div takes half and float only");
    detail::Binary("Div", dst, src0, src1, count,
                   detail::ThroughFloat<T>([](auto a, auto b) { return a / b; }),
                   cpusim::kSlowRepeatCycles);
}

template <typename T>
inline void Adds(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,
                 const int32_t& count) {
    static_assert(cpusim::kScalarArithmetic<T>, "Adds: this SoC does not have it for this type");
    const T scalar = scalarValue;  // a copy that the destination cannot alias
    const auto add = detail::ThroughFloat<T>([](auto a, auto b) { return a + b; });
    detail::Unary("Adds", dst, src, count, [=](T x) { return add(x, scalar); });
}

template <typename T>
inline void Muls(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,
                 const int32_t& count) {
    static_assert(cpusim::kScalarArithmetic<T>, "Muls: this SoC does not have it for this type");
    const T scalar = scalarValue;  // a copy that the destination cannot alias
    const auto multiply = detail::ThroughFloat<T>([](auto a, auto b) { return a * b; });
    detail::Unary("Muls", dst, src, count, [=](T x) { return multiply(x, scalar); });
}

template <typename T>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count) {
    static_assert(cpusim::kDuplicate<T>, "Duplicate: this SoC does not have it for this type");
    if constexpr (cpusim::kChecked) {
        detail::CheckOperand(dst, count, "Duplicate");
        cpusim::ObserveWrite(PIPE_V, dst.Bytes(), count * sizeof(T), "Duplicate");
        cpusim::ObserveCycles(PIPE_V, cpusim::VectorCycles(count * sizeof(T)));
    }
    const T scalar = scalarValue;
    T* out = dst.Data();
    for (int64_t i = 0; i < count; ++i) out[i] = scalar;
}

}  // namespace AscendC
