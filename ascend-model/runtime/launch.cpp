// The C interface: memory, launches, counters.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "machine.h"

namespace ascend_model {

namespace {

constexpr size_t MOST_ARGUMENTS = 64;

template <size_t>
using Argument = uint64_t;

template <size_t... I>
void CallWith(void* function, const uint64_t* args, std::index_sequence<I...>)
{
    reinterpret_cast<void (*)(Argument<I>...)>(function)(args[I]...);
}

using Caller = void (*)(void*, const uint64_t*);

template <size_t COUNT>
void CallWithCount(void* function, const uint64_t* args)
{
    CallWith(function, args, std::make_index_sequence<COUNT>{});
}

template <size_t... COUNT>
Caller CallerOf(size_t count, std::index_sequence<COUNT...>)
{
    static constexpr Caller CALLERS[] = {&CallWithCount<COUNT>...};
    return CALLERS[count];
}

std::string NameOf(void* function)
{
    Dl_info info{};
    if (dladdr(function, &info) != 0 && info.dli_sname != nullptr) {
        return info.dli_sname;
    }
    return "(unnamed)";
}

std::string Variable(const char* name)
{
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// What the environment asks for; the text of what is wrong with it otherwise.
std::string FromEnvironment(ascend_model_options& options)
{
    options = {};
    options.size = sizeof(options);
    options.seed = std::strtoull(Variable("ASCEND_MODEL_SEED").c_str(), nullptr, 0);
    const std::string dma = Variable("ASCEND_MODEL_DMA");
    const std::string poison = Variable("ASCEND_MODEL_POISON");
    if (dma != "" && dma != "immediate" && dma != "delayed") {
        return "ASCEND_MODEL_DMA is `" + dma + "`, neither immediate nor delayed";
    }
    if (poison != "" && poison != "first" && poison != "nan") {
        return "ASCEND_MODEL_POISON is `" + poison + "`, neither first nor nan";
    }
    options.dma = dma == "delayed" ? ASCEND_MODEL_DELAYED : ASCEND_MODEL_IMMEDIATE;
    const std::string unknown = Variable("ASCEND_MODEL_UNKNOWN");
    if (unknown != "" && unknown != "usual" && unknown != "other") {
        return "ASCEND_MODEL_UNKNOWN is `" + unknown + "`, neither usual nor other";
    }
    options.unknown = unknown == "other" ? 1 : 0;
    options.poison = poison == "nan" ? ASCEND_MODEL_POISON_NAN : ASCEND_MODEL_POISON_FIRST;
    std::string rest = Variable("ASCEND_MODEL_JITTER");
    while (!rest.empty()) {
        const size_t comma = rest.find(',');
        const std::string word = rest.substr(0, comma);
        rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
        char* end = nullptr;
        const unsigned long ulps = std::strtoul(word.c_str(), &end, 10);
        if (word == "order") {
            options.jitter_order = 1;
        } else if (!word.empty() && *end == '\0') {
            options.jitter_ulps = static_cast<uint32_t>(ulps);
        } else {
            return "ASCEND_MODEL_JITTER has `" + word + "`, neither order nor a number of ulps";
        }
    }
    return "";
}

void Put(const std::string& text, char* report, size_t bytes)
{
    if (report == nullptr || bytes == 0) {
        return;
    }
    const size_t length = text.size() < bytes - 1 ? text.size() : bytes - 1;
    std::memcpy(report, text.data(), length);
    report[length] = '\0';
}

void RunCore(Machine& machine, Caller call, void* function, const uint64_t* args, uint32_t core)
{
    machine.block = core;
    machine.registers = {};
    machine.report.BeginCore(core);
    machine.order.BeginCore();
    machine.buffers.BeginCore();
    machine.unified.BeginCore();
    call(function, args);
    machine.buffers.EndCore();
    machine.global.EndCore();
    machine.order.EndCore();
}

}  // namespace

}  // namespace ascend_model

using namespace ascend_model;

extern "C" {

int ascend_model_memory_add(void* base, size_t bytes)
{
    Machine& machine = TheMachine();
    const std::lock_guard<std::recursive_mutex> held(machine.lock);
    return machine.global.Add(reinterpret_cast<uint64_t>(base), bytes) ? 0 : -1;
}

int ascend_model_memory_remove(void* base)
{
    Machine& machine = TheMachine();
    const std::lock_guard<std::recursive_mutex> held(machine.lock);
    return machine.global.Remove(reinterpret_cast<uint64_t>(base)) ? 0 : -1;
}

void ascend_model_memory_written(const void* at, size_t bytes)
{
    Machine& machine = TheMachine();
    const std::lock_guard<std::recursive_mutex> held(machine.lock);
    machine.global.Written(reinterpret_cast<uint64_t>(at), bytes);
}

int ascend_model_memory_readable(const void* at, size_t bytes)
{
    Machine& machine = TheMachine();
    const std::lock_guard<std::recursive_mutex> held(machine.lock);
    return machine.global.Readable(reinterpret_cast<uint64_t>(at), bytes) ? 1 : 0;
}

int ascend_model_launch(
    void* function, uint32_t blocks, const uint64_t* args, size_t count, const ascend_model_options* options,
    char* report, size_t report_bytes)
{
    Machine& machine = TheMachine();
    const std::lock_guard<std::recursive_mutex> held(machine.lock);
    std::string wrong;
    if (options == nullptr) {
        wrong = FromEnvironment(machine.options);
    } else if (options->size < sizeof(options->size) || options->size > sizeof(ascend_model_options)) {
        wrong = "the options are " + std::to_string(options->size) + " bytes, at most " +
                std::to_string(sizeof(ascend_model_options));
    } else {
        // Callers that know fewer options get the usual for the rest.
        machine.options = {};
        std::memcpy(&machine.options, options, options->size);
    }
    if (count > MOST_ARGUMENTS) {
        wrong = std::to_string(count) + " arguments, of which the model passes " + std::to_string(MOST_ARGUMENTS);
    }
    if (!wrong.empty()) {
        Put(wrong, report, report_bytes);
        return -1;
    }
    machine.random = machine.options.seed;
    machine.counters = {};
    machine.blockCount = blocks;
    machine.report.Begin(NameOf(function));
    machine.order.BeginLaunch(machine.options.dma == ASCEND_MODEL_DELAYED);
    machine.global.BeginLaunch();
    const Caller call = CallerOf(count, std::make_index_sequence<MOST_ARGUMENTS + 1>{});
    machine.running = true;
    try {
        for (uint32_t core = 0; core < blocks; ++core) {
            RunCore(machine, call, function, args, core);
        }
    } catch (const Stop&) {
        // What stopped the launch is in the report.
    }
    machine.running = false;
    Put(machine.report.Text(), report, report_bytes);
    return machine.report.Count();
}

void ascend_model_last_counters(ascend_model_counters* counters)
{
    Machine& machine = TheMachine();
    const std::lock_guard<std::recursive_mutex> held(machine.lock);
    const size_t size = counters->size < sizeof(*counters) ? counters->size : sizeof(*counters);
    machine.counters.size = size;
    std::memcpy(counters, &machine.counters, size);
}

}  // extern "C"
