//! Functions: the loops over rows, inner rows, groups and lanes around pull evaluation.
//!
//! The function is `extern "C" fn(buffers: *const *mut u8, dims: *const i64, row_begin: i64, row_end: i64)`.

use std::collections::BTreeMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Signature, UserFuncName, Value};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use fusewright_graph::Dim;

use super::code::Code;
use super::eval::{Eval, Key, Pass as Running};
use super::forms::Vectors;
use super::half;
use super::index::Pos;
use super::lookup::Lookup;
use super::memory::{Lanes, Width};
use super::prefetch;
use super::reduce::Accumulators;
use super::stages;
use crate::backend::host::abreast;
use crate::backend::host::keep::{Reach, SHORT};
use crate::backend::host::place::{InGroup, Slot, Span, fill, fill_behind, multiple};
use crate::backend::host::plan::{self, Grouped, Job, Pass, Plan};
use crate::backend::host::rows::{self, Rows};
use crate::backend::host::stash;
use crate::backend::host::walk::{GroupUse, Walk};
use crate::backend::host::{Refused, Taken};
use crate::kernel::{InstOp, Kernel, Level, Segment, Val};

/// Lanes of an unrolled body.
const BODY: i64 = 16;
/// Lanes of a body whose loads of 16 bits ask for memory line by line.
const LINE: i64 = 32;

/// Builds a kernel's function, and lines on what was decided for it.
pub(super) fn function(
    isa: &dyn TargetIsa,
    kernel: &Kernel,
    lookups: &[Lookup],
) -> Result<(Function, Vec<String>), Refused> {
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params = vec![AbiParam::new(I64); 4];
    let mut function = Function::with_name_signature(UserFuncName::user(0, 0), signature);
    let mut context = FunctionBuilderContext::new();
    let code = Code { b: FunctionBuilder::new(&mut function, &mut context), halves: half::exists(isa) };
    let (kernel, rows) =
        &rows::split(kernel, |number| lookups.iter().any(|lookup| lookup.segment == number), &Vectors::default());
    let Some(first) = kernel.segments.first() else {
        return Err(Refused { place: "kernel".to_owned(), reason: "it has no segment".to_owned() });
    };
    let mut eval = Eval::new(code, kernel, first);
    eval.prefetches = prefetch::exists(isa);
    let decisions = build(&mut eval, kernel, rows, lookups)?;
    let chunked = std::mem::take(&mut eval.chunked);
    eval.code.b.finalize(isa.frontend_config());
    stages::split(&mut function, &chunked);
    Ok((function, decisions))
}

fn build<'k>(
    eval: &mut Eval<'k, '_>,
    kernel: &'k Kernel,
    rows_of: &[Rows],
    lookups: &'k [Lookup],
) -> Taken<Vec<String>> {
    let mut decisions = Vec::new();
    let entry = eval.code.b.create_block();
    eval.code.b.append_block_params_for_function_params(entry);
    eval.code.b.switch_to_block(entry);
    eval.code.b.seal_block(entry);
    let args = eval.code.b.block_params(entry).to_vec();
    let tables = tables(eval, kernel, lookups, [args[0], args[2]])?;
    let (rows, done) = (eval.code.b.create_block(), eval.code.b.create_block());
    let any = eval.code.icmp(IntCC::SignedLessThan, args[2], args[3]);
    eval.code.b.ins().brif(any, rows, &[], done, &[]);
    eval.code.b.seal_block(rows);
    eval.code.b.switch_to_block(rows);
    for i in 0..kernel.params.len() {
        let buffer = eval.code.load(I64, args[0], i as i32 * 8);
        eval.buffers.push(buffer);
    }
    for (i, dim) in kernel.dims.iter().enumerate() {
        let value = eval.code.load(I64, args[1], i as i32 * 8);
        eval.dims.insert(dim.name.clone(), value);
    }
    for (number, segment) in kernel.segments.iter().enumerate() {
        let of_segment = lookups.iter().zip(&tables).filter(|(lookup, _)| lookup.segment == number);
        eval.tables = of_segment.map(|(lookup, table)| (lookup.value, (lookup, *table))).collect();
        decisions.extend(eval.tables.keys().map(|v| format!("segment `{}`: {v:?} is looked up", segment.name)));
        let looked_up = eval.tables.iter().map(|(v, (lookup, _))| (*v, lookup.argument)).collect();
        let plans = plan::plans(kernel, segment, &Vectors { looked_up })?;
        let (mut begin, mut end) = (args[2], args[3]);
        let mut step = 1;
        match &rows_of[number] {
            Rows::All => {}
            Rows::Before(first) => {
                let first = eval.dim(first)?;
                end = eval.code.b.ins().smin(end, first);
            }
            Rows::From(first) => {
                let first = eval.dim(first)?;
                begin = eval.code.b.ins().smax(begin, first);
            }
            Rows::Blocks => step = abreast::ROWS,
            Rows::BehindBlocks => begin = blocks_end(&mut eval.code, begin, end),
        }
        if let Some(short) = &plans.short {
            let short_end = short.lengths.iter().try_fold(end, |end, length| {
                let length = eval.dim(length)?;
                let is_short = eval.code.icmp_const(IntCC::SignedLessThanOrEqual, length, SHORT);
                Ok(eval.code.b.ins().select(is_short, end, begin))
            })?;
            run_rows(eval, segment, short, ([begin, short_end], step), &mut decisions)?;
            begin = short_end;
        }
        run_rows(eval, segment, &plans.any, ([begin, end], step), &mut decisions)?;
    }
    eval.code.b.ins().jump(done, &[]);
    eval.code.b.seal_block(done);
    eval.code.b.switch_to_block(done);
    eval.code.b.ins().return_(&[]);
    Ok(decisions)
}

/// The row behind the last block of rows.
fn blocks_end(code: &mut Code<'_>, begin: Value, end: Value) -> Value {
    let count = code.b.ins().isub(end, begin);
    let whole = code.b.ins().band_imm_s(count, -abreast::ROWS);
    code.b.ins().iadd(begin, whole)
}

/// The addresses of tables, which a call for rows from before the first on fills.
fn tables<'k>(
    eval: &mut Eval<'k, '_>,
    kernel: &'k Kernel,
    lookups: &[Lookup],
    [buffers, begin]: [Value; 2],
) -> Taken<Vec<Value>> {
    if lookups.is_empty() {
        return Ok(Vec::new());
    }
    let behind = kernel.params.len()..kernel.params.len() + lookups.len();
    let tables: Vec<Value> = behind.map(|i| eval.code.load(I64, buffers, i as i32 * 8)).collect();
    let (filling, others) = (eval.code.b.create_block(), eval.code.b.create_block());
    let unfilled = eval.code.icmp_const(IntCC::SignedLessThan, begin, 0);
    eval.code.b.ins().brif(unfilled, filling, &[], others, &[]);
    eval.code.b.seal_block(filling);
    eval.code.b.seal_block(others);
    eval.code.b.switch_to_block(filling);
    for (lookup, table) in lookups.iter().zip(&tables) {
        eval.fill_table(lookup, &kernel.segments[lookup.segment], *table)?;
    }
    eval.code.b.ins().return_(&[]);
    eval.code.b.switch_to_block(others);
    Ok(tables)
}

/// The rows of a segment by one of its plans.
fn run_rows<'k>(
    eval: &mut Eval<'k, '_>,
    segment: &'k Segment,
    plan: &Plan,
    ([begin, end], step): ([Value; 2], i64),
    decisions: &mut Vec<String>,
) -> Taken<()> {
    decisions.extend(plan.kept.iter().map(|kept| kept.describe(segment)));
    decisions.extend(plan.ahead.iter().map(|ahead| ahead.describe(segment)));
    let mark = eval.memo.enter();
    eval.enter_segment(segment, &plan.found);
    RowLoop { eval, plan, step }.run(begin, end)?;
    eval.memo.leave(mark);
    Ok(())
}

/// The loop over rows, `step` at once, by a plan.
pub(super) struct RowLoop<'e, 'k, 'f> {
    pub(super) eval: &'e mut Eval<'k, 'f>,
    plan: &'e Plan,
    step: i64,
}

pub(super) type Open = BTreeMap<usize, Accumulators>;

impl RowLoop<'_, '_, '_> {
    fn run(&mut self, begin: Value, end: Value) -> Taken<()> {
        let segment = self.eval.segment;
        self.hoist(Level::Kernel)?;
        self.row_slots();
        let inner = self.eval.dim(&segment.inner)?;
        // Without inner rows nothing is read: what they would read may not exist.
        let end = match segment.inner.as_const() {
            Some(1..) => end,
            _ => {
                let any = self.eval.code.icmp_const(IntCC::SignedGreaterThan, inner, 0);
                self.eval.code.b.ins().select(any, end, begin)
            }
        };
        let rows = self.eval.code.begin_loop(begin, end, self.step);
        let row = self.eval.memo.enter();
        self.eval.row = Some(rows.i);
        self.hoist(Level::Outer)?;
        self.phases(&self.plan.outer)?;
        for &v in &self.plan.reduced {
            self.eval.scalar(v)?;
        }
        let phases = &self.plan.phases;
        match &self.plan.ahead {
            Some(ahead) => {
                let (first, rest) = phases.split_at(ahead.phases);
                self.inner_rows(inner, |rows, at| {
                    rows.phases(first)?;
                    rows.carry(&ahead.carried, at)
                })?;
                self.inner_rows(inner, |rows, at| {
                    rows.take(&ahead.carried, at)?;
                    rows.phases(rest)?;
                    rows.scalar_stores()
                })?;
            }
            None => self.inner_rows(inner, |rows, _| {
                rows.phases(phases)?;
                rows.scalar_stores()
            })?,
        }
        self.eval.memo.leave(row);
        self.eval.row = None;
        self.eval.code.end_loop(rows);
        Ok(())
    }

    /// Runs `each` for every inner row, given its number.
    fn inner_rows(&mut self, count: Value, each: impl FnOnce(&mut Self, Value) -> Taken<()>) -> Taken<()> {
        let zero = self.eval.code.i64(0);
        let single = self.eval.segment.inner.as_const() == Some(1);
        let heads = (!single).then(|| self.eval.code.begin_loop(zero, count, 1));
        let at = heads.as_ref().map_or(zero, |l| l.i);
        self.eval.inner = Some(at);
        let mark = self.eval.memo.enter();
        each(self, at)?;
        self.eval.memo.leave(mark);
        if let Some(l) = heads {
            self.eval.code.end_loop(l);
        }
        self.eval.inner = None;
        Ok(())
    }

    /// Stores scalars of an inner row for a later loop over inner rows.
    fn carry(&mut self, scalars: &[Val], inner: Value) -> Taken<()> {
        for &v in scalars {
            let value = Lanes::one(self.eval.scalar(v)?);
            self.eval.store_kept(v, value, &Pos::at(inner), Width::One)?;
        }
        Ok(())
    }

    /// Takes scalars that an earlier loop over inner rows stored.
    fn take(&mut self, scalars: &[Val], inner: Value) -> Taken<()> {
        for &v in scalars {
            let value = self.eval.load_carried(v, &Pos::at(inner))?;
            self.eval.remember(Key::Scalar(v), value);
        }
        Ok(())
    }

    /// Computes scalars that change no more often than `level` and depend on no reduction.
    fn hoist(&mut self, level: Level) -> Taken<()> {
        let segment = self.eval.segment;
        let levels = segment.levels();
        for &v in &self.plan.early {
            let literal = matches!(self.eval.definition(v).1.op, InstOp::Literal(_));
            if levels[v.0 as usize] <= level && !literal {
                self.eval.scalar(v)?;
            }
        }
        Ok(())
    }

    /// Memory for what is kept of a row.
    fn row_slots(&mut self) {
        self.eval.slots.clear();
        let segment = self.eval.segment;
        let stashed: Vec<(usize, Val)> = self.eval.found.rows(segment).collect();
        for (at, row) in stashed {
            let address = self.eval.code.stack(stash::bytes(segment, at, self.plan.short).unwrap_or(0) as u32);
            self.eval.slots.insert(row, Slot { address, group: None, filled: false });
        }
        for kept in self.plan.kept.iter().filter(|kept| kept.reach != Reach::Group) {
            let address = self.eval.code.stack(kept.bytes as u32);
            self.eval.slots.insert(kept.value, Slot { address, group: None, filled: false });
        }
        if let Some(ahead) = &self.plan.ahead {
            for &v in &ahead.carried {
                let bytes = ahead.rows * i64::from(segment.ty(v).dtype.bits() / 8);
                let address = self.eval.code.stack(bytes as u32);
                self.eval.slots.insert(v, Slot { address, group: None, filled: false });
            }
        }
    }

    fn phases(&mut self, phases: &[Vec<Pass>]) -> Taken<()> {
        for phase in phases {
            let mut open = Open::new();
            for at in phase.iter().flat_map(Pass::sinks) {
                self.eval.prepare(plan::roots(self.eval.segment, at))?;
                if let InstOp::Store { param, index, .. } = &self.eval.segment.insts[at].op {
                    self.eval.prepare_load(*param, index, None)?;
                } else if matches!(self.eval.segment.insts[at].op, InstOp::Reduce { .. }) && !open.contains_key(&at) {
                    let accumulators = self.eval.accumulators(at)?;
                    open.insert(at, accumulators);
                }
            }
            for (nth, pass) in phase.iter().enumerate() {
                match pass {
                    Pass::Flat { lanes, vector, jobs } => {
                        self.flat(lanes, *vector, jobs, &open)?;
                        fill_behind(&mut self.eval.slots, self.eval.segment, &phase[nth..]);
                    }
                    Pass::Grouped(grouped) => self.grouped(grouped, &open)?,
                    Pass::Search(at) => self.eval.search(*at)?,
                }
            }
            for (at, accumulators) in &open {
                let result = self.eval.finish(accumulators)?;
                self.eval.remember(Key::Scalar(self.eval.segment.insts[*at].results[0]), result);
            }
        }
        Ok(())
    }

    fn scalar_stores(&mut self) -> Taken<()> {
        for &at in &self.plan.scalar_stores {
            let arg = self.eval.segment.insts[at].args[0];
            let value = self.eval.scalar(arg)?;
            self.eval.store(at, Lanes::one(value), None, Width::One)?;
        }
        Ok(())
    }

    /// A loop over all lanes of a row or of a piece.
    fn flat(&mut self, lanes: &Dim, vector: bool, jobs: &[Job], open: &Open) -> Taken<()> {
        let (start, end) = (self.eval.code.i64(0), self.eval.dim(lanes)?);
        let span = Span { start, end, length: lanes.as_const(), lanes: Some(lanes.clone()), multiple: 8 };
        self.span(&span, vector, jobs, open, None)
    }

    /// Runs sinks over a span of lanes: chunks, then what is left lane by lane.
    fn span(
        &mut self,
        span: &Span<Value>,
        vector: bool,
        jobs: &[Job],
        open: &Open,
        group: Option<&InGroup<Value>>,
    ) -> Taken<()> {
        let reduces = jobs.iter().any(|j| open.contains_key(&j.inst));
        let body = match span.length {
            _ if !vector => 0,
            Some(n) if n < 8 || (n < BODY && reduces) => 0,
            Some(n) if n % BODY != 0 && n % 8 == 0 && !reduces => 8,
            // One line of memory is asked for in a pass.
            Some(n) if !reduces && n % LINE == 0 && self.eval.asks_for_short_runs(span.lanes.as_ref()) => LINE,
            _ => BODY,
        };
        let outer = (self.eval.pass.take(), self.eval.group.take());
        let mut next = span.start;
        if body > 0 {
            self.eval.loads_its_stores = false;
            let l = self.eval.code.begin_loop(span.start, span.end, body);
            let mark = self.eval.memo.enter();
            self.eval.group = group.map(|g| InGroup { span: body, ..g.clone() });
            for shift in (0..body).step_by(8) {
                self.eval.pass = Some(Running { base: l.i, lanes: span.lanes.clone(), shift, multiple: span.multiple });
                self.chunk(jobs, l.i, span.start, shift, Width::Eight, open)?;
            }
            self.eval.memo.leave(mark);
            // The only pass of a loop has no other one to run beside.
            if !self.eval.loads_its_stores && span.length != Some(body) {
                self.eval.chunked.push(l.head);
            }
            next = self.eval.code.end_loop(l);
        }
        let mut left = span.length.map(|n| if body == 0 { n } else { n % body });
        let uneven = vector && group.is_none() && span.length.is_none_or(|n| n > 8 && n % 8 != 0);
        let again = uneven && self.may_run_again(jobs);
        if again && !reduces && left.is_none_or(|left| left > 8) {
            next = self.up_to_the_last(span, jobs, next, open)?;
            left = left.map(|_| 0);
        }
        if let Some(many @ 8..) = left.filter(|_| vector) {
            // They start with the first accumulator, as those of a body do.
            let mark = self.eval.memo.enter();
            self.eval.group = group.map(|g| InGroup { span: 8, ..g.clone() });
            self.eval.pass = Some(Running { base: next, lanes: span.lanes.clone(), shift: 0, multiple: span.multiple });
            self.chunk(jobs, next, span.start, 0, Width::Eight, open)?;
            self.eval.memo.leave(mark);
            next = self.eval.code.add(next, 8);
            left = Some(many - 8);
        }
        if let Some((lanes @ 1..8, length)) = left.zip(span.length).filter(|_| again) {
            self.last_chunk(span, jobs, (lanes, length), open)?;
            left = Some(0);
        }
        if left != Some(0) {
            jobs.iter().filter_map(|j| open.get(&j.inst)).for_each(|acc| self.eval.spill(acc));
            if again && reduces {
                next = self.up_to_the_last(span, jobs, next, open)?;
            }
            let l = self.eval.code.begin_loop(next, span.end, 1);
            let mark = self.eval.memo.enter();
            self.eval.group = group.map(|g| InGroup { span: 1, ..g.clone() });
            self.eval.pass = Some(Running { base: l.i, lanes: span.lanes.clone(), shift: 0, multiple: 1 });
            self.chunk(jobs, l.i, span.start, 0, Width::One, open)?;
            self.eval.memo.leave(mark);
            self.eval.code.end_loop(l);
            jobs.iter().filter_map(|j| open.get(&j.inst)).for_each(|acc| self.eval.reload(acc));
        }
        (self.eval.pass, self.eval.group) = outer;
        Ok(())
    }

    /// One chunk of every sink: all loads come before all stores.
    fn chunk(&mut self, jobs: &[Job], base: Value, start: Value, shift: i64, width: Width, open: &Open) -> Taken<()> {
        self.chunk_of(jobs, base, (shift, width), open, &mut |eval, acc, value, pos| {
            if width != Width::One {
                return eval.accumulate(acc, shift / 8, value);
            }
            // Lanes count from the start of what is reduced: the row, or the group.
            let lane = eval.lane(pos)?;
            let within = eval.code.b.ins().isub(lane, start);
            eval.accumulate_one(acc, within, value.first)
        })
    }

    /// As [`Self::chunk`], but reductions get what they take by `reduce`.
    pub(super) fn chunk_of(
        &mut self,
        jobs: &[Job],
        base: Value,
        (shift, width): (i64, Width),
        open: &Open,
        reduce: &mut dyn FnMut(&mut Eval<'_, '_>, &Accumulators, Lanes, &Pos) -> Taken<()>,
    ) -> Taken<()> {
        let segment = self.eval.segment;
        let mut pending = Vec::new();
        for job in jobs {
            let pos = Pos::at(base).plus_dim(&job.offset).plus(shift);
            let arg = plan::sink_value(segment, job.inst);
            let value = self.eval.value(arg, &segment.ty(arg).shape, Some(&pos), width)?;
            match open.get(&job.inst) {
                Some(acc) => reduce(self.eval, acc, value, &pos)?,
                None if plan::is_sink(segment, job.inst) => pending.push((job.inst, value, pos)),
                None => self.eval.store_kept(arg, value, &pos, width)?,
            }
        }
        for (at, value, pos) in pending {
            self.eval.store(at, value, Some(&pos), width)?;
        }
        Ok(())
    }

    fn grouped(&mut self, grouped: &Grouped, open: &Open) -> Taken<()> {
        let Grouped { lanes, size, .. } = grouped;
        let row_reduces: Vec<&Accumulators> =
            grouped.jobs.iter().flat_map(|(_, _, jobs)| jobs).filter_map(|j| open.get(&j.inst)).collect();
        row_reduces.iter().for_each(|acc| self.eval.spill(acc));
        let memory = self.group_memory(grouped);
        let (zero, count) = (self.eval.code.i64(0), self.eval.dim(&lanes.ceil_div(size))?);
        let l = self.eval.code.begin_loop(zero, count, 1);
        let mark = self.eval.memo.enter();
        let (from, to) = self.eval.group_bounds(lanes, size, l.i)?;
        self.group_slots(&memory, l.i, from);
        let exact = lanes.exact_div(size).and_then(|_| size.as_const());
        let group = InGroup { lanes: lanes.clone(), size: size.clone(), index: l.i, rate: 1, span: 1 };
        let whole = multiple(size, 1);
        for (at, reduces) in grouped.reduces.iter().enumerate() {
            let span = Span { start: from, end: to, length: exact, lanes: None, multiple: whole };
            let kept = grouped.kept.iter().filter(|(loop_, _)| *loop_ == at).map(|(_, v)| self.eval.definition(*v).0);
            let kept: Vec<usize> = kept.collect();
            self.group_reduces(reduces, &kept, &span, &group)?;
            fill(&mut self.eval.slots, self.eval.segment, kept.into_iter());
        }
        self.eval.group = Some(group.clone());
        for &at in &grouped.elements {
            let arg = self.eval.segment.insts[at].args[0];
            let pos = Pos::at(l.i);
            let value = self.eval.value(arg, &self.eval.segment.ty(arg).shape, Some(&pos), Width::One)?;
            match self.eval.segment.insts[at].results.first() {
                Some(&row) => self.eval.store_kept(row, value, &pos, Width::One)?,
                None => self.eval.store(at, value, Some(&pos), Width::One)?,
            }
        }
        self.eval.group = None;
        for (rate, vector, jobs) in &grouped.jobs {
            let by = self.eval.code.i64(*rate);
            let (start, end) = (self.eval.code.floor_div(from, by), self.eval.code.floor_div(to, by));
            let multiple = multiple(size, *rate);
            let span = Span { start, end, length: exact.map(|g| g / rate), lanes: None, multiple };
            let group = InGroup { rate: *rate, ..group.clone() };
            if jobs.iter().any(|j| open.contains_key(&j.inst)) {
                self.carried(&span, jobs, open, &group)?;
            } else {
                self.span(&span, *vector, jobs, open, Some(&group))?;
            }
        }
        self.eval.memo.leave(mark);
        self.eval.code.end_loop(l);
        row_reduces.iter().for_each(|acc| self.eval.reload(acc));
        for (_, v) in &grouped.kept {
            self.eval.slots.remove(v);
        }
        fill(&mut self.eval.slots, self.eval.segment, grouped.sinks().into_iter());
        Ok(())
    }

    /// Memory for what is kept of one group.
    fn group_memory(&mut self, grouped: &Grouped) -> Vec<(Val, Value)> {
        let size = grouped.size.as_const().unwrap_or(0);
        let memory = |v: Val| {
            let bytes = size * i64::from(self.eval.dtype(v).bits() / 8);
            (v, self.eval.code.stack(bytes as u32))
        };
        grouped.kept.iter().map(|(_, v)| *v).map(memory).collect()
    }

    /// Places the memory so that lanes count from the start of the row.
    fn group_slots(&mut self, memory: &[(Val, Value)], index: Value, from: Value) {
        for &(v, start) in memory {
            let bytes = i64::from(self.eval.dtype(v).bits() / 8);
            let distance = self.eval.scaled(from, bytes);
            let address = self.eval.code.b.ins().isub(start, distance);
            self.eval.slots.insert(v, Slot { address, group: Some(index), filled: false });
        }
    }

    /// Lanes of a group for reductions over the whole row, whose accumulators stay on the stack between groups.
    fn carried(&mut self, span: &Span<Value>, jobs: &[Job], open: &Open, group: &InGroup<Value>) -> Taken<()> {
        let zero = self.eval.code.i64(0);
        let l = self.eval.code.begin_loop(span.start, span.end, 1);
        let mark = self.eval.memo.enter();
        self.eval.group = Some(group.clone());
        self.eval.pass = Some(Running { base: l.i, lanes: None, shift: 0, multiple: 1 });
        self.chunk(jobs, l.i, zero, 0, Width::One, open)?;
        self.eval.memo.leave(mark);
        (self.eval.group, self.eval.pass) = (None, None);
        self.eval.code.end_loop(l);
        Ok(())
    }

    /// Reductions over one group, in one loop over its lanes that stores what is kept.
    fn group_reduces(
        &mut self,
        reduces: &[usize],
        kept: &[usize],
        span: &Span<Value>,
        group: &InGroup<Value>,
    ) -> Taken<()> {
        let segment = self.eval.segment;
        let mut open = Open::new();
        let (mut vector, forms) = (true, Vectors::default());
        for &at in reduces {
            let facts = Walk::of(segment, &self.eval.found, at, None, &forms);
            let own = Dim::constant(0);
            let same = |u: &GroupUse| (&u.lanes, &u.size, u.scale, &u.offset) == (&group.lanes, &group.size, 1, &own);
            vector &= facts.vector && facts.cuts.is_empty() && facts.groups.iter().all(same);
            let accumulators = self.eval.accumulators(at)?;
            open.insert(at, accumulators);
        }
        let jobs: Vec<Job> = reduces.iter().chain(kept).map(|&inst| Job { inst, offset: Dim::constant(0) }).collect();
        self.span(span, vector, &jobs, &open, Some(group))?;
        for (at, accumulators) in &open {
            let result = self.eval.finish(accumulators)?;
            let key = Key::At(segment.insts[*at].results[0], Pos::at(group.index), Width::One);
            self.eval.remember(key, result);
        }
        Ok(())
    }
}
