// add_rms_norm_quant_i8 for Ascend 910B1 (dav-2201), from this row program:
//
//   kernel @add_rms_norm_quant_i8(t = extent(x, 0)) rows t {
//     param %x: bf16[t, 5120] in
//     param %residual: bf16[t, 5120] inout
//     param %weight: bf16[5120] in
//     param %y: i8[t, 5120] out
//     param %scale: f32[t] out
//     segment @row inner 1 {
//       %0 = load x[lane + row*5120] : row<bf16, 5120>
//       %1 = load residual[lane + row*5120] : row<bf16, 5120>
//       %2 = cast %0 to f32 rne
//       %3 = cast %1 to f32 rne
//       %4 = add %2, %3
//       %5 = cast %4 to bf16 rne
//       store residual[lane + row*5120], %5
//       %6 = cast %5 to f32 rne
//       %7 = mul %6, %6
//       %8 = reduce add %7 over row nan propagate order tree(64)
//       %9 = literal f32 5120.0
//       %10 = div %8, %9
//       %11 = literal f32 1e-6
//       %12 = add %10, %11
//       %13 = sqrt %12
//       %14 = literal f32 1.0
//       %15 = div %14, %13
//       %16 = mul %6, %15
//       %17 = load weight[lane] : row<bf16, 5120>
//       %18 = cast %17 to f32 rne
//       %19 = mul %16, %18
//       %20 = abs %19
//       %21 = reduce max %20 over row nan propagate order tree(64)
//       %22 = literal f32 127.0
//       %23 = div %21, %22
//       %24 = literal f32 1.1920929e-7
//       %25 = max %23, %24
//       store scale[row], %25
//       %26 = div %19, %25
//       %27 = cast %26 to i8 rne sat
//       store y[lane + row*5120], %27
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
    __aicore__ inline Row(TPipe& pipe, GM_ADDR x, GM_ADDR residual, GM_ADDR weight, GM_ADDR y, GM_ADDR scale)
    {
        xGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(x));
        residualGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(residual));
        weightGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(weight));
        yGm.SetGlobalBuffer(reinterpret_cast<__gm__ int8_t*>(y));
        scaleGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(scale));
        pipe.InitBuffer(xInQueue, DEPTH, 10240);
        pipe.InitBuffer(residualInQueue, DEPTH, 10240);
        pipe.InitBuffer(residualOutQueue, DEPTH, 10240);
        pipe.InitBuffer(yOutQueue, DEPTH, 5120);
        pipe.InitBuffer(scaleOutQueue, DEPTH, 32);
        pipe.InitBuffer(kept, 20608);
        pipe.InitBuffer(work, 49696);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end)
    {
        if (begin >= end) {
            return;
        }
        LocalTensor<bfloat16_t> weightIn = work.GetWithOffset<bfloat16_t>(5120, 0);
        fusewright::LoadFixed(weightIn, weightGm[0], 5120);
        weightF32 = kept.GetWithOffset<float>(5120, 0);
        Cast(weightF32, weightIn, RoundMode::CAST_NONE, 5120);
        constants = kept.GetWithOffset<float>(8, 20480);
        Duplicate(constants, 5120.0f, 8);
        ones = kept.GetWithOffset<float>(8, 20512);
        Duplicate(ones, 1.0f, 8);
        constants2 = kept.GetWithOffset<float>(8, 20544);
        Duplicate(constants2, 127.0f, 8);
        zeros = kept.GetWithOffset<float>(8, 20576);
        Duplicate(zeros, 0.0f, 8);
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
        fusewright::CopyIn(xIn, xGm[tile.row * 5120], 5120);
        xInQueue.EnQue(xIn);
        LocalTensor<bfloat16_t> residualIn = residualInQueue.AllocTensor<bfloat16_t>();
        fusewright::CopyIn(residualIn, residualGm[tile.row * 5120], 5120);
        residualInQueue.EnQue(residualIn);
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<bfloat16_t> xIn = xInQueue.DeQue<bfloat16_t>();
        LocalTensor<bfloat16_t> residualIn = residualInQueue.DeQue<bfloat16_t>();
        LocalTensor<bfloat16_t> residualOut = residualOutQueue.AllocTensor<bfloat16_t>();
        LocalTensor<int8_t> yOut = yOutQueue.AllocTensor<int8_t>();
        LocalTensor<float> scaleOut = scaleOutQueue.AllocTensor<float>();
        LocalTensor<float> xF32 = work.GetWithOffset<float>(5120, 0);
        Cast(xF32, xIn, RoundMode::CAST_NONE, 5120);
        LocalTensor<float> residualF32 = work.GetWithOffset<float>(5120, 20480);
        Cast(residualF32, residualIn, RoundMode::CAST_NONE, 5120);
        LocalTensor<float> add = work.GetWithOffset<float>(5120, 0);
        PipeBarrier<PIPE_V>();
        Add(add, xF32, residualF32, 5120);
        PipeBarrier<PIPE_V>();
        Cast(residualOut, add, RoundMode::CAST_RINT, 5120);
        LocalTensor<float> residualF32_2 = work.GetWithOffset<float>(5120, 0);
        PipeBarrier<PIPE_V>();
        Cast(residualF32_2, residualOut, RoundMode::CAST_NONE, 5120);
        LocalTensor<float> mul = work.GetWithOffset<float>(5120, 20480);
        PipeBarrier<PIPE_V>();
        Mul(mul, residualF32_2, residualF32_2, 5120);
        LocalTensor<float> sum = work.GetWithOffset<float>(8, 40960);
        LocalTensor<float> tree = work.GetWithOffset<float>(2176, 40992);
        fusewright::TreeReduce<fusewright::Sum, float, 64>(sum, mul, tree, 1, 5120);
        LocalTensor<float> div = work.GetWithOffset<float>(8, 40960);
        fusewright::ByBlocks<fusewright::Quotient>(div, sum, constants, 1, 8);
        LocalTensor<float> add2 = work.GetWithOffset<float>(8, 40960);
        PipeBarrier<PIPE_V>();
        Adds(add2, div, 1e-6f, 8);
        LocalTensor<float> sqrt = work.GetWithOffset<float>(8, 40960);
        PipeBarrier<PIPE_V>();
        Sqrt(sqrt, add2, 8);
        LocalTensor<float> div2 = work.GetWithOffset<float>(8, 40960);
        PipeBarrier<PIPE_V>();
        fusewright::ByBlocks<fusewright::Flipped<fusewright::Quotient>>(div2, sqrt, ones, 1, 8);
        LocalTensor<float> mul2 = work.GetWithOffset<float>(5120, 0);
        PipeBarrier<PIPE_V>();
        fusewright::ByBlocks<fusewright::Product>(mul2, residualF32_2, div2, 1, 5120);
        LocalTensor<float> mul3 = work.GetWithOffset<float>(5120, 0);
        PipeBarrier<PIPE_V>();
        Mul(mul3, mul2, weightF32, 5120);
        LocalTensor<float> abs = work.GetWithOffset<float>(5120, 20480);
        PipeBarrier<PIPE_V>();
        Abs(abs, mul3, 5120);
        LocalTensor<float> largest = work.GetWithOffset<float>(8, 40960);
        LocalTensor<float> tree2 = work.GetWithOffset<float>(2176, 40992);
        fusewright::TreeReduce<fusewright::Largest, int32_t, 64>(largest, abs, tree2, 1, 5120);
        LocalTensor<float> div3 = work.GetWithOffset<float>(8, 40960);
        fusewright::ByBlocks<fusewright::Quotient>(div3, largest, constants2, 1, 8);
        LocalTensor<float> max = work.GetWithOffset<float>(8, 20480);
        PipeBarrier<PIPE_V>();
        Maxs(max, div3, 1.1920929e-7f, 8);
        LocalTensor<uint8_t> mask = work.GetWithOffset<uint8_t>(32, 20512);
        fusewright::Compare<CMPMODE::EQ, false>(mask, div3, div3, 8);
        PipeBarrier<PIPE_V>();
        fusewright::Choose<false, false>(max, mask, max, div3, 8);
        PipeBarrier<PIPE_V>();
        fusewright::Move(scaleOut, max, 1);
        LocalTensor<float> div4 = work.GetWithOffset<float>(5120, 0);
        fusewright::ByBlocks<fusewright::Quotient>(div4, mul3, max, 1, 5120);
        LocalTensor<uint8_t> mask2 = work.GetWithOffset<uint8_t>(672, 20480);
        PipeBarrier<PIPE_V>();
        fusewright::Compare<CMPMODE::EQ, false>(mask2, div4, div4, 5120);
        PipeBarrier<PIPE_V>();
        fusewright::Choose<false, true>(div4, mask2, div4, zeros, 5120);
        LocalTensor<half> narrow = work.GetWithOffset<half>(5120, 21152);
        PipeBarrier<PIPE_V>();
        fusewright::CastToByte<RoundMode::CAST_RINT>(yOut, div4, div4.ReinterpretCast<int32_t>(), narrow, 5120);
        xInQueue.FreeTensor(xIn);
        residualInQueue.FreeTensor(residualIn);
        residualOutQueue.EnQue(residualOut);
        yOutQueue.EnQue(yOut);
        scaleOutQueue.EnQue(scaleOut);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
        LocalTensor<bfloat16_t> residualOut = residualOutQueue.DeQue<bfloat16_t>();
        fusewright::CopyOut(residualGm[tile.row * 5120], residualOut, 5120);
        residualOutQueue.FreeTensor(residualOut);
        LocalTensor<float> scaleOut = scaleOutQueue.DeQue<float>();
        fusewright::CopyOut(scaleGm[tile.row], scaleOut, 1);
        scaleOutQueue.FreeTensor(scaleOut);
        LocalTensor<int8_t> yOut = yOutQueue.DeQue<int8_t>();
        fusewright::CopyOut(yGm[tile.row * 5120], yOut, 5120);
        yOutQueue.FreeTensor(yOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<bfloat16_t> xGm;
    GlobalTensor<bfloat16_t> residualGm;
    GlobalTensor<bfloat16_t> weightGm;
    GlobalTensor<int8_t> yGm;
    GlobalTensor<float> scaleGm;
    TQue<TPosition::VECIN, DEPTH> xInQueue;
    TQue<TPosition::VECIN, DEPTH> residualInQueue;
    TQue<TPosition::VECOUT, DEPTH> residualOutQueue;
    TQue<TPosition::VECOUT, DEPTH> yOutQueue;
    TQue<TPosition::VECOUT, DEPTH> scaleOutQueue;
    TBuf<TPosition::VECCALC> kept;
    TBuf<TPosition::VECCALC> work;
    LocalTensor<float> weightF32;
    LocalTensor<float> constants;
    LocalTensor<float> ones;
    LocalTensor<float> constants2;
    LocalTensor<float> zeros;
};

}  // namespace

extern "C" __global__ __aicore__ void add_rms_norm_quant_i8(
    GM_ADDR x,
    GM_ADDR residual,
    GM_ADDR weight,
    GM_ADDR y,
    GM_ADDR scale,
    int64_t t,
    int64_t rowBegin, int64_t rowEnd)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    const fusewright::RowRange rows(rowBegin, rowEnd);
    TPipe pipe;
    Row(pipe, x, residual, weight, y, scale).Process(rows.begin, rows.end);
}
