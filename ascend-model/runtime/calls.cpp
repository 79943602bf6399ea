// Calls of the interface that are more or less one step of the machine.
#include <algorithm>
#include <cstring>
#include <exception>

#include "machine.h"

namespace ascend_model {

Span Within(const Span& at, int64_t bytes)
{
    Span within = at;
    const int64_t offset = static_cast<int64_t>(at.offset) + bytes;
    if (at.buffer == 0) {
        TheMachine().report.Fault("LocalTensor", "a place in a tensor that no queue and no buffer gave out");
    }
    if (bytes < 0 || offset > at.end) {
        TheMachine().report.Fault(
            "LocalTensor", "byte %lld of a tensor of %u bytes", static_cast<long long>(bytes), at.end - at.offset);
    }
    within.offset = static_cast<uint32_t>(offset);
    return within;
}

Span First(const Span& at, int64_t bytes)
{
    Machine& machine = TheMachine();
    if (at.buffer == 0) {
        machine.report.Fault("LocalTensor", "a size of a tensor that no queue and no buffer gave out");
    }
    const int64_t end = static_cast<int64_t>(at.offset) + bytes;
    const uint32_t most = machine.buffers.EndOf(at.buffer);
    if (bytes < 0 || end > most) {
        machine.report.Fault(
            "LocalTensor", "a tensor at [%u, %lld) of unified buffer, its buffer ends at %u", at.offset,
            static_cast<long long>(end), most);
    }
    Span first = at;
    first.end = static_cast<uint32_t>(end);
    return first;
}

void ReadLocal(const Span& at, uint32_t bytes, void* value)
{
    Machine& machine = TheMachine();
    machine.CheckPlace("GetValue", "the element", at, 0, bytes, bytes);
    machine.unified.Read(machine.order.Next("GetValue", Pipe::S), "the element", at.offset, bytes);
    std::memcpy(value, machine.unified.At(at.offset), bytes);
}

void WriteLocal(const Span& at, uint32_t bytes, const void* value)
{
    Machine& machine = TheMachine();
    machine.CheckPlace("SetValue", "the element", at, 0, bytes, bytes);
    machine.unified.Write(machine.order.Next("SetValue", Pipe::S), "the element", at.offset, bytes);
    std::memcpy(machine.unified.At(at.offset), value, bytes);
}

void ReadGlobal(uint64_t at, uint32_t bytes, void* value)
{
    Machine& machine = TheMachine();
    machine.global.Read(machine.order.Next("GetValue", Pipe::S), at, bytes);
    machine.counters.scalar_bytes_in += bytes;
    std::memcpy(value, reinterpret_cast<const void*>(at), bytes);
}

void WriteGlobal(uint64_t at, uint32_t bytes, const void* value)
{
    Machine& machine = TheMachine();
    const Instruction by = machine.order.Next("SetValue", Pipe::S);
    machine.global.Write(by, at, bytes);
    machine.global.Dirty(by, at, bytes, static_cast<uint32_t>(machine.block));
    machine.counters.scalar_bytes_out += bytes;
    std::memcpy(reinterpret_cast<void*>(at), value, bytes);
}

void CleanCache(uint64_t at, bool everything)
{
    TheMachine().global.Clean(at, everything);
}

void SetFlag(Pipe from, Pipe to, int32_t id)
{
    Machine& machine = TheMachine();
    if (id >= RESERVED_EVENTS && id < EVENTS) {
        machine.report.Fault(
            "SetFlag", "event id %d of %s_%s is reserved: ids are 0 to %d", id, Name(from), Name(to),
            RESERVED_EVENTS - 1);
    }
    machine.order.Set(from, to, id, "SetFlag");
}

void WaitFlag(Pipe from, Pipe to, int32_t id)
{
    TheMachine().order.Wait(from, to, id, "WaitFlag");
}

void Barrier(Pipe pipe)
{
    if (pipe == Pipe::S) {
        TheMachine().report.Fault("PipeBarrier", "the scalar pipe has none: the device raises an error");
    }
    TheMachine().order.Barrier(pipe);
}

void BarrierAll()
{
    TheMachine().order.BarrierAll();
}

namespace {

// Queues take ids of all of them, kernels of the first few.
int32_t ForKernels(int32_t id, Pipe from, Pipe to, const char* api)
{
    if (id >= RESERVED_EVENTS) {
        TheMachine().report.Fault(
            api, "the %d event ids of %s_%s that kernels may have are in use", RESERVED_EVENTS, Name(from), Name(to));
    }
    return id;
}

}  // namespace

int32_t FetchEvent(Pipe from, Pipe to)
{
    return ForKernels(TheMachine().order.Fetch(from, to, "FetchEventID"), from, to, "FetchEventID");
}

int32_t AllocEvent(Pipe from, Pipe to)
{
    return ForKernels(TheMachine().order.Alloc(from, to, "AllocEventID"), from, to, "AllocEventID");
}

void ReleaseEvent(Pipe from, Pipe to, int32_t id)
{
    TheMachine().order.Release(from, to, id, "ReleaseEventID");
}

void PipeBegin(const Chip& chip, void* pipe)
{
    Machine& machine = TheMachine();
    if (!machine.running) {
        machine.report.Fault("TPipe", "there is no launch: kernels are called through ascend_model_launch");
    }
    machine.buffers.PipeBegin(chip, pipe);
    machine.unified.Grow(chip.ubBytes);
}

void PipeReset()
{
    TheMachine().buffers.PipeReset("Reset");
}

void PipeEnd() noexcept
{
    // On the way out of a launch that stopped, nothing that is left over says anything.
    if (std::uncaught_exceptions() == 0) {
        TheMachine().buffers.PipeEnd();
    }
}

void* PipePointer()
{
    return TheMachine().buffers.Current();
}

uint32_t QueueInit(Pipe producer, Pipe consumer, int32_t depth, int64_t buffers, int64_t bytes)
{
    Machine& machine = TheMachine();
    const uint32_t queue = machine.buffers.QueueInit(producer, consumer, depth, buffers, bytes);
    machine.counters.peak_ub_bytes = std::max(machine.counters.peak_ub_bytes, machine.buffers.Peak());
    return queue;
}

Span BufferInit(int64_t bytes)
{
    Machine& machine = TheMachine();
    const Span span = machine.buffers.BufferInit(bytes);
    machine.counters.peak_ub_bytes = std::max(machine.counters.peak_ub_bytes, machine.buffers.Peak());
    return span;
}

Span QueueAlloc(uint32_t queue)
{
    return TheMachine().buffers.QueueAlloc(queue);
}

void QueuePut(uint32_t queue, const Span& tensor)
{
    TheMachine().buffers.QueuePut(queue, tensor);
}

Span QueueTake(uint32_t queue)
{
    return TheMachine().buffers.QueueTake(queue);
}

void QueueFree(uint32_t queue, const Span& tensor)
{
    TheMachine().buffers.QueueFree(queue, tensor);
}

uint32_t QueueFilled(uint32_t queue)
{
    return TheMachine().buffers.QueueFilled(queue);
}

uint32_t QueueIdle(uint32_t queue)
{
    return TheMachine().buffers.QueueIdle(queue);
}

void SetMaskCounter(bool counter)
{
    TheMachine().registers.counter = counter;
}

void SetMaskBits(uint64_t high, uint64_t low)
{
    Registers& registers = TheMachine().registers;
    registers.spoiled = false;
    registers.high = high;
    registers.low = low;
}

void SetDeqScale(uint16_t scale)
{
    Registers& registers = TheMachine().registers;
    registers.scaled = true;
    registers.scale = scale;
}

int64_t BlockIndex()
{
    return TheMachine().block;
}

int64_t BlockCount()
{
    return TheMachine().blockCount;
}

void HalfByte(int64_t elements)
{
    TheMachine().report.Fault(
        "int4b_t", "an offset of %lld elements of half a byte begins within a byte", static_cast<long long>(elements));
}

void DoesNotFit(int64_t value, uint64_t bytes)
{
    TheMachine().report.Fault(
        "parameters", "%lld does not fit the %llu bytes that the interface has for it", static_cast<long long>(value),
        static_cast<unsigned long long>(bytes));
}

}  // namespace ascend_model
