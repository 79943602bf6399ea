// Binaries: shared objects of the host, made of Ascend C and the headers of the host model.
#pragma once

#include <list>
#include <string>

#include "memory.h"

namespace acl {

struct Binary;

struct Function {
    Binary* of;
    std::string name;
    void* entry;
    // A letter for each argument: `p` for an address, `n` for a number.
    std::string arguments;
};

struct Binary {
    Use use;
    void* library;
    int file;
    std::list<Function> functions;
};

Function& FunctionOf(aclrtFuncHandle handle);

}  // namespace acl
