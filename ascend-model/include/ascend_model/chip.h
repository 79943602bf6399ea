// Which chip a source is compiled for: `-D__NPU_ARCH__=2201|2002|3510` and, where the usual does not fit,
// `-DASCEND_MODEL_UB_BYTES=…`.
#pragma once

#ifndef __NPU_ARCH__
#error "no chip: compile with -D__NPU_ARCH__=2201 (910B and 910C), 2002 (310P) or 3510 (950)"
#endif

// Bytes of unified buffer that a kernel may use. On 2201 the last 256 B are not for kernels, and 8 KB are reserved for
// some calls unless the compiler is told otherwise.
#if __NPU_ARCH__ == 2201
#define __CCE_AICORE__ 220
#define __DAV_C220_VEC__ 1
#ifndef ASCEND_MODEL_UB_BYTES
#define ASCEND_MODEL_UB_BYTES 188160
#endif
#elif __NPU_ARCH__ == 2002
#define __CCE_AICORE__ 200
#define __DAV_M200__ 1
#ifndef ASCEND_MODEL_UB_BYTES
#define ASCEND_MODEL_UB_BYTES 262144
#endif
#elif __NPU_ARCH__ == 3510
#define __CCE_AICORE__ 310
#define __DAV_C310__ 1
#ifndef ASCEND_MODEL_UB_BYTES
#define ASCEND_MODEL_UB_BYTES 253952
#endif
#else
#error "no such chip: __NPU_ARCH__ is 2201 (910B and 910C), 2002 (310P) or 3510 (950)"
#endif
