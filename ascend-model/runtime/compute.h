// What instructions compute, on elements side by side.
#pragma once

#include <cstdint>

#include "machine.h"

namespace ascend_model {

struct Immediate {
    uint64_t scalar;
    bool rounds;
    Machine* machine;
};

// `a` and `b` are read where the instruction has such sources; `to` may be one of them.
using Computation = void (*)(uint8_t* to, const uint8_t* a, const uint8_t* b, const Immediate& with, uint64_t n);

Computation ComputationOf(Machine& machine, const char* api, Op op, DType type);

// `value` up to the launch's jitter off, in units in the last place of a float.
float Jittered(Machine& machine, float value);

}  // namespace ascend_model
