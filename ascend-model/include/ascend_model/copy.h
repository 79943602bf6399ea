// Transfers between global memory and unified buffer.
#pragma once

#include "ascend_model/params.h"
#include "ascend_model/tensor.h"

namespace ascend_model {

constexpr int64_t BLOCK = 32;

// Copies of whole blocks of 32 bytes, `blocks` runs of `length` of them.
template <typename T>
Transfer Whole(const char* api, int64_t blocks, int64_t bytes, int64_t fromGap, int64_t toGap)
{
    Transfer call{};
    call.api = api;
    call.element = sizeof(T);
    call.blocks = blocks;
    call.bytes = bytes;
    call.fromGap = fromGap;
    call.toGap = toGap;
    return call;
}

template <typename T>
Transfer Padded(const AscendC::DataCopyExtParams& shape, int64_t fromUnit, int64_t toUnit)
{
    static_assert(sizeof(T) == 0 || __NPU_ARCH__ != 2002, "DataCopyPad: not on this chip");
    Transfer call = Whole<T>(
        "DataCopyPad", shape.blockCount, shape.blockLen, shape.srcStride * fromUnit, shape.dstStride * toUnit);
    call.padded = true;
    return call;
}

}  // namespace ascend_model

namespace AscendC {

template <typename T>
inline void DataCopy(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t count)
{
    auto call = ascend_model::Whole<T>("DataCopy", 1, static_cast<int64_t>(count) * sizeof(T), 0, 0);
    call.ub = to.At();
    call.global = from.At();
    ascend_model::CopyIn(call);
}

template <typename T>
inline void DataCopy(const GlobalTensor<T>& to, const LocalTensor<T>& from, uint32_t count)
{
    auto call = ascend_model::Whole<T>("DataCopy", 1, static_cast<int64_t>(count) * sizeof(T), 0, 0);
    call.ub = from.At();
    call.global = to.At();
    ascend_model::CopyOut(call);
}

template <typename T>
inline void DataCopy(const LocalTensor<T>& to, const LocalTensor<T>& from, uint32_t count)
{
    auto call = ascend_model::Whole<T>("DataCopy", 1, static_cast<int64_t>(count) * sizeof(T), 0, 0);
    call.ub = to.At();
    call.ubFrom = from.At();
    ascend_model::CopyWithin(call);
}

template <typename T>
inline void DataCopy(const LocalTensor<T>& to, const GlobalTensor<T>& from, const DataCopyParams& shape)
{
    auto call = ascend_model::Whole<T>(
        "DataCopy", shape.blockCount, shape.blockLen * ascend_model::BLOCK, shape.srcStride * ascend_model::BLOCK,
        shape.dstStride * ascend_model::BLOCK);
    call.ub = to.At();
    call.global = from.At();
    ascend_model::CopyIn(call);
}

template <typename T>
inline void DataCopy(const GlobalTensor<T>& to, const LocalTensor<T>& from, const DataCopyParams& shape)
{
    auto call = ascend_model::Whole<T>(
        "DataCopy", shape.blockCount, shape.blockLen * ascend_model::BLOCK, shape.srcStride * ascend_model::BLOCK,
        shape.dstStride * ascend_model::BLOCK);
    call.ub = from.At();
    call.global = to.At();
    ascend_model::CopyOut(call);
}

template <typename T>
inline void DataCopy(const LocalTensor<T>& to, const LocalTensor<T>& from, const DataCopyParams& shape)
{
    auto call = ascend_model::Whole<T>(
        "DataCopy", shape.blockCount, shape.blockLen * ascend_model::BLOCK, shape.srcStride * ascend_model::BLOCK,
        shape.dstStride * ascend_model::BLOCK);
    call.ub = to.At();
    call.ubFrom = from.At();
    ascend_model::CopyWithin(call);
}

template <typename T>
inline void DataCopyPad(
    const LocalTensor<T>& to, const GlobalTensor<T>& from, const DataCopyExtParams& shape,
    const DataCopyPadExtParams<T>& padding)
{
    auto call = ascend_model::Padded<T>(shape, 1, ascend_model::BLOCK);
    call.ub = to.At();
    call.global = from.At();
    call.pads = padding.isPad;
    call.left = padding.leftPadding;
    call.right = padding.rightPadding;
    static_assert(sizeof(T) <= sizeof(call.padding), "an element of 8 bytes at most");
    __builtin_memcpy(&call.padding, &padding.paddingValue, sizeof(T));
    ascend_model::CopyIn(call);
}

template <typename T>
inline void DataCopyPad(
    const LocalTensor<T>& to, const GlobalTensor<T>& from, const DataCopyParams& shape,
    const DataCopyPadParams& padding)
{
    auto call = ascend_model::Padded<T>(
        {shape.blockCount, shape.blockLen, shape.srcStride, shape.dstStride, 0}, 1, ascend_model::BLOCK);
    call.ub = to.At();
    call.global = from.At();
    call.pads = padding.isPad;
    call.left = padding.leftPadding;
    call.right = padding.rightPadding;
    call.padding = padding.paddingValue;
    ascend_model::CopyIn(call);
}

template <typename T>
inline void DataCopyPad(const GlobalTensor<T>& to, const LocalTensor<T>& from, const DataCopyExtParams& shape)
{
    auto call = ascend_model::Padded<T>(shape, ascend_model::BLOCK, 1);
    call.ub = from.At();
    call.global = to.At();
    ascend_model::CopyOut(call);
}

template <typename T>
inline void DataCopyPad(const GlobalTensor<T>& to, const LocalTensor<T>& from, const DataCopyParams& shape)
{
    DataCopyPad(to, from, DataCopyExtParams{shape.blockCount, shape.blockLen, shape.srcStride, shape.dstStride, 0});
}

// Writes scalar stores to global memory out of the core's cache.
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

template <typename T, CacheLine line, DcciDst to = DcciDst::CACHELINE_OUT>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T>& at)
{
    ascend_model::CleanCache(at.At(), line == CacheLine::ENTIRE_DATA_CACHE);
}

}  // namespace AscendC
