#include "report.h"

#include <cstdarg>
#include <cstdio>

namespace ascend_model {

namespace {

constexpr size_t MOST_FINDINGS = 32;

std::string Format(const char* form, va_list values)
{
    char text[1024];
    vsnprintf(text, sizeof(text), form, values);
    return text;
}

}  // namespace

void Report::Begin(const std::string& kernelName)
{
    kernel = kernelName;
    core = 0;
    findings.clear();
}

void Report::BeginCore(uint32_t index)
{
    core = index;
}

// Findings of one call site of the model for one name are one finding, shown with the values of the first.
void Report::Put(const char* api, const char* form, const std::string& values)
{
    const std::string key = std::string(api) + form;
    for (Finding& known : findings) {
        if (known.form == key) {
            ++known.times;
            return;
        }
    }
    const std::string text =
        "kernel " + kernel + ", core " + std::to_string(core) + ": " + api + ": " + values;
    findings.push_back({text, key, 1});
}

void Report::Add(const char* api, const char* form, ...)
{
    va_list values;
    va_start(values, form);
    const std::string text = Format(form, values);
    va_end(values);
    Put(api, form, text);
    if (findings.size() >= MOST_FINDINGS) {
        throw Stop();
    }
}

void Report::Note(const char* api, const char* form, ...)
{
    va_list values;
    va_start(values, form);
    const std::string text = Format(form, values);
    va_end(values);
    Put(api, form, text);
}

void Report::Fault(const char* api, const char* form, ...)
{
    va_list values;
    va_start(values, form);
    const std::string text = Format(form, values);
    va_end(values);
    Put(api, form, text);
    throw Stop();
}

std::string Report::Text() const
{
    std::string all;
    for (const Finding& finding : findings) {
        all += finding.text;
        if (finding.times > 1) {
            all += " (and " + std::to_string(finding.times - 1) + " more like it)";
        }
        all += "\n";
    }
    return all;
}

}  // namespace ascend_model
