//! Layout hoisted above elementwise functions, so that every reader of a value computes the part that it reads.
//!
//! A slice of a sum is the sum of slices: the parts of a packed projection with a bias have rows of their own then. A
//! weight that is converted once and read by every head is converted by each: its lanes lie in the order of the row. A
//! slice of rows that were gathered is a gather by a slice of the indices, so that these may be computed too, and a slice
//! of joined lanes that lies in one part is a slice of that.
//! What is moved keeps every bit. More is computed than before, so this is for bodies that are no row program else.

use std::collections::HashMap;
use std::ops::Range;

use fusewright_graph::{Builder, Dim, Graph, Node, Op, Prim, TensorType, TypeError, Value, infer};

use super::parted::of_joined;
use crate::passes;

/// A body of primitives with layout in front of elementwise functions; `None` if it has none behind them.
pub(super) fn hoisted(body: &Graph) -> Option<Graph> {
    let mut hoist = Hoist::default();
    let graph = body.rebuild(|b, _, node, operands| hoist.node(b, node, operands)).ok()?;
    if !hoist.changed {
        return None;
    }
    let merged = passes::cse(&graph).map_or(graph, |(merged, _)| merged);
    Some(passes::dce(&merged).0)
}

/// What is known of the values built so far. It is only looked up, so its order cannot show.
#[derive(Default)]
pub(super) struct Hoist {
    changed: bool,
    /// Whether joined lanes are computed part by part, and whether any were.
    parts: bool,
    pub joined: bool,
    moved: HashMap<(Prim, Value), Value>,
    of_views: HashMap<Value, bool>,
}

impl Hoist {
    /// One that computes joined lanes part by part.
    pub fn of_parts() -> Hoist {
        Hoist { parts: true, ..Hoist::default() }
    }

    pub fn node(&mut self, b: &Builder, node: &Node, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        match &node.op {
            Op::Prim(prim) if is_moved(prim) => Ok(vec![self.layout(b, prim, operands[0])?]),
            Op::Prim(prim @ Prim::Map(_)) => {
                let shape = broadcast(b, operands);
                let mut spread = Vec::with_capacity(operands.len());
                for &operand in operands {
                    spread.push(self.spread(b, operand, &shape)?);
                }
                Ok(vec![b.prim(prim.clone(), &spread)?])
            }
            op => b.op(op.clone(), operands),
        }
    }

    /// A layout op on a value, in front of the function that computes it.
    pub fn layout(&mut self, b: &Builder, prim: &Prim, x: Value) -> Result<Value, TypeError> {
        let key = (prim.clone(), x);
        if let Some(&known) = self.moved.get(&key) {
            return Ok(known);
        }
        let value = match b.definition(x) {
            Some((Op::Prim(function @ (Prim::Map(_) | Prim::Cast { .. })), operands)) => {
                self.in_front(b, prim, x, &function, &operands)?
            }
            // A counter in another shape is another counter: what counts rows and what counts lanes have axes of their own.
            Some((Op::Prim(Prim::Iota { .. }), _)) if matches!(prim, Prim::Reshape { .. }) => {
                passes::simplest(b, &Op::Prim(prim.clone()), &[x])?.first().copied()
            }
            Some((Op::Prim(other @ Prim::Slice { .. }), operands)) => self.of_slice(b, prim, &other, operands[0])?,
            Some((Op::Prim(Prim::Reshape { .. }), operands)) if self.parts && matches!(prim, Prim::Reshape { .. }) => {
                Some(self.reshaped(b, prim, operands[0])?)
            }
            Some((Op::Prim(Prim::Cat { axis }), operands)) => match of_joined(b, prim, axis, &operands) {
                Some((part, cut)) => {
                    self.changed = true;
                    Some(cut.map_or(Ok(part), |cut| self.layout(b, &cut, part))?)
                }
                None if self.parts => self.joined_reshaped(b, prim, axis, &operands)?,
                None => None,
            },
            Some((Op::Prim(of @ (Prim::Gather { .. } | Prim::Reshape { .. })), operands)) => {
                self.of_gathered(b, prim, &of, &operands)?
            }
            _ => None,
        };
        let value = match value {
            Some(value) => value,
            None => b.prim(prim.clone(), &[x])?,
        };
        self.moved.insert(key, value);
        Ok(value)
    }

    fn in_front(
        &mut self,
        b: &Builder,
        prim: &Prim,
        x: Value,
        function: &Prim,
        operands: &[Value],
    ) -> Result<Option<Value>, TypeError> {
        // What is reduced is repeated after all functions of it.
        if matches!(prim, Prim::Expand { .. }) && !self.is_of_views(b, x) {
            return Ok(None);
        }
        let shape = b.ty(x).shape;
        let mut moved = Vec::with_capacity(operands.len());
        for &operand in operands {
            let Some(layout) = layout_of(b, prim, &shape, operand) else { return Ok(None) };
            let mut value = operand;
            for prim in layout {
                value = self.layout(b, &prim, value)?;
            }
            moved.push(value);
        }
        let value = b.prim(function.clone(), &moved)?;
        // Operands of one element stay as they are, also where the function has no others.
        let wanted = infer(prim, &[&b.ty(x)])?;
        if wanted.first().is_none_or(|wanted| *wanted != b.ty(value)) {
            return Ok(None);
        }
        self.changed = true;
        Ok(Some(value))
    }

    /// A slice of what is sliced along another axis.
    fn of_slice(&mut self, b: &Builder, prim: &Prim, other: &Prim, x: Value) -> Result<Option<Value>, TypeError> {
        match (prim, other) {
            (Prim::Slice { axis, .. }, Prim::Slice { axis: before, .. }) if axis != before => {
                let first = self.layout(b, prim, x)?;
                b.prim(other.clone(), &[first]).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A slice of gathered rows, which a reshape may have divided, as a gather by a slice of the indices.
    fn of_gathered(
        &mut self,
        b: &Builder,
        prim: &Prim,
        of: &Prim,
        operands: &[Value],
    ) -> Result<Option<Value>, TypeError> {
        let Prim::Slice { axis, start, end, step } = prim else { return Ok(None) };
        let (gather, divided) = match of {
            Prim::Reshape { shape } => (b.definition(operands[0]), Some(shape)),
            gather => (Some((Op::Prim(gather.clone()), operands.to_vec())), None),
        };
        let Some((Op::Prim(gather @ Prim::Gather { axis: gathered }), sources)) = gather else { return Ok(None) };
        let rows = infer(&gather, &[&b.ty(sources[0]), &b.ty(sources[1])])?;
        let Some(below) = below(&rows[0].shape, divided, *axis).filter(|_| *axis == gathered) else { return Ok(None) };
        if *step != 1 && !is_one(&below) {
            return Ok(None);
        }
        let part = Prim::Slice { axis: 0, start: start * &below, end: end * &below, step: *step };
        let places = self.layout(b, &part, sources[1])?;
        let mut value = b.prim(gather, &[sources[0], places])?;
        if let Some(shape) = divided {
            let whole = TensorType::new(b.dtype(value), shape.clone());
            let wanted = infer(prim, &[&whole])?;
            value = b.reshape(value, wanted[0].shape.clone())?;
        }
        self.changed = true;
        Ok(Some(value))
    }

    /// An operand of a function, computed of views for everything that the function repeats it over but the outermost dim.
    fn spread(&mut self, b: &Builder, x: Value, shape: &[Dim]) -> Result<Value, TypeError> {
        let extents = b.ty(x).shape;
        let computed = matches!(b.definition(x), Some((Op::Prim(Prim::Map(_) | Prim::Cast { .. }), _)));
        if !computed || extents.iter().all(is_one) || !self.is_of_views(b, x) {
            return Ok(x);
        }
        let own = aligned(&extents, shape.len());
        let wide = own.iter().take(1).chain(shape.iter().skip(1));
        let wide: Vec<Dim> = wide.skip_while(|extent| is_one(extent)).cloned().collect();
        if wide.len() < extents.len() || wide == extents {
            return Ok(x);
        }
        self.layout(b, &Prim::Expand { shape: wide }, x)
    }

    /// Whether a value is a function of single elements of inputs and constants.
    fn is_of_views(&mut self, b: &Builder, x: Value) -> bool {
        if let Some(&known) = self.of_views.get(&x) {
            return known;
        }
        let is = match b.definition(x) {
            None => true,
            Some((Op::Prim(prim), operands)) => {
                let pointwise = is_moved(&prim) || matches!(prim, Prim::Map(_) | Prim::Cast { .. });
                let constant = matches!(prim, Prim::Literal(_) | Prim::SizeOf(_) | Prim::Iota { .. });
                constant || (pointwise && operands.iter().all(|&operand| self.is_of_views(b, operand)))
            }
            Some(_) => false,
        };
        self.of_views.insert(x, is);
        is
    }
}

fn is_moved(prim: &Prim) -> bool {
    matches!(prim, Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } | Prim::Slice { .. })
}

/// How many elements of a dim one of the outermost dim has into which a reshape divides it; `None` if it divides others.
fn below(shape: &[Dim], divided: Option<&Vec<Dim>>, axis: usize) -> Option<Dim> {
    let Some(divided) = divided else { return (axis < shape.len()).then(|| Dim::constant(1)) };
    let behind = divided.len().checked_sub(shape.get(axis + 1..)?.len())?;
    let parts = divided.get(axis + 1..behind)?;
    let same = divided[..axis] == shape[..axis] && divided[behind..] == shape[axis + 1..];
    same.then(|| parts.iter().fold(Dim::constant(1), |n, extent| &n * extent))
}

pub(super) fn is_one(extent: &Dim) -> bool {
    extent.as_const() == Some(1)
}

/// Extents with as many of 1 in front as broadcasting puts there.
fn aligned(extents: &[Dim], rank: usize) -> Vec<Dim> {
    let added = rank.saturating_sub(extents.len());
    std::iter::repeat_n(Dim::constant(1), added).chain(extents.iter().cloned()).collect()
}

/// The shape that operands of a function broadcast to.
fn broadcast(b: &Builder, operands: &[Value]) -> Vec<Dim> {
    let shapes: Vec<Vec<Dim>> = operands.iter().map(|&v| b.ty(v).shape).collect();
    let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
    let mut joined = vec![Dim::constant(1); rank];
    for shape in shapes {
        for (slot, extent) in joined.iter_mut().zip(aligned(&shape, rank)).filter(|(slot, _)| is_one(slot)) {
            *slot = extent;
        }
    }
    joined
}

/// The layout ops on an operand of a function that make a layout op on the function's result, of the given shape.
fn layout_of(b: &Builder, prim: &Prim, shape: &[Dim], operand: Value) -> Option<Vec<Prim>> {
    let extents = b.ty(operand).shape;
    let own = aligned(&extents, shape.len());
    if own.iter().all(is_one) {
        let fits = match prim {
            Prim::Reshape { shape } => extents.len() <= shape.len(),
            _ => true,
        };
        return Some(if fits { Vec::new() } else { vec![Prim::Reshape { shape: Vec::new() }] });
    }
    let added = shape.len() - extents.len();
    Some(match prim {
        Prim::Slice { axis, .. } if is_one(&own[*axis]) && !is_one(&shape[*axis]) => Vec::new(),
        Prim::Slice { axis, start, end, step } => {
            vec![Prim::Slice { axis: axis - added, start: start.clone(), end: end.clone(), step: *step }]
        }
        Prim::Permute { .. } if added == 0 => vec![prim.clone()],
        Prim::Permute { .. } => vec![Prim::Reshape { shape: own }, prim.clone()],
        Prim::Expand { .. } => vec![prim.clone()],
        Prim::Reshape { shape: wanted } => {
            let mut made = Vec::with_capacity(wanted.len());
            for (from, to) in factors(shape, wanted)? {
                let part = &own[from.clone()];
                match part {
                    part if *part == shape[from] => made.extend_from_slice(&wanted[to]),
                    part if part.iter().all(is_one) => made.extend(to.map(|_| Dim::constant(1))),
                    _ => return None,
                }
            }
            // Leading extents of 1 are the function's where the operand has all of its extents.
            let made: Vec<Dim> = if extents == shape { made } else { made.into_iter().skip_while(is_one).collect() };
            if made == extents { Vec::new() } else { vec![Prim::Reshape { shape: made }] }
        }
        _ => return None,
    })
}

/// The least runs of dims that a reshape turns into each other.
pub(super) fn factors(from: &[Dim], to: &[Dim]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let mut runs: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        let (first, second) = (i, j);
        let (mut left, mut right) = (from[i].clone(), to[j].clone());
        (i, j) = (i + 1, j + 1);
        while left != right {
            if right.exact_div(&left).is_some() && i < from.len() {
                left = &left * &from[i];
                i += 1;
            } else if left.exact_div(&right).is_some() && j < to.len() {
                right = &right * &to[j];
                j += 1;
            } else {
                return None;
            }
        }
        runs.push((first..i, second..j));
    }
    // What is left has extents of 1.
    if !from[i..].iter().chain(&to[j..]).all(is_one) {
        return None;
    }
    match runs.last_mut() {
        Some((last_from, last_to)) => (last_from.end, last_to.end) = (from.len(), to.len()),
        None => runs.push((0..from.len(), 0..to.len())),
    }
    Some(runs)
}
