//! Norms over the innermost axis: a value times the reciprocal root of the mean of its squares.

use fusewright_graph::{Prim, ReduceOp, ScalarFn, Value, dim};

use super::rope;
use super::skeleton::Skeleton;

/// A norm in a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Norm {
    /// The normalised value, before any weight.
    pub normal: Value,
    /// Whether the mean was subtracted before.
    pub layer: bool,
    /// Whether what is normalised is a sum of two tensors.
    pub added: bool,
}

/// Every norm of a body, in order.
pub(super) fn find(s: &Skeleton<'_>) -> Vec<Norm> {
    let mut norms = Vec::new();
    for (_, prim, node) in s.nodes() {
        let Prim::Map(f) = prim else { continue };
        let normalised = match (f, node.operands.as_slice()) {
            (ScalarFn::Mul, &[a, b]) => scaled(s, a, b).or_else(|| scaled(s, b, a)),
            (ScalarFn::Div, &[z, root]) => match s.map(root) {
                Some((ScalarFn::Sqrt, &[v])) => deviation(s, v).filter(|&x| s.same(x, z)),
                _ => None,
            },
            _ => None,
        };
        let Some(x) = normalised else { continue };
        let centred = centre(s, x);
        let source = centred.unwrap_or(x);
        norms.push(Norm { normal: node.results[0], layer: centred.is_some(), added: is_sum(s, source) });
    }
    norms
}

/// `x` if the operands are `x` and the reciprocal root of the mean of its squares, perhaps times a weight.
fn scaled(s: &Skeleton<'_>, z: Value, factor: Value) -> Option<Value> {
    let weighted = s.pairs(factor, ScalarFn::Mul).into_iter().find_map(|(root, _)| rooted(s, z, root));
    weighted.or_else(|| rooted(s, z, factor))
}

fn rooted(s: &Skeleton<'_>, z: Value, factor: Value) -> Option<Value> {
    let variance = match s.map(factor)? {
        (ScalarFn::Rsqrt, &[v]) => v,
        (ScalarFn::Recip, &[root]) => root_of(s, root)?,
        (ScalarFn::Div, &[one, root]) if s.is_about(one, 1.0) => root_of(s, root)?,
        _ => return None,
    };
    deviation(s, variance).filter(|&x| s.same(x, z))
}

fn root_of(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    match s.map(value)? {
        (ScalarFn::Sqrt, &[v]) => Some(v),
        _ => None,
    }
}

/// `x` if the value is `mean(x²)`, with or without an eps.
fn deviation(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    let with_eps = s.pairs(value, ScalarFn::Add).into_iter().find_map(|(mean, eps)| {
        let alone = s.is_single(eps) && s.constant(mean).is_none();
        alone.then(|| mean_of(s, mean)).flatten()
    });
    let square = with_eps.or_else(|| mean_of(s, value))?;
    match s.map(square)? {
        (ScalarFn::Mul, &[a, b]) if s.same(a, b) => Some(a),
        (ScalarFn::Pow, &[a, two]) if s.is_about(two, 2.0) => Some(a),
        _ => None,
    }
}

/// `x` if the value is the mean of `x` over its innermost axes: a sum that is divided, or a sum of parts.
fn mean_of(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    if let Some((Prim::Reduce { op: ReduceOp::Add, axes, .. }, node)) = s.prim(s.peel(value)) {
        let shape = &s.body.ty(node.operands[0]).shape;
        let n = dim::product(axes.iter().map(|&axis| &shape[axis])).as_const()?;
        let parts = s.pairs(node.operands[0], ScalarFn::Mul);
        return parts.into_iter().find_map(|(x, c)| s.is_about(c, 1.0 / n as f64).then_some(x));
    }
    let (sum, count, inverse) = match s.map(value)? {
        (ScalarFn::Div, &[sum, count]) => (sum, count, false),
        (ScalarFn::Mul, &[a, b]) if s.is_single(b) => (a, b, true),
        (ScalarFn::Mul, &[a, b]) => (b, a, true),
        _ => return None,
    };
    let (Prim::Reduce { op: ReduceOp::Add, axes, .. }, node) = s.prim(s.peel(sum))? else { return None };
    let x = node.operands[0];
    let shape = &s.body.ty(x).shape;
    let extent = dim::product(axes.iter().map(|&axis| &shape[axis]));
    let counts = match extent.as_const() {
        Some(n) if inverse => s.is_about(count, 1.0 / n as f64),
        Some(n) => s.is_about(count, n as f64),
        None => !inverse && counts_dim(s, count, &extent),
    };
    counts.then_some(x)
}

fn counts_dim(s: &Skeleton<'_>, count: Value, extent: &fusewright_graph::Dim) -> bool {
    let mut value = s.peel(count);
    while let Some((Prim::Cast { .. }, node)) = s.prim(value) {
        value = node.operands[0];
    }
    matches!(s.prim(value), Some((Prim::SizeOf(dim), _)) if dim == extent)
}

/// `y` if the value is `y − mean(y)`.
fn centre(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    match s.map(value)? {
        (ScalarFn::Sub, &[y, mean]) => mean_of(s, mean).filter(|&of| s.same(of, y)).map(|_| y),
        _ => None,
    }
}

/// Whether a value is the sum of two tensors of its own shape, which the terms of a rotation are not.
fn is_sum(s: &Skeleton<'_>, value: Value) -> bool {
    let sum = s.peel(value);
    let Some((ScalarFn::Add, &[a, b])) = s.map(sum) else { return false };
    s.covers(a, sum) && s.covers(b, sum) && !rope::is_rotation(s, [a, b])
}

/// Whether a value is a norm's result, with its weight or without.
pub(super) fn is_result(s: &Skeleton<'_>, norms: &[Norm], value: Value) -> bool {
    let mut value = s.peel(value);
    // A weight and a bias at most stand between the normalised value and the result.
    for _ in 0..3 {
        if norms.iter().any(|n| s.peel(n.normal) == value) {
            return true;
        }
        let next = match s.map(value) {
            Some((ScalarFn::Mul | ScalarFn::Add, &[a, b])) => {
                let rank = |v| s.axes.flat(v).len();
                if rank(a) >= rank(b) { a } else { b }
            }
            _ => return false,
        };
        value = s.peel(next);
    }
    false
}
