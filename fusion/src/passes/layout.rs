//! Equations on layout that need arithmetic on extents: permutations, slices and concatenations that are identities or
//! that follow one another, broadcasts that elementwise functions imply, functions of constants that layout was between,
//! and collectives of one rank. Those of reshapes
//! are in `regroup.rs` and `statistic.rs`, those of extremes in `extremes.rs`, the other equations in
//! [`crate::rewrites`].

use fusewright_graph::{Builder, Dim, Op, Prim, ScalarFn, TensorType, TypeError, Value, infer};

use super::at_place::{self, is_one};
use super::places;
use super::{extremes, fold, regroup, rewrite, statistic};
use crate::rewrites::Form;

/// What a primitive is by the equations of this file, if one applies.
pub(crate) fn rule(b: &Builder, prim: &Prim, operands: &[Value]) -> Result<Option<Form>, TypeError> {
    if let Prim::Iota { dtype, shape, axis } = prim {
        return regroup::iota(b, *dtype, shape, *axis);
    }
    let Some(x) = operands.first().copied() else { return Ok(None) };
    let ty = b.ty(x);
    Ok(match prim {
        Prim::Expand { shape } => expand(shape, x, &ty),
        Prim::Permute { perm } => permute(b, perm, x, &ty),
        Prim::Slice { axis, start, end, step } => slice(b, &Cut { axis: *axis, start, end, step: *step }, x)?,
        Prim::Reshape { shape } => regroup::reshape(b, shape, x)?,
        Prim::Cat { axis } => cat(b, *axis, operands)?,
        Prim::Map(ScalarFn::Abs) if extremes::is_largest_magnitude(b, x) => Some(Form::Value(x)),
        Prim::Map(f) => match constant(b, *f, operands)? {
            None => function(b, *f, operands)?,
            constant => constant.map(Form::Value),
        },
        // A rank by itself has nobody to wait for.
        Prim::AllReduce(all) if all.ranks == Some(1) => Some(Form::Value(x)),
        Prim::Reduce { .. } => match extremes::of_joined(b, prim, x)? {
            None => extremes::of_rows(b, prim, x, &ty)?,
            found => found,
        },
        Prim::Pack { ways, .. } => packed_first(b, prim, i64::from(*ways), x)?,
        _ => None,
    })
}

fn function(b: &Builder, f: ScalarFn, operands: &[Value]) -> Result<Option<Form>, TypeError> {
    if let Some(found) = unbroadcast(b, f, operands) {
        return Ok(Some(found));
    }
    match statistic::rule(b, f, operands)? {
        None if f == ScalarFn::Max => extremes::magnitude(b, operands),
        None if f == ScalarFn::Select => at_place::select(b, operands),
        found => Ok(found),
    }
}

/// Words of what a permutation moved and a reshape flattened, packed before the reshape: the kernel that packs then
/// stores them where they go, and the reshape is a view.
fn packed_first(b: &Builder, prim: &Prim, ways: i64, x: Value) -> Result<Option<Form>, TypeError> {
    let Some((Op::Prim(Prim::Reshape { shape }), moved)) = b.definition(x) else { return Ok(None) };
    let Some((Op::Prim(Prim::Permute { .. }), _)) = b.definition(moved[0]) else { return Ok(None) };
    let words = |extents: &[Dim]| extents.last().and_then(|last| last.exact_div(&Dim::constant(ways)));
    let (Some(last), Some(_)) = (words(&shape), words(&b.ty(moved[0]).shape)) else { return Ok(None) };
    let packed = b.prim(prim.clone(), &moved)?;
    let flat = shape[..shape.len() - 1].iter().cloned().chain([last]).collect();
    Ok(Some(Form::prim(Prim::Reshape { shape: flat }, vec![packed])))
}

/// A function of constants, which layout may have stood between.
fn constant(b: &Builder, f: ScalarFn, operands: &[Value]) -> Result<Option<Value>, TypeError> {
    let Some(shape) = joined(b, operands) else { return Ok(None) };
    fold::of_constants(b, &Op::Prim(Prim::Map(f)), operands, &shape)
}

fn expand(shape: &[Dim], x: Value, ty: &TensorType) -> Option<Form> {
    // Leading extents of 1 are a reshape.
    let added = shape.len().checked_sub(ty.rank())?;
    let only_ones = shape[..added].iter().all(is_one) && shape[added..] == ty.shape;
    only_ones.then(|| Form::prim(Prim::Reshape { shape: shape.to_vec() }, vec![x]))
}

fn permute(b: &Builder, perm: &[usize], x: Value, ty: &TensorType) -> Option<Form> {
    if let Some((Op::Prim(Prim::Permute { perm: first }), source)) = b.definition(x) {
        let joined = perm.iter().map(|&i| first[i]).collect();
        return Some(Form::prim(Prim::Permute { perm: joined }, source));
    }
    // Moving extents of 1 moves no element.
    if perm.iter().filter(|&&i| !is_one(&ty.shape[i])).is_sorted() {
        let shape = perm.iter().map(|&i| ty.shape[i].clone()).collect();
        return Some(Form::prim(Prim::Reshape { shape }, vec![x]));
    }
    None
}

struct Cut<'a> {
    axis: usize,
    start: &'a Dim,
    end: &'a Dim,
    step: i64,
}

impl Cut<'_> {
    fn prim(&self) -> Prim {
        Prim::Slice { axis: self.axis, start: self.start.clone(), end: self.end.clone(), step: self.step }
    }
}

/// A slice along an axis over which a value is repeated: the value repeated less often.
fn of_repeated(b: &Builder, cut: &Cut<'_>, x: Value, of: Value) -> Result<Option<Form>, TypeError> {
    let (wide, own) = (b.ty(x), b.ty(of).shape);
    let repeats = match (cut.axis + own.len()).checked_sub(wide.rank()) {
        Some(axis) => is_one(&own[axis]),
        None => true,
    };
    if !repeats {
        return Ok(None);
    }
    let shape = infer(&cut.prim(), &[&wide])?.swap_remove(0).shape;
    Ok(Some(Form::prim(Prim::Expand { shape }, vec![of])))
}

fn slice(b: &Builder, cut: &Cut<'_>, x: Value) -> Result<Option<Form>, TypeError> {
    let axis = cut.axis;
    let Some(definition) = b.definition(x) else { return Ok(None) };
    Ok(match definition {
        (Op::Prim(Prim::Slice { axis: inner, start, step: 1, .. }), source) if inner == axis => {
            let moved = |d: &Dim| &start + d;
            let prim = Prim::Slice { axis, start: moved(cut.start), end: moved(cut.end), step: cut.step };
            Some(Form::prim(prim, source))
        }
        (Op::Prim(Prim::Cat { axis: joined }), parts) if joined == axis => touched(b, cut, &parts)?,
        // Conversion is of each element, so what is cut out of pieces need not be joined for it.
        (Op::Prim(cast @ Prim::Cast { .. }), source) => match b.definition(source[0]) {
            Some((Op::Prim(Prim::Cat { axis: joined }), parts)) if joined == axis => {
                let Some(Form::Node(op, inputs)) = touched(b, cut, &parts)? else { return Ok(None) };
                let of_pieces = rewrite::emit(b, &op, &inputs)?;
                Some(Form::prim(cast, of_pieces))
            }
            _ => None,
        },
        (Op::Prim(Prim::Expand { .. }), source) => of_repeated(b, cut, x, source[0])?,
        (Op::Prim(Prim::Map(ScalarFn::Select)), cases) => at_place::slice(b, &cut.prim(), &cases, &b.ty(x))?,
        _ => None,
    })
}

/// Where pieces that are joined along an axis begin, and where the last one ends.
pub(super) fn borders(b: &Builder, axis: usize, pieces: &[Value]) -> Vec<Dim> {
    let mut borders = vec![Dim::constant(0)];
    for &piece in pieces {
        borders.push(&borders[borders.len() - 1] + &b.ty(piece).shape[axis]);
    }
    borders
}

/// Whether one extent is at most another in every call.
pub(super) fn at_most(low: &Dim, high: &Dim) -> bool {
    (high - low).as_const().is_some_and(|distance| distance >= 0)
}

/// A slice of joined pieces as one of those that it touches, if it does not touch all.
fn touched(b: &Builder, cut: &Cut<'_>, parts: &[Value]) -> Result<Option<Form>, TypeError> {
    let axis = cut.axis;
    let borders = borders(b, axis, parts);
    // One piece is left even of a slice of nothing between two.
    let first = (1..parts.len()).rev().find(|&i| at_most(&borders[i], cut.start)).unwrap_or(0);
    let last = (first + 1..parts.len()).find(|&i| at_most(cut.end, &borders[i])).unwrap_or(parts.len());
    if last - first == parts.len() || parts[first..last].iter().any(|&part| places::is_part(b, part)) {
        return Ok(None);
    }
    let joined = rewrite::emit(b, &Op::Prim(Prim::Cat { axis }), &parts[first..last])?;
    let (start, end) = (cut.start - &borders[first], cut.end - &borders[first]);
    Ok(Some(Form::prim(Prim::Slice { axis, start, end, step: cut.step }, joined)))
}

fn cat(b: &Builder, axis: usize, operands: &[Value]) -> Result<Option<Form>, TypeError> {
    let filled: Vec<Value> = operands.iter().copied().filter(|&v| b.ty(v).shape[axis].as_const() != Some(0)).collect();
    if !filled.is_empty() && filled.len() < operands.len() {
        return Ok(Some(Form::prim(Prim::Cat { axis }, filled)));
    }
    let pieces: Vec<Vec<Value>> = operands.iter().map(|&operand| pieces(b, axis, operand)).collect();
    if pieces.iter().zip(operands).any(|(pieces, operand)| pieces != &[*operand]) {
        return Ok(Some(Form::prim(Prim::Cat { axis }, pieces.concat())));
    }
    // Neighbouring slices of one value are one slice.
    let piece = |v: Value| match b.definition(v) {
        Some((Op::Prim(Prim::Slice { axis: a, start, end, step: 1 }), source)) if a == axis => {
            Some((source[0], start, end))
        }
        _ => None,
    };
    let Some((source, start, mut end)) = piece(operands[0]) else { return Ok(None) };
    for &operand in &operands[1..] {
        match piece(operand) {
            Some((other, from, to)) if other == source && from == end => end = to,
            _ => return Ok(None),
        }
    }
    Ok(Some(Form::prim(Prim::Slice { axis, start, end, step: 1 }, vec![source])))
}

/// The pieces that a slice of joined ones takes, if it takes all of each; else the value.
fn pieces(b: &Builder, axis: usize, value: Value) -> Vec<Value> {
    let all = || {
        let (Op::Prim(Prim::Slice { axis: along, start, end, step: 1 }), of) = b.definition(value)? else {
            return None;
        };
        let (Op::Prim(Prim::Cat { axis: joined }), parts) = b.definition(of[0])? else { return None };
        let borders = borders(b, axis, &parts);
        let at = |place: &Dim| borders.iter().position(|border| border == place);
        let taken = at(&start).zip(at(&end)).filter(|_| along == axis && joined == axis)?;
        parts.get(taken.0..taken.1).map(<[Value]>::to_vec)
    };
    all().unwrap_or_else(|| vec![value])
}

/// A map without expansions and leading extents of 1 that broadcasting does by itself.
fn unbroadcast(b: &Builder, f: ScalarFn, operands: &[Value]) -> Option<Form> {
    let result = joined(b, operands)?;
    for (i, &operand) in operands.iter().enumerate() {
        let Some((Op::Prim(prim), source)) = b.definition(operand) else { continue };
        let implied = match &prim {
            Prim::Expand { .. } => true,
            Prim::Reshape { shape } => {
                let inner = b.ty(source[0]).shape;
                let added = shape.len().checked_sub(inner.len());
                added.is_some_and(|n| n > 0 && shape[..n].iter().all(is_one) && shape[n..] == inner)
            }
            _ => false,
        };
        if !implied {
            continue;
        }
        let mut inputs = operands.to_vec();
        inputs[i] = source[0];
        if joined(b, &inputs).as_ref() == Some(&result) {
            return Some(Form::prim(Prim::Map(f), inputs));
        }
    }
    None
}

/// The shape that operands broadcast to.
fn joined(b: &Builder, operands: &[Value]) -> Option<Vec<Dim>> {
    let rank = operands.iter().map(|&v| b.ty(v).rank()).max()?;
    let mut shape = vec![Dim::constant(1); rank];
    for &operand in operands {
        let extents = b.ty(operand).shape;
        for (slot, extent) in shape[rank - extents.len()..].iter_mut().zip(extents) {
            if is_one(slot) {
                *slot = extent;
            } else if !is_one(&extent) && *slot != extent {
                return None;
            }
        }
    }
    Some(shape)
}

#[cfg(test)]
mod tests {
    use fusewright_graph::DType::F32;
    use fusewright_graph::{AllReduce, ReduceOp};

    use super::*;
    use crate::pass::{Cx, PassManager};
    use crate::passes::tests::{before_and_after, cut, dims, names, ops};

    #[test]
    fn layouts_that_cancel_vanish() {
        let none: Vec<String> = Vec::new();
        assert_eq!(ops(|b, x| b.reshape(b.reshape(x, dims(&[32]))?, dims(&[4, 8]))), none);
        let permute = |b: &Builder, x, perm: [usize; 3]| b.prim(Prim::Permute { perm: perm.to_vec() }, &[x]);
        assert_eq!(ops(|b, x| permute(b, permute(b, x, [2, 0, 1])?, [1, 2, 0])), none);
        assert_eq!(ops(|b, x| cut(b, x, 0, 8)), none);
        assert_eq!(ops(|b, x| b.cat(&[cut(b, x, 0, 3)?, cut(b, x, 3, 8)?], 2)), none);
        assert_eq!(ops(|b, x| cut(b, b.cat(&[cut(b, x, 4, 8)?, x], 2)?, 4, 12)), none);
        assert_eq!(ops(|b, x| b.prim(Prim::Expand { shape: dims(&[4, 8]) }, &[x])), none);
    }

    #[test]
    fn only_a_collective_of_one_rank_vanishes() {
        for (ranks, left) in [(Some(1), 0), (Some(2), 1), (None, 1)] {
            let all = |op| Prim::AllReduce(AllReduce { op, group: "tp".into(), ranks });
            for op in ReduceOp::ALL {
                // Other ranks are absent, so that the values cannot be compared.
                let [_, after] = before_and_after(|b, x| b.prim(all(op), &[x]));
                assert_eq!(names(&after).len(), left, "{op:?} of {ranks:?}");
            }
        }
    }

    #[test]
    fn layouts_of_layouts_are_one() {
        assert_eq!(ops(|b, x| b.reshape(b.reshape(x, dims(&[32]))?, dims(&[2, 16]))), ["reshape"]);
        assert_eq!(ops(|b, x| cut(b, cut(b, x, 1, 8)?, 2, 4)), ["slice"]);
        assert_eq!(ops(|b, x| b.cat(&[cut(b, x, 0, 3)?, cut(b, x, 3, 5)?], 2)), ["slice"]);
        let unsqueezed = |b: &Builder, x| b.reshape(x, [vec![Dim::constant(1)], dims(&[4, 8])].concat());
        let moved = |b: &Builder, x| b.prim(Prim::Permute { perm: vec![1, 0, 2, 3] }, &[unsqueezed(b, x)?]);
        assert_eq!(ops(moved), ["reshape"]);
    }

    #[test]
    fn a_slice_of_joined_pieces_reads_those_that_it_touches() {
        let cast = |b: &Builder, x| b.cast(x, fusewright_graph::DType::F64);
        let joined = |b: &Builder, x: Value| b.cat(&[x, b.map(ScalarFn::Neg, &[x])?, b.map(ScalarFn::Exp, &[x])?], 2);
        assert_eq!(ops(|b, x| cut(b, joined(b, x)?, 8, 16)), ["neg"]);
        assert_eq!(ops(|b, x| cut(b, joined(b, x)?, 8, 24)), ["neg", "exp", "cat"]);
        assert_eq!(ops(|b, x| cut(b, joined(b, x)?, 4, 12)), ["neg", "slice", "slice", "cat"]);
        assert_eq!(ops(|b, x| cut(b, joined(b, x)?, 4, 20)), ["neg", "exp", "slice", "slice", "cat"]);
        assert_eq!(ops(|b, x| cut(b, cast(b, joined(b, x)?)?, 8, 16)), ["neg", "cast"]);
        assert_eq!(ops(|b, x| cut(b, cast(b, joined(b, x)?)?, 9, 15)), ["neg", "slice", "cast"]);
        assert_eq!(ops(|b, x| cut(b, cast(b, x)?, 0, 4)), ["cast", "slice"]);
        // Another axis, and nothing between two pieces.
        assert_eq!(ops(|b, x| b.slice(b.cat(&[x, x], 1)?, 2, 0.into(), 4.into())), ["cat", "slice"]);
        assert_eq!(ops(|b, x| cut(b, joined(b, x)?, 8, 8)), ["neg", "slice"]);
    }

    #[test]
    fn a_slice_of_what_is_repeated_repeats_it_less_often() {
        let expand = |b: &Builder, x, shape: &[i64]| b.prim(Prim::Expand { shape: dims(shape) }, &[x]);
        assert_eq!(ops(|b, x| b.slice(expand(b, lane(b, x)?, &[4, 8])?, 2, 2.into(), 5.into())), ["slice", "expand"]);
        assert_eq!(ops(|b, x| b.slice(expand(b, lane(b, x)?, &[4, 8])?, 2, 7.into(), 8.into())), ["slice"]);
        // Along another axis it has elements of its own.
        let rows = |b: &Builder, x| b.slice(expand(b, lane(b, x)?, &[4, 8])?, 1, 1.into(), 3.into());
        assert_eq!(ops(rows), ["slice", "expand", "slice"]);
    }

    #[test]
    fn constants_that_layout_was_between_are_computed() {
        let zeros = |b: &Builder| b.prim(Prim::Expand { shape: dims(&[4, 3]) }, &[b.float(F32, 0.0)?]);
        // What fills a row up counts for nothing in a difference.
        let filled = |b: &Builder, x| {
            let row = b.cat(&[x, zeros(b)?], 2)?;
            let behind = b.slice(row, 2, 8.into(), 9.into())?;
            b.sub(lane(b, x)?, b.mul(behind, b.float(F32, 256.0)?)?)
        };
        assert_eq!(ops(filled), ["slice"]);
    }

    fn lane(b: &Builder, x: Value) -> Result<Value, TypeError> {
        b.slice(x, 2, 0.into(), 1.into())
    }

    #[test]
    fn slices_of_joined_pieces_hold_the_same_elements() {
        use fusewright_graph::interp::{Symbols, run};
        for (start, end, step) in (0..=9).flat_map(|s| (s..=9).flat_map(move |e| [1, 2].map(|step| (s, e, step)))) {
            let b = Builder::new("g");
            let part = |name: &str, lanes: i64| b.input(name, TensorType::new(F32, dims(&[lanes])));
            let parts = [part("x", 3), part("n", 0), part("y", 2), part("z", 4)];
            b.symbol("s", 1, None);
            let joined = b.cat(&parts, 1).expect("types");
            let cut = |x| b.prim(Prim::Slice { axis: 1, start: start.into(), end: end.into(), step }, &[x]);
            b.output(cut(joined).expect("types"));
            b.output(cut(b.cast(joined, fusewright_graph::DType::F64).expect("types")).expect("types"));
            let graph = b.finish();
            let (out, _) = PassManager::default().run(&graph, &mut Cx::default(), &mut []).expect("runs");
            let inputs = fusewright_graph::operands::tensors(&graph, 2, fusewright_graph::operands::Values::Ordinary);
            let [before, after] = [&graph, &out].map(|g| run(g, &inputs, &Symbols::new()).expect("runs"));
            assert_eq!(before, after, "{start}..{end} by {step}");
        }
    }

    #[test]
    fn layouts_that_move_elements_stay() {
        assert_eq!(ops(|b, x| b.cat(&[cut(b, x, 4, 8)?, cut(b, x, 0, 4)?], 2)), ["slice", "slice", "cat"]);
        assert_eq!(ops(|b, x| b.prim(Prim::Permute { perm: vec![0, 2, 1] }, &[x])), ["permute"]);
        let step = |b: &Builder, x| {
            let (start, end) = (Dim::constant(0), Dim::constant(8));
            b.prim(Prim::Slice { axis: 2, start, end, step: 2 }, &[x])
        };
        assert_eq!(ops(step), ["slice"]);
        assert_eq!(ops(|b, x| cut(b, b.cat(&[x, x], 2)?, 4, 12)), ["slice", "slice", "cat"]);
    }

    #[test]
    fn implied_broadcasts_vanish_and_others_sink() {
        let expand = |b: &Builder, x, shape| b.prim(Prim::Expand { shape }, &[x]);
        let row = |b: &Builder, x| b.reduce_last(fusewright_graph::ReduceOp::Max, x);
        assert_eq!(ops(|b, x| b.sub(x, expand(b, row(b, x)?, dims(&[4, 8]))?)), ["reduce", "sub"]);
        assert_eq!(ops(|b, x| b.sub(expand(b, row(b, x)?, dims(&[4, 8]))?, row(b, x)?)), ["reduce", "sub", "expand"]);
    }
}
