#include "unified.h"

#include <algorithm>
#include <cstring>

namespace ascend_model {

namespace {

// Signalling nothing: NaN in every type that has one.
constexpr uint8_t STALE = 0xff;
// Eight bytes that hold something.
constexpr uint64_t ALL_WRITTEN = 0x0101010101010101 * WRITTEN;

}  // namespace

void Unified::BeginCore()
{
    memory.clear();
    held.clear();
    blocks.clear();
}

void Unified::Grow(uint32_t size)
{
    memory.resize(std::max<size_t>(memory.size(), size), STALE);
    held.resize(memory.size(), NOTHING);
    blocks.resize((memory.size() + BLOCK_BYTES - 1) / BLOCK_BYTES);
}

void Unified::Read(const Instruction& by, const char* what, uint32_t offset, uint32_t bytes)
{
    if (bytes == 0) {
        return;
    }
    const uint8_t* const state = held.data() + offset;
    uint32_t i = 0;
    uint64_t eight = 0;
    while (i + sizeof(eight) <= bytes && (std::memcpy(&eight, state + i, sizeof(eight)), eight == ALL_WRITTEN)) {
        i += sizeof(eight);
    }
    while (i < bytes && state[i] == WRITTEN) {
        ++i;
    }
    if (i < bytes && state[i] == NOTHING) {
        report.Add(
            by.api, "reads byte %u of unified buffer, which nothing has written (%s [%u, %u), byte %u of it)",
            offset + i, what, offset, offset + bytes, i);
    } else if (i < bytes) {
        report.Add(
            by.api,
            "reads byte %u of unified buffer, which is behind the end of what a transfer brought (%s [%u, %u), byte "
            "%u of it)",
            offset + i, what, offset, offset + bytes, i);
    }
    Mark(by, what, false, offset, bytes);
}

void Unified::Write(const Instruction& by, const char* what, uint32_t offset, uint32_t bytes, Held as)
{
    if (bytes == 0) {
        return;
    }
    std::memset(held.data() + offset, as, bytes);
    Mark(by, what, true, offset, bytes);
}

void Unified::Mark(const Instruction& by, const char* what, bool writes, uint32_t offset, uint32_t bytes)
{
    const Access access{by, "unified buffer", what, writes, offset, bytes};
    ForBlocks(offset, bytes, [&](uint64_t index, uint32_t mask) {
        Block& block = blocks[index];
        // All that is noted here was done by this core.
        for (uint32_t p = 0; p < PIPES; ++p) {
            if (MetLater(block.writes[p], mask, by.start[p])) {
                Meet(report, order, access, static_cast<Pipe>(p), block.writes[p], true, mask);
            }
            if (writes && MetLater(block.reads[p], mask, by.start[p])) {
                Meet(report, order, access, static_cast<Pipe>(p), block.reads[p], false, mask);
            }
        }
        Touches& mine = (writes ? block.writes : block.reads)[static_cast<uint32_t>(by.pipe)];
        mine.Put(by.number, mask);
    });
}

}  // namespace ascend_model
