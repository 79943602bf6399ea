// Launches of kernels, in every form that the interface has for them, and calls of functions of the host.
#include <cstring>
#include <list>
#include <vector>

#include "ascend_model.h"
#include "binary.h"
#include "call.h"
#include "capture.h"
#include "state.h"
#include "stream.h"

namespace acl {

namespace {

// Every argument has so many bytes.
constexpr size_t WORD = sizeof(uint64_t);
// Room for what is wrong with a kernel.
constexpr size_t REPORT = 1 << 16;
constexpr uint32_t MOST_BLOCKS = 65535;

struct Arguments {
    Function* of;
    std::vector<uint64_t> values;
    bool final = false;
};

std::list<Arguments> lists;

Arguments& ArgumentsOf(aclrtArgsHandle handle)
{
    CurrentContext();
    for (Arguments& list : lists) {
        if (&list == handle) {
            return list;
        }
    }
    Refuse(ACL_ERROR_RT_INVALID_HANDLE, handle, " is no list of arguments, or one that was launched");
}

void CheckCount(const Function& function, size_t count)
{
    if (count != function.arguments.size()) {
        Refuse(
            ACL_ERROR_RT_PARAM_INVALID, "`", function.name, "` takes ", function.arguments.size(), " arguments, not ",
            count);
    }
}

void CheckSize(const Function& function, size_t bytes)
{
    if (bytes != function.arguments.size() * WORD) {
        Refuse(
            ACL_ERROR_RT_PARAM_INVALID, "`", function.name, "` takes ", function.arguments.size() * WORD,
            " bytes of arguments, not ", bytes);
    }
}

std::string Launch(const Function& function, uint32_t blocks, const std::vector<uint64_t>& values)
{
    std::string report(REPORT, '\0');
    const int findings = ascend_model_launch(
        function.entry, blocks, values.data(), values.size(), nullptr, report.data(), report.size());
    if (findings == 0) {
        return "";
    }
    return Text("kernel `", function.name, "` on ", blocks, " cores: ", report.c_str());
}

// The memory that an argument is the address of.
void Check(const Function& function, size_t i, uint64_t value, std::vector<Use>& uses)
{
    const void* const at = reinterpret_cast<const void*>(value);
    if (function.arguments[i] != 'p' || at == nullptr) {
        return;
    }
    const std::string what = Text("argument ", i, " of `", function.name, "`,");
    uses.push_back(TheMemory().OnDevice(at, 0, what.c_str()).use);
}

void CheckLaunch(uint32_t blocks, const aclrtLaunchKernelCfg* config)
{
    if (blocks == 0 || blocks > MOST_BLOCKS) {
        Refuse(ACL_ERROR_RT_PARAM_INVALID, "there are no launches on ", blocks, " cores");
    }
    if (config != nullptr && config->numAttrs > 0) {
        Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "attributes of launches are not modelled");
    }
}

void EnqueueLaunch(Function& function, uint32_t blocks, std::vector<uint64_t> values, Stream& stream)
{
    CheckCount(function, values.size());
    std::vector<Use> uses{function.of->use};
    for (size_t i = 0; i < values.size(); ++i) {
        Check(function, i, values[i], uses);
    }
    const auto run = [&function, blocks, values = std::move(values)] { return Launch(function, blocks, values); };
    Enqueue(stream, Task{Text("a launch of `", function.name, "`"), run, std::move(uses), nullptr, nullptr});
}

// A launch whose arguments lie in memory of the device, where they are read when it runs.
void EnqueueOnDevice(Function& function, uint32_t blocks, const void* arguments, size_t size, Stream& stream)
{
    CheckSize(function, size);
    const Use use = TheMemory().OnDevice(arguments, size, "the list of arguments").use;
    const auto run = [&function, blocks, arguments, size] {
        std::vector<uint64_t> values(size / WORD);
        std::memcpy(values.data(), arguments, size);
        std::vector<Use> uses;
        for (size_t i = 0; i < values.size(); ++i) {
            try {
                Check(function, i, values[i], uses);
            } catch (const Failure& failure) {
                return failure.text;
            }
        }
        return Launch(function, blocks, values);
    };
    Enqueue(stream, Task{Text("a launch of `", function.name, "`"), run, {function.of->use, use}, nullptr, nullptr});
}

}  // namespace

}  // namespace acl

using namespace acl;

aclError aclrtKernelArgsInit(aclrtFuncHandle function, aclrtArgsHandle* arguments)
{
    return Call("aclrtKernelArgsInit", [&] {
        lists.push_back(Arguments{&FunctionOf(function), {}, false});
        Given(arguments, "the place of the list") = &lists.back();
    });
}

aclError aclrtKernelArgsAppend(aclrtArgsHandle arguments, void* value, size_t size, aclrtParamHandle* parameter)
{
    return Call("aclrtKernelArgsAppend", [&] {
        Arguments& list = ArgumentsOf(arguments);
        if (list.final) {
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "the list is final");
        }
        if (size != WORD || list.values.size() == list.of->arguments.size()) {
            const size_t count = list.values.size();
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "argument ", count, " of `", list.of->name, "` is none of ", size, " bytes");
        }
        uint64_t word = 0;
        std::memcpy(&word, &Given(static_cast<char*>(value), "the value"), WORD);
        list.values.push_back(word);
        Given(parameter, "the place of the argument") = &list.values;
    });
}

aclError aclrtKernelArgsFinalize(aclrtArgsHandle arguments)
{
    return Call("aclrtKernelArgsFinalize", [&] {
        Arguments& list = ArgumentsOf(arguments);
        CheckCount(*list.of, list.values.size());
        list.final = true;
    });
}

aclError aclrtLaunchKernelWithConfig(
    aclrtFuncHandle function, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg* config,
    aclrtArgsHandle arguments, void*)
{
    return Call("aclrtLaunchKernelWithConfig", [&] {
        CheckLaunch(blocks, config);
        Function& found = FunctionOf(function);
        Arguments& list = ArgumentsOf(arguments);
        if (!list.final || list.of != &found) {
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "the list is not final, or of another kernel");
        }
        EnqueueLaunch(found, blocks, list.values, StreamOf(stream));
        lists.remove_if([&](const Arguments& other) { return &other == &list; });
    });
}

aclError aclrtLaunchKernel(
    aclrtFuncHandle function, uint32_t blocks, const void* arguments, size_t size, aclrtStream stream)
{
    return Call("aclrtLaunchKernel", [&] {
        CheckLaunch(blocks, nullptr);
        EnqueueOnDevice(FunctionOf(function), blocks, arguments, size, StreamOf(stream));
    });
}

#if ACL_VERSION >= 850
aclError aclrtLaunchKernelV2(
    aclrtFuncHandle function, uint32_t blocks, const void* arguments, size_t size, aclrtLaunchKernelCfg* config,
    aclrtStream stream)
{
    return Call("aclrtLaunchKernelV2", [&] {
        CheckLaunch(blocks, config);
        EnqueueOnDevice(FunctionOf(function), blocks, arguments, size, StreamOf(stream));
    });
}

aclError aclrtLaunchKernelWithHostArgs(
    aclrtFuncHandle function, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg* config, void* arguments,
    size_t size, aclrtPlaceHolderInfo*, size_t count)
{
    return Call("aclrtLaunchKernelWithHostArgs", [&] {
        CheckLaunch(blocks, config);
        Function& found = FunctionOf(function);
        CheckSize(found, size);
        if (count > 0) {
            Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "arguments that are addresses of others are not modelled");
        }
        std::vector<uint64_t> values(size / WORD);
        std::memcpy(values.data(), &Given(static_cast<char*>(arguments), "the list of arguments"), size);
        EnqueueLaunch(found, blocks, std::move(values), StreamOf(stream));
    });
}

// In a capture as well, which CANN 8.3 did not have.
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc function, void* data)
{
    return Call("aclrtLaunchHostFunc", [&] {
        Stream& on = StreamOf(stream);
        if (function == nullptr) {
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "the function is null");
        }
        const auto run = [=]() -> std::string {
            const HostCall called;
            function(data);
            return "";
        };
        Enqueue(on, Task{"a function of the host", run, {}, nullptr, nullptr});
    });
}
#endif

#if ACL_VERSION >= 910
aclError aclrtLaunchKernelWithArgsArray(
    void* function, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg* config, void** arguments)
{
    return Call("aclrtLaunchKernelWithArgsArray", [&] {
        CheckLaunch(blocks, config);
        Function& found = FunctionOf(function);
        std::vector<uint64_t> values(found.arguments.size());
        for (size_t i = 0; i < values.size(); ++i) {
            void* const place = (&Given(arguments, "the list of arguments"))[i];
            std::memcpy(&values[i], &Given(static_cast<char*>(place), "the place of an argument"), WORD);
        }
        EnqueueLaunch(found, blocks, std::move(values), StreamOf(stream));
    });
}
#endif
