//! Norms over the innermost axis: a value times the reciprocal root of the mean of its squares.

use fusewright_graph::{Dim, Prim, ReduceOp, ScalarFn, Value, dim};

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
            (ScalarFn::Mul, &[a, b]) => [(a, b), (b, a)].into_iter().find(|&(z, factor)| is_scale(s, z, factor)),
            (ScalarFn::Div, &[z, root]) => is_root(s, z, root).then_some((z, root)),
            _ => None,
        };
        let of_last = |&(z, factor): &(Value, Value)| s.is_of_last_axes(factor, z);
        let Some((x, _)) = normalised.filter(of_last) else { continue };
        let centred = centre(s, x);
        let source = centred.unwrap_or(x);
        norms.push(Norm { normal: node.results[0], layer: centred.is_some(), added: is_sum(s, source) });
    }
    norms
}

/// Whether a factor is the reciprocal root of the mean of the squares of `z`, perhaps times a weight.
fn is_scale(s: &Skeleton<'_>, z: Value, factor: Value) -> bool {
    let inverse = |value| match s.map(value) {
        Some((ScalarFn::Rsqrt, &[v])) => is_variance(s, z, v),
        Some((ScalarFn::Recip, &[root])) => is_root(s, z, root),
        Some((ScalarFn::Div, &[one, root])) => s.is_about(one, 1.0) && is_root(s, z, root),
        _ => false,
    };
    inverse(factor) || s.pairs(factor, ScalarFn::Mul).into_iter().any(|(root, _)| inverse(root))
}

/// Whether a value is the root of the mean of the squares of `z`, with or without an eps behind the root.
fn is_root(s: &Skeleton<'_>, z: Value, value: Value) -> bool {
    let root = without_eps(s, value);
    match s.map(root) {
        Some((ScalarFn::Sqrt, &[v])) => is_variance(s, z, v),
        // The root of the sum over the root of the count.
        Some((ScalarFn::Mul | ScalarFn::Div, _)) => is_scaled_length(s, z, root),
        _ => false,
    }
}

/// Whether a value is the length of rows of `z` over the root of their number of lanes.
fn is_scaled_length(s: &Skeleton<'_>, z: Value, value: Value) -> bool {
    let products = s.pairs(value, ScalarFn::Mul).into_iter().map(|(length, by)| (length, by, true));
    let quotient = match s.map(value) {
        Some((ScalarFn::Div, &[length, by])) => Some((length, by, false)),
        _ => None,
    };
    products.chain(quotient).any(|(length, by, inverse)| {
        let Some((ScalarFn::Sqrt, &[sum])) = s.map(length) else { return false };
        let Some((squares, count)) = sum_of(s, sum) else { return false };
        let Some(root) = count.as_const().map(|n| (n as f64).sqrt()) else { return false };
        s.is_about(by, if inverse { root.recip() } else { root }) && square_of(s, squares).is_some_and(|x| s.same(x, z))
    })
}

/// A value without an eps that is added to it.
fn without_eps(s: &Skeleton<'_>, value: Value) -> Value {
    let mut sums = s.pairs(value, ScalarFn::Add).into_iter();
    sums.find(|&(rest, eps)| s.is_single(eps) && s.constant(rest).is_none()).map_or(value, |(rest, _)| rest)
}

/// Whether a value is the mean of the squares of `z`, with or without an eps. Where `z` is centred, the squares may be
/// about a mean of other precision, or the square of the mean may be taken away from the mean of squares.
fn is_variance(s: &Skeleton<'_>, z: Value, value: Value) -> bool {
    [without_eps(s, value), value].into_iter().any(|v| {
        if square_of(s, v).is_some_and(|length| is_scaled_length(s, z, length)) {
            return true;
        }
        if let Some(x) = mean_of(s, v).and_then(|squares| square_of(s, squares)) {
            let same_centre = || matches!((centre(s, x), centre(s, z)), (Some(a), Some(b)) if s.same(a, b));
            return s.same(x, z) || is_prefix(s, x, z, PREFIX_STEPS) || same_centre();
        }
        let (Some((ScalarFn::Sub, &[squares, mean])), Some(y)) = (s.map(v), centre(s, z)) else { return false };
        let is_of_y = |x: Option<Value>| x.is_some_and(|x| s.same(x, y));
        is_of_y(mean_of(s, squares).and_then(|v| square_of(s, v)))
            && is_of_y(square_of(s, mean).and_then(|v| mean_of(s, v)))
    })
}

/// Most functions between a row and what it is computed from, of which first lanes may be taken instead.
const PREFIX_STEPS: usize = 16;

/// Whether a value is the first lanes of rows: cut from them, or computed from the first lanes of what they are computed
/// from in the same way.
fn is_prefix(s: &Skeleton<'_>, part: Value, rows: Value, steps: usize) -> bool {
    let Some(steps) = steps.checked_sub(1) else { return false };
    let (part, rows) = (s.peel(part), s.peel(rows));
    let (Some((prim, node)), whole) = (s.prim(part), s.prim(rows)) else { return false };
    if let Prim::Slice { axis, start, step: 1, .. } = prim {
        let is_last = axis + 1 == s.body.ty(part).shape.len();
        return is_last && start.as_const() == Some(0) && s.peel(node.operands[0]) == rows;
    }
    let alike = whole.filter(|(of, _)| *of == prim && matches!(of, Prim::Map(_) | Prim::Cast { .. }));
    let Some((_, whole)) = alike else { return false };
    // What does not differ is one value for each row.
    let pairs = || node.operands.iter().zip(&whole.operands);
    pairs().all(|(&a, &b)| s.same(a, b) || is_prefix(s, a, b, steps)) && pairs().any(|(&a, &b)| !s.same(a, b))
}

/// `x` if the value is `x²`.
fn square_of(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    match s.map(value)? {
        (ScalarFn::Mul, &[a, b]) if s.same(a, b) => Some(a),
        (ScalarFn::Pow, &[a, two]) if s.is_about(two, 2.0) => Some(a),
        _ => None,
    }
}

/// What a value is the sum of over its innermost axes, and of how many lanes. A length may be squared again.
fn sum_of(s: &Skeleton<'_>, value: Value) -> Option<(Value, Dim)> {
    if let Some((ScalarFn::Sqrt, &[sum])) = square_of(s, value).and_then(|length| s.map(length)) {
        return sum_of(s, sum);
    }
    let (Prim::Reduce { op: ReduceOp::Add, axes, .. }, node) = s.prim(s.peel(value))? else { return None };
    let shape = &s.body.ty(node.operands[0]).shape;
    Some((node.operands[0], dim::product(axes.iter().map(|&axis| &shape[axis]))))
}

/// `x` if the value is the mean of `x` over its innermost axes: a sum that is divided, or a sum of parts.
fn mean_of(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    if let Some((parts, count)) = sum_of(s, value) {
        let n = count.as_const()?;
        let parts = s.pairs(parts, ScalarFn::Mul);
        return parts.into_iter().find_map(|(x, c)| s.is_about(c, 1.0 / n as f64).then_some(x));
    }
    let (sum, count, inverse) = match s.map(value)? {
        (ScalarFn::Div, &[sum, count]) => (sum, count, false),
        (ScalarFn::Mul, &[a, b]) if s.is_single(b) => (a, b, true),
        (ScalarFn::Mul, &[a, b]) => (b, a, true),
        _ => return None,
    };
    let (x, extent) = sum_of(s, sum)?;
    let counts = match extent.as_const() {
        Some(n) if inverse => s.is_about(count, 1.0 / n as f64),
        Some(n) => s.is_about(count, n as f64),
        None => !inverse && counts_dim(s, count, &extent),
    };
    counts.then_some(x)
}

fn counts_dim(s: &Skeleton<'_>, count: Value, extent: &Dim) -> bool {
    let mut value = s.peel(count);
    while let Some((Prim::Cast { .. }, node)) = s.prim(value) {
        value = node.operands[0];
    }
    matches!(s.prim(value), Some((Prim::SizeOf(dim), _)) if dim == extent)
}

/// `y` if the value is `y − mean(y)`.
fn centre(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    match s.map(value)? {
        (ScalarFn::Sub, &[y, mean]) => {
            let own = |of: Value| s.same(of, y) && s.is_of_last_axes(mean, y);
            mean_of(s, mean).is_some_and(own).then_some(y)
        }
        _ => None,
    }
}

/// Whether a value is the sum of two tensors of its own shape, not of one twice or of the terms of a rotation.
fn is_sum(s: &Skeleton<'_>, value: Value) -> bool {
    let sum = s.peel(value);
    match s.map(sum) {
        Some((ScalarFn::Add, &[a, b])) => {
            s.covers(a, sum) && s.covers(b, sum) && !s.same(a, b) && !rope::is_rotation(s, [a, b])
        }
        // One of them is multiplied by a number in the same step.
        Some((ScalarFn::Fma, &[a, by, b])) => {
            s.constant(by).is_some() && s.covers(a, sum) && s.covers(b, sum) && !s.same(a, b)
        }
        _ => false,
    }
}

/// Whether a value is lanes of an RMS norm's result, with its weight or without.
pub(super) fn is_result(s: &Skeleton<'_>, norms: &[Norm], value: Value) -> bool {
    let mut value = whole_row(s, value);
    // A weight and a bias at most stand between the normalised value and the result.
    for _ in 0..3 {
        if norms.iter().any(|n| !n.layer && s.peel(n.normal) == value) {
            return true;
        }
        let next = match s.map(value) {
            Some((ScalarFn::Mul | ScalarFn::Add, &[a, b])) => {
                let rank = |v| s.axes.flat(v).len();
                if rank(a) >= rank(b) { a } else { b }
            }
            _ => return false,
        };
        value = whole_row(s, next);
    }
    false
}

/// The value that a value is lanes of, or the value.
fn whole_row(s: &Skeleton<'_>, value: Value) -> Value {
    let mut value = s.peel(value);
    while let Some((Prim::Slice { axis, .. }, node)) = s.prim(value)
        && axis + 1 == s.body.ty(value).shape.len()
    {
        value = s.peel(node.operands[0]);
    }
    value
}
