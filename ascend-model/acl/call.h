// How functions of the interface answer: one at a time, with what is wrong in words.
#pragma once

#include <mutex>
#include <sstream>
#include <string>

#include "interface.h"

namespace acl {

// Why a function does not do what it is asked for.
struct Failure {
    aclError code;
    std::string text;
};

template <typename... Part>
std::string Text(const Part&... parts)
{
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
}

template <typename... Part>
[[noreturn]] void Refuse(aclError code, const Part&... parts)
{
    throw Failure{code, Text(parts...)};
}

// Held by the function of the interface that runs. Functions of the host that streams call may call none.
class Turn {
public:
    Turn();

private:
    std::unique_lock<std::mutex> held;
};

// Held while a stream calls a function of the host.
class HostCall {
public:
    HostCall();
    ~HostCall();
};

// Keeps what went wrong for `aclGetRecentErrMsg` of this thread.
aclError Keep(const char* function, const Failure& failure);

template <typename Body>
aclError Call(const char* function, const Body& body)
{
    try {
        const Turn turn;
        body();
        return ACL_SUCCESS;
    } catch (const Failure& failure) {
        return Keep(function, failure);
    } catch (const std::bad_alloc&) {
        return Keep(function, Failure{ACL_ERROR_RT_MEMORY_ALLOCATION, "the host has no memory"});
    }
}

template <typename T>
T& Given(T* pointer, const char* what)
{
    if (pointer == nullptr) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, what, " is null");
    }
    return *pointer;
}

}  // namespace acl
