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
// Rows are dealt to the vector cores in contiguous runs. A row passes unified buffer once: it is copied in, computed with
// one vector instruction per step, and copied out, while its neighbours are on their way in and out.
#include "kernel_operator.h"
#include "row_program.h"

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
        pipe.InitBuffer(weightInQueue, 1, 10240);
        pipe.InitBuffer(xInQueue, DEPTH, 10240);
        pipe.InitBuffer(residualInQueue, DEPTH, 10240);
        pipe.InitBuffer(residualOutQueue, DEPTH, 10240);
        pipe.InitBuffer(scaleOutQueue, DEPTH, 32);
        pipe.InitBuffer(yOutQueue, DEPTH, 5120);
        pipe.InitBuffer(work, 51200);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end)
    {
        weightIn = fusewright::LoadConstant(weightInQueue, weightGm[0], 5120);
        if (begin < end) {
            CopyIn(begin);
        }
        for (int64_t row = begin; row < end; ++row) {
            if (row + 1 < end) {
                CopyIn(row + 1);
            }
            Compute(row);
            CopyOut(row);
        }
        weightInQueue.FreeTensor(weightIn);
    }

private:
    static constexpr int32_t DEPTH = 2;

    __aicore__ inline void CopyIn(int64_t row)
    {
        fusewright::CopyIn(xInQueue, xGm[row * 5120], 5120);
        fusewright::CopyIn(residualInQueue, residualGm[row * 5120], 5120);
    }

    __aicore__ inline void Compute(int64_t row)
    {
        LocalTensor<bfloat16_t> xIn = xInQueue.DeQue<bfloat16_t>();
        LocalTensor<bfloat16_t> residualIn = residualInQueue.DeQue<bfloat16_t>();
        LocalTensor<bfloat16_t> residualOut = residualOutQueue.AllocTensor<bfloat16_t>();
        LocalTensor<float> scaleOut = scaleOutQueue.AllocTensor<float>();
        LocalTensor<int8_t> yOut = yOutQueue.AllocTensor<int8_t>();
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
        LocalTensor<float> tree = work.GetWithOffset<float>(192, 40960);
        LocalTensor<float> sum = work.GetWithOffset<float>(8, 41728);
        PipeBarrier<PIPE_V>();
        fusewright::TreeReduce<fusewright::Sum, 64>(sum, mul, tree, 5120);
        LocalTensor<float> spread = work.GetWithOffset<float>(8, 20480);
        Duplicate(spread, 5120.0f, 1);
        LocalTensor<float> div = work.GetWithOffset<float>(8, 41728);
        PipeBarrier<PIPE_V>();
        Div(div, sum, spread, 1);
        LocalTensor<float> add2 = work.GetWithOffset<float>(8, 41728);
        PipeBarrier<PIPE_V>();
        Adds(add2, div, 1e-6f, 1);
        LocalTensor<float> sqrt = work.GetWithOffset<float>(8, 41728);
        PipeBarrier<PIPE_V>();
        Sqrt(sqrt, add2, 1);
        LocalTensor<float> spread2 = work.GetWithOffset<float>(8, 20480);
        Duplicate(spread2, 1.0f, 1);
        LocalTensor<float> div2 = work.GetWithOffset<float>(8, 41728);
        PipeBarrier<PIPE_V>();
        Div(div2, spread2, sqrt, 1);
        const float div2Value = fusewright::ReadScalar(div2);
        LocalTensor<float> mul2 = work.GetWithOffset<float>(5120, 0);
        Muls(mul2, residualF32_2, div2Value, 5120);
        LocalTensor<float> weightF32 = work.GetWithOffset<float>(5120, 20480);
        PipeBarrier<PIPE_V>();
        Cast(weightF32, weightIn, RoundMode::CAST_NONE, 5120);
        LocalTensor<float> mul3 = work.GetWithOffset<float>(5120, 0);
        PipeBarrier<PIPE_V>();
        Mul(mul3, mul2, weightF32, 5120);
        LocalTensor<float> abs = work.GetWithOffset<float>(5120, 20480);
        PipeBarrier<PIPE_V>();
        Abs(abs, mul3, 5120);
        LocalTensor<float> tree2 = work.GetWithOffset<float>(192, 40960);
        LocalTensor<float> largest = work.GetWithOffset<float>(8, 41728);
        PipeBarrier<PIPE_V>();
        fusewright::TreeReduce<fusewright::Largest, 64>(largest, abs, tree2, 5120);
        LocalTensor<float> spread3 = work.GetWithOffset<float>(8, 20480);
        Duplicate(spread3, 127.0f, 1);
        LocalTensor<float> div3 = work.GetWithOffset<float>(8, 41728);
        PipeBarrier<PIPE_V>();
        Div(div3, largest, spread3, 1);
        PipeBarrier<PIPE_V>();
        Maxs(scaleOut, div3, 1.1920929e-7f, 1);
        const float scaleOutValue = fusewright::ReadScalar(scaleOut);
        LocalTensor<float> spread4 = work.GetWithOffset<float>(5120, 20480);
        Duplicate(spread4, scaleOutValue, 5120);
        LocalTensor<float> div4 = work.GetWithOffset<float>(5120, 0);
        PipeBarrier<PIPE_V>();
        Div(div4, mul3, spread4, 5120);
        LocalTensor<int32_t> whole = work.GetWithOffset<int32_t>(5120, 20480);
        LocalTensor<half> narrow = work.GetWithOffset<half>(5120, 40960);
        PipeBarrier<PIPE_V>();
        fusewright::CastToInt8(yOut, div4, whole, narrow, 5120);
        xInQueue.FreeTensor(xIn);
        residualInQueue.FreeTensor(residualIn);
        residualOutQueue.EnQue(residualOut);
        scaleOutQueue.EnQue(scaleOut);
        yOutQueue.EnQue(yOut);
    }

    __aicore__ inline void CopyOut(int64_t row)
    {
        LocalTensor<bfloat16_t> residualOut = residualOutQueue.DeQue<bfloat16_t>();
        fusewright::CopyOut(residualGm[row * 5120], residualOut, 5120);
        residualOutQueue.FreeTensor(residualOut);
        LocalTensor<float> scaleOut = scaleOutQueue.DeQue<float>();
        fusewright::CopyOut(scaleGm[row], scaleOut, 1);
        scaleOutQueue.FreeTensor(scaleOut);
        LocalTensor<int8_t> yOut = yOutQueue.DeQue<int8_t>();
        fusewright::CopyOut(yGm[row * 5120], yOut, 5120);
        yOutQueue.FreeTensor(yOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<bfloat16_t> xGm;
    GlobalTensor<bfloat16_t> residualGm;
    GlobalTensor<bfloat16_t> weightGm;
    GlobalTensor<int8_t> yGm;
    GlobalTensor<float> scaleGm;
    TQue<TPosition::VECIN, 1> weightInQueue;
    LocalTensor<bfloat16_t> weightIn;
    TQue<TPosition::VECIN, DEPTH> xInQueue;
    TQue<TPosition::VECIN, DEPTH> residualInQueue;
    TQue<TPosition::VECOUT, DEPTH> residualOutQueue;
    TQue<TPosition::VECOUT, DEPTH> scaleOutQueue;
    TQue<TPosition::VECOUT, DEPTH> yOutQueue;
    TBuf<TPosition::VECCALC> work;
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
