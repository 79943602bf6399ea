/* A profiler's library for tests: it attaches as NVTX 3 has it, and writes down the ranges that it is told of.
 *
 * The program hands out a table of functions by its own export tables; a profiler writes its functions into the places that
 * the table has the addresses of. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

enum { CORE = 1, CALLBACKS = 1, VERSION_INFO = 3, PUSH = 9, POP = 11 };

typedef void (*function)(void);

struct callbacks {
    size_t bytes;
    int (*module_table)(int module, function ***table, unsigned *functions);
};

struct version_info {
    size_t bytes;
    uint32_t version, reserved;
    void (*take_version)(uint32_t version);
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char told[1 << 16];
static _Thread_local int depth;

static void tell(const char *mark, const char *text) {
    pthread_mutex_lock(&lock);
    size_t used = strlen(told);
    snprintf(told + used, sizeof told - used, "%s%s\n", mark, text);
    pthread_mutex_unlock(&lock);
}

static int push(const char *name) {
    tell("+", name);
    return depth++;
}

static int pop(void) {
    tell("-", "");
    return --depth;
}

/* Everything so far, a line each: `+NAME` where a range begins and `-` where it ends. */
SHOWN const char *profiler_told(void) { return told; }

SHOWN int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
    const struct version_info *version = export_table(VERSION_INFO);
    if (!version || version->bytes < sizeof *version || version->version != 3) return 0;
    version->take_version(3);
    const struct callbacks *callbacks = export_table(CALLBACKS);
    function **table = NULL;
    unsigned functions = 0;
    if (!callbacks || callbacks->bytes < sizeof *callbacks) return 0;
    if (!callbacks->module_table(CORE, &table, &functions) || functions <= POP) return 0;
    *table[PUSH] = (function)push;
    *table[POP] = (function)pop;
    return 1;
}
