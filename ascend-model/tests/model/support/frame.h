// What the kernels of the tests begin with: a queue in, a queue out and working memory of 4 KB each buffer.
#pragma once

#include "kernel_operator.h"

using namespace AscendC;

template <typename T>
struct Frame {
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    TBuf<TPosition::VECCALC> work;
    GlobalTensor<T> x;
    GlobalTensor<T> y;

    Frame(GM_ADDR xs, GM_ADDR ys)
    {
        x.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(xs));
        y.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(ys));
        pipe.InitBuffer(in, 2, 4096);
        pipe.InitBuffer(out, 2, 4096);
        pipe.InitBuffer(work, 8192);
    }

    void Load(uint32_t count, uint32_t from = 0)
    {
        LocalTensor<T> tensor = in.template AllocTensor<T>();
        DataCopy(tensor, x[from], count);
        in.EnQue(tensor);
    }

    void Store(uint32_t count, uint32_t to = 0)
    {
        LocalTensor<T> tensor = out.template DeQue<T>();
        DataCopy(y[to], tensor, count);
        out.FreeTensor(tensor);
    }

    // Loads, calls `compute(to, from)` and stores.
    template <typename Compute>
    void Through(uint32_t count, const Compute& compute)
    {
        Load(count);
        LocalTensor<T> from = in.template DeQue<T>();
        LocalTensor<T> to = out.template AllocTensor<T>();
        compute(to, from);
        in.FreeTensor(from);
        out.EnQue(to);
        Store(count);
    }
};

// A flag set and waited for at once.
template <HardEvent event>
void Hand()
{
    const TEventID id = GetTPipePtr()->FetchEventID(event);
    SetFlag<event>(id);
    WaitFlag<event>(id);
}
