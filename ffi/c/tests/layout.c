/* Prints what a program sees of the header's types, for a test to compare with the library's. */
#include <stddef.h>
#include <stdio.h>

#include "fusewright.h"


int main(void) {
    const size_t numbers[] = {
        sizeof(fusewright_status),
        sizeof(fusewright_access),
        sizeof(fusewright_kernel_info),
        offsetof(fusewright_kernel_info, name),
        offsetof(fusewright_kernel_info, pattern),
        offsetof(fusewright_kernel_info, target),
        offsetof(fusewright_kernel_info, parameters),
        offsetof(fusewright_kernel_info, uses),
        sizeof(fusewright_parameter_info),
        offsetof(fusewright_parameter_info, name),
        offsetof(fusewright_parameter_info, dtype),
        offsetof(fusewright_parameter_info, rank),
        offsetof(fusewright_parameter_info, access),
        offsetof(fusewright_parameter_info, alias),
        sizeof(fusewright_tensor),
        offsetof(fusewright_tensor, data),
        offsetof(fusewright_tensor, shape),
        offsetof(fusewright_tensor, rank),
        FUSEWRIGHT_OK,
        FUSEWRIGHT_ARGUMENT,
        FUSEWRIGHT_BUNDLE,
        FUSEWRIGHT_DEVICE,
        FUSEWRIGHT_LAUNCH,
        FUSEWRIGHT_INTERNAL,
        FUSEWRIGHT_IN,
        FUSEWRIGHT_OUT,
        FUSEWRIGHT_INOUT,
        fusewright_abi_version(),
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        printf("%zu\n", numbers[i]);
    }
    return 0;
}
