// Parameters of instructions. Fields hold what the interface's fields hold; values that do not fit are an error of
// the call that gave them, where the language would drop bits.
#pragma once

#include <cstdint>

#include "ascend_model/enums.h"
#include "ascend_model/runtime.h"

namespace AscendC {

// An argument that the interface takes as `T`, from any number: one that does not fit is reported.
template <typename T>
struct Narrow {
    T value;

    constexpr Narrow() : value(0) {}
    template <typename U>
    constexpr Narrow(U given) : value(static_cast<T>(given))
    {
        if (static_cast<U>(value) != given) {
            ascend_model::DoesNotFit(static_cast<int64_t>(given), sizeof(T));
        }
    }
    constexpr operator T() const { return value; }
};

using U8 = Narrow<uint8_t>;
using U16 = Narrow<uint16_t>;

struct UnaryRepeatParams {
    uint16_t dstBlkStride = 1;
    uint16_t srcBlkStride = 1;
    uint8_t dstRepStride = 8;
    uint8_t srcRepStride = 8;

    constexpr UnaryRepeatParams() = default;
    constexpr UnaryRepeatParams(U16 dstBlk, U16 srcBlk, U8 dstRep, U8 srcRep)
        : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep)
    {
    }
};

struct BinaryRepeatParams {
    uint8_t dstBlkStride = 1;
    uint8_t src0BlkStride = 1;
    uint8_t src1BlkStride = 1;
    uint8_t dstRepStride = 8;
    uint8_t src0RepStride = 8;
    uint8_t src1RepStride = 8;

    constexpr BinaryRepeatParams() = default;
    constexpr BinaryRepeatParams(U8 dstBlk, U8 src0Blk, U8 src1Blk, U8 dstRep, U8 src0Rep, U8 src1Rep)
        : dstBlkStride(dstBlk), src0BlkStride(src0Blk), src1BlkStride(src1Blk), dstRepStride(dstRep),
          src0RepStride(src0Rep), src1RepStride(src1Rep)
    {
    }
};

struct BrcbRepeatParams {
    uint16_t dstBlkStride = 1;
    uint16_t dstRepStride = 8;

    constexpr BrcbRepeatParams() = default;
    constexpr BrcbRepeatParams(U16 dstBlk, U16 dstRep) : dstBlkStride(dstBlk), dstRepStride(dstRep) {}
};

struct CopyRepeatParams {
    uint16_t dstStride = 1;
    uint16_t srcStride = 1;
    uint16_t dstRepeatSize = 8;
    uint16_t srcRepeatSize = 8;

    constexpr CopyRepeatParams() = default;
    constexpr CopyRepeatParams(U16 dst, U16 src, U16 dstRepeat, U16 srcRepeat)
        : dstStride(dst), srcStride(src), dstRepeatSize(dstRepeat), srcRepeatSize(srcRepeat)
    {
    }
};

// Blocks and the gaps between them. Of DataCopy: all in blocks of 32 bytes. Of DataCopyPad: the length in bytes, gaps
// in bytes on the side of global memory and in blocks of 32 bytes on the side of unified buffer.
struct DataCopyParams {
    uint16_t blockCount = 1;
    uint16_t blockLen = 0;
    uint16_t srcStride = 0;
    uint16_t dstStride = 0;

    constexpr DataCopyParams() = default;
    constexpr DataCopyParams(U16 count, U16 length, U16 source, U16 destination)
        : blockCount(count), blockLen(length), srcStride(source), dstStride(destination)
    {
    }
};

// As DataCopyParams of DataCopyPad, with room for more.
struct DataCopyExtParams {
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    uint32_t srcStride = 0;
    uint32_t dstStride = 0;
    uint32_t rsv = 0;

    constexpr DataCopyExtParams() = default;
    constexpr DataCopyExtParams(
        U16 count, Narrow<uint32_t> length, Narrow<uint32_t> source, Narrow<uint32_t> destination,
        Narrow<uint32_t> reserved)
        : blockCount(count), blockLen(length), srcStride(source), dstStride(destination), rsv(reserved)
    {
    }
};

struct DataCopyPadParams {
    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    uint64_t paddingValue = 0;

    constexpr DataCopyPadParams() = default;
    constexpr DataCopyPadParams(bool pad, U8 left, U8 right, uint64_t value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value)
    {
    }
};

template <typename T>
struct DataCopyPadExtParams {
    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    T paddingValue{};

    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool pad, U8 left, U8 right, T value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value)
    {
    }
    // The generic spelling `{false, 0, 0, 0}`, for types that are made of no number.
    template <typename U, typename = std::enable_if_t<!std::is_same_v<U, T> && std::is_arithmetic_v<U>>>
    DataCopyPadExtParams(bool pad, U8 left, U8 right, U value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(ascend_model::From<T>(value))
    {
    }
};

}  // namespace AscendC
