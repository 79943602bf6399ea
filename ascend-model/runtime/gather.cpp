// Gathers, counted numbers and transposes.
#include <cstring>
#include <vector>

#include "../include/ascend_model/numbers.h"
#include "lanes.h"

namespace ascend_model {

namespace {

// Offsets as they are now. A delayed launch gathers by what they hold when it takes place, so that places outside the
// tensor are then looked for again.
std::vector<uint32_t> OffsetsOf(Machine& machine, const Span& offsets, uint64_t count)
{
    std::vector<uint32_t> values(count);
    std::memcpy(values.data(), machine.unified.At(offsets.offset), count * sizeof(uint32_t));
    return values;
}

void CheckOffset(Machine& machine, const Gathering& call, uint64_t index, uint32_t offset, uint32_t size)
{
    const uint64_t at = static_cast<uint64_t>(call.from.offset) + call.base + offset;
    if (offset % size != 0) {
        machine.report.Fault(
            call.api, "offset %llu is %u bytes, which is no multiple of the %u of what is gathered",
            static_cast<unsigned long long>(index), offset, size);
    }
    if (at + size > call.from.end) {
        machine.report.Fault(
            call.api, "offset %llu is %u bytes from base %u, the tensor has %u", static_cast<unsigned long long>(index),
            offset, call.base, call.from.end - call.from.offset);
    }
}

// Where item `index` goes, and how many bytes it has.
struct Items {
    uint64_t count;
    uint32_t size;
    std::vector<uint32_t> places;
};

Items ItemsOf(Machine& machine, const Gathering& call, const Shape& shape)
{
    Items items{0, call.blocks ? BLOCK_BYTES : Bits(call.to.type) / 8, {}};
    if (call.blocks) {
        for (uint32_t r = 0; r < shape.repeats; ++r) {
            for (uint32_t b = 0; b < REPEAT_BLOCKS; ++b) {
                items.places.push_back(
                    call.to.at.offset + (r * call.to.repeatStride + b * call.to.blockStride) * BLOCK_BYTES);
            }
        }
    } else {
        for (uint32_t r = 0; r < shape.repeats; ++r) {
            for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
                if (shape.Active(r, lane)) {
                    items.places.push_back(
                        shape.dense ? call.to.at.offset + (r * shape.lanes + lane) * items.size
                                    : Place(call.to, items.size * 8, r, lane));
                }
            }
        }
    }
    items.count = items.places.size();
    if (!shape.dense && !call.blocks && items.count != static_cast<uint64_t>(shape.repeats) * shape.lanes &&
        shape.repeats > 1) {
        machine.report.Fault(call.api, "parts of several repeats: where their offsets lie is not modelled");
    }
    return items;
}

void RunGather(Machine& machine, const Gathering& call, const Items& items)
{
    const std::vector<uint32_t> offsets = OffsetsOf(machine, call.offsets, items.count);
    std::vector<uint8_t> taken(items.count * items.size, 0xff);
    for (uint64_t i = 0; i < items.count; ++i) {
        const uint64_t at = static_cast<uint64_t>(call.from.offset) + call.base + offsets[i];
        if (at + items.size <= call.from.end) {
            std::memcpy(taken.data() + i * items.size, machine.unified.At(static_cast<uint32_t>(at)), items.size);
        }
    }
    for (uint64_t i = 0; i < items.count; ++i) {
        std::memcpy(machine.unified.At(items.places[i]), taken.data() + i * items.size, items.size);
    }
}

}  // namespace

void Issue(const Gathering& call)
{
    Machine& machine = TheMachine();
    Lanes lanes = call.lanes;
    if (call.blocks) {
        lanes.count = REPEAT_BYTES * 8 / Bits(call.to.type);
    }
    const Shape shape = Resolve(machine, call.api, lanes, Bits(call.to.type));
    const Items items = ItemsOf(machine, call, shape);
    if (items.count == 0) {
        return;
    }
    const uint32_t table = static_cast<uint32_t>(items.count * sizeof(uint32_t));
    CheckOperand(machine, call.api, "dst", call.to, shape, true);
    machine.CheckPlace(call.api, "src", call.from, 0, 0, BLOCK_BYTES);
    machine.CheckPlace(call.api, "srcOffset", call.offsets, 0, table, BLOCK_BYTES);
    const Instruction by = machine.order.Next(call.api, Pipe::V);
    machine.unified.Read(by, "srcOffset", call.offsets.offset, table);
    // The offsets of a delayed launch may not be there yet; what is read cannot be told then.
    machine.order.RunBefore(by);
    const std::vector<uint32_t> offsets = OffsetsOf(machine, call.offsets, items.count);
    for (uint64_t i = 0; i < items.count; ++i) {
        CheckOffset(machine, call, i, offsets[i], items.size);
        machine.unified.Read(by, "src", call.from.offset + call.base + offsets[i], items.size);
    }
    MarkWrites(machine, by, "dst", call.to, shape);
    machine.counters.vector_instructions += 1;
    machine.order.Run(by, [&machine, call, items] { RunGather(machine, call, items); });
}

void Issue(const Numbering& call)
{
    Machine& machine = TheMachine();
    const Shape shape = Resolve(machine, call.api, call.lanes, Bits(call.to.type));
    CheckOperand(machine, call.api, "dst", call.to, shape, true);
    const Instruction by = machine.order.Next(call.api, Pipe::V);
    MarkWrites(machine, by, "dst", call.to, shape);
    machine.counters.vector_instructions += 1;
    machine.order.Run(by, [&machine, call, shape] {
        uint8_t* const to = machine.unified.At(call.to.at.offset);
        const auto fill = [&](auto first, auto add) {
            std::memcpy(&first, &call.first, sizeof(first));
            for (uint64_t i = 0; i < shape.total; ++i) {
                const auto value = add(first, i);
                std::memcpy(to + i * sizeof(value), &value, sizeof(value));
            }
        };
        const auto whole = [](auto first, uint64_t i) { return static_cast<decltype(first)>(first + i); };
        switch (call.to.type) {
            case DType::I16:
                return fill(int16_t{}, whole);
            case DType::I32:
                return fill(int32_t{}, whole);
            case DType::F16:
                return fill(half{}, [](half first, uint64_t i) {
                    return half(static_cast<float>(first) + static_cast<float>(i));
                });
            default:
                return fill(float{}, [](float first, uint64_t i) { return first + static_cast<float>(i); });
        }
    });
}

void Issue(const Transposition& call)
{
    Machine& machine = TheMachine();
    constexpr uint32_t SIDE = 16;
    Shape square{};
    square.dense = true;
    square.total = SIDE * SIDE;
    CheckOperand(machine, call.api, "src", call.from, square, false);
    CheckOperand(machine, call.api, "dst", call.to, square, true);
    CheckOverlap(machine, call.api, "src", call.to, call.from, square, false);
    const Instruction by = machine.order.Next(call.api, Pipe::V);
    MarkReads(machine, by, "src", call.from, square);
    MarkWrites(machine, by, "dst", call.to, square);
    machine.counters.vector_instructions += 1;
    machine.order.Run(by, [&machine, call] {
        uint16_t from[SIDE * SIDE];
        uint16_t to[SIDE * SIDE];
        std::memcpy(from, machine.unified.At(call.from.at.offset), sizeof(from));
        for (uint32_t i = 0; i < SIDE * SIDE; ++i) {
            to[i % SIDE * SIDE + i / SIDE] = from[i];
        }
        std::memcpy(machine.unified.At(call.to.at.offset), to, sizeof(to));
    });
}

}  // namespace ascend_model
