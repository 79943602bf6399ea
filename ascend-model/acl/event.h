// Events: places in streams that other streams and the host wait for.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "stream.h"

namespace acl {

struct Event {
    uint32_t flag;
    // Where it was recorded last.
    std::shared_ptr<Mark> mark;
    // Or in which capture, and behind what of it.
    Capture* capture = nullptr;
    std::vector<size_t> after;
};

std::list<Event>& TheEvents();

}  // namespace acl
