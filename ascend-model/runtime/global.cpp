#include "global.h"

#include <algorithm>
#include <cstring>

namespace ascend_model {

namespace {

// Of the scalar pipe's cache.
constexpr uint64_t LINE_BYTES = 64;

}  // namespace

bool Global::Add(uint64_t base, uint64_t bytes)
{
    const auto next = regions.lower_bound(base);
    if (next != regions.end() && next->first < base + std::max<uint64_t>(bytes, 1)) {
        return false;
    }
    if (next != regions.begin()) {
        const Region& before = std::prev(next)->second;
        if (before.base + before.bytes > base) {
            return false;
        }
    }
    regions.emplace(base, Region{base, bytes, std::vector<uint8_t>(bytes, NOTHING), {}});
    return true;
}

bool Global::Remove(uint64_t base)
{
    return regions.erase(base) == 1;
}

const Global::Region* Global::Find(uint64_t at) const
{
    auto after = regions.upper_bound(at);
    if (after == regions.begin()) {
        return nullptr;
    }
    const Region& region = std::prev(after)->second;
    return at - region.base <= region.bytes ? &region : nullptr;
}

void Global::Written(uint64_t at, uint64_t bytes)
{
    const auto after = regions.upper_bound(at);
    if (after == regions.begin()) {
        return;
    }
    Region& region = std::prev(after)->second;
    const uint64_t offset = at - region.base;
    if (offset < region.bytes) {
        std::memset(region.written.data() + offset, WRITTEN, std::min(bytes, region.bytes - offset));
    }
}

bool Global::Readable(uint64_t at, uint64_t bytes) const
{
    const Region* const region = Find(at);
    if (region == nullptr || at - region->base + bytes > region->bytes) {
        return false;
    }
    const uint8_t* const first = region->written.data() + (at - region->base);
    return std::all_of(first, first + bytes, [](uint8_t held) { return held == WRITTEN; });
}

void Global::BeginLaunch()
{
    dirty.clear();
    storedBy.clear();
    for (auto& [base, region] : regions) {
        region.blocks.clear();
        region.blocks.shrink_to_fit();
    }
}

void Global::EndCore()
{
    if (!dirty.empty()) {
        report.Note(
            "SetValue",
            "%llu lines of scalar stores to global memory are left in the cache: DataCacheCleanAndInvalid is missing",
            static_cast<unsigned long long>(dirty.size()));
    }
    dirty.clear();
}

void Global::Dirty(const Instruction& by, uint64_t at, uint64_t bytes, uint32_t core)
{
    for (uint64_t line = at / LINE_BYTES; line <= (at + bytes - 1) / LINE_BYTES; ++line) {
        dirty.insert(line);
        const auto [known, added] = storedBy.emplace(line, core);
        if (!added && known->second != core) {
            report.Add(
                by.api, "cores %u and %u store to the same line of 64 bytes of global memory: one would undo the other",
                known->second, core);
        }
    }
}

void Global::Clean(uint64_t at, bool everything)
{
    if (everything) {
        dirty.clear();
    } else {
        dirty.erase(at / LINE_BYTES);
    }
}

Global::Region& Global::Hold(const Instruction& by, uint64_t at, uint64_t bytes, bool writes)
{
    const Region* const region = Find(at);
    const char* const verb = writes ? "writes" : "reads";
    if (region == nullptr || (bytes > 0 && at - region->base == region->bytes)) {
        report.Fault(
            by.api, "%s %llu bytes of global memory at 0x%llx, which is no memory of the device", verb,
            static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(at));
    }
    const uint64_t offset = at - region->base;
    if (offset + bytes > region->bytes) {
        report.Fault(
            by.api, "%s [%llu, %llu) of global memory of %llu bytes", verb, static_cast<unsigned long long>(offset),
            static_cast<unsigned long long>(offset + bytes), static_cast<unsigned long long>(region->bytes));
    }
    return const_cast<Region&>(*region);
}

void Global::Read(const Instruction& by, uint64_t at, uint64_t bytes)
{
    Region& region = Hold(by, at, bytes, false);
    const uint64_t offset = at - region.base;
    const uint8_t* const first = region.written.data() + offset;
    const uint8_t* const gap = std::find_if(first, first + bytes, [](uint8_t held) { return held != WRITTEN; });
    if (gap != first + bytes) {
        report.Add(
            by.api, "reads byte %llu of global memory of %llu bytes, which nothing has written",
            static_cast<unsigned long long>(offset + (gap - first)), static_cast<unsigned long long>(region.bytes));
    }
    Mark(by, region, at, bytes, false);
}

void Global::Write(const Instruction& by, uint64_t at, uint64_t bytes)
{
    Region& region = Hold(by, at, bytes, true);
    std::memset(region.written.data() + (at - region.base), WRITTEN, bytes);
    Mark(by, region, at, bytes, true);
}

void Global::Mark(const Instruction& by, Region& region, uint64_t at, uint64_t bytes, bool writes)
{
    const uint64_t start = region.base / BLOCK_BYTES * BLOCK_BYTES;
    if (region.blocks.empty()) {
        region.blocks.resize((region.base + region.bytes - start + BLOCK_BYTES - 1) / BLOCK_BYTES);
    }
    const Access access{by, "global memory", "operand", writes, at - region.base, bytes};
    const uint32_t own = by.pipe == Pipe::S ? 1 : 0;
    ForBlocks(at - start, bytes, [&](uint64_t index, uint32_t mask) {
        Block& block = region.blocks[index];
        const auto meet = [&](Pipe pipe, const Touches& earlier, bool earlierWrites) {
            if (MetLater(earlier, mask, 0)) {
                Meet(report, order, access, pipe, earlier, earlierWrites, mask);
            }
        };
        meet(Pipe::MTE3, block.writes[0], true);
        meet(Pipe::S, block.writes[1], true);
        if (writes) {
            meet(Pipe::MTE2, block.reads[0], false);
            meet(Pipe::S, block.reads[1], false);
        }
        (writes ? block.writes : block.reads)[own].Put(by.number, mask);
    });
}

}  // namespace ascend_model
