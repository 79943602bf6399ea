//! Scales of quantisers: whether they are computed, and for which elements each is.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::axes::AxisId;
use fusewright_graph::{Node, NodeId, Op, Prim, ReduceOp, ScalarFn, Value};

use super::multiple::{Scaled, is_bent};
use super::skeleton::Skeleton;

/// Where a scale comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Scale {
    /// Given from outside.
    Static,
    /// One per row.
    Token,
    /// One for the whole tensor.
    Tensor,
    /// One per lane of all rows.
    Channel,
    /// One per that many lanes.
    Group(i64),
    /// One per that many rows and that many lanes of each.
    Block(i64, i64),
}

/// Whether results are computed from several elements, so that they are not given with an input.
pub(super) fn crosses(prim: &Prim) -> bool {
    use Prim::{AllReduce, ArgReduce, GroupedMatMul, MatMul, Opaque, Reduce, ScatterReduce, Sdpa, TopK};
    matches!(
        prim,
        Reduce { .. }
            | ArgReduce { .. }
            | TopK { .. }
            | ScatterReduce { .. }
            | MatMul { .. }
            | GroupedMatMul { .. }
            | Sdpa(_)
            | AllReduce(_)
            | Opaque { .. }
    )
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

/// What a value is but for the sign.
fn unsigned(s: &Skeleton<'_>, value: Value) -> Value {
    match s.map(value) {
        Some((ScalarFn::Neg | ScalarFn::Abs, &[x])) => unsigned(s, x),
        _ => s.peel(value),
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
/// and for how many lanes it is. The magnitude may be made of both extremes, the sign of the lower one turned. `None` if
/// it is computed otherwise.
pub(super) fn scale_of(s: &Skeleton<'_>, scaled: &Scaled, moved: bool) -> Option<(Scale, Option<i64>)> {
    let (source, bare) = (scaled.source, unsigned(s, scaled.source));
    let ancestors = back_to(s, scaled.by, bare);
    let extreme = |op: ReduceOp, of: &dyn Fn(Value) -> bool| {
        s.all_nodes().find_map(|(id, prim, node)| {
            let found = matches!(prim, Prim::Reduce { op: found, .. } if *found == op);
            (found && ancestors.contains(&node.results[0]) && of(node.operands[0])).then_some(id)
        })
    };
    let magnitude = |v| matches!(s.map(v), Some((ScalarFn::Abs, _))) && s.same(unsigned(s, v), bare);
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
        let crossed = |&v: &Value| s.computed.contains(&v) || s.prim(v).is_some_and(|(prim, _)| crosses(prim));
        let is_given = !ancestors.iter().any(|&v| itself(v) || s.same(v, bare) || crossed(&v));
        return is_given.then_some((Scale::Static, None));
    };
    let over = over(s, scaled, &ancestors, largest)?;
    Some((extent_of(s, source, &over, largest)?, product(s, &over)))
}

/// The values that a scale depends on other than through what is scaled.
pub(super) fn back_to(s: &Skeleton<'_>, by: Value, source: Value) -> BTreeSet<Value> {
    let mut seen = BTreeSet::new();
    let mut open = vec![by];
    while let Some(value) = open.pop() {
        if seen.insert(value)
            && !s.same(value, source)
            && let Some(node) = s.body.def_node(value)
        {
            open.extend(&node.operands);
        }
    }
    seen
}

/// The axes of what is scaled that the scale is reduced over, first those of an extreme; `None` if it is made of other
/// elements as well, or otherwise than as a multiple of extremes.
fn over(s: &Skeleton<'_>, scaled: &Scaled, ancestors: &BTreeSet<Value>, largest: NodeId) -> Option<Vec<AxisId>> {
    // Of rows that are met as columns too, a scale is of other elements.
    let source = s.peel(scaled.source);
    if s.axes.is_diagonal(source) || ancestors.iter().any(|value| s.computed.contains(value)) {
        return None;
    }
    let is_extreme = |prim: &Prim| matches!(prim, Prim::Reduce { op: ReduceOp::Max | ReduceOp::Min, .. });
    let reduced: BTreeMap<NodeId, Vec<AxisId>> = s.axes.reduced().collect();
    let mut extremes = BTreeSet::new();
    // Along which axes what is made of extremes differs.
    let mut held: BTreeMap<Value, Vec<AxisId>> = BTreeMap::new();
    let mut bent = BTreeSet::from_iter(s.body.node(largest).results.iter().copied());
    for (id, prim, node) in s.all_nodes().filter(|(.., node)| ancestors.contains(&node.results[0])) {
        let operand = node.operands.first().copied();
        let first = is_extreme(prim) && operand.is_some_and(|v| s.same(unsigned(s, v), unsigned(s, scaled.source)));
        let mut axes: Vec<AxisId> = node.operands.iter().filter_map(|v| held.get(v)).flatten().copied().collect();
        if first {
            extremes.extend(&node.results);
            axes = operand.map(|v| s.axes.flat(v)).unwrap_or_default();
        } else if !node.operands.iter().any(|v| held.contains_key(v)) {
            if crosses(prim) {
                return None;
            }
            continue;
        } else if crosses(prim) && !is_extreme(prim) || moves(s, prim, node) || is_bent(s, prim, node, &bent) {
            return None;
        } else if chooses(prim) && !all_alike(node.operands.iter().filter_map(|v| held.get(v))) {
            // The larger of a row's extreme and the tensor's is the tensor's.
            return None;
        }
        if let Some(over) = reduced.get(&id).filter(|_| is_extreme(prim)) {
            axes.retain(|axis| !over.contains(axis));
        }
        if node.operands.iter().any(|v| bent.contains(v)) {
            bent.extend(&node.results);
        }
        held.extend(node.results.iter().map(|&v| (v, axes.clone())));
    }
    let made = held.keys().copied().collect();
    let kept = held.get(&scaled.by).or_else(|| held.get(&s.peel(scaled.by)))?;
    // A scale that differs along what its extreme is over is that of single elements.
    let differing = kept.iter().copied().chain(given_beside(s, ancestors, &held));
    if differing.into_iter().any(|axis| reduced[&largest].contains(&axis)) {
        return None;
    }
    let all = s.axes.flat(source).into_iter().filter(|axis| !reduced[&largest].contains(axis));
    let over = reduced[&largest].iter().copied().chain(all).filter(|axis| !kept.contains(axis)).collect();
    scaled.is_by_multiple(s, &extremes, &made).then_some(over)
}

/// The axes of what is given, rather than made of extremes, to functions of what is made of them.
fn given_beside(s: &Skeleton<'_>, ancestors: &BTreeSet<Value>, held: &BTreeMap<Value, Vec<AxisId>>) -> Vec<AxisId> {
    let given = |v: &&Value| !held.contains_key(*v) && s.constant(**v).is_none();
    let mixed = s.all_nodes().filter(|(_, prim, node)| {
        matches!(prim, Prim::Map(_)) && ancestors.contains(&node.results[0]) && held.contains_key(&node.results[0])
    });
    mixed.flat_map(|(.., node)| node.operands.iter().filter(given)).flat_map(|v| s.axes.flat(s.peel(*v))).collect()
}

/// Whether a function is one of its operands.
fn chooses(prim: &Prim) -> bool {
    matches!(prim, Prim::Map(ScalarFn::Max | ScalarFn::Min | ScalarFn::MaxNum | ScalarFn::MinNum | ScalarFn::Select))
}

/// Whether lists hold the same axes.
fn all_alike<'a>(mut lists: impl Iterator<Item = &'a Vec<AxisId>>) -> bool {
    let set = |axes: &'a Vec<AxisId>| axes.iter().collect::<BTreeSet<_>>();
    lists.next().map(set).is_none_or(|first| lists.all(|axes| set(axes) == first))
}

/// Whether a node moves elements to other places along an axis that they have.
fn moves(s: &Skeleton<'_>, prim: &Prim, node: &Node) -> bool {
    match prim {
        Prim::Cat { axis } => node.operands.iter().any(|&v| s.body.ty(v).shape[*axis].as_const() != Some(1)),
        Prim::Slice { .. } | Prim::Gather { .. } | Prim::Scatter { .. } => true,
        _ => false,
    }
}

/// The number of elements of some axes, where it is known.
fn product(s: &Skeleton<'_>, axes: &[AxisId]) -> Option<i64> {
    axes.iter().map(|&axis| s.axes.extent(axis).as_const()).try_fold(1i64, |n, extent| n.checked_mul(extent?))
}

/// What a scale is for that is reduced over some axes of a value, by kernels before this one or in it, where its largest
/// magnitude is found.
fn extent_of(s: &Skeleton<'_>, value: Value, over: &[AxisId], largest: NodeId) -> Option<Scale> {
    let before = largest.0 < s.front as u32;
    // The order of axes is that of what stands in front of layout.
    let all = s.axes.flat(s.peel(value));
    let dims = dims_of(s, &all);
    let row = row_of(&dims, &all);
    let (lanes, rows): (Vec<AxisId>, Vec<AxisId>) = over.iter().partition(|axis| row.contains(axis));
    let innermost = all.last().is_some_and(|axis| over.contains(axis));
    let is_part =
        |axes: &[AxisId]| dims.iter().any(|dim| dim.len() > axes.len() && axes.iter().all(|a| dim.contains(a)));
    Some(if before && all.iter().all(|axis| over.contains(axis)) {
        Scale::Tensor
    } else if over.is_empty() {
        // Rows of one lane, or one row of which each lane has a scale.
        if runs_over_lanes(s, largest) { Scale::Token } else { Scale::Channel }
    } else if is_one_row(&dims, over) {
        // Rows whose lanes were in another order.
        Scale::Token
    } else if rows.is_empty() {
        // Lanes that lie apart have no name.
        innermost.then_some(())?;
        if is_part_of_row(s, &dims, value, over) { Scale::Group(product(s, over)?) } else { Scale::Token }
    } else if !innermost {
        let is_known = |axis: &AxisId| s.axes.extent(*axis).as_const().is_some();
        // Of rows whose number is not known, axes that are known are part.
        let apart = all.iter().any(|axis| !over.contains(axis) && !is_known(axis)) && over.iter().all(is_known);
        let first = all.iter().position(|axis| over.contains(axis))?;
        let together = || all[first..].iter().take(over.len()).all(|axis| over.contains(axis));
        match apart || is_part(over) {
            true => Scale::Group(product(s, over)?),
            false => together().then_some(Scale::Channel)?,
        }
    } else if is_part(&rows) || lanes.len() < row.len() {
        Scale::Block(product(s, &rows)?, product(s, &lanes)?)
    } else {
        // Rows that lie apart have no name.
        all[all.len() - over.len()..].iter().all(|axis| over.contains(axis)).then_some(Scale::Token)?
    })
}

/// Whether a reduction runs over the innermost dim of its operand, be that one lane.
fn runs_over_lanes(s: &Skeleton<'_>, reduction: NodeId) -> bool {
    let node = s.body.node(reduction);
    let innermost = s.body.ty(node.operands[0]).rank().checked_sub(1);
    matches!(&node.op, Op::Prim(Prim::Reduce { axes, .. }) if innermost.is_some_and(|dim| axes.contains(&dim)))
}

/// Whether axes are those of a dim of some value, and are in no other dim with more than these.
fn is_one_row(dims: &BTreeSet<Vec<AxisId>>, over: &[AxisId]) -> bool {
    let within = |dim: &Vec<AxisId>| dim.iter().all(|axis| over.contains(axis));
    over.len() > 1
        && dims.iter().any(|dim| dim.len() == over.len() && within(dim))
        && dims.iter().all(|dim| within(dim) || !dim.iter().any(|axis| over.contains(axis)))
}

/// The axes of every dim that some value has of the axes of one: lanes that heads share are also in rows of others.
fn dims_of(s: &Skeleton<'_>, all: &[AxisId]) -> BTreeSet<Vec<AxisId>> {
    let dims = (0..s.body.value_count() as u32).map(Value).flat_map(|value| s.axes.dims(value));
    dims.filter(|dim| dim.iter().all(|axis| all.contains(axis))).collect()
}

/// The axes of the row that the innermost of all axes of a value belongs to: of the longest of its dims, less than all.
fn row_of(dims: &BTreeSet<Vec<AxisId>>, all: &[AxisId]) -> Vec<AxisId> {
    let Some(innermost) = all.last() else { return Vec::new() };
    let rows = dims.iter().filter(|dim| dim.last() == Some(innermost) && dim.len() < all.len());
    rows.max_by_key(|dim| dim.len()).cloned().unwrap_or_else(|| vec![*innermost])
}

/// Whether lanes are part of a row: of the dim that some value has, or beside others of a known number in a value whose
/// rows are of a number that is not known, as heads are.
fn is_part_of_row(s: &Skeleton<'_>, dims: &BTreeSet<Vec<AxisId>>, value: Value, lanes: &[AxisId]) -> bool {
    if dims.iter().any(|dim| dim.len() > lanes.len() && dim.ends_with(lanes)) {
        return true;
    }
    let known = |dim: &Vec<AxisId>| dim.iter().all(|&axis| s.axes.extent(axis).as_const().is_some());
    let dims: Vec<_> = s.axes.dims(value).into_iter().filter(|dim| !dim.is_empty()).collect();
    match dims.as_slice() {
        [rows @ .., beside, last] => *last == lanes && known(beside) && !rows.iter().all(known),
        _ => false,
    }
}
