// Streams: what is enqueued on one runs in order, and not before somebody waits for it.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "memory.h"

namespace acl {

struct Capture;
struct Stream;

// A place in a stream.
struct Mark {
    Stream* on;
    bool passed = false;
    std::chrono::steady_clock::time_point when;
};

struct Task {
    std::string name;
    // Does it; what a kernel did that no kernel may, or nothing.
    std::function<std::string()> run;
    std::vector<Use> uses;
    // A place in another stream that must be passed first.
    std::shared_ptr<Mark> waits;
    // A place in this stream that is passed then.
    std::shared_ptr<Mark> passes;
};

struct Stream {
    uint64_t number;
    aclrtContext context;
    std::deque<Task> queue;
    // What went wrong since somebody last waited.
    std::string fault;
    Capture* capture = nullptr;
};

// The stream of a handle, of the thread's context; the default stream for null.
Stream& StreamOf(aclrtStream stream);
bool IsDefault(const Stream& stream);
std::list<Stream>& TheStreams();

// Appends to the stream, or to what is captured of it.
void Enqueue(Stream& stream, Task task);

// Runs what a stream has, or until a place is passed; and other streams before, if the environment says so.
void Force(Stream& stream);
void ForceUntil(const Mark& mark);
// Says what went wrong, once.
void TakeFault(Stream& stream);

// Whether a stream is still to run something that uses this.
void RefuseInUse(Use use, const char* what, aclError code);

// Whether streams that nobody waits for run first, and unordered parts of captured work from the end.
bool OthersFirst();

}  // namespace acl
