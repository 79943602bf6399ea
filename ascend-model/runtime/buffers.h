// What TPipe gives out: unified buffer in one piece after the other, queues with the state of each of their buffers.
//
// A buffer of a queue is free, filled by its producer, queued, or read by its consumer, in this order; one that was
// never queued may be freed, which is how queues are used for scratch memory. Each step sets or waits for the flag that
// orders the two pipes, as the interface's queues do.
#pragma once

#include <cstdint>
#include <vector>

#include "order.h"
#include "report.h"

namespace ascend_model {

class Buffers {
public:
    Buffers(Report& report, Order& order) : report(report), order(order) {}

    void BeginCore();
    // Findings about tensors that were never taken or given back.
    void EndCore();

    void PipeBegin(const Chip& chip, void* pipe);
    void PipeReset(const char* by);
    void PipeEnd();
    void* Current() const { return pipe; }
    const Chip& TheChip() const { return chip; }
    uint64_t Peak() const { return peak; }

    uint32_t QueueInit(Pipe producer, Pipe consumer, int32_t depth, int64_t count, int64_t bytes);
    Span QueueAlloc(uint32_t queue);
    void QueuePut(uint32_t queue, const Span& tensor);
    Span QueueTake(uint32_t queue);
    void QueueFree(uint32_t queue, const Span& tensor);
    uint32_t QueueFilled(uint32_t queue);
    uint32_t QueueIdle(uint32_t queue);
    Span BufferInit(int64_t bytes);

    // One past the last byte of a buffer.
    uint32_t EndOf(uint32_t buffer) const { return buffers[buffer].begin + buffers[buffer].bytes; }
    // Stops where `tensor` was handed on, freed or never given out.
    void CheckLive(const char* api, const char* what, const Span& tensor);

private:
    enum class State : uint8_t { FREE, FILLED_BY_PRODUCER, QUEUED, READ_BY_CONSUMER };

    struct Buffer {
        uint32_t begin;
        uint32_t bytes;
        uint32_t queue;  // 0: none
        State state = State::FREE;
        uint32_t hold = 1;
        bool alive = true;
        int32_t filled = -1;  // ids of the flags that are set
        int32_t freed = -1;
    };

    struct Queue {
        Pipe producer;
        Pipe consumer;
        int32_t depth;
        uint32_t first;
        uint32_t count;
        uint32_t next = 0;
        std::vector<uint32_t> queued;
        bool alive = true;
    };

    uint32_t Give(const char* by, int64_t bytes, uint32_t queue);
    Queue& Get(const char* by, uint32_t queue);
    Buffer& Own(const char* by, uint32_t queue, const Span& tensor);
    Span Handle(uint32_t buffer);
    bool Flags(const Queue& queue) const { return queue.producer != queue.consumer; }

    Report& report;
    Order& order;
    void* pipe = nullptr;
    Chip chip{};
    uint32_t used = 0;
    uint32_t living = 0;
    uint64_t peak = 0;
    std::vector<Buffer> buffers;
    std::vector<Queue> queues;
};

}  // namespace ascend_model
