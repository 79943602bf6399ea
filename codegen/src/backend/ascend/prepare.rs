//! A segment in the forms that the writer takes: each element is loaded once, lanes are cut out of longer loads, clamps
//! that a saturating conversion has anyway are gone, and tests for NaN of what is none are decided.

use fusewright_abi::DType;
use fusewright_graph::dim::{DimFn, DimFold};
use fusewright_graph::{Dim, Literal, Rounding, ScalarFn};

use std::collections::BTreeSet;
use std::convert::Infallible;

use crate::kernel::expand::rename_index;
use crate::kernel::simplify::without_unused;
use crate::kernel::{Inst, InstError, InstOp, Kernel, LANE, Over, ParamId, ROW, Segment, SegmentBuilder, Shape, Val};

type Made<T> = Result<T, InstError>;

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

struct Rewrite<'k> {
    builder: SegmentBuilder<'k>,
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

    fn inst(&mut self, op: InstOp, args: &[Val]) -> Made<Vec<Val>> {
        let one = match (&op, args) {
            (InstOp::Load { param, index, shape: Shape::Row(lanes), otherwise: None }, []) => {
                self.load(*param, index, lanes)?
            }
            (InstOp::Slice { start, len, step: 1 }, &[x]) => self.part(x, start, len)?,
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
            (&InstOp::Cast { to, round, saturate }, &[x]) => self.cast(to, round, saturate, x)?,
            _ => None,
        };
        match one {
            Some(value) => Ok(vec![value]),
            None => self.builder.push(op, args),
        }
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
        let (slope, start) = index.split_linear(LANE).filter(|(slope, _)| *slope == Dim::constant(2))?;
        let has = |from: &Dim| self.paired.iter().any(|(p, f, count)| *p == param && f == from && *count == n);
        let one = Dim::constant(1);
        let _ = slope;
        if has(&(&start + &one)) {
            return Some((start, 0));
        }
        let before = &start - &one;
        has(&before).then_some((before, 1))
    }

    /// Part of a row that is computed lane by lane, from the parts of what it is computed from.
    fn part(&mut self, x: Val, start: &Dim, len: &Dim) -> Made<Option<Val>> {
        if !self.parted.contains(&x) {
            return Ok(None);
        }
        let Some(inst) = self.builder.definition(x).cloned() else { return Ok(None) };
        match inst.op {
            InstOp::Load { param, index, otherwise: None, .. } => {
                let index = index.substitute(&|name| (name == LANE).then(|| &Dim::symbol(LANE) + start));
                let shape = Shape::Row(len.clone());
                self.builder.one(InstOp::Load { param, index, shape, otherwise: None }, &[]).map(Some)
            }
            op @ (InstOp::Map(_) | InstOp::Cast { .. }) => {
                let mut args = Vec::new();
                for arg in inst.args {
                    args.push(match &self.builder.ty(arg).shape {
                        Shape::Scalar => arg,
                        Shape::Group { .. } => return Ok(None),
                        Shape::Row(_) => match self.part(arg, start, len)? {
                            Some(part) => part,
                            None => {
                                let slice = InstOp::Slice { start: start.clone(), len: len.clone(), step: 1 };
                                self.builder.one(slice, &[arg])?
                            }
                        },
                    });
                }
                self.builder.one(op, &args).map(Some)
            }
            _ => Ok(None),
        }
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

    fn op(&self, v: Val) -> Option<&InstOp> {
        self.builder.definition(v).map(|inst| &inst.op)
    }

    fn map(&self, v: Val, f: ScalarFn) -> Option<&[Val]> {
        let inst = self.builder.definition(v)?;
        (inst.op == InstOp::Map(f)).then_some(inst.args.as_slice())
    }

    fn literal(&self, v: Val) -> Option<f64> {
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

    /// A conversion to integers without the clamp, which saturation is, and without a rounding before it.
    fn cast(&mut self, to: DType, round: Rounding, saturate: bool, x: Val) -> Made<Option<Val>> {
        if let Some(value) = self.wide_literal(x).filter(|_| to == DType::F32) {
            return self.builder.one(InstOp::Literal(Literal::Float(DType::F32, value)), &[]).map(Some);
        }
        if self.builder.ty(x).dtype == DType::I64 {
            return self.clamped_sum(to, x);
        }
        if self.builder.ty(x).dtype != DType::F32 || !matches!(to, DType::I8 | DType::U8 | DType::I32 | DType::I16) {
            return Ok(None);
        }
        let (least, most) = match to {
            DType::I8 => (-128.0, 127.0),
            DType::U8 => (0.0, 255.0),
            DType::I16 => (-32768.0, 32767.0),
            _ => (f64::from(i32::MIN), f64::INFINITY),
        };
        let (above, low) = self.without_bound(x, ScalarFn::Max, least);
        let (inside, high) = self.without_bound(above, ScalarFn::Min, most);
        let (inside, low_below) = if low { (inside, true) } else { self.without_bound(inside, ScalarFn::Max, least) };
        let saturate = saturate || (low_below && high);
        let from = if low_below && high { inside } else { x };
        let (from, round) = match self.map(from, ScalarFn::RoundEven) {
            Some(args) => (args[0], Rounding::NearestEven),
            None => (from, round),
        };
        self.builder.one(InstOp::Cast { to, round, saturate }, &[from]).map(Some)
    }

    /// A sum of two i32 as i64 that is cut to the range of i8: vector units have no i64. The upper halves of the operands
    /// are added with what the lower halves carry, which is cut to what still tells the result apart.
    fn clamped_sum(&mut self, to: DType, x: Val) -> Made<Option<Val>> {
        let int = |v: i64| InstOp::Literal(Literal::Int(DType::I32, v));
        let bound = |rewrite: &Self, v: Val, f: ScalarFn, bound: i64| {
            let args = rewrite.map(v, f)?;
            let is = |v: Val| matches!(rewrite.op(v), Some(InstOp::Literal(Literal::Int(_, b))) if *b == bound);
            if is(args[1]) { Some(args[0]) } else { is(args[0]).then_some(args[1]) }
        };
        let (min, max) = (ScalarFn::Min, ScalarFn::Max);
        let inside = bound(self, x, min, 127).and_then(|v| bound(self, v, max, -128));
        let inside = inside.or_else(|| bound(self, x, max, -128).and_then(|v| bound(self, v, min, 127)));
        let Some(&[a, b]) = inside.and_then(|v| self.map(v, ScalarFn::Add)).filter(|_| to == DType::I8) else {
            return Ok(None);
        };
        let narrow = |v: Val| {
            let inst = self.builder.definition(v).filter(|i| matches!(i.op, InstOp::Cast { .. }))?;
            (self.builder.ty(inst.args[0]).dtype == DType::I32).then(|| inst.args[0])
        };
        let (Some(a), Some(b)) = (narrow(a), narrow(b)) else { return Ok(None) };
        let mut literals = Vec::new();
        for v in [16, 0xffff, 1, -2, 127, -128] {
            literals.push(self.builder.one(int(v), &[])?);
        }
        let &[sixteen, low, one, minus_two, most, least] = &literals[..] else { return Ok(None) };
        let mut map = |f: ScalarFn, x: Val, y: Val| self.builder.one(InstOp::Map(f), &[x, y]);
        let lows = (map(ScalarFn::And, a, low)?, map(ScalarFn::And, b, low)?);
        let lows = map(ScalarFn::Add, lows.0, lows.1)?;
        let highs = (map(ScalarFn::Shr, a, sixteen)?, map(ScalarFn::Shr, b, sixteen)?);
        let highs = map(ScalarFn::Add, highs.0, highs.1)?;
        let carry = map(ScalarFn::Shr, lows, sixteen)?;
        let highs = map(ScalarFn::Add, highs, carry)?;
        let highs = map(min, highs, one)?;
        let highs = map(max, highs, minus_two)?;
        let highs = map(ScalarFn::Shl, highs, sixteen)?;
        let lows = map(ScalarFn::And, lows, low)?;
        let sum = map(ScalarFn::Add, highs, lows)?;
        let sum = map(max, sum, least)?;
        let sum = map(min, sum, most)?;
        self.builder.one(InstOp::Cast { to, round: Rounding::NearestEven, saturate: true }, &[sum]).map(Some)
    }

    fn is_half(&self, v: Val) -> bool {
        matches!(self.builder.ty(v).dtype, DType::F16 | DType::BF16)
    }

    /// A selection of floats of 16 bits, as the floats of 32 bits that they are: vector units select words.
    fn select_wide(&mut self, condition: Val, a: Val, b: Val) -> Made<Val> {
        let to = self.builder.ty(a).dtype;
        let cast = |to| InstOp::Cast { to, round: Rounding::NearestEven, saturate: false };
        let mut wide = Vec::new();
        for v in [a, b] {
            wide.push(self.inst(cast(DType::F32), &[v])?[0]);
        }
        let chosen = self.builder.one(InstOp::Map(ScalarFn::Select), &[condition, wide[0], wide[1]])?;
        self.builder.one(cast(to), &[chosen])
    }

    /// The f32 constant that a constant of 16 bits is.
    fn wide_literal(&self, v: Val) -> Option<f64> {
        let inst = self.builder.definition(v)?;
        (matches!(inst.op, InstOp::Cast { .. }) && self.is_half(v)).then(|| self.literal(inst.args[0])).flatten()
    }

    /// What a bound is on, if `v` is exactly that bound of something.
    fn without_bound(&self, v: Val, f: ScalarFn, bound: f64) -> (Val, bool) {
        let found = self.map(v, f).and_then(|args| {
            let (a, b) = (args[0], args[1]);
            let is_bound = |v: Val| self.literal(v) == Some(bound);
            if is_bound(b) { Some(a) } else { is_bound(a).then_some(b) }
        });
        found.map_or((v, false), |x| (x, true))
    }
}

/// By value: whether it is a row of which nothing but parts is needed.
fn parted(segment: &Segment) -> Vec<bool> {
    let mut parted = vec![false; segment.types.len()];
    for inst in segment.insts.iter().rev() {
        let lanes = matches!(inst.op, InstOp::Load { otherwise: None, .. } | InstOp::Map(_) | InstOp::Cast { .. });
        for &result in &inst.results {
            let mut uses = segment.insts.iter().filter(|user| user.args.contains(&result)).peekable();
            let used = uses.peek().is_some();
            let cut = |user: &Inst| match &user.op {
                InstOp::Slice { step: 1, .. } => true,
                InstOp::Map(_) | InstOp::Cast { .. } => user.results.iter().all(|v| parted[v.0 as usize]),
                _ => false,
            };
            parted[result.0 as usize] =
                lanes && used && matches!(segment.ty(result).shape, Shape::Row(_)) && uses.all(cut);
        }
    }
    parted
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

/// How lanes lie in memory: runs of consecutive elements, `step` apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Runs {
    /// First element.
    pub start: Dim,
    /// Lanes of a run.
    pub run: i64,
    /// Elements from run to run.
    pub step: Dim,
}

/// The runs of `n` lanes at an index.
pub(super) fn runs(index: &Dim, n: i64) -> Option<Runs> {
    let at = |lane: i64| index.substitute(&|name| (name == LANE).then(|| Dim::constant(lane)));
    let start = at(0);
    if n <= 1 {
        return Some(Runs { start, run: n.max(1), step: Dim::constant(n.max(1)) });
    }
    if let Some((slope, start)) = index.split_linear(LANE) {
        let run = if slope == Dim::constant(1) { n } else { 1 };
        return Some(Runs { start, run, step: if run == n { Dim::constant(n) } else { slope } });
    }
    let mut periods = Periods::default();
    match index.fold(&mut periods) {
        Ok(_) if periods.opaque => return None,
        Ok(_) => {}
    }
    let [run] = periods.found.into_iter().collect::<Vec<_>>()[..] else { return None };
    if run <= 0 || n % run != 0 {
        return None;
    }
    let step = if n > run { &at(run) - &start } else { Dim::constant(run) };
    let fits = |block: i64| {
        let first = &start + &(&step * &Dim::constant(block));
        at(block * run) == first && at(block * run + run - 1) == &first + &Dim::constant(run - 1)
    };
    (0..n / run).all(fits).then_some(Runs { start, run, step })
}

/// `(run, start)` of a row of `n` lanes that repeats its first `run`.
fn repeated(index: &Dim, n: i64) -> Option<(i64, Dim)> {
    let found = runs(index, n).filter(|r| r.run < n && r.run > 1 && r.step == Dim::constant(0))?;
    Some((found.run, found.start))
}

/// The divisors by which an index divides lane numbers.
#[derive(Default)]
struct Periods {
    found: BTreeSet<i64>,
    opaque: bool,
}

#[derive(Clone)]
enum Term {
    Lane,
    Number(i64),
    /// Whether the lane number is in it.
    Other(bool),
}

impl Term {
    fn has_lane(&self) -> bool {
        matches!(self, Term::Lane | Term::Other(true))
    }
}

impl DimFold for Periods {
    type Value = Term;
    type Error = Infallible;

    fn constant(&mut self, value: i64) -> Result<Term, Infallible> {
        Ok(Term::Number(value))
    }

    fn symbol(&mut self, name: &str) -> Result<Term, Infallible> {
        Ok(if name == LANE { Term::Lane } else { Term::Other(false) })
    }

    fn add(&mut self, a: Term, b: Term) -> Result<Term, Infallible> {
        Ok(Term::Other(a.has_lane() || b.has_lane()))
    }

    fn mul(&mut self, a: Term, b: Term) -> Result<Term, Infallible> {
        self.opaque |= a.has_lane() && b.has_lane();
        Ok(Term::Other(a.has_lane() || b.has_lane()))
    }

    fn function(&mut self, f: DimFn, a: Term, b: Term) -> Result<Term, Infallible> {
        match (f, &a, &b) {
            (DimFn::FloorDiv | DimFn::Mod, Term::Lane, Term::Number(by)) => {
                self.found.insert(*by);
            }
            _ => self.opaque |= a.has_lane() || b.has_lane(),
        }
        Ok(Term::Other(a.has_lane() || b.has_lane()))
    }
}

/// The segment with rows cut into `parts` inner rows, if nothing in it needs a whole row.
pub(super) fn cut_rows(kernel: &Kernel, segment: &Segment, parts: i64) -> Option<Segment> {
    let by = Dim::constant(parts);
    let cut = |lanes: &Dim| lanes.as_const().filter(|n| n % parts == 0).map(|n| Dim::constant(n / parts));
    let shape = |shape: &Shape| match shape {
        Shape::Scalar => Some(Shape::Scalar),
        Shape::Row(lanes) => cut(lanes).map(Shape::Row),
        Shape::Group { lanes, size } => {
            let lanes = cut(lanes)?;
            lanes.exact_div(size)?;
            Some(Shape::Group { lanes, size: size.clone() })
        }
    };
    let moved = |index: &Dim, lanes: i64| {
        let first = &Dim::symbol(crate::kernel::INNER) * &Dim::constant(lanes / parts);
        index.substitute(&|name| (name == LANE).then(|| &Dim::symbol(LANE) + &first))
    };
    let linear = |index: &Dim| index.split_linear(LANE).is_some() && index.split_linear(ROW).is_some();
    if segment.inner != Dim::constant(1) || segment.types.iter().any(|t| shape(&t.shape).is_none()) {
        return None;
    }
    let mut builder = SegmentBuilder::new(&segment.name, by, &kernel.params);
    let mut renamed: Vec<Val> = Vec::new();
    for inst in &segment.insts {
        let args: Vec<Val> = inst.args.iter().map(|v| renamed[v.0 as usize]).collect();
        let lanes = |shape: &Shape| shape.elements().as_const();
        let op = match rename_index(&inst.op, &renamed) {
            InstOp::Load { param, index, shape: of, otherwise: None } if linear(&index) => {
                let index = moved(&index, lanes(&of)?);
                InstOp::Load { param, index, shape: shape(&of)?, otherwise: None }
            }
            InstOp::Store { param, index, otherwise: None } if linear(&index) => {
                let of = &segment.ty(inst.args[0]).shape;
                if *of == Shape::Scalar {
                    return None;
                }
                InstOp::Store { param, index: moved(&index, lanes(of)?), otherwise: None }
            }
            op @ (InstOp::Reduce { over: Over::Group(_), .. }
            | InstOp::Literal(_)
            | InstOp::Index(_)
            | InstOp::Map(_)
            | InstOp::Cast { .. }
            | InstOp::Bitcast(_)
            | InstOp::Pack { .. }) => op,
            InstOp::Broadcast(of) => InstOp::Broadcast(shape(&of)?),
            _ => return None,
        };
        renamed.extend(builder.push(op, &args).ok()?);
    }
    Some(builder.finish())
}
