// What a kernel takes, as a text beside it: `p` for an address, `n` for a number of 8 bytes. A line behind the source of
// every kernel has the compiler write it.
#pragma once

#include <cstdint>

namespace ascend_model {

template <typename T>
struct IsAddress {
    static constexpr bool VALUE = false;
};

template <typename T>
struct IsAddress<T*> {
    static constexpr bool VALUE = true;
};

template <unsigned COUNT>
struct ArgumentsText {
    char letters[COUNT + 1];
};

template <typename... T>
constexpr ArgumentsText<sizeof...(T)> ArgumentsOf(void (*)(T...))
{
    static_assert(((sizeof(T) == sizeof(uint64_t)) && ...), "arguments of kernels have 8 bytes each");
    return {{(IsAddress<T>::VALUE ? 'p' : 'n')..., '\0'}};
}

}  // namespace ascend_model
