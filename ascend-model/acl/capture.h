// Captures: what is enqueued meanwhile becomes a model that is executed later, under the rules of the interface.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "event.h"
#include "stream.h"

namespace acl {

struct Node {
    Task task;
    // What has to be done before.
    std::vector<size_t> after;
};

// What was captured.
struct Model {
    std::vector<Node> nodes;
    bool complete = false;
    // Executions that streams are still to run.
    size_t pending = 0;

    // All that it uses is there.
    void CheckAlive() const;
    std::string Run() const;
};

struct Capture {
    Stream* origin;
    aclmdlRICaptureMode mode;
    std::thread::id thread;
    Model* model;
    // Behind what the next thing of each stream comes.
    std::map<Stream*, std::vector<size_t>> last;
    // Why there will be no model.
    std::string broken;

    void Add(Stream& stream, Task task);
    void Record(Stream& stream, Event& event);
    // Streams that wait for what is captured are captured too.
    void Wait(Stream& stream, const Event& event);
    void Break(const std::string& why);
    // Streams that were captured on the way have led back to the first.
    void CheckJoined() const;
};

// Refuses what no capture of this thread, or of any, lets happen meanwhile.
void RefuseInCapture(const char* what);
void RefuseAnyCapture(const char* what);
void RefuseCaptured(Stream& stream, const char* what);

}  // namespace acl
