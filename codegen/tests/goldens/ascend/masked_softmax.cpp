// masked_softmax for Ascend 910B1 (dav-2201), from this row program:
//
//   kernel @masked_softmax(t = extent(x, 1), n = extent(x, 2)) rows t {
//     param %x: f32[3, t, n] in
//     param %y: f32[3, t, n] out
//     param %top: f32[3, t] out
//     segment @heads inner 3 {
//       %0 = load x[inner*n*t + n*row + lane] : row<f32, n>
//       %1 = literal f32 -inf
//       %2 = literal f32 0.0
//       %3 = literal f32 1.0
//       %4 = index row
//       %5 = cast %4 to i32 rne
//       %6 = iota n
//       %7 = ge %5, %6
//       %8 = select %7, %0, %1
//       %9 = reduce max %8 over row nan propagate order tree(64)
//       %10 = eq %9, %1
//       %11 = select %10, %2, %9
//       %12 = sub %8, %11
//       %13 = exp %12
//       %14 = reduce add %13 over row nan propagate order tree(64)
//       %15 = select %10, %3, %14
//       %16 = div %13, %15
//       store y[inner*n*t + n*row + lane], %16
//       store top[inner*t + row], %9
//     }
//   }
//
// Rows are dealt to the vector cores in contiguous runs, and each core's rows to tiles that pass unified buffer once: a
// tile is copied in, computed with one vector instruction per step, and copied out, while its neighbours are on their way.
// Rows that do not fit unified buffer are passed over once for each reduction that waits for another, and once for what is
// stored: their elements are loaded as often.
#include "kernel_operator.h"
#include "row_program.h"
#include "copies.h"

using namespace AscendC;

namespace {

class HeadsFold1 {
public:
    __aicore__ inline HeadsFold1(TPipe& pipe, GM_ADDR x, int64_t t, int64_t n, const LocalTensor<float>& results)
    {
        this->t = t;
        this->n = n;
        this->results = results;
        xGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x));
        pipe.InitBuffer(xInQueue, DEPTH, 8192);
        pipe.InitBuffer(kept, 18080);
        pipe.InitBuffer(work, 24896);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end, int64_t innerRow)
    {
        if (begin >= end) {
            return;
        }
        this->innerRow = innerRow;
        infinities = kept.GetWithOffset<float>(8, 0);
        Duplicate(infinities.ReinterpretCast<uint32_t>(), 0xff800000u, 8);
        accumulators = kept.GetWithOffset<float>(64, 32);
        LocalTensor<float> tree = kept.GetWithOffset<float>(2176, 288);
        Duplicate(accumulators.ReinterpretCast<uint32_t>(), fusewright::Largest::NEUTRAL, 64);
        zeros = kept.GetWithOffset<float>(8, 8992);
        Duplicate(zeros, 0.0f, 8);
        nans = kept.GetWithOffset<float>(8, 9024);
        Duplicate(nans.ReinterpretCast<uint32_t>(), 0x7fc00000u, 8);
        LocalTensor<float> nanOrZero = kept.GetWithOffset<float>(8, 9056);
        LocalTensor<uint8_t> mask2 = kept.GetWithOffset<uint8_t>(32, 9088);
        accumulators2 = kept.GetWithOffset<float>(64, 9120);
        LocalTensor<float> tree2 = kept.GetWithOffset<float>(2176, 9376);
        Duplicate(accumulators2.ReinterpretCast<uint32_t>(), fusewright::Largest::NEUTRAL, 64);
        PipeBarrier<PIPE_V>();
        const fusewright::Tiles tiles(begin, end, ROWS, n, INNERS);
        if (tiles.count > 0) {
            CopyIn(tiles.At(0));
        }
        for (int64_t i = 0; i < tiles.count; ++i) {
            if (i + 1 < tiles.count) {
                CopyIn(tiles.At(i + 1));
            }
            Compute(tiles.At(i));
            CopyOut(tiles.At(i));
        }
        fusewright::CombineRows<fusewright::Largest, float, 64>(results, accumulators, tree, 1);
        fusewright::CombineRows<fusewright::Largest, int32_t, 64>(nanOrZero.ReinterpretCast<int32_t>(), accumulators2.ReinterpretCast<int32_t>(), tree2.ReinterpretCast<int32_t>(), 1);
        fusewright::KeepNan(results, nanOrZero, mask2);
    }

private:
    static constexpr int32_t DEPTH = 2;
    static constexpr int64_t ROWS = 1;
    static constexpr int64_t INNERS = 2048;

    __aicore__ inline void CopyIn(const fusewright::Tile& tile)
    {
        LocalTensor<float> xIn = xInQueue.AllocTensor<float>();
        fusewright::CopyIn(xIn, xGm[innerRow * n * t + n * tile.row + tile.inner], tile.inners);
        xInQueue.EnQue(xIn);
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<float> xIn = xInQueue.DeQue<float>();
        const int64_t row = tile.row;
        LocalTensor<int32_t> lane = work.GetWithOffset<int32_t>(2048, 0);
        CreateVecIndex(lane, static_cast<int32_t>(tile.inner), tile.inners);
        const int64_t index = row;
        const int64_t cast = static_cast<int32_t>(index);
        LocalTensor<int32_t> number = work.GetWithOffset<int32_t>(8, 8192);
        Duplicate(number, static_cast<int32_t>(cast), 8);
        LocalTensor<int32_t> spread = work.GetWithOffset<int32_t>(2048, 8224);
        PipeBarrier<PIPE_V>();
        fusewright::Spread(spread, number, 1, tile.inners);
        LocalTensor<int32_t> larger = work.GetWithOffset<int32_t>(2048, 16416);
        PipeBarrier<PIPE_V>();
        Max(larger, spread, lane, tile.inners);
        LocalTensor<uint8_t> ge = work.GetWithOffset<uint8_t>(288, 24608);
        PipeBarrier<PIPE_V>();
        fusewright::Compare<CMPMODE::EQ, false>(ge, larger, spread, tile.inners);
        LocalTensor<float> select = work.GetWithOffset<float>(2048, 0);
        PipeBarrier<PIPE_V>();
        fusewright::Choose<false, true>(select, ge, xIn, infinities, tile.inners);
        LocalTensor<uint8_t> mask = work.GetWithOffset<uint8_t>(288, 8192);
        PipeBarrier<PIPE_V>();
        fusewright::Compare<CMPMODE::EQ, false>(mask, select, select, tile.inners);
        LocalTensor<float> numbers = work.GetWithOffset<float>(2048, 8480);
        PipeBarrier<PIPE_V>();
        fusewright::Choose<false, true>(numbers, mask, select, infinities, tile.inners);
        PipeBarrier<PIPE_V>();
        fusewright::FoldRows<fusewright::Largest, float, 64>(accumulators, numbers, 1, tile.inners);
        fusewright::Choose<true, true>(numbers, mask, zeros, nans, tile.inners);
        PipeBarrier<PIPE_V>();
        fusewright::FoldRows<fusewright::Largest, int32_t, 64>(accumulators2.ReinterpretCast<int32_t>(), numbers.ReinterpretCast<int32_t>(), 1, tile.inners);
        xInQueue.FreeTensor(xIn);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<float> xGm;
    int64_t t;
    int64_t n;
    int64_t innerRow;
    TQue<TPosition::VECIN, DEPTH> xInQueue;
    TBuf<TPosition::VECCALC> kept;
    TBuf<TPosition::VECCALC> work;
    LocalTensor<float> results;
    LocalTensor<float> infinities;
    LocalTensor<float> accumulators;
    LocalTensor<float> zeros;
    LocalTensor<float> nans;
    LocalTensor<float> accumulators2;
};

class HeadsFold2 {
public:
    __aicore__ inline HeadsFold2(TPipe& pipe, GM_ADDR x, int64_t t, int64_t n, const LocalTensor<float>& results)
    {
        this->t = t;
        this->n = n;
        this->results = results;
        xGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x));
        pipe.InitBuffer(xInQueue, DEPTH, 8192);
        pipe.InitBuffer(kept, 9024);
        pipe.InitBuffer(work, 24896);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end, int64_t innerRow)
    {
        if (begin >= end) {
            return;
        }
        this->innerRow = innerRow;
        infinities = kept.GetWithOffset<float>(8, 0);
        Duplicate(infinities.ReinterpretCast<uint32_t>(), 0xff800000u, 8);
        zeros = kept.GetWithOffset<float>(8, 32);
        Duplicate(zeros, 0.0f, 8);
        accumulators = kept.GetWithOffset<float>(64, 64);
        LocalTensor<float> tree = kept.GetWithOffset<float>(2176, 320);
        Duplicate(accumulators.ReinterpretCast<uint32_t>(), fusewright::Sum::NEUTRAL, 64);
        PipeBarrier<PIPE_V>();
        const fusewright::Tiles tiles(begin, end, ROWS, n, INNERS);
        if (tiles.count > 0) {
            CopyIn(tiles.At(0));
        }
        for (int64_t i = 0; i < tiles.count; ++i) {
            if (i + 1 < tiles.count) {
                CopyIn(tiles.At(i + 1));
            }
            Compute(tiles.At(i));
            CopyOut(tiles.At(i));
        }
        fusewright::CombineRows<fusewright::Sum, float, 64>(results[8], accumulators, tree, 1);
    }

private:
    static constexpr int32_t DEPTH = 2;
    static constexpr int64_t ROWS = 1;
    static constexpr int64_t INNERS = 2048;

    __aicore__ inline void CopyIn(const fusewright::Tile& tile)
    {
        LocalTensor<float> xIn = xInQueue.AllocTensor<float>();
        fusewright::CopyIn(xIn, xGm[innerRow * n * t + n * tile.row + tile.inner], tile.inners);
        xInQueue.EnQue(xIn);
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<float> xIn = xInQueue.DeQue<float>();
        const int64_t row = tile.row;
        LocalTensor<int32_t> lane = work.GetWithOffset<int32_t>(2048, 0);
        CreateVecIndex(lane, static_cast<int32_t>(tile.inner), tile.inners);
        const int64_t index = row;
        const int64_t cast = static_cast<int32_t>(index);
        LocalTensor<int32_t> number = work.GetWithOffset<int32_t>(8, 8192);
        Duplicate(number, static_cast<int32_t>(cast), 8);
        LocalTensor<int32_t> spread = work.GetWithOffset<int32_t>(2048, 8224);
        PipeBarrier<PIPE_V>();
        fusewright::Spread(spread, number, 1, tile.inners);
        LocalTensor<int32_t> larger = work.GetWithOffset<int32_t>(2048, 16416);
        PipeBarrier<PIPE_V>();
        Max(larger, spread, lane, tile.inners);
        LocalTensor<uint8_t> ge = work.GetWithOffset<uint8_t>(288, 24608);
        PipeBarrier<PIPE_V>();
        fusewright::Compare<CMPMODE::EQ, false>(ge, larger, spread, tile.inners);
        LocalTensor<float> select = work.GetWithOffset<float>(2048, 0);
        PipeBarrier<PIPE_V>();
        fusewright::Choose<false, true>(select, ge, xIn, infinities, tile.inners);
        LocalTensor<uint8_t> eq = work.GetWithOffset<uint8_t>(32, 8192);
        fusewright::Compare<CMPMODE::EQ, true>(eq, results, infinities, 8);
        LocalTensor<float> select2 = work.GetWithOffset<float>(8, 8224);
        PipeBarrier<PIPE_V>();
        fusewright::Choose<true, false>(select2, eq, zeros, results, 8);
        LocalTensor<float> sub = work.GetWithOffset<float>(2048, 0);
        PipeBarrier<PIPE_V>();
        fusewright::ByBlocks<fusewright::Difference>(sub, select, select2, 1, tile.inners);
        LocalTensor<float> exp = work.GetWithOffset<float>(2048, 0);
        PipeBarrier<PIPE_V>();
        Exp(exp, sub, tile.inners);
        PipeBarrier<PIPE_V>();
        fusewright::FoldRows<fusewright::Sum, float, 64>(accumulators, exp, 1, tile.inners);
        xInQueue.FreeTensor(xIn);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<float> xGm;
    int64_t t;
    int64_t n;
    int64_t innerRow;
    TQue<TPosition::VECIN, DEPTH> xInQueue;
    TBuf<TPosition::VECCALC> kept;
    TBuf<TPosition::VECCALC> work;
    LocalTensor<float> results;
    LocalTensor<float> infinities;
    LocalTensor<float> zeros;
    LocalTensor<float> accumulators;
};

class HeadsScalars {
public:
    __aicore__ inline HeadsScalars(TPipe& pipe, GM_ADDR top, int64_t t, const LocalTensor<float>& results)
    {
        this->t = t;
        this->results = results;
        topGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(top));
        pipe.InitBuffer(topOutQueue, DEPTH, 32);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end, int64_t innerRow)
    {
        if (begin >= end) {
            return;
        }
        this->innerRow = innerRow;
        const fusewright::Tiles tiles(begin, end, ROWS, 1, INNERS);
        if (tiles.count > 0) {
            CopyIn(tiles.At(0));
        }
        for (int64_t i = 0; i < tiles.count; ++i) {
            if (i + 1 < tiles.count) {
                CopyIn(tiles.At(i + 1));
            }
            Compute(tiles.At(i));
            CopyOut(tiles.At(i));
        }
    }

private:
    static constexpr int32_t DEPTH = 2;
    static constexpr int64_t ROWS = 1;
    static constexpr int64_t INNERS = 1;

    __aicore__ inline void CopyIn(const fusewright::Tile& tile)
    {
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<float> topOut = topOutQueue.AllocTensor<float>();
        fusewright::Move(topOut, results, 1);
        topOutQueue.EnQue(topOut);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
        LocalTensor<float> topOut = topOutQueue.DeQue<float>();
        fusewright::CopyOut(topGm[innerRow * t + tile.row], topOut, 1);
        topOutQueue.FreeTensor(topOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<float> topGm;
    int64_t t;
    int64_t innerRow;
    TQue<TPosition::VECOUT, DEPTH> topOutQueue;
    LocalTensor<float> results;
};

class HeadsLanes {
public:
    __aicore__ inline HeadsLanes(TPipe& pipe, GM_ADDR x, GM_ADDR y, int64_t t, int64_t n, const LocalTensor<float>& results)
    {
        this->t = t;
        this->n = n;
        this->results = results;
        xGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x));
        yGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y));
        pipe.InitBuffer(xInQueue, DEPTH, 8192);
        pipe.InitBuffer(yOutQueue, DEPTH, 8192);
        pipe.InitBuffer(kept, 96);
        pipe.InitBuffer(work, 24896);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end, int64_t innerRow)
    {
        if (begin >= end || n == 0) {
            return;
        }
        this->innerRow = innerRow;
        infinities = kept.GetWithOffset<float>(8, 0);
        Duplicate(infinities.ReinterpretCast<uint32_t>(), 0xff800000u, 8);
        zeros = kept.GetWithOffset<float>(8, 32);
        Duplicate(zeros, 0.0f, 8);
        ones = kept.GetWithOffset<float>(8, 64);
        Duplicate(ones, 1.0f, 8);
        const fusewright::Tiles tiles(begin, end, ROWS, n, INNERS);
        if (tiles.count > 0) {
            CopyIn(tiles.At(0));
        }
        for (int64_t i = 0; i < tiles.count; ++i) {
            if (i + 1 < tiles.count) {
                CopyIn(tiles.At(i + 1));
            }
            Compute(tiles.At(i));
            CopyOut(tiles.At(i));
        }
    }

private:
    static constexpr int32_t DEPTH = 2;
    static constexpr int64_t ROWS = 1;
    static constexpr int64_t INNERS = 2048;

    __aicore__ inline void CopyIn(const fusewright::Tile& tile)
    {
        LocalTensor<float> xIn = xInQueue.AllocTensor<float>();
        fusewright::CopyIn(xIn, xGm[innerRow * n * t + n * tile.row + tile.inner], tile.inners);
        xInQueue.EnQue(xIn);
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<float> xIn = xInQueue.DeQue<float>();
        LocalTensor<float> yOut = yOutQueue.AllocTensor<float>();
        const int64_t row = tile.row;
        LocalTensor<int32_t> lane = work.GetWithOffset<int32_t>(2048, 0);
        CreateVecIndex(lane, static_cast<int32_t>(tile.inner), tile.inners);
        const int64_t index = row;
        const int64_t cast = static_cast<int32_t>(index);
        LocalTensor<int32_t> number = work.GetWithOffset<int32_t>(8, 8192);
        Duplicate(number, static_cast<int32_t>(cast), 8);
        LocalTensor<int32_t> spread = work.GetWithOffset<int32_t>(2048, 8224);
        PipeBarrier<PIPE_V>();
        fusewright::Spread(spread, number, 1, tile.inners);
        LocalTensor<int32_t> larger = work.GetWithOffset<int32_t>(2048, 16416);
        PipeBarrier<PIPE_V>();
        Max(larger, spread, lane, tile.inners);
        LocalTensor<uint8_t> ge = work.GetWithOffset<uint8_t>(288, 24608);
        PipeBarrier<PIPE_V>();
        fusewright::Compare<CMPMODE::EQ, false>(ge, larger, spread, tile.inners);
        LocalTensor<float> select = work.GetWithOffset<float>(2048, 0);
        PipeBarrier<PIPE_V>();
        fusewright::Choose<false, true>(select, ge, xIn, infinities, tile.inners);
        LocalTensor<uint8_t> eq = work.GetWithOffset<uint8_t>(32, 8192);
        fusewright::Compare<CMPMODE::EQ, true>(eq, results, infinities, 8);
        LocalTensor<float> select2 = work.GetWithOffset<float>(8, 8224);
        PipeBarrier<PIPE_V>();
        fusewright::Choose<true, false>(select2, eq, zeros, results, 8);
        LocalTensor<float> sub = work.GetWithOffset<float>(2048, 0);
        PipeBarrier<PIPE_V>();
        fusewright::ByBlocks<fusewright::Difference>(sub, select, select2, 1, tile.inners);
        LocalTensor<float> exp = work.GetWithOffset<float>(2048, 0);
        PipeBarrier<PIPE_V>();
        Exp(exp, sub, tile.inners);
        LocalTensor<float> select3 = work.GetWithOffset<float>(8, 8224);
        fusewright::Choose<true, false>(select3, eq, ones, results[8], 8);
        PipeBarrier<PIPE_V>();
        fusewright::ByBlocks<fusewright::Quotient>(yOut, exp, select3, 1, tile.inners);
        PipeBarrier<PIPE_V>();
        xInQueue.FreeTensor(xIn);
        yOutQueue.EnQue(yOut);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
        LocalTensor<float> yOut = yOutQueue.DeQue<float>();
        fusewright::CopyOut(yGm[innerRow * n * t + n * tile.row + tile.inner], yOut, tile.inners);
        yOutQueue.FreeTensor(yOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<float> xGm;
    GlobalTensor<float> yGm;
    int64_t t;
    int64_t n;
    int64_t innerRow;
    TQue<TPosition::VECIN, DEPTH> xInQueue;
    TQue<TPosition::VECOUT, DEPTH> yOutQueue;
    TBuf<TPosition::VECCALC> kept;
    TBuf<TPosition::VECCALC> work;
    LocalTensor<float> results;
    LocalTensor<float> infinities;
    LocalTensor<float> zeros;
    LocalTensor<float> ones;
};

}  // namespace

extern "C" __global__ __aicore__ void masked_softmax(
    GM_ADDR x,
    GM_ADDR y,
    GM_ADDR top,
    int64_t t,
    int64_t n,
    int64_t rowBegin, int64_t rowEnd)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    const fusewright::RowRange rows(rowBegin, rowEnd);
    TPipe pipe;
    {
        TBuf<TPosition::VECCALC> resultBuffer;
        pipe.InitBuffer(resultBuffer, 64);
        const LocalTensor<float> results = resultBuffer.Get<float>();
        HeadsFold1 pass1(pipe, x, t, n, results);
        HeadsFold2 pass2(pipe, x, t, n, results);
        HeadsScalars pass3(pipe, top, t, results);
        HeadsLanes pass4(pipe, x, y, t, n, results);
        for (int64_t row = rows.begin; row < rows.end; ++row) {
            for (int64_t innerRow = 0; innerRow < 3; ++innerRow) {
                pass1.Process(row, row + 1, innerRow);
                pass2.Process(row, row + 1, innerRow);
                pass3.Process(row, row + 1, innerRow);
                pass4.Process(row, row + 1, innerRow);
            }
        }
    }
}
