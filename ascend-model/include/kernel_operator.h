// A stand-in for the header of Ascend C, for the host: the documented interface, written from public documentation.
//
// Sources that include it compile with a C++17 compiler of the host and run on the model in libascend_model.so. Nothing
// here comes from the vendor's headers, nothing was compared with a device, and what it computes is SIMULATED.
// README.md of this folder lists what is modelled and what is not.
#pragma once

#include "ascend_model/chip.h"
#include "ascend_model/keywords.h"
#include "ascend_model/numbers.h"
#include "ascend_model/enums.h"
#include "ascend_model/params.h"
#include "ascend_model/runtime.h"
#include "ascend_model/dtypes.h"
#include "ascend_model/tensor.h"
#include "ascend_model/sync.h"
#include "ascend_model/pipe.h"
#include "ascend_model/copy.h"
#include "ascend_model/mask.h"
#include "ascend_model/elementwise.h"
#include "ascend_model/cast.h"
#include "ascend_model/reduce.h"
#include "ascend_model/compare.h"
#include "ascend_model/gather.h"
