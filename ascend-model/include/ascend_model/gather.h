// Elements and blocks from computed places, counted numbers, and small transposes.
#pragma once

#include "ascend_model/dtypes.h"
#include "ascend_model/elementwise.h"
#include "ascend_model/mask.h"
#include "ascend_model/params.h"
#include "ascend_model/tensor.h"

namespace AscendC {

// Offsets are bytes from `base` bytes after the start of `from`.
template <typename T>
inline void Gather(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const LocalTensor<uint32_t>& offsets, const uint32_t base,
    const uint32_t count)
{
    ASCEND_MODEL_TYPES(Gather, Gather);
    ascend_model::Issue(ascend_model::Gathering{
        "Gather", false, ascend_model::At(to), from.At(), offsets.At(), base, ascend_model::First(count)});
}

template <typename T>
inline void Gather(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const LocalTensor<uint32_t>& offsets, const uint32_t base,
    const uint64_t mask, ascend_model::Repeats repeats, U16 dstRepStride)
{
    ASCEND_MODEL_TYPES(Gather, Gather);
    ascend_model::Issue(ascend_model::Gathering{
        "Gather", false, ascend_model::At(to, 1, dstRepStride), from.At(), offsets.At(), base,
        ascend_model::Number<true>(mask, repeats)});
}

struct GatherRepeatParams {
    uint16_t dstBlkStride = 1;
    uint16_t dstRepStride = 8;

    constexpr GatherRepeatParams() = default;
    constexpr GatherRepeatParams(U16 dstBlk, U16 dstRep) : dstBlkStride(dstBlk), dstRepStride(dstRep) {}
};

// Eight blocks per repeat, from eight offsets.
template <typename T>
inline void Gatherb(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const LocalTensor<uint32_t>& offsets,
    ascend_model::Repeats repeats, const GatherRepeatParams& by)
{
    ASCEND_MODEL_TYPES(Gatherb, Gather);
    ascend_model::Issue(ascend_model::Gathering{
        "Gatherb", true, ascend_model::At(to, by.dstBlkStride, by.dstRepStride), from.At(), offsets.At(), 0,
        ascend_model::Number<true>(0, repeats)});
}

// first, first + 1, first + 2, …
template <typename T>
inline void CreateVecIndex(LocalTensor<T> to, const T& first, uint32_t count)
{
    ASCEND_MODEL_TYPES(CreateVecIndex, Index);
    ascend_model::Issue(ascend_model::Numbering{
        "CreateVecIndex", ascend_model::At(to), ascend_model::First(count), ascend_model::Raw(first)});
}

template <typename T>
inline void Transpose(const LocalTensor<T>& to, const LocalTensor<T>& from)
{
    static_assert(
        ascend_model::OneOf<T, int16_t, uint16_t, half>, "Transpose: this type is not in the chip's table for it");
    ascend_model::Issue(ascend_model::Transposition{"Transpose", ascend_model::At(to), ascend_model::At(from)});
}

}  // namespace AscendC

#undef ASCEND_MODEL_TYPES
