//! Functions of one element of 16 bits, looked up.
//!
//! A gate such as `silu` of bf16 is a function of 65,536 arguments, which vectors of 128 bits compute in dozens of
//! instructions. A table of all its results takes a load per lane in their place. The code fills its tables itself, by the
//! instructions that a lane would otherwise run, when it is called with rows that begin before the first: a looked-up result
//! is the same bits by construction.

use std::collections::BTreeSet;

use cranelift_codegen::ir::{InstBuilder, Value};
use fusewright_abi::LaunchRule;
use fusewright_graph::DType;

use super::eval::{Eval, Key};
use super::forms::Vectors;
use super::index::Pos;
use super::memory::{Lanes, Width};
use crate::backend::host::cost::Values;
use crate::backend::host::facts::{known_facts, literal_shift};
use crate::backend::host::index::consecutive;
use crate::backend::host::stash::Stored;
use crate::backend::host::{Forms, Taken};
use crate::kernel::{InstOp, Kernel, Segment, Shape, Val};

/// Bytes of an argument.
const ARGUMENT_BYTES: u32 = 2;
/// Bytes of a result: those of a register's lane.
const RESULT_BYTES: i64 = 4;
/// Arguments of a function of 16 bits.
const ARGUMENTS: i64 = LaunchRule::TABLE_BYTES as i64 / RESULT_BYTES;
/// Least instructions per four lanes that a table is worth: loading four arguments, and four results into the lanes of a
/// vector, takes about twelve, and as many more may miss the nearest cache.
const LEAST_COST: u32 = 24;
/// Least lanes of the rows of a launch that belong to one token. A table is filled once and takes as long as 65,536 lanes
/// computed, which fewer lanes a call would seldom make up for.
const LEAST_LANES: i64 = 512;

/// A value that is looked up by an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Lookup {
    /// Number of its segment.
    pub segment: usize,
    /// The row that is looked up.
    pub value: Val,
    /// The row of arguments, which is loaded, or computed and rounded to 16 bits.
    pub argument: Val,
    /// The rows that the one is computed from, the arguments among them.
    through: Vec<Val>,
}

/// The values of a kernel that are looked up, in the order of their tables.
pub(super) fn lookups(kernel: &Kernel) -> Vec<Lookup> {
    let found = kernel.segments.iter().enumerate().flat_map(|(number, segment)| {
        let definitions = segment.definitions();
        let dear = dear(kernel, segment, &definitions);
        dear.into_iter().map(move |(value, argument)| {
            let through = rows_below(segment, &definitions, value, argument);
            Lookup { segment: number, value, argument, through }
        })
    });
    found.take(LaunchRule::MOST_TABLES as usize).collect()
}

/// The values of a segment, each with its only argument, that cost more to compute than to look up.
fn dear(kernel: &Kernel, segment: &Segment, definitions: &[usize]) -> Vec<(Val, Val)> {
    let arguments = arguments(kernel, segment, definitions);
    let values = Values { segment, definitions };
    // A function of the value has its table in place of it, unless something else needs the value.
    let of = |v: Val| arguments[v.0 as usize];
    let ends: BTreeSet<Val> = segment
        .insts
        .iter()
        .flat_map(|user| {
            let leads_on =
                |value: Val| user.results.iter().any(|v| *v != value && of(*v).is_some() && of(*v) == of(value));
            user.args.iter().copied().filter(move |value| !leads_on(*value))
        })
        .collect();
    let mut dear: Vec<(Val, Val)> = Vec::new();
    for (at, argument) in arguments.iter().enumerate() {
        let (value, Some(argument)) = (Val(at as u32), *argument) else { continue };
        let in_lanes = !matches!(segment.ty(value).dtype, DType::Bool) && segment.ty(value).dtype.bits() <= 32;
        let known = |v: Val| v == argument || dear.iter().any(|(looked_up, _)| *looked_up == v);
        if ends.contains(&value)
            && in_lanes
            && value != argument
            && values.cost(value, LEAST_COST, &known) >= LEAST_COST
        {
            // What loops keep for each other is the narrow form.
            let narrow = Some(values.narrowest(value)).filter(|v| is_half(segment.ty(*v).dtype));
            dear.push((narrow.unwrap_or(value), argument));
        }
    }
    dear
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16)
}

/// The rows that a value is computed from, down to its argument.
fn rows_below(segment: &Segment, definitions: &[usize], value: Val, argument: Val) -> Vec<Val> {
    let mut below = Vec::new();
    let mut open = vec![value];
    while let Some(v) = open.pop() {
        if v == argument {
            continue;
        }
        let args = &segment.insts[definitions[v.0 as usize]].args;
        for &arg in args.iter().filter(|arg| segment.ty(**arg).shape != Shape::Scalar) {
            if !below.contains(&arg) {
                below.push(arg);
                open.push(arg);
            }
        }
    }
    below
}

/// By value: the row of 16-bit elements of which it is a function and of nothing else.
fn arguments(kernel: &Kernel, segment: &Segment, definitions: &[usize]) -> Vec<Option<Val>> {
    let (facts, forms) = (known_facts(segment), Vectors::default());
    let terms = kernel.rows.as_polynomial().unwrap_or_default();
    let per_token = terms.iter().map(|(coefficient, _)| *coefficient).min().unwrap_or(1).max(1);
    let is_literal = |v: Val| matches!(segment.insts[definitions[v.0 as usize]].op, InstOp::Literal(_));
    let mut of: Vec<Option<Val>> = vec![None; segment.types.len()];
    for inst in &segment.insts {
        let &[result] = &inst.results[..] else { continue };
        let Shape::Row(lanes) = &segment.ty(result).shape else { continue };
        let vector = match &inst.op {
            InstOp::Map(_) if literal_shift(segment, inst).is_some() => true,
            InstOp::Map(f) => inst.args.last().is_some_and(|v| forms.map(*f, segment.ty(*v).dtype)),
            InstOp::Cast { to, saturate, .. } => inst
                .args
                .first()
                .is_some_and(|v| forms.cast(segment.ty(*v).dtype, *to, *saturate, &|| facts[v.0 as usize].bounded)),
            InstOp::Bitcast(_) | InstOp::Broadcast(_) => true,
            _ => false,
        };
        let mut rows = inst.args.iter().filter(|v| !is_literal(**v)).map(|v| of[v.0 as usize]);
        let first = rows.next().flatten();
        let is_argument = is_half(segment.ty(result).dtype)
            && (lanes * &segment.inner).as_const().is_some_and(|n| n.saturating_mul(per_token) >= LEAST_LANES);
        of[result.0 as usize] = match first {
            Some(_) if vector && rows.all(|argument| argument == first) => first,
            _ => is_argument.then_some(result),
        };
    }
    of
}

impl<'k> Eval<'k, '_> {
    /// A value at a position, from its table if it has one.
    pub(super) fn look_up(&mut self, v: Val, pos: &Pos, width: Width) -> Taken<Option<Lanes>> {
        let Some(&(lookup, table)) = self.tables.get(&v) else { return Ok(None) };
        // Loops are planned for what they compute from stored rows. Below these may be groups that a chunk crosses.
        let mut below = lookup.through.iter().filter(|below| **below != lookup.argument);
        if below.any(|below| self.found.is_stashed(*below) || self.found.shared.contains_key(below)) {
            return Ok(None);
        }
        let codes = match self.codes_in_memory(lookup, pos, width)? {
            Some(codes) => codes,
            None => {
                let arguments = self.at_position(lookup.argument, pos, width)?;
                let place = self.code.stack(ARGUMENT_BYTES * Width::Eight.lanes() as u32);
                self.code.store_lanes(self.dtype(lookup.argument), arguments, place, 0, width);
                self.loads_its_stores = true;
                (place, 0)
            }
        };
        let dtype = self.dtype(v);
        Ok(Some(self.code.load_by_codes(dtype, table, codes, width)))
    }

    /// Where the arguments of a position lie side by side, if they are loaded. Where the code keeps what the value is computed
    /// from, they may lie there no longer.
    fn codes_in_memory(&mut self, lookup: &Lookup, pos: &Pos, width: Width) -> Taken<Option<(Value, i32)>> {
        let InstOp::Load { param, index, otherwise: None, .. } = &self.definition(lookup.argument).1.op else {
            return Ok(None);
        };
        let kept = lookup.through.iter().any(|v| self.slots.get(v).is_some_and(|slot| slot.filled));
        if kept || consecutive(index) != 1 {
            return Ok(None);
        }
        let address = self.address(*param, index, Some(pos))?;
        if width == Width::Eight {
            self.prefetch_run(self.kernel.param(*param).dtype, &address, index);
        }
        Ok(Some((address.pointer, address.offset)))
    }

    /// Computes all results of a value and writes them to its table.
    pub(super) fn fill_table(&mut self, lookup: &Lookup, segment: &'k Segment, table: Value) -> Taken<()> {
        let outer = self.memo.enter();
        self.enter_segment(segment, &Stored::needed(segment));
        let (zero, all) = (self.code.i64(0), self.code.i64(ARGUMENTS));
        let l = self.code.begin_loop(zero, all, Width::Eight.lanes());
        let pass = self.memo.enter();
        let pos = Pos::at(l.i);
        let dtype = self.dtype(lookup.argument);
        let codes = self.iota(&pos, Width::Eight)?;
        let arguments = self.each(codes, |code, v| Ok(code.seat_code(v, dtype)))?;
        self.remember_lanes(Key::At(lookup.argument, pos.clone(), Width::Eight), arguments);
        let results = self.at_position(lookup.value, &pos, Width::Eight)?;
        let distance = self.scaled(l.i, RESULT_BYTES);
        let place = self.code.b.ins().iadd(table, distance);
        let (low, high) = self.code.join_even_odd(results);
        self.code.store(low, place, 0);
        self.code.store(high, place, 16);
        self.memo.leave(pass);
        self.code.end_loop(l);
        self.memo.leave(outer);
        Ok(())
    }
}
