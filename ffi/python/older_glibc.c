// LLVM's archives for Debian 12 take random numbers, for names of temporary files, from a function that glibc has since 2.36.
// With one of its own the module runs with glibc 2.34.
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
    uint32_t bits;
    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        abort();
    return bits;
}
