// The form of the tables in `kernels.h`.
#ifndef FUSEWRIGHT_LAUNCH_TABLE_H
#define FUSEWRIGHT_LAUNCH_TABLE_H

#include <cstdint>
#include <string>
#include <vector>

namespace fusewright {

enum class DType {
    F64, F32, BF16, F16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL, I4, U4, F8E4M3, F8E5M2, F8E8M0, F4E2M1
};

inline int64_t Bits(DType dtype)
{
    switch (dtype) {
        case DType::F64:
        case DType::I64:
        case DType::U64:
            return 64;
        case DType::F32:
        case DType::I32:
        case DType::U32:
            return 32;
        case DType::BF16:
        case DType::F16:
        case DType::I16:
        case DType::U16:
            return 16;
        case DType::I4:
        case DType::U4:
        case DType::F4E2M1:
            return 4;
        default:
            return 8;
    }
}

enum class Access { IN, OUT, INOUT };

// One buffer argument. `alias` is the buffer whose memory it has, or -1.
struct Buffer {
    std::string name;
    DType dtype;
    Access access;
    int alias;
    int64_t (*elements)(const int64_t* dims);

    int64_t Bytes(const int64_t* dims) const { return (elements(dims) * Bits(dtype) + 7) / 8; }
};

// Launches one kernel through the front end's `<<<>>>`.
using Launch = void (*)(
    uint32_t blocks, void* stream, void* const* buffers, const int64_t* dims, int64_t begin, int64_t end);

struct Kernel {
    std::string name;
    std::vector<Buffer> buffers;
    std::vector<std::string> dims;
    int64_t (*rows)(const int64_t* dims);
    // Whether no row leaves its buffers with these integers, none of which is negative.
    bool (*fits)(const int64_t* dims);
    // Whether rows have to be computed one after the other: it is then launched on one block.
    bool ascending;
    Launch launch;
};

// Integer functions of extents: toward minus infinity, with the sign of the divisor.
inline int64_t FloorDiv(int64_t a, int64_t b)
{
    const int64_t q = a / b;
    return (a % b != 0 && (a % b < 0) != (b < 0)) ? q - 1 : q;
}

inline int64_t FloorMod(int64_t a, int64_t b)
{
    return a - FloorDiv(a, b) * b;
}

inline int64_t Larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

inline int64_t Smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

}  // namespace fusewright

#endif  // FUSEWRIGHT_LAUNCH_TABLE_H
