// The run-time compiler that this library stands in for: sources are compiled by the host's compiler against the headers of
// the host model.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#ifndef ACL_MODEL_FLAGS
#error "no headers: compile with -DACL_MODEL_FLAGS, the options with which kernels are compiled"
#endif

using aclError = int;
using aclrtcProg = void*;

namespace {

constexpr aclError ACL_SUCCESS = 0;
constexpr aclError ACL_ERROR_RTC_INVALID_PROG = 176000;
constexpr aclError ACL_ERROR_RTC_INVALID_INPUT = 176001;
constexpr aclError ACL_ERROR_RTC_INVALID_OPTION = 176002;
constexpr aclError ACL_ERROR_RTC_COMPILATION = 176003;
constexpr aclError ACL_ERROR_RTC_FAILURE = 576000;
constexpr char ARCHITECTURE[] = "--npu-arch=dav-";

struct Header {
    std::string name;
    std::string text;
};

struct Program {
    std::string source;
    std::vector<Header> headers;
    std::string binary;
    std::string log;
    bool compiled = false;
};

std::mutex turns;
std::list<Program> programs;

Program* Find(aclrtcProg handle)
{
    for (Program& program : programs) {
        if (&program == handle) {
            return &program;
        }
    }
    return nullptr;
}

std::string Read(const std::filesystem::path& path)
{
    std::ifstream file(path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

// A folder that is gone with the value.
class Folder {
public:
    Folder()
    {
        std::string name = (std::filesystem::temp_directory_path() / "rtc-XXXXXX").string();
        if (mkdtemp(name.data()) != nullptr) {
            path = name;
        }
    }

    ~Folder()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }

    std::filesystem::path path;
};

// Runs a command without a shell; whether it succeeds.
bool Run(std::vector<std::string> command)
{
    std::vector<char*> words;
    for (std::string& word : command) {
        words.push_back(word.data());
    }
    words.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        execvp(words[0], words.data());
        _exit(127);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The source, and a line for each kernel that describes its arguments.
std::string Described(const std::string& source)
{
    std::string text = source + "\n#include \"kernel_arguments.h\"\n";
    const std::regex kernel(R"(extern\s+"C"\s+__global__\s+__aicore__\s+void\s+(\w+))");
    for (std::sregex_iterator found(source.begin(), source.end(), kernel), end; found != end; ++found) {
        const std::string name = (*found)[1];
        text += "extern \"C\" __attribute__((visibility(\"default\"))) const auto " + name +
                "__arguments = ascend_model::ArgumentsOf(&" + name + ");\n";
    }
    return text;
}

aclError Compile(Program& program, const std::string& architecture)
{
    const Folder folder;
    if (folder.path.empty()) {
        program.log = "SIMULATED: no folder for files can be made";
        return ACL_ERROR_RTC_FAILURE;
    }
    for (const Header& header : program.headers) {
        std::ofstream(folder.path / header.name) << header.text;
    }
    const std::string source = (folder.path / "kernel.cpp").string();
    const std::string out = (folder.path / "kernel.so").string();
    const std::string log = (folder.path / "log").string();
    std::ofstream(source) << Described(program.source);
    const char* const chosen = std::getenv("CXX");
    std::vector<std::string> command{"/bin/sh", "-c", "exec \"$@\" >\"$0\" 2>&1", log};
    command.push_back(chosen == nullptr || *chosen == '\0' ? "c++" : chosen);
    std::istringstream flags(ACL_MODEL_FLAGS);
    for (std::string flag; std::getline(flags, flag, '\n');) {
        command.push_back(flag);
    }
    command.insert(command.end(), {"-D__NPU_ARCH__=" + architecture, "-I" + folder.path.string(), source, "-o", out});
    const bool done = Run(command);
    program.log = "SIMULATED: " + Read(log);
    program.binary = Read(out);
    program.compiled = done && !program.binary.empty();
    return program.compiled ? ACL_SUCCESS : ACL_ERROR_RTC_COMPILATION;
}

}  // namespace

extern "C" {

#pragma GCC visibility push(default)

void fusewright_simulated_rtc() {}

aclError aclrtcCreateProg(
    aclrtcProg* program, const char* source, const char* name, int count, const char** headers, const char** names)
{
    const std::lock_guard<std::mutex> held(turns);
    if (program == nullptr || source == nullptr || name == nullptr || count < 0) {
        return ACL_ERROR_RTC_INVALID_INPUT;
    }
    // The end of its name says what a source is.
    const std::string file = name;
    if (file.size() < 4 || file.substr(file.size() - 4) != ".asc") {
        return ACL_ERROR_RTC_INVALID_INPUT;
    }
    programs.push_back(Program{source, {}, "", "", false});
    for (int i = 0; i < count; ++i) {
        programs.back().headers.push_back(Header{names[i], headers[i]});
    }
    *program = &programs.back();
    return ACL_SUCCESS;
}

aclError aclrtcCompileProg(aclrtcProg program, int count, const char** options)
{
    const std::lock_guard<std::mutex> held(turns);
    Program* const found = Find(program);
    if (found == nullptr) {
        return ACL_ERROR_RTC_INVALID_PROG;
    }
    std::string architecture;
    for (int i = 0; i < count; ++i) {
        const std::string option = options[i];
        if (option.rfind(ARCHITECTURE, 0) == 0) {
            architecture = option.substr(sizeof(ARCHITECTURE) - 1);
        }
    }
    if (architecture.empty()) {
        found->log = "SIMULATED: no option --npu-arch";
        return ACL_ERROR_RTC_INVALID_OPTION;
    }
    return Compile(*found, architecture);
}

aclError aclrtcGetBinDataSize(aclrtcProg program, size_t* size)
{
    const std::lock_guard<std::mutex> held(turns);
    const Program* const found = Find(program);
    if (found == nullptr || !found->compiled) {
        return ACL_ERROR_RTC_INVALID_PROG;
    }
    *size = found->binary.size();
    return ACL_SUCCESS;
}

aclError aclrtcGetBinData(aclrtcProg program, char* data)
{
    const std::lock_guard<std::mutex> held(turns);
    const Program* const found = Find(program);
    if (found == nullptr || !found->compiled) {
        return ACL_ERROR_RTC_INVALID_PROG;
    }
    std::memcpy(data, found->binary.data(), found->binary.size());
    return ACL_SUCCESS;
}

aclError aclrtcGetCompileLogSize(aclrtcProg program, size_t* size)
{
    const std::lock_guard<std::mutex> held(turns);
    const Program* const found = Find(program);
    if (found == nullptr) {
        return ACL_ERROR_RTC_INVALID_PROG;
    }
    *size = found->log.size() + 1;
    return ACL_SUCCESS;
}

aclError aclrtcGetCompileLog(aclrtcProg program, char* log)
{
    const std::lock_guard<std::mutex> held(turns);
    const Program* const found = Find(program);
    if (found == nullptr) {
        return ACL_ERROR_RTC_INVALID_PROG;
    }
    std::memcpy(log, found->log.c_str(), found->log.size() + 1);
    return ACL_SUCCESS;
}

aclError aclrtcDestroyProg(aclrtcProg* program)
{
    const std::lock_guard<std::mutex> held(turns);
    const Program* const found = program == nullptr ? nullptr : Find(*program);
    if (found == nullptr) {
        return ACL_ERROR_RTC_INVALID_PROG;
    }
    programs.remove_if([&](const Program& other) { return &other == found; });
    *program = nullptr;
    return ACL_SUCCESS;
}

#pragma GCC visibility pop

}  // extern "C"
