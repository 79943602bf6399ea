//! Loops whose passes compute the first half of the next pass: software pipelines of two stages.
//!
//! A processor looks ahead over one or two hundred instructions. A pass whose instructions wait for each other in one long
//! chain (an exponential, a quotient, a rounding, a code) fills that window with what waits. Where the chain is cut in
//! two, and the first half of a pass is computed beside the second half of the pass before it, both go on at once.

use std::collections::HashSet;

use fusewright_abi::DType;
use fusewright_graph::ScalarFn;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{IntValue, PointerValue};

use super::address::Pos;
use super::eval::{CHUNK, Key, Running};
use super::function::Open;
use super::loops::Loops;
use super::parts::Part;
use crate::backend::host::place::{InGroup, Span};
use crate::backend::host::plan::{self, Job};
use crate::backend::llvm::{Built, Value};
use crate::kernel::{Inst, InstOp, Segment, Shape, Val};

/// From so many cycles on, the chain of a pass is cut.
const LONG: u32 = 36;
/// Values up to that many cycles from memory are computed by both halves.
const SHORT: u32 = 5;
/// Most values that one half hands to the other: registers for them are taken from everything else.
const MOST: usize = 3;
/// What each of them costs, in cycles.
const HANDED: u32 = 4;

/// Lanes of a pass.
#[derive(Clone, Copy)]
pub(super) enum Stride {
    /// A chunk.
    Chunk,
    /// Twice as many, the even and the odd ones apart.
    Pair,
}

impl Stride {
    pub fn lanes(self) -> i64 {
        match self {
            Stride::Chunk => i64::from(CHUNK),
            Stride::Pair => 2 * i64::from(CHUNK),
        }
    }

    pub fn parts(self) -> &'static [Option<Part>] {
        match self {
            Stride::Chunk => &[None],
            Stride::Pair => &[Some(Part::Even), Some(Part::Odd)],
        }
    }
}

/// Where one pass of a loop runs, and what it has from the pass before.
pub(super) struct Iteration<'a, 'c> {
    pub base: IntValue<'c>,
    pub span: &'a Span<IntValue<'c>>,
    pub group: Option<&'a InGroup<IntValue<'c>>>,
    pub ahead: &'a [Ahead<'c>],
}

/// A value that is computed one pass ahead, at the offset of its job.
pub(super) struct Ahead<'c> {
    value: Val,
    job: usize,
    /// Its lanes, part by part.
    parts: Vec<Value<'c>>,
}

impl<'c> Loops<'_, '_, '_, 'c> {
    /// A loop over as many whole passes as fit into a span; gives the first lane not taken.
    pub(super) fn passes(
        &mut self,
        stride: Stride,
        span: &Span<IntValue<'c>>,
        jobs: &[Job],
        open: &Open<'c>,
        group: Option<&InGroup<IntValue<'c>>>,
    ) -> Built<IntValue<'c>> {
        let (code, step) = (self.eval.code, stride.lanes());
        let several = span.length.is_some_and(|n| n >= 2 * step);
        let cut = if several { self.cut(jobs) } else { Vec::new() };
        if cut.is_empty() {
            let l = code.begin_loop(span.start, span.end, step)?;
            self.pass(stride, jobs, open, &Iteration { base: l.i, span, group, ahead: &[] })?;
            return code.end_loop(l);
        }
        let values: Vec<String> = cut.iter().map(|(v, _)| format!("%{}", v.0)).collect();
        let segment = &self.eval.segment.name;
        self.eval.decisions.push(format!("segment `{segment}` computes {} a pass ahead", values.join(", ")));
        let at = |base| Iteration { base, span, group, ahead: &[] };
        let first = self.first_half(stride, &cut, jobs, &at(span.start))?;
        let held: Vec<Vec<PointerValue<'c>>> = first
            .iter()
            .map(|ahead| ahead.parts.iter().map(|part| self.hold(*part)).collect())
            .collect::<Built<_>>()?;
        // The last pass has none behind it.
        let end = code.b.build_int_sub(span.end, code.i64(step), "")?;
        let l = code.begin_loop(span.start, end, step)?;
        let ahead = self.held(&first, &held)?;
        let next = code.add(l.i, code.i64(step))?;
        let later = self.first_half(stride, &cut, jobs, &at(next))?;
        for (ahead, variables) in later.iter().zip(&held) {
            for (part, variable) in ahead.parts.iter().zip(variables) {
                code.b.build_store(*variable, *part)?;
            }
        }
        self.pass(stride, jobs, open, &Iteration { ahead: &ahead, ..at(l.i) })?;
        let last = code.end_loop(l)?;
        let ahead = self.held(&first, &held)?;
        self.pass(stride, jobs, open, &Iteration { ahead: &ahead, ..at(last) })?;
        code.add(last, code.i64(step))
    }

    fn pass(&mut self, stride: Stride, jobs: &[Job], open: &Open<'c>, pass: &Iteration<'_, 'c>) -> Built<()> {
        match stride {
            Stride::Chunk => self.chunk(jobs, None, open, pass),
            Stride::Pair => self.pair(jobs, open, pass),
        }
    }

    /// A variable that holds a value.
    fn hold(&self, value: Value<'c>) -> Built<PointerValue<'c>> {
        let ty: BasicTypeEnum<'c> = value.get_type();
        let variable = self.eval.variable(ty)?;
        self.eval.code.b.build_store(variable, value)?;
        Ok(variable)
    }

    /// What the variables hold.
    fn held(&self, like: &[Ahead<'c>], held: &[Vec<PointerValue<'c>>]) -> Built<Vec<Ahead<'c>>> {
        let load = |(part, variable): (&Value<'c>, &PointerValue<'c>)| {
            Ok(self.eval.code.b.build_load(part.get_type(), *variable, "")?)
        };
        let all = |(ahead, variables): (&Ahead<'c>, &Vec<PointerValue<'c>>)| {
            let parts = ahead.parts.iter().zip(variables).map(load).collect::<Built<_>>()?;
            Ok(Ahead { parts, ..*ahead })
        };
        like.iter().zip(held).map(all).collect()
    }

    /// The values of a cut at a pass.
    fn first_half(
        &mut self,
        stride: Stride,
        cut: &[(Val, usize)],
        jobs: &[Job],
        pass: &Iteration<'_, 'c>,
    ) -> Built<Vec<Ahead<'c>>> {
        let mut found: Vec<Ahead<'c>> =
            cut.iter().map(|&(value, job)| Ahead { value, job, parts: Vec::new() }).collect();
        for part in stride.parts() {
            let mark = self.enter_part(stride, *part, jobs, pass);
            for ahead in &mut found {
                let pos = Pos::at(pass.base).plus_dim(&jobs[ahead.job].offset);
                let value = self.eval.value(ahead.value, self.eval.shape(ahead.value), Some(&pos), CHUNK)?;
                ahead.parts.push(value);
            }
            self.eval.memo.leave(mark);
        }
        Ok(found)
    }

    /// Enters a part of a pass: what it has from the pass before is known. Leave the mark of the memo behind it.
    pub(super) fn enter_part(
        &mut self,
        stride: Stride,
        part: Option<Part>,
        jobs: &[Job],
        pass: &Iteration<'_, 'c>,
    ) -> usize {
        let mark = self.eval.memo.enter();
        let &Iteration { base, span, group, ahead } = pass;
        self.eval.group = group.map(|g| InGroup { span: stride.lanes(), ..g.clone() });
        let (lanes, even) = (span.lanes.clone(), span.even);
        self.eval.pass = Some(Running { base, lanes, shift: 0, even, mask: None, part });
        for ahead in ahead {
            let pos = Pos::at(base).plus_dim(&jobs[ahead.job].offset);
            let lanes = ahead.parts[usize::from(part == Some(Part::Odd))];
            self.eval.memo.remember(Key::At(ahead.value, pos, CHUNK), lanes);
        }
        mark
    }

    /// The values at which the chains of jobs are cut, each with a job that it is of; none if the chains are short, or
    /// no cut leaves few values.
    fn cut(&self, jobs: &[Job]) -> Vec<(Val, usize)> {
        let segment = self.eval.segment;
        let depths = self.depths();
        let chains: Vec<(usize, Vec<Val>)> =
            jobs.iter().enumerate().map(|(i, job)| (i, self.chain(plan::sink_value(segment, job.inst)))).collect();
        let depth = |v: Val| depths[v.0 as usize];
        let Some(longest) = chains.iter().flat_map(|(_, chain)| chain).map(|v| depth(*v)).max() else {
            return Vec::new();
        };
        if longest < LONG {
            return Vec::new();
        }
        let mut levels: Vec<u32> = chains.iter().flat_map(|(_, c)| c).map(|v| depth(*v)).collect();
        levels.sort_unstable();
        levels.dedup();
        let cuts = levels.iter().map(|&level| (self.crossing(jobs, &chains, &depths, level), level));
        let cuts = cuts.filter(|(cut, _)| (1..=MOST).contains(&cut.len()));
        let cost = |(cut, level): &(Vec<(Val, usize)>, u32)| (longest - level).max(*level) + HANDED * cut.len() as u32;
        let best = cuts.min_by_key(cost).filter(|found| 4 * cost(found) <= 3 * longest);
        best.map(|(cut, _)| cut).unwrap_or_default()
    }

    /// The values up to a depth that are operands of deeper ones.
    fn crossing(&self, jobs: &[Job], chains: &[(usize, Vec<Val>)], depths: &[u32], level: u32) -> Vec<(Val, usize)> {
        let depth = |v: Val| depths[v.0 as usize];
        let mut found: Vec<(Val, usize)> = Vec::new();
        for (job, chain) in chains {
            for &deep in chain.iter().filter(|v| depth(**v) > level) {
                let operands = self.eval.definition(deep).1.args.iter().copied();
                let crosses = |v: &Val| (SHORT + 1..=level).contains(&depth(*v));
                for v in operands.filter(crosses) {
                    let same = |&(known, of): &(Val, usize)| known == v && jobs[of].offset == jobs[*job].offset;
                    if !found.iter().any(same) {
                        found.push((v, *job));
                    }
                }
            }
        }
        found
    }

    /// The rows that a value is computed from lane by lane, and itself.
    fn chain(&self, value: Val) -> Vec<Val> {
        let mut seen = HashSet::new();
        let (mut found, mut open) = (Vec::new(), vec![value]);
        while let Some(v) = open.pop() {
            if self.is_computed(v) && seen.insert(v) {
                found.push(v);
                open.extend(&self.eval.definition(v).1.args);
            }
        }
        found
    }

    /// Whether the lanes of a value are computed from the same lanes of its operands.
    fn is_computed(&self, v: Val) -> bool {
        let kept = self.eval.slots.get(&v).is_some_and(|slot| slot.filled);
        let lanewise = |op: &InstOp| matches!(op, InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_));
        matches!(self.eval.shape(v), Shape::Row(_)) && !kept && lanewise(&self.eval.definition(v).1.op)
    }

    /// How many cycles each value comes behind what it is computed from in memory.
    fn depths(&self) -> Vec<u32> {
        let segment = self.eval.segment;
        let mut depths = vec![0; segment.types.len()];
        for inst in &segment.insts {
            let from = inst.args.iter().map(|arg| depths[arg.0 as usize]).max().unwrap_or(0);
            for &v in &inst.results {
                depths[v.0 as usize] = if self.is_computed(v) { from + latency(segment, inst) } else { 0 };
            }
        }
        depths
    }
}

/// About how many cycles lie between the operands of an instruction and its result, on processors of today.
fn latency(segment: &Segment, inst: &Inst) -> u32 {
    let to = inst.results.first().map_or(DType::F32, |v| segment.ty(*v).dtype);
    let from = inst.args.last().map_or(DType::F32, |v| segment.ty(*v).dtype);
    match &inst.op {
        InstOp::Map(ScalarFn::Div | ScalarFn::Sqrt) if from.is_float() => 12,
        InstOp::Map(ScalarFn::Add | ScalarFn::Sub | ScalarFn::Mul | ScalarFn::Fma) if from.is_float() => 4,
        InstOp::Cast { .. } if from == to => 0,
        InstOp::Cast { .. } if from == DType::BF16 && to == DType::F32 => 1,
        InstOp::Cast { .. } if from == DType::F16 && to == DType::F32 => 5,
        InstOp::Cast { .. } if to == DType::BF16 => 4,
        InstOp::Cast { .. } if to.is_float() && to.bits() < 16 => 16,
        InstOp::Cast { .. } => 8,
        InstOp::Bitcast(_) => 0,
        _ => 1,
    }
}
