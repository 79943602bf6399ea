// Building blocks of generated row programs.
//
// All counts are elements. Tensors in unified buffer start at multiples of 32 bytes; lanes beyond the count are never
// read. Vector instructions of one pipe may overlap, so every function here ends with its results visible to the next.
#pragma once

#include "kernel_operator.h"

namespace fusewright {

using namespace AscendC;

// The rows of [first, last) that this vector core computes: runs of equal length, up to the last ones.
struct RowRange {
    int64_t begin;
    int64_t end;

    __aicore__ inline RowRange(int64_t first, int64_t last)
    {
        const int64_t cores = GetBlockNum();
        const int64_t run = (last - first + cores - 1) / cores;
        begin = first + run * static_cast<int64_t>(GetBlockIdx());
        end = begin + run < last ? begin + run : last;
    }
};

// Quotient rounded toward minus infinity.
__aicore__ inline int64_t FloorDiv(int64_t a, int64_t b)
{
    const int64_t q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

// Remainder with the sign of the divisor.
__aicore__ inline int64_t FloorMod(int64_t a, int64_t b)
{
    return a - FloorDiv(a, b) * b;
}

__aicore__ inline int64_t Larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

__aicore__ inline int64_t Smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Copies a row into the queue's next buffer.
template <typename Queue, typename T>
__aicore__ inline void CopyIn(Queue& queue, const GlobalTensor<T>& from, uint32_t count)
{
    LocalTensor<T> row = queue.template AllocTensor<T>();
    const DataCopyExtParams shape{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    const DataCopyPadExtParams<T> noPadding{false, 0, 0, 0};
    DataCopyPad(row, from, shape, noPadding);
    queue.EnQue(row);
}

// Copies a row that stays in unified buffer for the whole kernel.
template <typename Queue, typename T>
__aicore__ inline LocalTensor<T> LoadConstant(Queue& queue, const GlobalTensor<T>& from, uint32_t count)
{
    CopyIn(queue, from, count);
    return queue.template DeQue<T>();
}

template <typename T>
__aicore__ inline void CopyOut(const GlobalTensor<T>& to, const LocalTensor<T>& row, uint32_t count)
{
    const DataCopyExtParams shape{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    DataCopyPad(to, row, shape);
}

// The first element of a tensor, once the vector pipe has written it.
__aicore__ inline float ReadScalar(const LocalTensor<float>& tensor)
{
    const TEventID written = GetTPipePtr()->FetchEventID(HardEvent::V_S);
    SetFlag<HardEvent::V_S>(written);
    WaitFlag<HardEvent::V_S>(written);
    return tensor.GetValue(0);
}

// clamp(rint(x), -128, 127): there is no direct conversion. int32 to half is exact up to 2048 and saturates beyond.
__aicore__ inline void CastToInt8(
    const LocalTensor<int8_t>& to, const LocalTensor<float>& x, const LocalTensor<int32_t>& whole,
    const LocalTensor<half>& narrow, uint32_t count)
{
    Cast(whole, x, RoundMode::CAST_RINT, count);
    PipeBarrier<PIPE_V>();
    SetDeqScale(static_cast<half>(1.0));
    Cast(narrow, whole, RoundMode::CAST_NONE, count);
    PipeBarrier<PIPE_V>();
    Cast(to, narrow, RoundMode::CAST_TRUNC, count);
    PipeBarrier<PIPE_V>();
}

// How a reduction combines; NEUTRAL are the bits of its neutral element.
struct Sum {
    static constexpr uint32_t NEUTRAL = 0;

    __aicore__ static inline void Combine(
        const LocalTensor<float>& to, const LocalTensor<float>& a, const LocalTensor<float>& b, uint32_t count)
    {
        Add(to, a, b, count);
    }

    __aicore__ static inline void Fold(
        const LocalTensor<float>& into, const LocalTensor<float>& rows, uint64_t lanes, uint8_t count,
        const BinaryRepeatParams& strides)
    {
        Add(into, rows, into, lanes, count, strides);
    }
};

struct Largest {
    static constexpr uint32_t NEUTRAL = 0xff800000;

    __aicore__ static inline void Combine(
        const LocalTensor<float>& to, const LocalTensor<float>& a, const LocalTensor<float>& b, uint32_t count)
    {
        Max(to, a, b, count);
    }

    __aicore__ static inline void Fold(
        const LocalTensor<float>& into, const LocalTensor<float>& rows, uint64_t lanes, uint8_t count,
        const BinaryRepeatParams& strides)
    {
        Max(into, rows, into, lanes, count, strides);
    }
};

struct Smallest {
    static constexpr uint32_t NEUTRAL = 0x7f800000;

    __aicore__ static inline void Combine(
        const LocalTensor<float>& to, const LocalTensor<float>& a, const LocalTensor<float>& b, uint32_t count)
    {
        Min(to, a, b, count);
    }

    __aicore__ static inline void Fold(
        const LocalTensor<float>& into, const LocalTensor<float>& rows, uint64_t lanes, uint8_t count,
        const BinaryRepeatParams& strides)
    {
        Min(into, rows, into, lanes, count, strides);
    }
};

// Floats that TreeReduce needs to work in.
constexpr uint32_t TREE_WORK = 64 + 2 * 64;

// Reduces `count` floats in the order tree(WIDTH), whatever the length: lane l goes to accumulator l mod WIDTH, each
// accumulator starts from the neutral element and folds its lanes in ascending order, then halves are combined within
// each 32 accumulators and the 32s with each other. All eight lanes of `to` get the result.
template <typename Op, uint32_t WIDTH>
__aicore__ inline void TreeReduce(
    const LocalTensor<float>& to, const LocalTensor<float>& x, const LocalTensor<float>& work, uint32_t count)
{
    static_assert(WIDTH == 8 || WIDTH == 16 || WIDTH == 32 || WIDTH == 64, "accumulators fill whole 32-byte blocks");
    constexpr uint32_t PART = WIDTH < 32 ? WIDTH : 32;
    constexpr uint32_t MOST_REPEATS = 255;
    const LocalTensor<float> spread = work[64];

    Duplicate(work.ReinterpretCast<uint32_t>(), Op::NEUTRAL, WIDTH);
    PipeBarrier<PIPE_V>();
    const BinaryRepeatParams strides{1, 1, 1, 0, WIDTH / 8, 0};
    const uint32_t whole = count / WIDTH;
    for (uint32_t done = 0; done < whole; done += MOST_REPEATS) {
        const uint32_t left = whole - done;
        const uint8_t repeats = static_cast<uint8_t>(left < MOST_REPEATS ? left : MOST_REPEATS);
        Op::Fold(work, x[done * WIDTH], WIDTH, repeats, strides);
        PipeBarrier<PIPE_V>();
    }
    if (count % WIDTH != 0) {
        Op::Combine(work, work, x[whole * WIDTH], count % WIDTH);
        PipeBarrier<PIPE_V>();
    }
    for (uint32_t half = PART / 2; half >= 8; half /= 2) {
        for (uint32_t part = 0; part < WIDTH; part += PART) {
            Op::Combine(work[part], work[part], work[part + half], half);
        }
        PipeBarrier<PIPE_V>();
    }
    // Eight accumulators are left of each part. Halves of a block cannot be addressed, so each gets a block of its own.
    for (uint32_t part = 0; part < WIDTH; part += PART) {
        Brcb(spread[part * 2], work[part], 1, {1, 8});
    }
    PipeBarrier<PIPE_V>();
    for (uint32_t half = 4; half >= 1; half /= 2) {
        for (uint32_t part = 0; part < WIDTH; part += PART) {
            Op::Combine(spread[part * 2], spread[part * 2], spread[part * 2 + half * 8], half * 8);
        }
        PipeBarrier<PIPE_V>();
    }
    if constexpr (WIDTH == 64) {
        Op::Combine(to, spread, spread[64], 8);
    } else {
        DataCopy(to, spread, 8);
    }
    PipeBarrier<PIPE_V>();
}

}  // namespace fusewright
