//! Outputs that are concatenations, stored part by part: heads of query, key and value in one packed row.
//!
//! Each part runs over rows of its own, so that no row of lanes holds all of them. As outputs of their own they are
//! pieces of one tensor, which are disjoint and cover it.

use fusewright_graph::axes::contiguous_strides;
use fusewright_graph::padding::Pad;
use fusewright_graph::{Builder, Def, Dim, Graph, NodeId, Op, Prim, Value};

use super::form::Piece;
use super::hoist::factors;
use super::{RowForm, windows};
use crate::passes;

/// A body of primitives with the parts of concatenations as outputs; `None` if no output is one. Parts that are
/// concatenations themselves are taken apart too if `deep`.
pub(super) fn packed(body: &Graph, deep: bool) -> Option<RowForm> {
    let users = body.users();
    let mut found = Parts { body, users: &users, deep, pieces: Vec::new() };
    for (i, output) in body.outputs().iter().enumerate() {
        let whole = Piece::whole(i, &body.ty(output.value).shape);
        let returned = body.outputs().iter().filter(|other| other.value == output.value).count();
        if returned == 1 && users[output.value.0 as usize].is_empty() {
            found.take(output.value, whole);
        } else {
            found.pieces.push((output.value, whole));
        }
    }
    let pieces = found.pieces;
    if pieces.len() == body.outputs().len() {
        return None;
    }
    let is_part = |value: Value, piece: &Piece| body.outputs()[piece.output].value != value;
    if pieces.iter().any(|(value, piece)| is_part(*value, piece) && windows::is_written(body, *value)) {
        return windows::windowed(body, &pieces);
    }
    let parts: Vec<Value> = pieces.iter().map(|(value, _)| *value).collect();
    let body = returning(body, &parts)?;
    Some(RowForm {
        inputs: (0..body.inputs().len()).collect(),
        body,
        pieces: pieces.into_iter().map(|p| p.1).collect(),
    })
}

/// What outputs are made of, in order.
struct Parts<'a> {
    body: &'a Graph,
    users: &'a [Vec<NodeId>],
    deep: bool,
    pieces: Vec<(Value, Piece)>,
}

impl Parts<'_> {
    /// Takes a value that nothing but its piece of an output needs: its parts, if it is a concatenation.
    fn take(&mut self, value: Value, piece: Piece) {
        let Def::Node(id, _) = self.body.def(value) else { return self.pieces.push((value, piece)) };
        let node = self.body.node(id);
        match &node.op {
            Op::Prim(Prim::Cat { axis }) if Pad::of(self.body, id).is_none() => {
                let mut offset = piece.offset.clone();
                for &operand in &node.operands {
                    let start = offset.clone();
                    offset = &offset + &(&self.body.ty(operand).shape[*axis] * &piece.strides[*axis]);
                    let part = Piece { offset: start, ..piece.clone() };
                    if self.deep && self.is_own(operand) {
                        self.take(operand, part);
                    } else {
                        self.pieces.push((operand, part));
                    }
                }
            }
            Op::Prim(Prim::Reshape { shape }) => {
                let operand = node.operands[0];
                match restrided(shape, &piece.strides, &self.body.ty(operand).shape) {
                    Some(strides) if self.is_packed(operand) => self.take(operand, Piece { strides, ..piece }),
                    _ => self.pieces.push((value, piece)),
                }
            }
            _ => self.pieces.push((value, piece)),
        }
    }

    /// Whether one node alone reads a value.
    fn is_own(&self, value: Value) -> bool {
        self.users[value.0 as usize].len() == 1 && !self.body.is_output(value)
    }

    /// Whether a value is a concatenation, seen through reshapes, that one node alone reads.
    fn is_packed(&self, mut value: Value) -> bool {
        while self.is_own(value) {
            let Def::Node(id, _) = self.body.def(value) else { return false };
            match &self.body.node(id).op {
                Op::Prim(Prim::Cat { .. }) => return true,
                Op::Prim(Prim::Reshape { .. }) => value = self.body.node(id).operands[0],
                _ => return false,
            }
        }
        false
    }
}

/// The strides of a shape whose elements are those of another shape with strides, in order; `None` if none give them.
pub(super) fn restrided(shape: &[Dim], strides: &[Dim], to: &[Dim]) -> Option<Vec<Dim>> {
    let mut made = vec![Dim::constant(0); to.len()];
    for (from, into) in factors(shape, to)? {
        let wide: Vec<usize> = from.filter(|&i| shape[i].as_const() != Some(1)).collect();
        let merges = |pair: &[usize]| strides[pair[0]] == &strides[pair[1]] * &shape[pair[1]];
        if !wide.windows(2).all(merges) {
            return None;
        }
        let innermost = wide.last().map_or(Dim::constant(0), |&i| strides[i].clone());
        for (i, stride) in into.clone().zip(contiguous_strides(&to[into])) {
            made[i] = &stride * &innermost;
        }
    }
    Some(made)
}

/// A body with other outputs, and without what these do not need.
pub(super) fn returning(body: &Graph, values: &[Value]) -> Option<Graph> {
    let b = Builder::new(body.name());
    for symbol in body.symbols() {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
    let mut map: Vec<Option<Value>> = vec![None; body.value_count()];
    for input in body.inputs() {
        map[input.value.0 as usize] = Some(b.add_input(&input.name, body.ty(input.value).clone(), input.kind.clone()));
    }
    for id in body.node_ids() {
        let node = body.node(id);
        b.set_origin(node.origin.clone());
        let operands = node.operands.iter().map(|v| map[v.0 as usize]).collect::<Option<Vec<Value>>>()?;
        for (&old, new) in node.results.iter().zip(b.op(node.op.clone(), &operands).ok()?) {
            map[old.0 as usize] = Some(new);
        }
    }
    for value in values {
        b.add_output(map[value.0 as usize]?, None);
    }
    Some(passes::dce(&b.finish()).0)
}
