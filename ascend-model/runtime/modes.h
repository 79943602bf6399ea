// Which rounding modes the documentation lists for which conversion.
#pragma once

#include "machine.h"
#include "round.h"

namespace ascend_model {

// The rounding that `mode` means for a pair of types, or the launch stops.
Rounding RoundingOf(Machine& machine, const char* api, DType from, DType to, uint8_t mode);

}  // namespace ascend_model
