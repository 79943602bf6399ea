#include "event.h"

#include "call.h"
#include "capture.h"
#include "state.h"

namespace acl {

std::list<Event>& TheEvents()
{
    static std::list<Event> events;
    return events;
}

namespace {

Event& EventOf(aclrtEvent handle)
{
    CurrentContext();
    for (Event& event : TheEvents()) {
        if (&event == handle) {
            return event;
        }
    }
    Refuse(ACL_ERROR_RT_INVALID_HANDLE, handle, " is no event");
}

// The place that an event was recorded at, for the host.
Mark& MarkOf(Event& event, const char* what)
{
    if (event.capture != nullptr) {
        event.capture->Break(Text(what, " an event of the capture"));
        Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, what, " an event that is being captured");
    }
    if (event.mark == nullptr) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, what, " an event that was never recorded");
    }
    return *event.mark;
}

const Mark& Timed(Event& event)
{
    const Mark& mark = MarkOf(event, "timing by");
    if ((event.flag & ACL_EVENT_TIME_LINE) == 0) {
        Refuse(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the event was made without ACL_EVENT_TIME_LINE");
    }
    if (!mark.passed) {
        Refuse(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the stream has not come to the event");
    }
    return mark;
}

}  // namespace

}  // namespace acl

using namespace acl;

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag)
{
    return Call("aclrtCreateEventWithFlag", [&] {
        CurrentContext();
        TheEvents().push_back(Event{flag, nullptr, nullptr, {}});
        Given(event, "the place of the event") = &TheEvents().back();
    });
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
    return Call("aclrtDestroyEvent", [&] {
        Event& found = EventOf(event);
        if (found.capture != nullptr) {
            Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the event is being captured");
        }
        if (found.mark != nullptr && !found.mark->passed) {
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "stream ", found.mark->on->number, " has not come to the event");
        }
        TheEvents().remove_if([&](const Event& other) { return &other == &found; });
    });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    return Call("aclrtRecordEvent", [&] {
        Event& found = EventOf(event);
        Stream& on = StreamOf(stream);
        if (on.capture != nullptr) {
            on.capture->Record(on, found);
            return;
        }
        found.capture = nullptr;
        found.mark = std::make_shared<Mark>(Mark{&on, false, {}});
        Task task{"recording an event", nullptr, {}, nullptr, found.mark};
        Enqueue(on, std::move(task));
    });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    return Call("aclrtStreamWaitEvent", [&] {
        Event& found = EventOf(event);
        Stream& on = StreamOf(stream);
        if (found.capture != nullptr) {
            found.capture->Wait(on, found);
            return;
        }
        if (on.capture != nullptr) {
            on.capture->Break("it waits for an event that was recorded outside");
            Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a capture waits for no event that was recorded outside");
        }
        if (found.mark == nullptr) {
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "waiting for an event that was never recorded");
        }
        Enqueue(on, Task{"waiting for an event", nullptr, {}, found.mark, nullptr});
    });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status)
{
    return Call("aclrtQueryEventStatus", [&] {
        const Mark& mark = MarkOf(EventOf(event), "asking for the state of");
        Given(status, "the place of the state") =
            mark.passed ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
        ForceUntil(mark);
    });
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    return Call("aclrtSynchronizeEvent", [&] {
        const Mark& mark = MarkOf(EventOf(event), "waiting for");
        Stream* const on = mark.on;
        const bool passed = mark.passed;
        ForceUntil(mark);
        // The stream may be gone if it passed the event before.
        if (!passed) {
            TakeFault(*on);
        }
    });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end)
{
    return Call("aclrtEventElapsedTime", [&] {
        const Mark& from = Timed(EventOf(start));
        const Mark& to = Timed(EventOf(end));
        const std::chrono::duration<float, std::milli> between = to.when - from.when;
        Given(ms, "the place of the time") = between.count();
    });
}
