// Copies between global memory and unified buffer on chips that copy whole blocks of 32 bytes alone: what is left behind
// the last whole block goes element by element through the scalar unit, so that nothing beyond the count is touched.
#pragma once

#include "tiles.h"

namespace fusewright::whole {

// `count` consecutive elements.
template <typename T>
__aicore__ inline void CopyIn(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t count)
{
    constexpr uint32_t PER_BLOCK = 32 / sizeof(T);
    const uint32_t whole = count / PER_BLOCK * PER_BLOCK;
    if (whole > 0) {
        DataCopy(to, from, whole);
    }
    if (whole < count) {
        // Who has read this buffer before, and who reads it next, are no scalar unit.
        PipeBarrier<PIPE_ALL>();
        for (uint32_t i = whole; i < count; ++i) {
            to.SetValue(i, from.GetValue(i));
        }
        PipeBarrier<PIPE_ALL>();
    }
}

template <typename T>
__aicore__ inline void CopyOut(const GlobalTensor<T>& to, const LocalTensor<T>& from, uint32_t count)
{
    constexpr uint32_t PER_BLOCK = 32 / sizeof(T);
    const uint32_t whole = count / PER_BLOCK * PER_BLOCK;
    if (whole > 0) {
        DataCopy(to, from, whole);
    }
    if (whole < count) {
        PipeBarrier<PIPE_ALL>();
        for (uint32_t i = whole; i < count; ++i) {
            to.SetValue(i, from.GetValue(i));
        }
        // What the scalar unit wrote is in its cache, in one line or in two.
        DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE>(to[whole]);
        DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE>(to[count - 1]);
        PipeBarrier<PIPE_ALL>();
    }
}

// Elements from block to block in unified buffer, where each begins a new 32 bytes.
template <typename T>
__aicore__ inline uint32_t PitchInside(uint32_t count)
{
    constexpr uint32_t PER_BLOCK = 32 / sizeof(T);
    return (count + PER_BLOCK - 1) / PER_BLOCK * PER_BLOCK;
}

// Whether blocks are whole, and their distance is one that an instruction can have.
template <typename T>
__aicore__ inline bool AreWhole(uint32_t count, int64_t pitch)
{
    constexpr int64_t PER_BLOCK = 32 / sizeof(T);
    return count % PER_BLOCK == 0 && pitch % PER_BLOCK == 0 && (pitch - count) / PER_BLOCK <= 65535;
}

// `blocks` times `count` elements that start `pitch` elements apart in global memory; side by side in unified buffer.
template <typename T>
__aicore__ inline void CopyIn(
    const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t blocks, uint32_t count, int64_t pitch)
{
    constexpr uint32_t PER_BLOCK = 32 / sizeof(T);
    if (AreWhole<T>(count, pitch)) {
        const DataCopyParams shape{
            static_cast<uint16_t>(blocks), static_cast<uint16_t>(count / PER_BLOCK),
            static_cast<uint16_t>((pitch - count) / PER_BLOCK), 0};
        DataCopy(to, from, shape);
        return;
    }
    for (uint32_t i = 0; i < blocks; ++i) {
        CopyIn(to[i * PitchInside<T>(count)], from[i * pitch], count);
    }
}

template <typename T>
__aicore__ inline void CopyOut(
    const GlobalTensor<T>& to, const LocalTensor<T>& from, uint32_t blocks, uint32_t count, int64_t pitch)
{
    constexpr uint32_t PER_BLOCK = 32 / sizeof(T);
    if (AreWhole<T>(count, pitch)) {
        const DataCopyParams shape{
            static_cast<uint16_t>(blocks), static_cast<uint16_t>(count / PER_BLOCK), 0,
            static_cast<uint16_t>((pitch - count) / PER_BLOCK)};
        DataCopy(to, from, shape);
        return;
    }
    for (uint32_t i = 0; i < blocks; ++i) {
        CopyOut(to[i * pitch], from[i * PitchInside<T>(count)], count);
    }
}

// What stays in unified buffer for the whole kernel.
template <typename T>
__aicore__ inline void LoadFixed(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t count)
{
    AwaitVectors();
    CopyIn(to, from, count);
    const TEventID loaded = GetTPipePtr()->FetchEventID(HardEvent::MTE2_V);
    SetFlag<HardEvent::MTE2_V>(loaded);
    WaitFlag<HardEvent::MTE2_V>(loaded);
}

}  // namespace fusewright::whole
