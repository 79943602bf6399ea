#include "memory.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "ascend_model.h"
#include "call.h"
#include "state.h"
#include "stream.h"

namespace acl {

namespace {

// What blocks begin at multiples of.
constexpr size_t ALIGNMENT = 512;
// What memory holds that nobody has written.
constexpr int NOTHING = 0xa5;

// Marks as written what was written where it comes from.
void MarkCopied(const char* to, const char* from, size_t bytes)
{
    if (ascend_model_memory_readable(from, bytes) == 1) {
        ascend_model_memory_written(to, bytes);
    } else if (bytes > 1) {
        MarkCopied(to, from, bytes / 2);
        MarkCopied(to + bytes / 2, from + bytes / 2, bytes - bytes / 2);
    }
}

size_t Available()
{
    return static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Memory& TheMemory()
{
    static Memory memory;
    return memory;
}

void* Memory::Allocate(size_t bytes, bool device)
{
    if (bytes == 0) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, "no bytes are asked for");
    }
    if (bytes > Available() || (device && bytes > DEVICE_BYTES - used)) {
        Refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "there are no ", bytes, " bytes");
    }
    auto* const base = static_cast<char*>(std::aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT));
    if (base == nullptr) {
        Refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "there are no ", bytes, " bytes");
    }
    std::memset(base, NOTHING, bytes);
    if (device) {
        ascend_model_memory_add(base, bytes);
        used += bytes;
    }
    blocks[reinterpret_cast<uintptr_t>(base)] = Block{NewUse(), base, bytes, device};
    return base;
}

void Memory::Free(void* at, bool device)
{
    const auto found = blocks.find(reinterpret_cast<uintptr_t>(at));
    if (found == blocks.end() || found->second.device != device) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, at, " is no memory of ", device ? "the device" : "the host that was asked for");
    }
    const Block block = found->second;
    RefuseInUse(block.use, "the memory", ACL_ERROR_RT_MEMORY_FREE);
    EndUse(block.use);
    if (device) {
        ascend_model_memory_remove(block.base);
        used -= block.bytes;
    }
    blocks.erase(found);
    std::free(block.base);
}

const Block* Memory::Find(const void* at) const
{
    const auto address = reinterpret_cast<uintptr_t>(at);
    auto found = blocks.upper_bound(address);
    if (found == blocks.begin()) {
        return nullptr;
    }
    --found;
    return address < found->first + found->second.bytes ? &found->second : nullptr;
}

const Block& Memory::OnDevice(const void* at, size_t bytes, const char* what) const
{
    const Block* const block = Find(at);
    if (block == nullptr || !block->device) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, what, " ", at, " is no memory of the device");
    }
    const size_t behind = block->bytes - static_cast<size_t>(static_cast<const char*>(at) - block->base);
    if (bytes > behind) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, what, " takes ", bytes, " bytes, its memory has ", behind);
    }
    return *block;
}

void Memory::OnHost(const void* at, size_t bytes, const char* what) const
{
    if (at == nullptr) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, what, " is null");
    }
    const Block* const block = Find(at);
    if (block != nullptr && (block->device || bytes > block->bytes)) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, what, " ", at, " is no memory of the host of ", bytes, " bytes");
    }
}

bool Memory::IsLocked(const void* at, size_t bytes) const
{
    const Block* const block = Find(at);
    return block != nullptr && !block->device && static_cast<const char*>(at) + bytes <= block->base + block->bytes;
}

void Memory::Copy(void* to, const void* from, size_t bytes)
{
    std::memmove(to, from, bytes);
    MarkCopied(static_cast<const char*>(to), static_cast<const char*>(from), bytes);
}

size_t Memory::FreeBytes() const
{
    return DEVICE_BYTES - used;
}

}  // namespace acl

using namespace acl;

aclError aclrtMalloc(void** address, size_t size, aclrtMemMallocPolicy)
{
    return Call("aclrtMalloc", [&] {
        CurrentContext();
        Given(address, "the place of the address") = TheMemory().Allocate(size, true);
    });
}

aclError aclrtFree(void* address)
{
    return Call("aclrtFree", [&] {
        CurrentContext();
        TheMemory().Free(address, true);
    });
}

aclError aclrtMallocHost(void** address, size_t size)
{
    return Call("aclrtMallocHost", [&] {
        CurrentContext();
        Given(address, "the place of the address") = TheMemory().Allocate(size, false);
    });
}

aclError aclrtFreeHost(void* address)
{
    return Call("aclrtFreeHost", [&] {
        CurrentContext();
        TheMemory().Free(address, false);
    });
}
