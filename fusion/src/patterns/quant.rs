//! Quantisers: a scaled value, clamped and converted to codes.

use fusewright_graph::{DType, Prim, ReduceOp, ScalarFn, Value};

use super::skeleton::Skeleton;

/// Where the scale comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Scale {
    /// Given from outside.
    Static,
    /// One per row.
    Token,
    /// One per that many lanes.
    Group(i64),
}

/// A quantiser in a body.
#[derive(Clone, Debug)]
pub(super) struct Quantiser {
    /// What is quantised.
    pub source: Value,
    /// Dtype of the codes.
    pub codes: DType,
    /// Where the scale comes from.
    pub scale: Scale,
    /// The factor or divisor.
    pub by: Value,
}

/// Every quantiser of a body, in order.
pub(super) fn find(s: &Skeleton<'_>) -> Vec<Quantiser> {
    let casts = s.nodes().filter_map(|(_, prim, node)| match prim {
        Prim::Cast { to, saturate, .. } => Some((*to, *saturate, node.operands[0])),
        _ => None,
    });
    casts.filter_map(|(to, saturate, x)| quantiser(s, to, saturate, x)).collect()
}

fn quantiser(s: &Skeleton<'_>, to: DType, saturate: bool, x: Value) -> Option<Quantiser> {
    let (inner, clamped) = match clamp(s, x) {
        Some((inner, low, high)) => (inner, Some((low, high))),
        None => (x, None),
    };
    let scaled = match to {
        // Without a clamp, saturation is one at the largest code.
        DType::F8E4M3 if clamped == Some((-448.0, 448.0)) || (clamped.is_none() && saturate) => inner,
        DType::F4E2M1 => inner,
        DType::I8 => rounded(s, inner),
        _ => return None,
    };
    let (source, by) = division(s, scaled)?;
    Some(Quantiser { source, codes: to, scale: scale_of(s, source, by)?, by })
}

/// `(x, low, high)` if the value is `x` clamped by constants.
fn clamp(s: &Skeleton<'_>, value: Value) -> Option<(Value, f64, f64)> {
    let side = |value, fs: [ScalarFn; 2]| {
        let mut pairs = fs.into_iter().flat_map(|f| s.pairs(value, f));
        pairs.find_map(|(x, bound)| s.constant(bound).map(|bound| (x, bound)))
    };
    let (upper, lower) = ([ScalarFn::Min, ScalarFn::MinNum], [ScalarFn::Max, ScalarFn::MaxNum]);
    if let Some((below, high)) = side(value, upper) {
        let (x, low) = side(below, lower)?;
        return Some((x, low, high));
    }
    let (above, low) = side(value, lower)?;
    let (x, high) = side(above, upper)?;
    Some((x, low, high))
}

/// The value that a guard against a zero scale chooses otherwise.
fn unguarded(s: &Skeleton<'_>, value: Value) -> Value {
    match s.map(value) {
        Some((ScalarFn::Select, &[_, a, b])) if s.constant(a).is_some() => b,
        Some((ScalarFn::Select, &[_, a, b])) if s.constant(b).is_some() => a,
        _ => value,
    }
}

/// The value before rounding to an integer and before adding a zero point.
fn rounded(s: &Skeleton<'_>, value: Value) -> Value {
    let inner = match s.map(value) {
        Some((ScalarFn::RoundEven, &[x])) => x,
        _ => value,
    };
    let offset = s.pairs(inner, ScalarFn::Add).into_iter().find(|(x, zero)| {
        division(s, *x).is_some() || matches!(s.map(*x), Some((ScalarFn::RoundEven, _))) && !s.same(*x, *zero)
    });
    match offset {
        Some((x, _)) => match s.map(x) {
            Some((ScalarFn::RoundEven, &[y])) => y,
            _ => x,
        },
        None => inner,
    }
}

/// `(x, by)` if the value is `x / by` or `x · by`, with `x` the operand of more axes.
fn division(s: &Skeleton<'_>, value: Value) -> Option<(Value, Value)> {
    let axes = |v| s.axes.flat(v).len();
    match s.map(unguarded(s, value))? {
        (ScalarFn::Div, &[x, by]) => Some((x, by)),
        (ScalarFn::Mul, &[a, b]) if axes(a) >= axes(b) => Some((a, b)),
        (ScalarFn::Mul, &[a, b]) => Some((b, a)),
        _ => None,
    }
}

/// Where a scale comes from: the largest magnitude of what is quantised, or outside.
fn scale_of(s: &Skeleton<'_>, source: Value, by: Value) -> Option<Scale> {
    let ancestors = s.ancestors(by);
    let largest = s.nodes().find_map(|(id, prim, node)| {
        let found = ancestors.contains(&node.results[0]) && matches!(prim, Prim::Reduce { op: ReduceOp::Max, .. });
        let magnitude = found.then(|| s.map(node.operands[0])).flatten()?;
        match magnitude {
            (ScalarFn::Abs, &[x]) if s.same(x, source) => Some(id),
            _ => None,
        }
    });
    let Some(largest) = largest else {
        // A scale that depends on what is quantised in any other way makes another function.
        return (!ancestors.contains(&s.peel(source))).then_some(Scale::Static);
    };
    let (_, over) = s.axes.reduced().find(|(node, _)| *node == largest)?;
    // A group is part of the dim that some other value has.
    let values = (0..s.body.value_count() as u32).map(Value);
    let grouped = values.flat_map(|v| s.axes.dims(v)).any(|dim| dim.len() > over.len() && dim.ends_with(&over));
    if !grouped {
        return Some(Scale::Token);
    }
    over.iter().map(|&axis| s.axes.extent(axis).as_const()).try_fold(1i64, |n, e| n.checked_mul(e?)).map(Scale::Group)
}

impl Quantiser {
    /// The suffix that names it; `whole` says whether a scale given from outside is that of the whole tensor.
    pub fn suffix(&self, whole: bool) -> String {
        let kind = match self.codes {
            DType::I8 => "int8",
            DType::F4E2M1 => return "nvfp4".to_owned(),
            _ => "fp8",
        };
        match &self.scale {
            Scale::Static if whole => format!("{kind}_tensor"),
            Scale::Static => format!("{kind}_static"),
            Scale::Token => format!("{kind}_token"),
            Scale::Group(lanes) => format!("{kind}_group{lanes}"),
        }
    }
}
