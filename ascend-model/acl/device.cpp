// The device, what it says of itself, and contexts.
#include <cstdio>
#include <list>
#include <set>

#include "call.h"
#include "capture.h"
#include "state.h"

#if !defined(ACL_SOC) || !defined(ACL_ARCHITECTURE) || !defined(ACL_VECTOR_CORES) || !defined(ACL_UB_BYTES)
#error "no chip: compile with -DACL_SOC, -DACL_ARCHITECTURE, -DACL_VECTOR_CORES and -DACL_UB_BYTES"
#endif

namespace acl {

namespace {

constexpr int32_t DEVICE = 0;
// Of contexts only their places matter.
struct Context {
    int32_t device;
};

bool initialised = false;
std::list<Context> contexts;
std::set<Use> alive;
thread_local Context* current = nullptr;

void CheckInitialised()
{
    if (!initialised) {
        Refuse(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
    }
}

void CheckDevice(int32_t device)
{
    CheckInitialised();
    if (device != DEVICE) {
        Refuse(ACL_ERROR_RT_INVALID_DEVICEID, "there is no device ", device, ", but device ", DEVICE);
    }
}

Context& Find(aclrtContext handle)
{
    for (Context& context : contexts) {
        if (&context == handle) {
            return context;
        }
    }
    Refuse(ACL_ERROR_RT_INVALID_HANDLE, handle, " is no context");
}

}  // namespace

aclrtContext CurrentContext()
{
    CheckInitialised();
    if (current == nullptr) {
        Refuse(ACL_ERROR_RT_CONTEXT_NULL, "this thread has no context: neither aclrtSetDevice nor aclrtSetCurrentContext");
    }
    return current;
}

Use NewUse()
{
    static Use next = 1;
    alive.insert(next);
    return next++;
}

void EndUse(Use use)
{
    alive.erase(use);
}

bool IsAlive(Use use)
{
    return alive.count(use) == 1;
}

}  // namespace acl

using namespace acl;

aclError aclInit(const char*)
{
    return Call("aclInit", [] {
        if (initialised) {
            Refuse(ACL_ERROR_REPEAT_INITIALIZE, "it was called before");
        }
        initialised = true;
        std::fputs("SIMULATED: a host model stands in for " ACL_SOC "; nothing runs on an NPU\n", stderr);
    });
}

aclError aclFinalize()
{
    return Call("aclFinalize", [] {
        CheckInitialised();
        initialised = false;
    });
}

aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch)
{
    return Call("aclrtGetVersion", [&] {
        Given(major, "the major number") = 1;
        Given(minor, "the minor number") = ACL_VERSION / 10;
        Given(patch, "the patch number") = 0;
    });
}

const char* aclrtGetSocName()
{
    return ACL_SOC;
}

aclError aclrtGetDeviceCount(uint32_t* count)
{
    return Call("aclrtGetDeviceCount", [&] {
        CheckInitialised();
        Given(count, "the place of the count") = 1;
    });
}

aclError aclrtSetDevice(int32_t device)
{
    return Call("aclrtSetDevice", [&] {
        CheckDevice(device);
        if (contexts.empty()) {
            contexts.push_back(Context{device});
        }
        current = &contexts.front();
    });
}

aclError aclrtResetDevice(int32_t device)
{
    return Call("aclrtResetDevice", [&] {
        CheckDevice(device);
        RefuseAnyCapture("resetting the device");
        current = nullptr;
    });
}

aclError aclrtGetDevice(int32_t* device)
{
    return Call("aclrtGetDevice", [&] {
        CurrentContext();
        Given(device, "the place of the device") = DEVICE;
    });
}

aclError aclrtGetMemInfo(aclrtMemAttr of, size_t* free, size_t* total)
{
    return Call("aclrtGetMemInfo", [&] {
        CurrentContext();
        if (of != ACL_HBM_MEM && of != ACL_DDR_MEM) {
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "there is no memory of kind ", of);
        }
        Given(free, "the place of the free bytes") = TheMemory().FreeBytes();
        Given(total, "the place of all bytes") = DEVICE_BYTES;
    });
}

aclError aclrtCreateContext(aclrtContext* context, int32_t device)
{
    return Call("aclrtCreateContext", [&] {
        CheckDevice(device);
        if (contexts.empty()) {
            contexts.push_back(Context{device});
        }
        contexts.push_back(Context{device});
        current = &contexts.back();
        Given(context, "the place of the context") = current;
    });
}

aclError aclrtDestroyContext(aclrtContext context)
{
    return Call("aclrtDestroyContext", [&] {
        Context& found = Find(context);
        if (&found == &contexts.front()) {
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "the device's own context goes with the device");
        }
        if (current == &found) {
            current = nullptr;
        }
        contexts.remove_if([&](const Context& other) { return &other == &found; });
    });
}

aclError aclrtGetCurrentContext(aclrtContext* context)
{
    return Call("aclrtGetCurrentContext", [&] { Given(context, "the place of the context") = CurrentContext(); });
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    return Call("aclrtSetCurrentContext", [&] {
        CheckInitialised();
        current = &Find(context);
    });
}

#if ACL_VERSION >= 850
aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr of, int64_t* value)
{
    return Call("aclrtGetDeviceInfo", [&] {
        CheckDevice(static_cast<int32_t>(device));
        int64_t& found = Given(value, "the place of the value");
        switch (of) {
            case ACL_DEV_ATTR_VECTOR_CORE_NUM:
                found = ACL_VECTOR_CORES;
                break;
            case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
                found = DEVICE_BYTES;
                break;
#if ACL_VERSION >= 910
            case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE:
                found = ACL_UB_BYTES;
                break;
            case ACL_DEV_ATTR_NPU_ARCH:
                found = ACL_ARCHITECTURE;
                break;
#endif
            default:
                Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "attribute ", of, " is not known");
        }
    });
}
#endif
