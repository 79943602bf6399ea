// Memory of the device, which the host model watches, and locked memory of the host.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "interface.h"

namespace acl {

// What work may use and must outlive it: memory, binaries.
using Use = uint64_t;

struct Block {
    Use use;
    char* base;
    size_t bytes;
    bool device;
};

class Memory {
public:
    void* Allocate(size_t bytes, bool device);
    void Free(void* at, bool device);

    // The block that an address lies in.
    const Block* Find(const void* at) const;
    // The block of the device that holds all of these bytes.
    const Block& OnDevice(const void* at, size_t bytes, const char* what) const;
    // Refuses bytes that are no memory of the host.
    void OnHost(const void* at, size_t bytes, const char* what) const;
    bool IsLocked(const void* at, size_t bytes) const;

    // Copies bytes of the device, and which of them were written.
    static void Copy(void* to, const void* from, size_t bytes);

    size_t FreeBytes() const;

private:
    std::map<uintptr_t, Block> blocks;
    size_t used = 0;
};

Memory& TheMemory();

// Bytes of memory that the device has.
constexpr size_t DEVICE_BYTES = size_t{64} << 30;

}  // namespace acl
