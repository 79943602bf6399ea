#include "modes.h"

#include "lanes.h"

namespace ascend_model {

namespace {

constexpr uint32_t Bit(Rounding mode)
{
    return 1U << static_cast<uint32_t>(mode);
}

constexpr uint32_t NONE = Bit(Rounding::None);
constexpr uint32_t WHOLE = Bit(Rounding::Nearest) | Bit(Rounding::Floor) | Bit(Rounding::Ceil) | Bit(Rounding::Away) |
                           Bit(Rounding::Trunc);
constexpr uint32_t ODD = Bit(Rounding::Odd);

bool IsNarrowFloat(DType type)
{
    return type == DType::E4M3 || type == DType::E5M2;
}

uint32_t FromFloat(DType to, bool old)
{
    if (to == DType::F16) {
        return old ? NONE | ODD : NONE | WHOLE | ODD;
    }
    if (IsNarrowFloat(to)) {
        return Bit(Rounding::Nearest);
    }
    return WHOLE;
}

uint32_t FromHalf(DType to, bool old)
{
    switch (to) {
        case DType::F32:
            return NONE;
        case DType::I8:
            return old ? (NONE | WHOLE) & ~Bit(Rounding::Nearest) : NONE | WHOLE;
        case DType::U8:
        case DType::I4:
            return NONE | WHOLE;
        default:
            return WHOLE;
    }
}

uint32_t Listed(DType from, DType to, bool old)
{
    switch (from) {
        case DType::F32:
            return FromFloat(to, old);
        case DType::F16:
            return FromHalf(to, old);
        case DType::BF16:
            return to == DType::F32 ? NONE : WHOLE;
        case DType::I16:
            return to == DType::F16 ? NONE | WHOLE : NONE;
        case DType::I32:
            return to == DType::F32 ? NONE | WHOLE : NONE;
        case DType::I64:
            return to == DType::F32 ? WHOLE : NONE;
        default:
            return NONE;
    }
}

}  // namespace

Rounding RoundingOf(Machine& machine, const char* api, DType from, DType to, uint8_t mode)
{
    static const char* const NAMES[] = {"NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD", "HYBRID"};
    if (mode > static_cast<uint8_t>(Rounding::Hybrid)) {
        machine.report.Fault(api, "no rounding mode: %u", mode);
    }
    // Of int32 to half with its scale the mode is ignored.
    if (from == DType::I32 && to == DType::F16) {
        return Rounding::Nearest;
    }
    const bool old = machine.buffers.TheChip().arch == 2002;
    if ((Listed(from, to, old) >> mode & 1) == 0) {
        machine.report.Fault(api, "CAST_%s is not listed for %s to %s", NAMES[mode], Name(from), Name(to));
    }
    return static_cast<Rounding>(mode);
}

}  // namespace ascend_model
