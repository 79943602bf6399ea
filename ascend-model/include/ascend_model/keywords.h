// Keywords of the language, as a compiler of the host takes them.
//
// With `-DASCEND_MODEL_ADDRESS_SPACES` clang gives pointers to global memory and to buffers types of their own, so that
// casts between them are errors, as they are for the device's compiler. Such a build is for checking alone.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef ASCEND_MODEL_ADDRESS_SPACES
#define __gm__ __attribute__((address_space(1)))
#define __ubuf__ __attribute__((address_space(2)))
#else
#define __gm__
#define __ubuf__
#endif

#define __aicore__
#define __global__ __attribute__((visibility("default")))
#define __vector__
#define __schedmode__(mode)
#define __inline_device__ inline

#define GM_ADDR __gm__ uint8_t*

// Which cores a kernel runs on. The model has vector cores alone.
enum KernelMetaType {
    KERNEL_TYPE_AIV_ONLY = 0,
};
#define KERNEL_TASK_TYPE_DEFAULT(type) \
    static_assert((type) == KERNEL_TYPE_AIV_ONLY, "the model runs kernels for vector cores alone")
#define KERNEL_TASK_TYPE(key, type) KERNEL_TASK_TYPE_DEFAULT(type)
