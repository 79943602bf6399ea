//! Rotary position embedding: pairs of lanes turned by the angles of a table.

use fusewright_graph::{Dim, Prim, ScalarFn, Value};

use super::skeleton::Skeleton;

/// The tensors that a body rotates, in order.
pub(super) fn find(s: &Skeleton<'_>) -> Vec<Value> {
    let mut rotated = Vec::new();
    for (_, prim, node) in s.nodes() {
        let found = match prim {
            Prim::Map(ScalarFn::Add) => {
                whole(s, node.operands[0], node.operands[1]).or_else(|| whole(s, node.operands[1], node.operands[0]))
            }
            Prim::Map(ScalarFn::Sub) => whole(s, node.operands[0], node.operands[1]),
            Prim::Map(ScalarFn::Fma) => contracted(s, &node.operands),
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

/// `x` if the operands are `x · cos` and `turned(x) · sin`, where `turned` exchanges the lanes of each pair. One of them
/// is negated, or so is its factor: a table may hold `−sin`, and a rotation by either is the other to the bit.
fn whole(s: &Skeleton<'_>, direct: Value, turned: Value) -> Option<Value> {
    products_turn(s, &s.pairs(direct, ScalarFn::Mul), &s.pairs(turned, ScalarFn::Mul))
}

/// `x` if `a · b + c` is a rotation, either product of which may be the one that is not rounded.
fn contracted(s: &Skeleton<'_>, operands: &[Value]) -> Option<Value> {
    let &[a, b, c] = operands else { return None };
    let (product, sum) = ([(a, b), (b, a)], s.pairs(c, ScalarFn::Mul));
    products_turn(s, &sum, &product).or_else(|| products_turn(s, &product, &sum))
}

/// `x` if one product is `x · cos` and the other `turned(x) · sin`, each in both orders of its factors.
fn products_turn(s: &Skeleton<'_>, direct: &[(Value, Value)], turned: &[(Value, Value)]) -> Option<Value> {
    for &(x, cos) in direct {
        for &(t, sin) in turned {
            let is_of = |lanes: Part| s.same(lanes.of, x) || part(s, x).is_some_and(|direct| direct == lanes);
            if exchanged(s, t).is_some_and(is_of) && !s.same(cos, sin) {
                return Some(s.peel(x));
            }
        }
    }
    None
}

/// The lanes of `x` that are exchanged if the value is `cat(part of x, other part of x)`, either of them negated or none,
/// or a product of that with signs.
fn exchanged(s: &Skeleton<'_>, value: Value) -> Option<Part> {
    let joined = || {
        let (Prim::Cat { .. }, node) = s.prim(s.peel(value))? else { return None };
        let &[first, second] = node.operands.as_slice() else { return None };
        let unsigned = |value| part(s, negated(s, value).unwrap_or(value));
        let (high, low) = (unsigned(first)?, unsigned(second)?);
        let (of, (from, ..), (_, to, _)) = (low.of, low.at.clone(), high.at.clone());
        high.pairs_with(&low).then_some(Part { of, at: (from, to, 1) })
    };
    let signed = |(t, signs): (Value, Value)| {
        let lanes = exchanged(s, t)?;
        (!s.ancestors(signs).contains(&lanes.of)).then_some(lanes)
    };
    joined().or_else(|| s.pairs(value, ScalarFn::Mul).into_iter().find_map(signed))
}

/// `x` if the operands are `a·cos − b·sin` and `b·cos + a·sin` of two parts of `x`.
fn halves(s: &Skeleton<'_>, first: Value, second: Value) -> Option<Value> {
    for (ac, bs, turned) in differences(s, first) {
        for (a, cos) in products(s, ac) {
            for (b, factor) in products(s, bs) {
                let sin = if turned { negated(s, factor) } else { Some(factor) };
                let Some(sin) = sin.filter(|_| b.pairs_with(&a)) else { continue };
                let is = |v, lanes: &Part, angle| {
                    let found = products(s, v);
                    found.iter().any(|(part, other)| part == lanes && same_angle(s, [angle, *other], [&a, &b]))
                };
                if s.pairs(second, ScalarFn::Add).iter().any(|&(l, r)| is(l, &b, cos) && is(r, &a, sin)) {
                    return Some(a.of);
                }
            }
        }
    }
    None
}

/// Lanes of a tensor: where they begin and end, and how far they are apart.
#[derive(Clone, PartialEq, Eq)]
struct Part {
    of: Value,
    at: (Dim, Dim, i64),
}

impl Part {
    /// Whether these are the second lanes of pairs, and those of another part the first: as many lanes right behind
    /// them, or their neighbours.
    fn pairs_with(&self, first: &Part) -> bool {
        let ((from, to, step), (start, end, other)) = (&self.at, &first.at);
        let behind = || from == end && to - from == end - start;
        let beside = || *step == 2 && (from - start).as_const() == Some(1);
        self.of == first.of && step == other && if *step == 1 { behind() } else { beside() }
    }
}

/// The two terms of a difference; of a sum the second is to be a product with a negative.
fn differences(s: &Skeleton<'_>, value: Value) -> Vec<(Value, Value, bool)> {
    match s.map(value) {
        Some((ScalarFn::Sub, &[a, b])) => vec![(a, b, false)],
        _ => s.pairs(value, ScalarFn::Add).into_iter().map(|(a, b)| (a, b, true)).collect(),
    }
}

/// `x` if the value is `−x`.
fn negated(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    match s.map(value)? {
        (ScalarFn::Neg, &[x]) => Some(x),
        _ => None,
    }
}

/// The lanes and the factor of a product of lanes, or of lanes of a product.
fn products(s: &Skeleton<'_>, value: Value) -> Vec<(Part, Value)> {
    let factors = s.pairs(value, ScalarFn::Mul).into_iter();
    let mut found: Vec<(Part, Value)> = factors.filter_map(|(x, factor)| Some((part(s, x)?, factor))).collect();
    if let Some(Part { of, at }) = part(s, value) {
        let factors = s.pairs(of, ScalarFn::Mul).into_iter();
        found.extend(factors.map(|(x, factor)| (Part { of: s.peel(x), at: at.clone() }, factor)));
    }
    found
}

/// Whether a factor of the second lanes is one of the first lanes: the same, or the part of its table that lies as the
/// second lanes do.
fn same_angle(s: &Skeleton<'_>, [first, second]: [Value; 2], [a, b]: [&Part; 2]) -> bool {
    let parts = || part(s, first).zip(part(s, second));
    s.same(first, second) || parts().is_some_and(|(p, q)| p.of == q.of && p.at == a.at && q.at == b.at)
}

/// What lanes a value is: some of the innermost, or one of several groups of them, not several rows.
fn part(s: &Skeleton<'_>, value: Value) -> Option<Part> {
    let (Prim::Slice { axis, start, end, step }, node) = s.prim(s.peel(value))? else { return None };
    let shape = &s.body.ty(node.results[0]).shape;
    if axis + 1 < shape.len() && shape[*axis].as_const() != Some(1) {
        return None;
    }
    Some(Part { of: s.peel(node.operands[0]), at: (start.clone(), end.clone(), *step) })
}
