//! Streams: what the two operands of a gate are. A value and a function of it are one stream, and so are lanes of a
//! tensor that share an element.

use std::collections::BTreeSet;

use fusewright_graph::{Dim, Prim, Value};

use super::skeleton::Skeleton;

/// Whether a value depends on anything else than the stream of `x` and numbers.
pub(super) fn is_apart(s: &Skeleton<'_>, value: Value, x: Value) -> bool {
    let own = source(s, x);
    let mut seen = BTreeSet::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if s.same(own, value) || s.constant(value).is_some() || !seen.insert(value) {
            continue;
        }
        match share(s, value, own) {
            Some(true) => continue,
            Some(false) => return true,
            None => {}
        }
        match s.body.def_node(value) {
            None => return true,
            Some(node) if node.operands.is_empty() => return true,
            Some(node) => open.extend(&node.operands),
        }
    }
    false
}

/// The value that `x` is an elementwise function of, of it alone and numbers.
fn source(s: &Skeleton<'_>, x: Value) -> Value {
    let mut x = s.peel(x);
    while let Some((Prim::Map(_), node)) = s.prim(x) {
        let mut of = node.operands.iter().filter(|&&v| s.constant(v).is_none()).map(|&v| s.peel(v));
        match of.next() {
            Some(first) if of.all(|v| v == first) => x = first,
            _ => break,
        }
    }
    only_leaf(s, x).unwrap_or(x)
}

/// The value that all paths of elementwise functions from `x` lead to.
fn only_leaf(s: &Skeleton<'_>, x: Value) -> Option<Value> {
    let mut leaf = None;
    let mut seen = BTreeSet::new();
    let mut open = vec![x];
    while let Some(value) = open.pop().map(|value| s.peel(value)) {
        if s.constant(value).is_some() || !seen.insert(value) {
            continue;
        }
        match s.prim(value) {
            Some((Prim::Map(_), node)) => open.extend(&node.operands),
            _ if leaf.is_none() => leaf = Some(value),
            _ => return None,
        }
    }
    leaf
}

/// Whether two values that are the same tensor or lanes of it share elements; `None` if they are of two tensors.
fn share(s: &Skeleton<'_>, a: Value, b: Value) -> Option<bool> {
    let (a, b) = (Lanes::of(s, a), Lanes::of(s, b));
    (a.of == b.of).then(|| !a.is_clear_of(&b))
}

/// Lanes of a tensor, or all of it.
struct Lanes<'g> {
    of: Value,
    cut: Option<Cut<'g>>,
}

struct Cut<'g> {
    shape: &'g [Dim],
    axis: usize,
    start: &'g Dim,
    end: &'g Dim,
    step: i64,
}

impl<'g> Lanes<'g> {
    fn of(s: &Skeleton<'g>, value: Value) -> Self {
        let value = s.peel(value);
        match s.prim(value) {
            Some((Prim::Slice { axis, start, end, step }, node)) => {
                let cut = Cut { shape: &s.body.ty(node.operands[0]).shape, axis: *axis, start, end, step: *step };
                Lanes { of: s.peel(node.operands[0]), cut: Some(cut) }
            }
            _ => Lanes { of: value, cut: None },
        }
    }

    /// Whether it is known that no lane is in both.
    fn is_clear_of(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (&self.cut, &other.cut) else { return false };
        let behind = |a: &Cut<'_>, b: &Cut<'_>| (a.start - b.end).as_const().is_some_and(|d| d >= 0);
        let between = || a.step == b.step && (a.start - b.start).as_const().is_some_and(|d| d % a.step != 0);
        a.shape == b.shape && a.axis == b.axis && (behind(a, b) || behind(b, a) || between())
    }
}
