//! Short rows side by side: a segment of its own computes several rows at once, whose lanes are the rows.
//!
//! A short row does not fill vectors where its lanes meet in sums, slices and joins. [`ROWS`] rows do: each place of a row
//! becomes a row of its own, which has a lane for each of these rows, and what combines places becomes a map (a search becomes
//! compares and selects). The lanes lie apart in memory and are loaded and stored one by one, so this is done only where it
//! saves more than that costs. Sums keep their order, and so results keep their bits.

mod search;

use std::collections::HashMap;

use fusewright_abi::DType;
use fusewright_graph::{Dim, Literal, ReduceOp, Rounding, ScalarFn};

use super::Forms;
use super::cost::weight;
use super::hazard::overwrites;
use crate::kernel::{INNER, Inst, InstOp, Kernel, LANE, Order, Over, ROW, Segment, SegmentBuilder, Shape, Ty, Val};

/// So many rows are computed at once.
pub(in crate::backend) const ROWS: i64 = 8;
/// Lanes of the longest row that is short.
const MOST_LANES: i64 = 64;

/// The segment that computes [`ROWS`] rows from [`ROW`] on; `None` if it would not be faster, or an instruction does not fit.
pub(super) fn abreast(kernel: &Kernel, segment: &Segment, forms: &dyn Forms) -> Option<Segment> {
    if segment.inner.as_const() != Some(1) || kernel.rows.as_const().is_some_and(|rows| rows < ROWS) {
        return None;
    }
    if !is_worth_it(kernel, segment, forms)? {
        return None;
    }
    let b = SegmentBuilder::new(&format!("{}_abreast", segment.name), segment.inner.clone(), &kernel.params);
    let known = Vec::with_capacity(segment.types.len());
    let mut abreast =
        Abreast { kernel, segment, b, known, insts: 0, wide: forms.wide_lanes(), widened: HashMap::new() };
    for inst in &segment.insts {
        let results = abreast.inst(inst)?;
        abreast.known.extend(results);
        if abreast.insts > forms.most_insts() {
            return None;
        }
    }
    Some(abreast.b.finish())
}

/// Says whether enough lanes of a row are taken one by one to make up for loads and stores one by one; `None` if a row is not
/// short.
fn is_worth_it(kernel: &Kernel, segment: &Segment, forms: &dyn Forms) -> Option<bool> {
    let (mut single, mut share, mut computed, mut moved) = (0, 0.0, 0, 0);
    for inst in &segment.insts {
        let sized = |v: &Val| elements(&segment.ty(*v).shape);
        let lanes = inst.results.iter().chain(&inst.args).map(sized).try_fold(1, |most, n| Some(most.max(n?)))?;
        // The lanes of a sum or a part that fill no vector.
        let left = match &inst.op {
            InstOp::Reduce { over: Over::Row, .. } => forms.single_lanes(lanes),
            InstOp::Reduce { over: Over::Group(size), .. } => {
                size.as_const().map_or(0, |size| lanes / size * forms.single_lanes(size))
            }
            InstOp::Cat | InstOp::Zip => inst.args.iter().filter_map(sized).map(|part| part % 8).sum(),
            InstOp::ArgReduce(_) => lanes,
            InstOp::TopK { k, .. } if k.as_const()? * lanes <= forms.most_compares() => 2 * lanes,
            InstOp::TopK { .. } => return None,
            _ => 0,
        };
        single += left;
        share = f64::max(share, left.min(lanes) as f64 / lanes as f64);
        match &inst.op {
            InstOp::Map(_) | InstOp::Cast { .. } => computed += lanes * i64::from(weight(segment, inst)),
            InstOp::Load { index, .. } | InstOp::Store { index, .. } if index.mentions(ROW) => moved += lanes,
            _ => {}
        }
        if let InstOp::Store { param, .. } = &inst.op
            && overwrites(kernel, segment, *param)
        {
            return None;
        }
    }
    Some(2.0 * single as f64 + share * computed as f64 / 2.0 >= moved as f64)
}

/// The lanes of a group of a row.
fn group_size(over: &Over, lanes: usize) -> Option<usize> {
    match over {
        Over::Row => Some(lanes),
        Over::Group(size) => usize::try_from(size.as_const()?).ok(),
    }
}

/// The elements of a short row.
fn elements(shape: &Shape) -> Option<i64> {
    shape.elements().as_const().filter(|n| (1..=MOST_LANES).contains(n))
}

struct Abreast<'k> {
    kernel: &'k Kernel,
    segment: &'k Segment,
    b: SegmentBuilder<'k>,
    /// This lists, by value, the elements of its rows: scalars where all rows have the same.
    known: Vec<Vec<Val>>,
    insts: usize,
    /// Lanes of 64 bits are vectors.
    wide: bool,
    /// This gives the narrower integers that values of 64 bits were widened from.
    widened: HashMap<Val, Val>,
}

impl Abreast<'_> {
    /// The elements of the results of an instruction.
    fn inst(&mut self, inst: &Inst) -> Option<Vec<Vec<Val>>> {
        let count = match inst.results.first() {
            Some(result) => elements(&self.segment.ty(*result).shape)?,
            None => 0,
        };
        let all = 0..count;
        let values = match &inst.op {
            InstOp::ArgReduce(op) => {
                let lanes = self.known[inst.args[0].0 as usize].clone();
                return self.largest(*op, &lanes, None, 1);
            }
            InstOp::TopK { k, over } => {
                let lanes = self.known[inst.args[0].0 as usize].clone();
                let keys = inst.args.get(1).map(|key| self.known[key.0 as usize].clone());
                let (size, k) = (group_size(over, lanes.len())?, usize::try_from(k.as_const()?).ok()?);
                let mut found = vec![Vec::new(); 2];
                for (number, group) in lanes.chunks(size).enumerate() {
                    let keys = keys.as_ref().map(|keys| &keys[number * size..][..group.len()]);
                    let of_group = self.largest(ReduceOp::Max, group, keys, k)?;
                    found.iter_mut().zip(of_group).for_each(|(all, more)| all.extend(more));
                }
                return Some(found);
            }
            InstOp::Literal(_) => vec![self.push(inst.op.clone(), &[])?],
            InstOp::Index(index) => {
                if varies(index) {
                    return None;
                }
                vec![self.push(inst.op.clone(), &[])?]
            }
            InstOp::Iota(_) => {
                let number = |i| InstOp::Literal(Literal::Int(DType::I32, i));
                all.map(|i| self.push(number(i), &[])).collect::<Option<_>>()?
            }
            InstOp::Load { .. } => all.map(|i| self.load(inst, i)).collect::<Option<_>>()?,
            InstOp::Store { .. } => {
                let count = elements(&self.segment.ty(inst.args[0]).shape)?;
                (0..count).try_for_each(|i| self.store(inst, i))?;
                return Some(Vec::new());
            }
            InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_) | InstOp::Broadcast(_) => {
                let shape = self.segment.ty(inst.results[0]).shape.clone();
                let each = |this: &mut Self, i| {
                    let args: Vec<Val> =
                        inst.args.iter().map(|v| this.element(*v, &shape, i)).collect::<Option<_>>()?;
                    match &inst.op {
                        InstOp::Broadcast(_) => Some(args[0]),
                        op => this.push(op.clone(), &args),
                    }
                };
                all.map(|i| each(self, i)).collect::<Option<_>>()?
            }
            InstOp::Reduce { over, .. } => {
                let lanes = self.known[inst.args[0].0 as usize].clone();
                lanes
                    .chunks(group_size(over, lanes.len())?)
                    .map(|group| self.reduce(inst, group))
                    .collect::<Option<_>>()?
            }
            InstOp::Slice { start, len, step } => {
                let [start, len] = [start, len].map(|n| n.as_const().and_then(|n| usize::try_from(n).ok()));
                let lanes = self.known[inst.args[0].0 as usize].iter();
                lanes.skip(start?).step_by(usize::try_from(*step).ok()?).take(len?).copied().collect()
            }
            InstOp::Cat => inst.args.iter().flat_map(|v| &self.known[v.0 as usize]).copied().collect(),
            InstOp::Zip => {
                let rows: Vec<&Vec<Val>> = inst.args.iter().map(|v| &self.known[v.0 as usize]).collect();
                (0..rows.first()?.len()).flat_map(|i| rows.iter().map(move |row| row[i])).collect()
            }
            InstOp::AsRow | InstOp::AsGroup { .. } => self.known[inst.args[0].0 as usize].clone(),
            InstOp::Pack { .. } => return None,
        };
        Some(vec![values])
    }

    fn push(&mut self, op: InstOp, args: &[Val]) -> Option<Val> {
        self.insts += 1;
        let is_wide = |ty: &Ty| ty.dtype.bits() == 64 && ty.shape != Shape::Scalar;
        let mut args = args.to_vec();
        let casts = matches!(op, InstOp::Cast { .. });
        if let (true, [x]) = (casts, args.as_mut_slice()) {
            *x = *self.widened.get(x).unwrap_or(x);
        }
        if !self.wide && args.iter().any(|v| is_wide(self.b.ty(*v))) {
            return None;
        }
        let value = self.b.one(op, &args).ok()?;
        if casts && args.iter().all(|v| holds(self.b.ty(value).dtype, self.b.ty(*v).dtype)) {
            // What is only widened, to be stored, is taken one by one.
            self.widened.insert(value, args[0]);
            return Some(value);
        }
        (self.wide || !is_wide(self.b.ty(value))).then_some(value)
    }

    /// Gives the element of `v` that element `i` of a value of `shape` takes.
    fn element(&self, v: Val, shape: &Shape, i: i64) -> Option<Val> {
        let own = &self.segment.ty(v).shape;
        let at = match (own, shape) {
            (Shape::Scalar, _) => 0,
            _ if own == shape => i,
            (Shape::Group { size, .. }, Shape::Row(_)) => i / size.as_const()?,
            _ => return None,
        };
        self.known[v.0 as usize].get(usize::try_from(at).ok()?).copied()
    }

    /// Gives the index of element `i` in all rows, and says whether it differs between rows.
    fn place(&self, index: &Dim, i: i64) -> Option<(Dim, bool)> {
        let index = index.substitute(&|symbol| match symbol {
            LANE => Some(Dim::constant(i)),
            INNER => Some(Dim::constant(0)),
            _ => None,
        });
        if is_gathered(&index) {
            return None;
        }
        if !index.mentions(ROW) {
            return Some((index, false));
        }
        let (stride, _) = index.split_linear(ROW)?;
        stride.as_const()?;
        Some((&index + &(&stride * &Dim::symbol(LANE)), true))
    }

    fn load(&mut self, inst: &Inst, i: i64) -> Option<Val> {
        let InstOp::Load { param, index, shape, otherwise } = &inst.op else { return None };
        if self.kernel.param(*param).dtype.bits() < 8 {
            return None;
        }
        let (index, differs) = self.place(index, i)?;
        let predicate = inst.args.first().map(|v| self.element(*v, shape, i));
        let predicate = match predicate {
            Some(predicate) => Some(predicate?),
            None => None,
        };
        let by_row = predicate.is_some_and(|p| self.b.ty(p).shape != Shape::Scalar);
        if by_row && !differs {
            return None;
        }
        let shape = if differs { Shape::Row(Dim::constant(ROWS)) } else { Shape::Scalar };
        self.push(InstOp::Load { param: *param, index, shape, otherwise: *otherwise }, predicate.as_slice())
    }

    fn store(&mut self, inst: &Inst, i: i64) -> Option<()> {
        let InstOp::Store { param, index, otherwise } = &inst.op else { return None };
        let (index, differs) = self.place(index, i)?;
        if !differs || self.kernel.param(*param).dtype.bits() < 8 {
            return None;
        }
        let shape = self.segment.ty(inst.args[0]).shape.clone();
        let mut args: Vec<Val> = inst.args.iter().map(|v| self.element(*v, &shape, i)).collect::<Option<_>>()?;
        let rows = Shape::Row(Dim::constant(ROWS));
        if self.b.ty(args[0]).shape != rows {
            args[0] = self.push(InstOp::Broadcast(rows), &args[..1])?;
        }
        self.insts += 1;
        self.b.push(InstOp::Store { param: *param, index, otherwise: *otherwise }, &args).ok().map(|_| ())
    }

    /// One number of several, in the order of a reduction.
    fn reduce(&mut self, inst: &Inst, lanes: &[Val]) -> Option<Val> {
        let InstOp::Reduce { op, nan, order: Order::Tree(tree), .. } = inst.op else { return None };
        let dtype = self.segment.ty(inst.args[0]).dtype;
        let start = self.push(InstOp::Literal(op.start(dtype)), &[])?;
        // An accumulator without lanes is what changes no other one.
        let mut partial: Vec<Option<Val>> = vec![None; tree.accumulators()];
        for (lane, &v) in lanes.iter().enumerate() {
            let slot = tree.accumulator(lane);
            let before = partial[slot].unwrap_or(start);
            partial[slot] = Some(self.step(op.step(nan), dtype, [before, v])?);
        }
        for (into, from) in tree.combine_steps() {
            partial[into] = match (partial[into], partial[from]) {
                (Some(a), Some(b)) => Some(self.step(op.step(nan), dtype, [a, b])?),
                (a, b) => a.or(b),
            };
        }
        partial[0]
    }

    /// A step of a reduction; that of narrow floats is rounded from f32.
    fn step(&mut self, f: ScalarFn, dtype: DType, [a, b]: [Val; 2]) -> Option<Val> {
        if !dtype.is_float() || dtype.bits() >= 32 {
            return self.push(InstOp::Map(f), &[a, b]);
        }
        let cast = |to| InstOp::Cast { to, round: Rounding::NearestEven, saturate: false };
        let [a, b] = [self.push(cast(DType::F32), &[a])?, self.push(cast(DType::F32), &[b])?];
        let exact = self.push(InstOp::Map(f), &[a, b])?;
        self.push(cast(dtype), &[exact])
    }
}

/// Says whether an integer of 64 bits holds every value of another integer dtype.
fn holds(wide: DType, dtype: DType) -> bool {
    dtype.is_int() && dtype.bits() < 64 && (wide == DType::I64 || wide == DType::U64 && !dtype.is_signed_int())
}

/// Says whether an index differs between rows, or is not known without the values of a row.
fn varies(index: &Dim) -> bool {
    index.mentions(ROW) || index.mentions(INNER) || is_gathered(index)
}

fn is_gathered(index: &Dim) -> bool {
    let mut names = std::collections::BTreeSet::new();
    index.collect_symbols(&mut names);
    names.iter().any(|name| Val::from_symbol(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Vectors;

    impl Forms for Vectors {}

    /// The segment of several rows of a kernel with a sum and a quotient of rows of so many lanes.
    fn of(lanes: i64, body: &str) -> Option<Segment> {
        let text = format!(
            "kernel @k(s = extent(x, 0)) rows s {{ param %x: f32[s, {lanes}] inout param %i: i32[s] in \
             param %y: f32[s, {lanes}] out segment @m inner 1 {{ %v = load x[row*{lanes} + lane] : row<f32, {lanes}> \
             %t = reduce add %v over row nan propagate order tree(16) %q = div %v, %t \
             %u = reduce add %q over row nan propagate order tree(16) %r = div %q, %u {body} }} }}"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}: {text}"));
        abreast(&kernel, &kernel.segments[0], &Vectors)
    }

    #[test]
    fn places_of_rows_become_rows() {
        let segment = of(3, "store y[row*3 + lane], %r").expect("short rows with sums");
        let shapes: Vec<&Shape> = segment.types.iter().map(|ty| &ty.shape).filter(|s| **s != Shape::Scalar).collect();
        assert!(shapes.iter().all(|shape| **shape == Shape::Row(Dim::constant(ROWS))), "{shapes:?}");
        let stores = segment.insts.iter().filter_map(|inst| match &inst.op {
            InstOp::Store { index, .. } => Some(index.to_string()),
            _ => None,
        });
        assert_eq!(stores.collect::<Vec<_>>(), ["lane*3 + row*3", "lane*3 + row*3 + 1", "lane*3 + row*3 + 2"]);
    }

    #[test]
    fn searches_are_worth_it_as_long_as_lists_are_short() {
        let top = |k: i64| {
            let left = 64 - k;
            format!(
                "%best, %place = top_k %r k {k} %others = slice %r start 0 len {left} step 1 %z = cat %best, %others
                 store y[row*64 + lane], %z"
            )
        };
        assert!(of(64, &top(4)).is_some());
        assert!(of(64, &top(5)).is_none(), "a long list");
    }

    #[test]
    fn others_stay_as_they_are() {
        assert!(of(12, "store y[row*12 + lane], %r").is_some());
        assert!(of(16, "store y[row*16 + lane], %r").is_none(), "lanes that fill vectors");
        assert!(of(66, "store y[row*66 + lane], %r").is_none(), "a long row");
        assert!(of(3, "store x[row*3 + lane], %r").is_none(), "in place");
        let gathered = "%i = load i[row] : scalar<i32> %g = load x[%i*3 + lane] : row<f32, 3> %z = add %r, %g \
                        store y[row*3 + lane], %z";
        assert!(of(3, gathered).is_none(), "gathered");
        assert!(of(3, "store y[lane], %r").is_none(), "one place for all rows");
    }
}
