// @{ name }@ for @{ chip }@ (@{ arch }@), from this row program:
//
//%- for line in program %//
@{ line }@
//%- endfor %//
//
// Rows are dealt to the vector cores in contiguous runs, and each core's rows to tiles that pass unified buffer once: a
// tile is copied in, computed with one vector instruction per step, and copied out, while its neighbours are on their way.
//%- if is_split() %//
// Rows that do not fit unified buffer are passed over once for each reduction that waits for another, and once for what is
// stored: their elements are loaded as often.
//%- endif %//
#include "kernel_operator.h"
#include "row_program.h"
#include "@{ copies }@"

using namespace AscendC;

namespace {
//%- for s in segments() %//

class @{ s.class }@ {
public:
    __aicore__ inline @{ s.class }@(TPipe& pipe//%- for b in s.buffers %//, GM_ADDR @{ b.name }@//%- endfor %////%- for d in s.dims %//, int64_t @{ d }@//%- endfor %////%- if s.passes %//, const LocalTensor<float>& results//%- endif %//)
    {
        //%- for d in s.dims %//
        this->@{ d }@ = @{ d }@;
        //%- endfor %//
        //%- if s.passes %//
        this->results = results;
        //%- endif %//
        //%- for b in s.buffers %//
        @{ b.name }@Gm.SetGlobalBuffer(reinterpret_cast<__gm__ @{ b.element }@*>(@{ b.name }@));
        //%- endfor %//
        //%- for (_, q) in s.queues() %//
        pipe.InitBuffer(@{ q.tensor }@Queue, DEPTH, @{ q.bytes }@);
        //%- endfor %//
        //%- if s.kept_bytes > 0 %//
        pipe.InitBuffer(kept, @{ s.kept_bytes }@);
        //%- endif %//
        //%- if s.work > 0 %//
        pipe.InitBuffer(work, @{ s.work }@);
        //%- endif %//
    }

    __aicore__ inline void Process(int64_t begin, int64_t end//%- if !s.inner_rows.is_empty() %//, int64_t innerRow//%- endif %//)
    {
        if (begin >= end//%- if s.may_skip() %// || @{ s.inner }@ == 0//%- endif %//) {
            return;
        }
        //%- if !s.inner_rows.is_empty() %//
        this->innerRow = innerRow;
        //%- endif %//
        //%- if s.passes && s.loads_at_start() %//
        // What is loaded now lies where the row before was computed.
        PipeBarrier<PIPE_ALL>();
        //%- endif %//
        //%- for line in s.start %//
        @{ line }@
        //%- endfor %//
        const fusewright::Tiles tiles(begin, end, ROWS, @{ s.inner }@, INNERS);
        //%- if s.depth > 1 %//
        if (tiles.count > 0) {
            CopyIn(tiles.At(0));
        }
        for (int64_t i = 0; i < tiles.count; ++i) {
            if (i + 1 < tiles.count) {
                CopyIn(tiles.At(i + 1));
            }
            //%- if s.computes() %//
            Compute(tiles.At(i));
            //%- endif %//
            CopyOut(tiles.At(i));
        }
        //%- else %//
        for (int64_t i = 0; i < tiles.count; ++i) {
            CopyIn(tiles.At(i));
            //%- if s.computes() %//
            Compute(tiles.At(i));
            //%- endif %//
            CopyOut(tiles.At(i));
        }
        //%- endif %//
        //%- for line in s.finish %//
        @{ line }@
        //%- endfor %//
    }

private:
    static constexpr int32_t DEPTH = @{ s.depth }@;
    static constexpr int64_t ROWS = @{ s.rows }@;
    static constexpr int64_t INNERS = @{ s.inners }@;

    __aicore__ inline void CopyIn(const fusewright::Tile& tile)
    {
        //%- for line in s.copy_in %//
        @{ line }@
        //%- endfor %//
    }
    //%- if s.computes() %//

    __aicore__ inline void Compute(const fusewright::Tile& tile)
    {
        //%- for q in s.inputs %//
        LocalTensor<@{ q.element }@> @{ q.tensor }@ = @{ q.tensor }@Queue.DeQue<@{ q.element }@>();
        //%- endfor %//
        //%- for q in s.outputs %//
        LocalTensor<@{ q.element }@> @{ q.tensor }@ = @{ q.tensor }@Queue.AllocTensor<@{ q.element }@>();
        //%- endfor %//
        //%- for line in s.body %//
        @{ line }@
        //%- endfor %//
        //%- for q in s.inputs %//
        @{ q.tensor }@Queue.FreeTensor(@{ q.tensor }@);
        //%- endfor %//
        //%- for q in s.outputs %//
        @{ q.tensor }@Queue.EnQue(@{ q.tensor }@);
        //%- endfor %//
    }
    //%- endif %//

    __aicore__ inline void CopyOut(const fusewright::Tile& tile)
    {
        //%- for line in s.rows_out %//
        @{ line }@
        //%- endfor %//
        //%- for o in s.stores %//
        LocalTensor<@{ o.element }@> @{ o.tensor }@ = @{ o.tensor }@Queue.DeQue<@{ o.element }@>();
        //%- for line in o.copies %//
        @{ line }@
        //%- endfor %//
        @{ o.tensor }@Queue.FreeTensor(@{ o.tensor }@);
        //%- endfor %//
    }

    // Global memory, then what passes through unified buffer.
    //%- for b in s.buffers %//
    GlobalTensor<@{ b.element }@> @{ b.name }@Gm;
    //%- endfor %//
    //%- for d in s.dims %//
    int64_t @{ d }@;
    //%- endfor %//
    //%- if !s.inner_rows.is_empty() %//
    int64_t innerRow;
    //%- endif %//
    //%- for (kind, q) in s.queues() %//
    @{ kind }@ @{ q.tensor }@Queue;
    //%- endfor %//
    //%- if s.kept_bytes > 0 %//
    TBuf<TPosition::VECCALC> kept;
    //%- endif %//
    //%- if s.work > 0 %//
    TBuf<TPosition::VECCALC> work;
    //%- endif %//
    //%- if s.passes %//
    LocalTensor<float> results;
    //%- endif %//
    //%- for k in s.kept %//
    LocalTensor<@{ k.element }@> @{ k.tensor }@;
    //%- endfor %//
};
//%- endfor %//

}  // namespace

extern "C" __global__ __aicore__ void @{ name }@(
    //%- for b in buffers %//
    GM_ADDR @{ b }@,
    //%- endfor %//
    //%- for d in dims %//
    int64_t @{ d }@,
    //%- endfor %//
    int64_t rowBegin, int64_t rowEnd)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    //%- if granule > 1 %//
    // What scalar units store of rows begins a line of their caches, which is written back as a whole.
    const fusewright::RowRange rows(rowBegin, rowEnd, @{ granule }@);
    //%- else %//
    const fusewright::RowRange rows(rowBegin, rowEnd);
    //%- endif %//
    TPipe pipe;
    //%- for g in groups %//
    //%- if !loop.first %//
    PipeBarrier<PIPE_ALL>();
    pipe.Reset();
    //%- endif %//
    //%- if g.is_split() %//
    {
        TBuf<TPosition::VECCALC> resultBuffer;
        pipe.InitBuffer(resultBuffer, @{ g.result_bytes().max(32) }@);
        const LocalTensor<float> results = resultBuffer.Get<float>();
        //%- for s in g.passes %//
        @{ s.class }@ pass@{ loop.index }@(pipe//%- for b in s.buffers %//, @{ b.name }@//%- endfor %////%- for d in s.dims %//, @{ d }@//%- endfor %//, results);
        //%- endfor %//
        for (int64_t row = rows.begin; row < rows.end; ++row) {
            //%- if g.inner_rows().is_empty() %//
            //%- for s in g.passes %//
            pass@{ loop.index }@.Process(row, row + 1);
            //%- endfor %//
            //%- else %//
            for (int64_t innerRow = 0; innerRow < @{ g.inner_rows() }@; ++innerRow) {
                //%- for s in g.passes %//
                pass@{ loop.index }@.Process(row, row + 1, innerRow);
                //%- endfor %//
            }
            //%- endif %//
        }
    }
    //%- else %//
    //%- for s in g.passes %//
    @{ s.class }@(pipe//%- for b in s.buffers %//, @{ b.name }@//%- endfor %////%- for d in s.dims %//, @{ d }@//%- endfor %//).Process(rows.begin, rows.end);
    //%- endfor %//
    //%- endif %//
    //%- endfor %//
}
