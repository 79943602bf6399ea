// add_rms_norm for Ascend 910B1 (dav-2201), from this row program:
//
//   kernel @add_rms_norm(t = extent(x, 0)) rows t {
//     param %x: bf16[t, 4096] in
//     param %residual: bf16[t, 4096] inout
//     param %weight: bf16[4096] in
//     param %y: bf16[t, 4096] out
//     segment @row inner 1 {
//       %0 = load x[lane + row*4096] : row<bf16, 4096>
//       %1 = load residual[lane + row*4096] : row<bf16, 4096>
//       %2 = cast %0 to f32 rne
//       %3 = cast %1 to f32 rne
//       %4 = add %2, %3
//       %5 = cast %4 to bf16 rne
//       store residual[lane + row*4096], %5
//       %6 = cast %5 to f32 rne
//       %7 = mul %6, %6
//       %8 = reduce add %7 over row nan propagate order tree(64)
//       %9 = literal f32 4096.0
//       %10 = div %8, %9
//       %11 = literal f32 1e-6
//       %12 = add %10, %11
//       %13 = sqrt %12
//       %14 = literal f32 1.0
//       %15 = div %14, %13
//       %16 = mul %6, %15
//       %17 = load weight[lane] : row<bf16, 4096>
//       %18 = cast %17 to f32 rne
//       %19 = mul %16, %18
//       %20 = cast %19 to bf16 rne
//       store y[lane + row*4096], %20
//     }
//   }
//
// Rows are dealt to the vector cores in contiguous runs, and each core's rows to tiles that pass unified buffer once: a
// tile is copied in, computed with one vector instruction per step, and copied out, while its neighbours are on their way.
#include "kernel_operator.h"
#include "row_program.h"
#include "copies.h"

using namespace AscendC;

namespace {

class Row {
public:
    __aicore__ inline Row(TPipe& pipe, GM_ADDR x, GM_ADDR residual, GM_ADDR weight, GM_ADDR y)
    {
        xGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(x));
        residualGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(residual));
        weightGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(weight));
        yGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(y));
        pipe.InitBuffer(xInQueue, DEPTH, 8192);
        pipe.InitBuffer(residualInQueue, DEPTH, 8192);
        pipe.InitBuffer(residualOutQueue, DEPTH, 8192);
        pipe.InitBuffer(yOutQueue, DEPTH, 8192);
        pipe.InitBuffer(kept, 16448);
        pipe.InitBuffer(work, 41504);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end)
    {
        if (begin >= end) {
            return;
        }
        LocalTensor<bfloat16_t> weightIn = work.GetWithOffset<bfloat16_t>(4096, 0);
        fusewright::LoadFixed(weightIn, weightGm[0], 4096);
        weightF32 = kept.GetWithOffset<float>(4096, 0);
        Cast(weightF32, weightIn, RoundMode::CAST_NONE, 4096);
        constants = kept.GetWithOffset<float>(8, 16384);
        Duplicate(constants, 4096.0f, 8);
        ones = kept.GetWithOffset<float>(8, 16416);
        Duplicate(ones, 1.0f, 8);
        PipeBarrier<PIPE_V>();
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
        LocalTensor<bfloat16_t> xIn = xInQueue.AllocTensor<bfloat16_t>();
        fusewright::CopyIn(xIn, xGm[tile.row * 4096], 4096);
        xInQueue.EnQue(xIn);
        LocalTensor<bfloat16_t> residualIn = residualInQueue.AllocTensor<bfloat16_t>();
        fusewright::CopyIn(residualIn, residualGm[tile.row * 4096], 4096);
        residualInQueue.EnQue(residualIn);
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<bfloat16_t> xIn = xInQueue.DeQue<bfloat16_t>();
        LocalTensor<bfloat16_t> residualIn = residualInQueue.DeQue<bfloat16_t>();
        LocalTensor<bfloat16_t> residualOut = residualOutQueue.AllocTensor<bfloat16_t>();
        LocalTensor<bfloat16_t> yOut = yOutQueue.AllocTensor<bfloat16_t>();
        LocalTensor<float> xF32 = work.GetWithOffset<float>(4096, 0);
        Cast(xF32, xIn, RoundMode::CAST_NONE, 4096);
        LocalTensor<float> residualF32 = work.GetWithOffset<float>(4096, 16384);
        Cast(residualF32, residualIn, RoundMode::CAST_NONE, 4096);
        LocalTensor<float> add = work.GetWithOffset<float>(4096, 0);
        PipeBarrier<PIPE_V>();
        Add(add, xF32, residualF32, 4096);
        PipeBarrier<PIPE_V>();
        Cast(residualOut, add, RoundMode::CAST_RINT, 4096);
        LocalTensor<float> residualF32_2 = work.GetWithOffset<float>(4096, 0);
        PipeBarrier<PIPE_V>();
        Cast(residualF32_2, residualOut, RoundMode::CAST_NONE, 4096);
        LocalTensor<float> mul = work.GetWithOffset<float>(4096, 16384);
        PipeBarrier<PIPE_V>();
        Mul(mul, residualF32_2, residualF32_2, 4096);
        LocalTensor<float> sum = work.GetWithOffset<float>(8, 32768);
        LocalTensor<float> tree = work.GetWithOffset<float>(2176, 32800);
        fusewright::TreeReduce<fusewright::Sum, float, 64>(sum, mul, tree, 1, 4096);
        LocalTensor<float> div = work.GetWithOffset<float>(8, 32768);
        fusewright::ByBlocks<fusewright::Quotient>(div, sum, constants, 1, 8);
        LocalTensor<float> add2 = work.GetWithOffset<float>(8, 32768);
        PipeBarrier<PIPE_V>();
        Adds(add2, div, 1e-6f, 8);
        LocalTensor<float> sqrt = work.GetWithOffset<float>(8, 32768);
        PipeBarrier<PIPE_V>();
        Sqrt(sqrt, add2, 8);
        LocalTensor<float> div2 = work.GetWithOffset<float>(8, 32768);
        PipeBarrier<PIPE_V>();
        fusewright::ByBlocks<fusewright::Flipped<fusewright::Quotient>>(div2, sqrt, ones, 1, 8);
        LocalTensor<float> mul2 = work.GetWithOffset<float>(4096, 0);
        PipeBarrier<PIPE_V>();
        fusewright::ByBlocks<fusewright::Product>(mul2, residualF32_2, div2, 1, 4096);
        LocalTensor<float> mul3 = work.GetWithOffset<float>(4096, 0);
        PipeBarrier<PIPE_V>();
        Mul(mul3, mul2, weightF32, 4096);
        PipeBarrier<PIPE_V>();
        Cast(yOut, mul3, RoundMode::CAST_RINT, 4096);
        PipeBarrier<PIPE_V>();
        xInQueue.FreeTensor(xIn);
        residualInQueue.FreeTensor(residualIn);
        residualOutQueue.EnQue(residualOut);
        yOutQueue.EnQue(yOut);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
        LocalTensor<bfloat16_t> residualOut = residualOutQueue.DeQue<bfloat16_t>();
        fusewright::CopyOut(residualGm[tile.row * 4096], residualOut, 4096);
        residualOutQueue.FreeTensor(residualOut);
        LocalTensor<bfloat16_t> yOut = yOutQueue.DeQue<bfloat16_t>();
        fusewright::CopyOut(yGm[tile.row * 4096], yOut, 4096);
        yOutQueue.FreeTensor(yOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<bfloat16_t> xGm;
    GlobalTensor<bfloat16_t> residualGm;
    GlobalTensor<bfloat16_t> weightGm;
    GlobalTensor<bfloat16_t> yGm;
    TQue<TPosition::VECIN, DEPTH> xInQueue;
    TQue<TPosition::VECIN, DEPTH> residualInQueue;
    TQue<TPosition::VECOUT, DEPTH> residualOutQueue;
    TQue<TPosition::VECOUT, DEPTH> yOutQueue;
    TBuf<TPosition::VECCALC> kept;
    TBuf<TPosition::VECCALC> work;
    LocalTensor<float> weightF32;
    LocalTensor<float> constants;
    LocalTensor<float> ones;
};

}  // namespace

extern "C" __global__ __aicore__ void add_rms_norm(
    GM_ADDR x,
    GM_ADDR residual,
    GM_ADDR weight,
    GM_ADDR y,
    int64_t t,
    int64_t rowBegin, int64_t rowEnd)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    const fusewright::RowRange rows(rowBegin, rowEnd);
    TPipe pipe;
    Row(pipe, x, residual, weight, y).Process(rows.begin, rows.end);
}
