// Global memory: the parts that kernels may touch, which of their bytes were written, and who touched what last.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "order.h"
#include "report.h"
#include "touches.h"
#include "unified.h"

namespace ascend_model {

class Global {
public:
    Global(Report& report, Order& order) : report(report), order(order) {}

    bool Add(uint64_t base, uint64_t bytes);
    bool Remove(uint64_t base);
    void Written(uint64_t at, uint64_t bytes);
    bool Readable(uint64_t at, uint64_t bytes) const;
    // Forgets who touched what.
    void BeginLaunch();
    // Scalar stores that were never written out of the cache are findings.
    void EndCore();
    // A scalar store of a core, which stays in its cache until the line is cleaned.
    void Dirty(const Instruction& by, uint64_t at, uint64_t bytes, uint32_t core);
    void Clean(uint64_t at, bool everything);

    void Read(const Instruction& by, uint64_t at, uint64_t bytes);
    void Write(const Instruction& by, uint64_t at, uint64_t bytes);

private:
    // Global memory is read by MTE2 and S, and written by MTE3 and S: transfers come first, scalars second.
    struct Block {
        Touches reads[2];
        Touches writes[2];
    };

    struct Region {
        uint64_t base;
        uint64_t bytes;
        std::vector<uint8_t> written;
        std::vector<Block> blocks;
    };

    const Region* Find(uint64_t at) const;
    Region& Hold(const Instruction& by, uint64_t at, uint64_t bytes, bool writes);
    void Mark(const Instruction& by, Region& region, uint64_t at, uint64_t bytes, bool writes);

    Report& report;
    Order& order;
    std::map<uint64_t, Region> regions;
    std::set<uint64_t> dirty;               // lines of the core that runs
    std::map<uint64_t, uint32_t> storedBy;  // which core stored to a line
};

}  // namespace ascend_model
