#include "buffers.h"

#include <algorithm>
#include <string>

#include "unified.h"

namespace ascend_model {

namespace {

constexpr uint32_t MOST_BUFFERS = 64;

}  // namespace

void Buffers::BeginCore()
{
    pipe = nullptr;
    used = 0;
    living = 0;
    peak = 0;
    // Number 0 is that of tensors that nothing gave out.
    buffers.assign(1, Buffer{});
    queues.assign(1, Queue{});
}

void Buffers::EndCore()
{
    PipeEnd();
}

void Buffers::PipeBegin(const Chip& given, void* given_pipe)
{
    if (pipe != nullptr) {
        report.Fault("TPipe", "a second TPipe while the first one lives: both would give out the same unified buffer");
    }
    pipe = given_pipe;
    chip = given;
}

// Waits for what producers have yet to wait for, and takes all buffers back.
void Buffers::PipeReset(const char* by)
{
    for (uint32_t b = 1; b < buffers.size(); ++b) {
        Buffer& buffer = buffers[b];
        if (!buffer.alive || buffer.queue == 0) {
            continue;
        }
        const Queue& queue = queues[buffer.queue];
        if (buffer.state != State::FREE) {
            static const char* const NAMES[] = {"", "allocated and never enqueued", "enqueued and never dequeued",
                                                "dequeued and never freed"};
            report.Note(
                by, "a tensor of queue %u (buffer [%u, %u)) was %s", buffer.queue, buffer.begin,
                buffer.begin + buffer.bytes, NAMES[static_cast<uint32_t>(buffer.state)]);
        }
        if (buffer.filled >= 0) {
            order.Wait(queue.producer, queue.consumer, buffer.filled, by);
            order.Release(queue.producer, queue.consumer, buffer.filled, by);
        }
        if (buffer.freed >= 0) {
            order.Wait(queue.consumer, queue.producer, buffer.freed, by);
            order.Release(queue.consumer, queue.producer, buffer.freed, by);
        }
    }
    for (Buffer& buffer : buffers) {
        buffer.alive = false;
    }
    for (Queue& queue : queues) {
        queue.alive = false;
    }
    used = 0;
    living = 0;
}

void Buffers::PipeEnd()
{
    if (pipe != nullptr) {
        PipeReset("TPipe");
        pipe = nullptr;
    }
}

uint32_t Buffers::Give(const char* by, int64_t bytes, uint32_t queue)
{
    if (pipe == nullptr) {
        report.Fault(by, "there is no TPipe");
    }
    if (bytes <= 0) {
        report.Fault(by, "a buffer of %lld bytes", static_cast<long long>(bytes));
    }
    const uint64_t rounded = (static_cast<uint64_t>(bytes) + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    if (used + rounded > chip.ubBytes) {
        std::string list;
        for (const Buffer& buffer : buffers) {
            if (buffer.alive && buffer.bytes > 0) {
                list += " " + std::to_string(buffer.bytes);
            }
        }
        report.Fault(
            by, "%lld bytes more than the %u of unified buffer: %llu asked for, %u given out in buffers of%s",
            static_cast<long long>(used + rounded - chip.ubBytes), chip.ubBytes,
            static_cast<unsigned long long>(rounded), used, list.c_str());
    }
    if (++living > MOST_BUFFERS) {
        report.Fault(by, "more than %u buffers in a kernel", MOST_BUFFERS);
    }
    Buffer buffer{};
    buffer.begin = used;
    buffer.bytes = static_cast<uint32_t>(rounded);
    buffer.queue = queue;
    used += buffer.bytes;
    peak = std::max<uint64_t>(peak, used);
    buffers.push_back(buffer);
    return static_cast<uint32_t>(buffers.size() - 1);
}

Span Buffers::Handle(uint32_t number)
{
    const Buffer& buffer = buffers[number];
    return {buffer.begin, buffer.begin + buffer.bytes, number, buffer.hold};
}

Span Buffers::BufferInit(int64_t bytes)
{
    return Handle(Give("InitBuffer", bytes, 0));
}

uint32_t Buffers::QueueInit(Pipe producer, Pipe consumer, int32_t depth, int64_t count, int64_t bytes)
{
    if (count < 1 || count > 255) {
        report.Fault("InitBuffer", "a queue of %lld buffers", static_cast<long long>(count));
    }
    const uint32_t number = static_cast<uint32_t>(queues.size());
    Queue queue{};
    queue.producer = producer;
    queue.consumer = consumer;
    queue.depth = depth;
    queue.count = static_cast<uint32_t>(count);
    queue.first = static_cast<uint32_t>(buffers.size());
    queues.push_back(queue);
    for (int64_t i = 0; i < count; ++i) {
        Give("InitBuffer", bytes, number);
    }
    return number;
}

Buffers::Queue& Buffers::Get(const char* by, uint32_t queue)
{
    if (queue == 0 || queue >= queues.size() || !queues[queue].alive) {
        report.Fault(by, "a queue that InitBuffer was not called for");
    }
    return queues[queue];
}

Buffers::Buffer& Buffers::Own(const char* by, uint32_t queue, const Span& tensor)
{
    if (tensor.buffer == 0 || tensor.buffer >= buffers.size() || buffers[tensor.buffer].queue != queue) {
        report.Fault(by, "a tensor of another queue or of none");
    }
    return buffers[tensor.buffer];
}

Span Buffers::QueueAlloc(uint32_t number)
{
    Queue& queue = Get("AllocTensor", number);
    for (uint32_t i = 0; i < queue.count; ++i) {
        const uint32_t at = queue.first + (queue.next + i) % queue.count;
        Buffer& buffer = buffers[at];
        if (buffer.state != State::FREE) {
            continue;
        }
        queue.next = (queue.next + i + 1) % queue.count;
        buffer.state = State::FILLED_BY_PRODUCER;
        ++buffer.hold;
        if (buffer.freed >= 0) {
            order.Wait(queue.consumer, queue.producer, buffer.freed, "AllocTensor");
            order.Release(queue.consumer, queue.producer, buffer.freed, "AllocTensor");
            buffer.freed = -1;
        }
        return Handle(at);
    }
    report.Fault("AllocTensor", "all %u buffers of queue %u are in use", queue.count, number);
}

void Buffers::QueuePut(uint32_t number, const Span& tensor)
{
    Queue& queue = Get("EnQue", number);
    Buffer& buffer = Own("EnQue", number, tensor);
    if (buffer.state != State::FILLED_BY_PRODUCER || buffer.hold != tensor.hold) {
        report.Fault("EnQue", "a tensor of queue %u that was not allocated, or was enqueued already", number);
    }
    if (queue.queued.size() >= static_cast<size_t>(queue.depth)) {
        report.Fault("EnQue", "queue %u is full: its depth is %d", number, queue.depth);
    }
    if (Flags(queue)) {
        buffer.filled = order.Alloc(queue.producer, queue.consumer, "EnQue");
        order.Set(queue.producer, queue.consumer, buffer.filled, "EnQue");
    }
    buffer.state = State::QUEUED;
    ++buffer.hold;
    queue.queued.push_back(tensor.buffer);
}

Span Buffers::QueueTake(uint32_t number)
{
    Queue& queue = Get("DeQue", number);
    if (queue.queued.empty()) {
        report.Fault("DeQue", "queue %u is empty: nothing was enqueued", number);
    }
    const uint32_t at = queue.queued.front();
    queue.queued.erase(queue.queued.begin());
    Buffer& buffer = buffers[at];
    if (Flags(queue)) {
        order.Wait(queue.producer, queue.consumer, buffer.filled, "DeQue");
        order.Release(queue.producer, queue.consumer, buffer.filled, "DeQue");
        buffer.filled = -1;
    } else {
        order.Barrier(queue.producer);
    }
    buffer.state = State::READ_BY_CONSUMER;
    ++buffer.hold;
    return Handle(at);
}

void Buffers::QueueFree(uint32_t number, const Span& tensor)
{
    Queue& queue = Get("FreeTensor", number);
    Buffer& buffer = Own("FreeTensor", number, tensor);
    if (buffer.hold != tensor.hold || buffer.state == State::FREE) {
        report.Fault("FreeTensor", "a tensor of queue %u that was freed or enqueued already", number);
    }
    if (Flags(queue)) {
        buffer.freed = order.Alloc(queue.consumer, queue.producer, "FreeTensor");
        order.Set(queue.consumer, queue.producer, buffer.freed, "FreeTensor");
    }
    buffer.state = State::FREE;
    ++buffer.hold;
}

uint32_t Buffers::QueueFilled(uint32_t number)
{
    return static_cast<uint32_t>(Get("HasTensorInQue", number).queued.size());
}

uint32_t Buffers::QueueIdle(uint32_t number)
{
    const Queue& queue = Get("HasIdleBuffer", number);
    uint32_t idle = 0;
    for (uint32_t i = 0; i < queue.count; ++i) {
        idle += buffers[queue.first + i].state == State::FREE ? 1 : 0;
    }
    return idle;
}

void Buffers::CheckLive(const char* api, const char* what, const Span& tensor)
{
    if (tensor.buffer == 0) {
        report.Fault(api, "%s is a tensor that no queue and no buffer gave out", what);
    }
    const Buffer& buffer = buffers[tensor.buffer];
    if (!buffer.alive) {
        report.Fault(api, "%s is a tensor of a buffer that TPipe has taken back", what);
    }
    if (buffer.hold != tensor.hold) {
        report.Fault(
            api, "%s is a tensor of queue %u that was %s", what, buffer.queue,
            buffer.state == State::QUEUED ? "enqueued: only DeQue gives it out again" : "freed or handed on");
    }
}

}  // namespace ascend_model
