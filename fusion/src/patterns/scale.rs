//! Scales of quantisers: whether they are computed, and for which elements each is.

use std::collections::BTreeSet;

use fusewright_graph::axes::AxisId;
use fusewright_graph::{Def, Graph, Node, NodeId, Op, Prim, ReduceOp, ScalarFn, Value};

use super::power::is_exponent;
use super::skeleton::Skeleton;

/// Most steps from a scale back to the reduction that it is computed from.
const STEPS: usize = 32;
/// The largest number that a scale may have added against zeros.
const EPS: f64 = 1e-3;

/// Where a scale comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Scale {
    /// Given from outside.
    Static,
    /// One per row.
    Token,
    /// One per lane of all rows.
    Channel,
    /// One per that many lanes.
    Group(i64),
    /// One per that many rows and that many lanes of each.
    Block(i64, i64),
}

/// What a value from outside of a region is in its graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Given {
    /// An extreme of a whole tensor.
    Tensor,
    /// Extremes of all rows, one per lane.
    Channels,
    /// Computed from elements in a way that has no name: from other extremes, by other reductions, or as more than a
    /// multiple of an extreme.
    Computed,
    /// Anything else.
    Otherwise,
}

impl Given {
    /// What a value is, by the reduction that lies a few steps in front of it.
    pub fn of(graph: &Graph, value: Value) -> Given {
        let mut stack = vec![value];
        let (mut steps, mut bent) = (0, false);
        while let Some(value) = stack.pop() {
            steps += 1;
            let Def::Node(id, _) = graph.def(value) else { continue };
            let node = graph.node(id);
            match &node.op {
                Op::Prim(Prim::Reduce { op: ReduceOp::Max, .. }) if bent => return Given::Computed,
                Op::Prim(Prim::Reduce { op: ReduceOp::Max, .. }) => return Given::of_extremes(graph, value),
                Op::Prim(prim) if crosses(prim) => return Given::Computed,
                Op::Prim(prim @ (Prim::Map(_) | Prim::Cast { .. } | Prim::Reshape { .. } | Prim::Slice { .. }))
                    if steps < STEPS =>
                {
                    bent |= matches!(prim, Prim::Map(f) if bends(*f));
                    stack.extend(&node.operands);
                }
                _ => {}
            }
        }
        Given::Otherwise
    }

    /// What extremes are, which those of rows may have come before.
    fn of_extremes(graph: &Graph, value: Value) -> Given {
        let single = graph.ty(value).elements().as_const() == Some(1);
        let (mut of, mut over) = (value, BTreeSet::new());
        while let Some(node) = graph.def_node(of)
            && let Op::Prim(Prim::Reduce { op: ReduceOp::Max, axes, .. }) = &node.op
        {
            over.extend(axes.iter().copied());
            of = node.operands[0];
        }
        let lanes = graph.ty(of).shape.len() - 1;
        match lanes.checked_sub(1) {
            _ if single => Given::Tensor,
            Some(rows) if !over.contains(&lanes) && over.contains(&rows) => Given::Channels,
            _ => Given::Computed,
        }
    }
}

/// Whether results are computed from several elements, so that they are not given with an input.
fn crosses(prim: &Prim) -> bool {
    use Prim::{AllReduce, ArgReduce, GroupedMatMul, MatMul, Opaque, Reduce, Sdpa, TopK};
    matches!(
        prim,
        Reduce { .. }
            | ArgReduce { .. }
            | TopK { .. }
            | MatMul { .. }
            | GroupedMatMul { .. }
            | Sdpa(_)
            | AllReduce(_)
            | Opaque { .. }
    )
}

/// Whether a function makes something else of an extreme than a multiple of it or a power of two near it.
fn bends(f: ScalarFn) -> bool {
    use ScalarFn::{Atan2, Cos, Erf, Erfc, Exp, Hypot, Rem, Rsqrt, Sin, Sqrt, Tanh};
    matches!(f, Sqrt | Rsqrt | Exp | Sin | Cos | Tanh | Erf | Erfc | Atan2 | Hypot | Rem)
}

/// Whether a value is more than a multiple of an extreme: a root or a square of it, say.
fn is_bent(s: &Skeleton<'_>, by: &BTreeSet<Value>, extreme: NodeId) -> bool {
    let mut made: BTreeSet<Value> = s.body.node(extreme).results.iter().copied().collect();
    s.nodes().any(|(_, prim, node)| {
        let of_extreme = |v: &Value| made.contains(v);
        let count = node.operands.iter().filter(|v| of_extreme(v)).count();
        let bent = match prim {
            Prim::Map(ScalarFn::Mul | ScalarFn::Div) => count > 1,
            // Of the functions of an exponent, powers of two alone undo a logarithm.
            Prim::Map(ScalarFn::Pow) => count > 0 && !s.is_about(node.operands[0], 2.0),
            Prim::Map(ScalarFn::Add | ScalarFn::Sub) => count > 0 && is_shifted(s, node),
            Prim::Map(f) => count > 0 && bends(*f),
            _ => false,
        };
        let inside = node.results.iter().any(|v| by.contains(v));
        if count > 0 && inside {
            made.extend(&node.results);
        }
        bent && inside
    })
}

/// Whether a sum or a difference adds a number that is no guard against zeros to floats that are no exponents.
fn is_shifted(s: &Skeleton<'_>, node: &Node) -> bool {
    let far = |&v: &Value| s.constant(v).is_some_and(|number| number.abs() > EPS);
    let floats = s.body.ty(node.results[0]).dtype.is_float();
    floats && node.operands.iter().any(far) && !is_exponent(s, node.results[0])
}

/// Whether a value is an extreme of `x`, with a bound or none.
pub(super) fn is_reduced(s: &Skeleton<'_>, value: Value, op: ReduceOp, x: Value) -> bool {
    let bounds = [ScalarFn::Min, ScalarFn::Max].into_iter().flat_map(|f| s.pairs(value, f));
    let inner = bounds.filter(|&(_, bound)| s.constant(bound).is_some()).map(|(inner, _)| inner).next();
    match s.prim(s.peel(inner.unwrap_or(value))) {
        Some((Prim::Reduce { op: found, .. }, node)) => *found == op && s.same(node.operands[0], x),
        _ => false,
    }
}

/// `x` if the value is `x` with the other sign, times or over a number or not.
fn turned(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    let negative = |v: Value| s.constant(v).is_some_and(|n| n < 0.0);
    match s.map(value)? {
        (ScalarFn::Neg, &[x]) => Some(x),
        (ScalarFn::Div, &[x, by]) => negative(by).then_some(x),
        (ScalarFn::Mul, _) => s.pairs(value, ScalarFn::Mul).into_iter().find_map(|(x, by)| negative(by).then_some(x)),
        _ => None,
    }
}

/// Where a scale comes from, the largest magnitude of what is quantised or outside or, where codes are moved, its range,
/// and for how many lanes it is. The magnitude may be made of both extremes, the sign of the lower one turned.
pub(super) fn scale_of(s: &Skeleton<'_>, source: Value, by: Value, moved: bool) -> Option<(Scale, Option<i64>)> {
    let ancestors = s.ancestors(by);
    let extreme = |op: ReduceOp, of: &dyn Fn(Value) -> bool| {
        s.nodes().find_map(|(id, prim, node)| {
            let found = matches!(prim, Prim::Reduce { op: found, .. } if *found == op);
            (found && ancestors.contains(&node.results[0]) && of(node.operands[0])).then_some(id)
        })
    };
    let magnitude = |v| matches!(s.map(v), Some((ScalarFn::Abs, &[x])) if s.same(x, source));
    let itself = |v| s.same(v, source);
    let both = || extreme(ReduceOp::Max, &itself).filter(|_| extreme(ReduceOp::Min, &itself).is_some());
    let turned =
        || ancestors.iter().any(|&v| turned(s, v).is_some_and(|low| is_reduced(s, low, ReduceOp::Min, source)));
    let reduced = |v: Value, op| s.ancestors(v).into_iter().any(|v| is_reduced(s, v, op, source));
    let spans = |v: &Value| match s.map(*v) {
        Some((ScalarFn::Sub, &[high, low])) => reduced(high, ReduceOp::Max) && reduced(low, ReduceOp::Min),
        _ => false,
    };
    let range = || both().filter(|_| turned() || moved && ancestors.iter().any(spans));
    let Some(largest) = extreme(ReduceOp::Max, &magnitude).or_else(range) else {
        // A scale that depends on what is quantised, or on other elements than its own, in any other way makes another
        // function than one whose scale is given.
        let crossed = |&v: &Value| s.prim(v).is_some_and(|(prim, _)| crosses(prim));
        let is_given = !ancestors.contains(&s.peel(source)) && !ancestors.iter().any(crossed);
        return is_given.then_some((Scale::Static, None));
    };
    if is_bent(s, &ancestors, largest) {
        return None;
    }
    let (_, over) = s.axes.reduced().find(|(node, _)| *node == largest)?;
    let lanes = product(s, &over);
    Some((extent_of(s, source, &over)?, lanes))
}

/// The number of elements of some axes, where it is known.
fn product(s: &Skeleton<'_>, axes: &[AxisId]) -> Option<i64> {
    axes.iter().map(|&axis| s.axes.extent(axis).as_const()).try_fold(1i64, |n, extent| n.checked_mul(extent?))
}

/// What a scale is for that is reduced over some axes of a value.
fn extent_of(s: &Skeleton<'_>, value: Value, over: &[AxisId]) -> Option<Scale> {
    // The order of axes is that of what stands in front of layout.
    let all = s.axes.flat(s.peel(value));
    let row = row_of(s, &all);
    let (lanes, rows): (Vec<AxisId>, Vec<AxisId>) = over.iter().partition(|axis| row.contains(axis));
    let innermost = all.last().is_some_and(|axis| over.contains(axis));
    let is_part =
        |axes: &[AxisId]| dims(s).iter().any(|dim| dim.len() > axes.len() && axes.iter().all(|a| dim.contains(a)));
    Some(if over.is_empty() || is_one_row(s, over) {
        // Rows of one lane, and rows whose lanes were in another order.
        Scale::Token
    } else if rows.is_empty() {
        if is_part_of_row(s, value, over) { Scale::Group(product(s, over)?) } else { Scale::Token }
    } else if !innermost {
        let is_known = |axis: &AxisId| s.axes.extent(*axis).as_const().is_some();
        // Of rows whose number is not known, axes that are known are part.
        let apart = all.iter().any(|axis| !over.contains(axis) && !is_known(axis)) && over.iter().all(is_known);
        if apart || is_part(over) { Scale::Group(product(s, over)?) } else { Scale::Channel }
    } else if is_part(&rows) || lanes.len() < row.len() {
        Scale::Block(product(s, &rows)?, product(s, &lanes)?)
    } else {
        Scale::Token
    })
}

/// Whether axes are those of a dim of some value, and are in no other dim with more than these.
fn is_one_row(s: &Skeleton<'_>, over: &[AxisId]) -> bool {
    let dims = dims(s);
    let within = |dim: &Vec<AxisId>| dim.iter().all(|axis| over.contains(axis));
    over.len() > 1
        && dims.iter().any(|dim| dim.len() == over.len() && within(dim))
        && dims.iter().all(|dim| within(dim) || !dim.iter().any(|axis| over.contains(axis)))
}

/// The axes of every dim of every value.
fn dims(s: &Skeleton<'_>) -> BTreeSet<Vec<AxisId>> {
    (0..s.body.value_count() as u32).map(Value).flat_map(|value| s.axes.dims(value)).collect()
}

/// The axes of the row that the innermost of all axes of a value belongs to: of the longest dim that some value has of
/// them, less than all.
fn row_of(s: &Skeleton<'_>, all: &[AxisId]) -> Vec<AxisId> {
    let Some(innermost) = all.last() else { return Vec::new() };
    let rows = dims(s).into_iter().filter(|dim| dim.last() == Some(innermost) && dim.len() < all.len());
    rows.max_by_key(Vec::len).unwrap_or_else(|| vec![*innermost])
}

/// Whether lanes are part of a row: of the dim that some value has, or beside others of a known number in a value whose
/// rows are of a number that is not known, as heads are.
fn is_part_of_row(s: &Skeleton<'_>, value: Value, lanes: &[AxisId]) -> bool {
    if dims(s).iter().any(|dim| dim.len() > lanes.len() && dim.ends_with(lanes)) {
        return true;
    }
    let known = |dim: &Vec<AxisId>| dim.iter().all(|&axis| s.axes.extent(axis).as_const().is_some());
    let dims: Vec<_> = s.axes.dims(value).into_iter().filter(|dim| !dim.is_empty()).collect();
    match dims.as_slice() {
        [rows @ .., beside, last] => *last == lanes && known(beside) && !rows.iter().all(known),
        _ => false,
    }
}
