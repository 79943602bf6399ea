#include "stream.h"

#include <algorithm>
#include <cstdlib>

#include "call.h"
#include "capture.h"
#include "state.h"

namespace acl {

namespace {

// Runs the first thing of a stream.
void Step(Stream& stream)
{
    // The place that it waits for was enqueued before it, so that this ends.
    if (const std::shared_ptr<Mark> mark = stream.queue.front().waits) {
        while (!mark->passed) {
            Step(*mark->on);
        }
    }
    const Task task = std::move(stream.queue.front());
    stream.queue.pop_front();
    const std::string fault = task.run ? task.run() : "";
    if (stream.fault.empty()) {
        stream.fault = fault;
    }
    if (task.passes != nullptr) {
        task.passes->when = std::chrono::steady_clock::now();
        task.passes->passed = true;
    }
}

void Empty(Stream& stream)
{
    while (!stream.queue.empty()) {
        Step(stream);
    }
}

void EmptyOthers(const Stream& but)
{
    for (Stream& stream : TheStreams()) {
        if (OthersFirst() && &stream != &but) {
            Empty(stream);
        }
    }
}

}  // namespace

std::list<Stream>& TheStreams()
{
    static std::list<Stream> streams;
    return streams;
}

bool OthersFirst()
{
    const char* const order = std::getenv("ASCEND_MODEL_STREAMS");
    return order != nullptr && std::string(order) == "others";
}

bool IsDefault(const Stream& stream)
{
    return stream.number == 0;
}

Stream& StreamOf(aclrtStream handle)
{
    const aclrtContext context = CurrentContext();
    for (Stream& stream : TheStreams()) {
        if (handle == nullptr ? IsDefault(stream) && stream.context == context : &stream == handle) {
            if (stream.context != context) {
                Refuse(ACL_ERROR_RT_STREAM_CONTEXT, "stream ", stream.number, " is of another context");
            }
            return stream;
        }
    }
    if (handle == nullptr) {
        TheStreams().push_back(Stream{0, context, {}, "", nullptr});
        return TheStreams().back();
    }
    Refuse(ACL_ERROR_RT_INVALID_HANDLE, handle, " is no stream");
}

void Enqueue(Stream& stream, Task task)
{
    if (stream.capture != nullptr) {
        stream.capture->Add(stream, std::move(task));
    } else {
        stream.queue.push_back(std::move(task));
    }
}

void Force(Stream& stream)
{
    EmptyOthers(stream);
    Empty(stream);
}

void ForceUntil(const Mark& mark)
{
    if (mark.passed) {
        return;
    }
    EmptyOthers(*mark.on);
    while (!mark.passed) {
        Step(*mark.on);
    }
}

void TakeFault(Stream& stream)
{
    const std::string fault = std::move(stream.fault);
    stream.fault.clear();
    if (!fault.empty()) {
        Refuse(ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, fault);
    }
}

void RefuseInUse(Use use, const char* what, aclError code)
{
    for (const Stream& stream : TheStreams()) {
        for (const Task& task : stream.queue) {
            if (std::find(task.uses.begin(), task.uses.end(), use) != task.uses.end()) {
                Refuse(code, what, " is used by ", task.name, " that stream ", stream.number, " is still to run");
            }
        }
    }
}

}  // namespace acl

using namespace acl;

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t)
{
    return Call("aclrtCreateStreamWithConfig", [&] {
        static uint64_t next = 1;
        TheStreams().push_back(Stream{next++, CurrentContext(), {}, "", nullptr});
        Given(stream, "the place of the stream") = &TheStreams().back();
    });
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    return Call("aclrtDestroyStream", [&] {
        Stream& found = StreamOf(stream);
        if (IsDefault(found)) {
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "the default stream goes with its context");
        }
        if (found.capture != nullptr) {
            Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream ", found.number, " is being captured");
        }
        Empty(found);
        TheStreams().remove_if([&](const Stream& other) { return &other == &found; });
    });
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    return Call("aclrtSynchronizeStream", [&] {
        Stream& found = StreamOf(stream);
        RefuseCaptured(found, "waiting for it");
        Force(found);
        TakeFault(found);
    });
}

// Every question brings the stream a step further, so that who asks until it is done comes to an end.
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status)
{
    return Call("aclrtStreamQuery", [&] {
        Stream& found = StreamOf(stream);
        RefuseCaptured(found, "asking for its state");
        const bool done = found.queue.empty();
        if (!done) {
            Step(found);
        }
        Given(status, "the place of the state") = done ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    });
}

aclError aclrtSynchronizeDevice()
{
    return Call("aclrtSynchronizeDevice", [&] {
        CurrentContext();
        RefuseAnyCapture("waiting for the device");
        for (Stream& stream : TheStreams()) {
            Empty(stream);
        }
        for (Stream& stream : TheStreams()) {
            TakeFault(stream);
        }
    });
}
