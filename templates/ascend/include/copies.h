// Copies between global memory and unified buffer of any number of bytes.
#pragma once

#include "tiles.h"

namespace fusewright {

// `count` consecutive elements.
template <typename T>
__aicore__ inline void CopyIn(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t count)
{
    const DataCopyExtParams shape{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    const DataCopyPadExtParams<T> noPadding{false, 0, 0, 0};
    DataCopyPad(to, from, shape, noPadding);
}

// `blocks` times `count` elements that start `pitch` elements apart in global memory; side by side in unified buffer,
// which asks for whole 32 bytes each.
template <typename T>
__aicore__ inline void CopyIn(
    const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t blocks, uint32_t count, int64_t pitch)
{
    const uint32_t gap = static_cast<uint32_t>((pitch - count) * static_cast<int64_t>(sizeof(T)));
    const DataCopyExtParams shape{
        static_cast<uint16_t>(blocks), static_cast<uint32_t>(count * sizeof(T)), gap, 0, 0};
    const DataCopyPadExtParams<T> noPadding{false, 0, 0, 0};
    DataCopyPad(to, from, shape, noPadding);
}

template <typename T>
__aicore__ inline void CopyOut(const GlobalTensor<T>& to, const LocalTensor<T>& from, uint32_t count)
{
    const DataCopyExtParams shape{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    DataCopyPad(to, from, shape);
}

template <typename T>
__aicore__ inline void CopyOut(
    const GlobalTensor<T>& to, const LocalTensor<T>& from, uint32_t blocks, uint32_t count, int64_t pitch)
{
    const uint32_t gap = static_cast<uint32_t>((pitch - count) * static_cast<int64_t>(sizeof(T)));
    const DataCopyExtParams shape{
        static_cast<uint16_t>(blocks), static_cast<uint32_t>(count * sizeof(T)), 0, gap, 0};
    DataCopyPad(to, from, shape);
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

}  // namespace fusewright
