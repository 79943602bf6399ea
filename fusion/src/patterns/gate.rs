//! Gated activations: `act(a) · b`.

use fusewright_graph::{Prim, ScalarFn, Value};

use super::skeleton::Skeleton;

/// A gated activation in a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    /// The product.
    pub product: Value,
    /// Its public name.
    pub name: &'static str,
}

/// Every gated activation of a body, in order.
pub(super) fn find(s: &Skeleton<'_>) -> Vec<Gate> {
    let mut gates = Vec::new();
    for (_, prim, node) in s.nodes() {
        let Prim::Map(ScalarFn::Mul) = prim else { continue };
        let product = node.results[0];
        for (act, other) in s.pairs(product, ScalarFn::Mul) {
            // `x · sigmoid(x)` and the factors inside an activation are no gates.
            let tensors = s.covers(other, product);
            let activated = silu(s, act).map(|a| (a, true)).or_else(|| gelu(s, act).map(|a| (a, false)));
            let Some((a, is_silu)) = activated.filter(|(a, _)| tensors && !s.same(*a, other)) else { continue };
            let name = match (is_silu, comes_second(s, a, other)) {
                (true, false) => "silu_mul",
                (true, true) => "mul_silu",
                (false, false) => "gelu_mul",
                (false, true) => "mul_gelu",
            };
            gates.push(Gate { product, name });
            break;
        }
    }
    gates
}

/// `x` if the value is `x · sigmoid(x)` or `x / (1 + e^−x)`.
fn silu(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    if let Some((ScalarFn::Div, &[x, below])) = s.map(value)
        && denominator(s, below).is_some_and(|y| s.same(x, y))
    {
        return Some(x);
    }
    let products = s.pairs(value, ScalarFn::Mul);
    products.into_iter().find_map(|(x, gate)| sigmoid(s, gate).filter(|&y| s.same(x, y)))
}

/// `x` if the value is `1 / (1 + e^−x)`.
fn sigmoid(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    match s.map(value)? {
        (ScalarFn::Div, &[one, below]) if s.is_about(one, 1.0) => denominator(s, below),
        (ScalarFn::Recip, &[below]) => denominator(s, below),
        _ => None,
    }
}

/// `x` if the value is `1 + e^−x`.
fn denominator(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    let exponential = |v| match s.map(v) {
        Some((ScalarFn::Exp, &[power])) => match s.map(power) {
            Some((ScalarFn::Neg, &[x])) => Some(x),
            _ => None,
        },
        _ => None,
    };
    let sums = s.pairs(value, ScalarFn::Add);
    sums.into_iter().find_map(|(one, e)| s.is_about(one, 1.0).then(|| exponential(e)).flatten())
}

/// `x` if the value is `x/2 · (1 + erf(x/√2))` or its approximation with tanh.
fn gelu(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    let mut factors = Vec::new();
    flatten(s, value, ScalarFn::Mul, &mut factors);
    let half = factors.iter().position(|&f| s.is_about(f, 0.5))?;
    factors.remove(half);
    let &[a, b] = factors.as_slice() else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, curve)| {
        let sums = s.pairs(curve, ScalarFn::Add);
        let bend = sums.into_iter().find_map(|(one, v)| s.is_about(one, 1.0).then(|| s.map(v)).flatten())?;
        let of = match bend {
            (ScalarFn::Erf, &[v]) => scaled(s, v, std::f64::consts::FRAC_1_SQRT_2),
            (ScalarFn::Tanh, &[v]) => cubic(s, scaled(s, v, (2.0 / std::f64::consts::PI).sqrt())?),
            _ => None,
        };
        of.filter(|&y| s.same(x, y))
    })
}

/// `x` if the value is `x · factor`.
fn scaled(s: &Skeleton<'_>, value: Value, factor: f64) -> Option<Value> {
    s.pairs(value, ScalarFn::Mul).into_iter().find_map(|(x, c)| s.is_about(c, factor).then_some(x))
}

/// `x` if the value is `x + 0.044715 · x³`.
fn cubic(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    s.pairs(value, ScalarFn::Add).into_iter().find_map(|(x, term)| {
        let mut factors = Vec::new();
        flatten(s, term, ScalarFn::Mul, &mut factors);
        let constant = factors.iter().position(|&f| s.is_about(f, 0.044_715))?;
        factors.remove(constant);
        (factors.len() == 3 && factors.iter().all(|&f| s.same(f, x))).then_some(x)
    })
}

fn flatten(s: &Skeleton<'_>, value: Value, f: ScalarFn, out: &mut Vec<Value>) {
    match s.map(value) {
        Some((g, &[a, b])) if g == f && out.len() < 8 => {
            flatten(s, a, f, out);
            flatten(s, b, f, out);
        }
        _ => out.push(value),
    }
}

/// Whether `a` and `b` are slices of one tensor along its last axis and `a` lies behind `b`.
fn comes_second(s: &Skeleton<'_>, a: Value, b: Value) -> bool {
    let cut = |v| match s.prim(s.peel(v)) {
        Some((Prim::Slice { axis, start, step: 1, .. }, node)) => Some((s.peel(node.operands[0]), *axis, start)),
        _ => None,
    };
    let (Some((x, i, from)), Some((y, j, other))) = (cut(a), cut(b)) else { return false };
    x == y && i == j && (from - other).as_const().is_some_and(|d| d > 0)
}
