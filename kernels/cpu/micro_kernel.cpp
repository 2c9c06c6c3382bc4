#include "micro_kernel.h"

#include <array>
#include <cstddef>
#include <utility>

namespace ascend_ops::cpu {
namespace {

template <int... kRows>
constexpr std::array<TileFunction, sizeof...(kRows)> TableOf(
    std::integer_sequence<int, kRows...>) {
    return {MultiplyTile<kRows + 1>...};
}

constexpr auto kTable = TableOf(std::make_integer_sequence<int, kRowsMax>());

}  // namespace

TileFunction TileFunctionOf(int64_t rows) { return kTable[static_cast<size_t>(rows - 1)]; }

}  // namespace ascend_ops::cpu
