#include "round.h"

#include <cmath>

#include "../include/ascend_model/numbers.h"

namespace ascend_model {

double RoundWhole(double value, Rounding mode)
{
    switch (mode) {
        case Rounding::Floor:
            return std::floor(value);
        case Rounding::Ceil:
            return std::ceil(value);
        case Rounding::Away:
            return std::round(value);
        case Rounding::Trunc:
            return std::trunc(value);
        case Rounding::Odd: {
            const double whole = std::trunc(value);
            const bool odd = std::fmod(whole, 2.0) != 0.0;
            return whole == value || odd ? whole : whole + std::copysign(1.0, value);
        }
        case Rounding::None:
        case Rounding::Nearest:
        case Rounding::Hybrid:
            break;
    }
    return std::nearbyint(value);
}

uint32_t ToCode(double value, Rounding mode, const Format& format)
{
    // The usual cases without the general arithmetic: floats to nearest, and floats as they are.
    const float narrow = static_cast<float>(value);
    const bool nearest = mode == Rounding::None || mode == Rounding::Nearest;
    if (static_cast<double>(narrow) == value || (nearest && format.mantissa == FLOAT.mantissa)) {
        if (format.mantissa == FLOAT.mantissa) {
            return BitCast<uint32_t>(narrow);
        }
        if (nearest && format.mantissa == BFLOAT16.mantissa) {
            return ToBfloat16(narrow);
        }
        if (nearest && format.mantissa == HALF.mantissa) {
            return ToHalf(narrow);
        }
    }
    const uint32_t sign = (std::signbit(value) ? 1U : 0U) << (format.exponent + format.mantissa);
    if (std::isnan(value)) {
        return sign | format.nan;
    }
    const int32_t bias = (1 << (format.exponent - 1)) - 1;
    const double size = std::fabs(value);
    int32_t power = 0;
    std::frexp(size, &power);
    // The exponent of the last place at this size, not below that of subnormals.
    const int32_t least = 1 - bias - static_cast<int32_t>(format.mantissa);
    int32_t last = power - 1 - static_cast<int32_t>(format.mantissa);
    last = last < least ? least : last;
    double rounded = value;
    if (std::isfinite(value)) {
        rounded = std::ldexp(RoundWhole(std::ldexp(value, -last), mode), last);
    }
    if (std::fabs(rounded) > format.largest) {
        // Directed modes stop at the largest value where it is on their side.
        const bool inward = std::isfinite(value) &&
                            (mode == Rounding::Trunc || mode == Rounding::Odd ||
                             (mode == Rounding::Floor && value > 0) || (mode == Rounding::Ceil && value < 0));
        if (format.infinite && !format.saturates && !inward) {
            return sign | ((1U << format.exponent) - 1) << format.mantissa;
        }
        rounded = std::copysign(format.largest, value);
    }
    const double magnitude = std::fabs(rounded);
    if (magnitude == 0.0) {
        return sign;
    }
    std::frexp(magnitude, &power);
    const int32_t exponent = power - 1 + bias;
    if (exponent <= 0) {
        return sign | static_cast<uint32_t>(std::ldexp(magnitude, -least));
    }
    const double fraction = std::ldexp(magnitude, 1 - power) - 1.0;
    return sign | static_cast<uint32_t>(exponent) << format.mantissa |
           static_cast<uint32_t>(std::ldexp(fraction, static_cast<int>(format.mantissa)));
}

float FromE4M3(uint8_t code)
{
    const float sign = (code & 0x80) != 0 ? -1.0f : 1.0f;
    const int32_t exponent = code >> 3 & 15;
    const int32_t mantissa = code & 7;
    if (exponent == 15 && mantissa == 7) {
        return std::numeric_limits<float>::quiet_NaN();
    }
    if (exponent == 0) {
        return sign * std::ldexp(static_cast<float>(mantissa), -9);
    }
    return sign * std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

int32_t ToRange(double value, Rounding mode, int32_t least, int32_t most)
{
    const double whole = RoundWhole(value, mode);
    if (whole != whole) {
        return 0;
    }
    return whole <= least ? least : whole >= most ? most : static_cast<int32_t>(whole);
}

}  // namespace ascend_model
