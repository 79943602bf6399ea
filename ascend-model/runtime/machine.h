// The model as a whole. There is one, and launches on it run one at a time.
#pragma once

#include <cstdint>
#include <mutex>

#include "../include/ascend_model.h"
#include "buffers.h"
#include "global.h"
#include "order.h"
#include "report.h"
#include "unified.h"

namespace ascend_model {

// What the mask and scale registers hold.
struct Registers {
    bool counter = false;
    uint64_t high = ~uint64_t{0};
    uint64_t low = ~uint64_t{0};
    bool spoiled = false;  // a call that sets masks of its own has left its own in them
    bool scaled = false;
    uint16_t scale = 0;
};

struct Machine {
    Report report;
    Order order{report};
    Global global{report, order};
    Unified unified{report, order};
    Buffers buffers{report, order};
    Registers registers;
    ascend_model_options options{};
    ascend_model_counters counters{};
    uint64_t random = 0;
    int64_t block = 0;
    int64_t blockCount = 0;
    bool running = false;
    std::recursive_mutex lock;

    // Whether what no document says is to be the other plausible result.
    bool OtherUnknown() const { return options.unknown != 0 && buffers.TheChip().arch != 3510; }
    // A number of the seeded sequence.
    uint64_t Random();
    // An operand of `bytes` at `offset` in `tensor`: inside it and aligned to `alignment`, or the launch stops.
    void CheckPlace(
        const char* api, const char* what, const Span& tensor, uint64_t offset, uint64_t bytes, uint32_t alignment);
};

Machine& TheMachine();

}  // namespace ascend_model
