// Reductions: of repeats, of blocks of 32 bytes, of pairs of lanes, and of everything.
//
// Within a repeat lanes are added as a binary tree of neighbours, where lanes outside the mask do not take part. Sums
// of all elements add the repeats one after the other where the call counts elements, as a tree where it counts
// repeats.
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "../include/ascend_model/numbers.h"
#include "compute.h"
#include "lanes.h"

namespace ascend_model {

namespace {

struct Item {
    float value;
    uint32_t index;
};

float LoadFloat(Machine& machine, DType type, uint32_t at)
{
    if (type == DType::F16) {
        uint16_t code;
        std::memcpy(&code, machine.unified.At(at), sizeof(code));
        return Widen<5, 10>(code);
    }
    float value;
    std::memcpy(&value, machine.unified.At(at), sizeof(value));
    return value;
}

// Rounded to the type of the elements, as every step of a reduction is.
float Rounded(DType type, float value)
{
    return type == DType::F16 ? Widen<5, 10>(ToHalf(value)) : value;
}

void StoreFloat(Machine& machine, DType type, uint32_t at, float value)
{
    if (type == DType::F16) {
        const uint16_t code = ToHalf(value);
        std::memcpy(machine.unified.At(at), &code, sizeof(code));
        return;
    }
    std::memcpy(machine.unified.At(at), &value, sizeof(value));
}

void StoreIndex(Machine& machine, DType type, uint32_t at, uint32_t index)
{
    if (type == DType::F16) {
        const uint16_t code = static_cast<uint16_t>(index);
        std::memcpy(machine.unified.At(at), &code, sizeof(code));
        return;
    }
    std::memcpy(machine.unified.At(at), &index, sizeof(index));
}

// The first of the largest or smallest wins; a NaN wins over numbers.
Item Extreme(Fold fold, const Item& a, const Item& b)
{
    if (a.value != a.value) {
        return a;
    }
    if (b.value != b.value) {
        return b;
    }
    const bool second = fold == Fold::Max ? b.value > a.value : b.value < a.value;
    return second ? b : a;
}

void Shuffle(Machine& machine, std::vector<Item>& items)
{
    for (size_t i = items.size(); i > 1; --i) {
        std::swap(items[i - 1], items[machine.Random() % i]);
    }
}

Item FoldTree(Machine& machine, DType type, Fold fold, std::vector<Item> items)
{
    if (machine.options.jitter_order != 0 && fold == Fold::Sum) {
        Shuffle(machine, items);
    }
    while (items.size() > 1) {
        std::vector<Item> next;
        for (size_t i = 0; i + 1 < items.size(); i += 2) {
            next.push_back(
                fold == Fold::Sum ? Item{Rounded(type, items[i].value + items[i + 1].value), 0}
                                  : Extreme(fold, items[i], items[i + 1]));
        }
        if (items.size() % 2 != 0) {
            next.push_back(items.back());
        }
        items = std::move(next);
    }
    return items.front();
}

// The lanes of a repeat that take part, from lane `first` up to `end`.
std::vector<Item> Lanes_(
    Machine& machine, const Reduction& call, const Shape& shape, uint32_t repeat, uint32_t first, uint32_t end)
{
    std::vector<Item> items;
    const uint32_t bits = Bits(call.from.type);
    for (uint32_t lane = first; lane < end; ++lane) {
        if (shape.Active(repeat, lane)) {
            const uint32_t at = shape.dense
                                    ? call.from.at.offset + (repeat * shape.lanes + lane) * bits / 8
                                    : Place(call.from, bits, repeat, lane);
            items.push_back({LoadFloat(machine, call.from.type, at), lane});
        }
    }
    return items;
}

void RunAll(Machine& machine, const Reduction& call, const Shape& shape)
{
    const DType type = call.to.type;
    std::vector<Item> partial;
    for (uint32_t r = 0; r < shape.repeats; ++r) {
        Item item = FoldTree(machine, type, call.fold, Lanes_(machine, call, shape, r, 0, shape.lanes));
        item.index += r * shape.lanes;
        partial.push_back(item);
    }
    Item result = partial.front();
    if (call.fold != Fold::Sum) {
        for (size_t i = 1; i < partial.size(); ++i) {
            result = Extreme(call.fold, result, partial[i]);
        }
    } else if (shape.dense) {
        if (machine.options.jitter_order != 0) {
            Shuffle(machine, partial);
            result = partial.front();
        }
        for (size_t i = 1; i < partial.size(); ++i) {
            result.value = Rounded(type, result.value + partial[i].value);
        }
    } else {
        result = FoldTree(machine, type, call.fold, partial);
    }
    StoreFloat(machine, type, call.to.at.offset, result.value);
    if (call.index) {
        StoreIndex(machine, type, call.to.at.offset + Bits(type) / 8, result.index);
    }
}

// Results of the other kinds: how many lanes go into each, how many there are per repeat, how far repeats are apart.
struct Results {
    uint32_t lanes;
    uint32_t perRepeat;
    uint32_t step;    // bytes from one repeat's to the next's
    uint32_t bytes;   // of one
    bool value;
    bool index;
    bool indexFirst;
};

Results ResultsOf(Machine& machine, const Reduction& call, const Shape& shape)
{
    const uint32_t size = Bits(call.to.type) / 8;
    Results results{shape.lanes, 1, 0, size, true, false, false};
    if (call.over == Reduction::Block) {
        results.lanes = shape.lanes / REPEAT_BLOCKS;
        results.perRepeat = REPEAT_BLOCKS;
    } else if (call.over == Reduction::Pair) {
        results.lanes = 2;
        results.perRepeat = shape.lanes / 2;
    } else if (call.fold != Fold::Sum) {
        if (call.order > 3) {
            machine.report.Fault(call.api, "no order of results: %u", call.order);
        }
        results.value = call.order != 3;
        results.index = call.order != 2;
        results.indexFirst = call.order == 1;
        const bool both = results.value && results.index;
        // An index alone is an integer of 32 bits.
        results.bytes = both ? 2 * size : results.value ? size : 4;
    }
    results.step = call.to.repeatStride * results.perRepeat * results.bytes;
    return results;
}

void RunParts(Machine& machine, const Reduction& call, const Shape& shape, const Results& results)
{
    const uint32_t size = Bits(call.to.type) / 8;
    for (uint32_t r = 0; r < shape.repeats; ++r) {
        for (uint32_t part = 0; part < results.perRepeat; ++part) {
            const std::vector<Item> items =
                Lanes_(machine, call, shape, r, part * results.lanes, (part + 1) * results.lanes);
            const Item item = items.empty() ? Item{0.0f, 0} : FoldTree(machine, call.to.type, call.fold, items);
            const uint32_t at = call.to.at.offset + r * results.step + part * results.bytes;
            if (results.value) {
                StoreFloat(machine, call.to.type, at + (results.indexFirst ? size : 0), item.value);
            }
            if (results.index) {
                const bool alone = !results.value;
                StoreIndex(
                    machine, alone ? DType::F32 : call.to.type, at + (alone || results.indexFirst ? 0 : size),
                    item.index);
            }
        }
    }
}

// The working memory that is documented: sums and extremes without index need a value per repeat; with index each step
// of the reduction keeps its pairs, each in whole blocks.
uint32_t WorkBytes(const Reduction& call, const Shape& shape, uint32_t size)
{
    const auto blocks = [](uint32_t bytes) { return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES; };
    if (call.fold == Fold::Sum || !call.index) {
        return blocks(shape.repeats * size);
    }
    uint32_t bytes = 0;
    uint32_t left = shape.repeats;
    do {
        bytes += blocks(2 * left * size);
        left = (2 * left + shape.lanes - 1) / shape.lanes;
    } while (left > 1);
    return bytes;
}

void IssueAll(Machine& machine, const Reduction& call, const Shape& shape)
{
    const uint32_t size = Bits(call.to.type) / 8;
    const uint32_t width = call.index ? 2 * size : size;
    const uint32_t work = WorkBytes(call, shape, size);
    // Results of Max and Min leave the vector unit with their indices.
    machine.CheckPlace(call.api, "dst", call.to.at, 0, width, call.fold == Fold::Sum ? size : 2 * size);
    machine.CheckPlace(call.api, "sharedTmpBuffer", call.work, 0, work, BLOCK_BYTES);
    const Instruction by = machine.order.Next(call.api, Pipe::V);
    MarkReads(machine, by, "src", call.from, shape);
    machine.unified.Write(by, "sharedTmpBuffer", call.work.offset, work, NOTHING);
    machine.unified.Write(by, "dst", call.to.at.offset, width);
    machine.counters.vector_instructions += 1;
    machine.order.Run(by, [&machine, call, shape] { RunAll(machine, call, shape); });
}

}  // namespace

void Issue(const Reduction& call)
{
    Machine& machine = TheMachine();
    const Shape shape = Resolve(machine, call.api, call.lanes, Bits(call.from.type));
    if (shape.repeats == 0) {
        machine.report.Fault(call.api, "a reduction of nothing");
    }
    CheckOperand(machine, call.api, "src", call.from, shape, false);
    if (call.over == Reduction::All) {
        IssueAll(machine, call, shape);
        return;
    }
    const Results results = ResultsOf(machine, call, shape);
    const uint32_t bytes = (shape.repeats - 1) * results.step + results.perRepeat * results.bytes;
    machine.CheckPlace(call.api, "dst", call.to.at, 0, bytes, results.bytes);
    const Instruction by = machine.order.Next(call.api, Pipe::V);
    MarkReads(machine, by, "src", call.from, shape);
    for (uint32_t r = 0; r < shape.repeats; ++r) {
        machine.unified.Write(by, "dst", call.to.at.offset + r * results.step, results.perRepeat * results.bytes);
    }
    machine.counters.vector_instructions += 1;
    machine.order.Run(by, [&machine, call, shape, results] { RunParts(machine, call, shape, results); });
}

}  // namespace ascend_model
