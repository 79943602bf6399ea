//! The loops of a phase: over the lanes of a row or a piece of it, and over groups.
//!
//! Lanes go in chunks. What is left over is one masked chunk where every access of the loop can be masked, else lanes one
//! by one.

use std::collections::HashSet;

use fusewright_abi::DType;
use fusewright_graph::Dim;
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::address::Pos;
use super::eval::{CHUNK, Eval, Key, Running};
use super::function::Open;
use super::passes::{Iteration, Stride};
use super::reduce::{Accumulators, takes_chunks};
use crate::backend::host::Forms;
use crate::backend::host::index::consecutive;
use crate::backend::host::place::{InGroup, Slot, Span, fill, multiple};
use crate::backend::host::plan::{self, Grouped, Job};
use crate::backend::host::walk::{GroupUse, Walk};
use crate::backend::llvm::Built;
use crate::kernel::{InstOp, LANE, Order, Shape, Val};

/// Every function and conversion has a vector form.
pub(super) struct Vectors;

impl Forms for Vectors {
    fn single_lanes(&self, lanes: i64) -> i64 {
        match lanes {
            8 => 0,
            // A short row waits for its own end; of a longer one only what is left does.
            0..=32 if lanes % 16 != 0 => lanes,
            _ => lanes % 16,
        }
    }

    fn most_compares(&self) -> i64 {
        1024
    }

    fn most_insts(&self) -> usize {
        9000
    }

    fn reduction(&self, order: Order, dtype: DType) -> bool {
        takes_chunks(order, dtype)
    }
}

/// The loops of a phase whose row reductions are open.
pub(super) struct Loops<'r, 'k, 'e, 'c> {
    pub eval: &'r mut Eval<'k, 'e, 'c>,
    pub open: &'r Open<'c>,
    /// Whether masked accesses are instructions.
    pub masked: bool,
}

impl<'c> Loops<'_, '_, '_, 'c> {
    /// A loop over all lanes of a row or of a piece.
    pub fn flat(&mut self, lanes: &Dim, vector: bool, jobs: &[Job]) -> Built<()> {
        let (start, end) = (self.eval.code.i64(0), self.eval.dim(lanes)?);
        let span = Span { start, end, length: lanes.as_const(), lanes: Some(lanes.clone()), multiple: CHUNK.into() };
        let open = self.open;
        self.span(&span, vector, jobs, open, None)
    }

    /// Runs sinks over a span of lanes: chunks, then what is left.
    fn span(
        &mut self,
        span: &Span<IntValue<'c>>,
        vector: bool,
        jobs: &[Job],
        open: &Open<'c>,
        group: Option<&InGroup<IntValue<'c>>>,
    ) -> Built<()> {
        let code = self.eval.code;
        let chunk = i64::from(CHUNK);
        let outer = (self.eval.pass.take(), self.eval.group.take());
        let mut next = span.start;
        let pairs = vector && span.length.is_none_or(|n| n >= 2 * chunk) && self.splits(jobs, open, group.is_some());
        if pairs {
            next = self.passes(Stride::Pair, span, jobs, open, group)?;
        }
        let left = span.length.map(|n| if pairs { n % (2 * chunk) } else { n });
        if vector && left.is_none_or(|n| n >= chunk) {
            // What pairs leave is one chunk at most.
            let rest = Span { start: next, length: left, ..span.clone() };
            next = self.passes(Stride::Chunk, &rest, jobs, open, group)?;
        }
        let rest = !vector || span.length.is_none_or(|n| n % chunk != 0);
        // A mask of one lane that is known when compiling makes LLVM 22 store too much of a narrowed vector.
        let single = span.length.is_some_and(|n| n % chunk == 1);
        if let (Some(width @ (4 | 8)), true) = (span.length, vector) {
            // A short row fills a narrower vector. What loads it behind its stores finds it whole in one of them.
            self.chunk(jobs, (width as u32, None), open, &Iteration { base: next, accumulator: 0, span, group })?;
        } else if rest && vector && !single && self.masks(jobs) {
            let left = code.b.build_int_sub(span.end, next, "")?;
            let any = code.cmp(IntPredicate::SGT, left, code.i64(0))?;
            let (some, join) = (code.block(), code.block());
            code.b.build_conditional_branch(any, some, join)?;
            code.b.position_at_end(some);
            let count = code.splat(code.extend(left.into(), 32, false)?, CHUNK)?;
            let mask = code.icmp(IntPredicate::ULT, self.eval.lane_numbers(CHUNK), count)?;
            let pass = Iteration { base: next, accumulator: 0, span, group };
            self.chunk(jobs, (CHUNK, Some(mask)), open, &pass)?;
            code.b.build_unconditional_branch(join)?;
            code.b.position_at_end(join);
        } else if rest {
            let whole = !jobs.iter().any(|j| open.contains_key(&j.inst));
            let fits = |left: i64| group.is_none() || !whole && (left == 4 || left == 8);
            if let Some(left) = span.length.map(|n| n % chunk).filter(|left| vector && fits(*left)) {
                let mut accumulator = 0;
                // Two lanes that are parts of pairs would be no vectors.
                for width in [8, 4].into_iter().filter(|width| left & i64::from(*width) != 0) {
                    let pass = Iteration { base: next, accumulator, span, group };
                    self.chunk(jobs, (width, None), open, &pass)?;
                    next = code.add(next, code.i64(i64::from(width)))?;
                    accumulator += width;
                }
            }
            let reductions: Vec<&Accumulators<'c>> = jobs.iter().filter_map(|j| open.get(&j.inst)).collect();
            reductions.iter().try_for_each(|acc| self.eval.spill(acc))?;
            let l = code.begin_loop(next, span.end, 1)?;
            self.one(jobs, l.i, span, open, group)?;
            code.end_loop(l)?;
            reductions.iter().try_for_each(|acc| self.eval.reload(acc))?;
        }
        (self.eval.pass, self.eval.group) = outer;
        Ok(())
    }

    /// One chunk of every sink, of so many lanes or those of a mask: all loads come before all stores.
    pub(super) fn chunk(
        &mut self,
        jobs: &[Job],
        (width, mask): (u32, Option<crate::backend::llvm::Value<'c>>),
        open: &Open<'c>,
        pass: &Iteration<'_, 'c>,
    ) -> Built<()> {
        let (segment, base) = (self.eval.segment, pass.base);
        let mark = self.enter_part(Stride::Chunk, None, pass);
        if let Some(running) = &mut self.eval.pass {
            running.mask = mask;
        }
        if let Some(group) = &mut self.eval.group {
            group.span = group.span.min(i64::from(width));
        }
        let mut pending = Vec::new();
        for job in jobs {
            let pos = Pos::at(base).plus_dim(&job.offset);
            let arg = plan::sink_value(segment, job.inst);
            let value = self.eval.value(arg, self.eval.shape(arg), Some(&pos), width)?;
            match open.get(&job.inst) {
                Some(acc) => self.eval.accumulate(acc, value, pass.accumulator)?,
                None if plan::is_sink(segment, job.inst) => pending.push((job.inst, value, pos)),
                None => {
                    let mask = mask.filter(|_| !self.ends_its_slot(arg, job, pass));
                    self.eval.store_kept(arg, value, &pos, mask)?
                }
            }
        }
        self.stores(pending)?;
        self.eval.memo.leave(mark);
        Ok(())
    }

    /// Says whether the memory of a value ends with the lanes of the loop that stores it: they are all of its row, or of the group
    /// that the memory is for.
    fn ends_its_slot(&self, v: Val, job: &Job, pass: &Iteration<'_, 'c>) -> bool {
        let of_group = self.eval.slots.get(&v).is_some_and(|slot| slot.group.is_some());
        let of_row = job.offset == Dim::constant(0) && pass.span.lanes.as_ref() == Some(&self.eval.shape(v).elements());
        of_group || of_row
    }

    /// One lane of every sink.
    fn one(
        &mut self,
        jobs: &[Job],
        base: IntValue<'c>,
        span: &Span<IntValue<'c>>,
        open: &Open<'c>,
        group: Option<&InGroup<IntValue<'c>>>,
    ) -> Built<()> {
        let segment = self.eval.segment;
        let mark = self.eval.memo.enter();
        self.eval.group = group.map(|g| InGroup { span: 1, ..g.clone() });
        self.eval.pass =
            Some(Running { base, lanes: span.lanes.clone(), shift: 0, multiple: 1, mask: None, part: None });
        let mut pending = Vec::new();
        for job in jobs {
            let pos = Pos::at(base).plus_dim(&job.offset);
            let arg = plan::sink_value(segment, job.inst);
            let value = self.eval.value(arg, self.eval.shape(arg), Some(&pos), 1)?;
            match open.get(&job.inst) {
                Some(acc) => {
                    // Lanes count from the start of what is reduced: the row, or the group.
                    let lane = self.eval.lane(&pos)?;
                    let within = self.eval.code.b.build_int_sub(lane, span.start, "")?;
                    self.eval.accumulate_one(acc, within, value)?;
                }
                None if plan::is_sink(segment, job.inst) => pending.push((job.inst, value, pos)),
                None => self.eval.store_kept(arg, value, &pos, None)?,
            }
        }
        self.stores(pending)?;
        self.eval.memo.leave(mark);
        Ok(())
    }

    fn stores(&mut self, pending: Vec<(usize, crate::backend::llvm::Value<'c>, Pos<'c>)>) -> Built<()> {
        let segment = self.eval.segment;
        for (at, value, pos) in pending {
            let inst = &segment.insts[at];
            self.eval.store(inst, value, Some(&pos)).map_err(|e| e.at(segment, inst))?;
        }
        Ok(())
    }

    /// Whether the part of a chunk that exists can be computed with a mask: all that touches memory is contiguous.
    fn masks(&self, jobs: &[Job]) -> bool {
        let (eval, segment) = (&*self.eval, self.eval.segment);
        self.masked
            && jobs.iter().all(|job| {
                let contiguous = match &segment.insts[job.inst].op {
                    InstOp::Store { param, index, .. } => {
                        consecutive(index) == 1 && eval.kernel.param(*param).dtype.bits() >= 8
                    }
                    _ => true,
                };
                contiguous && self.are_contiguous(plan::roots(segment, job.inst))
            })
    }

    /// Whether all lanes that values are made of are loaded one after the other.
    fn are_contiguous(&self, roots: &[Val]) -> bool {
        let mut seen = HashSet::new();
        let mut open = roots.to_vec();
        while let Some(v) = open.pop() {
            let kept = self.eval.slots.get(&v).is_some_and(|slot| slot.filled);
            if kept || !matches!(self.eval.shape(v), Shape::Row(_)) || !seen.insert(v) {
                continue;
            }
            let (_, inst) = self.eval.definition(v);
            let contiguous = match &inst.op {
                InstOp::Load { param, index, .. } => {
                    let bits = self.eval.kernel.param(*param).dtype.bits();
                    !index.mentions(LANE) || (consecutive(index) == 1 && bits >= 8)
                }
                InstOp::Slice { step, .. } => *step == 1,
                InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_) | InstOp::Broadcast(_) | InstOp::Iota(_) => {
                    true
                }
                _ => false,
            };
            if !contiguous {
                return false;
            }
            open.extend(&inst.args);
        }
        true
    }

    /// Loops over the groups of a row.
    pub fn grouped(&mut self, grouped: &Grouped) -> Built<()> {
        let Grouped { lanes, size, .. } = grouped;
        let (code, open) = (self.eval.code, self.open);
        let row_reduces: Vec<&Accumulators<'c>> =
            grouped.jobs.iter().flat_map(|(_, _, jobs)| jobs).filter_map(|j| open.get(&j.inst)).collect();
        row_reduces.iter().try_for_each(|acc| self.eval.spill(acc))?;
        let memory = self.group_memory(grouped)?;
        let count = self.eval.dim(&lanes.ceil_div(size))?;
        let l = code.begin_loop(code.i64(0), count, 1)?;
        let mark = self.eval.memo.enter();
        let (from, to) = self.eval.group_bounds(lanes, size, l.i)?;
        self.group_slots(&memory, l.i, from)?;
        let group = InGroup { lanes: lanes.clone(), size: size.clone(), index: l.i, rate: 1, span: 1 };
        self.reductions(grouped, &group, (from, to))?;
        self.eval.group = Some(group.clone());
        for &at in &grouped.elements {
            let inst = &self.eval.segment.insts[at];
            let pos = Pos::at(l.i);
            let value = self.eval.value(inst.args[0], self.eval.shape(inst.args[0]), Some(&pos), 1)?;
            match inst.results.first() {
                Some(&row) => self.eval.store_kept(row, value, &pos, None)?,
                None => self.stores(vec![(at, value, pos)])?,
            }
        }
        self.eval.group = None;
        self.group_jobs(grouped, &group, (from, to))?;
        self.eval.memo.leave(mark);
        code.end_loop(l)?;
        row_reduces.iter().try_for_each(|acc| self.eval.reload(acc))?;
        for (_, v) in &grouped.kept {
            self.eval.slots.remove(v);
        }
        fill(&mut self.eval.slots, self.eval.segment, grouped.sinks().into_iter());
        Ok(())
    }

    fn exact(grouped: &Grouped) -> Option<i64> {
        grouped.lanes.exact_div(&grouped.size).and_then(|_| grouped.size.as_const())
    }

    /// The reductions of one group, a loop for each list of them.
    fn reductions(
        &mut self,
        grouped: &Grouped,
        group: &InGroup<IntValue<'c>>,
        (start, end): (IntValue<'c>, IntValue<'c>),
    ) -> Built<()> {
        let multiple = multiple(&grouped.size, 1);
        for (at, reduces) in grouped.reduces.iter().enumerate() {
            let span = Span { start, end, length: Self::exact(grouped), lanes: None, multiple };
            let kept = grouped.kept.iter().filter(|(loop_, _)| *loop_ == at).map(|(_, v)| self.eval.definition(*v).0);
            let kept: Vec<usize> = kept.collect();
            self.group_reduces(reduces, &kept, &span, group)?;
            fill(&mut self.eval.slots, self.eval.segment, kept.into_iter());
        }
        Ok(())
    }

    /// The sinks over the lanes of one group.
    fn group_jobs(
        &mut self,
        grouped: &Grouped,
        group: &InGroup<IntValue<'c>>,
        (from, to): (IntValue<'c>, IntValue<'c>),
    ) -> Built<()> {
        let (code, open) = (self.eval.code, self.open);
        for (rate, vector, jobs) in &grouped.jobs {
            let by = code.i64(*rate);
            let start = crate::backend::llvm::index::floor_div(code, from, by)?;
            let end = crate::backend::llvm::index::floor_div(code, to, by)?;
            let multiple = multiple(&grouped.size, *rate);
            let length = Self::exact(grouped).map(|g| g / rate);
            let span = Span { start, end, length, lanes: None, multiple };
            let group = InGroup { rate: *rate, ..group.clone() };
            if jobs.iter().any(|j| open.contains_key(&j.inst)) {
                // Reductions over the whole row, whose accumulators stay in memory between groups.
                let outer = (self.eval.pass.take(), self.eval.group.take());
                let l = code.begin_loop(span.start, span.end, 1)?;
                let whole = Span { start: code.i64(0), ..span };
                self.one(jobs, l.i, &whole, open, Some(&group))?;
                code.end_loop(l)?;
                (self.eval.pass, self.eval.group) = outer;
            } else {
                self.span(&span, *vector, jobs, open, Some(&group))?;
            }
        }
        Ok(())
    }

    /// Memory for what is kept of one group.
    fn group_memory(&mut self, grouped: &Grouped) -> Built<Vec<(Val, IntValue<'c>)>> {
        let size = grouped.size.as_const().unwrap_or(0);
        let memory = |v: Val| Ok((v, self.eval.lanes_memory(self.eval.dtype(v), size)?));
        grouped.kept.iter().map(|(_, v)| *v).map(memory).collect()
    }

    /// Places the memory so that lanes count from the start of the row.
    fn group_slots(&mut self, memory: &[(Val, IntValue<'c>)], index: IntValue<'c>, from: IntValue<'c>) -> Built<()> {
        for &(v, start) in memory {
            let distance = self.eval.scaled(from, i64::from(self.eval.dtype(v).bits() / 8))?;
            let address = self.eval.code.b.build_int_sub(start, distance, "")?;
            self.eval.slots.insert(v, Slot { address, group: Some(index), filled: false });
        }
        Ok(())
    }

    /// Reductions over one group, in one loop over its lanes that stores what is kept.
    fn group_reduces(
        &mut self,
        reduces: &[usize],
        kept: &[usize],
        span: &Span<IntValue<'c>>,
        group: &InGroup<IntValue<'c>>,
    ) -> Built<()> {
        let segment = self.eval.segment;
        let mut open = Open::new();
        let mut vector = true;
        for &at in reduces {
            let facts = Walk::of(segment, &self.eval.found, at, None, &Vectors);
            let own = Dim::constant(0);
            let same = |u: &GroupUse| (&u.lanes, &u.size, u.scale, &u.offset) == (&group.lanes, &group.size, 1, &own);
            vector &= facts.vector && facts.cuts.is_empty() && facts.groups.iter().all(same);
            open.insert(at, self.eval.accumulators(at)?);
        }
        let jobs: Vec<Job> = reduces.iter().chain(kept).map(|&inst| Job { inst, offset: Dim::constant(0) }).collect();
        self.span(span, vector, &jobs, &open, Some(group))?;
        for (at, accumulators) in &open {
            let result = self.eval.finish(accumulators)?;
            self.eval.memo.remember(Key::At(segment.insts[*at].results[0], Pos::at(group.index), 1), result);
        }
        Ok(())
    }
}
