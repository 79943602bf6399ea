// Comparisons, which yield a bit per lane, and selections by such bits.
#pragma once

#include "ascend_model/dtypes.h"
#include "ascend_model/mask.h"
#include "ascend_model/params.h"
#include "ascend_model/tensor.h"

namespace ascend_model {

template <typename U, typename T>
void CompareLanes(
    const char* api, const AscendC::LocalTensor<U>& to, const AscendC::LocalTensor<T>& a, const Operand& b, bool scalar,
    uint64_t value, AscendC::CMPMODE mode, const Lanes& lanes, uint32_t blockStride, uint32_t repeatStride)
{
    static_assert(Takes<Family::Compare, T>(), "Compare: this type of elements is not in the chip's table for it");
    static_assert(OneOf<U, int8_t, uint8_t>, "Compare: bits go to int8_t or uint8_t");
    Issue(Comparison{
        api, static_cast<uint8_t>(mode), scalar, to.At(), At(a, blockStride, repeatStride), b, lanes, value});
}

template <typename T, typename U>
void SelectLanes(
    const AscendC::LocalTensor<T>& to, const AscendC::LocalTensor<U>& mask, const AscendC::LocalTensor<T>& a,
    const Operand& b, bool scalar, uint64_t value, AscendC::SELMODE mode, const Lanes& lanes,
    const AscendC::BinaryRepeatParams& by)
{
    static_assert(Takes<Family::Select, T>(), "Select: this type of elements is not in the chip's table for it");
    static_assert(OneOf<U, uint8_t, uint16_t, uint32_t, uint64_t>, "Select: a mask of unsigned integers");
    Issue(Selection{
        "Select", static_cast<uint8_t>(mode), scalar, At(to, by.dstBlkStride, by.dstRepStride), mask.At(),
        At(a, by.src0BlkStride, by.src0RepStride), b, lanes, value});
}

}  // namespace ascend_model

namespace AscendC {

// `count` elements fill whole vectors of 256 bytes.
template <typename T, typename U>
inline void Compare(
    const LocalTensor<U>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, CMPMODE mode, uint32_t count)
{
    ascend_model::CompareLanes(
        "Compare", to, a, ascend_model::At(b), false, 0, mode, ascend_model::First(count), 1, 8);
}

// All lanes of a repeat are compared, whatever the mask says.
template <typename T, typename U, bool isSetMask = true>
inline void Compare(
    const LocalTensor<U>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, CMPMODE mode, const uint64_t mask,
    ascend_model::Repeats repeats, const BinaryRepeatParams& by)
{
    ascend_model::CompareLanes(
        "Compare", to, a, ascend_model::At(b, by.src1BlkStride, by.src1RepStride), false, 0, mode,
        ascend_model::Number<isSetMask>(mask, repeats), by.src0BlkStride, by.src0RepStride);
}

template <typename T, typename U, bool isSetMask = true>
inline void Compare(
    const LocalTensor<U>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, CMPMODE mode, const uint64_t mask[],
    ascend_model::Repeats repeats, const BinaryRepeatParams& by)
{
    ascend_model::CompareLanes(
        "Compare", to, a, ascend_model::At(b, by.src1BlkStride, by.src1RepStride), false, 0, mode,
        ascend_model::Bits<isSetMask>(mask, repeats), by.src0BlkStride, by.src0RepStride);
}

template <typename T, typename U>
inline void CompareScalar(
    const LocalTensor<U>& to, const LocalTensor<T>& a, const T value, CMPMODE mode, uint32_t count)
{
    ascend_model::CompareLanes(
        "CompareScalar", to, a, {}, true, ascend_model::Raw(value), mode, ascend_model::First(count), 1, 8);
}

template <typename T, typename U, bool isSetMask = true>
inline void CompareScalar(
    const LocalTensor<U>& to, const LocalTensor<T>& a, const T value, CMPMODE mode, const uint64_t mask,
    ascend_model::Repeats repeats, const UnaryRepeatParams& by)
{
    ascend_model::CompareLanes(
        "CompareScalar", to, a, {}, true, ascend_model::Raw(value), mode,
        ascend_model::Number<isSetMask>(mask, repeats), by.srcBlkStride, by.srcRepStride);
}

// The later name of CompareScalar.
template <typename T, typename U>
inline void Compares(const LocalTensor<U>& to, const LocalTensor<T>& a, const T value, CMPMODE mode, uint32_t count)
{
    CompareScalar(to, a, value, mode, count);
}

template <typename T, typename U>
inline void Select(
    const LocalTensor<T>& to, const LocalTensor<U>& mask, const LocalTensor<T>& a, T value, SELMODE mode,
    uint32_t count)
{
    ascend_model::SelectLanes(
        to, mask, a, {}, true, ascend_model::Raw(value), mode, ascend_model::First(count), BinaryRepeatParams());
}

template <typename T, typename U>
inline void Select(
    const LocalTensor<T>& to, const LocalTensor<U>& mask, const LocalTensor<T>& a, const LocalTensor<T>& b,
    SELMODE mode, uint32_t count)
{
    ascend_model::SelectLanes(
        to, mask, a, ascend_model::At(b), false, 0, mode, ascend_model::First(count), BinaryRepeatParams());
}

template <typename T, typename U, bool isSetMask = true>
inline void Select(
    const LocalTensor<T>& to, const LocalTensor<U>& mask, const LocalTensor<T>& a, T value, SELMODE mode,
    uint64_t lanes, ascend_model::Repeats repeats, const BinaryRepeatParams& by)
{
    ascend_model::SelectLanes(
        to, mask, a, {}, true, ascend_model::Raw(value), mode, ascend_model::Number<isSetMask>(lanes, repeats), by);
}

template <typename T, typename U, bool isSetMask = true>
inline void Select(
    const LocalTensor<T>& to, const LocalTensor<U>& mask, const LocalTensor<T>& a, T value, SELMODE mode,
    uint64_t lanes[], ascend_model::Repeats repeats, const BinaryRepeatParams& by)
{
    ascend_model::SelectLanes(
        to, mask, a, {}, true, ascend_model::Raw(value), mode, ascend_model::Bits<isSetMask>(lanes, repeats), by);
}

template <typename T, typename U, bool isSetMask = true>
inline void Select(
    const LocalTensor<T>& to, const LocalTensor<U>& mask, const LocalTensor<T>& a, const LocalTensor<T>& b,
    SELMODE mode, uint64_t lanes, ascend_model::Repeats repeats, const BinaryRepeatParams& by)
{
    ascend_model::SelectLanes(
        to, mask, a, ascend_model::At(b, by.src1BlkStride, by.src1RepStride), false, 0, mode,
        ascend_model::Number<isSetMask>(lanes, repeats), by);
}

template <typename T, typename U, bool isSetMask = true>
inline void Select(
    const LocalTensor<T>& to, const LocalTensor<U>& mask, const LocalTensor<T>& a, const LocalTensor<T>& b,
    SELMODE mode, uint64_t lanes[], ascend_model::Repeats repeats, const BinaryRepeatParams& by)
{
    ascend_model::SelectLanes(
        to, mask, a, ascend_model::At(b, by.src1BlkStride, by.src1RepStride), false, 0, mode,
        ascend_model::Bits<isSetMask>(lanes, repeats), by);
}

}  // namespace AscendC
