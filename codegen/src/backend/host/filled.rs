//! Rows behind the end of what is filled up, as segments of their own.
//!
//! A kernel whose outputs are filled up to whole tiles runs over all rows of the tiles. Rows behind the end of the input, up
//! to 127 behind a single row, load a constant instead. All lanes are alike there: a segment of their own computes them as
//! scalars, and leaves out what nothing stores.

use std::collections::BTreeSet;
use std::convert::Infallible;

use fusewright_graph::dim::{DimFn, DimFold};
use fusewright_graph::{DType, Dim, Literal, ReduceOp, ScalarFn};

use super::rows::Rows;
use crate::kernel::expand::rename_index;
use crate::kernel::simplify::without_unused;
use crate::kernel::{INNER, Inst, InstOp, Kernel, ROW, Segment, SegmentBuilder, Shape, Val};

/// The kernel with segments for rows behind the end, and which rows each of its segments runs over.
pub(super) fn split(kernel: &Kernel) -> (Kernel, Vec<Rows>) {
    let mut rows = vec![Rows::All; kernel.segments.len()];
    let mut filled = Vec::new();
    for (segment, rows) in kernel.segments.iter().zip(&mut rows) {
        let mut ends = segment.insts.iter().filter_map(|inst| Some((inst.results.first()?, end(segment, inst)?)));
        let found = ends.find_map(|(here, end)| Some((behind(kernel, segment, *here)?, end)));
        if let Some((segment, end)) = found {
            *rows = Rows::Before(end.clone());
            filled.push((segment, Rows::From(end)));
        }
    }
    let (segments, of): (Vec<Segment>, Vec<Rows>) = filled.into_iter().unzip();
    let simple = without_unused(&Kernel { segments, ..kernel.clone() });
    rows.extend(of);
    (Kernel { segments: kernel.segments.iter().cloned().chain(simple.segments).collect(), ..kernel.clone() }, rows)
}

/// The first row for which an instruction is false, if it says which rows are ahead of an end.
fn end(segment: &Segment, inst: &Inst) -> Option<Dim> {
    let index = |v: Val| {
        let defined = segment.insts.iter().find(|inst| inst.results.contains(&v))?;
        if let InstOp::Index(index) = &defined.op { Some(index) } else { None }
    };
    let (InstOp::Map(ScalarFn::Lt), &[row, end]) = (&inst.op, inst.args.as_slice()) else { return None };
    let (row, end) = (index(row)?, index(end)?);
    let Ok(RowPart::Quotient(by)) = row.fold(&mut RowPart::Other) else { return None };
    let mut names = BTreeSet::new();
    end.collect_symbols(&mut names);
    let varies = |name: &String| [ROW, INNER].contains(&name.as_str()) || Val::from_symbol(name).is_some();
    (!names.iter().any(varies)).then(|| end * &Dim::constant(by))
}

/// An index depends on the row in one of these ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RowPart {
    Constant(i64),
    /// The whole part of the row, divided by a positive number.
    Quotient(i64),
    Other,
}

impl DimFold for RowPart {
    type Value = RowPart;
    type Error = Infallible;

    fn constant(&mut self, value: i64) -> Result<RowPart, Infallible> {
        Ok(RowPart::Constant(value))
    }

    fn symbol(&mut self, name: &str) -> Result<RowPart, Infallible> {
        Ok(if name == ROW { RowPart::Quotient(1) } else { RowPart::Other })
    }

    fn add(&mut self, _: RowPart, _: RowPart) -> Result<RowPart, Infallible> {
        Ok(RowPart::Other)
    }

    fn mul(&mut self, _: RowPart, _: RowPart) -> Result<RowPart, Infallible> {
        Ok(RowPart::Other)
    }

    fn function(&mut self, f: DimFn, a: RowPart, b: RowPart) -> Result<RowPart, Infallible> {
        Ok(match (f, a, b) {
            (DimFn::FloorDiv, RowPart::Quotient(1), RowPart::Constant(by)) if by > 0 => RowPart::Quotient(by),
            _ => RowPart::Other,
        })
    }
}

/// A segment where a condition is false; `None` if nothing becomes simpler, or an instruction does not fit.
fn behind(kernel: &Kernel, segment: &Segment, here: Val) -> Option<Segment> {
    let loads = |inst: &Inst| matches!(inst.op, InstOp::Load { .. }) && inst.args == [here];
    if !segment.insts.iter().any(loads) {
        return None;
    }
    let b = SegmentBuilder::new(&format!("{}_behind", segment.name), segment.inner.clone(), &kernel.params);
    let mut behind = Behind { segment, here, b, known: Vec::with_capacity(segment.types.len()) };
    for inst in &segment.insts {
        let values = behind.inst(inst)?;
        behind.known.extend(values);
    }
    Some(behind.b.finish())
}

/// A value there: a value of its own type, or one that all of its lanes are.
#[derive(Clone, Copy)]
enum Known {
    Own(Val),
    Alike(Val),
}

struct Behind<'k> {
    segment: &'k Segment,
    here: Val,
    b: SegmentBuilder<'k>,
    known: Vec<Known>,
}

impl Behind<'_> {
    /// The results of an instruction.
    fn inst(&mut self, inst: &Inst) -> Option<Vec<Known>> {
        let own = |v: Val| Some(vec![Known::Own(v)]);
        if inst.results == [self.here] {
            return own(self.b.one(InstOp::Literal(Literal::Int(DType::Bool, 0)), &[]).ok()?);
        }
        match (&inst.op, inst.args.as_slice()) {
            (InstOp::Store { otherwise: None, .. }, &[_, predicate]) if predicate == self.here => {
                return Some(Vec::new());
            }
            (InstOp::Load { otherwise: Some(otherwise), .. }, &[predicate]) if predicate == self.here => {
                let value = self.b.one(InstOp::Literal(*otherwise), &[]).ok()?;
                return Some(vec![self.alike(inst, value)]);
            }
            (InstOp::Map(ScalarFn::Select), &[condition, _, other]) if condition == self.here => {
                let alike = self.scalar(other).map(|value| self.alike(inst, value));
                let shape = &self.segment.ty(inst.results[0]).shape;
                return Some(vec![match alike {
                    Some(alike) => alike,
                    None => Known::Own(self.spread(other, shape)?),
                }]);
            }
            _ => {}
        }
        let scalars: Option<Vec<Val>> = inst.args.iter().map(|v| self.scalar(*v)).collect();
        let any_alike = inst.args.iter().any(|v| matches!(self.known[v.0 as usize], Known::Alike(_)));
        if let Some(scalars) = scalars.filter(|_| any_alike) {
            match &inst.op {
                InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_) => {
                    let value = self.b.one(inst.op.clone(), &scalars).ok()?;
                    return Some(vec![self.alike(inst, value)]);
                }
                // An extreme of equal numbers is that number, of which NaN rules leave nothing to choose.
                InstOp::Reduce { op: ReduceOp::Max | ReduceOp::Min, .. }
                    if self.is_number(scalars[0]) && self.has_lanes(inst.args[0]) =>
                {
                    return Some(vec![self.alike(inst, scalars[0])]);
                }
                InstOp::Slice { .. } | InstOp::AsRow | InstOp::AsGroup { .. } | InstOp::Broadcast(_) => {
                    return Some(vec![self.alike(inst, scalars[0])]);
                }
                _ => {}
            }
        }
        let args: Option<Vec<Val>> =
            inst.args.iter().map(|v| self.spread(*v, &self.segment.ty(*v).shape.clone())).collect();
        let renamed: Vec<Val> = self
            .known
            .iter()
            .map(|known| match known {
                Known::Own(v) | Known::Alike(v) => *v,
            })
            .collect();
        let op = rename_index(&inst.op, &renamed);
        Some(self.b.push(op, &args?).ok()?.into_iter().map(Known::Own).collect())
    }

    fn alike(&self, inst: &Inst, value: Val) -> Known {
        match self.segment.ty(inst.results[0]).shape {
            Shape::Scalar => Known::Own(value),
            _ => Known::Alike(value),
        }
    }

    /// The number that a value is in all lanes, if it is known to be one.
    fn scalar(&self, v: Val) -> Option<Val> {
        match self.known[v.0 as usize] {
            Known::Alike(v) => Some(v),
            Known::Own(new) => matches!(self.segment.ty(v).shape, Shape::Scalar).then_some(new),
        }
    }

    fn has_lanes(&self, v: Val) -> bool {
        self.segment.ty(v).shape.elements().as_const().is_some_and(|lanes| lanes > 0)
    }

    /// A value in its own shape, or a larger one.
    fn spread(&mut self, v: Val, shape: &Shape) -> Option<Val> {
        match self.known[v.0 as usize] {
            Known::Own(new) if self.b.ty(new).shape == *shape => Some(new),
            Known::Own(new) | Known::Alike(new) if *shape == Shape::Scalar => Some(new),
            Known::Own(new) | Known::Alike(new) => self.b.one(InstOp::Broadcast(shape.clone()), &[new]).ok(),
        }
    }

    /// Says whether a scalar is a constant other than NaN, behind conversions and absolute values.
    fn is_number(&self, v: Val) -> bool {
        let Some(inst) = self.b.definition(v) else { return false };
        match &inst.op {
            InstOp::Literal(Literal::Float(_, x)) => !x.is_nan(),
            InstOp::Literal(Literal::Int(..)) => true,
            InstOp::Cast { to, .. } if to.is_float() => self.is_number(inst.args[0]),
            InstOp::Map(ScalarFn::Abs | ScalarFn::Neg) => self.is_number(inst.args[0]),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "kernel @k(s = extent(x, 0)) rows floordiv(s + 3, 4)*4 {
  param %x: f32[s, 64] in
  param %y: f32[s, 64] out
  param %z: f32[floordiv(s + 3, 4)*4] out
  segment @rows inner 1 {
    %0 = index row
    %1 = index s
    %2 = lt %0, %1
    %3 = load x[lane + row*64] : row<f32, 64> if %2 else 0.0
    %4 = exp %3
    %5 = abs %3
    %6 = reduce max %5 over row nan propagate order tree(16)
    store y[lane + row*64], %4 if %2
    store z[row], %6
  }
}
";

    #[test]
    fn rows_behind_the_end_are_scalars() {
        let kernel: Kernel = TEXT.parse().unwrap_or_else(|e| panic!("{e}"));
        let (split, rows) = split(&kernel);
        let end = Dim::symbol("s");
        assert_eq!(rows, [Rows::Before(end.clone()), Rows::From(end)]);
        let [own, behind] = split.segments.as_slice() else { panic!("{split}") };
        assert_eq!(*own, kernel.segments[0]);
        assert!(behind.types.iter().all(|ty| ty.shape == Shape::Scalar), "{split}");
        let stores = behind.insts.iter().filter(|inst| matches!(inst.op, InstOp::Store { .. })).count();
        assert_eq!(stores, 1, "{split}");
    }

    #[test]
    fn rows_of_heads_end_behind_all_heads() {
        let text = TEXT
            .replace("rows floordiv(s + 3, 4)*4", "rows floordiv(s + 3, 4)*8")
            .replace("= index row", "= index floordiv(row, 2)");
        let text = text
            .replace("f32[s, 64]", "f32[s, 2, 64]")
            .replace("f32[floordiv(s + 3, 4)*4]", "f32[floordiv(s + 3, 4)*8]");
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let end = &Dim::symbol("s") * &Dim::constant(2);
        assert_eq!(split(&kernel).1, [Rows::Before(end.clone()), Rows::From(end)]);
    }

    #[test]
    fn other_conditions_split_nothing() {
        for (from, to) in [("= index row", "= index inner"), ("= index s", "= index row + s"), ("if %2 else 0.0", "")] {
            let kernel: Kernel = TEXT.replace(from, to).parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(split(&kernel).1, [Rows::All], "{to}");
        }
    }
}
