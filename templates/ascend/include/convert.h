// Conversions that are no single instruction.
#pragma once

#include "masks.h"

namespace fusewright {

// Rounded, and cut to the bytes that T has: by way of int32 and half, of which the one is exact in the other up to 2048
// and saturates beyond. `x` has no NaN.
template <RoundMode MODE, typename T>
__aicore__ inline void CastToByte(
    const LocalTensor<T>& to, const LocalTensor<float>& x, const LocalTensor<int32_t>& whole,
    const LocalTensor<half>& narrow, uint32_t count)
{
    Cast(whole, x, MODE, count);
    PipeBarrier<PIPE_V>();
    SetDeqScale(static_cast<half>(1.0));
    Cast(narrow, whole, RoundMode::CAST_NONE, count);
    PipeBarrier<PIPE_V>();
    Cast(to, narrow, RoundMode::CAST_TRUNC, count);
    PipeBarrier<PIPE_V>();
}

// Integers as bytes, to which they are cut.
template <typename T>
__aicore__ inline void CodesToBytes(
    const LocalTensor<T>& to, const LocalTensor<int32_t>& codes, const LocalTensor<half>& narrow, uint32_t count)
{
    SetDeqScale(static_cast<half>(1.0));
    Cast(narrow, codes, RoundMode::CAST_NONE, count);
    PipeBarrier<PIPE_V>();
    Cast(to, narrow, RoundMode::CAST_TRUNC, count);
    PipeBarrier<PIPE_V>();
}

// Codes of a float format of BITS bits with MANTISSA bits of fraction, whose least normal number is 2^LEAST, rounded to
// nearest even. Magnitudes are cut to `most` first; NaN gets the code in the block `nan`.
//
// Adding 2^(e + 23 - MANTISSA) to a magnitude with exponent e rounds it to the format's steps, and leaves their number in
// the low bits of the sum. Below the least normal number steps stay as they are there, so that subnormal codes follow.
template <int32_t BITS, int32_t MANTISSA, int32_t LEAST>
__aicore__ inline void ToNarrow(
    const LocalTensor<int32_t>& codes, const LocalTensor<float>& x, const LocalTensor<float>& magnitude,
    const LocalTensor<int32_t>& steps, const LocalTensor<uint8_t>& mask, const LocalTensor<float>& nan, float most,
    uint32_t count)
{
    constexpr int32_t BIAS = 127;
    const LocalTensor<int32_t> bits = magnitude.ReinterpretCast<int32_t>();
    const LocalTensor<uint32_t> sign = steps.ReinterpretCast<uint32_t>();
    Compare<CMPMODE::EQ, false>(mask, x, x, count);
    Abs(magnitude, x, count);
    PipeBarrier<PIPE_V>();
    Mins(magnitude, magnitude, most, count);
    PipeBarrier<PIPE_V>();
    ShiftRight(codes, bits, 23, count);
    PipeBarrier<PIPE_V>();
    Maxs(codes, codes, BIAS + LEAST, count);
    PipeBarrier<PIPE_V>();
    Adds(steps, codes, 23 - MANTISSA, count);
    Adds(codes, codes, -(BIAS + LEAST), count);
    PipeBarrier<PIPE_V>();
    ShiftLeft(steps, steps, 23, count);
    ShiftLeft(codes, codes, MANTISSA, count);
    PipeBarrier<PIPE_V>();
    Add(magnitude, magnitude, steps.ReinterpretCast<float>(), count);
    PipeBarrier<PIPE_V>();
    Sub(bits, bits, steps, count);
    PipeBarrier<PIPE_V>();
    Add(codes, codes, bits, count);
    ShiftRight(sign, x.ReinterpretCast<uint32_t>(), 31u, count);
    PipeBarrier<PIPE_V>();
    ShiftLeft(sign, sign, static_cast<uint32_t>(BITS - 1), count);
    PipeBarrier<PIPE_V>();
    Add(codes, codes, steps, count);
    PipeBarrier<PIPE_V>();
    Choose<false, true>(codes, mask, codes, nan, count);
    PipeBarrier<PIPE_V>();
}

// Values of e4m3 codes: steps of the code's binade times their size. `limit` is a block of 127, the magnitude of NaN.
__aicore__ inline void FromE4M3(
    const LocalTensor<float>& to, const LocalTensor<uint8_t>& x, const LocalTensor<half>& narrow,
    const LocalTensor<int32_t>& codes, const LocalTensor<int32_t>& signs, const LocalTensor<int32_t>& exponents,
    const LocalTensor<uint8_t>& mask, const LocalTensor<float>& nan, const LocalTensor<float>& limit, uint32_t count)
{
    const LocalTensor<int32_t> steps = to.ReinterpretCast<int32_t>();
    const LocalTensor<float> values = codes.ReinterpretCast<float>();
    Cast(narrow, x, RoundMode::CAST_NONE, count);
    PipeBarrier<PIPE_V>();
    Cast(codes, narrow, RoundMode::CAST_RINT, count);
    PipeBarrier<PIPE_V>();
    ShiftRight(signs, codes, 7, count);
    PipeBarrier<PIPE_V>();
    Muls(steps, signs, 128, count);
    PipeBarrier<PIPE_V>();
    Sub(codes, codes, steps, count);
    PipeBarrier<PIPE_V>();
    Cast(to, codes, RoundMode::CAST_RINT, count);
    PipeBarrier<PIPE_V>();
    Compare<CMPMODE::EQ, true>(mask, to, limit, count);
    ShiftRight(exponents, codes, 3, count);
    PipeBarrier<PIPE_V>();
    Maxs(exponents, exponents, 1, count);
    PipeBarrier<PIPE_V>();
    Muls(steps, exponents, 8, count);
    PipeBarrier<PIPE_V>();
    Sub(steps, codes, steps, count);
    Adds(exponents, exponents, 117, count);
    PipeBarrier<PIPE_V>();
    Adds(steps, steps, 8, count);
    ShiftLeft(exponents, exponents, 23, count);
    PipeBarrier<PIPE_V>();
    Cast(values, steps, RoundMode::CAST_RINT, count);
    ShiftLeft(signs, signs, 31, count);
    PipeBarrier<PIPE_V>();
    Mul(to, values, exponents.ReinterpretCast<float>(), count);
    PipeBarrier<PIPE_V>();
    Add(steps, steps, signs, count);
    PipeBarrier<PIPE_V>();
    Choose<true, false>(to, mask, nan, to, count);
    PipeBarrier<PIPE_V>();
}

// Rounded to an integer, with the sign of `x`. From 2^23 on, the value in `limit`, floats are integers; NaN stays.
template <RoundMode MODE>
__aicore__ inline void RoundToInteger(
    const LocalTensor<float>& to, const LocalTensor<float>& x, const LocalTensor<int32_t>& whole,
    const LocalTensor<uint8_t>& mask, const LocalTensor<float>& limit, uint32_t count)
{
    const LocalTensor<uint32_t> sign = whole.ReinterpretCast<uint32_t>();
    Abs(to, x, count);
    PipeBarrier<PIPE_V>();
    Compare<CMPMODE::LT, true>(mask, to, limit, count);
    Cast(whole, x, MODE, count);
    PipeBarrier<PIPE_V>();
    Cast(to, whole, RoundMode::CAST_RINT, count);
    PipeBarrier<PIPE_V>();
    Abs(to, to, count);
    ShiftRight(sign, x.ReinterpretCast<uint32_t>(), 31u, count);
    PipeBarrier<PIPE_V>();
    ShiftLeft(sign, sign, 31u, count);
    PipeBarrier<PIPE_V>();
    Add(to.ReinterpretCast<int32_t>(), to.ReinterpretCast<int32_t>(), whole, count);
    PipeBarrier<PIPE_V>();
    Choose<false, false>(to, mask, to, x, count);
    PipeBarrier<PIPE_V>();
}

// Pairs of 4-bit codes, the first in the low bits, as integers from 0 to 255; `count` pairs.
__aicore__ inline void PairCodes(
    const LocalTensor<int32_t>& pairs, const LocalTensor<int32_t>& codes, const LocalTensor<half>& narrow,
    const LocalTensor<int16_t>& halves, const LocalTensor<int32_t>& shifted, uint32_t count)
{
    const LocalTensor<uint32_t> words = pairs.ReinterpretCast<uint32_t>();
    SetDeqScale(static_cast<half>(1.0));
    Cast(narrow, codes, RoundMode::CAST_NONE, count * 2);
    PipeBarrier<PIPE_V>();
    Cast(halves, narrow, RoundMode::CAST_RINT, count * 2);
    PipeBarrier<PIPE_V>();
    // The second code of a word moves down to the first, and what is above both goes.
    ShiftRight(shifted.ReinterpretCast<uint32_t>(), halves.ReinterpretCast<uint32_t>(), 12u, count);
    PipeBarrier<PIPE_V>();
    Or(pairs.ReinterpretCast<uint16_t>(), halves.ReinterpretCast<uint16_t>(), shifted.ReinterpretCast<uint16_t>(), count * 2);
    PipeBarrier<PIPE_V>();
    ShiftLeft(words, words, 24u, count);
    PipeBarrier<PIPE_V>();
    ShiftRight(words, words, 24u, count);
    PipeBarrier<PIPE_V>();
}

}  // namespace fusewright
