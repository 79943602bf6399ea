// gather_and_scatter for Ascend 910B1 (dav-2201), from this row program:
//
//   kernel @gather_and_scatter(t = extent(at, 0)) rows t {
//     param %table: bf16[64, 128] in
//     param %at: i64[t] in
//     param %slots: i64[t] in
//     param %out: bf16[64, 128] inout
//     segment @rows inner 1 {
//       %0 = load at[row] : scalar<i64>
//       %1 = load slots[row] : scalar<i64>
//       %2 = literal i64 0
//       %3 = index 63
//       %4 = max %1, %2
//       %5 = min %4, %3
//       %6 = eq %1, %5
//       %7 = load table[%0*128 + lane] : row<bf16, 128>
//       %8 = cast %7 to f32 rne
//       %9 = add %8, %8
//       %10 = cast %9 to bf16 rne
//       store out[%5*128 + lane], %10 if %6
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
    __aicore__ inline Rows(TPipe& pipe, GM_ADDR table, GM_ADDR at, GM_ADDR slots, GM_ADDR out)
    {
        tableGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(table));
        atGm.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(at));
        slotsGm.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(slots));
        outGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(out));
        pipe.InitBuffer(tableInQueue, DEPTH, 16384);
        pipe.InitBuffer(outOutQueue, DEPTH, 16384);
        pipe.InitBuffer(work, 32768);
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
    static constexpr int64_t ROWS = 64;
    static constexpr int64_t INNERS = 1;

    __aicore__ inline void CopyIn(const fusewright::Tile& tile)
    {
        LocalTensor<bfloat16_t> tableIn = tableInQueue.AllocTensor<bfloat16_t>();
        for (uint32_t r = 0; r < tile.rows; ++r) {
            const int64_t row = tile.row + r;
            const int64_t at2 = atGm.GetValue(row);
            fusewright::CopyIn(tableIn[r * 128], tableGm[at2 * 128], 128);
        }
        tableInQueue.EnQue(tableIn);
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<bfloat16_t> tableIn = tableInQueue.DeQue<bfloat16_t>();
        LocalTensor<bfloat16_t> outOut = outOutQueue.AllocTensor<bfloat16_t>();
        LocalTensor<float> tableF32 = work.GetWithOffset<float>(8192, 0);
        Cast(tableF32, tableIn, RoundMode::CAST_NONE, tile.rows * 128);
        LocalTensor<float> add = work.GetWithOffset<float>(8192, 0);
        PipeBarrier<PIPE_V>();
        Add(add, tableF32, tableF32, tile.rows * 128);
        PipeBarrier<PIPE_V>();
        Cast(outOut, add, RoundMode::CAST_RINT, tile.rows * 128);
        PipeBarrier<PIPE_V>();
        tableInQueue.FreeTensor(tableIn);
        outOutQueue.EnQue(outOut);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
        LocalTensor<bfloat16_t> outOut = outOutQueue.DeQue<bfloat16_t>();
        for (uint32_t r = 0; r < tile.rows; ++r) {
            const int64_t row = tile.row + r;
            const int64_t index = 63;
            const int64_t slots2 = slotsGm.GetValue(row);
            const int64_t max = fusewright::Larger(slots2, 0);
            const int64_t min = fusewright::Smaller(max, index);
            const bool condition = slots2 == min;
            if (condition) {
                PipeBarrier<PIPE_MTE3>();
                fusewright::CopyOut(outGm[min * 128], outOut[r * 128], 128);
            }
        }
        outOutQueue.FreeTensor(outOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<bfloat16_t> tableGm;
    GlobalTensor<int64_t> atGm;
    GlobalTensor<int64_t> slotsGm;
    GlobalTensor<bfloat16_t> outGm;
    TQue<TPosition::VECIN, DEPTH> tableInQueue;
    TQue<TPosition::VECOUT, DEPTH> outOutQueue;
    TBuf<TPosition::VECCALC> work;
};

}  // namespace

extern "C" __global__ __aicore__ void gather_and_scatter(
    GM_ADDR table,
    GM_ADDR at,
    GM_ADDR slots,
    GM_ADDR out,
    int64_t t,
    int64_t rowBegin, int64_t rowEnd)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    const fusewright::RowRange rows(rowBegin, rowEnd);
    TPipe pipe;
    Rows(pipe, table, at, slots, out).Process(rows.begin, rows.end);
}
