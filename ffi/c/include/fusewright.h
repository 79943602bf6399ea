/* Fusewright: kernels of bundles, launched from C. No compiler is in the library.
 *
 * A bundle is a folder that `fusewright compile MODEL.pt2 --target T -o FOLDER` writes. It is code: who can write to the
 * folder is to be trusted. Functions may be called from any thread, and a kernel may be launched by several at once. */
#ifndef FUSEWRIGHT_H
#define FUSEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a call ended; fusewright_last_error() says more. */
typedef enum fusewright_status {
    FUSEWRIGHT_OK = 0,
    FUSEWRIGHT_ARGUMENT = 1, /* null where it must not be, or it does not fit what it is for */
    FUSEWRIGHT_BUNDLE = 2,   /* cannot be read, is damaged, or is of another version */
    FUSEWRIGHT_DEVICE = 3,   /* no device, driver or processor for the kernel */
    FUSEWRIGHT_LAUNCH = 4,   /* a launch that failed */
    FUSEWRIGHT_INTERNAL = 5  /* a defect of the library */
} fusewright_status;

typedef struct fusewright_bundle fusewright_bundle;
typedef struct fusewright_kernel fusewright_kernel;

/* A kernel of a bundle. Texts are UTF-8 and the bundle's until it is closed. */
typedef struct fusewright_kernel_info {
    const char *name;    /* unique among kernels of one target */
    const char *pattern; /* of the fused region, such as add_rms_norm */
    const char *target;  /* such as cpu */
    size_t parameters;   /* number of tensors of a launch */
    size_t uses;         /* number of regions of the graph that it computes */
} fusewright_kernel_info;

/* How launches touch a parameter. */
typedef enum fusewright_access {
    FUSEWRIGHT_IN = 0,   /* it is read */
    FUSEWRIGHT_OUT = 1,  /* it is written, whatever it held */
    FUSEWRIGHT_INOUT = 2 /* it holds what its alias holds at the launch, in the same memory or copied */
} fusewright_access;

/* A parameter of a kernel. */
typedef struct fusewright_parameter_info {
    const char *name;
    const char *dtype; /* such as bf16 */
    size_t rank;       /* number of axes */
    fusewright_access access;
    size_t alias; /* the parameter whose memory this one may be given as well, or SIZE_MAX */
} fusewright_parameter_info;

/* Memory of a launch: a dense tensor, row-major. Elements of four bits lie two in a byte, the first in the low half. */
typedef struct fusewright_tensor {
    void *data;           /* null only if there are no elements */
    const int64_t *shape; /* extents, `rank` of them, in elements; null only if there are none */
    size_t rank;
} fusewright_tensor;

/* What the last call of this thread failed with, empty if it did not; the library's, until the next call. */
const char *fusewright_last_error(void);

/* The version of the calling convention of kernels; bundles of another one are refused. */
uint32_t fusewright_abi_version(void);

/* Opens the bundle in a folder and checks its manifest. Code is read, and compared with its hash, when it is loaded. */
fusewright_status fusewright_bundle_open(const char *folder, fusewright_bundle **bundle);

/* Closes a bundle; kernels that were loaded stay. Null is nothing. */
void fusewright_bundle_close(fusewright_bundle *bundle);

/* How many kernels there are, of all targets. */
fusewright_status fusewright_bundle_count(const fusewright_bundle *bundle, size_t *count);

/* The index of the kernel of a name and a target. */
fusewright_status fusewright_bundle_find(const fusewright_bundle *bundle, const char *name, const char *target,
                                         size_t *index);

/* The index of the best variant of a kernel for this machine: for the highest level of its processor, or the newest code
 * that its GPU runs. `device` is cpu, cuda for the first GPU or cuda:1 and so on; `name` is without what tells levels of
 * processors. */
fusewright_status fusewright_bundle_choose(const fusewright_bundle *bundle, const char *name, const char *device,
                                           size_t *index);

/* What a kernel is. */
fusewright_status fusewright_bundle_info(const fusewright_bundle *bundle, size_t index, fusewright_kernel_info *info);

/* What a parameter of a kernel is. */
fusewright_status fusewright_bundle_parameter(const fusewright_bundle *bundle, size_t index, size_t parameter,
                                              fusewright_parameter_info *info);

/* The value of the graph that a parameter is in one of a kernel's uses, by its name in the graph's text, such as %x. */
fusewright_status fusewright_bundle_value(const fusewright_bundle *bundle, size_t index, size_t of_use,
                                          size_t parameter, const char **value);

/* Loads a kernel for the first device of its target. */
fusewright_status fusewright_kernel_load(const fusewright_bundle *bundle, size_t index, fusewright_kernel **kernel);

/* Loads a kernel for the device of a number, as the driver counts those of this process from 0: a kernel of GPUs is loaded
 * once for each that it is to run on, before a capture begins. Which device is current does not matter to any function. */
fusewright_status fusewright_kernel_load_on(const fusewright_bundle *bundle, size_t index, size_t device,
                                            fusewright_kernel **kernel);

/* Frees a kernel, which must run nowhere: streams have passed its launches. Nothing waits. Null is nothing. */
void fusewright_kernel_close(fusewright_kernel *kernel);

/* Computes all rows on memory of the host, at any address, on up to `threads` threads, and waits. Tensors come in the order
 * of the parameters, `count` of them. Shapes are checked against each other and the kernel; whether memory is as large as
 * its shape says only the caller knows. Memory that is written must not be given twice, but where an alias allows it. A
 * kernel of a GPU copies to the device and back. */
fusewright_status fusewright_kernel_launch(const fusewright_kernel *kernel, const fusewright_tensor *tensors,
                                           size_t count, size_t threads);

/* As fusewright_kernel_launch, but enqueues on a stream, on memory of the device that the kernel was loaded for: `stream` is
 * a CUstream (or cudaStream_t) of its primary context, null its default stream; one of another device is an argument that
 * does not fit. Nothing waits and nothing is allocated on the device. A stream that is being captured takes the launch into
 * its graph; the kernel's code then stays for as long as the process runs. */
fusewright_status fusewright_kernel_enqueue(const fusewright_kernel *kernel, const fusewright_tensor *tensors,
                                            size_t count, void *stream);

#ifdef __cplusplus
}
#endif

#endif
