//! Lanes as groups: what a reshape splits off an axis, a slice or a concatenation works on, and another reshape takes
//! away again is a slice or a concatenation of the lanes themselves. The views by which models speak of halves, of heads
//! and of neighbours are thus spelled alike, and so are stacks and the counters that masks compare.

use fusewright_graph::{Builder, DType, Dim, Op, Prim, TypeError, Value, dim};

use super::rewrite;
use crate::rewrites::Form;

/// What a reshape is by the equations of this file, if one applies.
pub(super) fn reshape(b: &Builder, shape: &[Dim], x: Value) -> Result<Option<Form>, TypeError> {
    match b.definition(x) {
        Some((Op::Prim(Prim::Slice { axis, start, end, step: 1 }), source)) => {
            let cut = Cut { axis, start, end };
            match every_nth(b, shape, &cut, source[0])? {
                None => neighbours(b, shape, &cut, source[0]),
                found => Ok(found),
            }
        }
        Some((Op::Prim(Prim::Cat { axis }), pieces)) => match joined(b, shape, axis, &pieces) {
            None => stacked(b, shape, axis, &pieces),
            found => Ok(found),
        },
        Some((Op::Prim(Prim::Iota { dtype, shape: counted, axis }), _)) => counter(b, shape, dtype, &counted, axis),
        _ => Ok(None),
    }
}

/// A counter without leading extents of 1, which broadcasting adds by itself.
pub(super) fn iota(b: &Builder, dtype: DType, shape: &[Dim], axis: usize) -> Result<Option<Form>, TypeError> {
    let added = shape[..axis].iter().take_while(|extent| extent.as_const() == Some(1)).count();
    if added == 0 {
        return Ok(None);
    }
    let counter = b.prim(Prim::Iota { dtype, shape: shape[added..].to_vec(), axis: axis - added }, &[])?;
    Ok(Some(Form::prim(Prim::Reshape { shape: shape.to_vec() }, vec![counter])))
}

/// A reshape that keeps the axis that is counted: a counter of the other shape. One that counts rows and one that counts
/// lanes are thus two values, whatever they are views of.
fn counter(b: &Builder, shape: &[Dim], dtype: DType, counted: &[Dim], axis: usize) -> Result<Option<Form>, TypeError> {
    let behind = dim::product(&counted[axis + 1..]);
    let kept = (0..shape.len()).find(|&i| shape[i] == counted[axis] && dim::product(&shape[i + 1..]) == behind);
    let Some(kept) = kept else { return Ok(None) };
    let added = shape[..kept].iter().take_while(|extent| extent.as_const() == Some(1)).count();
    if shape[added..] == *counted {
        return Ok(None);
    }
    let counter = Prim::Iota { dtype, shape: shape[added..].to_vec(), axis: kept - added };
    if added == 0 {
        return Ok(Some(Form::prim(counter, Vec::new())));
    }
    Ok(Some(Form::prim(Prim::Reshape { shape: shape.to_vec() }, vec![b.prim(counter, &[])?])))
}

/// Groups that a slice takes.
struct Cut {
    axis: usize,
    start: Dim,
    end: Dim,
}

/// Lanes seen as groups, and the conversion that may stand behind the reshape.
struct Grouped {
    source: Value,
    shape: Vec<Dim>,
    cast: Option<Prim>,
}

impl Grouped {
    fn of(b: &Builder, x: Value) -> Option<Grouped> {
        let (mut made, mut cast) = (b.definition(x)?, None);
        if let (Op::Prim(prim @ Prim::Cast { .. }), from) = made {
            (made, cast) = (b.definition(from[0])?, Some(prim));
        }
        let (Op::Prim(Prim::Reshape { shape }), source) = made else { return None };
        Some(Grouped { source: source[0], shape, cast })
    }

    /// A slice of the lanes in another shape.
    fn cut(self, b: &Builder, flat: Vec<Dim>, slice: Prim) -> Result<Form, TypeError> {
        let mut whole = rewrite::emit(b, &Op::Prim(Prim::Reshape { shape: flat }), &[self.source])?[0];
        if let Some(cast) = self.cast {
            whole = b.prim(cast, &[whole])?;
        }
        Ok(Form::prim(slice, vec![whole]))
    }
}

/// The shape with an axis and as many behind it as one, and the extent of those behind.
fn merged(shape: &[Dim], axis: usize, behind: usize) -> (Vec<Dim>, Dim) {
    let inner = shape[axis + 1..=axis + behind].iter().fold(Dim::constant(1), |n, d| &n * d);
    let lanes = &shape[axis] * &inner;
    ([&shape[..axis], &[lanes], &shape[axis + behind + 1..]].concat(), inner)
}

/// One lane of groups of lanes that a reshape made, without its axis: every n-th lane.
fn every_nth(b: &Builder, shape: &[Dim], cut: &Cut, x: Value) -> Result<Option<Form>, TypeError> {
    let Some(groups) = Grouped::of(b, x) else { return Ok(None) };
    let axis = cut.axis;
    let one_lane = (&cut.end - &cut.start).as_const() == Some(1);
    let (Some(before), Some(step)) = (axis.checked_sub(1), groups.shape[axis].as_const()) else { return Ok(None) };
    if !one_lane || axis + 1 != groups.shape.len() || shape != &groups.shape[..axis] || step < 2 {
        return Ok(None);
    }
    let (flat, _) = merged(&groups.shape, before, 1);
    let slice = Prim::Slice { axis: before, start: cut.start.clone(), end: flat[before].clone(), step };
    groups.cut(b, flat, slice).map(Some)
}

/// Groups that a reshape made, one of its axes and those that it split off behind as one again: neighbouring lanes.
fn neighbours(b: &Builder, shape: &[Dim], cut: &Cut, x: Value) -> Result<Option<Form>, TypeError> {
    let Some(groups) = Grouped::of(b, x) else { return Ok(None) };
    let axis = cut.axis;
    let Some(behind) = groups.shape.len().checked_sub(shape.len()).filter(|&n| n > 0) else { return Ok(None) };
    if axis + behind >= groups.shape.len() {
        return Ok(None);
    }
    let (mut flat, inner) = merged(&groups.shape, axis, behind);
    let (start, end) = (&cut.start * &inner, &cut.end * &inner);
    let lanes = std::mem::replace(&mut flat[axis], &end - &start);
    if shape != flat {
        return Ok(None);
    }
    flat[axis] = lanes;
    groups.cut(b, flat, Prim::Slice { axis, start, end, step: 1 }).map(Some)
}

/// Pieces that were given an axis to be joined along, joined with it taken away: the pieces joined end to end.
fn joined(b: &Builder, shape: &[Dim], axis: usize, pieces: &[Value]) -> Option<Form> {
    let whole = b.ty(*pieces.first()?).shape;
    let behind = whole.len().checked_sub(shape.len()).filter(|&n| n > 0 && axis + n < whole.len())?;
    let lanes = |piece: &Value| {
        let Some((Op::Prim(Prim::Reshape { shape: groups }), source)) = b.definition(*piece) else { return None };
        (b.ty(source[0]).shape == merged(&groups, axis, behind).0).then_some(source[0])
    };
    let sources = pieces.iter().map(lanes).collect::<Option<Vec<Value>>>()?;
    let total = sources.iter().fold(Dim::constant(0), |n, &v| &n + &b.ty(v).shape[axis]);
    let mut flat = b.ty(sources[0]).shape;
    flat[axis] = total;
    (shape == flat).then(|| Form::prim(Prim::Cat { axis }, sources))
}

/// Pieces of one extent joined end to end, which a reshape takes apart again: the pieces joined along an axis of their
/// own. Lanes whose number is known are one row in either spelling, and stay as they are joined; so do rows whose number
/// is known, unless these are the outermost, which are taken apart as they were.
fn stacked(b: &Builder, shape: &[Dim], axis: usize, pieces: &[Value]) -> Result<Option<Form>, TypeError> {
    let of_piece = b.ty(pieces[0]).shape;
    let alike = pieces.iter().all(|&piece| b.ty(piece).shape == of_piece);
    if !alike || pieces.len() < 2 {
        return Ok(None);
    }
    let beside = |ways: i64| [&of_piece[..axis], &[Dim::constant(ways)], &of_piece[axis..]].concat();
    let apart = i64::try_from(pieces.len()).is_ok_and(|ways| shape == beside(ways));
    if of_piece[axis].as_const().is_some() && (!apart || axis > 0 || of_piece.len() == 1) {
        return Ok(None);
    }
    let behind = dim::product(&of_piece[axis..]);
    if behind.as_const() == Some(0) || !(0..=shape.len()).any(|i| dim::product(&shape[i..]) == behind) {
        return Ok(None);
    }
    let mut parts = Vec::with_capacity(pieces.len());
    for &piece in pieces {
        parts.extend(rewrite::emit(b, &Op::Prim(Prim::Reshape { shape: beside(1) }), &[piece])?);
    }
    let stack = Prim::Cat { axis };
    if apart {
        return Ok(Some(Form::prim(stack, parts)));
    }
    let stack = rewrite::emit(b, &Op::Prim(stack), &parts)?;
    Ok(Some(Form::prim(Prim::Reshape { shape: shape.to_vec() }, stack)))
}

#[cfg(test)]
mod tests {
    use fusewright_graph::DType::BF16;
    use fusewright_graph::interp::{Symbols, run};
    use fusewright_graph::operands::{Values, tensors};
    use fusewright_graph::{Graph, ScalarFn, TensorType};

    use super::*;
    use crate::pass::{Cx, PassManager};
    use crate::passes::tests::{dims, names, ops};

    fn cut(b: &Builder, x: Value, axis: usize, from: i64, to: i64) -> Result<Value, TypeError> {
        b.slice(x, axis, Dim::constant(from), Dim::constant(to))
    }

    #[test]
    fn one_lane_of_each_group_is_every_nth_lane() {
        let lane = |b: &Builder, x, at: i64| {
            let groups = b.reshape(x, dims(&[4, 4, 2]))?;
            b.reshape(cut(b, groups, 3, at, at + 1)?, dims(&[4, 4]))
        };
        assert_eq!(ops(|b, x| lane(b, x, 1)), ["slice"]);
        let cast = |b: &Builder, x| b.cast(x, BF16);
        assert_eq!(ops(|b, x| lane(b, cast(b, x)?, 0)), ["cast", "slice"]);
        // An axis that no reshape split off, and several lanes.
        let first = |b: &Builder, x| b.reshape(cut(b, x, 1, 0, 1)?, dims(&[8]));
        assert_eq!(ops(first), ["slice", "reshape"]);
        let two = |b: &Builder, x| b.reshape(cut(b, b.reshape(x, dims(&[4, 2, 4]))?, 3, 0, 2)?, dims(&[4, 4]));
        assert_eq!(ops(two), ["reshape", "slice", "reshape"]);
    }

    #[test]
    fn groups_without_their_axis_are_neighbouring_lanes() {
        let half =
            |b: &Builder, x, at: i64| b.reshape(cut(b, b.reshape(x, dims(&[4, 2, 4]))?, 2, at, at + 1)?, dims(&[4, 4]));
        assert_eq!(ops(|b, x| half(b, x, 0)), ["slice"]);
        assert_eq!(ops(|b, x| half(b, x, 1)), ["slice"]);
        assert_eq!(ops(|b, x| half(b, b.cast(x, BF16)?, 1)), ["cast", "slice"]);
        // Several groups, groups of two axes, and lanes that were in another shape before.
        let of = |groups: &'static [i64], axis, [from, to]: [i64; 2], shape: &'static [i64]| {
            ops(move |b, x| b.reshape(cut(b, b.reshape(x, dims(groups))?, axis, from, to)?, dims(shape)))
        };
        assert_eq!(of(&[4, 4, 2], 2, [1, 3], &[4, 4]), ["slice"]);
        assert_eq!(of(&[4, 2, 2, 2], 2, [1, 2], &[4, 4]), ["slice"]);
        assert_eq!(of(&[2, 2, 2, 4], 3, [1, 2], &[2, 2, 4]), ["reshape", "slice"]);
        assert_eq!(of(&[2, 2, 2, 4], 1, [1, 2], &[2, 2, 4]), ["reshape", "slice"]);
        // Other axes than those that were split off.
        assert_eq!(of(&[4, 2, 4], 2, [1, 2], &[2, 8]), ["reshape", "slice", "reshape"]);
    }

    #[test]
    fn pieces_joined_along_an_axis_of_their_own_are_joined_end_to_end() {
        let stack = |axis: usize, pieces: &'static [i64], shape: &'static [i64], flat: &'static [i64]| {
            ops(move |b, x| {
                let turned = b.map(ScalarFn::Neg, &[x])?;
                let parts = [b.reshape(turned, dims(pieces))?, b.reshape(x, dims(pieces))?];
                let joined = b.cat(&parts, axis)?;
                assert_eq!(b.ty(joined).shape, dims(shape));
                b.reshape(joined, dims(flat))
            })
        };
        assert_eq!(stack(2, &[4, 1, 8], &[4, 2, 8], &[4, 16]), ["neg", "cat"]);
        assert_eq!(stack(1, &[1, 4, 8], &[2, 4, 8], &[8, 8]), ["neg", "cat"]);
        assert_eq!(stack(2, &[4, 2, 4], &[4, 4, 4], &[4, 16]), ["neg", "cat"]);
        // Neighbours, and two axes that were apart.
        let stay = ["neg", "reshape", "reshape", "cat", "reshape"];
        assert_eq!(stack(3, &[4, 8, 1], &[4, 8, 2], &[4, 16]), stay);
        assert_eq!(stack(2, &[4, 1, 8], &[4, 2, 8], &[8, 8]), stay);
        assert_eq!(stack(2, &[4, 1, 8], &[4, 2, 8], &[64]), stay);
    }

    /// What is left of `x: f32[b, s, 8]` and its negative, joined along the second axis and reshaped.
    fn stacked_rows(shape: impl Fn(&Dim, &Dim) -> Vec<Dim>) -> Vec<String> {
        let b = Builder::new("g");
        let [rows, lanes] = ["b", "s"].map(Dim::symbol);
        let x = b.input("x", TensorType::new(DType::F32, [rows.clone(), lanes.clone(), Dim::constant(8)]));
        let turned = b.map(ScalarFn::Neg, &[x]).expect("negative");
        let joined = b.cat(&[x, turned], 1).expect("joined");
        b.output(b.reshape(joined, shape(&rows, &lanes)).expect("divided"));
        left(&b.finish(), 1)
    }

    /// The ops that are left of a graph, which computes the same.
    fn left(graph: &Graph, symbols: i64) -> Vec<String> {
        let (out, _) = PassManager::default().run(graph, &mut Cx::default(), &mut []).expect("runs");
        let inputs = tensors(graph, symbols, Values::Ordinary);
        let [before, after] = [graph, &out].map(|g| run(g, &inputs, &Symbols::new()).expect("runs"));
        assert_eq!(before, after, "{graph}");
        names(&out)
    }

    #[test]
    fn rows_joined_and_taken_apart_again_are_stacked() {
        let two = || Dim::constant(2);
        let stack = ["neg", "reshape", "reshape", "cat"];
        assert_eq!(stacked_rows(|b, s| vec![b.clone(), two(), s.clone(), Dim::constant(8)]), stack);
        let behind = [stack.as_slice(), &["reshape"]].concat();
        assert_eq!(stacked_rows(|b, s| vec![b * &two(), s.clone(), Dim::constant(8)]), behind);
        assert_eq!(stacked_rows(|b, s| vec![b.clone(), two(), s * &Dim::constant(8)]), behind);
        // Lanes are taken apart, and rows of which one piece has a part each.
        let stay = ["neg", "cat", "reshape"];
        assert_eq!(stacked_rows(|b, s| vec![b.clone(), s * &two(), Dim::constant(4), two()]), stay);
        assert_eq!(stacked_rows(|b, s| vec![b.clone(), s.clone(), two(), Dim::constant(8)]), stay);
        // The number of rows is known.
        let known = |b: &Builder, x| b.reshape(b.cat(&[b.map(ScalarFn::Neg, &[x])?, x], 1)?, dims(&[2, 4, 8]));
        assert_eq!(ops(known), stay);
        // So is that of the outermost, and no more than that is taken apart.
        let outermost = |x: &[i64], shape: &[i64]| {
            let extents = |shape: &[i64]| shape.iter().map(|&n| Dim::constant(n)).collect::<Vec<_>>();
            let b = Builder::new("g");
            let x = b.input("x", TensorType::new(DType::F32, extents(x)));
            let turned = b.map(ScalarFn::Neg, &[x]).expect("negative");
            let joined = b.cat(&[x, turned], 0).expect("joined");
            b.output(b.reshape(joined, extents(shape)).expect("divided"));
            left(&b.finish(), 1)
        };
        assert_eq!(outermost(&[3, 8], &[2, 3, 8]), stack);
        assert_eq!(outermost(&[3, 8], &[2, 3, 4, 2]), stay);
        assert_eq!(outermost(&[8], &[2, 8]), stay);
    }

    #[test]
    fn counters_of_other_shapes_are_counters() {
        let reshaped = |counted: fn(Dim) -> Vec<Dim>, axis, shape: fn(Dim) -> Vec<Dim>| {
            let b = Builder::new("g");
            let s = Dim::symbol("s");
            b.input("x", TensorType::new(DType::F32, [s.clone()]));
            let iota = Prim::Iota { dtype: DType::I64, shape: counted(s.clone()), axis };
            let counter = b.prim(iota, &[]).expect("counter");
            b.output(b.reshape(counter, shape(s)).expect("reshape"));
            left(&b.finish(), 3)
        };
        assert_eq!(reshaped(|s| vec![s], 0, |s| vec![s, 1.into()]), ["iota"]);
        assert_eq!(reshaped(|s| vec![s, 4.into()], 0, |s| vec![s, 2.into(), 2.into()]), ["iota"]);
        assert_eq!(reshaped(|s| vec![1.into(), s], 1, |s| vec![s]), ["iota"]);
        // Broadcasting adds leading axes.
        assert_eq!(reshaped(|s| vec![s], 0, |s| vec![1.into(), s]), ["iota", "reshape"]);
        assert_eq!(reshaped(|s| vec![s], 0, |s| vec![1.into(), s, 1.into()]), ["iota", "reshape"]);
        assert_eq!(reshaped(|s| vec![1.into(), s], 1, |s| vec![1.into(), 1.into(), s]), ["iota", "reshape"]);
        // The counted axis is divided, and joined with one before it.
        assert_eq!(
            reshaped(|_| vec![8.into()], 0, |_| vec![2.into(), 4.into()]).last().map(String::as_str),
            Some("reshape")
        );
        assert_eq!(reshaped(|s| vec![s, 4.into()], 1, |s| vec![&s * &4.into()]), ["iota", "reshape"]);
    }
}
