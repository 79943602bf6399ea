// orders for Ascend 310P3 (dav-2002), from this row program:
//
//   kernel @orders(t = extent(a, 0), n = extent(a, 1)) rows t {
//     param %a: f32[t, n] in
//     param %b: f32[t, n] in
//     param %lt: bool[t, n] out
//     param %le: bool[t, n] out
//     param %gt: bool[t, n] out
//     param %ge: bool[t, n] out
//     param %eq: bool[t, n] out
//     param %ne: bool[t, n] out
//     segment @rows inner 1 {
//       %0 = load a[n*row + lane] : row<f32, n>
//       %1 = load b[n*row + lane] : row<f32, n>
//       %2 = bitcast %0 to i32
//       %3 = bitcast %1 to i32
//       %4 = lt %2, %3
//       %5 = le %2, %3
//       %6 = gt %2, %3
//       %7 = ge %2, %3
//       %8 = max %2, %3
//       %9 = eq %2, %8
//       %10 = ne %2, %3
//       store lt[n*row + lane], %4
//       store le[n*row + lane], %5
//       store gt[n*row + lane], %6
//       store ge[n*row + lane], %7
//       store eq[n*row + lane], %9
//       store ne[n*row + lane], %10
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

class RowsLanes {
public:
    __aicore__ inline RowsLanes(TPipe& pipe, GM_ADDR a, GM_ADDR b, GM_ADDR lt, GM_ADDR le, GM_ADDR gt, GM_ADDR ge, GM_ADDR eq, GM_ADDR ne, int64_t n, const LocalTensor<float>& results)
    {
        this->n = n;
        this->results = results;
        aGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(a));
        bGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(b));
        ltGm.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(lt));
        leGm.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(le));
        gtGm.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(gt));
        geGm.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(ge));
        eqGm.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(eq));
        neGm.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(ne));
        pipe.InitBuffer(tileInQueue, DEPTH, 32768);
        pipe.InitBuffer(tileOutQueue, DEPTH, 24576);
        pipe.InitBuffer(kept, 64);
        pipe.InitBuffer(work, 68256);
    }

    __aicore__ inline void Process(int64_t begin, int64_t end)
    {
        if (begin >= end || n == 0) {
            return;
        }
        zeros = kept.GetWithOffset<float>(8, 0);
        Duplicate(zeros, 0.0f, 8);
        constants = kept.GetWithOffset<float>(8, 32);
        Duplicate(constants.ReinterpretCast<uint32_t>(), 0x00000001u, 8);
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
    static constexpr int64_t INNERS = 4096;

    __aicore__ inline void CopyIn(const fusewright::Tile& tile)
    {
        LocalTensor<uint8_t> tileIn = tileInQueue.AllocTensor<uint8_t>();
        LocalTensor<float> aIn = tileIn[0].ReinterpretCast<float>();
        LocalTensor<float> bIn = tileIn[16384].ReinterpretCast<float>();
        fusewright::whole::CopyIn(aIn, aGm[n * tile.row + tile.inner], tile.inners);
        fusewright::whole::CopyIn(bIn, bGm[n * tile.row + tile.inner], tile.inners);
        tileInQueue.EnQue(tileIn);
    }

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        LocalTensor<uint8_t> tileIn = tileInQueue.DeQue<uint8_t>();
        LocalTensor<uint8_t> tileOut = tileOutQueue.AllocTensor<uint8_t>();
        LocalTensor<uint8_t> ltOut = tileOut[0].ReinterpretCast<uint8_t>();
        LocalTensor<uint8_t> leOut = tileOut[4096].ReinterpretCast<uint8_t>();
        LocalTensor<uint8_t> gtOut = tileOut[8192].ReinterpretCast<uint8_t>();
        LocalTensor<uint8_t> geOut = tileOut[12288].ReinterpretCast<uint8_t>();
        LocalTensor<uint8_t> eqOut = tileOut[16384].ReinterpretCast<uint8_t>();
        LocalTensor<uint8_t> neOut = tileOut[20480].ReinterpretCast<uint8_t>();
        LocalTensor<float> aIn = tileIn[0].ReinterpretCast<float>();
        LocalTensor<float> bIn = tileIn[16384].ReinterpretCast<float>();
        LocalTensor<int32_t> high = work.GetWithOffset<int32_t>(4096, 0);
        LocalTensor<int32_t> lowOfFirst = work.GetWithOffset<int32_t>(4096, 16384);
        LocalTensor<int32_t> lowOfSecond = work.GetWithOffset<int32_t>(4096, 32768);
        LocalTensor<uint8_t> lt2 = work.GetWithOffset<uint8_t>(544, 49152);
        fusewright::CompareHalves<CMPMODE::LT>(lt2, aIn.ReinterpretCast<int32_t>(), bIn.ReinterpretCast<int32_t>(), high, lowOfFirst, lowOfSecond, zeros, tile.inners);
        LocalTensor<int32_t> high2 = work.GetWithOffset<int32_t>(4096, 0);
        LocalTensor<int32_t> lowOfFirst2 = work.GetWithOffset<int32_t>(4096, 16384);
        LocalTensor<int32_t> lowOfSecond2 = work.GetWithOffset<int32_t>(4096, 32768);
        LocalTensor<uint8_t> le2 = work.GetWithOffset<uint8_t>(544, 49696);
        fusewright::CompareHalves<CMPMODE::LE>(le2, aIn.ReinterpretCast<int32_t>(), bIn.ReinterpretCast<int32_t>(), high2, lowOfFirst2, lowOfSecond2, zeros, tile.inners);
        LocalTensor<int32_t> high3 = work.GetWithOffset<int32_t>(4096, 0);
        LocalTensor<int32_t> lowOfFirst3 = work.GetWithOffset<int32_t>(4096, 16384);
        LocalTensor<int32_t> lowOfSecond3 = work.GetWithOffset<int32_t>(4096, 32768);
        LocalTensor<uint8_t> gt2 = work.GetWithOffset<uint8_t>(544, 50240);
        fusewright::CompareHalves<CMPMODE::GT>(gt2, aIn.ReinterpretCast<int32_t>(), bIn.ReinterpretCast<int32_t>(), high3, lowOfFirst3, lowOfSecond3, zeros, tile.inners);
        LocalTensor<int32_t> high4 = work.GetWithOffset<int32_t>(4096, 0);
        LocalTensor<int32_t> lowOfFirst4 = work.GetWithOffset<int32_t>(4096, 16384);
        LocalTensor<int32_t> lowOfSecond4 = work.GetWithOffset<int32_t>(4096, 32768);
        LocalTensor<uint8_t> ge2 = work.GetWithOffset<uint8_t>(544, 50784);
        fusewright::CompareHalves<CMPMODE::GE>(ge2, aIn.ReinterpretCast<int32_t>(), bIn.ReinterpretCast<int32_t>(), high4, lowOfFirst4, lowOfSecond4, zeros, tile.inners);
        LocalTensor<int32_t> max = work.GetWithOffset<int32_t>(4096, 0);
        Max(max, aIn.ReinterpretCast<int32_t>(), bIn.ReinterpretCast<int32_t>(), tile.inners);
        LocalTensor<int32_t> high5 = work.GetWithOffset<int32_t>(4096, 16384);
        LocalTensor<int32_t> lowOfFirst5 = work.GetWithOffset<int32_t>(4096, 32768);
        LocalTensor<int32_t> lowOfSecond5 = work.GetWithOffset<int32_t>(4096, 51328);
        LocalTensor<uint8_t> eq2 = work.GetWithOffset<uint8_t>(544, 67712);
        PipeBarrier<PIPE_V>();
        fusewright::CompareHalves<CMPMODE::EQ>(eq2, aIn.ReinterpretCast<int32_t>(), max, high5, lowOfFirst5, lowOfSecond5, zeros, tile.inners);
        LocalTensor<int32_t> high6 = work.GetWithOffset<int32_t>(4096, 0);
        LocalTensor<int32_t> lowOfFirst6 = work.GetWithOffset<int32_t>(4096, 16384);
        LocalTensor<int32_t> lowOfSecond6 = work.GetWithOffset<int32_t>(4096, 32768);
        LocalTensor<uint8_t> ne2 = work.GetWithOffset<uint8_t>(544, 51328);
        fusewright::CompareHalves<CMPMODE::NE>(ne2, aIn.ReinterpretCast<int32_t>(), bIn.ReinterpretCast<int32_t>(), high6, lowOfFirst6, lowOfSecond6, zeros, tile.inners);
        LocalTensor<float> truth = work.GetWithOffset<float>(4096, 0);
        fusewright::Choose<true, true>(truth, lt2, constants, zeros, tile.inners);
        LocalTensor<half> half2 = work.GetWithOffset<half>(4096, 16384);
        PipeBarrier<PIPE_V>();
        fusewright::CodesToBytes(ltOut, truth.ReinterpretCast<int32_t>(), half2, tile.inners);
        LocalTensor<float> truth2 = work.GetWithOffset<float>(4096, 0);
        fusewright::Choose<true, true>(truth2, le2, constants, zeros, tile.inners);
        LocalTensor<half> half3 = work.GetWithOffset<half>(4096, 16384);
        PipeBarrier<PIPE_V>();
        fusewright::CodesToBytes(leOut, truth2.ReinterpretCast<int32_t>(), half3, tile.inners);
        LocalTensor<float> truth3 = work.GetWithOffset<float>(4096, 0);
        fusewright::Choose<true, true>(truth3, gt2, constants, zeros, tile.inners);
        LocalTensor<half> half4 = work.GetWithOffset<half>(4096, 16384);
        PipeBarrier<PIPE_V>();
        fusewright::CodesToBytes(gtOut, truth3.ReinterpretCast<int32_t>(), half4, tile.inners);
        LocalTensor<float> truth4 = work.GetWithOffset<float>(4096, 0);
        fusewright::Choose<true, true>(truth4, ge2, constants, zeros, tile.inners);
        LocalTensor<half> half5 = work.GetWithOffset<half>(4096, 16384);
        PipeBarrier<PIPE_V>();
        fusewright::CodesToBytes(geOut, truth4.ReinterpretCast<int32_t>(), half5, tile.inners);
        LocalTensor<float> truth5 = work.GetWithOffset<float>(4096, 0);
        fusewright::Choose<true, true>(truth5, eq2, constants, zeros, tile.inners);
        LocalTensor<half> half6 = work.GetWithOffset<half>(4096, 16384);
        PipeBarrier<PIPE_V>();
        fusewright::CodesToBytes(eqOut, truth5.ReinterpretCast<int32_t>(), half6, tile.inners);
        LocalTensor<float> truth6 = work.GetWithOffset<float>(4096, 0);
        fusewright::Choose<true, true>(truth6, ne2, constants, zeros, tile.inners);
        LocalTensor<half> half7 = work.GetWithOffset<half>(4096, 16384);
        PipeBarrier<PIPE_V>();
        fusewright::CodesToBytes(neOut, truth6.ReinterpretCast<int32_t>(), half7, tile.inners);
        tileInQueue.FreeTensor(tileIn);
        tileOutQueue.EnQue(tileOut);
    }

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
        LocalTensor<uint8_t> tileOut = tileOutQueue.DeQue<uint8_t>();
        LocalTensor<uint8_t> ltOut = tileOut[0].ReinterpretCast<uint8_t>();
        LocalTensor<uint8_t> leOut = tileOut[4096].ReinterpretCast<uint8_t>();
        LocalTensor<uint8_t> gtOut = tileOut[8192].ReinterpretCast<uint8_t>();
        LocalTensor<uint8_t> geOut = tileOut[12288].ReinterpretCast<uint8_t>();
        LocalTensor<uint8_t> eqOut = tileOut[16384].ReinterpretCast<uint8_t>();
        LocalTensor<uint8_t> neOut = tileOut[20480].ReinterpretCast<uint8_t>();
        fusewright::whole::CopyOut(ltGm[n * tile.row + tile.inner], ltOut, tile.inners);
        fusewright::whole::CopyOut(leGm[n * tile.row + tile.inner], leOut, tile.inners);
        fusewright::whole::CopyOut(gtGm[n * tile.row + tile.inner], gtOut, tile.inners);
        fusewright::whole::CopyOut(geGm[n * tile.row + tile.inner], geOut, tile.inners);
        fusewright::whole::CopyOut(eqGm[n * tile.row + tile.inner], eqOut, tile.inners);
        fusewright::whole::CopyOut(neGm[n * tile.row + tile.inner], neOut, tile.inners);
        tileOutQueue.FreeTensor(tileOut);
    }

    // Global memory, then what passes through unified buffer.
    GlobalTensor<float> aGm;
    GlobalTensor<float> bGm;
    GlobalTensor<uint8_t> ltGm;
    GlobalTensor<uint8_t> leGm;
    GlobalTensor<uint8_t> gtGm;
    GlobalTensor<uint8_t> geGm;
    GlobalTensor<uint8_t> eqGm;
    GlobalTensor<uint8_t> neGm;
    int64_t n;
    TQue<TPosition::VECIN, DEPTH> tileInQueue;
    TQue<TPosition::VECOUT, DEPTH> tileOutQueue;
    TBuf<TPosition::VECCALC> kept;
    TBuf<TPosition::VECCALC> work;
    LocalTensor<float> results;
    LocalTensor<float> zeros;
    LocalTensor<float> constants;
};

}  // namespace

extern "C" __global__ __aicore__ void orders(
    GM_ADDR a,
    GM_ADDR b,
    GM_ADDR lt,
    GM_ADDR le,
    GM_ADDR gt,
    GM_ADDR ge,
    GM_ADDR eq,
    GM_ADDR ne,
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
        RowsLanes pass1(pipe, a, b, lt, le, gt, ge, eq, ne, n, results);
        for (int64_t row = rows.begin; row < rows.end; ++row) {
            pass1.Process(row, row + 1);
        }
    }
}
