//! A segment in the forms that the writer takes: each element is loaded once, lanes are cut out of longer loads, clamps
//! that a saturating conversion has anyway are gone, and tests for NaN of what is none are decided.

use fusewright_abi::DType;
use fusewright_graph::{Dim, Literal, Rounding, ScalarFn};

use std::collections::BTreeSet;

use super::runs::repeated;
use crate::kernel::expand::rename_index;
use crate::kernel::parts::{part, parted};
use crate::kernel::simplify::without_unused;
use crate::kernel::{InstError, InstOp, Kernel, LANE, ParamId, Segment, SegmentBuilder, Shape, Val};

pub(super) type Made<T> = Result<T, InstError>;

/// The kernel with all its segments prepared.
pub(super) fn prepare(kernel: &Kernel) -> Made<Kernel> {
    let segments = kernel.segments.iter().map(|s| Rewrite::of(kernel, s)).collect::<Made<Vec<_>>>()?;
    let mut kernel = Kernel { segments, ..kernel.clone() };
    // What is no longer used may have been all that kept another value.
    loop {
        let fewer = without_unused(&kernel);
        if fewer == kernel {
            return Ok(kernel);
        }
        kernel = fewer;
    }
}

/// Rows of consecutive lanes that a segment loads: parameter, first element, lanes.
type Loaded = Vec<(ParamId, Dim, i64)>;

pub(super) struct Rewrite<'k> {
    pub builder: SegmentBuilder<'k>,
    loaded: Loaded,
    /// Rows of every second element.
    paired: Loaded,
    /// Rows of which nothing but parts is needed.
    parted: BTreeSet<Val>,
}

impl<'k> Rewrite<'k> {
    fn of(kernel: &'k Kernel, segment: &Segment) -> Made<Segment> {
        let builder = SegmentBuilder::new(&segment.name, segment.inner.clone(), &kernel.params);
        let mut rewrite = Rewrite { builder, loaded: Vec::new(), paired: Vec::new(), parted: BTreeSet::new() };
        let parted = parted(segment);
        let mut renamed: Vec<Val> = Vec::with_capacity(segment.types.len());
        for inst in &segment.insts {
            if let InstOp::Load { param, index, shape: Shape::Row(lanes), otherwise: None } = &inst.op
                && let (Some(lanes), Some(start)) = (lanes.as_const(), start_of(index))
                && !mentions_values(index)
            {
                rewrite.loaded.push((*param, start, lanes));
            }
            if let InstOp::Load { param, index, shape: Shape::Row(lanes), otherwise: None } = &inst.op
                && let (Some(lanes), Some((slope, start))) = (lanes.as_const(), index.split_linear(LANE))
                && slope == Dim::constant(2)
                && !mentions_values(index)
            {
                rewrite.paired.push((*param, start, lanes));
            }
        }
        for inst in &segment.insts {
            let args: Vec<Val> = inst.args.iter().map(|v| renamed[v.0 as usize]).collect();
            let op = rename_index(&inst.op, &renamed);
            renamed.extend(rewrite.inst(op, &args)?);
            let new = inst.results.iter().filter(|v| parted[v.0 as usize]).map(|v| renamed[v.0 as usize]);
            rewrite.parted.extend(new);
        }
        Ok(rewrite.builder.finish())
    }

    pub fn inst(&mut self, op: InstOp, args: &[Val]) -> Made<Vec<Val>> {
        let one = match (&op, args) {
            (InstOp::Load { param, index, shape: Shape::Row(lanes), otherwise: None }, []) => {
                self.load(*param, index, lanes)?
            }
            (InstOp::Slice { start, len, step: 1 }, &[x]) => {
                part(&mut self.builder, &|v| self.parted.contains(&v), x, [start, len])?
            }
            (&InstOp::Literal(Literal::Float(dtype @ (DType::F16 | DType::BF16), x)), _) => {
                let wide = self.builder.one(InstOp::Literal(Literal::Float(DType::F32, x)), &[])?;
                let narrow = InstOp::Cast { to: dtype, round: Rounding::NearestEven, saturate: false };
                Some(self.builder.one(narrow, &[wide])?)
            }
            (InstOp::Map(ScalarFn::Select), &[condition, a, b]) if self.is_half(a) => {
                match self.decided(ScalarFn::Select, args)? {
                    Some(chosen) => Some(chosen),
                    None => Some(self.select_wide(condition, a, b)?),
                }
            }
            (InstOp::Map(f), _) => self.decided(*f, args)?,
            (InstOp::Broadcast(_), &[x]) => self.spread_wide(op.clone(), x)?,
            (&InstOp::Cast { to, round, saturate }, &[x]) => self.cast(to, round, saturate, x)?,
            _ => None,
        };
        match one {
            Some(value) => Ok(vec![value]),
            None => self.builder.push(op, args),
        }
    }

    /// A broadcast of narrow elements, as words, in which vectors repeat: every value comes back.
    fn spread_wide(&mut self, op: InstOp, x: Val) -> Made<Option<Val>> {
        let dtype = self.builder.ty(x).dtype;
        let saturate = match dtype {
            DType::F16 | DType::BF16 => false,
            DType::I8 | DType::U8 | DType::F8E4M3 | DType::F8E5M2 => true,
            _ => return Ok(None),
        };
        let cast = |to, saturate| InstOp::Cast { to, round: Rounding::NearestEven, saturate };
        let wide = self.inst(cast(DType::F32, false), &[x])?[0];
        let spread = self.inst(op, &[wide])?[0];
        self.inst(cast(dtype, saturate), &[spread]).map(|made| Some(made[0]))
    }

    /// A row that repeats lanes, or that is part of another one.
    fn load(&mut self, param: ParamId, index: &Dim, lanes: &Dim) -> Made<Option<Val>> {
        let Some(n) = lanes.as_const() else { return Ok(None) };
        if let Some((run, start)) = repeated(index, n) {
            let shape = Shape::Row(Dim::constant(run));
            let index = &start + &Dim::symbol(LANE);
            let row = self.inst(InstOp::Load { param, index, shape, otherwise: None }, &[])?[0];
            let rows = vec![row; (n / run) as usize];
            return self.builder.one(InstOp::Cat, &rows).map(Some);
        }
        if let Some((start, at)) = self.pair(param, index, n) {
            let shape = Shape::Row(Dim::constant(2 * n));
            let index = &start + &Dim::symbol(LANE);
            let row = self.builder.one(InstOp::Load { param, index, shape, otherwise: None }, &[])?;
            let part = InstOp::Slice { start: Dim::constant(at), len: lanes.clone(), step: 2 };
            return self.builder.one(part, &[row]).map(Some);
        }
        let Some(start) = start_of(index).filter(|_| !mentions_values(index)) else { return Ok(None) };
        let whole = self.loaded.iter().find_map(|(p, from, count)| {
            let at = (&start - from).as_const().filter(|at| *p == param && *at >= 0 && at + n <= *count)?;
            (*count > n).then(|| (from.clone(), *count, at))
        });
        let Some((from, count, at)) = whole else { return Ok(None) };
        let shape = Shape::Row(Dim::constant(count));
        let index = &from + &Dim::symbol(LANE);
        let row = self.builder.one(InstOp::Load { param, index, shape, otherwise: None }, &[])?;
        let part = InstOp::Slice { start: Dim::constant(at), len: lanes.clone(), step: 1 };
        self.builder.one(part, &[row]).map(Some)
    }

    /// The first element of two rows of which one has the even lanes and the other the odd ones, and which this is.
    fn pair(&self, param: ParamId, index: &Dim, n: i64) -> Option<(Dim, i64)> {
        let (_, start) = index.split_linear(LANE).filter(|(slope, _)| *slope == Dim::constant(2))?;
        let has = |from: &Dim| self.paired.iter().any(|(p, f, count)| *p == param && f == from && *count == n);
        let one = Dim::constant(1);
        if has(&(&start + &one)) {
            return Some((start, 0));
        }
        let before = &start - &one;
        has(&before).then_some((before, 1))
    }

    /// A map whose result is known, or one of its operands.
    fn decided(&mut self, f: ScalarFn, args: &[Val]) -> Made<Option<Val>> {
        match (f, args) {
            (ScalarFn::Ne | ScalarFn::Eq, [a, b]) if a == b && self.is_number(*a) => {
                let truth = Literal::Int(DType::Bool, i64::from(f == ScalarFn::Eq));
                self.builder.one(InstOp::Literal(truth), &[]).map(Some)
            }
            (ScalarFn::Select, [condition, a, b]) => {
                let Some(InstOp::Literal(Literal::Int(_, truth))) = self.op(*condition) else { return Ok(None) };
                let chosen = if *truth != 0 { *a } else { *b };
                let same = self.builder.ty(chosen).shape == self.result_shape(&[*condition, *a, *b]);
                Ok(same.then_some(chosen))
            }
            _ => Ok(None),
        }
    }

    fn result_shape(&self, args: &[Val]) -> Shape {
        let rank = |shape: &Shape| match shape {
            Shape::Scalar => 0,
            Shape::Group { .. } => 1,
            Shape::Row(_) => 2,
        };
        let shapes = args.iter().map(|v| &self.builder.ty(*v).shape);
        shapes.max_by_key(|s| rank(s)).cloned().unwrap_or(Shape::Scalar)
    }

    pub fn op(&self, v: Val) -> Option<&InstOp> {
        self.builder.definition(v).map(|inst| &inst.op)
    }

    pub fn map(&self, v: Val, f: ScalarFn) -> Option<&[Val]> {
        let inst = self.builder.definition(v)?;
        (inst.op == InstOp::Map(f)).then_some(inst.args.as_slice())
    }

    pub fn literal(&self, v: Val) -> Option<f64> {
        match self.op(v)? {
            InstOp::Literal(Literal::Float(_, x)) => Some(*x),
            _ => None,
        }
    }

    /// Whether a float is never NaN.
    fn is_number(&self, v: Val) -> bool {
        if self.literal(v).is_some_and(|x| !x.is_nan()) {
            return true;
        }
        let Some(inst) = self.builder.definition(v) else { return false };
        match (&inst.op, inst.args.as_slice()) {
            (InstOp::Map(ScalarFn::Abs | ScalarFn::Neg | ScalarFn::RoundEven), [x]) => self.is_number(*x),
            (InstOp::Map(ScalarFn::Max | ScalarFn::Min), [a, b]) => self.is_number(*a) && self.is_number(*b),
            (InstOp::Map(ScalarFn::Select), [condition, a, b]) => {
                let tested = self.map(*condition, ScalarFn::Ne).filter(|args| args[0] == args[1]).map(|args| args[0]);
                self.is_number(*a) && tested.map_or_else(|| self.is_number(*b), |x| self.is_number_unless(*b, x))
            }
            (InstOp::Cast { .. }, [x]) => !self.builder.ty(*x).dtype.is_float(),
            _ => false,
        }
    }

    /// Whether a float is a number wherever `x` is one.
    fn is_number_unless(&self, v: Val, x: Val) -> bool {
        let bounded = |f| self.map(v, f).is_some_and(|args| args.iter().all(|a| *a == x || self.is_number(*a)));
        v == x || self.is_number(v) || bounded(ScalarFn::Max) || bounded(ScalarFn::Min)
    }
}

/// The first element of consecutive lanes.
fn start_of(index: &Dim) -> Option<Dim> {
    index.split_linear(LANE).filter(|(slope, _)| *slope == Dim::constant(1)).map(|(_, start)| start)
}

fn mentions_values(index: &Dim) -> bool {
    let mut names = BTreeSet::new();
    index.collect_symbols(&mut names);
    names.iter().any(|name| Val::from_symbol(name).is_some())
}
