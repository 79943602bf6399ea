#include "lanes.h"

#include <algorithm>

namespace ascend_model {

uint32_t Bits(DType type)
{
    switch (type) {
        case DType::I4:
            return 4;
        case DType::I8:
        case DType::U8:
        case DType::E4M3:
        case DType::E5M2:
        case DType::HIF8:
            return 8;
        case DType::I16:
        case DType::U16:
        case DType::F16:
        case DType::BF16:
            return 16;
        case DType::I32:
        case DType::U32:
        case DType::F32:
            return 32;
        case DType::I64:
        case DType::U64:
            return 64;
    }
    return 0;
}

const char* Name(DType type)
{
    static const char* const NAMES[] = {
        "int4",   "int8", "uint8",    "int16", "uint16",      "int32",       "uint32",   "int64",
        "uint64", "half", "bfloat16", "float", "float8_e4m3", "float8_e5m2", "hifloat8",
    };
    return NAMES[static_cast<uint32_t>(type)];
}

namespace {

void CheckRepeats(Machine& machine, const char* api, int64_t repeats)
{
    if (repeats < 1 || repeats > 255) {
        machine.report.Fault(api, "repeatTime %lld: 1 to 255", static_cast<long long>(repeats));
    }
}

Shape Counted(uint64_t total, uint32_t lanes)
{
    Shape shape{};
    shape.counter = true;
    shape.total = total;
    shape.lanes = lanes;
    shape.repeats = static_cast<uint32_t>((total + lanes - 1) / lanes);
    return shape;
}

Shape Masked(Machine& machine, const char* api, uint64_t low, uint64_t high, uint32_t lanes, int64_t repeats)
{
    if (lanes <= 64) {
        const uint64_t beyond = lanes == 64 ? 0 : low >> lanes;
        if (high != 0 || beyond != 0) {
            machine.report.Fault(
                api, "mask {0x%llx, 0x%llx} has lanes beyond the %u of a repeat", static_cast<unsigned long long>(low),
                static_cast<unsigned long long>(high), lanes);
        }
    }
    if ((low | high) == 0) {
        machine.report.Fault(api, "a mask without lanes");
    }
    CheckRepeats(machine, api, repeats);
    Shape shape{};
    shape.lanes = lanes;
    shape.low = low;
    shape.high = high;
    shape.repeats = static_cast<uint32_t>(repeats);
    shape.total = static_cast<uint64_t>(__builtin_popcountll(low) + __builtin_popcountll(high)) * shape.repeats;
    return shape;
}

}  // namespace

Shape Resolve(Machine& machine, const char* api, const Lanes& lanes, uint32_t widest)
{
    const Registers& registers = machine.registers;
    const uint32_t perRepeat = std::min<uint32_t>(REPEAT_BYTES * 8 / widest, 128);
    const uint64_t all = ~uint64_t{0};
    if (lanes.kind != Lanes::REGISTERS) {
        machine.registers.spoiled = true;
    }
    switch (lanes.kind) {
        case Lanes::FIRST: {
            if (lanes.count < 0) {
                machine.report.Fault(api, "a count of %lld elements", static_cast<long long>(lanes.count));
            }
            Shape shape = Counted(static_cast<uint64_t>(lanes.count), perRepeat);
            shape.dense = true;
            return shape;
        }
        case Lanes::NUMBER: {
            if (registers.counter) {
                return Counted(static_cast<uint64_t>(lanes.count), perRepeat);
            }
            if (lanes.count < 1 || lanes.count > perRepeat) {
                machine.report.Fault(
                    api, "mask %lld: 1 to %u lanes of %u bits", static_cast<long long>(lanes.count), perRepeat,
                    widest);
            }
            const uint64_t n = static_cast<uint64_t>(lanes.count);
            const uint64_t low = n >= 64 ? all : (uint64_t{1} << n) - 1;
            const uint64_t high = n <= 64 ? 0 : n >= 128 ? all : (uint64_t{1} << (n - 64)) - 1;
            return Masked(machine, api, low, high, perRepeat, lanes.repeats);
        }
        case Lanes::BITS:
            return Masked(machine, api, lanes.bits[0], lanes.bits[1], perRepeat, lanes.repeats);
        case Lanes::REGISTERS:
            if (registers.spoiled) {
                machine.report.Fault(
                    api, "no mask was set since a call that set its own: the registers hold what that one left");
            }
            if (registers.counter) {
                return Counted(registers.low, perRepeat);
            }
            return Masked(
                machine, api, registers.low, perRepeat <= 64 && registers.low == all ? 0 : registers.high, perRepeat,
                lanes.repeats);
    }
    machine.report.Fault(api, "a mask of no kind");
}

std::vector<Run> RunsOf(const Operand& operand, const Shape& shape, uint32_t repeat)
{
    const uint32_t bits = Bits(operand.type);
    if (shape.dense) {
        return {{operand.at.offset, operand.at.offset + static_cast<uint32_t>((shape.total * bits + 7) / 8)}};
    }
    std::vector<Run> runs;
    const auto add = [&runs](uint32_t begin, uint32_t end) {
        if (!runs.empty() && runs.back().end >= begin && runs.back().begin <= begin) {
            runs.back().end = std::max(runs.back().end, end);
        } else {
            runs.push_back({begin, end});
        }
    };
    const uint32_t perBlock = BLOCK_BYTES * 8 / bits;
    for (uint32_t first = 0; first < shape.lanes; first += perBlock) {
        const uint32_t begin = Place(operand, bits, repeat, first);
        if (shape.Whole(repeat, first, perBlock)) {
            add(begin, begin + BLOCK_BYTES);
            continue;
        }
        for (uint32_t lane = first; lane < first + perBlock && lane < shape.lanes; ++lane) {
            if (shape.Active(repeat, lane)) {
                const uint32_t at = Place(operand, bits, repeat, lane);
                add(at, at + (bits + 7) / 8);
            }
        }
    }
    return runs;
}

namespace {

uint32_t RepeatsToLookAt(const Shape& shape)
{
    return shape.dense ? (shape.total > 0 ? 1 : 0) : shape.repeats;
}

}  // namespace

void CheckOperand(
    Machine& machine, const char* api, const char* what, const Operand& operand, const Shape& shape, bool writes,
    uint32_t alignment)
{
    uint32_t last = operand.at.offset;
    if (!shape.dense && writes && operand.blockStride == 0) {
        machine.report.Fault(api, "%s has a block stride of 0, which is undefined", what);
    }
    const uint32_t repeats = RepeatsToLookAt(shape);
    for (uint32_t r = 0; r < repeats; ++r) {
        for (const Run& run : RunsOf(operand, shape, r)) {
            last = std::max(last, run.end);
        }
    }
    machine.CheckPlace(api, what, operand.at, 0, last - operand.at.offset, alignment);
}

void MarkReads(Machine& machine, const Instruction& by, const char* what, const Operand& operand, const Shape& shape)
{
    const uint32_t repeats = RepeatsToLookAt(shape);
    for (uint32_t r = 0; r < repeats; ++r) {
        for (const Run& run : RunsOf(operand, shape, r)) {
            machine.unified.Read(by, what, run.begin, run.end - run.begin);
        }
    }
}

void MarkWrites(Machine& machine, const Instruction& by, const char* what, const Operand& operand, const Shape& shape)
{
    const uint32_t repeats = RepeatsToLookAt(shape);
    for (uint32_t r = 0; r < repeats; ++r) {
        for (const Run& run : RunsOf(operand, shape, r)) {
            machine.unified.Write(by, what, run.begin, run.end - run.begin);
        }
    }
}

namespace {

bool Meets(const std::vector<Run>& a, const std::vector<Run>& b)
{
    for (const Run& x : a) {
        for (const Run& y : b) {
            if (x.begin < y.end && y.begin < x.end) {
                return true;
            }
        }
    }
    return false;
}

Run Hull(const std::vector<std::vector<Run>>& repeats)
{
    Run hull{~0U, 0};
    for (const std::vector<Run>& runs : repeats) {
        for (const Run& run : runs) {
            hull.begin = std::min(hull.begin, run.begin);
            hull.end = std::max(hull.end, run.end);
        }
    }
    return hull;
}

}  // namespace

void CheckOverlap(
    Machine& machine, const char* api, const char* what, const Operand& to, const Operand& from, const Shape& shape,
    bool accumulates)
{
    std::vector<std::vector<Run>> written;
    std::vector<std::vector<Run>> read;
    const uint32_t repeats = RepeatsToLookAt(shape);
    for (uint32_t r = 0; r < repeats; ++r) {
        written.push_back(RunsOf(to, shape, r));
        read.push_back(RunsOf(from, shape, r));
    }
    const Run a = Hull(written);
    const Run b = Hull(read);
    if (a.begin >= b.end || b.begin >= a.end) {
        return;
    }
    const bool sameLanes = Bits(to.type) == Bits(from.type) && to.blockStride == from.blockStride;
    for (uint32_t r = 0; r < repeats; ++r) {
        const bool same = sameLanes && to.at.offset + r * to.repeatStride * BLOCK_BYTES ==
                                           from.at.offset + r * from.repeatStride * BLOCK_BYTES;
        if (!same && Meets(written[r], read[r])) {
            machine.report.Fault(
                api, "dst at byte %u and %s at byte %u overlap in part: they must be the same or apart", to.at.offset,
                what, from.at.offset);
        }
        for (uint32_t other = 0; other < repeats; ++other) {
            if (other != r && !accumulates && Meets(written[r], read[other])) {
                machine.report.Fault(
                    api, "repeat %u writes what repeat %u reads (dst at byte %u, %s at byte %u)", r, other,
                    to.at.offset, what, from.at.offset);
            }
        }
    }
}

void CheckPartsApart(
    Machine& machine, const char* api, const Operand& to, const Shape& toShape, const Operand& from,
    const Shape& fromShape)
{
    for (uint32_t w = 0; w < RepeatsToLookAt(toShape); ++w) {
        const std::vector<Run> written = RunsOf(to, toShape, w);
        for (uint32_t r = 0; r < RepeatsToLookAt(fromShape); ++r) {
            if (Meets(written, RunsOf(from, fromShape, r))) {
                machine.report.Fault(
                    api, "dst at byte %u and src at byte %u overlap: they must be apart", to.at.offset,
                    from.at.offset);
            }
        }
    }
}

}  // namespace ascend_model
