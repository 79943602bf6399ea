//! Functions of joined lanes, computed part by part.
//!
//! A rotation joins the halves of each head. No row of lanes holds the halves of all heads side by side, but each half of
//! all heads is one: so a scale of all heads behind their rotation, or a norm of all heads before it, is one row program
//! with the rotation. An output is the concatenation of its parts, which are stored as pieces of it, and an extreme is
//! that of the extremes of the parts. What is computed keeps every bit: sums of floats stay as they are.

use std::collections::BTreeSet;
use std::ops::Range;

use fusewright_graph::{Builder, Dim, Graph, Op, Prim, ReduceOp, TypeError, Value, infer};

use super::hoist::{Hoist, factors, is_one};
use crate::passes;

/// A body of primitives in which functions of joined lanes are computed part by part; `None` if nothing is joined.
pub(super) fn parted(body: &Graph) -> Option<Graph> {
    let mut hoist = Hoist::of_parts();
    let graph = body.rebuild(|b, _, node, operands| {
        let mut results = match &node.op {
            Op::Prim(prim @ Prim::Reduce { .. }) => vec![hoist.reduction(b, prim, operands[0])?],
            _ => hoist.node(b, node, operands)?,
        };
        for (result, _) in results.iter_mut().zip(&node.results).filter(|(_, old)| body.is_output(**old)) {
            *result = hoist.in_parts(b, *result)?;
        }
        Ok::<_, TypeError>(results)
    });
    let graph = graph.ok().filter(|_| hoist.joined)?;
    let merged = passes::cse(&graph).map_or(graph, |(merged, _)| merged);
    Some(passes::dce(&merged).0)
}

impl Hoist {
    /// A reshape of what was reshaped.
    pub fn reshaped(&mut self, b: &Builder, prim: &Prim, x: Value) -> Result<Value, TypeError> {
        let wanted = infer(prim, &[&b.ty(x)])?;
        if wanted.first() == Some(&b.ty(x)) { Ok(x) } else { self.layout(b, prim, x) }
    }

    /// Joined lanes in another shape in which they are a dim as before, as parts in that shape.
    pub fn joined_reshaped(
        &mut self,
        b: &Builder,
        prim: &Prim,
        axis: usize,
        parts: &[Value],
    ) -> Result<Option<Value>, TypeError> {
        let (Prim::Reshape { shape: wanted }, Some(first)) = (prim, parts.first()) else { return Ok(None) };
        let mut shape = b.ty(*first).shape;
        shape[axis] = parts.iter().fold(Dim::constant(0), |n, &part| &n + &b.ty(part).shape[axis]);
        let whole = |(from, into): (Range<usize>, Range<usize>)| {
            (from == (axis..axis + 1) && into.len() == 1).then_some(into.start)
        };
        let Some(along) = factors(&shape, wanted).and_then(|runs| runs.into_iter().find_map(whole)) else {
            return Ok(None);
        };
        let mut reshaped = Vec::with_capacity(parts.len());
        for &part in parts {
            let mut shape = wanted.clone();
            shape[along] = b.ty(part).shape[axis].clone();
            reshaped.push(self.reshaped(b, &Prim::Reshape { shape }, part)?);
        }
        self.joined = true;
        b.cat(&reshaped, along).map(Some)
    }

    /// The parts of a value that is a function of joined lanes.
    fn parts(&mut self, b: &Builder, x: Value, of: Joined) -> Result<Vec<Value>, TypeError> {
        let Joined { shape, axis, extents } = of;
        let divided = if b.ty(x).shape == shape { x } else { self.layout(b, &Prim::Reshape { shape }, x)? };
        let mut start = Dim::constant(0);
        let mut parts = Vec::with_capacity(extents.len());
        for extent in extents {
            let end = &start + &extent;
            parts.push(self.layout(b, &Prim::Slice { axis, start, end: end.clone(), step: 1 }, divided)?);
            start = end;
        }
        self.joined = true;
        Ok(parts)
    }

    /// A function of joined lanes as the concatenation of its parts.
    fn in_parts(&mut self, b: &Builder, x: Value) -> Result<Value, TypeError> {
        let Some(of) = Joined::behind(b, x) else { return Ok(x) };
        let axis = of.axis;
        let parts = self.parts(b, x, of)?;
        // A part may be joined itself: the turned lanes of a head, beside those that stay.
        let parts = parts.into_iter().map(|part| self.in_parts(b, part)).collect::<Result<Vec<Value>, _>>()?;
        b.reshape(b.cat(&parts, axis)?, b.ty(x).shape)
    }

    /// An extreme over a dim along which lanes were joined as those of the parts.
    fn reduction(&mut self, b: &Builder, prim: &Prim, x: Value) -> Result<Value, TypeError> {
        let whole = b.prim(prim.clone(), &[x])?;
        let Prim::Reduce { op, axes, nan } = prim else { return Ok(whole) };
        // Extremes are the same in any order; sums of floats are as the whole row is added up.
        let in_any_order = matches!(op, ReduceOp::Max | ReduceOp::Min) || !b.dtype(x).is_float();
        let Some(of) = Joined::behind(b, x).filter(|_| in_any_order) else { return Ok(whole) };
        let over = reduced_dims(&b.ty(x).shape, &of.shape, axes).filter(|over| over.contains(&of.axis));
        let Some(over) = over else { return Ok(whole) };
        let of_part = Prim::Reduce { op: *op, axes: over, nan: *nan };
        let mut combined = None;
        for part in self.parts(b, x, of)? {
            let reduced = self.reduction(b, &of_part, part)?;
            combined = Some(match combined {
                Some(before) => b.map(op.step(*nan), &[before, reduced])?,
                None => reduced,
            });
        }
        match combined {
            Some(combined) => b.reshape(combined, b.ty(whole).shape),
            None => Ok(whole),
        }
    }
}

/// Lanes joined by a concatenation.
struct Joined {
    /// Of the concatenation, its dims divided as those of its function are: several heads may be one group.
    shape: Vec<Dim>,
    axis: usize,
    /// Of its operands along the axis.
    extents: Vec<Dim>,
}

impl Joined {
    /// The concatenation that a value is a function of, element by element.
    fn behind(b: &Builder, x: Value) -> Option<Joined> {
        let (mut stack, mut seen, own) = (vec![x], BTreeSet::new(), b.ty(x).shape);
        while let Some(x) = stack.pop() {
            let Some((op, operands)) = b.definition(x).filter(|_| seen.insert(x)) else { continue };
            match op {
                Op::Prim(Prim::Cat { axis }) => {
                    let extents = operands.iter().map(|&part| b.ty(part).shape[axis].clone()).collect();
                    let (shape, axis) = refined(&b.ty(x).shape, axis, &own).unwrap_or((b.ty(x).shape, axis));
                    return Some(Joined { shape, axis, extents });
                }
                Op::Prim(Prim::Cast { .. } | Prim::Reshape { .. }) => stack.push(operands[0]),
                Op::Prim(Prim::Map(_)) => {
                    let shape = b.ty(x).shape;
                    stack.extend(operands.into_iter().rev().filter(|&operand| b.ty(operand).shape == shape));
                }
                _ => {}
            }
        }
        None
    }
}

/// A shape with its dims divided where those of another one end, and where an axis is then, which stays whole; `None` if
/// dims of one do not divide those of the other.
fn refined(shape: &[Dim], axis: usize, by: &[Dim]) -> Option<(Vec<Dim>, usize)> {
    let (mut divided, mut at) = (Vec::new(), None);
    let mut others = by.iter();
    let mut left = Dim::constant(1);
    for (i, extent) in shape.iter().enumerate() {
        let mut rest = extent.clone();
        loop {
            while is_one(&left) && !is_one(&rest) {
                left = others.next()?.clone();
            }
            let (taken, of_rest, of_left) = match (rest.exact_div(&left), left.exact_div(&rest)) {
                (_, Some(of_left)) => (rest.clone(), Dim::constant(1), of_left),
                (Some(of_rest), None) => (left.clone(), of_rest, Dim::constant(1)),
                (None, None) => return None,
            };
            if i == axis {
                (taken == *extent).then(|| at = Some(divided.len()))?;
            }
            divided.push(taken);
            (rest, left) = (of_rest, of_left);
            if is_one(&rest) {
                break;
            }
        }
    }
    Some((divided, at?))
}

/// The part of joined lanes in which a slice lies, and the slice of it; none where it takes the whole part.
pub(super) fn of_joined(b: &Builder, prim: &Prim, joined: usize, parts: &[Value]) -> Option<(Value, Option<Prim>)> {
    let Prim::Slice { axis, start, end, step } = prim else { return None };
    let at_most = |low: &Dim, high: &Dim| (high - low).as_const().is_some_and(|distance| distance >= 0);
    let mut offset = Dim::constant(0);
    for &part in parts.iter().filter(|_| *axis == joined) {
        let behind = &offset + &b.ty(part).shape[joined];
        if at_most(&offset, start) && at_most(end, &behind) {
            let whole = offset == *start && behind == *end && *step == 1;
            let cut = Prim::Slice { axis: *axis, start: start - &offset, end: end - &offset, step: *step };
            return Some((part, (!whole).then_some(cut)));
        }
        offset = behind;
    }
    None
}

/// The dims of a shape into which a reshape divides reduced ones; `None` if others are in the same.
fn reduced_dims(shape: &[Dim], divided: &[Dim], axes: &[usize]) -> Option<Vec<usize>> {
    let mut over = Vec::new();
    for (from, into) in factors(shape, divided)? {
        let mut wide = from.filter(|&axis| !is_one(&shape[axis])).map(|axis| axes.contains(&axis));
        match wide.next() {
            Some(reduced) if !wide.all(|other| other == reduced) => return None,
            Some(true) => over.extend(into),
            _ => {}
        }
    }
    Some(over)
}
