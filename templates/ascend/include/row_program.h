// Building blocks of generated row programs.
//
// All counts are elements. Tensors in unified buffer start at multiples of 32 bytes; lanes beyond the count are never
// read. Vector instructions of one pipe may overlap: a function of several dependent ones ends with its results visible
// to the next, one of independent ones does not, and the caller sets the barrier.
//
// A scalar is a block of eight copies of itself, so that a vector instruction takes it for any number of lanes.
#pragma once

#include "combine.h"
#include "convert.h"
#include "masks.h"
#include "reduce.h"
#include "tiles.h"
