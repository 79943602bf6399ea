/* A stand-in of libcuda for tests on machines without a GPU: devices in memory of the host, whose streams a test may hold up.
 *
 * What is enqueued on a stream runs at once unless the stream is held, or waits for an event behind something that is. What
 * a GPU would suffer from is counted instead (`stand_in_wrong`): memory and code that went back while work used them, memory
 * of one device used on another, and calls that would break a capture. Kernels called `add_one` add one to every word; all
 * others do nothing. One lock is around everything. Built by `cc -shared -fPIC -Wl,-soname,libcuda.so.1`. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../include/driver.h"

#define MOST 4096
#define EXPORT __attribute__((visibility("default")))
enum { NOT_PERMITTED = 800, CAPTURE_UNSUPPORTED = 900, CAPTURE_IMPLICIT = 906, NOT_READY = 600, INVALID = 1, HANDLE = 400,
       NO_CONTEXT = 201 };
enum kind { LAUNCH, RECORD, WAIT, FREE, FILL, COPY };

struct CUctx_st { int device; };
struct CUmod_st { int device, alive; };
struct CUfunc_st { struct CUmod_st *module; int adds; };
struct CUevent_st { uint64_t asked, passed; int device, captured; };
struct work {
    enum kind kind;
    struct CUfunc_st *function;
    struct CUevent_st *event;
    uint64_t number, from, to, first, last;
    size_t bytes;
    int byte;
};
struct CUgraph_st { size_t count; struct work *work; };
struct CUgraphExec_st { size_t count; struct work *work; int alive; };
struct CUstream_st {
    int device, held, alive, blocking;
    size_t count;
    struct work *work;
    struct CUgraph_st *captured;
};
struct block { uint64_t at; size_t bytes; int device, alive; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st contexts[16];
static struct CUstream_st defaults[16], *streams[MOST];
static size_t stream_count, block_count;
static struct block blocks[MOST];
static char wrong[1 << 14];
static long counts[16][6];
static int devices = 2, capturing, strict;
static _Thread_local struct CUctx_st *stack[64];
static _Thread_local int depth, relaxed;

static void blame(const char *what) {
    strncat(wrong, what, sizeof wrong - strlen(wrong) - 2);
    strcat(wrong, "\n");
}
static struct CUctx_st *current(void) { return depth ? stack[depth - 1] : 0; }
static struct CUstream_st *of(CUstream stream) {
    if (stream && (uintptr_t)stream > 2) return stream;
    struct CUstream_st *found = &defaults[current() ? current()->device : 0];
    found->device = current() ? current()->device : 0;
    found->alive = found->blocking = 1;
    return found;
}
/* A call that a capture in the strictest mode forbids, unless the thread has said that it knows. */
static int unsafe_call(const char *name) {
    if (capturing && strict && !relaxed) {
        blame(name);
        return CAPTURE_UNSUPPORTED;
    }
    return 0;
}
static struct block *block_of(uint64_t at) {
    for (size_t i = block_count; i-- > 0;)
        if (blocks[i].at <= at && at < blocks[i].at + blocks[i].bytes) return &blocks[i];
    return 0;
}
static void *memory(uint64_t at, int device) {
    struct block *found = block_of(at);
    if (!found) return 0;
    if (!found->alive) blame("memory was used that had gone back");
    if (found->device != device) blame("memory of another device was used");
    return found->alive ? (void *)(uintptr_t)at : 0;
}
static int ready(const struct work *work) { return work->kind != WAIT || work->event->passed >= work->number; }
static void run(struct CUstream_st *stream, const struct work *work) {
    switch (work->kind) {
    case LAUNCH: {
        if (!work->function->module->alive) blame("code ran that had gone back");
        if (work->function->module->device != stream->device) blame("code of another device ran");
        counts[stream->device][0]++;
        if (!work->function->adds) break;
        uint32_t *from = memory(work->from, stream->device), *to = memory(work->to, stream->device);
        for (uint64_t i = work->first; from && to && i < work->last; i++) to[i] = from[i] + 1;
        break;
    }
    case RECORD: work->event->passed = work->number; break;
    case WAIT: break;
    case FREE: {
        struct block *found = block_of(work->to);
        if (!found || !found->alive) blame("memory went back twice");
        if (found) {
            found->alive = 0;
            memset((void *)(uintptr_t)found->at, 0xee, found->bytes);
            counts[found->device][2]--;
        }
        break;
    }
    case FILL: {
        void *to = memory(work->to, stream->device);
        if (to) memset(to, work->byte, work->bytes);
        break;
    }
    case COPY: {
        void *from = memory(work->from, stream->device), *to = memory(work->to, stream->device);
        if (from && to) memmove(to, from, work->bytes);
        break;
    }
    }
}
static void advance(void) {
    for (int moved = 1; moved;) {
        moved = 0;
        for (size_t i = 0; i < stream_count + 16; i++) {
            struct CUstream_st *stream = i < 16 ? &defaults[i] : streams[i - 16];
            while (stream->count && !stream->held && ready(stream->work)) {
                struct work work = stream->work[0];
                memmove(stream->work, stream->work + 1, --stream->count * sizeof work);
                run(stream, &work);
                moved = 1;
            }
        }
    }
}
static void append(struct work **all, size_t *count, struct work work) {
    *all = realloc(*all, (*count + 1) * sizeof work);
    (*all)[(*count)++] = work;
}
static int enqueue(CUstream handle, struct work work) {
    struct CUstream_st *stream = of(handle);
    if (!stream->alive) {
        blame("a stream was used that was destroyed");
        return HANDLE;
    }
    if (current() && current()->device != stream->device) return HANDLE;
    if (stream->captured) {
        if (work.kind == FREE) blame("memory goes back as a part of a graph");
        append(&stream->captured->work, &stream->captured->count, work);
        return 0;
    }
    append(&stream->work, &stream->count, work);
    advance();
    return 0;
}
#define GUARDED(...)                                                                                                   \
    do {                                                                                                               \
        pthread_mutex_lock(&lock);                                                                                     \
        int said = 0;                                                                                                  \
        { __VA_ARGS__ }                                                                                                \
        pthread_mutex_unlock(&lock);                                                                                   \
        return said;                                                                                                   \
    } while (0)

/* For tests: what went wrong so far; holding a stream up; launches, loads less unloads, allocations less frees, captures of
 * others and entering of contexts on a device. */
EXPORT const char *stand_in_wrong(void) { return wrong; }
EXPORT void stand_in_forgive(void) { wrong[0] = 0; }
EXPORT void stand_in_hold(CUstream stream, int held) {
    pthread_mutex_lock(&lock);
    of(stream)->held = held;
    advance();
    pthread_mutex_unlock(&lock);
}
EXPORT long stand_in_count(int device, int what) { return counts[device][what]; }
EXPORT void stand_in_devices(int count) { devices = count; }
EXPORT void stand_in_strict(int on) { strict = on; }
EXPORT CUcontext stand_in_context(int device) { return &contexts[device]; }

EXPORT CUresult cuInit(unsigned int flags) { return flags ? INVALID : devices ? 0 : CUDA_ERROR_NO_DEVICE; }
EXPORT CUresult cuDriverGetVersion(int *version) { *version = 12080; return 0; }
EXPORT CUresult cuGetErrorName(CUresult error, const char **name) { *name = error ? "ERROR" : "SUCCESS"; return 0; }
EXPORT CUresult cuGetErrorString(CUresult error, const char **text) { *text = error ? "the stand-in refuses" : "no error"; return 0; }
EXPORT CUresult cuDeviceGetCount(int *count) { *count = devices; return 0; }
EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) { *device = ordinal; return ordinal < devices ? 0 : 101; }
EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device) { snprintf(name, length, "stand-in %d", device); return 0; }
/* The third device is of an older kind. */
EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? (device == 2 ? 8 : 9)
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
             : attribute == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE            ? 50 << 20
                                                                         : 132;
    return 0;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    contexts[device].device = device;
    *context = &contexts[device];
    return 0;
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { (void)device; return 0; }
EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
    stack[depth++] = context;
    GUARDED(counts[context->device][4]++;);
}
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    if (!depth) return NO_CONTEXT;
    *context = stack[--depth];
    return 0;
}
EXPORT CUresult cuCtxGetCurrent(CUcontext *context) { *context = current(); return 0; }
EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
    int before = relaxed ? CU_STREAM_CAPTURE_MODE_RELAXED : 0;
    relaxed = *mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    *mode = before;
    return 0;
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int options, int *names, void **values) {
    (void)image, (void)options, (void)names, (void)values;
    GUARDED(
        if (!current()) said = NO_CONTEXT;
        else if (!(said = unsafe_call("a module was loaded during a capture"))) {
            struct CUmod_st *made = calloc(1, sizeof *made);
            made->device = current()->device, made->alive = 1;
            counts[made->device][1]++;
            *module = made;
        });
}
EXPORT CUresult cuModuleUnload(CUmodule module) {
    GUARDED(
        if (!module->alive) blame("code went back twice");
        unsafe_call("a module was unloaded during a capture");
        module->alive = 0;
        counts[module->device][1]--;);
}
EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    struct CUfunc_st *made = calloc(1, sizeof *made);
    made->module = module, made->adds = !strcmp(name, "add_one");
    *function = made;
    return 0;
}
EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) { (void)attribute, (void)function; *value = 16; return 0; }
EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) { (void)function, (void)attribute, (void)value; return 0; }

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    GUARDED(
        if (!current() || stream_count == MOST) said = NO_CONTEXT;
        else {
            struct CUstream_st *made = calloc(1, sizeof *made);
            made->device = current()->device, made->alive = 1, made->blocking = !(flags & 1);
            streams[stream_count++] = made;
            *stream = made;
        });
}
EXPORT CUresult cuStreamDestroy_v2(CUstream stream) { GUARDED(stream->alive = 0;); }
EXPORT CUresult cuStreamSynchronize(CUstream handle) {
    GUARDED(
        struct CUstream_st *stream = of(handle);
        if (stream->captured) { blame("a stream that is captured was waited for"); said = CAPTURE_UNSUPPORTED; }
        else if (!(said = unsafe_call("a stream was waited for during a capture")) && stream->count) {
            blame("a test waits for a stream that it holds");
            said = NOT_READY;
        });
}
EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    GUARDED(
        if (of(stream)->captured) said = NOT_PERMITTED;
        else of(stream)->captured = calloc(1, sizeof(struct CUgraph_st)), capturing++, strict = mode == 0;);
}
EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    GUARDED(*graph = of(stream)->captured; of(stream)->captured = 0; capturing--;);
}
EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status) {
    GUARDED(
        *status = of(stream)->captured != 0;
        if (!of(stream)->alive) blame("a stream was asked for that was destroyed");
        for (size_t i = 0; !stream && i < stream_count; i++)
            if (streams[i]->captured && streams[i]->blocking) said = CAPTURE_IMPLICIT;);
}
EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) { *context = &contexts[of(stream)->device]; return 0; }
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
    (void)flags;
    GUARDED(said = enqueue(stream, (struct work){.kind = WAIT, .event = event, .number = event->asked}););
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    (void)flags;
    if (!current()) return NO_CONTEXT;
    *event = calloc(1, sizeof **event);
    (*event)->device = current()->device;
    return 0;
}
/* Events are kept: what waits for one goes on doing so. */
EXPORT CUresult cuEventDestroy_v2(CUevent event) { (void)event; return 0; }
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
    GUARDED(
        event->captured = of(stream)->captured != 0;
        said = enqueue(stream, (struct work){.kind = RECORD, .event = event, .number = ++event->asked}););
}
EXPORT CUresult cuEventQuery(CUevent event) {
    GUARDED(
        if (event->captured) { blame("an event of a capture was asked"); said = CAPTURE_UNSUPPORTED; }
        else if (!(said = unsafe_call("an event was asked during a capture")))
            said = event->passed >= event->asked ? 0 : NOT_READY;);
}
EXPORT CUresult cuEventSynchronize(CUevent event) { return event->passed >= event->asked ? 0 : NOT_READY; }
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) { (void)start, (void)end; *milliseconds = 1; return 0; }

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) { (void)nodes; *count = graph->count; return 0; }
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
    (void)flags;
    struct CUgraphExec_st *made = calloc(1, sizeof *made);
    made->count = graph->count, made->alive = 1;
    made->work = malloc((graph->count + 1) * sizeof *made->work);
    if (graph->count) memcpy(made->work, graph->work, graph->count * sizeof *made->work);
    *executable = made;
    return 0;
}
EXPORT CUresult cuGraphUpload(CUgraphExec executable, CUstream stream) { (void)executable, (void)stream; return 0; }
EXPORT CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
    GUARDED(
        if (!executable->alive) blame("a graph was launched that was destroyed");
        for (size_t i = 0; i < executable->count && !said; i++) said = enqueue(stream, executable->work[i]););
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec executable) { executable->alive = 0; return 0; }
EXPORT CUresult cuGraphDestroy(CUgraph graph) { free(graph->work); free(graph); return 0; }

EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total) { *free = *total = (size_t)1 << 36; return 0; }
EXPORT CUresult cuMemAllocAsync(CUdeviceptr *at, size_t bytes, CUstream stream) {
    GUARDED(
        if (block_count == MOST) said = CUDA_ERROR_OUT_OF_MEMORY;
        else {
            /* Nothing is allocated twice, so that what is used too late is found. */
            void *made = aligned_alloc(256, (bytes + 255) / 256 * 256);
            memset(made, 0xdd, bytes);
            blocks[block_count++] = (struct block){(uintptr_t)made, bytes, of(stream)->device, 1};
            counts[of(stream)->device][2]++;
            *at = (uintptr_t)made;
        });
}
EXPORT CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream) {
    GUARDED(said = enqueue(stream, (struct work){.kind = FREE, .to = at}););
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    GUARDED(void *there = memory(to, of(stream)->device); if (there) memcpy(there, from, bytes););
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    GUARDED(void *there = memory(from, of(stream)->device); if (there) memcpy(to, there, bytes););
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    GUARDED(said = enqueue(stream, (struct work){.kind = COPY, .from = from, .to = to, .bytes = bytes}););
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream) {
    GUARDED(said = enqueue(stream, (struct work){.kind = FILL, .to = at, .bytes = bytes, .byte = value}););
}
EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra) {
    (void)extra;
    GUARDED(
        struct work work = {.kind = LAUNCH, .function = function};
        if (current() && function->module->device != current()->device) blame("a context of another device was current");
        if (function->adds)
            work.from = *(uint64_t *)arguments[0], work.to = *(uint64_t *)arguments[1], work.first = *(uint64_t *)arguments[3],
            work.last = *(uint64_t *)arguments[4];
        said = enqueue(config->hStream, work););
}
