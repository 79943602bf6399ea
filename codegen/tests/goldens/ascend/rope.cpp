// rope for Ascend 910B1 (dav-2201), from this row program:
//
//   kernel @rope(t = extent(q, 0)) rows t {
//     param %q: bf16[t, 1024] inout
//     param %position: i64[t] in
//     param %table: f32[t, 128] in
//     segment @row inner 8 {
//       %0 = load position[row] : scalar<i64>
//       %1 = load table[lane + max(min(%0, t - 1), 0)*128] : row<f32, 64>
//       %2 = load table[lane + max(min(%0, t - 1), 0)*128 + 64] : row<f32, 64>
//       %3 = load q[inner*128 + lane + row*1024] : row<bf16, 128>
//       %4 = cast %3 to f32 rne
//       %5 = slice %4 start 0 len 64 step 1
//       %6 = slice %4 start 64 len 64 step 1
//       %7 = mul %5, %1
//       %8 = mul %6, %2
//       %9 = mul %6, %1
//       %10 = mul %5, %2
//       %11 = sub %7, %8
//       %12 = add %9, %10
//       %13 = cat %11, %12
//       %14 = cast %13 to bf16 rne
//       store q[inner*128 + lane + row*1024], %14
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
    __aicore__ inline Row(TPipe& pipe, GM_ADDR q, GM_ADDR position, GM_ADDR table, int64_t t)
    {
        this->t = t;
        qGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(q));
        positionGm.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(position));
        tableGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(table));
        pipe.InitBuffer(tileInQueue, DEPTH, 20480);
        pipe.InitBuffer(qOutQueue, DEPTH, 16384);
        pipe.InitBuffer(work, 81920);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end)
    {
        if (begin >= end) {
            return;
        }
        const fusewright::Tiles tiles(begin, end, ROWS, 8, INNERS);
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
    static constexpr int64_t ROWS = 8;
    static constexpr int64_t INNERS = 8;

    __aicore__ inline void CopyIn(const fusewright::Tile& tile)
    {
        LocalTensor<uint8_t> tileIn = tileInQueue.AllocTensor<uint8_t>();
        LocalTensor<float> tableIn = tileIn[0].ReinterpretCast<float>();
        LocalTensor<float> tableIn2 = tileIn[2048].ReinterpretCast<float>();
        LocalTensor<bfloat16_t> qIn = tileIn[4096].ReinterpretCast<bfloat16_t>();
        LocalTensor<bfloat16_t> qIn2 = tileIn[12288].ReinterpretCast<bfloat16_t>();
        for (uint32_t r = 0; r < tile.rows; ++r) {
            const int64_t row = tile.row + r;
            const int64_t position2 = positionGm.GetValue(row);
            fusewright::CopyIn(tableIn[r * 64], tableGm[fusewright::Larger(fusewright::Smaller(position2, t - 1), 0) * 128], 64);
        }
        for (uint32_t r = 0; r < tile.rows; ++r) {
            const int64_t row = tile.row + r;
            const int64_t position2 = positionGm.GetValue(row);
            fusewright::CopyIn(tableIn2[r * 64], tableGm[fusewright::Larger(fusewright::Smaller(position2, t - 1), 0) * 128 + 64], 64);
        }
        for (uint32_t r = 0; r < tile.rows; ++r) {
            const int64_t row = tile.row + r;
            fusewright::CopyIn(qIn[r * 512], qGm[tile.inner * 128 + row * 1024], tile.inners, 64, 128);
        }
        for (uint32_t r = 0; r < tile.rows; ++r) {
            const int64_t row = tile.row + r;
            fusewright::CopyIn(qIn2[r * 512], qGm[tile.inner * 128 + row * 1024 + 64], tile.inners, 64, 128);
        }
        tileInQueue.EnQue(tileIn);
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<uint8_t> tileIn = tileInQueue.DeQue<uint8_t>();
        LocalTensor<bfloat16_t> qOut = qOutQueue.AllocTensor<bfloat16_t>();
        LocalTensor<float> tableIn = tileIn[0].ReinterpretCast<float>();
        LocalTensor<float> tableIn2 = tileIn[2048].ReinterpretCast<float>();
        LocalTensor<bfloat16_t> qIn = tileIn[4096].ReinterpretCast<bfloat16_t>();
        LocalTensor<bfloat16_t> qIn2 = tileIn[12288].ReinterpretCast<bfloat16_t>();
        LocalTensor<float> qF32 = work.GetWithOffset<float>(4096, 0);
        Cast(qF32, qIn, RoundMode::CAST_NONE, tile.Count() * 64);
        LocalTensor<float> qIn2F32 = work.GetWithOffset<float>(4096, 16384);
        Cast(qIn2F32, qIn2, RoundMode::CAST_NONE, tile.Count() * 64);
        LocalTensor<float> mul = work.GetWithOffset<float>(4096, 32768);
        PipeBarrier<PIPE_V>();
        fusewright::ByLines<fusewright::Product>(mul, qF32, tableIn, tile.rows, tile.inners, 64);
        LocalTensor<float> mul2 = work.GetWithOffset<float>(4096, 49152);
        fusewright::ByLines<fusewright::Product>(mul2, qIn2F32, tableIn2, tile.rows, tile.inners, 64);
        LocalTensor<float> mul3 = work.GetWithOffset<float>(4096, 16384);
        PipeBarrier<PIPE_V>();
        fusewright::ByLines<fusewright::Product>(mul3, qIn2F32, tableIn, tile.rows, tile.inners, 64);
        LocalTensor<float> mul4 = work.GetWithOffset<float>(4096, 0);
        fusewright::ByLines<fusewright::Product>(mul4, qF32, tableIn2, tile.rows, tile.inners, 64);
        LocalTensor<float> sub = work.GetWithOffset<float>(4096, 32768);
        Sub(sub, mul, mul2, tile.Count() * 64);
        LocalTensor<float> add = work.GetWithOffset<float>(4096, 16384);
        PipeBarrier<PIPE_V>();
        Add(add, mul3, mul4, tile.Count() * 64);
        LocalTensor<float> joined = work.GetWithOffset<float>(8192, 49152);
        fusewright::CopyLanes(joined, sub, tile.Count(), 64, 64, 128);
        PipeBarrier<PIPE_V>();
        fusewright::CopyLanes(joined[64], add, tile.Count(), 64, 64, 128);
        PipeBarrier<PIPE_V>();
        Cast(qOut, joined, RoundMode::CAST_RINT, tile.Count() * 128);
        tileInQueue.FreeTensor(tileIn);
        qOutQueue.EnQue(qOut);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
        LocalTensor<bfloat16_t> qOut = qOutQueue.DeQue<bfloat16_t>();
        fusewright::CopyOut(qGm[tile.inner * 128 + tile.row * 1024], qOut, tile.Count() * 128);
        qOutQueue.FreeTensor(qOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<bfloat16_t> qGm;
    GlobalTensor<int64_t> positionGm;
    GlobalTensor<float> tableGm;
    int64_t t;
    TQue<TPosition::VECIN, DEPTH> tileInQueue;
    TQue<TPosition::VECOUT, DEPTH> qOutQueue;
    TBuf<TPosition::VECCALC> work;
};

}  // namespace

extern "C" __global__ __aicore__ void rope(
    GM_ADDR q,
    GM_ADDR position,
    GM_ADDR table,
    int64_t t,
    int64_t rowBegin, int64_t rowEnd)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    const fusewright::RowRange rows(rowBegin, rowEnd);
    TPipe pipe;
    Row(pipe, q, position, table, t).Process(rows.begin, rows.end);
}
