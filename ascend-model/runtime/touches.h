// Who touched the bytes of a block of 32 last, pipe by pipe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "order.h"

namespace ascend_model {

constexpr uint32_t BLOCK_BYTES = 32;

// Bytes of a block, one bit each, and the instruction that touched them.
struct Touch {
    uint32_t number = 0;
    uint32_t bytes = 0;
};

// The last instruction of a pipe that touched some of a block's bytes, and the last that touched some of the others.
struct Touches {
    Touch last;
    Touch before;

    void Put(uint32_t number, uint32_t bytes)
    {
        if (last.number != number) {
            const uint32_t rest = last.bytes & ~bytes;
            before.bytes &= ~bytes;
            if (rest != 0) {
                before.bytes |= rest;
                before.number = std::max(before.number, last.number);
            }
            last.bytes = 0;
        }
        last.number = number;
        last.bytes |= bytes;
    }
};

// Whether one of these met the same bytes, later than instruction `known` of its pipe. Cheap, and nearly always false.
inline bool MetLater(const Touches& earlier, uint32_t mask, uint32_t known)
{
    return ((earlier.last.bytes & mask) != 0 && earlier.last.number > known) ||
           ((earlier.before.bytes & mask) != 0 && earlier.before.number > known);
}

// Splits [offset, offset + bytes) into blocks: calls `each(block, mask)`.
template <typename Each>
void ForBlocks(uint64_t offset, uint64_t bytes, const Each& each)
{
    const uint64_t end = offset + bytes;
    for (uint64_t at = offset; at < end;) {
        const uint32_t from = static_cast<uint32_t>(at % BLOCK_BYTES);
        const uint64_t room = BLOCK_BYTES - from;
        const uint32_t to = end - at < room ? from + static_cast<uint32_t>(end - at) : BLOCK_BYTES;
        const uint32_t upper = to == BLOCK_BYTES ? ~0U : (1U << to) - 1;
        each(at / BLOCK_BYTES, upper & ~((1U << from) - 1));
        at += to - from;
    }
}

// An access that is being made, for the text of what is wrong with it.
struct Access {
    const Instruction& by;
    const char* memory;
    const char* what;
    bool writes;
    uint64_t offset;
    uint64_t bytes;
};

// Reports the access where an earlier one of `pipe` met the same bytes and nothing orders the two.
void Meet(Report& report, const Order& order, const Access& access, Pipe pipe, const Touches& earlier,
          bool earlierWrites, uint32_t mask);

}  // namespace ascend_model
