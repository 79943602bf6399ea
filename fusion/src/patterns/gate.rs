//! Gated activations, `act(a) · b`, and bounded logits.

use fusewright_graph::{DType, Prim, ScalarFn, Value};

use super::skeleton::Skeleton;
use super::stream::is_apart;

/// A gated activation in a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    /// The product.
    pub product: Value,
    /// Its public name.
    pub name: &'static str,
}

/// Names of an activation whose operand comes first or alone, and of one whose operand is the second half.
type Names = [&'static str; 2];

const SILU: Names = ["silu_mul", "mul_silu"];
const GELU: Names = ["gelu_mul", "mul_gelu"];

/// Every gated activation of a body, in order.
pub(super) fn find(s: &Skeleton<'_>) -> Vec<Gate> {
    let mut gates = Vec::new();
    for (_, prim, node) in s.nodes() {
        let product = node.results[0];
        let name = match prim {
            Prim::Map(ScalarFn::Mul) => {
                let factors = s.pairs(product, ScalarFn::Mul);
                match late(s, product) {
                    Some((inner, name)) => {
                        // The inner product is no gate of its own.
                        gates.retain(|gate: &Gate| !s.same(gate.product, inner));
                        Some(name)
                    }
                    None => factors.into_iter().find_map(|(act, other)| gate(s, product, act, other)),
                }
            }
            // The quotient of the activation may be taken last: `((u + beta) · g) / (1 + e^(−alpha · g))`.
            Prim::Map(ScalarFn::Div) => {
                let (above, below) = (node.operands[0], node.operands[1]);
                let steep = denominator(s, below).filter(|_| !is_rounded(s, above));
                let mut factors = s.pairs(above, ScalarFn::Mul).into_iter();
                steep.and_then(|y| factors.find_map(|(x, u)| late_name(s, product, (x, u), y)))
            }
            _ => None,
        };
        gates.extend(name.map(|name| Gate { product, name }));
    }
    gates
}

/// The name of `act · other`, if it is a gate.
fn gate(s: &Skeleton<'_>, product: Value, act: Value, other: Value) -> Option<&'static str> {
    if !s.covers(other, product) {
        return None;
    }
    // `x · sigmoid(alpha · x)` and other functions of `x` alone are no gates.
    if let Some(limit) = limit(s, other) {
        let clamped = |&x: &Value| bound_from_above(s, x) == Some(limit);
        if swish(s, act).filter(clamped).is_some_and(|x| is_apart(s, other, x)) {
            return Some("clamped_swiglu");
        }
        let bounded = upper_bound(s, act).and_then(|(inner, _)| silu(s, inner));
        if bounded.is_some_and(|x| is_apart(s, other, x)) {
            return Some("swiglu_step");
        }
    }
    let (x, names) = activation(s, act)?;
    is_apart(s, other, x).then(|| names[usize::from(comes_second(s, x, other))])
}

/// The inner product and the name of `x · (sigmoid(alpha · x) · u)` or `sigmoid(alpha · x) · (x · u)`, in which the
/// activation is never by itself. A rounding of the inner product would make it another function than `act(x) · u`.
fn late(s: &Skeleton<'_>, product: Value) -> Option<(Value, &'static str)> {
    s.pairs(product, ScalarFn::Mul).into_iter().filter(|&(_, inner)| !is_rounded(s, inner)).find_map(|(last, inner)| {
        s.pairs(inner, ScalarFn::Mul).into_iter().find_map(|(first, u)| {
            let name = |gate, x| sigmoid(s, gate).and_then(|y| late_name(s, product, (x, u), y));
            name(first, last).or_else(|| name(last, first)).map(|name| (inner, name))
        })
    })
}

/// The name of `x · sigmoid(y) · u`, if `y` is `x` or a multiple of it.
fn late_name(s: &Skeleton<'_>, product: Value, (x, u): (Value, Value), y: Value) -> Option<&'static str> {
    if !multiple(s, y, x) || !s.covers(u, product) || !is_apart(s, u, x) {
        return None;
    }
    let second = usize::from(comes_second(s, x, u));
    let limits = (limit(s, u), bound_from_above(s, x));
    if matches!(limits, (Some(a), Some(b)) if a == b) {
        return Some("clamped_swiglu");
    }
    let quick = || scaled(s, y, QUICK).is_some_and(|of| s.same(of, x));
    if s.same(y, x) { Some(SILU[second]) } else { quick().then_some(GELU[second]) }
}

/// Whether a product is rounded to fewer bits than f32 has.
fn is_rounded(s: &Skeleton<'_>, mut value: Value) -> bool {
    loop {
        if s.body.ty(value).dtype.bits() < DType::F32.bits() {
            return true;
        }
        match s.prim(value) {
            Some((Prim::Cast { .. } | Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. }, node)) => {
                value = node.operands[0];
            }
            _ => return false,
        }
    }
}

/// The operand of an activation, and what gates with it are called.
fn activation(s: &Skeleton<'_>, act: Value) -> Option<(Value, Names)> {
    silu(s, act)
        .map(|x| (x, SILU))
        .or_else(|| gelu(s, act).or_else(|| quick_gelu(s, act)).map(|x| (x, GELU)))
        .or_else(|| relu_squared(s, act).map(|x| (x, ["relu2_mul", "mul_relu2"])))
        .or_else(|| fatrelu(s, act).map(|x| (x, ["fatrelu_mul", "mul_fatrelu"])))
        .or_else(|| sigmoid(s, act).map(|x| (x, ["sigmoid_mul", "mul_sigmoid"])))
}

/// A value and the number that bounds it by one of the functions.
fn bound(s: &Skeleton<'_>, value: Value, by: [ScalarFn; 2]) -> Option<(Value, f64)> {
    let mut pairs = by.into_iter().flat_map(|f| s.pairs(value, f));
    pairs.find_map(|(x, bound)| Some((x, s.constant(bound)?)))
}

fn upper_bound(s: &Skeleton<'_>, value: Value) -> Option<(Value, f64)> {
    bound(s, value, [ScalarFn::Min, ScalarFn::MinNum])
}

fn lower_bound(s: &Skeleton<'_>, value: Value) -> Option<(Value, f64)> {
    bound(s, value, [ScalarFn::Max, ScalarFn::MaxNum])
}

/// The number that bounds a value from above, if none bounds it from below.
fn bound_from_above(s: &Skeleton<'_>, value: Value) -> Option<f64> {
    upper_bound(s, value).filter(|&(inner, _)| lower_bound(s, inner).is_none()).map(|(_, bound)| bound)
}

/// The number that bounds the magnitude of a value, to which a number may be added.
fn limit(s: &Skeleton<'_>, value: Value) -> Option<f64> {
    let sums = s.pairs(value, ScalarFn::Add).into_iter();
    let moved = sums.filter(|&(_, number)| s.constant(number).is_some()).map(|(x, _)| x).next();
    let value = moved.unwrap_or(value);
    let (least, greatest) = match (upper_bound(s, value), lower_bound(s, value)) {
        (Some((inner, greatest)), _) => (lower_bound(s, inner)?.1, greatest),
        (None, Some((inner, least))) => (least, upper_bound(s, inner)?.1),
        (None, None) => return None,
    };
    (least == -greatest).then_some(greatest)
}

/// `x` if the value is `x · sigmoid(x)` or `x / (1 + e^−x)`.
fn silu(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    let plain = swish(s, value).filter(|&x| {
        let quotient = matches!(s.map(value), Some((ScalarFn::Div, &[_, below]))
            if denominator(s, below).is_some_and(|y| s.same(y, x)));
        let mut products = s.pairs(value, ScalarFn::Mul).into_iter();
        quotient || products.any(|(_, gate)| sigmoid(s, gate).is_some_and(|y| s.same(y, x)))
    });
    plain.or_else(|| silu_by_tanh(s, value))
}

/// `x` if the value is `x/2 · (1 + tanh(x/2))`, which is `x · sigmoid(x)`.
fn silu_by_tanh(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    halved(s, value, |bend| match bend {
        (ScalarFn::Tanh, &[v]) => scaled(s, v, 0.5),
        _ => None,
    })
}

/// `x` if the value is `x/2 · (1 + f(y))`, where what is said of `f(y)` is `x`.
fn halved<'g>(s: &Skeleton<'g>, value: Value, of: impl Fn((ScalarFn, &'g [Value])) -> Option<Value>) -> Option<Value> {
    let mut factors = Vec::new();
    flatten(s, value, ScalarFn::Mul, &mut factors);
    let half = factors.iter().position(|&f| s.is_about(f, 0.5))?;
    factors.remove(half);
    let &[a, b] = factors.as_slice() else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, curve)| {
        let sums = s.pairs(curve, ScalarFn::Add);
        let bend = sums.into_iter().find_map(|(one, v)| s.is_about(one, 1.0).then(|| s.map(v)).flatten())?;
        of(bend).filter(|&y| s.same(x, y))
    })
}

/// `x` if the value is `x · sigmoid(1.702 · x)` or `x / (1 + e^(−1.702 · x))`, the shortest approximation of GELU.
fn quick_gelu(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    swish(s, value).filter(|&x| {
        let steep = |y| scaled(s, y, QUICK).is_some_and(|of| s.same(of, x));
        let quotient = matches!(s.map(value), Some((ScalarFn::Div, &[_, below]))
            if denominator(s, below).is_some_and(steep));
        let mut products = s.pairs(value, ScalarFn::Mul).into_iter();
        quotient || products.any(|(_, gate)| sigmoid(s, gate).is_some_and(steep))
    })
}

/// `x` if the value is `x · sigmoid(alpha · x)` or `x / (1 + e^(−alpha · x))`.
fn swish(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    if let Some((ScalarFn::Div, &[x, below])) = s.map(value)
        && slope(s, below, x)
    {
        return Some(x);
    }
    let products = s.pairs(value, ScalarFn::Mul);
    products.into_iter().find_map(|(x, gate)| sigmoid(s, gate).filter(|&y| multiple(s, y, x)).map(|_| x))
}

/// Whether the value is `1 + e^(−alpha · x)`.
fn slope(s: &Skeleton<'_>, value: Value, x: Value) -> bool {
    denominator(s, value).is_some_and(|y| multiple(s, y, x))
}

/// Whether `y` is `x`, or `x` times a number.
fn multiple(s: &Skeleton<'_>, y: Value, x: Value) -> bool {
    let products = s.pairs(y, ScalarFn::Mul);
    s.same(y, x) || products.into_iter().any(|(a, number)| s.same(a, x) && s.constant(number).is_some())
}

/// `x` if the value is `max(x, 0)²`.
fn relu_squared(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    let (ScalarFn::Mul, &[a, b]) = s.map(value)? else { return None };
    let positive = s.pairs(a, ScalarFn::Max).into_iter().find(|&(_, zero)| s.constant(zero) == Some(0.0));
    positive.filter(|_| s.same(a, b)).map(|(x, _)| x)
}

/// `x` if the value is `x` beyond a number, else 0.
fn fatrelu(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    let (ScalarFn::Select, &[condition, yes, no]) = s.map(value)? else { return None };
    let (f, &[x, bound]) = s.map(condition)? else { return None };
    let (kept, zero) = match f {
        ScalarFn::Gt | ScalarFn::Ge => (yes, no),
        ScalarFn::Le | ScalarFn::Lt => (no, yes),
        _ => return None,
    };
    let is_it = s.same(kept, x) && s.constant(zero) == Some(0.0) && s.constant(bound).is_some();
    is_it.then_some(x)
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

/// The value `tanh(x / cap) · cap` of a body, if there is one.
pub(super) fn soft_cap(s: &Skeleton<'_>) -> Option<Value> {
    s.nodes().find_map(|(_, prim, node)| {
        let Prim::Map(ScalarFn::Mul) = prim else { return None };
        let product = node.results[0];
        s.pairs(product, ScalarFn::Mul).into_iter().find_map(|(bent, cap)| {
            let (ScalarFn::Tanh, &[inner]) = s.map(bent)? else { return None };
            let cap = s.constant(cap)?;
            let divided = match s.map(inner)? {
                (ScalarFn::Div, &[_, by]) => s.constant(by) == Some(cap),
                (ScalarFn::Mul, &[a, b]) => [a, b].into_iter().any(|by| s.is_about(by, cap.recip())),
                _ => false,
            };
            divided.then_some(product)
        })
    })
}

/// `x` if the value is `x/2 · (1 + erf(x/√2))` or its approximation with tanh, which may be made of a sigmoid.
fn gelu(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    let by_erf_or_tanh = halved(s, value, |bend| match bend {
        (ScalarFn::Erf, &[v]) => scaled(s, v, std::f64::consts::FRAC_1_SQRT_2),
        (ScalarFn::Tanh, &[v]) => curve(s, v, BETA),
        _ => None,
    });
    // (1 + tanh v)/2 is the sigmoid of 2·v.
    let by_sigmoid = |(x, gate): (Value, Value)| curve(s, sigmoid(s, gate)?, 2.0 * BETA).filter(|&of| s.same(of, x));
    let quotient = || match s.map(value) {
        Some((ScalarFn::Div, &[x, below])) => curve(s, denominator(s, below)?, 2.0 * BETA).filter(|&of| s.same(of, x)),
        _ => None,
    };
    let product = || s.pairs(value, ScalarFn::Mul).into_iter().find_map(by_sigmoid);
    by_erf_or_tanh.or_else(product).or_else(quotient)
}

/// `x` if the value is `factor · (x + 0.044715·x³)`.
fn curve(s: &Skeleton<'_>, value: Value, factor: f64) -> Option<Value> {
    scaled(s, value, factor).and_then(|v| cubic(s, v)).or_else(|| sloped(s, value, factor))
}

/// `x` if the value is `x · factor`, or `x` divided by the inverse.
fn scaled(s: &Skeleton<'_>, value: Value, factor: f64) -> Option<Value> {
    if let Some((ScalarFn::Div, &[x, by])) = s.map(value) {
        return s.is_about(by, 1.0 / factor).then_some(x);
    }
    s.pairs(value, ScalarFn::Mul).into_iter().find_map(|(x, c)| s.is_about(c, factor).then_some(x))
}

/// How steep the sigmoid is that stands for the error function.
const QUICK: f64 = 1.702;
/// √(2/π).
const BETA: f64 = std::f64::consts::SQRT_2 * std::f64::consts::FRAC_2_SQRT_PI * 0.5;
/// The factor of the cube.
const CUBIC: f64 = 0.044_715;

/// `x` if the value is `x·factor · (1 + 0.044715·x²)`, the factors in any order.
fn sloped(s: &Skeleton<'_>, value: Value, factor: f64) -> Option<Value> {
    let mut factors = Vec::new();
    flatten(s, value, ScalarFn::Mul, &mut factors);
    factors.remove(factors.iter().position(|&f| s.is_about(f, factor))?);
    let &[a, b] = factors.as_slice() else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, slope)| {
        let sums = s.pairs(slope, ScalarFn::Add);
        let term = sums.into_iter().find_map(|(one, term)| s.is_about(one, 1.0).then_some(term))?;
        is_power(s, term, x, 2).then_some(x)
    })
}

/// Whether the value is 0.044715 times a power of `x`.
fn is_power(s: &Skeleton<'_>, value: Value, x: Value, power: usize) -> bool {
    let mut factors = Vec::new();
    flatten(s, value, ScalarFn::Mul, &mut factors);
    let Some(constant) = factors.iter().position(|&f| s.is_about(f, CUBIC)) else { return false };
    factors.remove(constant);
    factors.len() == power && factors.iter().all(|&f| s.same(f, x))
}

/// `x` if the value is `x + 0.044715 · x³`.
fn cubic(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    s.pairs(value, ScalarFn::Add).into_iter().find_map(|(x, term)| is_power(s, term, x, 3).then_some(x))
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
