//! Functions: arguments, segments and the loops over rows around pull evaluation.
//!
//! The function is `extern "C" fn(buffers: *const *mut u8, dims: *const i64, row_begin: i64, row_end: i64)`.

use std::collections::BTreeMap;

use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::values::{BasicValueEnum, IntValue};

use super::address::Pos;
use super::eval::{Eval, Key};
use super::loops::{Loops, Vectors};
use super::machine::Host;
use super::memory::MEMORY;
use super::reduce::Accumulators;
use crate::backend::host::abreast;
use crate::backend::host::keep::{Reach, SHORT};
use crate::backend::host::place::{Slot, fill_behind};
use crate::backend::host::plan::{self, Pass, Plan};
use crate::backend::host::rows::{self, Rows};
use crate::backend::host::stash;
use crate::backend::llvm::code::Code;
use crate::backend::llvm::{BuildError, Built};
use crate::kernel::{InstOp, Kernel, Level, Segment, Val};

/// Row reductions of a phase, by instruction.
pub(super) type Open<'c> = BTreeMap<usize, Accumulators<'c>>;

/// Builds a kernel's function in a module of its own, and lines on what was decided for it.
pub(super) fn module<'c>(ctx: &'c Context, kernel: &Kernel, host: &'c Host) -> Built<(Module<'c>, Vec<String>)> {
    let module = ctx.create_module(&kernel.name);
    module.set_triple(&host.machine.get_triple());
    module.set_data_layout(&host.machine.get_target_data().get_data_layout());
    let (pointer, integer) = (ctx.ptr_type(inkwell::AddressSpace::default()).into(), ctx.i64_type().into());
    let params = [pointer, pointer, integer, integer];
    let function = module.add_function(&kernel.name, ctx.void_type().fn_type(&params, false), None);
    for (key, value) in host.attributes() {
        function.add_attribute(AttributeLoc::Function, ctx.create_string_attribute(key, &value));
    }
    let unwind = inkwell::attributes::Attribute::get_named_enum_kind_id("nounwind");
    function.add_attribute(AttributeLoc::Function, ctx.create_enum_attribute(unwind, 0));
    let code = Code { ctx, module, b: ctx.create_builder(), function, dialect: host };
    let (kernel, rows) = &rows::split(kernel, |_| false, &Vectors);
    let Some(first) = kernel.segments.first() else {
        return Err(BuildError::unsupported("a kernel without segments"));
    };
    let mut eval = Eval::new(&code, kernel, first, host.scales);
    let decisions = body(&mut eval, kernel, rows, host.masks)?;
    drop(eval);
    Ok((code.module, decisions))
}

fn body<'k, 'c>(eval: &mut Eval<'k, '_, 'c>, kernel: &'k Kernel, rows_of: &[Rows], masked: bool) -> Built<Vec<String>> {
    let code = eval.code;
    // Stack memory is made in the first block, whose end is all that is in it until then.
    let entry = code.block();
    code.b.position_at_end(entry);
    let start = code.fall_into_new_block()?;
    code.b.position_at_end(start);
    let argument = |i: u32| -> Built<BasicValueEnum<'c>> {
        code.function.get_nth_param(i).ok_or_else(|| BuildError::Llvm(format!("no parameter {i}")))
    };
    let address = |i: u32| -> Built<IntValue<'c>> {
        Ok(code.b.build_ptr_to_int(argument(i)?.into_pointer_value(), code.ctx.i64_type(), "")?)
    };
    let (begin, end) = (argument(2)?.into_int_value(), argument(3)?.into_int_value());
    let (rows, done) = (code.block(), code.block());
    code.b.build_conditional_branch(code.cmp(IntPredicate::SLT, begin, end)?, rows, done)?;
    code.b.position_at_end(rows);
    let (buffers, dims) = (address(0)?, address(1)?);
    let load = |base: IntValue<'c>, i: usize| -> Built<IntValue<'c>> {
        let at = code.add(base, code.i64(i as i64 * 8))?;
        Ok(code.load(code.ctx.i64_type().into(), at, MEMORY)?.into_int_value())
    };
    for i in 0..kernel.params.len() {
        eval.buffers.push(load(buffers, i)?);
    }
    for (i, dim) in kernel.dims.iter().enumerate() {
        eval.dims.insert(dim.name.clone(), load(dims, i)?);
    }
    for (segment, rows) in kernel.segments.iter().zip(rows_of) {
        let plans = plan::plans(kernel, segment, &Vectors)?;
        let (mut begin, mut end) = (begin, end);
        let mut step = 1;
        match rows {
            Rows::All => {}
            Rows::Before(first) => {
                let first = eval.dim(first)?;
                let less = code.cmp(IntPredicate::SLT, first, end)?;
                end = code.b.build_select(less, first, end, "")?.into_int_value();
            }
            Rows::From(first) => {
                let first = eval.dim(first)?;
                let more = code.cmp(IntPredicate::SGT, first, begin)?;
                begin = code.b.build_select(more, first, begin, "")?.into_int_value();
            }
            Rows::Blocks => step = abreast::ROWS,
            Rows::BehindBlocks => begin = blocks_end(code, begin, end)?,
        }
        if let Some(short) = &plans.short {
            let short_end = short.lengths.iter().try_fold(end, |end, length| -> Built<_> {
                let is_short = code.cmp(IntPredicate::SLE, eval.dim(length)?, code.i64(SHORT))?;
                Ok(code.b.build_select(is_short, end, begin, "")?.into_int_value())
            })?;
            run_rows(eval, segment, short, masked, ([begin, short_end], step))?;
            begin = short_end;
        }
        run_rows(eval, segment, &plans.any, masked, ([begin, end], step))?;
    }
    code.b.build_unconditional_branch(done)?;
    code.b.position_at_end(done);
    code.b.build_return(None)?;
    Ok(std::mem::take(&mut eval.decisions))
}

/// The row behind the last block of rows.
fn blocks_end<'c>(code: &Code<'c>, begin: IntValue<'c>, end: IntValue<'c>) -> Built<IntValue<'c>> {
    let count = code.b.build_int_sub(end, begin, "")?;
    let whole = code.b.build_and(count, code.i64(-abreast::ROWS), "")?;
    code.add(begin, whole)
}

/// The rows of a segment by one of its plans.
fn run_rows<'k, 'c>(
    eval: &mut Eval<'k, '_, 'c>,
    segment: &'k Segment,
    plan: &Plan,
    masked: bool,
    ([begin, end], step): ([IntValue<'c>; 2], i64),
) -> Built<()> {
    eval.decisions.extend(plan.kept.iter().map(|kept| kept.describe(segment)));
    eval.decisions.extend(plan.ahead.iter().map(|ahead| ahead.describe(segment)));
    let mark = eval.memo.enter();
    eval.enter_segment(segment, &plan.found);
    RowLoop { eval, plan, masked, step }.run(begin, end)?;
    eval.memo.leave(mark);
    Ok(())
}

/// The loop over the rows of one segment, `step` at once, by a plan.
struct RowLoop<'r, 'k, 'e, 'c> {
    eval: &'r mut Eval<'k, 'e, 'c>,
    plan: &'r Plan,
    masked: bool,
    step: i64,
}

impl<'k, 'c> RowLoop<'_, 'k, '_, 'c> {
    fn segment(&self) -> &'k Segment {
        self.eval.segment
    }

    fn run(&mut self, begin: IntValue<'c>, end: IntValue<'c>) -> Built<()> {
        let (segment, code) = (self.segment(), self.eval.code);
        self.hoist(Level::Kernel)?;
        self.row_slots()?;
        let inner = self.eval.dim(&segment.inner)?;
        // Without inner rows nothing is read: what they would read may not exist.
        let end = match segment.inner.as_const() {
            Some(1..) => end,
            _ => {
                let any = code.cmp(IntPredicate::SGT, inner, code.i64(0))?;
                code.b.build_select(any, end, begin, "")?.into_int_value()
            }
        };
        let rows = code.begin_loop(begin, end, self.step)?;
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
        code.end_loop(rows)?;
        Ok(())
    }

    /// Runs `each` for every inner row, given its number.
    fn inner_rows(
        &mut self,
        count: IntValue<'c>,
        each: impl FnOnce(&mut Self, IntValue<'c>) -> Built<()>,
    ) -> Built<()> {
        let code = self.eval.code;
        let single = self.segment().inner.as_const() == Some(1);
        let heads = if single { None } else { Some(code.begin_loop(code.i64(0), count, 1)?) };
        let at = heads.as_ref().map_or(code.i64(0), |l| l.i);
        self.eval.inner = Some(at);
        let mark = self.eval.memo.enter();
        each(self, at)?;
        self.eval.memo.leave(mark);
        if let Some(l) = heads {
            code.end_loop(l)?;
        }
        self.eval.inner = None;
        Ok(())
    }

    /// Stores scalars of an inner row for a later loop over inner rows.
    fn carry(&mut self, scalars: &[Val], inner: IntValue<'c>) -> Built<()> {
        for &v in scalars {
            let value = self.eval.scalar(v)?;
            self.eval.store_kept(v, value, &Pos::at(inner), None)?;
        }
        Ok(())
    }

    /// Takes scalars that an earlier loop over inner rows stored.
    fn take(&mut self, scalars: &[Val], inner: IntValue<'c>) -> Built<()> {
        for &v in scalars {
            let address = self.eval.kept_place(v, &Pos::at(inner))?;
            let value = self.eval.load_consecutive(self.eval.dtype(v), address, 1)?;
            self.eval.memo.remember(Key::Scalar(v), value);
        }
        Ok(())
    }

    /// Computes scalars that change no more often than `level` and depend on no reduction.
    fn hoist(&mut self, level: Level) -> Built<()> {
        let levels = self.segment().levels();
        for &v in &self.plan.early {
            if levels[v.0 as usize] <= level {
                self.eval.scalar(v)?;
            }
        }
        Ok(())
    }

    /// Memory for what is kept of a row.
    fn row_slots(&mut self) -> Built<()> {
        self.eval.slots.clear();
        let segment = self.segment();
        let stashed: Vec<(usize, Val)> = self.eval.found.rows(segment).collect();
        for (at, row) in stashed {
            let (dtype, bytes) = (self.eval.dtype(row), stash::bytes(segment, at, self.plan.short).unwrap_or(0));
            let address = self.eval.lanes_memory(dtype, bytes * 8 / i64::from(dtype.bits()))?;
            self.eval.slots.insert(row, Slot { address, group: None, filled: false });
        }
        for kept in self.plan.kept.iter().filter(|kept| kept.reach != Reach::Group) {
            let dtype = self.eval.dtype(kept.value);
            let address = self.eval.lanes_memory(dtype, kept.bytes * 8 / i64::from(dtype.bits()))?;
            self.eval.slots.insert(kept.value, Slot { address, group: None, filled: false });
        }
        if let Some(ahead) = &self.plan.ahead {
            for &v in &ahead.carried {
                let address = self.eval.lanes_memory(self.eval.dtype(v), ahead.rows)?;
                self.eval.slots.insert(v, Slot { address, group: None, filled: false });
            }
        }
        Ok(())
    }

    fn phases(&mut self, phases: &[Vec<Pass>]) -> Built<()> {
        let segment = self.segment();
        for phase in phases {
            let mut open = Open::new();
            for at in phase.iter().flat_map(Pass::sinks) {
                self.eval.prepare(plan::roots(segment, at))?;
                if let InstOp::Store { index, .. } = &segment.insts[at].op {
                    self.eval.prepare_index(index)?;
                } else if matches!(segment.insts[at].op, InstOp::Reduce { .. }) && !open.contains_key(&at) {
                    open.insert(at, self.eval.accumulators(at)?);
                }
            }
            for (nth, pass) in phase.iter().enumerate() {
                match pass {
                    Pass::Flat { lanes, vector, jobs } => {
                        Loops { eval: self.eval, open: &open, masked: self.masked }.flat(lanes, *vector, jobs)?;
                        fill_behind(&mut self.eval.slots, segment, &phase[nth..]);
                    }
                    Pass::Grouped(grouped) => {
                        Loops { eval: self.eval, open: &open, masked: self.masked }.grouped(grouped)?
                    }
                    Pass::Search(at) => self.eval.search(*at)?,
                }
            }
            for (at, accumulators) in &open {
                let result = self.eval.finish(accumulators)?;
                self.eval.memo.remember(Key::Scalar(segment.insts[*at].results[0]), result);
            }
        }
        Ok(())
    }

    fn scalar_stores(&mut self) -> Built<()> {
        let segment = self.segment();
        for &at in &self.plan.scalar_stores {
            let inst = &segment.insts[at];
            let value = self.eval.scalar(inst.args[0])?;
            self.eval.store(inst, value, None).map_err(|e| e.at(segment, inst))?;
        }
        Ok(())
    }
}
