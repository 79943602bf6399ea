// Which rows a core computes, and in which tiles.
#pragma once

#include "kernel_operator.h"

namespace fusewright {

using namespace AscendC;

// Quotient rounded toward minus infinity.
__aicore__ inline int64_t FloorDiv(int64_t a, int64_t b)
{
    const int64_t q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

// Remainder with the sign of the divisor.
__aicore__ inline int64_t FloorMod(int64_t a, int64_t b)
{
    return a - FloorDiv(a, b) * b;
}

__aicore__ inline int64_t Larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

__aicore__ inline int64_t Smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// The rows of [first, last) that this vector core computes: runs of equal length, up to the last ones, that begin at
// multiples of `granule`.
struct RowRange {
    int64_t begin;
    int64_t end;

    __aicore__ inline RowRange(int64_t first, int64_t last, int64_t granule = 1)
    {
        const int64_t cores = GetBlockNum();
        const int64_t origin = first / granule * granule;
        const int64_t granules = (last - origin + granule - 1) / granule;
        const int64_t run = (granules + cores - 1) / cores * granule;
        begin = Larger(first, origin + run * static_cast<int64_t>(GetBlockIdx()));
        end = Smaller(origin + run * (static_cast<int64_t>(GetBlockIdx()) + 1), last);
    }
};

// Some outer rows with some of the inner rows of each.
struct Tile {
    int64_t row;
    int64_t inner;
    uint32_t rows;
    uint32_t inners;

    __aicore__ inline uint32_t Count() const
    {
        return rows * inners;
    }
};

// The tiles of [begin, end): of `most` outer rows, and of `mostInner` of their `inner` inner rows.
class Tiles {
public:
    __aicore__ inline Tiles(int64_t begin, int64_t end, int64_t most, int64_t inner, int64_t mostInner)
        : count((end - begin + most - 1) / most * ((inner + mostInner - 1) / mostInner)),
          begin(begin), end(end), most(most), inner(inner), mostInner(mostInner), parts((inner + mostInner - 1) / mostInner)
    {}

    __aicore__ inline Tile At(int64_t i) const
    {
        Tile tile;
        tile.row = begin + i / parts * most;
        tile.inner = i % parts * mostInner;
        tile.rows = static_cast<uint32_t>(Smaller(most, end - tile.row));
        tile.inners = static_cast<uint32_t>(Smaller(mostInner, inner - tile.inner));
        return tile;
    }

    const int64_t count;

private:
    const int64_t begin;
    const int64_t end;
    const int64_t most;
    const int64_t inner;
    const int64_t mostInner;
    const int64_t parts;
};

// Copies into unified buffer that come after this wait for vector instructions that used the place before.
__aicore__ inline void AwaitVectors()
{
    const TEventID unused = GetTPipePtr()->FetchEventID(HardEvent::V_MTE2);
    SetFlag<HardEvent::V_MTE2>(unused);
    WaitFlag<HardEvent::V_MTE2>(unused);
}

}  // namespace fusewright
