// Launches one kernel of this folder on an NPU through ACL, and writes what it computes.
//
//     launch KERNEL [NAME=VALUE]... [--in NAME=FILE]... [--out NAME=FILE]... [--device N] [--blocks N] [--repeat N]
//            [--kernels FILE]
//
// NAME=VALUE gives the integers of the kernel, such as a number of rows. Files hold raw elements, little endian. Inputs
// without a file are a pattern of small numbers, the same on every machine; integers of 32 and 64 bits, which may be
// places in memory, are zeros. Without arguments it lists the kernels.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "acl/acl.h"
#include "kernels.h"

namespace {

using fusewright::Access;
using fusewright::Buffer;
using fusewright::DType;
using fusewright::Kernel;

struct Arguments {
    std::string kernel;
    std::map<std::string, int64_t> dims;
    std::map<std::string, std::string> in;
    std::map<std::string, std::string> out;
    int32_t device = 0;
    int64_t blocks = fusewright::VECTOR_CORES;
    int repeat = 1;
    std::string kernels = "kernels.o";
};

void Check(aclError status, const char* what)
{
    if (status != ACL_SUCCESS) {
        const char* said = aclGetRecentErrMsg();
        const std::string words = said != nullptr ? std::string(": ") + said : std::string();
        throw std::runtime_error(std::string(what) + " failed with status " + std::to_string(status) + words);
    }
}

std::pair<std::string, std::string> Pair(const std::string& text)
{
    const size_t at = text.find('=');
    if (at == std::string::npos) {
        throw std::runtime_error("`" + text + "` is not NAME=VALUE");
    }
    return {text.substr(0, at), text.substr(at + 1)};
}

Arguments Parse(int count, char** words)
{
    Arguments given;
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        auto next = [&]() -> std::string {
            if (i + 1 >= count) {
                throw std::runtime_error("`" + word + "` needs a value");
            }
            return words[++i];
        };
        if (word == "--in") {
            given.in.insert(Pair(next()));
        } else if (word == "--out") {
            given.out.insert(Pair(next()));
        } else if (word == "--device") {
            given.device = std::stoi(next());
        } else if (word == "--blocks") {
            given.blocks = std::max(1, std::stoi(next()));
        } else if (word == "--repeat") {
            given.repeat = std::max(1, std::stoi(next()));
        } else if (word == "--kernels") {
            given.kernels = next();
        } else if (given.kernel.empty()) {
            given.kernel = word;
        } else {
            const auto pair = Pair(word);
            given.dims[pair.first] = std::stoll(pair.second);
        }
    }
    return given;
}

// Multiples of 1/8 between -1 and 1, which every float type of 16 bits and more holds.
float Small(int64_t i)
{
    return static_cast<float>((i * 37) % 17 - 8) / 8.0f;
}

uint16_t Half(float value)
{
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    const uint32_t sign = (bits >> 16) & 0x8000u;
    // Zero or a normal number of a half: its exponent moves to another bias.
    return static_cast<uint16_t>(value == 0.0f ? sign : sign | (((bits >> 13) & 0x3ffffu) - (112u << 10)));
}

void Fill(DType dtype, std::vector<char>& bytes)
{
    const auto put = [&](auto element) {
        for (size_t i = 0; (i + 1) * sizeof(element(0)) <= bytes.size(); ++i) {
            const auto value = element(static_cast<int64_t>(i));
            std::memcpy(&bytes[i * sizeof(value)], &value, sizeof(value));
        }
    };
    switch (dtype) {
        case DType::F64:
            return put([](int64_t i) -> double { return Small(i); });
        case DType::F32:
            return put([](int64_t i) -> float { return Small(i); });
        case DType::F16:
            return put([](int64_t i) -> uint16_t { return Half(Small(i)); });
        case DType::BF16:
            return put([](int64_t i) -> uint16_t {
                const float value = Small(i);
                uint32_t bits;
                std::memcpy(&bits, &value, sizeof(bits));
                return static_cast<uint16_t>(bits >> 16);
            });
        case DType::I8:
            return put([](int64_t i) -> int8_t { return static_cast<int8_t>((i * 37) % 255 - 127); });
        default:
            return;
    }
}

std::vector<char> Read(const std::string& path, size_t bytes)
{
    std::ifstream file(path, std::ios::binary);
    std::vector<char> read((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file || read.size() != bytes) {
        const std::string given = std::to_string(read.size());
        throw std::runtime_error(path + ": " + given + " bytes, expected " + std::to_string(bytes));
    }
    return read;
}

// Device memory of every buffer, and the host's copy of what goes in.
class Memory {
public:
    Memory(const Kernel& kernel, const std::vector<int64_t>& dims, const Arguments& given)
    {
        for (const Buffer& buffer : kernel.buffers) {
            const int64_t bytes = buffer.Bytes(dims.data());
            if (bytes < 0) {
                throw std::runtime_error("`" + buffer.name + "` has a negative length with these integers");
            }
            if (buffer.alias >= 0) {
                addresses.push_back(addresses[static_cast<size_t>(buffer.alias)]);
                continue;
            }
            void* address = nullptr;
            const size_t room = std::max<size_t>(static_cast<size_t>(bytes), 32);
            Check(aclrtMalloc(&address, room, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
            addresses.push_back(address);
            owned.push_back(address);
            if (buffer.access == Access::OUT) {
                continue;
            }
            std::vector<char> host(static_cast<size_t>(bytes));
            const auto file = given.in.find(buffer.name);
            if (file != given.in.end()) {
                host = Read(file->second, host.size());
            } else {
                Fill(buffer.dtype, host);
            }
            if (!host.empty()) {
                const size_t count = host.size();
                Check(aclrtMemcpy(address, count, host.data(), count, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
            }
        }
    }

    ~Memory()
    {
        for (void* address : owned) {
            (void)aclrtFree(address);
        }
    }

    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    std::vector<void*> addresses;

private:
    std::vector<void*> owned;
};

// What of a loaded object stays while its kernels run.
struct Binary {
    aclrtBinHandle handle = nullptr;
    aclrtFuncHandle function = nullptr;
};

Binary Load(const std::string& path, const std::string& kernel)
{
    Binary binary;
    const std::string load = "aclrtBinaryLoadFromFile of " + path;
    Check(aclrtBinaryLoadFromFile(path.c_str(), nullptr, &binary.handle), load.c_str());
    const std::string get = "aclrtBinaryGetFunction of " + kernel;
    Check(aclrtBinaryGetFunction(binary.handle, kernel.c_str(), &binary.function), get.c_str());
    return binary;
}

// Arguments in the order of the kernel, 8 bytes each.
void LaunchLoaded(
    const Binary& binary, uint32_t blocks, aclrtStream stream, Memory& memory, std::vector<int64_t> integers)
{
    aclrtArgsHandle args = nullptr;
    aclrtParamHandle param = nullptr;
    Check(aclrtKernelArgsInit(binary.function, &args), "aclrtKernelArgsInit");
    for (void*& address : memory.addresses) {
        Check(aclrtKernelArgsAppend(args, &address, sizeof(address), &param), "aclrtKernelArgsAppend");
    }
    for (int64_t& integer : integers) {
        Check(aclrtKernelArgsAppend(args, &integer, sizeof(integer), &param), "aclrtKernelArgsAppend");
    }
    Check(aclrtKernelArgsFinalize(args), "aclrtKernelArgsFinalize");
    const aclError launched = aclrtLaunchKernelWithConfig(binary.function, blocks, stream, nullptr, args, nullptr);
    Check(launched, "aclrtLaunchKernelWithConfig");
}

// One block for each vector core, as far as there are rows for them.
uint32_t Blocks(const Kernel& kernel, int64_t cores, int64_t rows)
{
    return kernel.ascending ? 1 : static_cast<uint32_t>(std::max<int64_t>(1, std::min(cores, rows)));
}

void Run(const Kernel& kernel, const Arguments& given)
{
    std::vector<int64_t> dims;
    for (const std::string& name : kernel.dims) {
        const auto value = given.dims.find(name);
        if (value == given.dims.end()) {
            throw std::runtime_error("give the integer `" + name + "=VALUE`");
        }
        dims.push_back(value->second);
    }
    const int64_t rows = kernel.rows(dims.data());
    if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; })
        || (rows > 0 && !kernel.fits(dims.data()))) {
        throw std::runtime_error("kernel `" + kernel.name + "` does not take these integers");
    }
    aclrtStream stream = nullptr;
    aclrtEvent begin = nullptr;
    aclrtEvent end = nullptr;
    const uint32_t fast = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC;
    Check(aclrtCreateStreamWithConfig(&stream, 0, fast), "aclrtCreateStreamWithConfig");
    Check(aclrtCreateEventWithFlag(&begin, ACL_EVENT_TIME_LINE), "aclrtCreateEventWithFlag");
    Check(aclrtCreateEventWithFlag(&end, ACL_EVENT_TIME_LINE), "aclrtCreateEventWithFlag");
    Memory memory(kernel, dims, given);
    const uint32_t blocks = Blocks(kernel, given.blocks, rows);
    const Binary binary = kernel.launch == nullptr ? Load(given.kernels, kernel.name) : Binary();
    std::vector<int64_t> integers = dims;
    integers.insert(integers.end(), {0, rows});
    Check(aclrtRecordEvent(begin, stream), "aclrtRecordEvent");
    for (int i = 0; rows > 0 && i < given.repeat; ++i) {
        if (kernel.launch != nullptr) {
            kernel.launch(blocks, stream, memory.addresses.data(), dims.data(), 0, rows);
        } else {
            LaunchLoaded(binary, blocks, stream, memory, integers);
        }
    }
    Check(aclrtRecordEvent(end, stream), "aclrtRecordEvent");
    Check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
    float ms = 0;
    Check(aclrtEventElapsedTime(&ms, begin, end), "aclrtEventElapsedTime");
    const double us = 1e3 * ms / given.repeat;
    const auto all = static_cast<long long>(rows);
    std::printf("%s: %lld rows on %u blocks, %.2f us a launch\n", kernel.name.c_str(), all, blocks, us);
    for (size_t i = 0; i < kernel.buffers.size(); ++i) {
        const auto file = given.out.find(kernel.buffers[i].name);
        if (file == given.out.end()) {
            continue;
        }
        std::vector<char> host(static_cast<size_t>(kernel.buffers[i].Bytes(dims.data())));
        const size_t count = host.size();
        Check(aclrtMemcpy(host.data(), count, memory.addresses[i], count, ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
        std::ofstream(file->second, std::ios::binary).write(host.data(), static_cast<std::streamsize>(host.size()));
        std::printf("%s: %zu bytes in %s\n", file->first.c_str(), host.size(), file->second.c_str());
    }
    if (binary.handle != nullptr) {
        Check(aclrtBinaryUnLoad(binary.handle), "aclrtBinaryUnLoad");
    }
    Check(aclrtDestroyEvent(begin), "aclrtDestroyEvent");
    Check(aclrtDestroyEvent(end), "aclrtDestroyEvent");
    Check(aclrtDestroyStream(stream), "aclrtDestroyStream");
}

void List()
{
    for (const Kernel& kernel : fusewright::Kernels()) {
        std::printf("%s", kernel.name.c_str());
        for (const std::string& name : kernel.dims) {
            std::printf(" %s=VALUE", name.c_str());
        }
        for (const Buffer& buffer : kernel.buffers) {
            std::printf(" %s%s", buffer.access == Access::IN ? "" : "->", buffer.name.c_str());
        }
        std::printf("\n");
    }
}

}  // namespace

int main(int count, char** words)
{
    try {
        const Arguments given = Parse(count, words);
        if (given.kernel.empty()) {
            List();
            return 0;
        }
        const auto& kernels = fusewright::Kernels();
        const auto named = [&](const Kernel& kernel) { return kernel.name == given.kernel; };
        const auto kernel = std::find_if(kernels.begin(), kernels.end(), named);
        if (kernel == kernels.end()) {
            throw std::runtime_error("no kernel `" + given.kernel + "`; without arguments they are listed");
        }
        Check(aclInit(nullptr), "aclInit");
        Check(aclrtSetDevice(given.device), "aclrtSetDevice");
        Run(*kernel, given);
        Check(aclrtResetDevice(given.device), "aclrtResetDevice");
        Check(aclFinalize(), "aclFinalize");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
    return 0;
}
