// @{ name }@ for @{ chip }@ (@{ arch }@), from this row program:
//
//%- for line in program %//
@{ line }@
//%- endfor %//
//
// Rows are dealt to the vector cores in contiguous runs. A row passes unified buffer once: it is copied in, computed with
// one vector instruction per step, and copied out, while its neighbours are on their way in and out.
#include "kernel_operator.h"
#include "row_program.h"

using namespace AscendC;

namespace {
//%- for s in segments %//

class @{ s.class }@ {
public:
    __aicore__ inline @{ s.class }@(TPipe& pipe//%- for b in s.buffers %//, GM_ADDR @{ b.name }@//%- endfor %////%- for d in s.dims %//, int64_t @{ d }@//%- endfor %//)
    {
        //%- for d in s.dims %//
        this->@{ d }@ = @{ d }@;
        //%- endfor %//
        //%- for b in s.buffers %//
        @{ b.name }@Gm.SetGlobalBuffer(reinterpret_cast<__gm__ @{ b.element }@*>(@{ b.name }@));
        //%- endfor %//
        //%- for q in s.constants %//
        pipe.InitBuffer(@{ q.tensor }@Queue, 1, @{ q.bytes }@);
        //%- endfor %//
        //%- for q in s.inputs %//
        pipe.InitBuffer(@{ q.tensor }@Queue, DEPTH, @{ q.bytes }@);
        //%- endfor %//
        //%- for m in s.moves %//
        pipe.InitBuffer(@{ m.from.tensor }@Queue, DEPTH, @{ m.from.bytes }@);
        //%- endfor %//
        //%- for q in s.owned_outputs() %//
        pipe.InitBuffer(@{ q.tensor }@Queue, DEPTH, @{ q.bytes }@);
        //%- endfor %//
        //%- if s.work > 0 %//
        pipe.InitBuffer(work, @{ s.work }@);
        //%- endif %//
    }

    __aicore__ inline void Process(int64_t begin, int64_t end)
    {
        //%- for q in s.constants %//
        @{ q.tensor }@ = fusewright::LoadConstant(@{ q.tensor }@Queue, @{ q.buffer }@Gm[@{ q.index }@], @{ q.lanes }@);
        //%- endfor %//
        //%- if s.uses_inner %//
        for (int64_t row = begin; row < end; ++row) {
            for (int64_t inner = 0; inner < @{ s.inner }@; ++inner) {
                CopyIn(row, inner);
                //%- if !s.body.is_empty() %//
                Compute(row, inner);
                //%- endif %//
                CopyOut(row, inner);
            }
        }
        //%- else if s.depth > 1 %//
        if (begin < end) {
            CopyIn(begin);
        }
        for (int64_t row = begin; row < end; ++row) {
            if (row + 1 < end) {
                CopyIn(row + 1);
            }
            //%- if !s.body.is_empty() %//
            Compute(row);
            //%- endif %//
            CopyOut(row);
        }
        //%- else %//
        for (int64_t row = begin; row < end; ++row) {
            CopyIn(row);
            //%- if !s.body.is_empty() %//
            Compute(row);
            //%- endif %//
            CopyOut(row);
        }
        //%- endif %//
        //%- for q in s.constants %//
        @{ q.tensor }@Queue.FreeTensor(@{ q.tensor }@);
        //%- endfor %//
    }

private:
    static constexpr int32_t DEPTH = @{ s.depth }@;

    __aicore__ inline void CopyIn(int64_t row//%- if s.uses_inner %//, int64_t inner//%- endif %//)
    {
        //%- for line in s.scalars_in %//
        @{ line }@
        //%- endfor %//
        //%- for q in s.inputs %//
        fusewright::CopyIn(@{ q.tensor }@Queue, @{ q.buffer }@Gm[@{ q.index }@], @{ q.lanes }@);
        //%- endfor %//
        //%- for m in s.moves %//
        fusewright::CopyIn(@{ m.from.tensor }@Queue, @{ m.from.buffer }@Gm[@{ m.from.index }@], @{ m.from.lanes }@);
        //%- endfor %//
    }
    //%- if !s.body.is_empty() %//

    __aicore__ inline void Compute(int64_t row//%- if s.uses_inner %//, int64_t inner//%- endif %//)
    {
        //%- for q in s.inputs %//
        LocalTensor<@{ q.element }@> @{ q.tensor }@ = @{ q.tensor }@Queue.DeQue<@{ q.element }@>();
        //%- endfor %//
        //%- for q in s.owned_outputs() %//
        LocalTensor<@{ q.element }@> @{ q.tensor }@ = @{ q.tensor }@Queue.AllocTensor<@{ q.element }@>();
        //%- endfor %//
        //%- for line in s.body %//
        @{ line }@
        //%- endfor %//
        //%- for q in s.inputs %//
        @{ q.tensor }@Queue.FreeTensor(@{ q.tensor }@);
        //%- endfor %//
        //%- for q in s.owned_outputs() %//
        @{ q.tensor }@Queue.EnQue(@{ q.tensor }@);
        //%- endfor %//
    }
    //%- endif %//

    __aicore__ inline void CopyOut(int64_t row//%- if s.uses_inner %//, int64_t inner//%- endif %//)
    {
        //%- for line in s.scalars_out %//
        @{ line }@
        //%- endfor %//
        //%- for o in s.owned_outputs() %//
        LocalTensor<@{ o.element }@> @{ o.tensor }@ = @{ o.tensor }@Queue.DeQue<@{ o.element }@>();
        //%- for q in s.outputs %//
        //%- if q.tensor == o.tensor %//
        //%- if !q.condition.is_empty() %//
        if (@{ q.condition }@) {
            fusewright::CopyOut(@{ q.buffer }@Gm[@{ q.index }@], @{ q.tensor }@, @{ q.lanes }@);
        }
        //%- else %//
        fusewright::CopyOut(@{ q.buffer }@Gm[@{ q.index }@], @{ q.tensor }@, @{ q.lanes }@);
        //%- endif %//
        //%- endif %//
        //%- endfor %//
        @{ o.tensor }@Queue.FreeTensor(@{ o.tensor }@);
        //%- endfor %//
        //%- for m in s.moves %//
        LocalTensor<@{ m.from.element }@> @{ m.from.tensor }@ = @{ m.from.tensor }@Queue.DeQue<@{ m.from.element }@>();
        //%- if !m.to.condition.is_empty() %//
        if (@{ m.to.condition }@) {
            fusewright::CopyOut(@{ m.to.buffer }@Gm[@{ m.to.index }@], @{ m.from.tensor }@, @{ m.to.lanes }@);
        }
        //%- else %//
        fusewright::CopyOut(@{ m.to.buffer }@Gm[@{ m.to.index }@], @{ m.from.tensor }@, @{ m.to.lanes }@);
        //%- endif %//
        @{ m.from.tensor }@Queue.FreeTensor(@{ m.from.tensor }@);
        //%- endfor %//
    }

    // Global memory, then what passes through unified buffer.
    //%- for b in s.buffers %//
    GlobalTensor<@{ b.element }@> @{ b.name }@Gm;
    //%- endfor %//
    //%- for d in s.dims %//
    int64_t @{ d }@;
    //%- endfor %//
    //%- for q in s.constants %//
    TQue<TPosition::VECIN, 1> @{ q.tensor }@Queue;
    LocalTensor<@{ q.element }@> @{ q.tensor }@;
    //%- endfor %//
    //%- for q in s.inputs %//
    TQue<TPosition::VECIN, DEPTH> @{ q.tensor }@Queue;
    //%- endfor %//
    //%- for m in s.moves %//
    TQueBind<TPosition::VECIN, TPosition::VECOUT, DEPTH> @{ m.from.tensor }@Queue;
    //%- endfor %//
    //%- for q in s.owned_outputs() %//
    TQue<TPosition::VECOUT, DEPTH> @{ q.tensor }@Queue;
    //%- endfor %//
    //%- if s.work > 0 %//
    TBuf<TPosition::VECCALC> work;
    //%- endif %//
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
    const fusewright::RowRange rows(rowBegin, rowEnd);
    TPipe pipe;
    //%- for s in segments %//
    //%- if !loop.first %//
    pipe.Reset();
    //%- endif %//
    @{ s.class }@(pipe//%- for b in s.buffers %//, @{ b.name }@//%- endfor %////%- for d in s.dims %//, @{ d }@//%- endfor %//).Process(rows.begin, rows.end);
    //%- endfor %//
}
