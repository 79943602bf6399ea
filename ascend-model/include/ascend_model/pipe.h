// TPipe, which gives out unified buffer and event ids, and the queues and buffers that it fills.
#pragma once

#include "ascend_model/chip.h"
#include "ascend_model/enums.h"
#include "ascend_model/runtime.h"
#include "ascend_model/sync.h"
#include "ascend_model/tensor.h"

namespace AscendC {

// A queue of buffers that one pipe fills and another empties.
template <TPosition from, TPosition to, int32_t depth, int32_t mask = 0>
class TQueBind {
public:
    static_assert(depth >= 1, "TQue: a queue holds one tensor at least");

    template <typename T>
    LocalTensor<T> AllocTensor()
    {
        return LocalTensor<T>(ascend_model::QueueAlloc(queue));
    }

    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor)
    {
        ascend_model::QueuePut(queue, tensor.At());
        return true;
    }

    template <typename T>
    LocalTensor<T> DeQue()
    {
        return LocalTensor<T>(ascend_model::QueueTake(queue));
    }

    template <typename T>
    void FreeTensor(const LocalTensor<T>& tensor)
    {
        ascend_model::QueueFree(queue, tensor.At());
    }

    bool HasTensorInQue() const { return ascend_model::QueueFilled(queue) > 0; }
    bool VacantInQue() const { return ascend_model::QueueFilled(queue) < depth; }
    bool HasIdleBuffer() const { return ascend_model::QueueIdle(queue) > 0; }
    int32_t GetTensorCountInQue() const { return static_cast<int32_t>(ascend_model::QueueFilled(queue)); }

private:
    friend class TPipe;

    static constexpr ascend_model::Pipe Producer()
    {
        return from == TPosition::GM || from == TPosition::VECIN ? ascend_model::Pipe::MTE2 : ascend_model::Pipe::V;
    }

    static constexpr ascend_model::Pipe Consumer()
    {
        return to == TPosition::GM || to == TPosition::VECOUT ? ascend_model::Pipe::MTE3 : ascend_model::Pipe::V;
    }

    uint32_t queue = 0;
};

template <TPosition position>
constexpr TPosition FILLED_FROM = position == TPosition::VECIN ? TPosition::GM : position;
template <TPosition position>
constexpr TPosition EMPTIED_TO = position == TPosition::VECOUT ? TPosition::GM : position;

template <TPosition position, int32_t depth, int32_t mask = 0>
class TQue : public TQueBind<FILLED_FROM<position>, EMPTIED_TO<position>, depth, mask> {
    static_assert(position != TPosition::GM, "TQue: a queue lies in unified buffer");
};

// Memory without a queue: who uses it orders what pipes do to it.
template <TPosition position = TPosition::VECCALC>
class TBuf {
public:
    template <typename T>
    LocalTensor<T> Get() const
    {
        return LocalTensor<T>(span);
    }

    template <typename T>
    LocalTensor<T> Get(uint32_t elements) const
    {
        return GetWithOffset<T>(elements, 0);
    }

    // `elements` from `bytes` after the start.
    template <typename T>
    LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t bytes) const
    {
        LocalTensor<T> tensor(ascend_model::Within(span, bytes));
        tensor.SetSize(elements);
        return tensor;
    }

private:
    friend class TPipe;

    ascend_model::Span span;
};

class TPipe {
public:
    TPipe() { ascend_model::PipeBegin({__NPU_ARCH__, ASCEND_MODEL_UB_BYTES}, this); }
    ~TPipe() { ascend_model::PipeEnd(); }
    TPipe(const TPipe&) = delete;
    TPipe& operator=(const TPipe&) = delete;

    template <TPosition from, TPosition to, int32_t depth, int32_t mask>
    bool InitBuffer(TQueBind<from, to, depth, mask>& queue, int64_t buffers, int64_t bytes)
    {
        using Queue = TQueBind<from, to, depth, mask>;
        queue.queue = ascend_model::QueueInit(Queue::Producer(), Queue::Consumer(), depth, buffers, bytes);
        return true;
    }

    template <TPosition position>
    bool InitBuffer(TBuf<position>& buffer, int64_t bytes)
    {
        buffer.span = ascend_model::BufferInit(bytes);
        return true;
    }

    void Reset() { ascend_model::PipeReset(); }
    void Destroy() { ascend_model::PipeEnd(); }

    // An id that nothing waits for at this point. It is not taken: the next call may yield the same.
    TEventID FetchEventID(HardEvent event)
    {
        return static_cast<TEventID>(
            ascend_model::FetchEvent(ascend_model::Setter(event), ascend_model::Waiter(event)));
    }

    template <HardEvent event>
    TEventID FetchEventID()
    {
        return FetchEventID(event);
    }

    template <HardEvent event>
    TEventID AllocEventID()
    {
        return static_cast<TEventID>(
            ascend_model::AllocEvent(ascend_model::Setter(event), ascend_model::Waiter(event)));
    }

    template <HardEvent event>
    void ReleaseEventID(TEventID id)
    {
        ascend_model::ReleaseEvent(ascend_model::Setter(event), ascend_model::Waiter(event), id);
    }
};

inline TPipe* GetTPipePtr()
{
    return static_cast<TPipe*>(ascend_model::PipePointer());
}

}  // namespace AscendC
