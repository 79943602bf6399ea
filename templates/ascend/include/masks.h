// Masks: a bit per lane, in vectors of 64 lanes of 8 bytes each; the lanes beyond the last whole vector begin a block of
// their own, for instructions write to whole blocks.
#pragma once

#include "combine.h"

namespace fusewright {

// Whole vectors of one instruction, so that the next begins a block of the mask.
constexpr uint32_t MOST_MASKS = 248;

__aicore__ inline uint32_t RestOfMask(uint32_t vectors)
{
    return (vectors * 8 + 31) / 32 * 32;
}

// Lane by lane; with BY_BLOCK each lane against one block.
template <CMPMODE MODE, bool BY_BLOCK, typename T>
__aicore__ inline void Compare(
    const LocalTensor<uint8_t>& mask, const LocalTensor<T>& a, const LocalTensor<T>& b, uint32_t count)
{
    constexpr uint8_t BLOCKS = BY_BLOCK ? 0 : 1;
    constexpr uint8_t VECTORS = BY_BLOCK ? 0 : 8;
    const uint32_t vectors = count / VECTOR;
    const BinaryRepeatParams strides(1, 1, BLOCKS, 8, 8, VECTORS);
    for (uint32_t done = 0; done < vectors; done += MOST_MASKS) {
        const uint32_t left = vectors - done;
        const uint8_t repeats = static_cast<uint8_t>(left < MOST_MASKS ? left : MOST_MASKS);
        AscendC::Compare(
            mask[done * 8], a[done * VECTOR], b[BY_BLOCK ? 0 : done * VECTOR], MODE, VECTOR, repeats, strides);
    }
    if (count % VECTOR != 0) {
        const uint64_t rest = count % VECTOR;
        AscendC::Compare(
            mask[RestOfMask(vectors)], a[vectors * VECTOR], b[BY_BLOCK ? 0 : vectors * VECTOR], MODE, rest, 1, strides);
    }
}

// `mask ? a : b`, bits as they are; each may be one block for all lanes.
template <bool A_IS_BLOCK, bool B_IS_BLOCK, typename T, typename A, typename B>
__aicore__ inline void Choose(
    const LocalTensor<T>& to, const LocalTensor<uint8_t>& mask, const LocalTensor<A>& a, const LocalTensor<B>& b,
    uint32_t count)
{
    static_assert(sizeof(T) == 4 && sizeof(A) == 4 && sizeof(B) == 4, "words are chosen");
    const LocalTensor<float> chosen = to.template ReinterpretCast<float>();
    const LocalTensor<float> first = a.template ReinterpretCast<float>();
    const LocalTensor<float> second = b.template ReinterpretCast<float>();
    const uint32_t vectors = count / VECTOR;
    const BinaryRepeatParams strides(1, A_IS_BLOCK ? 0 : 1, B_IS_BLOCK ? 0 : 1, 8, A_IS_BLOCK ? 0 : 8, B_IS_BLOCK ? 0 : 8);
    for (uint32_t done = 0; done < vectors; done += MOST_MASKS) {
        const uint32_t left = vectors - done;
        const uint8_t repeats = static_cast<uint8_t>(left < MOST_MASKS ? left : MOST_MASKS);
        const uint32_t at = done * VECTOR;
        Select(
            chosen[at], mask[done * 8], first[A_IS_BLOCK ? 0 : at], second[B_IS_BLOCK ? 0 : at],
            SELMODE::VSEL_TENSOR_TENSOR_MODE, VECTOR, repeats, strides);
    }
    if (count % VECTOR != 0) {
        const uint64_t rest = count % VECTOR;
        const uint32_t at = vectors * VECTOR;
        Select(
            chosen[at], mask[RestOfMask(vectors)], first[A_IS_BLOCK ? 0 : at], second[B_IS_BLOCK ? 0 : at],
            SELMODE::VSEL_TENSOR_TENSOR_MODE, rest, 1, strides);
    }
}

// Integers lane by lane, where floats alone are compared. The differences of their halves of 16 bits are floats without
// rounding, and the sum of both has the sign of the whole difference, rounded or not.
template <CMPMODE MODE>
__aicore__ inline void CompareHalves(
    const LocalTensor<uint8_t>& mask, const LocalTensor<int32_t>& a, const LocalTensor<int32_t>& b,
    const LocalTensor<int32_t>& high, const LocalTensor<int32_t>& lowOfA, const LocalTensor<int32_t>& lowOfB,
    const LocalTensor<float>& zero, uint32_t count)
{
    const LocalTensor<float> difference = high.ReinterpretCast<float>();
    const LocalTensor<float> low = lowOfA.ReinterpretCast<float>();
    ShiftRight(lowOfA, a, 16, count);
    ShiftRight(lowOfB, b, 16, count);
    PipeBarrier<PIPE_V>();
    Sub(high, lowOfA, lowOfB, count);
    PipeBarrier<PIPE_V>();
    ShiftLeft(lowOfA, lowOfA, 16, count);
    ShiftLeft(lowOfB, lowOfB, 16, count);
    Cast(difference, high, RoundMode::CAST_NONE, count);
    PipeBarrier<PIPE_V>();
    Sub(lowOfA, a, lowOfA, count);
    Sub(lowOfB, b, lowOfB, count);
    Muls(difference, difference, 65536.0f, count);
    PipeBarrier<PIPE_V>();
    Sub(lowOfA, lowOfA, lowOfB, count);
    PipeBarrier<PIPE_V>();
    Cast(low, lowOfA, RoundMode::CAST_NONE, count);
    PipeBarrier<PIPE_V>();
    Add(difference, difference, low, count);
    PipeBarrier<PIPE_V>();
    Compare<MODE, true>(mask, difference, zero, count);
    PipeBarrier<PIPE_V>();
}

// A block of NaN where `found` is NaN.
__aicore__ inline void KeepNan(
    const LocalTensor<float>& block, const LocalTensor<float>& found, const LocalTensor<uint8_t>& mask)
{
    Compare<CMPMODE::EQ, false>(mask, found, found, BLOCK);
    PipeBarrier<PIPE_V>();
    Choose<false, false>(block, mask, block, found, BLOCK);
    PipeBarrier<PIPE_V>();
}

__aicore__ inline void MaskAnd(
    const LocalTensor<uint8_t>& to, const LocalTensor<uint8_t>& a, const LocalTensor<uint8_t>& b, uint32_t count)
{
    const uint32_t vectors = count / VECTOR;
    if (vectors > 0) {
        And(to.ReinterpretCast<uint16_t>(), a.ReinterpretCast<uint16_t>(), b.ReinterpretCast<uint16_t>(), vectors * 4);
    }
    if (count % VECTOR != 0) {
        const uint32_t at = RestOfMask(vectors);
        And(to[at].ReinterpretCast<uint16_t>(), a[at].ReinterpretCast<uint16_t>(), b[at].ReinterpretCast<uint16_t>(), 4);
    }
}

__aicore__ inline void MaskOr(
    const LocalTensor<uint8_t>& to, const LocalTensor<uint8_t>& a, const LocalTensor<uint8_t>& b, uint32_t count)
{
    const uint32_t vectors = count / VECTOR;
    if (vectors > 0) {
        Or(to.ReinterpretCast<uint16_t>(), a.ReinterpretCast<uint16_t>(), b.ReinterpretCast<uint16_t>(), vectors * 4);
    }
    if (count % VECTOR != 0) {
        const uint32_t at = RestOfMask(vectors);
        Or(to[at].ReinterpretCast<uint16_t>(), a[at].ReinterpretCast<uint16_t>(), b[at].ReinterpretCast<uint16_t>(), 4);
    }
}

__aicore__ inline void MaskNot(const LocalTensor<uint8_t>& to, const LocalTensor<uint8_t>& a, uint32_t count)
{
    const uint32_t vectors = count / VECTOR;
    if (vectors > 0) {
        Not(to.ReinterpretCast<uint16_t>(), a.ReinterpretCast<uint16_t>(), vectors * 4);
    }
    if (count % VECTOR != 0) {
        const uint32_t at = RestOfMask(vectors);
        Not(to[at].ReinterpretCast<uint16_t>(), a[at].ReinterpretCast<uint16_t>(), 4);
    }
}

}  // namespace fusewright
