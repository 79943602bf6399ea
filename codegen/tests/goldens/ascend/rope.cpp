// rope for Ascend 910B1 (dav-2201), from this row program:
//
//   kernel @rope(t = extent(q, 0)) rows t {
//     param %q: bf16[t, 1024] inout
//     param %position: i64[t] in
//     param %table: f32[t, 128] in
//     segment @row inner 8 {
//       %0 = load position[row] : scalar<i64>
//       %1 = load table[%0*128 + lane] : row<f32, 64>
//       %2 = load table[%0*128 + lane + 64] : row<f32, 64>
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
// Rows are dealt to the vector cores in contiguous runs. A row passes unified buffer once: it is copied in, computed with
// one vector instruction per step, and copied out, while its neighbours are on their way in and out.
#include "kernel_operator.h"
#include "row_program.h"

using namespace AscendC;

namespace {

class Row {
public:
    __aicore__ inline Row(TPipe& pipe, GM_ADDR q, GM_ADDR position, GM_ADDR table)
    {
        qGm.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(q));
        positionGm.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(position));
        tableGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(table));
        pipe.InitBuffer(tableInQueue, DEPTH, 256);
        pipe.InitBuffer(tableIn2Queue, DEPTH, 256);
        pipe.InitBuffer(qInQueue, DEPTH, 256);
        pipe.InitBuffer(qOutQueue, DEPTH, 256);
        pipe.InitBuffer(work, 1536);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end)
    {
        for (int64_t row = begin; row < end; ++row) {
            for (int64_t inner = 0; inner < 8; ++inner) {
                CopyIn(row, inner);
                Compute(row, inner);
                CopyOut(row, inner);
            }
        }
    }

private:
    static constexpr int32_t DEPTH = 2;

    __aicore__ inline void CopyIn(int64_t row, int64_t inner)
    {
        const int64_t position2 = positionGm.GetValue(row);
        fusewright::CopyIn(tableInQueue, tableGm[position2 * 128], 64);
        fusewright::CopyIn(tableIn2Queue, tableGm[position2 * 128 + 64], 64);
        fusewright::CopyIn(qInQueue, qGm[inner * 128 + row * 1024], 128);
    }

    __aicore__ inline void Compute(int64_t row, int64_t inner)
    {
        LocalTensor<float> tableIn = tableInQueue.DeQue<float>();
        LocalTensor<float> tableIn2 = tableIn2Queue.DeQue<float>();
        LocalTensor<bfloat16_t> qIn = qInQueue.DeQue<bfloat16_t>();
        LocalTensor<bfloat16_t> qOut = qOutQueue.AllocTensor<bfloat16_t>();
        LocalTensor<float> qF32 = work.GetWithOffset<float>(128, 0);
        Cast(qF32, qIn, RoundMode::CAST_NONE, 128);
        LocalTensor<float> mul = work.GetWithOffset<float>(64, 512);
        PipeBarrier<PIPE_V>();
        Mul(mul, qF32, tableIn, 64);
        LocalTensor<float> mul2 = work.GetWithOffset<float>(64, 768);
        Mul(mul2, qF32[64], tableIn2, 64);
        LocalTensor<float> mul3 = work.GetWithOffset<float>(64, 1024);
        Mul(mul3, qF32[64], tableIn, 64);
        LocalTensor<float> mul4 = work.GetWithOffset<float>(64, 1280);
        Mul(mul4, qF32, tableIn2, 64);
        LocalTensor<float> joined = work.GetWithOffset<float>(128, 0);
        PipeBarrier<PIPE_V>();
        Sub(joined, mul, mul2, 64);
        Add(joined[64], mul3, mul4, 64);
        PipeBarrier<PIPE_V>();
        Cast(qOut, joined, RoundMode::CAST_RINT, 128);
        PipeBarrier<PIPE_V>();
        tableInQueue.FreeTensor(tableIn);
        tableIn2Queue.FreeTensor(tableIn2);
        qInQueue.FreeTensor(qIn);
        qOutQueue.EnQue(qOut);
    }

    __aicore__ inline void CopyOut(int64_t row, int64_t inner)
    {
        LocalTensor<bfloat16_t> qOut = qOutQueue.DeQue<bfloat16_t>();
        fusewright::CopyOut(qGm[inner * 128 + row * 1024], qOut, 128);
        qOutQueue.FreeTensor(qOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<bfloat16_t> qGm;
    GlobalTensor<int64_t> positionGm;
    GlobalTensor<float> tableGm;
    TQue<TPosition::VECIN, DEPTH> tableInQueue;
    TQue<TPosition::VECIN, DEPTH> tableIn2Queue;
    TQue<TPosition::VECIN, DEPTH> qInQueue;
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
    Row(pipe, q, position, table).Process(rows.begin, rows.end);
}
