// The runtime interface that this library stands in for: names, types and numbers as the vendor's public documentation has
// them. Written by hand; no header of CANN was used.
//
// `ACL_VERSION` says which version is stood in for: 810, 850 or 910. Older ones lack the functions that came later.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef ACL_VERSION
#define ACL_VERSION 910
#endif

#pragma GCC visibility push(default)
extern "C" {

using aclError = int;
using aclrtContext = void*;
using aclrtStream = void*;
using aclrtEvent = void*;
using aclrtBinHandle = void*;
using aclrtFuncHandle = void*;
using aclrtArgsHandle = void*;
using aclrtParamHandle = void*;
using aclmdlRI = void*;
using aclrtHostFunc = void (*)(void* data);

constexpr aclError ACL_SUCCESS = 0;
constexpr aclError ACL_ERROR_INVALID_PARAM = 100000;
constexpr aclError ACL_ERROR_UNINITIALIZE = 100001;
constexpr aclError ACL_ERROR_REPEAT_INITIALIZE = 100002;
constexpr aclError ACL_ERROR_INVALID_FILE = 100003;
constexpr aclError ACL_ERROR_RT_PARAM_INVALID = 107000;
constexpr aclError ACL_ERROR_RT_INVALID_DEVICEID = 107001;
constexpr aclError ACL_ERROR_RT_CONTEXT_NULL = 107002;
constexpr aclError ACL_ERROR_RT_STREAM_CONTEXT = 107003;
constexpr aclError ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID = 107006;
constexpr aclError ACL_ERROR_RT_INVALID_HANDLE = 107017;
constexpr aclError ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000;
constexpr aclError ACL_ERROR_RT_MEMORY_ALLOCATION = 207001;
constexpr aclError ACL_ERROR_RT_MEMORY_FREE = 207002;
constexpr aclError ACL_ERROR_INTERNAL_ERROR = 500000;
constexpr aclError ACL_ERROR_RT_MODEL_EXECUTE = 507011;
constexpr aclError ACL_ERROR_RT_VECTOR_CORE_EXCEPTION = 507035;

enum aclrtMemMallocPolicy { ACL_MEM_MALLOC_HUGE_FIRST = 0 };
enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE = 1,
    ACL_MEMCPY_DEVICE_TO_HOST = 2,
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
};
enum aclrtMemAttr { ACL_DDR_MEM = 0, ACL_HBM_MEM = 1 };
enum aclrtDevAttr {
    ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
    ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE = 204,
    ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
    ACL_DEV_ATTR_L2_CACHE_SIZE = 302,
    ACL_DEV_ATTR_NPU_ARCH = 601,
};
enum aclrtStreamStatus { ACL_STREAM_STATUS_COMPLETE = 0, ACL_STREAM_STATUS_NOT_READY = 1 };
enum aclrtEventRecordedStatus { ACL_EVENT_RECORDED_STATUS_NOT_READY = 0, ACL_EVENT_RECORDED_STATUS_COMPLETE = 1 };
enum aclmdlRICaptureMode {
    ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0,
    ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1,
    ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2,
};
enum aclmdlRICaptureStatus {
    ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
    ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
    ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2,
};

constexpr uint32_t ACL_EVENT_SYNC = 1;
constexpr uint32_t ACL_EVENT_TIME_LINE = 8;
constexpr int ACL_RT_BINARY_LOAD_OPT_MAGIC = 2;
constexpr uint32_t ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE = 0x41415246;

struct aclrtBinaryLoadOption {
    int type;
    uint32_t value[4];
};
struct aclrtBinaryLoadOptions {
    aclrtBinaryLoadOption* options;
    size_t numOpt;
};
struct aclrtLaunchKernelAttr {
    int id;
    uint32_t value[4];
};
struct aclrtLaunchKernelCfg {
    aclrtLaunchKernelAttr* attrs;
    size_t numAttrs;
};
struct aclrtPlaceHolderInfo {
    uint32_t addrOffset;
    uint32_t dataOffset;
};

// That this is no runtime of a device; and how a function of the host says that it wrote memory of the device.
void fusewright_simulated(const void* at, size_t bytes);

aclError aclInit(const char* config);
aclError aclFinalize();
const char* aclGetRecentErrMsg();
aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch);
const char* aclrtGetSocName();
aclError aclrtGetDeviceCount(uint32_t* count);
aclError aclrtSetDevice(int32_t device);
aclError aclrtResetDevice(int32_t device);
aclError aclrtGetDevice(int32_t* device);
aclError aclrtSynchronizeDevice();
aclError aclrtGetMemInfo(aclrtMemAttr of, size_t* free, size_t* total);

aclError aclrtCreateContext(aclrtContext* context, int32_t device);
aclError aclrtDestroyContext(aclrtContext context);
aclError aclrtGetCurrentContext(aclrtContext* context);
aclError aclrtSetCurrentContext(aclrtContext context);

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status);
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag);
aclError aclrtDestroyEvent(aclrtEvent event);
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status);
aclError aclrtSynchronizeEvent(aclrtEvent event);
aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end);

aclError aclrtMalloc(void** address, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtFree(void* address);
aclError aclrtMallocHost(void** address, size_t size);
aclError aclrtFreeHost(void* address);
aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t count, aclrtMemcpyKind kind);
aclError aclrtMemcpyAsync(
    void* to, size_t room, const void* from, size_t count, aclrtMemcpyKind kind, aclrtStream stream);
aclError aclrtMemset(void* at, size_t room, int32_t value, size_t count);
aclError aclrtMemsetAsync(void* at, size_t room, int32_t value, size_t count, aclrtStream stream);

aclError aclrtBinaryLoadFromFile(const char* path, aclrtBinaryLoadOptions* options, aclrtBinHandle* binary);
aclError aclrtBinaryUnLoad(aclrtBinHandle binary);
aclError aclrtBinaryGetFunction(aclrtBinHandle binary, const char* name, aclrtFuncHandle* function);
aclError aclrtKernelArgsInit(aclrtFuncHandle function, aclrtArgsHandle* arguments);
aclError aclrtKernelArgsAppend(aclrtArgsHandle arguments, void* value, size_t size, aclrtParamHandle* parameter);
aclError aclrtKernelArgsFinalize(aclrtArgsHandle arguments);
aclError aclrtLaunchKernel(
    aclrtFuncHandle function, uint32_t blocks, const void* arguments, size_t size, aclrtStream stream);
aclError aclrtLaunchKernelWithConfig(
    aclrtFuncHandle function, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg* config,
    aclrtArgsHandle arguments, void* reserve);

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);
aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* model);
aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* model);
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode);
aclError aclmdlRIExecuteAsync(aclmdlRI model, aclrtStream stream);
aclError aclmdlRIDestroy(aclmdlRI model);

#if ACL_VERSION >= 850
aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr of, int64_t* value);
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc function, void* data);
aclError aclrtBinaryLoadFromData(
    const void* data, size_t size, const aclrtBinaryLoadOptions* options, aclrtBinHandle* binary);
aclError aclrtLaunchKernelV2(
    aclrtFuncHandle function, uint32_t blocks, const void* arguments, size_t size, aclrtLaunchKernelCfg* config,
    aclrtStream stream);
aclError aclrtLaunchKernelWithHostArgs(
    aclrtFuncHandle function, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg* config, void* arguments,
    size_t size, aclrtPlaceHolderInfo* places, size_t count);
#endif
#if ACL_VERSION >= 910
aclError aclrtLaunchKernelWithArgsArray(
    void* function, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg* config, void** arguments);
aclError aclmdlRIExecute(aclmdlRI model, int32_t timeout);
#endif
}
#pragma GCC visibility pop
