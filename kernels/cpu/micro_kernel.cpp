#include "micro_kernel.h"

#include <array>
#include <cstddef>
#include <utility>

namespace ascend_ops::cpu {
namespace {

template <int... kRows>
constexpr std::array<MicroKernelFunction, sizeof...(kRows)> TableOf(
    std::integer_sequence<int, kRows...>) {
    return {MicroKernel<kRows + 1, kVectors>...};
}

constexpr auto kTable = TableOf(std::make_integer_sequence<int, kRowsMax>());

}  // namespace

MicroKernelFunction MicroKernelOf(int rows) { return kTable[static_cast<size_t>(rows - 1)]; }

}  // namespace ascend_ops::cpu
