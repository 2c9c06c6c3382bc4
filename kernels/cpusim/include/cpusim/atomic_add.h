// Adding to global memory from several cores at once, element by element.
#pragma once

#include "cpusim/types.h"

namespace cpusim {

template <typename Word, typename T, typename Sum>
inline void AddWord(T* destination, Sum sum) {
    auto* word = reinterpret_cast<Word*>(destination);
    Word before = __atomic_load_n(word, __ATOMIC_RELAXED);
    Word after;
    do {
        after = __builtin_bit_cast(Word, sum(__builtin_bit_cast(T, before)));
    } while (!__atomic_compare_exchange_n(word, &before, after, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

inline void AddOne(float* destination, float value) {
    AddWord<uint32_t>(destination, [value](float before) { return before + value; });
}
// half and bfloat16 are added in float and rounded after each addition.
inline void AddOne(half* destination, half value) {
    AddWord<uint16_t>(destination, [value](half before) {
        return half(static_cast<float>(before) + static_cast<float>(value));
    });
}
inline void AddOne(bfloat16_t* destination, bfloat16_t value) {
    AddWord<uint16_t>(destination, [value](bfloat16_t before) {
        return bfloat16_t(static_cast<float>(before) + static_cast<float>(value));
    });
}
template <typename Integer>
inline void AddOne(Integer* destination, Integer value) {
    __atomic_fetch_add(destination, value, __ATOMIC_RELAXED);
}

template <typename T>
inline void AddAtomically(T* destination, const T* source, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) AddOne(destination + i, source[i]);
}

}  // namespace cpusim
