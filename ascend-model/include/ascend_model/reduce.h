// Reductions. Their order is the instruction's own, not that of a loop.
#pragma once

#include "ascend_model/dtypes.h"
#include "ascend_model/mask.h"
#include "ascend_model/params.h"
#include "ascend_model/tensor.h"

namespace ascend_model {

template <typename T>
void Reduce(
    const char* api, Fold fold, Reduction::Over over, const AscendC::LocalTensor<T>& to,
    const AscendC::LocalTensor<T>& from, const Span& work, const Lanes& lanes, uint32_t toStride, uint32_t blockStride,
    uint32_t repeatStride, bool index = false, AscendC::ReduceOrder order = AscendC::ReduceOrder::ORDER_ONLY_VALUE)
{
    static_assert(OneOf<T, half, float>, "reductions: half and float alone are in the chip's table");
    Issue(Reduction{
        api, fold, over, static_cast<uint8_t>(order), index, At(to, 1, toStride), At(from, blockStride, repeatStride),
        work, lanes});
}

}  // namespace ascend_model

namespace AscendC {

// The sum of the first `count` elements. `work` is overwritten.
template <typename T>
inline void ReduceSum(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const LocalTensor<T>& work, const int32_t count)
{
    ascend_model::Reduce(
        "ReduceSum", ascend_model::Fold::Sum, ascend_model::Reduction::All, to, from, work.At(),
        ascend_model::First(count), 1, 1, 8);
}

// The sum over all repeats.
template <typename T>
inline void ReduceSum(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const LocalTensor<T>& work, const int32_t mask,
    const ascend_model::Repeats repeats, const int32_t srcRepStride)
{
    ascend_model::Reduce(
        "ReduceSum", ascend_model::Fold::Sum, ascend_model::Reduction::All, to, from, work.At(),
        ascend_model::Number<true>(static_cast<uint64_t>(mask), repeats), 1, 1, static_cast<uint32_t>(srcRepStride));
}

// The largest of the first `count` elements, and where it is with `calIndex`: its index follows as an integer's bits.
template <typename T>
inline void ReduceMax(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const LocalTensor<T>& work, const int32_t count,
    bool calIndex = false)
{
    ascend_model::Reduce(
        "ReduceMax", ascend_model::Fold::Max, ascend_model::Reduction::All, to, from, work.At(),
        ascend_model::First(count), 1, 1, 8, calIndex);
}

template <typename T>
inline void ReduceMin(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const LocalTensor<T>& work, const int32_t count,
    bool calIndex = false)
{
    ascend_model::Reduce(
        "ReduceMin", ascend_model::Fold::Min, ascend_model::Reduction::All, to, from, work.At(),
        ascend_model::First(count), 1, 1, 8, calIndex);
}

template <typename T>
inline void ReduceMax(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const LocalTensor<T>& work, const int32_t mask,
    const ascend_model::Repeats repeats, const int32_t srcRepStride, bool calIndex = false)
{
    ascend_model::Reduce(
        "ReduceMax", ascend_model::Fold::Max, ascend_model::Reduction::All, to, from, work.At(),
        ascend_model::Number<true>(static_cast<uint64_t>(mask), repeats), 1, 1, static_cast<uint32_t>(srcRepStride),
        calIndex);
}

template <typename T>
inline void ReduceMin(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const LocalTensor<T>& work, const int32_t mask,
    const ascend_model::Repeats repeats, const int32_t srcRepStride, bool calIndex = false)
{
    ascend_model::Reduce(
        "ReduceMin", ascend_model::Fold::Min, ascend_model::Reduction::All, to, from, work.At(),
        ascend_model::Number<true>(static_cast<uint64_t>(mask), repeats), 1, 1, static_cast<uint32_t>(srcRepStride),
        calIndex);
}

// One sum per repeat; results are `dstRepStride` elements apart.
template <typename T, bool isSetMask = true>
inline void WholeReduceSum(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const int32_t mask, const ascend_model::Repeats repeats,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride)
{
    ascend_model::Reduce(
        "WholeReduceSum", ascend_model::Fold::Sum, ascend_model::Reduction::Repeat, to, from, {},
        ascend_model::Number<isSetMask>(static_cast<uint64_t>(mask), repeats), dstRepStride, srcBlkStride,
        srcRepStride);
}

// The largest of each repeat and its lane; results are `dstRepStride` of what `order` yields apart.
template <typename T, bool isSetMask = true>
inline void WholeReduceMax(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const int32_t mask, const ascend_model::Repeats repeats,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
    ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX)
{
    ascend_model::Reduce(
        "WholeReduceMax", ascend_model::Fold::Max, ascend_model::Reduction::Repeat, to, from, {},
        ascend_model::Number<isSetMask>(static_cast<uint64_t>(mask), repeats), dstRepStride, srcBlkStride,
        srcRepStride, false, order);
}

template <typename T, bool isSetMask = true>
inline void WholeReduceMin(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const int32_t mask, const ascend_model::Repeats repeats,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
    ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX)
{
    ascend_model::Reduce(
        "WholeReduceMin", ascend_model::Fold::Min, ascend_model::Reduction::Repeat, to, from, {},
        ascend_model::Number<isSetMask>(static_cast<uint64_t>(mask), repeats), dstRepStride, srcBlkStride,
        srcRepStride, false, order);
}

// One result per block of 32 bytes, eight per repeat; results of repeats are `dstRepStride` times eight elements apart.
template <typename T, bool isSetMask = true>
inline void BlockReduceSum(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const ascend_model::Repeats repeats, const int32_t mask,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride)
{
    ascend_model::Reduce(
        "BlockReduceSum", ascend_model::Fold::Sum, ascend_model::Reduction::Block, to, from, {},
        ascend_model::Number<isSetMask>(static_cast<uint64_t>(mask), repeats), dstRepStride, srcBlkStride,
        srcRepStride);
}

template <typename T, bool isSetMask = true>
inline void BlockReduceMax(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const ascend_model::Repeats repeats, const int32_t mask,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride)
{
    ascend_model::Reduce(
        "BlockReduceMax", ascend_model::Fold::Max, ascend_model::Reduction::Block, to, from, {},
        ascend_model::Number<isSetMask>(static_cast<uint64_t>(mask), repeats), dstRepStride, srcBlkStride,
        srcRepStride);
}

template <typename T, bool isSetMask = true>
inline void BlockReduceMin(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const ascend_model::Repeats repeats, const int32_t mask,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride)
{
    ascend_model::Reduce(
        "BlockReduceMin", ascend_model::Fold::Min, ascend_model::Reduction::Block, to, from, {},
        ascend_model::Number<isSetMask>(static_cast<uint64_t>(mask), repeats), dstRepStride, srcBlkStride,
        srcRepStride);
}

// One sum per two lanes side by side; results of repeats are `dstRepStride` times half a repeat apart.
template <typename T, bool isSetMask = true>
inline void PairReduceSum(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const ascend_model::Repeats repeats, const int32_t mask,
    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride)
{
    ascend_model::Reduce(
        "PairReduceSum", ascend_model::Fold::Sum, ascend_model::Reduction::Pair, to, from, {},
        ascend_model::Number<isSetMask>(static_cast<uint64_t>(mask), repeats), dstRepStride, srcBlkStride,
        srcRepStride);
}

}  // namespace AscendC
