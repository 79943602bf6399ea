// Which bytes an instruction touches: masks, repeats and strides as runs of bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "machine.h"

namespace ascend_model {

constexpr uint32_t REPEAT_BYTES = 256;
constexpr uint32_t REPEAT_BLOCKS = 8;

// Bits of an element.
uint32_t Bits(DType type);
const char* Name(DType type);

// Lanes and repeats of one instruction, checked.
struct Shape {
    bool dense;        // elements side by side: `total` of them
    uint64_t total;    // of all repeats
    uint32_t lanes;    // of a whole repeat
    uint32_t repeats;
    uint64_t low;
    uint64_t high;
    bool counter;      // the last repeat has what is left of `total`

    bool Active(uint32_t repeat, uint32_t lane) const
    {
        if (dense || counter) {
            return static_cast<uint64_t>(repeat) * lanes + lane < total;
        }
        return ((lane < 64 ? low >> lane : high >> (lane - 64)) & 1) != 0;
    }

    // Whether all of `count` lanes from `first` on are active, which is a divisor of 64 or a multiple of it.
    bool Whole(uint32_t repeat, uint32_t first, uint32_t count) const
    {
        if (first + count > lanes) {
            return false;
        }
        if (dense || counter) {
            return static_cast<uint64_t>(repeat) * lanes + first + count <= total;
        }
        if (count >= 64) {
            return low == ~uint64_t{0} && (count == 64 || high == ~uint64_t{0});
        }
        const uint64_t word = first < 64 ? low >> first : high >> (first - 64);
        const uint64_t all = (uint64_t{1} << count) - 1;
        return (word & all) == all;
    }
};

// `widest` are the bits of the widest element.
Shape Resolve(Machine& machine, const char* api, const Lanes& lanes, uint32_t widest);

// Byte offset of a lane of a repeat, from the start of unified buffer; of elements of half a byte, of their byte.
inline uint32_t Place(const Operand& operand, uint32_t bits, uint32_t repeat, uint32_t lane)
{
    const uint32_t perBlock = BLOCK_BYTES * 8 / bits;
    return operand.at.offset +
           (repeat * operand.repeatStride + lane / perBlock * operand.blockStride) * BLOCK_BYTES +
           lane % perBlock * bits / 8;
}

struct Run {
    uint32_t begin;
    uint32_t end;
};

// The runs of bytes of one repeat, or of everything where the shape is dense.
std::vector<Run> RunsOf(const Operand& operand, const Shape& shape, uint32_t repeat);

// Checks that an operand is live, aligned, inside its tensor and has strides that mean something.
void CheckOperand(Machine& machine, const char* api, const char* what, const Operand& operand, const Shape& shape,
                  bool writes, uint32_t alignment = BLOCK_BYTES);

void MarkReads(Machine& machine, const Instruction& by, const char* what, const Operand& operand, const Shape& shape);
void MarkWrites(Machine& machine, const Instruction& by, const char* what, const Operand& operand, const Shape& shape);

// Sources and destination are the same lanes or apart. `accumulates`: what may be read again from where the repeat
// before it wrote, for instructions that have it.
void CheckOverlap(Machine& machine, const char* api, const char* what, const Operand& to, const Operand& from,
                  const Shape& shape, bool accumulates);

// As CheckOverlap where lanes of the two do not correspond: they must be apart.
void CheckPartsApart(Machine& machine, const char* api, const Operand& to, const Shape& toShape, const Operand& from,
                     const Shape& fromShape);

}  // namespace ascend_model
