// Numbers of 16 and 8 bits as C++ types: what they hold, and their exact conversions to and from float.
#pragma once

#include <cstdint>
#include <type_traits>

namespace ascend_model {

template <typename To, typename From>
constexpr To BitCast(const From& from)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    return __builtin_bit_cast(To, from);
}

// The float that a code of `EXPONENT` and `MANTISSA` bits stands for; the largest exponent means infinity and NaN.
template <int EXPONENT, int MANTISSA>
constexpr float Widen(uint32_t code)
{
    constexpr uint32_t MOST = (1U << EXPONENT) - 1;
    constexpr int32_t BIAS = (1 << (EXPONENT - 1)) - 1;
    const uint32_t sign = (code >> (EXPONENT + MANTISSA) & 1U) << 31;
    const uint32_t exponent = code >> MANTISSA & MOST;
    const uint32_t mantissa = code & ((1U << MANTISSA) - 1);
    if (exponent == MOST) {
        return BitCast<float>(sign | 0x7f800000U | mantissa << (23 - MANTISSA));
    }
    if (exponent != 0) {
        return BitCast<float>(sign | (exponent + (127 - BIAS)) << 23 | mantissa << (23 - MANTISSA));
    }
    const float unit = BitCast<float>(static_cast<uint32_t>(127 + 1 - BIAS - MANTISSA) << 23);
    const float size = static_cast<float>(mantissa) * unit;
    return sign != 0 ? -size : size;
}

// Nearest half to a float, ties to even; beyond the largest, infinity.
constexpr uint16_t ToHalf(float value)
{
    const uint32_t bits = BitCast<uint32_t>(value);
    const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000U);
    const uint32_t size = bits & 0x7fffffffU;
    if (size > 0x7f800000U) {
        return static_cast<uint16_t>(sign | 0x7e00U);
    }
    if (size >= 0x477ff000U) {
        return static_cast<uint16_t>(sign | 0x7c00U);
    }
    if (size < 0x38800000U) {
        // Adding 2^-1 leaves the multiple of 2^-24 in the low bits, rounded as floats are.
        const float shifted = BitCast<float>(size) + 0.5f;
        return static_cast<uint16_t>(sign | (BitCast<uint32_t>(shifted) - 0x3f000000U));
    }
    const uint32_t rounded = size + 0xfffU + (size >> 13 & 1U);
    return static_cast<uint16_t>(sign | (rounded - 0x38000000U) >> 13);
}

// Nearest bfloat16 to a float, ties to even.
constexpr uint16_t ToBfloat16(float value)
{
    const uint32_t bits = BitCast<uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) {
        return static_cast<uint16_t>(bits >> 16 | 0x40U);
    }
    return static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

}  // namespace ascend_model

// IEEE half precision. Arithmetic on it as a scalar is float's.
struct half {
    uint16_t bits;

    half() = default;
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    constexpr half(T value) : bits(ascend_model::ToHalf(static_cast<float>(value))) {}
    constexpr operator float() const { return ascend_model::Widen<5, 10>(bits); }
};

// The upper half of a float. There is no arithmetic on it.
struct bfloat16_t {
    uint16_t bits;

    bfloat16_t() = default;
    constexpr explicit bfloat16_t(float value) : bits(ascend_model::ToBfloat16(value)) {}
    constexpr explicit operator float() const
    {
        return ascend_model::BitCast<float>(static_cast<uint32_t>(bits) << 16);
    }
};

// Codes of 8 bits that only conversions know.
struct fp8_e4m3fn_t {
    uint8_t bits;
};

struct fp8_e5m2_t {
    uint8_t bits;
};

struct hifloat8_t {
    uint8_t bits;
};

namespace ascend_model {

// A number as an element: rounded where `T` has a rounding, a code otherwise.
template <typename T, typename U>
constexpr T From(U value)
{
    if constexpr (std::is_arithmetic_v<T>) {
        return static_cast<T>(value);
    } else if constexpr (std::is_constructible_v<T, float>) {
        return T(static_cast<float>(value));
    } else {
        return T{static_cast<uint8_t>(value)};
    }
}

}  // namespace ascend_model

namespace AscendC {

// Two in a byte: tensors of it count halves of bytes.
struct int4b_t {
    uint8_t bits;
};

}  // namespace AscendC
