#include "order.h"

#include <algorithm>
#include <limits>

namespace ascend_model {

namespace {

constexpr std::array<const char*, PIPES> NAMES = {"S", "V", "MTE2", "MTE3"};

}  // namespace

const char* Name(Pipe pipe)
{
    return NAMES[static_cast<uint32_t>(pipe)];
}

void Order::BeginLaunch(bool delay)
{
    delayed = delay;
    for (State& state : pipes) {
        state.issued = 0;
    }
}

void Order::BeginCore()
{
    for (uint32_t p = 0; p < PIPES; ++p) {
        coreStart[p] = pipes[p].issued;
    }
    for (State& state : pipes) {
        state.known = coreStart;
        state.waiting.clear();
        state.queued = 0;
        state.done = 0;
    }
    flags = {};
}

void Order::EndCore()
{
    for (uint32_t from = 0; from < PIPES; ++from) {
        for (uint32_t to = 0; to < PIPES; ++to) {
            for (int32_t id = 0; id < EVENTS; ++id) {
                if (flags[from][to][id].set) {
                    report.Note(
                        "SetFlag", "%s_%s with id %d is still set when the kernel ends: the next kernel would meet it",
                        NAMES[from], NAMES[to], id);
                }
            }
        }
    }
    // Those who read last first, so that only what was waited for has happened.
    for (const Pipe pipe : {Pipe::MTE3, Pipe::V, Pipe::MTE2}) {
        RunUntil(pipe, pipes[Index(pipe)].queued);
    }
}

Instruction Order::Next(const char* api, Pipe pipe)
{
    State& state = pipes[Index(pipe)];
    const State& scalar = pipes[Index(Pipe::S)];
    Instruction next{api, pipe, ++state.issued, state.known};
    state.log[next.number % LOGGED] = api;
    if (pipe == Pipe::S) {
        next.start[Index(Pipe::S)] = std::numeric_limits<uint32_t>::max();
        return next;
    }
    for (uint32_t p = 0; p < PIPES; ++p) {
        if (p != Index(Pipe::S)) {
            next.start[p] = std::max(next.start[p], scalar.known[p]);
        }
    }
    return next;
}

const char* Order::NameOf(Pipe pipe, uint32_t number) const
{
    const State& state = pipes[Index(pipe)];
    return number + LOGGED > state.issued ? state.log[number % LOGGED] : "an earlier instruction";
}

void Order::CheckId(Pipe from, Pipe to, int32_t id, const char* by)
{
    if (id < 0 || id >= EVENTS) {
        report.Fault(by, "event id %d of %s_%s: ids are 0 to %d", id, Name(from), Name(to), RESERVED_EVENTS - 1);
    }
}

void Order::Join(Clock& into, const Clock& from)
{
    for (uint32_t p = 0; p < PIPES; ++p) {
        into[p] = std::max(into[p], from[p]);
    }
}

void Order::Set(Pipe from, Pipe to, int32_t id, const char* by)
{
    CheckId(from, to, id, by);
    Flag& flag = At(from, to, id);
    if (flag.set) {
        report.Fault(
            by, "%s_%s with id %d is set again before anything waited for it", Name(from), Name(to), id);
    }
    const State& setter = pipes[Index(from)];
    flag.set = true;
    flag.clock = setter.known;
    if (from != Pipe::S) {
        // The scalar pipe issued this after what it had waited for.
        const uint32_t own = flag.clock[Index(Pipe::S)];
        Join(flag.clock, pipes[Index(Pipe::S)].known);
        flag.clock[Index(Pipe::S)] = own;
    }
    flag.clock[Index(from)] = setter.issued;
    flag.queued = setter.queued;
}

void Order::Wait(Pipe from, Pipe to, int32_t id, const char* by)
{
    CheckId(from, to, id, by);
    Flag& flag = At(from, to, id);
    if (!flag.set) {
        report.Fault(
            by, "waits for %s_%s with id %d, which nothing has set: the core would stand still", Name(from), Name(to),
            id);
    }
    flag.set = false;
    State& waiter = pipes[Index(to)];
    Join(waiter.known, flag.clock);
    if (!delayed) {
        return;
    }
    const uint64_t queued = flag.queued;
    if (to == Pipe::S) {
        RunUntil(from, queued);
    } else if (from != Pipe::S) {
        waiter.waiting.emplace_back([this, from, queued] { RunUntil(from, queued); });
        ++waiter.queued;
    }
}

bool Order::IsSet(Pipe from, Pipe to, int32_t id) const
{
    return flags[Index(from)][Index(to)][id].set;
}

void Order::RunUntil(Pipe pipe, uint64_t queued)
{
    State& state = pipes[Index(pipe)];
    while (state.done < queued) {
        const std::function<void()> work = std::move(state.waiting.front());
        state.waiting.pop_front();
        ++state.done;
        work();
    }
}

void Order::Barrier(Pipe pipe)
{
    State& state = pipes[Index(pipe)];
    state.known[Index(pipe)] = state.issued;
}

void Order::BarrierAll()
{
    Clock all;
    for (uint32_t p = 0; p < PIPES; ++p) {
        all[p] = pipes[p].issued;
    }
    for (const Pipe pipe : {Pipe::MTE3, Pipe::V, Pipe::MTE2}) {
        RunUntil(pipe, pipes[Index(pipe)].queued);
    }
    for (State& state : pipes) {
        state.known = all;
    }
}

int32_t Order::Fetch(Pipe from, Pipe to, const char* by)
{
    for (int32_t id = 0; id < EVENTS; ++id) {
        const Flag& flag = At(from, to, id);
        if (!flag.taken && !flag.set) {
            return id;
        }
    }
    report.Fault(by, "all %d event ids of %s_%s are in use", EVENTS, Name(from), Name(to));
}

int32_t Order::Alloc(Pipe from, Pipe to, const char* by)
{
    const int32_t id = Fetch(from, to, by);
    At(from, to, id).taken = true;
    return id;
}

void Order::Release(Pipe from, Pipe to, int32_t id, const char* by)
{
    CheckId(from, to, id, by);
    Flag& flag = At(from, to, id);
    if (!flag.taken) {
        report.Fault(by, "event id %d of %s_%s was not allocated", id, Name(from), Name(to));
    }
    flag.taken = false;
}

}  // namespace ascend_model
