// Comparisons and selections.
//
// A comparison works on whole vectors: lanes outside the mask are compared too, whatever lies there, and yield bits of
// no meaning, which here are random, by the seed.
#include <cstring>

#include "../include/ascend_model/numbers.h"
#include "compute.h"
#include "lanes.h"

namespace ascend_model {

namespace {

enum Mode : uint8_t { LT, GT, EQ, LE, GE, NE };
enum SelectMode : uint8_t { SAME_BITS = 0, TENSOR_SCALAR = 1, TENSOR_TENSOR = 2 };

double LoadNumber(const uint8_t* at, DType type)
{
    if (type == DType::F16) {
        uint16_t code;
        std::memcpy(&code, at, sizeof(code));
        return Widen<5, 10>(code);
    }
    if (type == DType::I32) {
        int32_t value;
        std::memcpy(&value, at, sizeof(value));
        return value;
    }
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
}

bool Holds(uint8_t mode, double a, double b)
{
    switch (mode) {
        case LT:
            return a < b;
        case GT:
            return a > b;
        case EQ:
            return a == b;
        case LE:
            return a <= b;
        case GE:
            return a >= b;
        default:
            return a != b;
    }
}

uint32_t PlaceOf(const Operand& operand, const Shape& shape, uint32_t bits, uint32_t repeat, uint32_t lane)
{
    return shape.dense ? operand.at.offset + (repeat * shape.lanes + lane) * bits / 8
                       : Place(operand, bits, repeat, lane);
}

bool GetBit(const uint8_t* bits, uint64_t index)
{
    return (bits[index / 8] >> (index % 8) & 1) != 0;
}

void PutBit(uint8_t* bits, uint64_t index, bool value)
{
    const uint8_t one = static_cast<uint8_t>(1U << (index % 8));
    bits[index / 8] = static_cast<uint8_t>(value ? bits[index / 8] | one : bits[index / 8] & ~one);
}

// All lanes are read, and those that the caller did not ask for need not hold anything; but they must exist.
void CheckWholeVectors(Machine& machine, const Comparison& call, const char* what, const Operand& operand,
                       const Shape& shape)
{
    const uint32_t bits = Bits(operand.type);
    const uint32_t last = PlaceOf(operand, shape, bits, shape.repeats - 1, shape.lanes - 1) + bits / 8;
    const uint32_t limit = machine.buffers.TheChip().ubBytes;
    if (last > limit) {
        machine.report.Fault(
            call.api, "%s is read in whole vectors up to byte %u, unified buffer ends at %u", what, last, limit);
    }
}

void RunComparison(Machine& machine, const Comparison& call, const Shape& shape)
{
    const uint32_t bits = Bits(call.a.type);
    uint8_t* const to = machine.unified.At(call.to.offset);
    uint8_t scalar[8];
    std::memcpy(scalar, &call.value, sizeof(scalar));
    for (uint32_t r = 0; r < shape.repeats; ++r) {
        for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
            const uint64_t index = static_cast<uint64_t>(r) * shape.lanes + lane;
            if (!shape.Active(r, lane)) {
                PutBit(to, index, (machine.Random() & 1) != 0);
                continue;
            }
            const double a = LoadNumber(machine.unified.At(PlaceOf(call.a, shape, bits, r, lane)), call.a.type);
            const uint8_t* const other =
                call.scalar ? scalar : machine.unified.At(PlaceOf(call.b, shape, bits, r, lane));
            PutBit(to, index, Holds(call.mode, a, LoadNumber(other, call.a.type)));
        }
    }
}

void RunSelection(Machine& machine, const Selection& call, const Shape& shape)
{
    const uint32_t bits = Bits(call.to.type);
    const uint32_t size = bits / 8;
    for (uint32_t r = 0; r < shape.repeats; ++r) {
        for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
            if (!shape.Active(r, lane)) {
                continue;
            }
            const uint64_t index = call.mode == SAME_BITS ? lane : static_cast<uint64_t>(r) * shape.lanes + lane;
            uint8_t* const to = machine.unified.At(PlaceOf(call.to, shape, bits, r, lane));
            if (GetBit(machine.unified.At(call.mask.offset), index)) {
                std::memcpy(to, machine.unified.At(PlaceOf(call.a, shape, bits, r, lane)), size);
            } else if (call.scalar) {
                std::memcpy(to, &call.value, size);
            } else {
                std::memcpy(to, machine.unified.At(PlaceOf(call.b, shape, bits, r, lane)), size);
            }
        }
    }
}

}  // namespace

void Issue(const Comparison& call)
{
    Machine& machine = TheMachine();
    const uint32_t bits = Bits(call.a.type);
    const Shape shape = Resolve(machine, call.api, call.lanes, bits);
    if (shape.dense && shape.total * bits % (REPEAT_BYTES * 8) != 0) {
        machine.report.Fault(
            call.api, "%llu elements of %u bits, which fill no whole vectors of 256 bytes",
            static_cast<unsigned long long>(shape.total), bits);
    }
    if (call.a.type == DType::I32 && call.mode != EQ) {
        machine.report.Fault(call.api, "int32 compares with CMPMODE::EQ alone");
    }
    if (shape.repeats == 0) {
        return;
    }
    CheckOperand(machine, call.api, "src0", call.a, shape, false);
    CheckWholeVectors(machine, call, "src0", call.a, shape);
    if (!call.scalar) {
        CheckOperand(machine, call.api, "src1", call.b, shape, false);
        CheckWholeVectors(machine, call, "src1", call.b, shape);
    }
    const uint32_t bytes = shape.repeats * shape.lanes / 8;
    machine.CheckPlace(call.api, "dst", call.to, 0, bytes, BLOCK_BYTES);
    const Operand to{call.to, DType::U8, 1, 8};
    Shape written{};
    written.dense = true;
    written.total = bytes;
    CheckPartsApart(machine, call.api, to, written, call.a, shape);
    const Instruction by = machine.order.Next(call.api, Pipe::V);
    MarkReads(machine, by, "src0", call.a, shape);
    if (!call.scalar) {
        MarkReads(machine, by, "src1", call.b, shape);
    }
    machine.unified.Write(by, "dst", call.to.offset, bytes);
    machine.counters.vector_instructions += 1;
    machine.order.Run(by, [&machine, call, shape] { RunComparison(machine, call, shape); });
}

void Issue(const Selection& call)
{
    Machine& machine = TheMachine();
    const Shape shape = Resolve(machine, call.api, call.lanes, Bits(call.to.type));
    if (call.mode > TENSOR_TENSOR || call.scalar != (call.mode == TENSOR_SCALAR)) {
        machine.report.Fault(call.api, "selMode %u with %s as src1", call.mode, call.scalar ? "a scalar" : "a tensor");
    }
    if (shape.repeats == 0) {
        return;
    }
    CheckOperand(machine, call.api, "src0", call.a, shape, false);
    CheckOperand(machine, call.api, "dst", call.to, shape, true);
    CheckOverlap(machine, call.api, "src0", call.to, call.a, shape, false);
    if (!call.scalar) {
        CheckOperand(machine, call.api, "src1", call.b, shape, false);
        CheckOverlap(machine, call.api, "src1", call.to, call.b, shape, false);
    }
    // Bits of the lanes of the last repeat that are asked for, and all before them.
    uint32_t last = shape.lanes;
    while (last > 1 && !shape.Active(shape.repeats - 1, last - 1)) {
        --last;
    }
    const uint32_t before = call.mode == SAME_BITS ? 0 : (shape.repeats - 1) * shape.lanes;
    const uint32_t bytes = (before + last + 7) / 8;
    machine.CheckPlace(call.api, "selMask", call.mask, 0, bytes, BLOCK_BYTES);
    const Instruction by = machine.order.Next(call.api, Pipe::V);
    machine.unified.Read(by, "selMask", call.mask.offset, bytes);
    MarkReads(machine, by, "src0", call.a, shape);
    if (!call.scalar) {
        MarkReads(machine, by, "src1", call.b, shape);
    }
    MarkWrites(machine, by, "dst", call.to, shape);
    machine.counters.vector_instructions += 1;
    machine.order.Run(by, [&machine, call, shape] { RunSelection(machine, call, shape); });
}

}  // namespace ascend_model
