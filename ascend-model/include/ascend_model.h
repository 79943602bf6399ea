/* The host model as a library: memory it watches, and launches on it. Everything it computes is SIMULATED.
 *
 * Calls may come from any thread; launches run one at a time. */
#ifndef ASCEND_MODEL_H
#define ASCEND_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* When transfers and instructions take place. */
enum { ASCEND_MODEL_IMMEDIATE = 0, ASCEND_MODEL_DELAYED = 1 };
/* What fills unified buffer where a padded transfer leaves it unspecified. */
enum { ASCEND_MODEL_POISON_FIRST = 0, ASCEND_MODEL_POISON_NAN = 1 };

/* How a launch varies where the interface leaves freedom. */
typedef struct ascend_model_options {
    size_t size;           /* sizeof(ascend_model_options) as the caller knows it */
    uint64_t seed;         /* of what follows */
    uint32_t dma;          /* ASCEND_MODEL_IMMEDIATE, or DELAYED: to the last moment that flags and barriers allow */
    uint32_t poison;       /* ASCEND_MODEL_POISON_FIRST or NAN */
    uint32_t jitter_order; /* 1: reductions of the vendor add in a seeded order */
    uint32_t jitter_ulps;  /* most units in the last place by which Div, Sqrt and Exp are off, seeded */
    uint32_t unknown;      /* 1: where no document says what a chip does, the other plausible result. 2201 and 2002: NaN
                              becomes the largest integer (else 0), subnormal results become 0 (else stay), floats
                              beyond half and bfloat16 become the largest (else infinity) */
} ascend_model_options;

/* What the last launch did. */
typedef struct ascend_model_counters {
    size_t size;                  /* sizeof(ascend_model_counters), set by the caller */
    uint64_t bytes_in;            /* global memory to unified buffer */
    uint64_t bytes_out;           /* unified buffer to global memory */
    uint64_t scalar_bytes_in;     /* read from global memory element by element */
    uint64_t scalar_bytes_out;
    uint64_t vector_instructions; /* calls of vector instructions, of all cores */
    uint64_t transfers;
    uint64_t peak_ub_bytes;       /* most unified buffer given out on a core */
} ascend_model_counters;

/* Memory that kernels may touch. What is in it counts as unwritten. 0, or −1 where it overlaps memory that is known. */
int ascend_model_memory_add(void* base, size_t bytes);
/* 0, or −1 where no memory that is known begins there. */
int ascend_model_memory_remove(void* base);
/* The host has written these bytes. */
void ascend_model_memory_written(const void* at, size_t bytes);
/* 1 where every byte is known and was written, else 0. */
int ascend_model_memory_readable(const void* at, size_t bytes);

/* Calls `function` with `count` arguments of 8 bytes on `blocks` cores, one after the other. 0, or the number of
 * findings; `report` gets them as text, cut off at `report_bytes` with the final 0. Where `options` is null they come
 * from ASCEND_MODEL_SEED, _DMA (immediate, delayed), _POISON (first, nan), _JITTER (`order`, a number of ulps, or both
 * with a comma) and _UNKNOWN (usual, other). −1: too many arguments or bad options, as `report` says. */
int ascend_model_launch(
    void* function, uint32_t blocks, const uint64_t* args, size_t count, const ascend_model_options* options,
    char* report, size_t report_bytes);

/* Of the last launch of this process. */
void ascend_model_last_counters(ascend_model_counters* counters);

#ifdef __cplusplus
}
#endif

#endif
