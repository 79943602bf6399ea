// What the headers ask of libascend_model.so: calls of the interface become these, with types as values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ascend_model {

enum class DType : uint8_t { I4, I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, E4M3, E5M2, HIF8 };

enum class Pipe : uint8_t { S = 0, V = 1, MTE2 = 2, MTE3 = 3 };
constexpr uint32_t PIPES = 4;

// What is known of the chip when a kernel is compiled.
struct Chip {
    uint32_t arch;
    uint32_t ubBytes;
};

// Where a tensor in unified buffer lies: bytes from its start, and the buffer it must stay in. `hold` says which of the
// buffer's users it was given to, so that tensors that were handed on or freed are told from live ones.
struct Span {
    uint32_t offset = 0;
    uint32_t end = 0;
    uint32_t buffer = 0;
    uint32_t hold = 0;
};

// An operand in unified buffer. Strides count blocks of 32 bytes.
struct Operand {
    Span at;
    DType type;
    uint32_t blockStride = 1;
    uint32_t repeatStride = 8;
};

// Which lanes of how many repeats an instruction works on.
struct Lanes {
    enum Kind : uint8_t {
        FIRST,      // the first `count` elements; strides are those of elements side by side
        NUMBER,     // `count` lanes of each repeat (in counter mode: in all)
        BITS,       // those of `bits`, in each repeat
        REGISTERS,  // as the mask registers say
    };
    Kind kind;
    int64_t count;
    uint64_t bits[2];
    int64_t repeats;
};

// Repeats, from any number, so that those that do not fit can be told.
struct Repeats {
    int64_t value;

    template <typename T>
    constexpr Repeats(T given) : value(static_cast<int64_t>(given))
    {
    }
};

enum class Op : uint8_t {
    Add, Sub, Mul, Div, Max, Min, And, Or, AddRelu, SubRelu, MulAddDst,
    Abs, Exp, Ln, Sqrt, Rsqrt, Reciprocal, Relu, Not, Copy,
    Adds, Muls, Maxs, Mins, ShiftLeft, ShiftRight, LeakyRelu, Axpy,
    Duplicate,
};

// One vector instruction of a lane each: `sources` of `a` and `b` are read; `scalar` holds the bits of an element.
struct Elementwise {
    const char* api;
    Op op;
    uint8_t sources;
    Operand to;
    Operand a;
    Operand b;
    Lanes lanes;
    uint64_t scalar;
    bool rounds;
};
void Issue(const Elementwise& call);

struct Conversion {
    const char* api;
    Operand to;
    Operand from;
    Lanes lanes;
    uint8_t mode;
};
void Issue(const Conversion& call);

// Each of eight elements fills a block.
struct Spreading {
    const char* api;
    Operand to;
    Operand from;
    int64_t repeats;
};
void Issue(const Spreading& call);

enum class Fold : uint8_t { Sum, Max, Min };

// One result per repeat, per block or per pair of lanes, or one of all elements (`All`, which works in `work`).
struct Reduction {
    enum Over : uint8_t { Repeat, Block, Pair, All };
    const char* api;
    Fold fold;
    Over over;
    uint8_t order;
    bool index;
    Operand to;
    Operand from;
    Span work;
    Lanes lanes;
};
void Issue(const Reduction& call);

// A bit per lane: whether `a` compares so with `b`, or with a scalar. Bits of a repeat follow those of the one before.
struct Comparison {
    const char* api;
    uint8_t mode;
    bool scalar;
    Span to;
    Operand a;
    Operand b;
    Lanes lanes;
    uint64_t value;
};
void Issue(const Comparison& call);

// Per lane, by a bit of `mask`: `a` where it is set, else `b` or a scalar.
struct Selection {
    const char* api;
    uint8_t mode;
    bool scalar;
    Operand to;
    Span mask;
    Operand a;
    Operand b;
    Lanes lanes;
    uint64_t value;
};
void Issue(const Selection& call);

// Elements of `from` at offsets in bytes, from `base` on; or eight blocks of 32 bytes per repeat.
struct Gathering {
    const char* api;
    bool blocks;
    Operand to;
    Span from;
    Span offsets;
    uint32_t base;
    Lanes lanes;
};
void Issue(const Gathering& call);

// `first`, and one more with each element.
struct Numbering {
    const char* api;
    Operand to;
    Lanes lanes;
    uint64_t first;
};
void Issue(const Numbering& call);

// A square of 16 by 16 elements of 16 bits.
struct Transposition {
    const char* api;
    Operand to;
    Operand from;
};
void Issue(const Transposition& call);

// A transfer, in bytes: blocks of `bytes` at distances of `fromStep` and `toStep` from start to start. On the side of
// unified buffer blocks are filled up to 32 bytes.
struct Transfer {
    const char* api;
    bool padded;
    bool pads;
    uint64_t global;
    Span ub;
    Span ubFrom;
    uint32_t element;
    int64_t blocks;
    int64_t bytes;
    int64_t fromGap;
    int64_t toGap;
    uint32_t left;
    uint32_t right;
    uint64_t padding;
};
void CopyIn(const Transfer& call);
void CopyOut(const Transfer& call);
void CopyWithin(const Transfer& call);

// Scalar accesses; `value` has room for `bytes`.
void ReadLocal(const Span& at, uint32_t bytes, void* value);
void WriteLocal(const Span& at, uint32_t bytes, const void* value);
void ReadGlobal(uint64_t at, uint32_t bytes, void* value);
void WriteGlobal(uint64_t at, uint32_t bytes, const void* value);
// Writes the line of 64 bytes at `at` back, or everything.
void CleanCache(uint64_t at, bool everything);

// A tensor within another: `bytes` on, in elements of `element` bytes.
Span Within(const Span& at, int64_t bytes);

// The first `bytes` of a tensor, or more of the buffer that it lies in.
Span First(const Span& at, int64_t bytes);

void SetFlag(Pipe from, Pipe to, int32_t id);
void WaitFlag(Pipe from, Pipe to, int32_t id);
void Barrier(Pipe pipe);
void BarrierAll();
int32_t FetchEvent(Pipe from, Pipe to);
int32_t AllocEvent(Pipe from, Pipe to);
void ReleaseEvent(Pipe from, Pipe to, int32_t id);

void PipeBegin(const Chip& chip, void* pipe);
void PipeReset();
void PipeEnd() noexcept;
void* PipePointer();

uint32_t QueueInit(Pipe producer, Pipe consumer, int32_t depth, int64_t buffers, int64_t bytes);
Span QueueAlloc(uint32_t queue);
void QueuePut(uint32_t queue, const Span& tensor);
Span QueueTake(uint32_t queue);
void QueueFree(uint32_t queue, const Span& tensor);
uint32_t QueueFilled(uint32_t queue);
uint32_t QueueIdle(uint32_t queue);
Span BufferInit(int64_t bytes);

void SetMaskCounter(bool counter);
void SetMaskBits(uint64_t high, uint64_t low);
void SetDeqScale(uint16_t scale);

int64_t BlockIndex();
int64_t BlockCount();

// An offset of an odd number of elements of half a byte.
void HalfByte(int64_t elements);

// The value of an argument has no place in the field of `bytes` that the interface gives it.
void DoesNotFit(int64_t value, uint64_t bytes);

}  // namespace ascend_model
