#include "call.h"

namespace acl {

namespace {

std::mutex turns;
thread_local bool calledByStream = false;
thread_local std::string recent;
thread_local std::string shown;

}  // namespace

Turn::Turn()
{
    if (calledByStream) {
        Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a function of the host that a stream calls may not call this");
    }
    held = std::unique_lock<std::mutex>(turns);
}

HostCall::HostCall()
{
    calledByStream = true;
}

HostCall::~HostCall()
{
    calledByStream = false;
}

aclError Keep(const char* function, const Failure& failure)
{
    recent = Text("SIMULATED ", function, ": ", failure.text);
    return failure.code;
}

}  // namespace acl

const char* aclGetRecentErrMsg()
{
    if (acl::recent.empty()) {
        return nullptr;
    }
    acl::shown.swap(acl::recent);
    acl::recent.clear();
    return acl::shown.c_str();
}
