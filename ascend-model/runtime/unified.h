// Unified buffer of a core: its bytes, which of them hold something, and who touched each block of 32 last.
#pragma once

#include <cstdint>
#include <vector>

#include "order.h"
#include "report.h"
#include "touches.h"

namespace ascend_model {

// What a byte holds.
enum Held : uint8_t {
    NOTHING = 0,
    WRITTEN = 1,
    FILLER = 2,  // what a transfer leaves behind the last byte it was asked for
};

class Unified {
public:
    Unified(Report& report, Order& order) : report(report), order(order) {}

    // Nothing is in it any more.
    void BeginCore();
    // Makes room for `size` bytes.
    void Grow(uint32_t size);
    uint8_t* At(uint32_t offset) { return memory.data() + offset; }

    // `what` names the operand.
    void Read(const Instruction& by, const char* what, uint32_t offset, uint32_t bytes);
    void Write(const Instruction& by, const char* what, uint32_t offset, uint32_t bytes, Held held = WRITTEN);

private:
    struct Block {
        Touches reads[PIPES];
        Touches writes[PIPES];
    };

    void Mark(const Instruction& by, const char* what, bool writes, uint32_t offset, uint32_t bytes);

    Report& report;
    Order& order;
    std::vector<uint8_t> memory;
    std::vector<uint8_t> held;
    std::vector<Block> blocks;
};

}  // namespace ascend_model
