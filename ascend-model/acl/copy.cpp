// Copies and settings of memory, on streams and while the host waits.
#include <cstring>

#include "ascend_model.h"
#include "call.h"
#include "capture.h"
#include "memory.h"
#include "state.h"
#include "stream.h"

namespace acl {

namespace {

// A copy whose memory was checked.
Task CopyTask(void* to, const void* from, size_t count, aclrtMemcpyKind kind)
{
    const auto run = [=]() -> std::string {
        if (kind == ACL_MEMCPY_DEVICE_TO_DEVICE) {
            Memory::Copy(to, from, count);
        } else {
            std::memcpy(to, from, count);
            if (kind == ACL_MEMCPY_HOST_TO_DEVICE) {
                ascend_model_memory_written(to, count);
            }
        }
        return "";
    };
    Task task{"a copy", run, {}, nullptr, nullptr};
    for (const void* const at : {static_cast<const void*>(to), from}) {
        if (const Block* const block = TheMemory().Find(at)) {
            task.uses.push_back(block->use);
        }
    }
    return task;
}

void CheckCopy(void* to, size_t room, const void* from, size_t count, aclrtMemcpyKind kind)
{
    if (count > room) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, count, " bytes do not go into ", room);
    }
    if (count == 0) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, "no bytes are copied");
    }
    const bool toDevice = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    const bool fromDevice = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_DEVICE_TO_DEVICE) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, "there is no direction ", kind);
    }
    const Memory& memory = TheMemory();
    toDevice ? static_cast<void>(memory.OnDevice(to, count, "the destination"))
             : memory.OnHost(to, count, "the destination");
    fromDevice ? static_cast<void>(memory.OnDevice(from, count, "the source"))
               : memory.OnHost(from, count, "the source");
}

void CheckSet(void* at, size_t room, size_t count)
{
    if (count > room) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, count, " bytes do not go into ", room);
    }
    TheMemory().OnDevice(at, count, "the destination");
}

Task SetTask(void* at, int32_t value, size_t count)
{
    const auto run = [=]() -> std::string {
        std::memset(at, value, count);
        ascend_model_memory_written(at, count);
        return "";
    };
    return Task{"setting memory", run, {TheMemory().Find(at)->use}, nullptr, nullptr};
}

}  // namespace

}  // namespace acl

using namespace acl;

// It waits for no stream: who wants what a stream computes waits for the stream.
aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t count, aclrtMemcpyKind kind)
{
    return Call("aclrtMemcpy", [&] {
        CurrentContext();
        RefuseInCapture("a copy that waits");
        CheckCopy(to, room, from, count, kind);
        CopyTask(to, from, count, kind).run();
    });
}

aclError aclrtMemcpyAsync(
    void* to, size_t room, const void* from, size_t count, aclrtMemcpyKind kind, aclrtStream stream)
{
    return Call("aclrtMemcpyAsync", [&] {
        Stream& on = StreamOf(stream);
        CheckCopy(to, room, from, count, kind);
        const bool toHost = kind == ACL_MEMCPY_DEVICE_TO_HOST && !TheMemory().IsLocked(to, count);
        const bool fromHost = kind == ACL_MEMCPY_HOST_TO_DEVICE && !TheMemory().IsLocked(from, count);
        if (toHost || fromHost) {
            RefuseInCapture("memory of the host that is not locked");
            if (on.capture != nullptr) {
                Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "memory of the host in a capture is locked memory");
            }
        }
        Enqueue(on, CopyTask(to, from, count, kind));
    });
}

aclError aclrtMemset(void* at, size_t room, int32_t value, size_t count)
{
    return Call("aclrtMemset", [&] {
        CurrentContext();
        RefuseInCapture("setting memory while the host waits");
        CheckSet(at, room, count);
        SetTask(at, value, count).run();
    });
}

aclError aclrtMemsetAsync(void* at, size_t room, int32_t value, size_t count, aclrtStream stream)
{
    return Call("aclrtMemsetAsync", [&] {
        Stream& on = StreamOf(stream);
        CheckSet(at, room, count);
        Enqueue(on, SetTask(at, value, count));
    });
}

void fusewright_simulated(const void* at, size_t bytes)
{
    ascend_model_memory_written(at, bytes);
}
