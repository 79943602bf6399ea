//! Rotary position embedding: pairs of lanes turned by the angles of a table.

use fusewright_graph::{Prim, ScalarFn, Value};

use super::skeleton::Skeleton;

/// The tensors that a body rotates, in order.
pub(super) fn find(s: &Skeleton<'_>) -> Vec<Value> {
    let mut rotated = Vec::new();
    for (_, prim, node) in s.nodes() {
        let found = match prim {
            Prim::Map(ScalarFn::Add) => {
                whole(s, node.operands[0], node.operands[1]).or_else(|| whole(s, node.operands[1], node.operands[0]))
            }
            Prim::Cat { .. } => match node.operands.as_slice() {
                &[first, second] => halves(s, first, second),
                _ => None,
            },
            _ => None,
        };
        rotated.extend(found.filter(|x| !rotated.contains(x)));
    }
    rotated
}

/// Whether the sum of two terms is a rotation.
pub(super) fn is_rotation(s: &Skeleton<'_>, [a, b]: [Value; 2]) -> bool {
    whole(s, a, b).or_else(|| whole(s, b, a)).is_some()
}

/// `x` if the operands are `x · cos` and `turned(x) · sin`, where `turned` exchanges the lanes of each pair and negates
/// one of them.
fn whole(s: &Skeleton<'_>, direct: Value, turned: Value) -> Option<Value> {
    for (x, cos) in s.pairs(direct, ScalarFn::Mul) {
        for (t, sin) in s.pairs(turned, ScalarFn::Mul) {
            if let Some(source) = exchanged(s, t)
                && s.same(source, x)
                && !s.same(cos, sin)
            {
                return Some(s.peel(x));
            }
        }
    }
    None
}

/// `x` if the value is `cat(−part of x, other part of x)`.
fn exchanged(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    let (Prim::Cat { .. }, node) = s.prim(s.peel(value))? else { return None };
    let &[first, second] = node.operands.as_slice() else { return None };
    let (ScalarFn::Neg, &[high]) = s.map(first)? else { return None };
    let ((a, from_a), (b, from_b)) = (part(s, high)?, part(s, second)?);
    (a == b && from_a != from_b).then_some(a)
}

/// `x` if the operands are `a·cos − b·sin` and `b·cos + a·sin` of two parts of `x`.
fn halves(s: &Skeleton<'_>, first: Value, second: Value) -> Option<Value> {
    let (ScalarFn::Sub, &[ac, bs]) = s.map(first)? else { return None };
    for (a, cos) in s.pairs(ac, ScalarFn::Mul) {
        for (b, sin) in s.pairs(bs, ScalarFn::Mul) {
            let (Some((x, from_a)), Some((y, from_b))) = (part(s, a), part(s, b)) else { continue };
            if x != y || from_a == from_b {
                continue;
            }
            let product =
                |v, p, q| s.pairs(v, ScalarFn::Mul).iter().any(|&(l, r)| s.same(l, p) && same_angle(s, [q, r], [a, b]));
            let sum = s.pairs(second, ScalarFn::Add);
            if sum.iter().any(|&(l, r)| product(l, b, cos) && product(r, a, sin)) {
                return Some(x);
            }
        }
    }
    None
}

/// Whether a factor of the second lanes is one of the first lanes: the same, or the part of its table that lies as the
/// second lanes do.
fn same_angle(s: &Skeleton<'_>, [first, second]: [Value; 2], [a, b]: [Value; 2]) -> bool {
    let lanes = |v| match s.prim(s.peel(v)) {
        Some((Prim::Slice { start, end, step, .. }, node)) => Some((s.peel(node.operands[0]), (start, end, *step))),
        _ => None,
    };
    let lie_alike = |table: Value, x: Value| match (lanes(table), lanes(x)) {
        (Some((_, at)), Some((_, wanted))) => at == wanted,
        _ => false,
    };
    let table = |v| lanes(v).map(|(whole, _)| whole);
    s.same(first, second) || (table(first) == table(second) && lie_alike(first, a) && lie_alike(second, b))
}

/// The tensor that a value is a slice of, and which slice: its node.
fn part(s: &Skeleton<'_>, value: Value) -> Option<(Value, Value)> {
    let cut = s.peel(value);
    let (Prim::Slice { .. }, node) = s.prim(cut)? else { return None };
    Some((s.peel(node.operands[0]), cut))
}
