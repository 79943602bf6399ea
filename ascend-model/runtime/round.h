// Rounding of exact values to codes.
#pragma once

#include <cstdint>
#include <limits>

namespace ascend_model {

// As the interface numbers them.
enum class Rounding : uint8_t { None = 0, Nearest, Floor, Ceil, Away, Trunc, Odd, Hybrid };

// A binary format: a sign, `exponent` bits with the usual bias, `mantissa` bits.
struct Format {
    uint32_t exponent;
    uint32_t mantissa;
    double largest;
    uint32_t nan;
    bool infinite;   // has infinities
    bool saturates;  // what is beyond the largest becomes the largest, infinities too
};

constexpr Format FLOAT{8, 23, 3.4028234663852886e38, 0x7fc00000, true, false};
constexpr Format HALF{5, 10, 65504.0, 0x7e00, true, false};
constexpr Format BFLOAT16{8, 7, 3.3895313892515355e38, 0x7fc0, true, false};
constexpr Format E5M2{5, 2, 57344.0, 0x7f, true, true};
constexpr Format E4M3{4, 3, 448.0, 0x7f, false, true};

// `value` as a whole number.
double RoundWhole(double value, Rounding mode);

// The code of a value in a format.
uint32_t ToCode(double value, Rounding mode, const Format& format);

float FromE4M3(uint8_t code);

// Rounded and clamped; NaN becomes 0.
int32_t ToRange(double value, Rounding mode, int32_t least, int32_t most);

template <typename T>
T ToInteger(double value, Rounding mode)
{
    const double whole = RoundWhole(value, mode);
    if (whole != whole) {
        return T{0};
    }
    if (whole <= static_cast<double>(std::numeric_limits<T>::min())) {
        return std::numeric_limits<T>::min();
    }
    if (whole >= static_cast<double>(std::numeric_limits<T>::max())) {
        return std::numeric_limits<T>::max();
    }
    return static_cast<T>(whole);
}

}  // namespace ascend_model
