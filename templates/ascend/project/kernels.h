// What every kernel of this folder takes, for @{ chip }@ (@{ arch }@): `main.cpp` launches from these tables alone.
//
// Arguments are 8 bytes each, in this order: the addresses of the buffers, the integers, the first row and the row
// behind the last. Tiling is nothing else: a kernel deals the rows of the range to its blocks by itself.
#ifndef FUSEWRIGHT_KERNELS_H
#define FUSEWRIGHT_KERNELS_H

#include "launch_table.h"
#ifdef FUSEWRIGHT_ASC
//%- for k in kernels %//
extern "C" void launch_@{ k.name }@(
    uint32_t blocks, void* stream, void* const* buffers, const int64_t* dims, int64_t begin, int64_t end);
//%- endfor %//
#endif

namespace fusewright {

// Vector cores of the chip that the kernels are for; `--blocks` says another number.
constexpr uint32_t VECTOR_CORES = @{ vector_cores }@;

inline const std::vector<Kernel>& Kernels()
{
    static const std::vector<Kernel> kernels = {
        //%- for k in kernels %//
        {
            "@{ k.name }@",
            {
                //%- for b in k.buffers %//
                {"@{ b.name }@", DType::@{ b.dtype }@, Access::@{ b.access }@, @{ b.alias }@,
                    [](const int64_t* d) -> int64_t { (void)d; return @{ b.elements }@; }},
                //%- endfor %//
            },
            {//%- for d in k.dims %//"@{ d }@"//%- if !loop.last %//, //%- endif %////%- endfor %//},
            [](const int64_t* d) -> int64_t { (void)d; return @{ k.rows }@; },
            [](const int64_t* d) -> bool { (void)d; return @{ k.fits }@; },
            @{ k.ascending }@,
#ifdef FUSEWRIGHT_ASC
            launch_@{ k.name }@,
#else
            nullptr,
#endif
        },
        //%- endfor %//
    };
    return kernels;
}

}  // namespace fusewright

#endif  // FUSEWRIGHT_KERNELS_H
