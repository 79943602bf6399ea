// Conversions, and which of them a chip has.
#pragma once

#include "ascend_model/dtypes.h"
#include "ascend_model/mask.h"
#include "ascend_model/params.h"
#include "ascend_model/tensor.h"

namespace ascend_model {

// Whether the chip converts `From` to `To` in one instruction.
template <typename To, typename From>
constexpr bool Converts()
{
    using AscendC::int4b_t;
    constexpr bool old = __NPU_ARCH__ == 2002;
    constexpr bool wide = __NPU_ARCH__ == 3510;
    if constexpr (std::is_same_v<From, half>) {
        return OneOf<To, float, int8_t, uint8_t, int16_t, int32_t> || (!old && std::is_same_v<To, int4b_t>) ||
               (wide && std::is_same_v<To, bfloat16_t>);
    } else if constexpr (std::is_same_v<From, float>) {
        return OneOf<To, half, int32_t> || (!old && OneOf<To, float, int16_t, int64_t, bfloat16_t>) ||
               (wide && OneOf<To, fp8_e4m3fn_t, fp8_e5m2_t, hifloat8_t>);
    } else if constexpr (std::is_same_v<From, bfloat16_t>) {
        return (!old && OneOf<To, float, int32_t>) || (wide && std::is_same_v<To, half>);
    } else if constexpr (OneOf<From, int8_t, uint8_t>) {
        return std::is_same_v<To, half> || (wide && std::is_same_v<From, int8_t> && std::is_same_v<To, int32_t>);
    } else if constexpr (std::is_same_v<From, int4b_t>) {
        return !old && std::is_same_v<To, half>;
    } else if constexpr (std::is_same_v<From, int16_t>) {
        return std::is_same_v<To, half> || (!old && std::is_same_v<To, float>);
    } else if constexpr (std::is_same_v<From, int32_t>) {
        return OneOf<To, half, float> || (!old && OneOf<To, int16_t, int64_t>);
    } else if constexpr (std::is_same_v<From, int64_t>) {
        return !old && OneOf<To, int32_t, float>;
    } else {
        return wide && OneOf<From, fp8_e4m3fn_t, fp8_e5m2_t, hifloat8_t> && std::is_same_v<To, float>;
    }
}

template <typename To, typename From>
void Convert(
    const AscendC::LocalTensor<To>& to, const AscendC::LocalTensor<From>& from, AscendC::RoundMode mode,
    const Lanes& lanes, const AscendC::UnaryRepeatParams& by)
{
    static_assert(Converts<To, From>(), "Cast: this pair of types is not in the chip's table of conversions");
    Issue(Conversion{
        "Cast", At(to, by.dstBlkStride, by.dstRepStride), At(from, by.srcBlkStride, by.srcRepStride), lanes,
        static_cast<uint8_t>(mode)});
}

}  // namespace ascend_model

namespace AscendC {

template <typename To, typename From>
inline void Cast(const LocalTensor<To>& to, const LocalTensor<From>& from, const RoundMode& mode, uint32_t count)
{
    ascend_model::Convert(to, from, mode, ascend_model::First(count), {});
}

// The mask counts the wider of the two types.
template <typename To, typename From, bool isSetMask = true>
inline void Cast(
    const LocalTensor<To>& to, const LocalTensor<From>& from, const RoundMode& mode, uint64_t mask,
    ascend_model::Repeats repeats, const UnaryRepeatParams& by)
{
    ascend_model::Convert(to, from, mode, ascend_model::Number<isSetMask>(mask, repeats), by);
}

template <typename To, typename From, bool isSetMask = true>
inline void Cast(
    const LocalTensor<To>& to, const LocalTensor<From>& from, const RoundMode& mode, uint64_t mask[],
    ascend_model::Repeats repeats, const UnaryRepeatParams& by)
{
    ascend_model::Convert(to, from, mode, ascend_model::Bits<isSetMask>(mask, repeats), by);
}

// What conversions of int32 to half multiply by, until it is set again.
inline void SetDeqScale(half scale)
{
    ascend_model::SetDeqScale(scale.bits);
}

}  // namespace AscendC
