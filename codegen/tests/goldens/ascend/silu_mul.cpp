// silu_mul for Ascend 910B1 (dav-2201), from this row program:
//
//   kernel @silu_mul(t = extent(x, 0)) rows t {
//     param %x: bf16[t, 24576] in
//     param %y: bf16[t, 12288] out
//     segment @row inner 1 {
//       %0 = load x[lane + row*24576] : row<bf16, 12288>
//       %1 = load x[lane + row*24576 + 12288] : row<bf16, 12288>
//       %2 = cast %0 to f32 rne
//       %3 = neg %2
//       %4 = exp %3
//       %5 = literal f32 1.0
//       %6 = add %4, %5
//       %7 = div %2, %6
//       %8 = cast %7 to bf16 rne
//       %9 = cast %8 to f32 rne
//       %10 = cast %1 to f32 rne
//       %11 = mul %9, %10
//       %12 = cast %11 to bf16 rne
//       store y[lane + row*12288], %12
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
    __aicore__ inline Row(TPipe& pipe, GM_ADDR x, GM_ADDR y)
    {
        xGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(x));
        yGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(y));
        pipe.InitBuffer(xInQueue, DEPTH, 24576);
        pipe.InitBuffer(xIn2Queue, DEPTH, 24576);
        pipe.InitBuffer(yOutQueue, DEPTH, 24576);
        pipe.InitBuffer(work, 98304);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end)
    {
        if (begin >= end) {
            return;
        }
        const fusewright::Tiles tiles(begin, end, ROWS, 1, INNERS);
        for (int64_t i = 0; i < tiles.count; ++i) {
            CopyIn(tiles.At(i));
            Compute(tiles.At(i));
            CopyOut(tiles.At(i));
        }
    }

private:
    static constexpr int32_t DEPTH = 1;
    static constexpr int64_t ROWS = 1;
    static constexpr int64_t INNERS = 1;

    __aicore__ inline void CopyIn(const fusewright::Tile& tile)
    {
        LocalTensor<bfloat16_t> xIn = xInQueue.AllocTensor<bfloat16_t>();
        fusewright::CopyIn(xIn, xGm[tile.row * 24576], 12288);
        xInQueue.EnQue(xIn);
        LocalTensor<bfloat16_t> xIn2 = xIn2Queue.AllocTensor<bfloat16_t>();
        fusewright::CopyIn(xIn2, xGm[tile.row * 24576 + 12288], 12288);
        xIn2Queue.EnQue(xIn2);
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<bfloat16_t> xIn = xInQueue.DeQue<bfloat16_t>();
        LocalTensor<bfloat16_t> xIn2 = xIn2Queue.DeQue<bfloat16_t>();
        LocalTensor<bfloat16_t> yOut = yOutQueue.AllocTensor<bfloat16_t>();
        LocalTensor<float> xF32 = work.GetWithOffset<float>(12288, 0);
        Cast(xF32, xIn, RoundMode::CAST_NONE, 12288);
        LocalTensor<float> neg = work.GetWithOffset<float>(12288, 49152);
        PipeBarrier<PIPE_V>();
        Muls(neg, xF32, -1.0f, 12288);
        LocalTensor<float> exp = work.GetWithOffset<float>(12288, 49152);
        PipeBarrier<PIPE_V>();
        Exp(exp, neg, 12288);
        LocalTensor<float> add = work.GetWithOffset<float>(12288, 49152);
        PipeBarrier<PIPE_V>();
        Adds(add, exp, 1.0f, 12288);
        LocalTensor<float> div = work.GetWithOffset<float>(12288, 0);
        PipeBarrier<PIPE_V>();
        Div(div, xF32, add, 12288);
        LocalTensor<bfloat16_t> divBf16 = work.GetWithOffset<bfloat16_t>(12288, 49152);
        PipeBarrier<PIPE_V>();
        Cast(divBf16, div, RoundMode::CAST_RINT, 12288);
        LocalTensor<float> divF32 = work.GetWithOffset<float>(12288, 0);
        PipeBarrier<PIPE_V>();
        Cast(divF32, divBf16, RoundMode::CAST_NONE, 12288);
        LocalTensor<float> xIn2F32 = work.GetWithOffset<float>(12288, 49152);
        PipeBarrier<PIPE_V>();
        Cast(xIn2F32, xIn2, RoundMode::CAST_NONE, 12288);
        LocalTensor<float> mul = work.GetWithOffset<float>(12288, 0);
        PipeBarrier<PIPE_V>();
        Mul(mul, divF32, xIn2F32, 12288);
        PipeBarrier<PIPE_V>();
        Cast(yOut, mul, RoundMode::CAST_RINT, 12288);
        PipeBarrier<PIPE_V>();
        xInQueue.FreeTensor(xIn);
        xIn2Queue.FreeTensor(xIn2);
        yOutQueue.EnQue(yOut);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
        LocalTensor<bfloat16_t> yOut = yOutQueue.DeQue<bfloat16_t>();
        fusewright::CopyOut(yGm[tile.row * 12288], yOut, 12288);
        yOutQueue.FreeTensor(yOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<bfloat16_t> xGm;
    GlobalTensor<bfloat16_t> yGm;
    TQue<TPosition::VECIN, DEPTH> xInQueue;
    TQue<TPosition::VECIN, DEPTH> xIn2Queue;
    TQue<TPosition::VECOUT, DEPTH> yOutQueue;
    TBuf<TPosition::VECCALC> work;
};

}  // namespace

extern "C" __global__ __aicore__ void silu_mul(
    GM_ADDR x,
    GM_ADDR y,
    int64_t t,
    int64_t rowBegin, int64_t rowEnd)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    const fusewright::RowRange rows(rowBegin, rowEnd);
    TPipe pipe;
    Row(pipe, x, y).Process(rows.begin, rows.end);
}
