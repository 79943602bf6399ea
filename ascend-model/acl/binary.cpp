#include "binary.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "call.h"
#include "state.h"
#include "stream.h"

namespace acl {

namespace {

constexpr char ELF[] = "\177ELF";
// What the symbol that describes a function's arguments has behind the name of the function.
constexpr char ARGUMENTS[] = "__arguments";

std::list<Binary> binaries;

Binary& BinaryOf(aclrtBinHandle handle)
{
    CurrentContext();
    for (Binary& binary : binaries) {
        if (&binary == handle) {
            return binary;
        }
    }
    Refuse(ACL_ERROR_RT_INVALID_HANDLE, handle, " is no binary");
}

void CheckOptions(const aclrtBinaryLoadOptions* options)
{
    for (size_t i = 0; options != nullptr && i < options->numOpt; ++i) {
        const aclrtBinaryLoadOption& option = (&Given(options->options, "the list of options"))[i];
        if (option.type == ACL_RT_BINARY_LOAD_OPT_MAGIC && option.value[0] != ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE) {
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "the binary is not for vector cores, as magic ", option.value[0], " says");
        }
    }
}

std::string PathOf(int file)
{
    return "/proc/self/fd/" + std::to_string(file);
}

aclrtBinHandle Load(const char* data, size_t size)
{
    if (size < sizeof(ELF) - 1 || std::string(data, sizeof(ELF) - 1) != ELF) {
        Refuse(ACL_ERROR_INVALID_FILE, size, " bytes that are no binary");
    }
    const int file = memfd_create("kernel", MFD_CLOEXEC);
    for (size_t at = 0; file >= 0 && at < size;) {
        const ssize_t written = write(file, data + at, size - at);
        if (written <= 0) {
            close(file);
            Refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "there is no memory for ", size, " bytes of a binary");
        }
        at += static_cast<size_t>(written);
    }
    void* const library = file < 0 ? nullptr : dlopen(PathOf(file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* const said = dlerror();
        close(file);
        Refuse(ACL_ERROR_INVALID_FILE, "the binary is not of the host model: ", said == nullptr ? "no file" : said);
    }
    binaries.push_back(Binary{NewUse(), library, file, {}});
    return &binaries.back();
}

}  // namespace

Function& FunctionOf(aclrtFuncHandle handle)
{
    CurrentContext();
    for (Binary& binary : binaries) {
        for (Function& function : binary.functions) {
            if (&function == handle) {
                return function;
            }
        }
    }
    Refuse(ACL_ERROR_RT_INVALID_HANDLE, handle, " is no function of a binary");
}

}  // namespace acl

using namespace acl;

aclError aclrtBinaryLoadFromFile(const char* path, aclrtBinaryLoadOptions* options, aclrtBinHandle* binary)
{
    return Call("aclrtBinaryLoadFromFile", [&] {
        CurrentContext();
        CheckOptions(options);
        std::ifstream file(&Given(path, "the path"), std::ios::binary);
        if (!file) {
            Refuse(ACL_ERROR_INVALID_FILE, path, " cannot be read");
        }
        const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        Given(binary, "the place of the binary") = Load(bytes.data(), bytes.size());
    });
}

#if ACL_VERSION >= 850
aclError aclrtBinaryLoadFromData(
    const void* data, size_t size, const aclrtBinaryLoadOptions* options, aclrtBinHandle* binary)
{
    return Call("aclrtBinaryLoadFromData", [&] {
        CurrentContext();
        CheckOptions(options);
        const char* const bytes = &Given(static_cast<const char*>(data), "the data");
        Given(binary, "the place of the binary") = Load(bytes, size);
    });
}
#endif

aclError aclrtBinaryUnLoad(aclrtBinHandle binary)
{
    return Call("aclrtBinaryUnLoad", [&] {
        Binary& found = BinaryOf(binary);
        RefuseInUse(found.use, "the binary", ACL_ERROR_RT_PARAM_INVALID);
        EndUse(found.use);
        dlclose(found.library);
        // The system finds libraries by their paths: one that stays keeps its own.
        void* const stays = dlopen(PathOf(found.file).c_str(), RTLD_NOW | RTLD_NOLOAD);
        if (stays == nullptr) {
            close(found.file);
        } else {
            dlclose(stays);
        }
        binaries.remove_if([&](const Binary& other) { return &other == &found; });
    });
}

aclError aclrtBinaryGetFunction(aclrtBinHandle binary, const char* name, aclrtFuncHandle* function)
{
    return Call("aclrtBinaryGetFunction", [&] {
        Binary& found = BinaryOf(binary);
        const std::string wanted = &Given(name, "the name");
        void* const entry = dlsym(found.library, wanted.c_str());
        const auto* const arguments = static_cast<const char*>(dlsym(found.library, (wanted + ARGUMENTS).c_str()));
        if (entry == nullptr || arguments == nullptr) {
            Refuse(ACL_ERROR_RT_PARAM_INVALID, "the binary has no kernel `", wanted, "`");
        }
        found.functions.push_back(Function{&found, wanted, entry, arguments});
        Given(function, "the place of the function") = &found.functions.back();
    });
}
