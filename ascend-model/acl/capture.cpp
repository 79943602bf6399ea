#include "capture.h"

#include <algorithm>
#include <optional>
#include <set>

#include "call.h"
#include "state.h"

namespace acl {

namespace {

std::list<Capture> captures;
std::list<Model> models;
// What a thread has chosen instead of the mode of captures.
thread_local std::optional<aclmdlRICaptureMode> chosen;

Model& ModelOf(aclmdlRI handle)
{
    CurrentContext();
    for (Model& model : models) {
        if (&model == handle && model.complete) {
            return model;
        }
    }
    Refuse(ACL_ERROR_RT_INVALID_HANDLE, handle, " is no model");
}

// Whether a capture forbids this thread what waits for the device.
bool Forbids(const Capture& capture)
{
    const bool own = capture.thread == std::this_thread::get_id();
    if (capture.mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED || chosen == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
        return false;
    }
    if (capture.mode == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL) {
        return own;
    }
    return own || chosen != ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
}

// Streams are captured no more, nor are events.
void Close(Capture& capture)
{
    for (Stream& stream : TheStreams()) {
        if (stream.capture == &capture) {
            stream.capture = nullptr;
        }
    }
    for (Event& event : TheEvents()) {
        if (event.capture == &capture) {
            event.capture = nullptr;
            event.mark = nullptr;
        }
    }
    captures.remove_if([&](const Capture& other) { return &other == &capture; });
}

}  // namespace

void Model::CheckAlive() const
{
    for (const Node& node : nodes) {
        for (const Use use : node.task.uses) {
            if (!IsAlive(use)) {
                Refuse(ACL_ERROR_RT_MODEL_EXECUTE, node.task.name, " of the model uses what is gone");
            }
        }
    }
}

std::string Model::Run() const
{
    std::vector<bool> done(nodes.size(), false);
    std::string fault;
    for (size_t left = nodes.size(); left > 0; --left) {
        // Of what may be done next, the first or the last.
        std::optional<size_t> next;
        for (size_t i = 0; i < nodes.size() && (!next || OthersFirst()); ++i) {
            const auto isDone = [&](size_t before) { return done[before]; };
            if (!done[i] && std::all_of(nodes[i].after.begin(), nodes[i].after.end(), isDone)) {
                next = i;
            }
        }
        done[*next] = true;
        const std::string said = nodes[*next].task.run();
        if (fault.empty()) {
            fault = said;
        }
    }
    return fault;
}

void Capture::Add(Stream& stream, Task task)
{
    std::vector<size_t>& before = last[&stream];
    model->nodes.push_back(Node{std::move(task), before});
    before = {model->nodes.size() - 1};
}

void Capture::Record(Stream& stream, Event& event)
{
    event.capture = this;
    event.mark = nullptr;
    event.after = last[&stream];
}

void Capture::Wait(Stream& stream, const Event& event)
{
    if (stream.capture == nullptr) {
        if (IsDefault(stream)) {
            Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the default stream is not captured");
        }
        stream.capture = this;
    }
    if (stream.capture != this) {
        stream.capture->Break("it waits for an event of another capture");
        Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the event is of another capture");
    }
    std::vector<size_t>& before = last[&stream];
    before.insert(before.end(), event.after.begin(), event.after.end());
}

void Capture::Break(const std::string& why)
{
    if (broken.empty()) {
        broken = why;
    }
}

void Capture::CheckJoined() const
{
    std::set<size_t> reached;
    std::vector<size_t> open = last.at(origin);
    while (!open.empty()) {
        const size_t node = open.back();
        open.pop_back();
        if (reached.insert(node).second) {
            const std::vector<size_t>& after = model->nodes[node].after;
            open.insert(open.end(), after.begin(), after.end());
        }
    }
    for (size_t node = 0; node < model->nodes.size(); ++node) {
        if (reached.count(node) == 0) {
            Refuse(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT, model->nodes[node].task.name,
                " was captured on a stream that the first stream does not wait for");
        }
    }
}

void RefuseInCapture(const char* what)
{
    for (Capture& capture : captures) {
        if (Forbids(capture)) {
            capture.Break(Text(what, " meanwhile"));
            Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, what, " while stream ", capture.origin->number, " is captured");
        }
    }
}

void RefuseAnyCapture(const char* what)
{
    for (Capture& capture : captures) {
        capture.Break(Text(what, " meanwhile"));
        Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, what, " while stream ", capture.origin->number, " is captured");
    }
}

void RefuseCaptured(Stream& stream, const char* what)
{
    if (stream.capture != nullptr) {
        stream.capture->Break(Text(what, " meanwhile"));
        Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, what, ": stream ", stream.number, " is captured");
    }
}

}  // namespace acl

using namespace acl;

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode)
{
    return Call("aclmdlRICaptureBegin", [&] {
        Stream& origin = StreamOf(stream);
        if (IsDefault(origin)) {
            Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the default stream is not captured");
        }
        if (origin.capture != nullptr) {
            Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream ", origin.number, " is captured already");
        }
        if (mode < ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "there is no mode ", mode);
        }
        models.emplace_back();
        captures.push_back(Capture{&origin, mode, std::this_thread::get_id(), &models.back(), {{&origin, {}}}, ""});
        origin.capture = &captures.back();
    });
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* model)
{
    return Call("aclmdlRICaptureGetInfo", [&] {
        const Capture* const capture = StreamOf(stream).capture;
        aclmdlRICaptureStatus& found = Given(status, "the place of the state");
        if (capture == nullptr) {
            found = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
            return;
        }
        found = capture->broken.empty() ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE : ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
        Given(model, "the place of the model") = capture->model;
    });
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* model)
{
    return Call("aclmdlRICaptureEnd", [&] {
        aclmdlRI& place = Given(model, "the place of the model");
        place = nullptr;
        Stream& origin = StreamOf(stream);
        if (origin.capture == nullptr || origin.capture->origin != &origin) {
            Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "no capture began on stream ", origin.number);
        }
        const Capture capture = *origin.capture;
        Close(*origin.capture);
        try {
            if (capture.thread != std::this_thread::get_id() && capture.mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
                Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "another thread began the capture");
            }
            if (!capture.broken.empty()) {
                Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the capture is invalid: ", capture.broken);
            }
            capture.CheckJoined();
        } catch (const Failure&) {
            models.remove_if([&](const Model& other) { return &other == capture.model; });
            throw;
        }
        capture.model->complete = true;
        place = capture.model;
    });
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode)
{
    return Call("aclmdlRICaptureThreadExchangeMode", [&] {
        aclmdlRICaptureMode& given = Given(mode, "the place of the mode");
        const aclmdlRICaptureMode before = chosen.value_or(ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
        chosen = given;
        given = before;
    });
}

aclError aclmdlRIExecuteAsync(aclmdlRI model, aclrtStream stream)
{
    return Call("aclmdlRIExecuteAsync", [&] {
        Model& found = ModelOf(model);
        Stream& on = StreamOf(stream);
        if (on.capture != nullptr) {
            Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a model holds no models");
        }
        found.CheckAlive();
        const auto run = [&found] {
            --found.pending;
            return found.Run();
        };
        Task task{"a model", run, {}, nullptr, nullptr};
        for (const Node& node : found.nodes) {
            task.uses.insert(task.uses.end(), node.task.uses.begin(), node.task.uses.end());
        }
        ++found.pending;
        Enqueue(on, std::move(task));
    });
}

aclError aclmdlRIDestroy(aclmdlRI model)
{
    return Call("aclmdlRIDestroy", [&] {
        Model& found = ModelOf(model);
        if (found.pending > 0) {
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "streams are still to execute the model");
        }
        models.remove_if([&](const Model& other) { return &other == &found; });
    });
}

#if ACL_VERSION >= 910
aclError aclmdlRIExecute(aclmdlRI model, int32_t)
{
    return Call("aclmdlRIExecute", [&] {
        Model& found = ModelOf(model);
        RefuseAnyCapture("executing a model while the host waits");
        found.CheckAlive();
        const std::string fault = found.Run();
        if (!fault.empty()) {
            Refuse(ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, fault);
        }
    });
}
#endif
