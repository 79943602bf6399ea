//! Quantisers: a scaled value, clamped and converted to codes.

use std::collections::BTreeSet;

use fusewright_graph::{DType, Prim, ReduceOp, Rounding, ScalarFn, Value, num};

use super::emulated;
use super::multiple::Scaled;
use super::outside::Outside;
use super::power::{has_floor, is_power};
use super::scale::{Scale, back_to, crosses, is_reduced, scale_of};
use super::skeleton::Skeleton;

/// Lanes of a block of the microscaling formats, whose scales are powers of two.
const MX_LANES: i64 = 32;
/// Lanes of a block of NVFP4, whose scales are codes themselves.
const NVFP4_LANES: i64 = 16;

/// What codes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Codes {
    /// e4m3 or e5m2 to its largest value.
    Float8(DType),
    /// e2m1.
    Float4,
    /// Integers of that many bits, in whatever they are stored.
    Whole(u32),
}

/// A quantiser in a body.
#[derive(Clone, Debug)]
pub(super) struct Quantiser {
    /// What is quantised.
    pub source: Value,
    /// Where the scale comes from.
    pub scale: Scale,
    /// The factor or divisor.
    pub by: Value,
    /// What is scaled by it, and by a number.
    quotient: Value,
    number: f64,
    /// What is converted to.
    to: DType,
    /// The codes.
    result: Value,
    codes: Codes,
    /// Lanes that have a scale in common, where that is known.
    lanes: Option<i64>,
    /// A zero point that is added, and is no number.
    zero: Option<Value>,
    /// Whether a zero point that is made of what is quantised moves the codes.
    moved: bool,
    /// Whether scales are powers of two as a format with blocks has them: bounded by the range of an exponent alone.
    powers: bool,
}

/// Every quantiser of a body, in order, without the scales and zero points of others.
pub(super) fn find(s: &Skeleton<'_>) -> Vec<Quantiser> {
    let casts = s.nodes().filter_map(|(_, prim, node)| match prim {
        Prim::Cast { to, round, saturate } => quantiser(s, (*to, *round, *saturate), node.operands[0], node.results[0]),
        _ => None,
    });
    let emulated = emulated::find(s).into_iter().filter_map(|(result, scaled)| four_bits(s, result, scaled));
    let mut all: Vec<Quantiser> = casts.chain(emulated).collect();
    let axes = |q: &Quantiser| s.axes.flat(q.source).len();
    let others: Vec<_> = all.iter().map(|q| (q.by, axes(q), s.ancestors(q.by))).collect();
    all.retain(|q| {
        let is_part = |(by, wider, scale): &(Value, usize, _)| {
            BTreeSet::contains(scale, &q.result) || (s.same(*by, q.by) && *wider > axes(q))
        };
        !others.iter().any(is_part) && !scales_its_origin(s, q)
    });
    join_parts(s, &mut all);
    all
}

/// Whether what is quantised are magnitudes of a tensor of more axes, and the codes scale that tensor: they are scales,
/// whatever the tensor becomes.
fn scales_its_origin(s: &Skeleton<'_>, q: &Quantiser) -> bool {
    let axes = |v| s.axes.flat(v).len();
    let magnitudes: BTreeSet<Value> = s
        .ancestors(q.source)
        .into_iter()
        .filter_map(|v| match s.prim(v) {
            Some((Prim::Reduce { op: ReduceOp::Max, .. }, node)) => Some(s.magnitude_of(node.operands[0])),
            _ => None,
        })
        .collect();
    if magnitudes.is_empty() {
        return false;
    }
    s.nodes().any(|(_, prim, node)| {
        let (Prim::Map(ScalarFn::Mul | ScalarFn::Div), &[a, b]) = (prim, node.operands.as_slice()) else {
            return false;
        };
        [(a, b), (b, a)].into_iter().any(|(scaled, by)| {
            axes(scaled) > axes(q.source)
                && axes(by) <= axes(q.source)
                && s.ancestors(by).contains(&q.result)
                && !s.ancestors(scaled).is_disjoint(&magnitudes)
        })
    })
}

/// Lanes quantised side by side, which together are all lanes of one value, are groups of it.
fn join_parts(s: &Skeleton<'_>, quantisers: &mut [Quantiser]) {
    let parts: Vec<_> = quantisers.iter().map(|q| part(s, q.source).filter(|_| q.scale == Scale::Token)).collect();
    for (i, quantiser) in quantisers.iter_mut().enumerate() {
        let Some((whole, lanes, width)) = parts[i] else { continue };
        let beside = parts.iter().flatten().filter(|(of, _, other)| *of == whole && *other == width).count();
        if width < lanes && i64::try_from(beside).is_ok_and(|n| n.checked_mul(width) == Some(lanes)) {
            (quantiser.scale, quantiser.lanes) = (Scale::Group(width), Some(width));
        }
    }
}

/// The value that a value is neighbouring lanes of, how many lanes that has, and how many of them these are.
fn part(s: &Skeleton<'_>, value: Value) -> Option<(Value, i64, i64)> {
    let (Prim::Slice { axis, start, end, step: 1 }, node) = s.prim(s.peel(value))? else { return None };
    let shape = &s.body.ty(node.operands[0]).shape;
    let lanes = shape.last().filter(|_| axis + 1 == shape.len())?.as_const()?;
    Some((s.peel(node.operands[0]), lanes, (end - start).as_const()?))
}

fn quantiser(
    s: &Skeleton<'_>,
    (to, round, saturate): (DType, Rounding, bool),
    x: Value,
    result: Value,
) -> Option<Quantiser> {
    let (inner, clamped) = match clamp(s, x) {
        Some((inner, low, high)) => (inner, Some((low, high))),
        None => (x, None),
    };
    let named = codes(to, saturate, clamped);
    let codes = named.or_else(|| codes(to, true, clamped).filter(|_| clamped.is_none()))?;
    let (scaled, zero) = match codes {
        Codes::Whole(_) => rounded(s, inner, round)?,
        Codes::Float8(_) | Codes::Float4 => (inner, None),
    };
    let mut found = Quantiser::of(s, (scaled, to), zero)?;
    let by = found.by;
    // Without a clamp no code is beyond the largest if the scale is the largest magnitude over that.
    let of_largest = is_of_largest(s, by, to);
    // A number that stands apart is the largest code.
    if named.is_none() && (found.scale == Scale::Static || !of_largest && found.number == 1.0) {
        return None;
    }
    // A scale of the largest code that has a floor of its own is that of groups, whose scales happen to be powers.
    found.powers &= !(of_largest && has_floor(s, by));
    Some(Quantiser { result, codes, ..found })
}

/// The quantiser whose codes are values of e2m1 that are nearest to a scaled value.
fn four_bits(s: &Skeleton<'_>, result: Value, scaled: Value) -> Option<Quantiser> {
    Some(Quantiser { result, codes: Codes::Float4, ..Quantiser::of(s, (scaled, DType::F4E2M1), None)? })
}

/// Whether the largest code of a dtype, or its reciprocal, goes into a scale.
fn is_of_largest(s: &Skeleton<'_>, by: Value, to: DType) -> bool {
    let largest = largest(to);
    s.ancestors(by).into_iter().any(|v| s.is_about(v, largest) || s.is_about(v, largest.recip()))
}

/// The largest code of a dtype that is as large with the other sign.
fn largest(to: DType) -> f64 {
    match to {
        DType::I8 => f64::from(i8::MAX),
        DType::I4 => 7.0,
        DType::U8 => f64::from(u8::MAX),
        _ => num::max_finite(to),
    }
}

/// What the codes of a conversion are, behind a clamp or none.
fn codes(to: DType, saturate: bool, clamped: Option<(f64, f64)>) -> Option<Codes> {
    // Without a clamp, saturation is one at the largest code; integers wrap.
    let whole = |largest: f64| clamped == Some((-largest, largest)) || (clamped.is_none() && saturate);
    match to {
        DType::F8E4M3 if whole(448.0) => Some(Codes::Float8(to)),
        DType::F8E5M2 if whole(57344.0) => Some(Codes::Float8(to)),
        DType::F4E2M1 => Some(Codes::Float4),
        DType::I4 => match clamped {
            Some((-8.0 | -7.0, 7.0)) => Some(Codes::Whole(4)),
            None if saturate => Some(Codes::Whole(4)),
            _ => None,
        },
        DType::I8 | DType::U8 => match clamped {
            Some((-8.0 | -7.0, 7.0) | (0.0, 15.0)) => Some(Codes::Whole(4)),
            Some((-128.0 | -127.0, 127.0)) if to == DType::I8 => Some(Codes::Whole(8)),
            None if to == DType::I8 && saturate => Some(Codes::Whole(8)),
            Some((0.0, 255.0)) if to == DType::U8 => Some(Codes::Whole(8)),
            _ => None,
        },
        _ => None,
    }
}

/// `(x, low, high)` if the value is `x` clamped by constants.
fn clamp(s: &Skeleton<'_>, value: Value) -> Option<(Value, f64, f64)> {
    let side = |value, fs: [ScalarFn; 2]| {
        let mut pairs = fs.into_iter().flat_map(|f| s.pairs(value, f));
        pairs.find_map(|(x, bound)| s.constant(bound).map(|bound| (x, bound)))
    };
    if let Some(found) = selected(s, value) {
        return Some(found);
    }
    let (upper, lower) = ([ScalarFn::Min, ScalarFn::MinNum], [ScalarFn::Max, ScalarFn::MaxNum]);
    if let Some((below, high)) = side(value, upper) {
        let (x, low) = side(below, lower)?;
        return Some((x, low, high));
    }
    let (above, low) = side(value, lower)?;
    let (x, high) = side(above, upper)?;
    Some((x, low, high))
}

/// What a value is that a selection bounds by a number, the number, whether it is the upper bound, and of what the rest is.
fn selected_bound(s: &Skeleton<'_>, value: Value) -> Option<(Value, f64, bool, Value)> {
    let (ScalarFn::Select, &[condition, yes, no]) = s.map(value)? else { return None };
    let (f, &[x, bound]) = s.map(condition)? else { return None };
    let number = s.constant(bound)?;
    let beyond = match f {
        ScalarFn::Gt | ScalarFn::Ge => true,
        ScalarFn::Lt | ScalarFn::Le => false,
        _ => return None,
    };
    match (s.constant(yes), s.constant(no)) {
        (Some(n), None) if n == number => Some((x, number, beyond, no)),
        (None, Some(n)) if n == number => Some((x, number, !beyond, yes)),
        _ => None,
    }
}

/// `(x, low, high)` if the value is `x` clamped by two selections.
fn selected(s: &Skeleton<'_>, value: Value) -> Option<(Value, f64, f64)> {
    let (x, first, upper, rest) = selected_bound(s, value)?;
    let (y, second, other, inner) = selected_bound(s, rest)?;
    let fits = upper != other && s.same(inner, y) && (s.same(x, y) || s.same(x, rest));
    fits.then_some(if upper { (inner, second, first) } else { (inner, first, second) })
}

/// The value before rounding to the nearest integer, by itself or by the conversion, and before adding a zero point, and
/// the zero point, if one is added.
fn rounded(s: &Skeleton<'_>, value: Value, by_cast: Rounding) -> Option<(Value, Option<Value>)> {
    let whole = |value| match s.map(s.whole(value)) {
        Some((ScalarFn::RoundEven, &[x])) => Some(x),
        _ => None,
    };
    let nearest = by_cast == Rounding::NearestEven;
    let inner = whole(value).unwrap_or(value);
    let moved = s.whole(inner);
    let mut terms = s.pairs(moved, ScalarFn::Add);
    if let Some((ScalarFn::Sub, &[x, zero])) = s.map(moved) {
        terms.push((x, zero));
    }
    let offset =
        terms.into_iter().find(|&(x, zero)| Scaled::of(s, x).is_some() || whole(x).is_some() && !s.same(x, zero));
    let is_rounded = |v| nearest || whole(v).is_some();
    match offset {
        Some((x, zero)) => {
            // A zero point that is a number is none that a scale comes with.
            let moved = s.constant(zero).is_none().then_some(zero);
            (is_rounded(value) || is_rounded(x)).then(|| (whole(x).unwrap_or(x), moved))
        }
        None => is_rounded(value).then_some((inner, None)),
    }
}

/// Whether a zero point is made of extremes of what is quantised, rather than given from outside; `None` if it is made of
/// other elements.
fn is_own_zero(s: &Skeleton<'_>, zero: Value, source: Value) -> Option<bool> {
    let ancestors = back_to(s, zero, source);
    if ancestors.iter().any(|v| s.computed.contains(v)) {
        return None;
    }
    let mut of_extremes = ancestors.into_iter().filter_map(|v| {
        let (prim, node) = s.prim(v).filter(|(prim, _)| crosses(prim))?;
        let extreme = matches!(prim, Prim::Reduce { op: ReduceOp::Max | ReduceOp::Min, .. });
        Some(extreme && back_to(s, node.operands[0], source).into_iter().any(|v| s.same(v, source)))
    });
    match of_extremes.next() {
        None => Some(false),
        Some(first) => (first && of_extremes.all(|own| own)).then_some(true),
    }
}

/// Whether a value is scaled already by extremes of its own, so that it is no tensor of which another scale is given.
fn is_scaled_already(s: &Skeleton<'_>, value: Value) -> bool {
    let mut inner = Scaled::of(s, value);
    while let Some(scaled) = inner {
        match scale_of(s, &scaled, false) {
            Some((Scale::Static, _)) => inner = Scaled::of(s, scaled.source),
            found => return found.is_some(),
        }
    }
    false
}

impl Quantiser {
    /// What scales a value that is to be converted, as far as that is not of codes.
    fn of(s: &Skeleton<'_>, (quotient, to): (Value, DType), zero: Option<Value>) -> Option<Quantiser> {
        let found = Scaled::all(s, quotient, largest(to)).into_iter().map(|mut scaled| {
            // The range of a row may begin at 0.
            let begin = match s.map(scaled.source) {
                Some((ScalarFn::Sub, &[x, least])) if is_reduced(s, least, ReduceOp::Min, x) => Some(x),
                _ => None,
            };
            scaled.source = begin.unwrap_or(scaled.source);
            let own = zero.map_or(Some(false), |zero| is_own_zero(s, zero, scaled.source))?;
            let moved = own || begin.is_some();
            let (scale, lanes) = scale_of(s, &scaled, moved)?;
            let Scaled { source, by, number, .. } = scaled;
            if scale == Scale::Static && is_scaled_already(s, source) {
                return None;
            }
            let (powers, codes, result) = (is_power(s, by), Codes::Float4, quotient);
            Some(Quantiser { source, scale, by, quotient, number, to, result, codes, lanes, zero, moved, powers })
        });
        let found: Vec<Option<Quantiser>> = found.collect();
        let computed = found.iter().flatten().find(|q| q.scale != Scale::Static).cloned();
        computed.or_else(|| found.into_iter().next().flatten())
    }

    /// What the scale and the zero point depend on: what is scaled only where its place alone tells that from a scale.
    pub fn scale_is_of(&self, s: &Skeleton<'_>) -> BTreeSet<Value> {
        let mut made =
            if self.scale == Scale::Static { s.ancestors(self.by) } else { back_to(s, self.by, self.source) };
        made.extend(self.zero.iter().flat_map(|&zero| back_to(s, zero, self.source)));
        made
    }

    /// The quantiser with what is in front of its region, where its scale is, or a part of that; `None` if that makes the
    /// scale otherwise than as its elements' own, or is not known.
    pub fn traced(self, outside: Option<(&Outside, &Skeleton<'_>)>) -> Option<Quantiser> {
        let (outside, s) = outside?;
        let zero = self.zero.map(|zero| outside.value(zero));
        let found = Quantiser::of(s, (outside.value(self.quotient), self.to), zero)?;
        let Quantiser { scale, lanes, powers, moved, .. } = found;
        Some(Quantiser { scale, lanes, powers, moved, ..self })
    }

    /// The suffix that names it, if there is one. A zero point that is given from outside is not named.
    pub fn suffix(&self, s: &Skeleton<'_>) -> Option<String> {
        let made = self.scale != Scale::Static;
        let mx = self.powers && self.lanes == Some(MX_LANES);
        let kind = match self.codes {
            Codes::Float8(_) if mx => return Some("mxfp8".to_owned()),
            Codes::Float4 if mx => return Some("mxfp4".to_owned()),
            Codes::Float4 => {
                let blocks = self.lanes == Some(NVFP4_LANES) && self.has_codes_as_scale(s);
                return blocks.then(|| "nvfp4".to_owned());
            }
            Codes::Float8(dtype) => (dtype == DType::F8E4M3).then_some("fp8")?,
            Codes::Whole(4) if self.moved && made => "int4_azp",
            Codes::Whole(4) => "int4",
            Codes::Whole(_) if self.moved && made => "int8_azp",
            Codes::Whole(_) => "int8",
        };
        Some(match &self.scale {
            Scale::Static => format!("{kind}_static"),
            Scale::Token => format!("{kind}_token"),
            Scale::Tensor => format!("{kind}_tensor"),
            Scale::Channel => format!("{kind}_channel"),
            Scale::Group(lanes) => format!("{kind}_group{lanes}"),
            Scale::Block(rows, lanes) => format!("{kind}_block{rows}x{lanes}"),
        })
    }

    /// Whether the scale is stored as a code of e4m3.
    fn has_codes_as_scale(&self, s: &Skeleton<'_>) -> bool {
        s.ancestors(self.by).into_iter().any(|v| s.body.ty(v).dtype == DType::F8E4M3)
    }
}
