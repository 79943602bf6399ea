// What was found wrong in a launch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ascend_model {

// Thrown where nothing sensible can follow; the launch ends.
struct Stop {};

class Report {
public:
    void Begin(const std::string& kernelName);
    void BeginCore(uint32_t index);

    // A finding about a call of `api`; equal ones are counted. Throws Stop once there are many.
    void Add(const char* api, const char* form, ...) __attribute__((format(printf, 3, 4)));
    // A finding after which the launch cannot go on.
    [[noreturn]] void Fault(const char* api, const char* form, ...) __attribute__((format(printf, 3, 4)));
    // As Add, from where nothing may be thrown.
    void Note(const char* api, const char* form, ...) __attribute__((format(printf, 3, 4)));

    int Count() const { return static_cast<int>(findings.size()); }
    std::string Text() const;

private:
    struct Finding {
        std::string text;
        std::string form;
        uint64_t times;
    };

    void Put(const char* api, const char* form, const std::string& values);

    std::string kernel;
    uint32_t core = 0;
    std::vector<Finding> findings;
};

}  // namespace ascend_model
