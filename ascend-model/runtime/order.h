// Which instruction has happened before which: pipes of a core, flags between them, barriers within them.
//
// An instruction begins after those that its pipe has waited for, and after those that the scalar pipe had waited for
// when it issued it. Instructions of one pipe begin in order and may overlap. A flag carries what its setter had
// completed to the pipe that waits for it. Numbers count the instructions of a pipe over all cores of a launch, from 1.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>

#include "../include/ascend_model/runtime.h"
#include "report.h"

namespace ascend_model {

// Of each pipe, the number up to which all instructions are complete.
using Clock = std::array<uint32_t, PIPES>;

struct Instruction {
    const char* api;
    Pipe pipe;
    uint32_t number;
    Clock start;
};

const char* Name(Pipe pipe);

constexpr int32_t EVENTS = 8;
// Ids from here on are not for kernels.
constexpr int32_t RESERVED_EVENTS = 6;

class Order {
public:
    explicit Order(Report& report) : report(report) {}

    void BeginLaunch(bool delay);
    void BeginCore();
    // Everything that is still under way ends; flags that are set are findings.
    void EndCore();

    Instruction Next(const char* api, Pipe pipe);
    // Does `work` now, or when something waits for it.
    template <typename Work>
    void Run(const Instruction& instruction, const Work& work)
    {
        if (!delayed || instruction.pipe == Pipe::S) {
            work();
            return;
        }
        State& state = pipes[Index(instruction.pipe)];
        state.waiting.emplace_back(work);
        ++state.queued;
    }

    // Does what is queued of the instruction's own pipe, for one whose operands decide what it touches.
    void RunBefore(const Instruction& instruction)
    {
        RunUntil(instruction.pipe, pipes[Index(instruction.pipe)].queued);
    }

    // Whether instruction `number` of `pipe` was complete when `later` began. Instructions of other cores never are.
    bool Before(Pipe pipe, uint32_t number, const Instruction& later) const
    {
        const uint32_t p = static_cast<uint32_t>(pipe);
        return number > coreStart[p] && number <= later.start[p];
    }
    bool OtherCore(Pipe pipe, uint32_t number) const { return number <= coreStart[Index(pipe)]; }
    // The name of what instruction `number` was.
    const char* NameOf(Pipe pipe, uint32_t number) const;

    void Set(Pipe from, Pipe to, int32_t id, const char* by);
    void Wait(Pipe from, Pipe to, int32_t id, const char* by);
    bool IsSet(Pipe from, Pipe to, int32_t id) const;
    void Barrier(Pipe pipe);
    void BarrierAll();

    int32_t Fetch(Pipe from, Pipe to, const char* by);
    int32_t Alloc(Pipe from, Pipe to, const char* by);
    void Release(Pipe from, Pipe to, int32_t id, const char* by);

private:
    static constexpr uint32_t LOGGED = 4096;

    struct State {
        Clock known;
        uint32_t issued = 0;
        std::deque<std::function<void()>> waiting;
        uint64_t queued = 0;
        uint64_t done = 0;
        std::array<const char*, LOGGED> log{};
    };

    struct Flag {
        bool set = false;
        bool taken = false;
        Clock clock{};
        uint64_t queued = 0;
    };

    static uint32_t Index(Pipe pipe) { return static_cast<uint32_t>(pipe); }
    Flag& At(Pipe from, Pipe to, int32_t id) { return flags[Index(from)][Index(to)][id]; }
    void CheckId(Pipe from, Pipe to, int32_t id, const char* by);
    void Join(Clock& into, const Clock& from);
    void RunUntil(Pipe pipe, uint64_t queued);

    Report& report;
    bool delayed = false;
    Clock coreStart{};
    std::array<State, PIPES> pipes;
    std::array<std::array<std::array<Flag, EVENTS>, PIPES>, PIPES> flags;
};

}  // namespace ascend_model
