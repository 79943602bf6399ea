// What the process and its threads have: the device, contexts, and what is alive.
#pragma once

#include "memory.h"

namespace acl {

// The context of this thread.
aclrtContext CurrentContext();

// Names something that work may use, until it ends.
Use NewUse();
void EndUse(Use use);
bool IsAlive(Use use);

}  // namespace acl
