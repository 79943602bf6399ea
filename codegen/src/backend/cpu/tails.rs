//! The end of a row that is no whole number of chunks.
//!
//! A lane by itself takes as long as a chunk, or longer. So the last chunk ends with the last lane, and some of its lanes ran
//! before. A store writes these once more, with the same bits; a reduction gets in their place what changes no accumulator.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::emit::{Open, RowLoop};
use super::eval::Pass as Running;
use super::memory::Width;
use crate::backend::host::Taken;
use crate::backend::host::hazard;
use crate::backend::host::place::Span;
use crate::backend::host::plan::Job;
use crate::kernel::{Inst, InstOp};

impl RowLoop<'_, '_, '_> {
    /// Says whether these sinks may be given lanes twice: whether no store overwrites what is loaded.
    pub(super) fn may_run_again(&self, jobs: &[Job]) -> bool {
        let (kernel, segment) = (self.eval.kernel, self.eval.segment);
        // Chunks of them begin at multiples of their length, as groups do.
        let in_order = |inst: &Inst| !matches!(inst.op, InstOp::Zip | InstOp::Pack { .. });
        let overwrites = |job: &Job| match &segment.insts[job.inst].op {
            InstOp::Store { param, .. } => hazard::overwrites(kernel, segment, *param),
            _ => false,
        };
        segment.insts.iter().all(in_order) && !jobs.iter().any(overwrites)
    }

    /// Runs the lanes behind the whole bodies in chunks. The last chunk ends with the last lane, so that some of its lanes ran
    /// before; where there are fewer lanes than a chunk has, none runs. Reductions have their accumulators on the stack.
    /// Gives the first lane that did not run.
    pub(super) fn up_to_the_last(
        &mut self,
        span: &Span<Value>,
        jobs: &[Job],
        next: Value,
        open: &Open,
    ) -> Taken<Value> {
        let last = self.eval.code.add(span.end, -8);
        let fits = self.eval.code.icmp(IntCC::SignedLessThanOrEqual, span.start, last);
        let stop = self.eval.code.b.ins().select(fits, span.end, next);
        let bound = self.eval.code.add(stop, 7);
        let l = self.eval.code.begin_loop(next, bound, 8);
        let mark = self.eval.memo.enter();
        let base = self.eval.code.b.ins().smin(l.i, last);
        self.eval.pass = Some(Running { base, lanes: span.lanes.clone(), shift: 0, multiple: 1 });
        let (ran, ahead) = (self.eval.code.b.ins().isub(l.i, base), self.eval.code.b.ins().isub(l.i, span.start));
        self.chunk_of(jobs, base, (0, Width::Eight), open, &mut |eval, acc, value, _| {
            let new = eval.new_lanes(acc, value, ran);
            eval.accumulate_behind(acc, ahead, new)
        })?;
        self.eval.memo.leave(mark);
        self.eval.code.end_loop(l);
        Ok(stop)
    }

    /// Runs the last eight of `length` lanes, of which only the last `new` ones have not run.
    pub(super) fn last_chunk(
        &mut self,
        span: &Span<Value>,
        jobs: &[Job],
        (new, length): (i64, i64),
        open: &Open,
    ) -> Taken<()> {
        let base = self.eval.code.add(span.end, -8);
        let multiple = span.multiple.min(1 << new.trailing_zeros());
        let mark = self.eval.memo.enter();
        self.eval.pass = Some(Running { base, lanes: span.lanes.clone(), shift: 0, multiple });
        let ran = self.eval.code.i64(8 - new);
        self.chunk_of(jobs, base, (0, Width::Eight), open, &mut |eval, acc, value, _| {
            let lanes = eval.new_lanes(acc, value, ran);
            eval.accumulate(acc, (length - new) / 8, lanes)
        })?;
        self.eval.memo.leave(mark);
        Ok(())
    }
}
