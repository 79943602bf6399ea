/* Adds a residual and normalises each row with the kernel of a bundle:
 *
 *   fusewright compile ffi/c/examples/add_norm.fw --target cpu -o BUNDLE
 *   cc -Iffi/c/include ffi/c/examples/add_norm.c -Ltarget/release -lfusewright_c -o add_norm
 *   LD_LIBRARY_PATH=target/release ./add_norm BUNDLE 4
 */
#include <stdio.h>
#include <stdlib.h>

#include "fusewright.h"

enum { WIDTH = 96 };

/* Ends the program where a call failed. */
static void check(fusewright_status status, const char *doing) {
    if (status != FUSEWRIGHT_OK) {
        fprintf(stderr, "%s: %s\n", doing, fusewright_last_error());
        exit(1);
    }
}

static float *values(size_t count, float from) {
    float *made = malloc(count * sizeof(float) + 1);
    if (made == NULL) {
        fprintf(stderr, "no memory for %zu values\n", count);
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        made[i] = from + (float)(i % 7) * 0.25f;
    }
    return made;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s BUNDLE ROWS\n", argv[0]);
        return 2;
    }
    const size_t rows = strtoul(argv[2], NULL, 10);

    fusewright_bundle *bundle = NULL;
    check(fusewright_bundle_open(argv[1], &bundle), "opening the bundle");
    fusewright_kernel_info info;
    check(fusewright_bundle_info(bundle, 0, &info), "asking for its first kernel");
    printf("%s computes %s on %s\n", info.name, info.pattern, info.target);
    for (size_t i = 0; i < info.parameters; i++) {
        static const char *const accesses[] = {"in", "out", "inout"};
        fusewright_parameter_info parameter;
        const char *value;
        check(fusewright_bundle_parameter(bundle, 0, i, &parameter), "asking for a parameter");
        check(fusewright_bundle_value(bundle, 0, 0, i, &value), "asking for its value");
        printf("  %s: %s, %zu axes, %s\n", value, parameter.dtype, parameter.rank, accesses[parameter.access]);
    }
    fusewright_kernel *kernel = NULL;
    check(fusewright_kernel_load(bundle, 0, &kernel), "loading the kernel");
    fusewright_bundle_close(bundle);

    const int64_t matrix[] = {(int64_t)rows, WIDTH}, row[] = {WIDTH};
    float *x = values(rows * WIDTH, -0.5f), *residual = values(rows * WIDTH, 1.0f), *weight = values(WIDTH, 0.5f);
    float *sum = values(rows * WIDTH, 0.0f), *normed = values(rows * WIDTH, 0.0f);
    const fusewright_tensor tensors[] = {
        {x, matrix, 2}, {residual, matrix, 2}, {weight, row, 1}, {sum, matrix, 2}, {normed, matrix, 2},
    };
    check(fusewright_kernel_launch(kernel, tensors, sizeof tensors / sizeof *tensors, 2), "launching it");
    fusewright_kernel_close(kernel);

    for (size_t i = 0; i < rows * WIDTH; i++) {
        printf("%a %a\n", (double)sum[i], (double)normed[i]);
    }
    free(x), free(residual), free(weight), free(normed), free(sum);
    return 0;
}
