// Instructions of the vector pipe that compute each lane from the same lane of their operands.
#include <cstring>

#include "compute.h"
#include "lanes.h"

namespace ascend_model {

namespace {

// The documented accumulation: these instructions may read as second source what the repeat before it wrote.
bool Accumulates(const Elementwise& call)
{
    const bool op = call.op == Op::Add || call.op == Op::Sub || call.op == Op::Mul || call.op == Op::Max ||
                    call.op == Op::Min;
    const bool type = call.to.type == DType::F16 || call.to.type == DType::F32 || call.to.type == DType::I32;
    return op && type && call.to.at.offset == call.b.at.offset &&
           (call.to.repeatStride == 0 || call.b.repeatStride == 0);
}

bool ReadsDestination(Op op)
{
    return op == Op::Axpy || op == Op::MulAddDst;
}

bool IsArithmetic(Op op)
{
    return op != Op::Duplicate && op != Op::Copy && op != Op::Max && op != Op::Min && op != Op::Maxs &&
           op != Op::Mins && op != Op::Abs && op != Op::Relu;
}

struct Bytes {
    uint8_t data[REPEAT_BYTES * 2];
};

// Calls `each(at, bytes)` for runs of active lanes of a repeat, in order: whole blocks, or single lanes.
template <typename Each>
void ForLanes(Machine& machine, const Operand& operand, const Shape& shape, uint32_t repeat, const Each& each)
{
    const uint32_t bits = Bits(operand.type);
    const uint32_t perBlock = BLOCK_BYTES * 8 / bits;
    for (uint32_t first = 0; first < shape.lanes; first += perBlock) {
        if (shape.Whole(repeat, first, perBlock)) {
            each(machine.unified.At(Place(operand, bits, repeat, first)), BLOCK_BYTES);
            continue;
        }
        for (uint32_t lane = first; lane < first + perBlock; ++lane) {
            if (shape.Active(repeat, lane)) {
                each(machine.unified.At(Place(operand, bits, repeat, lane)), bits / 8);
            }
        }
    }
}

// Copies the active lanes of a repeat side by side, and says how many bytes they are.
uint32_t Gather(Machine& machine, const Operand& operand, const Shape& shape, uint32_t repeat, Bytes& into)
{
    uint32_t at = 0;
    ForLanes(machine, operand, shape, repeat, [&](const uint8_t* from, uint32_t bytes) {
        std::memcpy(into.data + at, from, bytes);
        at += bytes;
    });
    return at;
}

void Scatter(Machine& machine, const Operand& operand, const Shape& shape, uint32_t repeat, const Bytes& from)
{
    uint32_t at = 0;
    ForLanes(machine, operand, shape, repeat, [&](uint8_t* to, uint32_t bytes) {
        std::memcpy(to, from.data + at, bytes);
        at += bytes;
    });
}

// Subnormal floats to zeros of their sign.
void Flush(uint8_t* values, uint64_t n)
{
    for (uint64_t i = 0; i < n; ++i) {
        uint32_t code;
        std::memcpy(&code, values + i * sizeof(code), sizeof(code));
        if ((code & 0x7f800000U) == 0) {
            code &= 0x80000000U;
            std::memcpy(values + i * sizeof(code), &code, sizeof(code));
        }
    }
}

void Compute(Machine& machine, const Elementwise& call, const Shape& shape, const Computation& compute)
{
    const Immediate immediate{call.scalar, call.rounds, &machine};
    const bool flushes = machine.OtherUnknown() && call.to.type == DType::F32 && IsArithmetic(call.op);
    if (shape.dense) {
        uint8_t* const to = machine.unified.At(call.to.at.offset);
        compute(to, machine.unified.At(call.a.at.offset), machine.unified.At(call.b.at.offset), immediate, shape.total);
        if (flushes) {
            Flush(to, shape.total);
        }
        return;
    }
    Bytes to;
    Bytes a;
    Bytes b;
    for (uint32_t r = 0; r < shape.repeats; ++r) {
        const uint32_t n = Gather(machine, call.to, shape, r, to) * 8 / Bits(call.to.type);
        if (call.sources > 0) {
            Gather(machine, call.a, shape, r, a);
        }
        if (call.sources > 1) {
            Gather(machine, call.b, shape, r, b);
        }
        compute(to.data, a.data, b.data, immediate, n);
        if (flushes) {
            Flush(to.data, n);
        }
        Scatter(machine, call.to, shape, r, to);
    }
}

}  // namespace

void Issue(const Elementwise& call)
{
    Machine& machine = TheMachine();
    const Shape shape = Resolve(machine, call.api, call.lanes, Bits(call.to.type));
    const char* const names[] = {call.sources == 1 ? "src" : "src0", "src1"};
    const Operand* const sources[] = {&call.a, &call.b};
    for (uint32_t s = 0; s < call.sources; ++s) {
        CheckOperand(machine, call.api, names[s], *sources[s], shape, false);
    }
    CheckOperand(machine, call.api, "dst", call.to, shape, true);
    for (uint32_t s = 0; s < call.sources; ++s) {
        CheckOverlap(machine, call.api, names[s], call.to, *sources[s], shape, s == 1 && Accumulates(call));
    }
    const Instruction by = machine.order.Next(call.api, Pipe::V);
    const bool chained = call.sources == 2 && !shape.dense && Accumulates(call);
    for (uint32_t s = 0; s < call.sources; ++s) {
        if (!(chained && s == 1)) {
            MarkReads(machine, by, names[s], *sources[s], shape);
        }
    }
    if (chained) {
        Shape first = shape;
        first.repeats = 1;
        MarkReads(machine, by, "src1", call.b, first);
    }
    if (ReadsDestination(call.op)) {
        MarkReads(machine, by, "dst", call.to, shape);
    }
    MarkWrites(machine, by, "dst", call.to, shape);
    machine.counters.vector_instructions += 1;
    const Computation compute = ComputationOf(machine, call.api, call.op, call.to.type);
    machine.order.Run(by, [&machine, call, shape, compute] { Compute(machine, call, shape, compute); });
}

void Issue(const Spreading& call)
{
    Machine& machine = TheMachine();
    constexpr uint32_t SPREAD = 8;
    if (call.repeats < 1 || call.repeats > 255) {
        machine.report.Fault(call.api, "repeatTime %lld: 1 to 255", static_cast<long long>(call.repeats));
    }
    const uint32_t size = Bits(call.to.type) / 8;
    const uint32_t repeats = static_cast<uint32_t>(call.repeats);
    Shape source{};
    source.dense = true;
    source.total = uint64_t{SPREAD} * repeats;
    Shape blocks{};
    blocks.lanes = REPEAT_BYTES / size;
    blocks.repeats = repeats;
    blocks.counter = true;
    blocks.total = uint64_t{blocks.lanes} * repeats;
    CheckOperand(machine, call.api, "src", call.from, source, false);
    CheckOperand(machine, call.api, "dst", call.to, blocks, true);
    CheckPartsApart(machine, call.api, call.to, blocks, call.from, source);
    const Instruction by = machine.order.Next(call.api, Pipe::V);
    MarkReads(machine, by, "src", call.from, source);
    MarkWrites(machine, by, "dst", call.to, blocks);
    machine.counters.vector_instructions += 1;
    machine.order.Run(by, [&machine, call, size, repeats] {
        for (uint32_t r = 0; r < repeats; ++r) {
            for (uint32_t i = 0; i < SPREAD; ++i) {
                const uint8_t* const element = machine.unified.At(call.from.at.offset + (r * SPREAD + i) * size);
                uint8_t* const block = machine.unified.At(
                    call.to.at.offset + (r * call.to.repeatStride + i * call.to.blockStride) * BLOCK_BYTES);
                for (uint32_t at = 0; at < BLOCK_BYTES; at += size) {
                    std::memcpy(block + at, element, size);
                }
            }
        }
    });
}

}  // namespace ascend_model
