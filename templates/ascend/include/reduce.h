// Reductions of rows in the order of a tree, whatever the length and however many rows there are.
#pragma once

#include "combine.h"

namespace fusewright {

// Rows that are reduced at once, and the words that TreeReduce works in: accumulators twice, what is left of them
// side by side, and that spread to blocks.
constexpr uint32_t TREE_ROWS = 8;
constexpr uint32_t TREE_WORK = TREE_ROWS * (64 + 64 + 16 + 128);

// Folds each of `rows` rows into its WIDTH accumulators: lane l into accumulator l mod WIDTH, in ascending order.
template <typename Op, typename T, uint32_t WIDTH>
__aicore__ inline void FoldRows(
    const LocalTensor<T>& accumulators, const LocalTensor<T>& x, uint32_t rows, uint32_t lanes)
{
    const uint32_t runs = lanes / WIDTH;
    const uint32_t rest = lanes % WIDTH;
    const uint32_t pitch = lanes / BLOCK;
    if (rows >= runs && pitch <= MOST) {
        // A run of all rows at a time.
        const BinaryRepeatParams strides(1, 1, 1, WIDTH / BLOCK, static_cast<uint8_t>(pitch), WIDTH / BLOCK);
        for (uint32_t lane = 0; lane < lanes; lane += WIDTH) {
            Op::Repeat(accumulators, x[lane], accumulators, Smaller(WIDTH, lanes - lane), Repeats(rows), strides);
            PipeBarrier<PIPE_V>();
        }
        return;
    }
    // All runs of a row at a time.
    const BinaryRepeatParams strides(1, 1, 1, 0, WIDTH / BLOCK, 0);
    for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t done = 0; done < runs; done += MOST) {
            const LocalTensor<T> own = accumulators[row * WIDTH];
            Op::Repeat(own, x[row * lanes + done * WIDTH], own, WIDTH, Repeats(runs - done), strides);
            if (runs > MOST) {
                PipeBarrier<PIPE_V>();
            }
        }
    }
    PipeBarrier<PIPE_V>();
    if (rest != 0) {
        for (uint32_t row = 0; row < rows; ++row) {
            const LocalTensor<T> own = accumulators[row * WIDTH];
            Op::Lanes(own, own, x[row * lanes + runs * WIDTH], rest);
        }
        PipeBarrier<PIPE_V>();
    }
}

// Combines the accumulators of `rows` rows: halves within each 32, then those with each other. A row's block of `to`
// gets the result.
template <typename Op, typename T, uint32_t WIDTH>
__aicore__ inline void CombineRows(
    const LocalTensor<T>& to, const LocalTensor<T>& accumulators, const LocalTensor<T>& work, uint32_t rows)
{
    constexpr uint32_t PART = WIDTH < 32 ? WIDTH : 32;
    constexpr uint32_t PARTS = WIDTH / PART;
    constexpr uint8_t WIDE = WIDTH / BLOCK;
    const LocalTensor<T> other = work;
    const LocalTensor<T> eights = work[TREE_ROWS * 64];
    const LocalTensor<T> spread = eights[TREE_ROWS * 16];
    const uint8_t repeats = static_cast<uint8_t>(rows);
    LocalTensor<T> from = accumulators;
    if constexpr (PART > 16) {
        for (uint32_t part = 0; part < WIDTH; part += PART) {
            Op::Repeat(other[part], from[part], from[part + 16], 16, repeats, BinaryRepeatParams(1, 1, 1, WIDE, WIDE, WIDE));
        }
        PipeBarrier<PIPE_V>();
        from = other;
    }
    if constexpr (PART > 8) {
        for (uint32_t part = 0; part < PARTS; ++part) {
            const uint32_t at = part * PART;
            Op::Repeat(eights[part * BLOCK], from[at], from[at + 8], 8, repeats, BinaryRepeatParams(1, 1, 1, PARTS, WIDE, WIDE));
        }
        PipeBarrier<PIPE_V>();
        from = eights;
    }
    // Halves of a block cannot be addressed, so each of its lanes gets a block.
    const uint8_t blocks = static_cast<uint8_t>(rows * PARTS);
    Brcb(spread.template ReinterpretCast<uint32_t>(), from.template ReinterpretCast<uint32_t>(), blocks, {1, 8});
    PipeBarrier<PIPE_V>();
    const LocalTensor<T> fours = other;
    Op::Repeat(fours, spread, spread[32], 32, blocks, BinaryRepeatParams(1, 1, 1, 4, 8, 8));
    PipeBarrier<PIPE_V>();
    const LocalTensor<T> twos = spread;
    Op::Repeat(twos, fours, fours[16], 16, blocks, BinaryRepeatParams(1, 1, 1, 2, 4, 4));
    PipeBarrier<PIPE_V>();
    if constexpr (PARTS == 1) {
        Op::Repeat(to, twos, twos[8], 8, blocks, BinaryRepeatParams(1, 1, 1, 1, 2, 2));
    } else {
        Op::Repeat(eights, twos, twos[8], 8, blocks, BinaryRepeatParams(1, 1, 1, 1, 2, 2));
        PipeBarrier<PIPE_V>();
        Op::Repeat(to, eights, eights[8], 8, repeats, BinaryRepeatParams(1, 1, 1, 1, 2, 2));
    }
    PipeBarrier<PIPE_V>();
}

// Reduces each of `rows` rows of `lanes` in the order tree(WIDTH), as words of type T. A row's block of `to` gets eight
// copies of its result. More than one row: rows are whole blocks.
template <typename Op, typename T, uint32_t WIDTH, typename To, typename From>
__aicore__ inline void TreeReduce(
    const LocalTensor<To>& to, const LocalTensor<From>& x, const LocalTensor<float>& work, uint32_t rows, uint32_t lanes)
{
    static_assert(WIDTH == 8 || WIDTH == 16 || WIDTH == 32 || WIDTH == 64, "accumulators fill whole blocks");
    const LocalTensor<T> results = to.template ReinterpretCast<T>();
    const LocalTensor<T> words = x.template ReinterpretCast<T>();
    const LocalTensor<T> accumulators = work.ReinterpretCast<T>();
    const LocalTensor<T> rest = accumulators[TREE_ROWS * 64];
    for (uint32_t done = 0; done < rows; done += TREE_ROWS) {
        const uint32_t some = static_cast<uint32_t>(Smaller(TREE_ROWS, rows - done));
        Duplicate(accumulators.template ReinterpretCast<uint32_t>(), Op::NEUTRAL, some * WIDTH);
        PipeBarrier<PIPE_V>();
        FoldRows<Op, T, WIDTH>(accumulators, words[done * lanes], some, lanes);
        CombineRows<Op, T, WIDTH>(results[done * BLOCK], accumulators, rest, some);
    }
}

// The first element of a tensor, once the vector pipe has written it.
__aicore__ inline float ReadScalar(const LocalTensor<float>& tensor)
{
    const TEventID written = GetTPipePtr()->FetchEventID(HardEvent::V_S);
    SetFlag<HardEvent::V_S>(written);
    WaitFlag<HardEvent::V_S>(written);
    return tensor.GetValue(0);
}

// A block of copies of its first element.
__aicore__ inline void CopyFirst(const LocalTensor<float>& block)
{
    Duplicate(block, ReadScalar(block), BLOCK);
    PipeBarrier<PIPE_V>();
}

}  // namespace fusewright
