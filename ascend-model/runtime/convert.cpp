// Conversions between types of elements: rounding, saturation, and the scale of int32 to half.
#include <cmath>
#include <cstring>
#include <limits>

#include "../include/ascend_model/numbers.h"
#include "compute.h"
#include "lanes.h"
#include "modes.h"
#include "round.h"

namespace ascend_model {

namespace {

// An element as a double, which holds every value of every type but the outer ones of 64-bit integers.
double Load(const uint8_t* at, DType type, uint64_t i)
{
    const auto as = [at, i](auto sample) {
        std::memcpy(&sample, at + i * sizeof(sample), sizeof(sample));
        return sample;
    };
    switch (type) {
        case DType::I4: {
            const int32_t pair = at[i / 2];
            const int32_t code = i % 2 == 0 ? pair & 15 : pair >> 4;
            return code >= 8 ? code - 16 : code;
        }
        case DType::I8:
            return as(int8_t{});
        case DType::U8:
            return as(uint8_t{});
        case DType::I16:
            return as(int16_t{});
        case DType::U16:
            return as(uint16_t{});
        case DType::I32:
            return as(int32_t{});
        case DType::U32:
            return as(uint32_t{});
        case DType::I64:
            return static_cast<double>(as(int64_t{}));
        case DType::U64:
            return static_cast<double>(as(uint64_t{}));
        case DType::F16:
            return Widen<5, 10>(as(uint16_t{}));
        case DType::BF16:
            return BitCast<float>(static_cast<uint32_t>(as(uint16_t{})) << 16);
        case DType::F32:
            return as(float{});
        case DType::E4M3:
            return FromE4M3(as(uint8_t{}));
        case DType::E5M2:
            return Widen<5, 2>(as(uint8_t{}));
        case DType::HIF8:
            break;
    }
    return std::numeric_limits<double>::quiet_NaN();
}

template <typename T>
void StoreInteger(uint8_t* at, uint64_t i, double value, Rounding mode)
{
    const T code = ToInteger<T>(value, mode);
    std::memcpy(at + i * sizeof(T), &code, sizeof(T));
}

void Store(uint8_t* at, DType type, uint64_t i, double value, Rounding mode)
{
    const auto put = [at, i](auto code) { std::memcpy(at + i * sizeof(code), &code, sizeof(code)); };
    switch (type) {
        case DType::I4: {
            const int32_t code = ToRange(value, mode, -8, 7) & 15;
            uint8_t& pair = at[i / 2];
            pair = static_cast<uint8_t>(i % 2 == 0 ? (pair & 0xf0) | code : (pair & 15) | code << 4);
            return;
        }
        case DType::I8:
            return StoreInteger<int8_t>(at, i, value, mode);
        case DType::U8:
            return StoreInteger<uint8_t>(at, i, value, mode);
        case DType::I16:
            return StoreInteger<int16_t>(at, i, value, mode);
        case DType::U16:
            return StoreInteger<uint16_t>(at, i, value, mode);
        case DType::I32:
            return StoreInteger<int32_t>(at, i, value, mode);
        case DType::U32:
            return StoreInteger<uint32_t>(at, i, value, mode);
        case DType::I64:
            return StoreInteger<int64_t>(at, i, value, mode);
        case DType::U64:
            return StoreInteger<uint64_t>(at, i, value, mode);
        case DType::F16:
            return put(static_cast<uint16_t>(ToCode(value, mode, HALF)));
        case DType::BF16:
            return put(static_cast<uint16_t>(ToCode(value, mode, BFLOAT16)));
        case DType::F32:
            return put(static_cast<uint32_t>(ToCode(value, mode, FLOAT)));
        case DType::E4M3:
            return put(static_cast<uint8_t>(ToCode(value, mode, E4M3)));
        case DType::E5M2:
            return put(static_cast<uint8_t>(ToCode(value, mode, E5M2)));
        case DType::HIF8:
            return;
    }
}


template <typename From, typename To, typename Each>
void Convert(const uint8_t* from, uint8_t* to, uint64_t n, const Each& each)
{
    for (uint64_t i = 0; i < n; ++i) {
        From source;
        std::memcpy(&source, from + i * sizeof(From), sizeof(From));
        const To target = each(source);
        std::memcpy(to + i * sizeof(To), &target, sizeof(To));
    }
}

// The conversions that most kernels are made of, to nearest, without the general arithmetic. Says whether it was one.
bool RunUsual(Machine& machine, const Conversion& call, uint64_t n)
{
    const uint8_t* const from = machine.unified.At(call.from.at.offset);
    uint8_t* const to = machine.unified.At(call.to.at.offset);
    const DType source = call.from.type;
    if (call.to.type == DType::F32 && source == DType::F16) {
        Convert<uint16_t, float>(from, to, n, [](uint16_t code) { return Widen<5, 10>(code); });
    } else if (call.to.type == DType::F32 && source == DType::BF16) {
        Convert<uint16_t, uint32_t>(from, to, n, [](uint16_t code) { return static_cast<uint32_t>(code) << 16; });
    } else if (call.to.type == DType::F16 && source == DType::F32) {
        Convert<float, uint16_t>(from, to, n, ToHalf);
    } else if (call.to.type == DType::BF16 && source == DType::F32) {
        Convert<float, uint16_t>(from, to, n, ToBfloat16);
    } else if (call.to.type == DType::F32 && source == DType::I32) {
        Convert<int32_t, float>(from, to, n, [](int32_t value) { return static_cast<float>(value); });
    } else {
        return false;
    }
    return true;
}

}  // namespace

void Issue(const Conversion& call)
{
    Machine& machine = TheMachine();
    const DType from = call.from.type;
    const DType to = call.to.type;
    const uint32_t widest = Bits(from) > Bits(to) ? Bits(from) : Bits(to);
    const Shape shape = Resolve(machine, call.api, call.lanes, widest);
    if (from == DType::HIF8 || to == DType::HIF8) {
        machine.report.Fault(call.api, "hifloat8 is not modelled");
    }
    const Rounding mode = RoundingOf(machine, call.api, from, to, call.mode);
    double scale = 1.0;
    if (from == DType::I32 && to == DType::F16) {
        if (!machine.registers.scaled) {
            machine.report.Fault(call.api, "int32 to half without SetDeqScale: the scale is whatever was there");
        }
        scale = Widen<5, 10>(machine.registers.scale);
    }
    CheckOperand(machine, call.api, "src", call.from, shape, false);
    CheckOperand(machine, call.api, "dst", call.to, shape, true);
    CheckOverlap(machine, call.api, "src", call.to, call.from, shape, false);
    const Instruction by = machine.order.Next(call.api, Pipe::V);
    MarkReads(machine, by, "src", call.from, shape);
    MarkWrites(machine, by, "dst", call.to, shape);
    machine.counters.vector_instructions += 1;
    // The documentation says 0 for one chip and nothing for the others. It says that floats saturate, and that chips of
    // this family may be set up not to, which is how frameworks set them up.
    const bool saturates = machine.OtherUnknown() && (to == DType::F16 || to == DType::BF16);
    const double largest = to == DType::F16 ? HALF.largest : BFLOAT16.largest;
    // From float to float is rounding to whole numbers.
    const bool whole = from == DType::F32 && to == DType::F32;
    const double nan = machine.OtherUnknown() && to <= DType::U64 ? std::numeric_limits<double>::infinity()
                                                                  : std::numeric_limits<double>::quiet_NaN();
    machine.order.Run(by, [&machine, call, shape, mode, scale, from, to, nan, saturates, largest, whole] {
        const auto load = [=](const uint8_t* at, uint64_t i) {
            const double value = Load(at, from, i) * scale;
            if (value != value) {
                return nan;
            }
            const double bounded = saturates ? std::fmax(-largest, std::fmin(largest, value)) : value;
            return whole ? std::copysign(RoundWhole(bounded, mode), bounded) : bounded;
        };
        const bool nearest = mode == Rounding::None || mode == Rounding::Nearest;
        if (shape.dense && nearest && scale == 1.0 && !saturates && RunUsual(machine, call, shape.total)) {
            return;
        }
        if (shape.dense) {
            const uint8_t* const source = machine.unified.At(call.from.at.offset);
            uint8_t* const target = machine.unified.At(call.to.at.offset);
            for (uint64_t i = 0; i < shape.total; ++i) {
                Store(target, to, i, load(source, i), mode);
            }
            return;
        }
        for (uint32_t r = 0; r < shape.repeats; ++r) {
            for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
                if (!shape.Active(r, lane)) {
                    continue;
                }
                const uint64_t fromHalf = from == DType::I4 ? lane % 2 : 0;
                const uint64_t toHalf = to == DType::I4 ? lane % 2 : 0;
                const uint8_t* const source = machine.unified.At(Place(call.from, Bits(from), r, lane));
                uint8_t* const target = machine.unified.At(Place(call.to, Bits(to), r, lane));
                Store(target, to, toHalf, load(source, fromHalf), mode);
            }
        }
    });
}

}  // namespace ascend_model
