// Transfers between global memory and unified buffer, and within unified buffer.
#include <algorithm>
#include <cstring>

#include "machine.h"

namespace ascend_model {

namespace {

constexpr int64_t MOST_BLOCKS = 4095;
constexpr int64_t MOST_BYTES = 2097151;

uint64_t RoundUp(uint64_t bytes)
{
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

void CheckShape(Machine& machine, const Transfer& call)
{
    if (call.blocks < 0 || call.blocks > MOST_BLOCKS) {
        machine.report.Fault(
            call.api, "blockCount %lld: at most %lld", static_cast<long long>(call.blocks),
            static_cast<long long>(MOST_BLOCKS));
    }
    if (call.padded && call.bytes > MOST_BYTES) {
        machine.report.Fault(
            call.api, "blockLen %lld bytes: at most %lld", static_cast<long long>(call.bytes),
            static_cast<long long>(MOST_BYTES));
    }
    if (!call.padded && call.bytes % BLOCK_BYTES != 0) {
        machine.report.Fault(
            call.api, "%lld bytes, which is no multiple of 32: it moves whole blocks",
            static_cast<long long>(call.bytes));
    }
    if (call.left * call.element > BLOCK_BYTES || call.right * call.element > BLOCK_BYTES) {
        machine.report.Fault(
            call.api, "padding of %u elements left and %u right of %u bytes: at most 32 bytes each", call.left,
            call.right, call.element);
    }
}

}  // namespace

void CopyIn(const Transfer& call)
{
    Machine& machine = TheMachine();
    CheckShape(machine, call);
    const uint64_t left = static_cast<uint64_t>(call.left) * call.element;
    const uint64_t right = static_cast<uint64_t>(call.right) * call.element;
    const uint64_t bytes = static_cast<uint64_t>(call.bytes);
    const uint64_t filled = left + bytes + right;
    const uint64_t step = RoundUp(filled) + static_cast<uint64_t>(call.toGap);
    const uint64_t blocks = static_cast<uint64_t>(call.blocks);
    if (blocks == 0 || bytes == 0) {
        return;
    }
    machine.CheckPlace(call.api, "dst", call.ub, 0, (blocks - 1) * step + RoundUp(filled), BLOCK_BYTES);
    const Instruction by = machine.order.Next(call.api, Pipe::MTE2);
    for (uint64_t b = 0; b < blocks; ++b) {
        machine.global.Read(by, call.global + b * (bytes + static_cast<uint64_t>(call.fromGap)), bytes);
        const uint32_t to = call.ub.offset + static_cast<uint32_t>(b * step);
        const uint32_t body = to + static_cast<uint32_t>(left);
        const Held pad = call.pads ? WRITTEN : FILLER;
        machine.unified.Write(by, "dst", to, static_cast<uint32_t>(left), pad);
        machine.unified.Write(by, "dst", body, static_cast<uint32_t>(bytes));
        machine.unified.Write(by, "dst", body + static_cast<uint32_t>(bytes), static_cast<uint32_t>(right), pad);
        const uint32_t end = to + static_cast<uint32_t>(filled);
        machine.unified.Write(by, "dst", end, static_cast<uint32_t>(RoundUp(filled) - filled), FILLER);
    }
    machine.counters.bytes_in += blocks * bytes;
    machine.counters.transfers += 1;
    const bool nan = machine.options.poison == ASCEND_MODEL_POISON_NAN;
    machine.order.Run(by, [&machine, call, left, right, bytes, filled, step, blocks, nan] {
        for (uint64_t b = 0; b < blocks; ++b) {
            const auto* const from =
                reinterpret_cast<const uint8_t*>(call.global + b * (bytes + static_cast<uint64_t>(call.fromGap)));
            uint8_t* const to = machine.unified.At(call.ub.offset + static_cast<uint32_t>(b * step));
            const auto fill = [&](uint64_t begin, uint64_t end, bool asked) {
                for (uint64_t i = begin; i < end; ++i) {
                    const auto* const value = asked ? reinterpret_cast<const uint8_t*>(&call.padding) : from;
                    to[i] = !asked && nan ? 0xff : value[i % call.element];
                }
            };
            fill(0, left, call.pads);
            std::memcpy(to + left, from, bytes);
            fill(left + bytes, left + bytes + right, call.pads);
            fill(filled, RoundUp(filled), false);
        }
    });
}

void CopyOut(const Transfer& call)
{
    Machine& machine = TheMachine();
    CheckShape(machine, call);
    const uint64_t bytes = static_cast<uint64_t>(call.bytes);
    const uint64_t step = RoundUp(bytes) + static_cast<uint64_t>(call.fromGap);
    const uint64_t blocks = static_cast<uint64_t>(call.blocks);
    const uint64_t globalStep = bytes + static_cast<uint64_t>(call.toGap);
    if (blocks == 0 || bytes == 0) {
        return;
    }
    machine.CheckPlace(call.api, "src", call.ub, 0, (blocks - 1) * step + bytes, BLOCK_BYTES);
    const Instruction by = machine.order.Next(call.api, Pipe::MTE3);
    for (uint64_t b = 0; b < blocks; ++b) {
        machine.unified.Read(
            by, "src", call.ub.offset + static_cast<uint32_t>(b * step), static_cast<uint32_t>(bytes));
        machine.global.Write(by, call.global + b * globalStep, bytes);
    }
    machine.counters.bytes_out += blocks * bytes;
    machine.counters.transfers += 1;
    machine.order.Run(by, [&machine, call, bytes, step, blocks, globalStep] {
        for (uint64_t b = 0; b < blocks; ++b) {
            std::memcpy(
                reinterpret_cast<void*>(call.global + b * globalStep),
                machine.unified.At(call.ub.offset + static_cast<uint32_t>(b * step)), bytes);
        }
    });
}

void CopyWithin(const Transfer& call)
{
    Machine& machine = TheMachine();
    CheckShape(machine, call);
    const uint64_t bytes = static_cast<uint64_t>(call.bytes);
    const uint64_t blocks = static_cast<uint64_t>(call.blocks);
    const uint64_t fromStep = bytes + static_cast<uint64_t>(call.fromGap);
    const uint64_t toStep = bytes + static_cast<uint64_t>(call.toGap);
    if (blocks == 0 || bytes == 0) {
        return;
    }
    machine.CheckPlace(call.api, "src", call.ubFrom, 0, (blocks - 1) * fromStep + bytes, BLOCK_BYTES);
    machine.CheckPlace(call.api, "dst", call.ub, 0, (blocks - 1) * toStep + bytes, BLOCK_BYTES);
    const Instruction by = machine.order.Next(call.api, Pipe::V);
    for (uint64_t b = 0; b < blocks; ++b) {
        machine.unified.Read(
            by, "src", call.ubFrom.offset + static_cast<uint32_t>(b * fromStep), static_cast<uint32_t>(bytes));
    }
    for (uint64_t b = 0; b < blocks; ++b) {
        machine.unified.Write(
            by, "dst", call.ub.offset + static_cast<uint32_t>(b * toStep), static_cast<uint32_t>(bytes));
    }
    machine.counters.vector_instructions += 1;
    machine.order.Run(by, [&machine, call, bytes, blocks, fromStep, toStep] {
        for (uint64_t b = 0; b < blocks; ++b) {
            std::memmove(
                machine.unified.At(call.ub.offset + static_cast<uint32_t>(b * toStep)),
                machine.unified.At(call.ubFrom.offset + static_cast<uint32_t>(b * fromStep)), bytes);
        }
    });
}

}  // namespace ascend_model
