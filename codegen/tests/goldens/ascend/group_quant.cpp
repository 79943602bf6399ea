// group_quant for Ascend 910B1 (dav-2201), from this row program:
//
//   kernel @group_quant(t = extent(x, 0)) rows t {
//     param %x: bf16[t, 4096] in
//     param %y: f8e4m3[t, 4096] out
//     param %scales: f32[t, 32] out
//     segment @rows inner 1 {
//       %0 = load x[lane + row*4096] : row<bf16, 4096>
//       %1 = cast %0 to f32 rne
//       %2 = abs %1
//       %3 = reduce max %2 over group 128 nan propagate order tree(64)
//       %4 = literal f32 448.0
//       %5 = div %3, %4
//       %6 = literal f32 1e-10
//       %7 = max %5, %6
//       %8 = div %1, %7
//       %9 = cast %8 to f8e4m3 rne sat
//       store y[lane + row*4096], %9
//       store scales[lane + row*32], %7
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

class Rows {
public:
    __aicore__ inline Rows(TPipe& pipe, GM_ADDR x, GM_ADDR y, GM_ADDR scales)
    {
        xGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(x));
        yGm.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(y));
        scalesGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(scales));
        pipe.InitBuffer(xInQueue, DEPTH, 8192);
        pipe.InitBuffer(yOutQueue, DEPTH, 4096);
        pipe.InitBuffer(scalesOutQueue, DEPTH, 128);
        pipe.InitBuffer(kept, 192);
        pipe.InitBuffer(work, 75296);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end)
    {
        if (begin >= end) {
            return;
        }
        constants = kept.GetWithOffset<float>(8, 0);
        Duplicate(constants, 448.0f, 8);
        constants2 = kept.GetWithOffset<float>(8, 32);
        Duplicate(constants2.ReinterpretCast<uint32_t>(), 0x0000007fu, 8);
        offsets = kept.GetWithOffset<uint32_t>(32, 64);
        LocalTensor<int32_t> indices = work.GetWithOffset<int32_t>(32, 0);
        fusewright::MakeOffsets(offsets, indices, 32, 0, 32, 0, 0);
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
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<bfloat16_t> xIn = xInQueue.DeQue<bfloat16_t>();
        LocalTensor<uint8_t> yOut = yOutQueue.AllocTensor<uint8_t>();
        LocalTensor<float> scalesOut = scalesOutQueue.AllocTensor<float>();
        LocalTensor<float> xF32 = work.GetWithOffset<float>(4096, 0);
        Cast(xF32, xIn, RoundMode::CAST_NONE, 4096);
        LocalTensor<float> abs = work.GetWithOffset<float>(4096, 16384);
        PipeBarrier<PIPE_V>();
        Abs(abs, xF32, 4096);
        LocalTensor<float> largest = work.GetWithOffset<float>(256, 32768);
        LocalTensor<float> tree = work.GetWithOffset<float>(2176, 33792);
        fusewright::TreeReduce<fusewright::Largest, int32_t, 64>(largest, abs, tree, 32, 128);
        LocalTensor<float> div = work.GetWithOffset<float>(256, 32768);
        fusewright::ByBlocks<fusewright::Quotient>(div, largest, constants, 1, 256);
        LocalTensor<float> max = work.GetWithOffset<float>(256, 16384);
        PipeBarrier<PIPE_V>();
        Maxs(max, div, 1e-10f, 256);
        LocalTensor<uint8_t> mask = work.GetWithOffset<uint8_t>(64, 17408);
        fusewright::Compare<CMPMODE::EQ, false>(mask, div, div, 256);
        PipeBarrier<PIPE_V>();
        fusewright::Choose<false, false>(max, mask, max, div, 256);
        LocalTensor<float> div2 = work.GetWithOffset<float>(4096, 0);
        PipeBarrier<PIPE_V>();
        fusewright::ByBlocks<fusewright::Quotient>(div2, xF32, max, 32, 128);
        LocalTensor<int32_t> codes = work.GetWithOffset<int32_t>(4096, 17408);
        LocalTensor<float> magnitude = work.GetWithOffset<float>(4096, 33792);
        LocalTensor<int32_t> steps = work.GetWithOffset<int32_t>(4096, 50176);
        LocalTensor<uint8_t> mask2 = work.GetWithOffset<uint8_t>(544, 66560);
        PipeBarrier<PIPE_V>();
        fusewright::ToNarrow<8, 3, -6>(codes, div2, magnitude, steps, mask2, constants2, 448.0f, 4096);
        LocalTensor<half> half2 = work.GetWithOffset<half>(4096, 67104);
        fusewright::CodesToBytes(yOut, codes, half2, 4096);
        Gather(scalesOut, max, offsets, 0, 32);
        xInQueue.FreeTensor(xIn);
        yOutQueue.EnQue(yOut);
        scalesOutQueue.EnQue(scalesOut);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
        LocalTensor<uint8_t> yOut = yOutQueue.DeQue<uint8_t>();
        fusewright::CopyOut(yGm[tile.row * 4096], yOut, 4096);
        yOutQueue.FreeTensor(yOut);
        LocalTensor<float> scalesOut = scalesOutQueue.DeQue<float>();
        fusewright::CopyOut(scalesGm[tile.row * 32], scalesOut, 32);
        scalesOutQueue.FreeTensor(scalesOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<bfloat16_t> xGm;
    GlobalTensor<uint8_t> yGm;
    GlobalTensor<float> scalesGm;
    TQue<TPosition::VECIN, DEPTH> xInQueue;
    TQue<TPosition::VECOUT, DEPTH> yOutQueue;
    TQue<TPosition::VECOUT, DEPTH> scalesOutQueue;
    TBuf<TPosition::VECCALC> kept;
    TBuf<TPosition::VECCALC> work;
    LocalTensor<float> constants;
    LocalTensor<float> constants2;
    LocalTensor<uint32_t> offsets;
};

}  // namespace

extern "C" __global__ __aicore__ void group_quant(
    GM_ADDR x,
    GM_ADDR y,
    GM_ADDR scales,
    int64_t t,
    int64_t rowBegin, int64_t rowEnd)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    const fusewright::RowRange rows(rowBegin, rowEnd);
    TPipe pipe;
    Rows(pipe, x, y, scales).Process(rows.begin, rows.end);
}
