// Lanes combined with what there is less of: a block for many lanes, a row for many rows.
#pragma once

#include "tiles.h"

namespace fusewright {

// Words of a vector, words of a block, and the largest number that a repeat or a stride can be.
constexpr uint32_t VECTOR = 64;
constexpr uint32_t BLOCK = 8;
constexpr uint32_t MOST = 255;

struct Sum {
    static constexpr uint32_t NEUTRAL = 0;

    template <typename T>
    __aicore__ static inline void Lanes(const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint32_t count)
    {
        Add(to, a, b, count);
    }

    template <typename T>
    __aicore__ static inline void Repeat(
        const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint64_t lanes, uint8_t repeats,
        const BinaryRepeatParams& strides)
    {
        Add(to, a, b, lanes, repeats, strides);
    }
};

struct Difference {
    template <typename T>
    __aicore__ static inline void Lanes(const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint32_t count)
    {
        Sub(to, a, b, count);
    }

    template <typename T>
    __aicore__ static inline void Repeat(
        const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint64_t lanes, uint8_t repeats,
        const BinaryRepeatParams& strides)
    {
        Sub(to, a, b, lanes, repeats, strides);
    }
};

struct Product {
    template <typename T>
    __aicore__ static inline void Lanes(const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint32_t count)
    {
        Mul(to, a, b, count);
    }

    template <typename T>
    __aicore__ static inline void Repeat(
        const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint64_t lanes, uint8_t repeats,
        const BinaryRepeatParams& strides)
    {
        Mul(to, a, b, lanes, repeats, strides);
    }
};

struct Quotient {
    template <typename T>
    __aicore__ static inline void Lanes(const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint32_t count)
    {
        Div(to, a, b, count);
    }

    template <typename T>
    __aicore__ static inline void Repeat(
        const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint64_t lanes, uint8_t repeats,
        const BinaryRepeatParams& strides)
    {
        Div(to, a, b, lanes, repeats, strides);
    }
};

struct Largest {
    static constexpr uint32_t NEUTRAL = 0xff800000;

    template <typename T>
    __aicore__ static inline void Lanes(const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint32_t count)
    {
        Max(to, a, b, count);
    }

    template <typename T>
    __aicore__ static inline void Repeat(
        const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint64_t lanes, uint8_t repeats,
        const BinaryRepeatParams& strides)
    {
        Max(to, a, b, lanes, repeats, strides);
    }
};

struct Smallest {
    static constexpr uint32_t NEUTRAL = 0x7f800000;

    template <typename T>
    __aicore__ static inline void Lanes(const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint32_t count)
    {
        Min(to, a, b, count);
    }

    template <typename T>
    __aicore__ static inline void Repeat(
        const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint64_t lanes, uint8_t repeats,
        const BinaryRepeatParams& strides)
    {
        Min(to, a, b, lanes, repeats, strides);
    }
};

// Of integers: no lane is none of the floats' infinities.
struct LargestInteger : Largest {
    static constexpr uint32_t NEUTRAL = 0x80000000;
};

struct SmallestInteger : Smallest {
    static constexpr uint32_t NEUTRAL = 0x7fffffff;
};

// The function with its operands exchanged.
template <typename Op>
struct Flipped {
    template <typename T>
    __aicore__ static inline void Lanes(const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint32_t count)
    {
        Op::Lanes(to, b, a, count);
    }

    template <typename T>
    __aicore__ static inline void Repeat(
        const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint64_t lanes, uint8_t repeats,
        const BinaryRepeatParams& s)
    {
        Op::Repeat(
            to, b, a, lanes, repeats,
            BinaryRepeatParams(
                s.dstBlkStride, s.src1BlkStride, s.src0BlkStride, s.dstRepStride, s.src1RepStride, s.src0RepStride));
    }
};

__aicore__ inline uint8_t Repeats(uint32_t left)
{
    return static_cast<uint8_t>(left < MOST ? left : MOST);
}

// `to = op(x, block)` for `rows` rows of `lanes`, each with its block.
template <typename Op, typename T>
__aicore__ inline void ByBlocks(
    const LocalTensor<T>& to, const LocalTensor<T>& x, const LocalTensor<T>& blocks, uint32_t rows, uint32_t lanes)
{
    const uint32_t vectors = lanes / VECTOR;
    const uint32_t pitch = lanes / BLOCK;
    if (rows <= vectors || pitch > MOST) {
        // A row's vectors in one instruction.
        for (uint32_t row = 0; row < rows; ++row) {
            const uint32_t at = row * lanes;
            for (uint32_t done = 0; done < vectors; done += MOST) {
                Op::Repeat(
                    to[at + done * VECTOR], x[at + done * VECTOR], blocks[row * BLOCK], VECTOR, Repeats(vectors - done),
                    BinaryRepeatParams(1, 1, 0, 8, 8, 0));
            }
            if (lanes % VECTOR != 0) {
                Op::Repeat(
                    to[at + vectors * VECTOR], x[at + vectors * VECTOR], blocks[row * BLOCK], lanes % VECTOR, 1,
                    BinaryRepeatParams(1, 1, 0, 8, 8, 0));
            }
        }
        return;
    }
    // The same vector of all rows in one instruction.
    const uint8_t step = static_cast<uint8_t>(pitch);
    for (uint32_t lane = 0; lane < lanes; lane += VECTOR) {
        for (uint32_t row = 0; row < rows; row += MOST) {
            Op::Repeat(
                to[row * lanes + lane], x[row * lanes + lane], blocks[row * BLOCK], Smaller(VECTOR, lanes - lane),
                Repeats(rows - row), BinaryRepeatParams(1, 1, 0, step, step, 1));
        }
    }
}

// `to = op(x, line)` for `rows` rows of `lanes`.
template <typename Op, typename T>
__aicore__ inline void ByLine(
    const LocalTensor<T>& to, const LocalTensor<T>& x, const LocalTensor<T>& line, uint32_t rows, uint32_t lanes)
{
    const uint32_t pitch = lanes / BLOCK;
    if (rows <= lanes / VECTOR || pitch > MOST) {
        for (uint32_t row = 0; row < rows; ++row) {
            Op::Lanes(to[row * lanes], x[row * lanes], line, lanes);
        }
        return;
    }
    const uint8_t step = static_cast<uint8_t>(pitch);
    for (uint32_t lane = 0; lane < lanes; lane += VECTOR) {
        for (uint32_t row = 0; row < rows; row += MOST) {
            Op::Repeat(
                to[row * lanes + lane], x[row * lanes + lane], line[lane], Smaller(VECTOR, lanes - lane),
                Repeats(rows - row), BinaryRepeatParams(1, 1, 1, step, step, 0));
        }
    }
}

// The same with a line for each of `outer` times `rows` rows.
template <typename Op, typename T>
__aicore__ inline void ByLines(
    const LocalTensor<T>& to, const LocalTensor<T>& x, const LocalTensor<T>& lines, uint32_t outer, uint32_t rows,
    uint32_t lanes)
{
    for (uint32_t row = 0; row < outer; ++row) {
        const uint32_t at = row * rows * lanes;
        ByLine<Op>(to[at], x[at], lines[row * lanes], rows, lanes);
    }
}

// Each block over the `lanes` lanes of its row, bits as they are.
template <typename T, typename From>
__aicore__ inline void Spread(const LocalTensor<T>& to, const LocalTensor<From>& blocks, uint32_t rows, uint32_t lanes)
{
    const LocalTensor<int32_t> words = to.template ReinterpretCast<int32_t>();
    const LocalTensor<int32_t> from = blocks.template ReinterpretCast<int32_t>();
    const uint32_t vectors = lanes / VECTOR;
    const uint32_t pitch = lanes / BLOCK;
    if (rows <= vectors || pitch > MOST) {
        for (uint32_t row = 0; row < rows; ++row) {
            const uint32_t at = row * lanes;
            const LocalTensor<int32_t> block = from[row * BLOCK];
            for (uint32_t done = 0; done < vectors; done += MOST) {
                Max(words[at + done * VECTOR], block, block, VECTOR, Repeats(vectors - done), BinaryRepeatParams(1, 0, 0, 8, 0, 0));
            }
            if (lanes % VECTOR != 0) {
                Max(words[at + vectors * VECTOR], block, block, lanes % VECTOR, 1, BinaryRepeatParams(1, 0, 0, 8, 0, 0));
            }
        }
        return;
    }
    const uint8_t step = static_cast<uint8_t>(pitch);
    for (uint32_t lane = 0; lane < lanes; lane += VECTOR) {
        for (uint32_t row = 0; row < rows; row += MOST) {
            const LocalTensor<int32_t> block = from[row * BLOCK];
            Max(words[row * lanes + lane], block, block, Smaller(VECTOR, lanes - lane), Repeats(rows - row),
                BinaryRepeatParams(1, 0, 0, step, 1, 1));
        }
    }
}

// A row again and again; rows are whole blocks.
template <typename T>
__aicore__ inline void Repeat(const LocalTensor<T>& to, const LocalTensor<T>& line, uint32_t rows, uint32_t lanes)
{
    for (uint32_t row = 0; row < rows; ++row) {
        DataCopy(to[row * lanes], line, lanes);
    }
}

// `count` lanes as they are: the larger of each and itself, as integers of its width.
template <typename T>
__aicore__ inline void Move(const LocalTensor<T>& to, const LocalTensor<T>& from, uint32_t count)
{
    if constexpr (sizeof(T) == 4) {
        const LocalTensor<int32_t> words = from.template ReinterpretCast<int32_t>();
        Max(to.template ReinterpretCast<int32_t>(), words, words, count);
    } else {
        const LocalTensor<int16_t> words = from.template ReinterpretCast<int16_t>();
        Max(to.template ReinterpretCast<int16_t>(), words, words, static_cast<uint32_t>((count * sizeof(T) + 1) / 2));
    }
}

// `lanes` of each of `rows` rows, from rows `fromPitch` apart to rows `toPitch` apart; all whole blocks.
template <typename T>
__aicore__ inline void CopyLanes(
    const LocalTensor<T>& to, const LocalTensor<T>& from, uint32_t rows, uint32_t lanes, uint32_t fromPitch,
    uint32_t toPitch)
{
    constexpr uint32_t PER_BLOCK = 32 / sizeof(T);
    const DataCopyParams shape{
        static_cast<uint16_t>(rows), static_cast<uint16_t>(lanes / PER_BLOCK),
        static_cast<uint16_t>((fromPitch - lanes) / PER_BLOCK), static_cast<uint16_t>((toPitch - lanes) / PER_BLOCK)};
    DataCopy(to, from, shape);
}

// The byte offsets `(lane >> shift) · scale + (lane mod 2^shift) · low + start`, for Gather.
__aicore__ inline void MakeOffsets(
    const LocalTensor<uint32_t>& offsets, const LocalTensor<int32_t>& lanes, uint32_t count, int32_t shift, int32_t scale,
    int32_t low, int32_t start)
{
    const LocalTensor<int32_t> to = offsets.ReinterpretCast<int32_t>();
    CreateVecIndex(lanes, 0, count);
    PipeBarrier<PIPE_V>();
    if (shift > 0) {
        ShiftRight(to, lanes, shift, count);
        PipeBarrier<PIPE_V>();
        Muls(to, to, scale - (low << shift), count);
        Muls(lanes, lanes, low, count);
        PipeBarrier<PIPE_V>();
        Add(to, to, lanes, count);
    } else {
        Muls(to, lanes, scale, count);
    }
    PipeBarrier<PIPE_V>();
    Adds(to, to, start, count);
    PipeBarrier<PIPE_V>();
}

// The offsets of lanes from `first` on, by `bytes` more.
__aicore__ inline void WidenOffsets(
    const LocalTensor<uint32_t>& offsets, const LocalTensor<int32_t>& lanes, uint32_t count, int32_t first, int32_t bytes)
{
    const LocalTensor<int32_t> to = offsets.ReinterpretCast<int32_t>();
    CreateVecIndex(lanes, 1 - first, count);
    PipeBarrier<PIPE_V>();
    Maxs(lanes, lanes, 0, count);
    PipeBarrier<PIPE_V>();
    Mins(lanes, lanes, 1, count);
    PipeBarrier<PIPE_V>();
    Muls(lanes, lanes, bytes, count);
    PipeBarrier<PIPE_V>();
    Add(to, to, lanes, count);
    PipeBarrier<PIPE_V>();
}

}  // namespace fusewright
