// sum_of_any_length for Ascend 310P3 (dav-2002), from this row program:
//
//   kernel @sum_of_any_length(t = extent(x, 0), n = extent(x, 1)) rows t {
//     param %x: f32[t, n] in
//     param %sum: f32[t] out
//     param %shares: f32[t, n] out
//     segment @rows inner 1 {
//       %0 = load x[n*row + lane] : row<f32, n>
//       %1 = reduce add %0 over row nan propagate order tree(64)
//       %2 = div %0, %1
//       store sum[row], %1
//       store shares[n*row + lane], %2
//     }
//   }
//
// Rows are dealt to the vector cores in contiguous runs, and each core's rows to tiles that pass unified buffer once: a
// tile is copied in, computed with one vector instruction per step, and copied out, while its neighbours are on their way.
// Rows that do not fit unified buffer are passed over once for each reduction that waits for another, and once for what is
// stored: their elements are loaded as often.
#include "kernel_operator.h"
#include "row_program.h"
#include "whole_copies.h"

using namespace AscendC;

namespace {

class RowsFold1 {
public:
    __aicore__ inline RowsFold1(TPipe& pipe, GM_ADDR x, int64_t n, const LocalTensor<float>& results)
    {
        this->n = n;
        this->results = results;
        xGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x));
        pipe.InitBuffer(xInQueue, DEPTH, 32768);
        pipe.InitBuffer(kept, 8960);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end)
    {
        if (begin >= end) {
            return;
        }
        accumulators = kept.GetWithOffset<float>(64, 0);
        LocalTensor<float> tree = kept.GetWithOffset<float>(2176, 256);
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
        fusewright::CombineRows<fusewright::Sum, float, 64>(results, accumulators, tree, 1);
    }

private:
    static constexpr int32_t DEPTH = 2;
    static constexpr int64_t ROWS = 1;
    static constexpr int64_t INNERS = 8192;

    __aicore__ inline void CopyIn(const fusewright::Tile& tile)
    {
        LocalTensor<float> xIn = xInQueue.AllocTensor<float>();
        fusewright::whole::CopyIn(xIn, xGm[n * tile.row + tile.inner], tile.inners);
        xInQueue.EnQue(xIn);
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<float> xIn = xInQueue.DeQue<float>();
        fusewright::FoldRows<fusewright::Sum, float, 64>(accumulators, xIn, 1, tile.inners);
        xInQueue.FreeTensor(xIn);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<float> xGm;
    int64_t n;
    TQue<TPosition::VECIN, DEPTH> xInQueue;
    TBuf<TPosition::VECCALC> kept;
    LocalTensor<float> results;
    LocalTensor<float> accumulators;
};

class RowsScalars {
public:
    __aicore__ inline RowsScalars(TPipe& pipe, GM_ADDR sum, const LocalTensor<float>& results)
    {
        this->results = results;
        sumGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(sum));
        pipe.InitBuffer(sumOutQueue, DEPTH, 32);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end)
    {
        if (begin >= end) {
            return;
        }
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
        LocalTensor<float> sumOut = sumOutQueue.AllocTensor<float>();
        fusewright::Move(sumOut, results, 1);
        sumOutQueue.EnQue(sumOut);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
        LocalTensor<float> sumOut = sumOutQueue.DeQue<float>();
        fusewright::whole::CopyOut(sumGm[tile.row], sumOut, 1);
        sumOutQueue.FreeTensor(sumOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<float> sumGm;
    TQue<TPosition::VECOUT, DEPTH> sumOutQueue;
    LocalTensor<float> results;
};

class RowsLanes {
public:
    __aicore__ inline RowsLanes(TPipe& pipe, GM_ADDR x, GM_ADDR shares, int64_t n, const LocalTensor<float>& results)
    {
        this->n = n;
        this->results = results;
        xGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x));
        sharesGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(shares));
        pipe.InitBuffer(xInQueue, DEPTH, 32768);
        pipe.InitBuffer(sharesOutQueue, DEPTH, 32768);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end)
    {
        if (begin >= end || n == 0) {
            return;
        }
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
    static constexpr int64_t INNERS = 8192;

    __aicore__ inline void CopyIn(const fusewright::Tile& tile)
    {
        LocalTensor<float> xIn = xInQueue.AllocTensor<float>();
        fusewright::whole::CopyIn(xIn, xGm[n * tile.row + tile.inner], tile.inners);
        xInQueue.EnQue(xIn);
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<float> xIn = xInQueue.DeQue<float>();
        LocalTensor<float> sharesOut = sharesOutQueue.AllocTensor<float>();
        fusewright::ByBlocks<fusewright::Quotient>(sharesOut, xIn, results, 1, tile.inners);
        xInQueue.FreeTensor(xIn);
        sharesOutQueue.EnQue(sharesOut);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
        LocalTensor<float> sharesOut = sharesOutQueue.DeQue<float>();
        fusewright::whole::CopyOut(sharesGm[n * tile.row + tile.inner], sharesOut, tile.inners);
        sharesOutQueue.FreeTensor(sharesOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<float> xGm;
    GlobalTensor<float> sharesGm;
    int64_t n;
    TQue<TPosition::VECIN, DEPTH> xInQueue;
    TQue<TPosition::VECOUT, DEPTH> sharesOutQueue;
    LocalTensor<float> results;
};

}  // namespace

extern "C" __global__ __aicore__ void sum_of_any_length(
    GM_ADDR x,
    GM_ADDR sum,
    GM_ADDR shares,
    int64_t t,
    int64_t n,
    int64_t rowBegin, int64_t rowEnd)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    // What scalar units store of rows begins a line of their caches, which is written back as a whole.
    const fusewright::RowRange rows(rowBegin, rowEnd, 1099511627776);
    TPipe pipe;
    {
        TBuf<TPosition::VECCALC> resultBuffer;
        pipe.InitBuffer(resultBuffer, 32);
        const LocalTensor<float> results = resultBuffer.Get<float>();
        RowsFold1 pass1(pipe, x, n, results);
        RowsScalars pass2(pipe, sum, results);
        RowsLanes pass3(pipe, x, shares, n, results);
        for (int64_t row = rows.begin; row < rows.end; ++row) {
            pass1.Process(row, row + 1);
            pass2.Process(row, row + 1);
            pass3.Process(row, row + 1);
        }
    }
}
