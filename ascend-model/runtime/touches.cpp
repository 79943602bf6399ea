#include "touches.h"

namespace ascend_model {

namespace {

void ReportRace(
    Report& report, const Order& order, const Access& access, Pipe pipe, uint32_t number, bool earlierWrites)
{
    const Instruction& by = access.by;
    const char* const verb = access.writes ? "writes" : "reads";
    const char* const earlierVerb = earlierWrites ? "writes" : "reads";
    const char* const other = order.NameOf(pipe, number);
    const unsigned long long begin = access.offset;
    const unsigned long long end = access.offset + access.bytes;
    if (order.OtherCore(pipe, number)) {
        report.Add(
            by.api,
            "race: instruction %u of %s %s %s [%llu, %llu) (%s), which %s (instruction %u of %s) %s on another core",
            by.number, Name(by.pipe), verb, access.memory, begin, end, access.what, other, number, Name(pipe),
            earlierVerb);
    } else if (pipe == by.pipe) {
        report.Add(
            by.api,
            "race: instruction %u of %s %s %s [%llu, %llu) (%s), which %s (instruction %u of the same pipe) %s: "
            "PipeBarrier<PIPE_%s> is missing between them",
            by.number, Name(by.pipe), verb, access.memory, begin, end, access.what, other, number, earlierVerb,
            Name(pipe));
    } else {
        report.Add(
            by.api,
            "race: instruction %u of %s %s %s [%llu, %llu) (%s), which %s (instruction %u of %s) %s: a queue or a flag "
            "%s_%s is missing between them",
            by.number, Name(by.pipe), verb, access.memory, begin, end, access.what, other, number, Name(pipe),
            earlierVerb, Name(pipe), Name(by.pipe));
    }
}

}  // namespace

void Meet(
    Report& report, const Order& order, const Access& access, Pipe pipe, const Touches& earlier, bool earlierWrites,
    uint32_t mask)
{
    for (const Touch& touch : {earlier.last, earlier.before}) {
        const bool own = pipe == access.by.pipe && touch.number == access.by.number;
        if ((touch.bytes & mask) == 0 || own || order.Before(pipe, touch.number, access.by)) {
            continue;
        }
        // A scalar load is complete when the next instruction is issued.
        if (pipe == Pipe::S && !earlierWrites && !order.OtherCore(pipe, touch.number)) {
            continue;
        }
        ReportRace(report, order, access, pipe, touch.number, earlierWrites);
    }
}

}  // namespace ascend_model
