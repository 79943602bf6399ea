// Vector instructions that compute each lane from the same lane of their operands.
//
// Each has a form for the first `count` elements and two with masks, repeats and strides. Names cannot be parameters of
// templates, so a macro writes the three forms of each.
#pragma once

#include "ascend_model/dtypes.h"
#include "ascend_model/mask.h"
#include "ascend_model/params.h"
#include "ascend_model/tensor.h"

namespace ascend_model {

template <typename T>
using Local = AscendC::LocalTensor<T>;

template <typename T>
void Binary(
    const char* api, Op op, const Local<T>& to, const Local<T>& a, const Local<T>& b, const Lanes& lanes,
    const AscendC::BinaryRepeatParams& by)
{
    Elementwise call{api, op, 2, At(to, by.dstBlkStride, by.dstRepStride), At(a, by.src0BlkStride, by.src0RepStride),
                     At(b, by.src1BlkStride, by.src1RepStride), lanes, 0, false};
    Issue(call);
}

template <typename T>
void Unary(
    const char* api, Op op, const Local<T>& to, const Local<T>& from, const Lanes& lanes,
    const AscendC::UnaryRepeatParams& by, uint64_t scalar = 0, bool rounds = false)
{
    Elementwise call{api, op, 1, At(to, by.dstBlkStride, by.dstRepStride), At(from, by.srcBlkStride, by.srcRepStride),
                     {}, lanes, scalar, rounds};
    Issue(call);
}

template <typename T>
void Fill(const char* api, const Local<T>& to, const T& value, const Lanes& lanes, uint32_t block, uint32_t repeat)
{
    Elementwise call{api, Op::Duplicate, 0, At(to, block, repeat), {}, {}, lanes, Raw(value), false};
    Issue(call);
}

}  // namespace ascend_model

#define ASCEND_MODEL_TYPES(NAME, FAMILY)                                         \
    static_assert(                                                               \
        ascend_model::Takes<ascend_model::Family::FAMILY, T>(),                  \
        #NAME ": this type of elements is not in the chip's table for it")

#define ASCEND_MODEL_BINARY(NAME, FAMILY)                                                                             \
    template <typename T>                                                                                             \
    inline void NAME(                                                                                                 \
        const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, const int32_t& count)             \
    {                                                                                                                 \
        ASCEND_MODEL_TYPES(NAME, FAMILY);                                                                             \
        ascend_model::Binary(#NAME, ascend_model::Op::NAME, to, a, b, ascend_model::First(count), {});                \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void NAME(                                                                                                 \
        const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint64_t mask,                    \
        ascend_model::Repeats repeats, const BinaryRepeatParams& by)                                                  \
    {                                                                                                                 \
        ASCEND_MODEL_TYPES(NAME, FAMILY);                                                                             \
        ascend_model::Binary(                                                                                         \
            #NAME, ascend_model::Op::NAME, to, a, b, ascend_model::Number<isSetMask>(mask, repeats), by);             \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void NAME(                                                                                                 \
        const LocalTensor<T>& to, const LocalTensor<T>& a, const LocalTensor<T>& b, uint64_t mask[],                  \
        ascend_model::Repeats repeats, const BinaryRepeatParams& by)                                                  \
    {                                                                                                                 \
        ASCEND_MODEL_TYPES(NAME, FAMILY);                                                                             \
        ascend_model::Binary(                                                                                         \
            #NAME, ascend_model::Op::NAME, to, a, b, ascend_model::Bits<isSetMask>(mask, repeats), by);               \
    }

#define ASCEND_MODEL_UNARY(NAME, FAMILY)                                                                              \
    template <typename T>                                                                                             \
    inline void NAME(const LocalTensor<T>& to, const LocalTensor<T>& from, const int32_t& count)                      \
    {                                                                                                                 \
        ASCEND_MODEL_TYPES(NAME, FAMILY);                                                                             \
        ascend_model::Unary(#NAME, ascend_model::Op::NAME, to, from, ascend_model::First(count), {});                 \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void NAME(                                                                                                 \
        const LocalTensor<T>& to, const LocalTensor<T>& from, uint64_t mask, ascend_model::Repeats repeats,           \
        const UnaryRepeatParams& by)                                                                                  \
    {                                                                                                                 \
        ASCEND_MODEL_TYPES(NAME, FAMILY);                                                                             \
        ascend_model::Unary(                                                                                          \
            #NAME, ascend_model::Op::NAME, to, from, ascend_model::Number<isSetMask>(mask, repeats), by);             \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void NAME(                                                                                                 \
        const LocalTensor<T>& to, const LocalTensor<T>& from, uint64_t mask[], ascend_model::Repeats repeats,         \
        const UnaryRepeatParams& by)                                                                                  \
    {                                                                                                                 \
        ASCEND_MODEL_TYPES(NAME, FAMILY);                                                                             \
        ascend_model::Unary(                                                                                          \
            #NAME, ascend_model::Op::NAME, to, from, ascend_model::Bits<isSetMask>(mask, repeats), by);               \
    }

#define ASCEND_MODEL_SCALAR(NAME, FAMILY)                                                                             \
    template <typename T>                                                                                             \
    inline void NAME(                                                                                                 \
        const LocalTensor<T>& to, const LocalTensor<T>& from, const T& scalar, const int32_t& count)                  \
    {                                                                                                                 \
        ASCEND_MODEL_TYPES(NAME, FAMILY);                                                                             \
        ascend_model::Unary(                                                                                          \
            #NAME, ascend_model::Op::NAME, to, from, ascend_model::First(count), {}, ascend_model::Raw(scalar));      \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void NAME(                                                                                                 \
        const LocalTensor<T>& to, const LocalTensor<T>& from, const T& scalar, uint64_t mask,                         \
        ascend_model::Repeats repeats, const UnaryRepeatParams& by)                                                   \
    {                                                                                                                 \
        ASCEND_MODEL_TYPES(NAME, FAMILY);                                                                             \
        ascend_model::Unary(                                                                                          \
            #NAME, ascend_model::Op::NAME, to, from, ascend_model::Number<isSetMask>(mask, repeats), by,              \
            ascend_model::Raw(scalar));                                                                               \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void NAME(                                                                                                 \
        const LocalTensor<T>& to, const LocalTensor<T>& from, const T& scalar, uint64_t mask[],                       \
        ascend_model::Repeats repeats, const UnaryRepeatParams& by)                                                   \
    {                                                                                                                 \
        ASCEND_MODEL_TYPES(NAME, FAMILY);                                                                             \
        ascend_model::Unary(                                                                                          \
            #NAME, ascend_model::Op::NAME, to, from, ascend_model::Bits<isSetMask>(mask, repeats), by,                \
            ascend_model::Raw(scalar));                                                                               \
    }

namespace AscendC {

ASCEND_MODEL_BINARY(Add, Arithmetic)
ASCEND_MODEL_BINARY(Sub, Arithmetic)
ASCEND_MODEL_BINARY(Mul, Arithmetic)
ASCEND_MODEL_BINARY(Max, Arithmetic)
ASCEND_MODEL_BINARY(Min, Arithmetic)
ASCEND_MODEL_BINARY(Div, Floating)
ASCEND_MODEL_BINARY(MulAddDst, Floating)
ASCEND_MODEL_BINARY(And, Bits)
ASCEND_MODEL_BINARY(Or, Bits)

ASCEND_MODEL_UNARY(Abs, Floating)
ASCEND_MODEL_UNARY(Exp, Floating)
ASCEND_MODEL_UNARY(Ln, Floating)
ASCEND_MODEL_UNARY(Sqrt, Floating)
ASCEND_MODEL_UNARY(Rsqrt, Floating)
ASCEND_MODEL_UNARY(Reciprocal, Floating)
ASCEND_MODEL_UNARY(Relu, Relu)
ASCEND_MODEL_UNARY(Not, Bits)

ASCEND_MODEL_SCALAR(Adds, Arithmetic)
ASCEND_MODEL_SCALAR(Muls, Arithmetic)
ASCEND_MODEL_SCALAR(Maxs, Arithmetic)
ASCEND_MODEL_SCALAR(Mins, Arithmetic)
ASCEND_MODEL_SCALAR(LeakyRelu, Floating)
ASCEND_MODEL_SCALAR(Axpy, Axpy)
ASCEND_MODEL_SCALAR(ShiftLeft, Shift)

// Bits that leave on the right are dropped, or round with `roundEn`.
template <typename T>
inline void ShiftRight(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const T& scalar, const int32_t& count, bool roundEn = false)
{
    ASCEND_MODEL_TYPES(ShiftRight, Shift);
    ascend_model::Unary(
        "ShiftRight", ascend_model::Op::ShiftRight, to, from, ascend_model::First(count), {},
        ascend_model::Raw(scalar), roundEn);
}

template <typename T, bool isSetMask = true>
inline void ShiftRight(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const T& scalar, uint64_t mask,
    ascend_model::Repeats repeats, const UnaryRepeatParams& by, bool roundEn = false)
{
    ASCEND_MODEL_TYPES(ShiftRight, Shift);
    ascend_model::Unary(
        "ShiftRight", ascend_model::Op::ShiftRight, to, from, ascend_model::Number<isSetMask>(mask, repeats), by,
        ascend_model::Raw(scalar), roundEn);
}

template <typename T>
inline void Duplicate(const LocalTensor<T>& to, const T& scalar, const int32_t& count)
{
    ASCEND_MODEL_TYPES(Duplicate, Fill);
    ascend_model::Fill("Duplicate", to, scalar, ascend_model::First(count), 1, 8);
}

template <typename T, bool isSetMask = true>
inline void Duplicate(
    const LocalTensor<T>& to, const T& scalar, uint64_t mask, ascend_model::Repeats repeats, U16 dstBlockStride,
    U8 dstRepeatStride)
{
    ASCEND_MODEL_TYPES(Duplicate, Fill);
    ascend_model::Fill(
        "Duplicate", to, scalar, ascend_model::Number<isSetMask>(mask, repeats), dstBlockStride, dstRepeatStride);
}

template <typename T, bool isSetMask = true>
inline void Duplicate(
    const LocalTensor<T>& to, const T& scalar, uint64_t mask[], ascend_model::Repeats repeats, U16 dstBlockStride,
    U8 dstRepeatStride)
{
    ASCEND_MODEL_TYPES(Duplicate, Fill);
    ascend_model::Fill(
        "Duplicate", to, scalar, ascend_model::Bits<isSetMask>(mask, repeats), dstBlockStride, dstRepeatStride);
}

// Moves blocks of unified buffer on the vector pipe.
template <typename T, bool isSetMask = true>
inline void Copy(
    const LocalTensor<T>& to, const LocalTensor<T>& from, uint64_t mask, ascend_model::Repeats repeats,
    const CopyRepeatParams& by)
{
    ASCEND_MODEL_TYPES(Copy, Fill);
    ascend_model::Elementwise call{
        "Copy", ascend_model::Op::Copy, 1, ascend_model::At(to, by.dstStride, by.dstRepeatSize),
        ascend_model::At(from, by.srcStride, by.srcRepeatSize), {}, ascend_model::Number<isSetMask>(mask, repeats), 0,
        false};
    ascend_model::Issue(call);
}

// Element i of eight, of each repeat, fills block i of eight.
template <typename T>
inline void Brcb(
    const LocalTensor<T>& to, const LocalTensor<T>& from, ascend_model::Repeats repeats, const BrcbRepeatParams& by)
{
    ASCEND_MODEL_TYPES(Brcb, Spread);
    ascend_model::Issue(ascend_model::Spreading{
        "Brcb", ascend_model::At(to, by.dstBlkStride, by.dstRepStride), ascend_model::At(from), repeats.value});
}

}  // namespace AscendC

#undef ASCEND_MODEL_BINARY
#undef ASCEND_MODEL_UNARY
#undef ASCEND_MODEL_SCALAR
