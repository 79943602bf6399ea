// Which lanes instructions work on, where their calls do not say it themselves.
#pragma once

#include "ascend_model/enums.h"
#include "ascend_model/params.h"
#include "ascend_model/runtime.h"
#include "ascend_model/tensor.h"

namespace ascend_model {

constexpr Lanes First(int64_t count)
{
    return {Lanes::FIRST, count, {0, 0}, 1};
}

template <bool isSetMask>
constexpr Lanes Number(uint64_t mask, Repeats repeats)
{
    return {isSetMask ? Lanes::NUMBER : Lanes::REGISTERS, static_cast<int64_t>(mask), {0, 0}, repeats.value};
}

template <bool isSetMask>
constexpr Lanes Bits(const uint64_t mask[], Repeats repeats)
{
    return {isSetMask ? Lanes::BITS : Lanes::REGISTERS, 0, {mask[0], mask[1]}, repeats.value};
}

template <typename T>
constexpr Operand At(const AscendC::LocalTensor<T>& tensor, uint32_t blockStride, uint32_t repeatStride)
{
    return {tensor.At(), TypeOf<T>(), blockStride, repeatStride};
}

template <typename T>
constexpr Operand At(const AscendC::LocalTensor<T>& tensor)
{
    return {tensor.At(), TypeOf<T>(), 1, 8};
}

// The bits of an element.
template <typename T>
uint64_t Raw(const T& value)
{
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}

}  // namespace ascend_model

namespace AscendC {

// From here on masks count elements, whatever the repeats.
inline void SetMaskCount()
{
    ascend_model::SetMaskCounter(true);
}

inline void SetMaskNorm()
{
    ascend_model::SetMaskCounter(false);
}

template <typename T, MaskMode mode = MaskMode::NORMAL>
inline void SetVectorMask(uint64_t high, uint64_t low)
{
    ascend_model::SetMaskBits(high, low);
}

// The first `count` lanes, or elements in counter mode.
template <typename T, MaskMode mode = MaskMode::NORMAL>
inline void SetVectorMask(int32_t count)
{
    if constexpr (mode == MaskMode::COUNTER) {
        ascend_model::SetMaskBits(0, static_cast<uint64_t>(count));
    } else {
        const uint64_t all = ~uint64_t{0};
        ascend_model::SetMaskBits(
            count <= 64 ? 0 : count >= 128 ? all : all >> (128 - count), count >= 64 ? all : all >> (64 - count));
    }
}

inline void ResetMask()
{
    ascend_model::SetMaskBits(~uint64_t{0}, ~uint64_t{0});
}

}  // namespace AscendC
