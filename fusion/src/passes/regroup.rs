//! Lanes as groups: what a reshape splits off an axis, a slice or a concatenation works on, and another reshape takes
//! away again is a slice or a concatenation of the lanes themselves. The views by which models speak of halves, of heads
//! and of neighbours are thus spelled alike.

use fusewright_graph::{Builder, Dim, Op, Prim, TypeError, Value};

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
        Some((Op::Prim(Prim::Cat { axis }), pieces)) => Ok(joined(b, shape, axis, &pieces)),
        _ => Ok(None),
    }
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

#[cfg(test)]
mod tests {
    use fusewright_graph::DType::BF16;
    use fusewright_graph::ScalarFn;

    use super::*;
    use crate::passes::tests::{dims, ops};

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
}
