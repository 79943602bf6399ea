#include "machine.h"

namespace ascend_model {

Machine& TheMachine()
{
    static Machine machine;
    return machine;
}

uint64_t Machine::Random()
{
    // splitmix64
    random += 0x9e3779b97f4a7c15U;
    uint64_t mixed = random;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebU;
    return mixed ^ mixed >> 31;
}

void Machine::CheckPlace(
    const char* api, const char* what, const Span& tensor, uint64_t offset, uint64_t bytes, uint32_t alignment)
{
    buffers.CheckLive(api, what, tensor);
    const uint64_t at = tensor.offset + offset;
    if (at % alignment != 0) {
        report.Fault(
            api, "%s begins at byte %llu of unified buffer, which is no multiple of %u", what,
            static_cast<unsigned long long>(at), alignment);
    }
    if (at + bytes > tensor.end) {
        report.Fault(
            api, "%s is [%llu, %llu) of unified buffer, its tensor ends at %u", what,
            static_cast<unsigned long long>(at), static_cast<unsigned long long>(at + bytes), tensor.end);
    }
}

}  // namespace ascend_model
