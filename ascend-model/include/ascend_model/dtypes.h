// Types of elements as values, and which instruction takes which on which chip.
//
// The tables say what the documentation lists, which is less than a device's compiler lets pass.
#pragma once

#include <type_traits>

#include "ascend_model/numbers.h"
#include "ascend_model/runtime.h"

namespace ascend_model {

template <typename T, typename... Among>
constexpr bool OneOf = (std::is_same_v<T, Among> || ...);

template <typename T>
constexpr DType TypeOf()
{
    using namespace AscendC;
    if constexpr (std::is_same_v<T, int4b_t>) {
        return DType::I4;
    } else if constexpr (std::is_same_v<T, int8_t>) {
        return DType::I8;
    } else if constexpr (OneOf<T, uint8_t, bool>) {
        return DType::U8;
    } else if constexpr (std::is_same_v<T, int16_t>) {
        return DType::I16;
    } else if constexpr (std::is_same_v<T, uint16_t>) {
        return DType::U16;
    } else if constexpr (std::is_same_v<T, int32_t>) {
        return DType::I32;
    } else if constexpr (std::is_same_v<T, uint32_t>) {
        return DType::U32;
    } else if constexpr (std::is_same_v<T, int64_t>) {
        return DType::I64;
    } else if constexpr (std::is_same_v<T, uint64_t>) {
        return DType::U64;
    } else if constexpr (std::is_same_v<T, half>) {
        return DType::F16;
    } else if constexpr (std::is_same_v<T, bfloat16_t>) {
        return DType::BF16;
    } else if constexpr (std::is_same_v<T, float>) {
        return DType::F32;
    } else if constexpr (std::is_same_v<T, fp8_e4m3fn_t>) {
        return DType::E4M3;
    } else if constexpr (std::is_same_v<T, fp8_e5m2_t>) {
        return DType::E5M2;
    } else {
        static_assert(std::is_same_v<T, hifloat8_t>, "no type of elements");
        return DType::HIF8;
    }
}

// Families of instructions that take the same types.
enum class Family { Arithmetic, Floating, Bits, Shift, Relu, Fill, Spread, Axpy, Compare, Select, Gather, Index };

template <Family family, typename T>
constexpr bool Takes()
{
    constexpr bool old = __NPU_ARCH__ == 2002;
    constexpr bool floating = OneOf<T, half, float>;
    if constexpr (family == Family::Arithmetic || family == Family::Index) {
        return floating || OneOf<T, int16_t, int32_t>;
    } else if constexpr (family == Family::Floating || family == Family::Axpy || family == Family::Select) {
        return floating;
    } else if constexpr (family == Family::Bits) {
        return OneOf<T, int16_t, uint16_t>;
    } else if constexpr (family == Family::Shift) {
        return OneOf<T, int16_t, uint16_t, int32_t, uint32_t>;
    } else if constexpr (family == Family::Relu || family == Family::Compare) {
        return floating || (!old && std::is_same_v<T, int32_t>);
    } else if constexpr (family == Family::Fill) {
        return floating || OneOf<T, int16_t, uint16_t, int32_t, uint32_t> || (!old && std::is_same_v<T, bfloat16_t>);
    } else {
        return floating || OneOf<T, int16_t, uint16_t, int32_t, uint32_t> || (!old && std::is_same_v<T, bfloat16_t>);
    }
}

}  // namespace ascend_model
