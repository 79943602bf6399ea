//! Lanes: the axes that a row runs over inside, and which of them each value holds.
//!
//! Lanes are the axes that reductions and top-k run over and that slices, concatenations and packing of computed values
//! cut, be it to a single one; without any, the innermost dim of the output of most axes. A *row* is a run of lanes that something covers as a
//! whole. What holds the leading lanes of a row is a group of it; what holds other lanes, or lanes of several rows, is a
//! row of its own.

use fusewright_graph::axes::{AxisId, AxisMap, Strides};
use fusewright_graph::{Dim, Graph, Input, Node, NodeId, Op, Prim, Value, dim};

use super::Stored;

/// How often a row may be repeated in another, or a reduction be written out.
const MAX_REPEATS: i64 = 64;

/// Most lanes of a row of which the leading ones are reduced.
const MAX_BESIDE: i64 = 1 << 16;

/// The lanes of a body of primitives.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    rows: Vec<Vec<AxisId>>,
    held: Vec<Vec<AxisId>>,
    views: Vec<bool>,
}

/// How elements over some lanes become elements over more of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// They are the same lanes.
    Same,
    /// They are the leading lanes: every element stands for a group, one element for all.
    Leading,
    /// They are the trailing lanes: the row comes again, so many times in all.
    Trailing(i64),
}

impl Lanes {
    /// The lanes of a body.
    pub fn of(body: &Graph, axes: &AxisMap) -> Lanes {
        Lanes::with(body, axes, Vec::new())
    }

    /// The lanes of a body in which what lies behind the axes of a short reduction are lanes too, so that neighbours in
    /// memory are neighbours in a row; `None` if there is no such reduction.
    pub fn beside_reductions(body: &Graph, axes: &AxisMap) -> Option<Lanes> {
        let runs: Vec<Vec<AxisId>> = axes.reduced().filter_map(|(id, over)| beside(body, axes, id, &over)).collect();
        (!runs.is_empty()).then(|| Lanes::with(body, axes, runs))
    }

    fn with(body: &Graph, axes: &AxisMap, more: Vec<Vec<AxisId>>) -> Lanes {
        let views = views(body, axes);
        let rows = find_rows(body, axes, &views, more);
        let mut lanes = Lanes { rows, held: vec![Vec::new(); body.value_count()], views };
        for input in body.inputs() {
            lanes.held[input.value.0 as usize] = lanes.of_value(axes, input.value);
        }
        for id in body.node_ids() {
            let node = body.node(id);
            for (i, &result) in node.results.iter().enumerate() {
                lanes.held[result.0 as usize] = lanes.held_by(axes, id, node, i);
            }
        }
        lanes
    }

    /// Each row, outermost lane first; a row that is a run of another is not listed.
    pub fn rows(&self) -> &[Vec<AxisId>] {
        &self.rows
    }

    /// Whether an axis is a lane.
    pub fn is_lane(&self, axis: AxisId) -> bool {
        self.rows.iter().any(|row| row.contains(&axis))
    }

    /// The lanes of a value as its type has them.
    pub fn of_value(&self, axes: &AxisMap, value: Value) -> Vec<AxisId> {
        axes.flat(value).into_iter().filter(|&a| self.is_lane(a)).collect()
    }

    /// The lanes along which a value's elements differ, or may: those that it is repeated over are not among them.
    pub fn held(&self, value: Value) -> &[AxisId] {
        &self.held[value.0 as usize]
    }

    /// The row that some lanes are, or begin.
    pub fn row_of(&self, lanes: &[AxisId]) -> Option<&[AxisId]> {
        let whole = self.rows.iter().find(|row| *row == lanes);
        whole.or_else(|| self.rows.iter().find(|row| row.starts_with(lanes))).map(Vec::as_slice)
    }

    /// Whether a value is an index map of an input, which may be read in any order of lanes.
    pub fn is_view(&self, value: Value) -> bool {
        self.views[value.0 as usize]
    }

    /// Whether a value's elements can be had over some lanes.
    pub fn reaches(&self, axes: &AxisMap, value: Value, to: &[AxisId]) -> bool {
        let held = self.held(value);
        let inside = self.is_view(value) && held.iter().all(|a| to.contains(a));
        inside || spread(axes, held, to).is_some()
    }

    fn held_by(&self, axes: &AxisMap, id: NodeId, node: &Node, result: usize) -> Vec<AxisId> {
        let value = node.results[result];
        let all = self.of_value(axes, value);
        let Op::Prim(prim) = &node.op else { return all };
        let of_operand = || self.held(node.operands[0]).to_vec();
        let one_lane = || axes.reduced().any(|(at, over)| at == id && over.is_empty());
        match prim {
            _ if self.is_view(value) => all,
            Prim::Literal(_) | Prim::SizeOf(_) => Vec::new(),
            Prim::Iota { axis, .. } => {
                axes.dims(value).swap_remove(*axis).into_iter().filter(|&a| self.is_lane(a)).collect()
            }
            Prim::Map(_) => {
                let held = |a: &AxisId| node.operands.iter().any(|&v| self.held(v).contains(a));
                all.into_iter().filter(held).collect()
            }
            Prim::Cast { .. } | Prim::Bitcast { .. } | Prim::AllReduce(_) => of_operand(),
            Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } => of_operand(),
            Prim::Cat { .. } if axes.pads(id) => of_operand(),
            Prim::Reduce { .. } if one_lane() => of_operand(),
            Prim::TopK { .. } if one_lane() && result == 0 => of_operand(),
            Prim::ArgReduce { .. } | Prim::TopK { .. } if one_lane() => Vec::new(),
            _ => all,
        }
    }
}

/// How elements over some lanes are had over others that hold them all; `None` if no row program does that.
pub fn spread(axes: &AxisMap, from: &[AxisId], to: &[AxisId]) -> Option<Spread> {
    if from == to {
        return Some(Spread::Same);
    }
    if to.starts_with(from) {
        return Some(Spread::Leading);
    }
    let repeats = count(axes, to.strip_suffix(from)?)?;
    Some(Spread::Trailing(repeats))
}

/// How many elements lanes have, if that is known and few enough to repeat a row or write a reduction out.
pub fn count(axes: &AxisMap, lanes: &[AxisId]) -> Option<i64> {
    dim::product(lanes.iter().map(|&a| axes.extent(a))).as_const().filter(|&n| n <= MAX_REPEATS)
}

/// Whether that many of the largest of a group of lanes may be searched one by one.
pub fn selects_few(k: &Dim) -> bool {
    k.as_const().is_some_and(|k| k <= MAX_REPEATS / 4)
}

/// Says of each value whether it is an index map of an input: reached through layout ops alone, none of which slices a dim that
/// no one stride walks.
fn views(body: &Graph, axes: &AxisMap) -> Vec<bool> {
    let mut views: Vec<Option<Strides>> = vec![None; body.value_count()];
    for input in body.inputs() {
        let strides = Strides::contiguous(axes, &axes.dims(input.value), &body.ty(input.value).shape);
        views[input.value.0 as usize] = Some(strides);
    }
    for node in body.nodes() {
        let Op::Prim(prim) = &node.op else { continue };
        let Some(strides) = node.operands.first().and_then(|v| views[v.0 as usize].as_ref()) else { continue };
        let dim = |value: Value, axis: usize| axes.dims(value).swap_remove(axis);
        let result = match prim {
            Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } => Some(strides.clone()),
            Prim::Gather { axis } => Some(strides.clone().without(&dim(node.operands[0], *axis))),
            Prim::Slice { axis, start, step, .. } => {
                let [from, to] = [node.operands[0], node.results[0]].map(|value| dim(value, *axis));
                if Strides::stays(&from, &to, start, *step) {
                    Some(strides.clone())
                } else {
                    strides.cut(axes, &from, &to, *step)
                }
            }
            _ => None,
        };
        views[node.results[0].0 as usize] = result;
    }
    views.iter().map(Option::is_some).collect()
}

/// The axes of a short reduction and those behind them in its operand, if these follow each other in an input as well.
fn beside(body: &Graph, axes: &AxisMap, id: NodeId, over: &[AxisId]) -> Option<Vec<AxisId>> {
    let node = body.node(id);
    let short = !over.is_empty() && count(axes, over).is_some();
    if !short || !matches!(node.op, Op::Prim(Prim::Reduce { .. })) {
        return None;
    }
    let flat = axes.flat(node.operands[0]);
    let start = flat.windows(over.len()).position(|window| window == over)?;
    let run = &flat[start..];
    let lanes = dim::product(run.iter().map(|&a| axes.extent(a))).as_const()?;
    let lies = |run: &[AxisId]| {
        let lies = |input: &Input| axes.flat(input.value).windows(run.len()).any(|window| window == run);
        body.inputs().iter().any(lies)
    };
    // Rows of a stack lie apart, each in one piece.
    let stack = matches!(body.def_node(node.operands[0]).map(|node| &node.op), Some(Op::Prim(Prim::Cat { .. })));
    let fits = run.len() > over.len() && lanes <= MAX_BESIDE && (lies(run) || stack && lies(&run[over.len()..]));
    fits.then(|| run.to_vec())
}

/// Each row of lanes once, outermost axis first.
fn find_rows(body: &Graph, axes: &AxisMap, views: &[bool], more: Vec<Vec<AxisId>>) -> Vec<Vec<AxisId>> {
    let mut runs: Vec<Vec<AxisId>> = axes.reduced().map(|(_, over)| over).chain(more).collect();
    // What a top-k selects is a row of its own.
    let selected = body.nodes().iter().filter(|node| matches!(node.op, Op::Prim(Prim::TopK { .. })));
    runs.extend(selected.filter_map(|node| axes.dims(node.results[0]).pop()));
    for cut in axes.derived() {
        if !views[body.node(cut.node).results[0].0 as usize] {
            runs.push(axes.resolve(&[cut.axis]));
            runs.extend(cut.from.iter().map(|from| axes.resolve(from)));
        }
    }
    runs.extend(axes.taken().filter(|(id, _)| !views[body.node(*id).results[0].0 as usize]).map(|(_, from)| from));
    runs.retain(|run| !run.is_empty());
    if runs.is_empty() {
        runs.push(innermost_dim(body, axes));
        runs.retain(|run| !run.is_empty());
    }
    // Longest first, so that a shorter run is found inside the one that holds it.
    runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
    let mut lanes: Vec<Vec<AxisId>> = Vec::new();
    for run in runs {
        if !lanes.iter().any(|row| row.windows(run.len()).any(|window| window == run)) {
            lanes.push(run);
        }
    }
    add_cut(axes, views, body, &mut lanes);
    while let Some((a, b)) = neighbours(body, axes, views, &lanes) {
        let joined = [&lanes[a][..], &lanes[b]].concat();
        lanes.retain(|row| !joined.starts_with(row) && !joined.ends_with(row));
        lanes.push(joined);
    }
    add_copied(body, axes, &mut lanes);
    lanes
}

/// Parts that views cut out of the last lanes of a row are lanes beside the first ones: halves of heads, say, of a row of
/// all heads.
fn add_cut(axes: &AxisMap, views: &[bool], body: &Graph, lanes: &mut Vec<Vec<AxisId>>) {
    for cut in axes.derived() {
        let result = body.node(cut.node).results[0];
        let from = cut.from.first().map(|from| axes.resolve(from)).filter(|from| !from.is_empty());
        let Some(from) = from.filter(|_| views[result.0 as usize]) else { continue };
        let flat = axes.flat(result);
        let holds = |first: &[AxisId]| !first.is_empty() && first.iter().all(|axis| flat.contains(axis));
        let first = lanes.iter().find_map(|row| row.strip_suffix(&from[..]).filter(|first| holds(first)));
        let Some(run) = first.map(|first| [first, &axes.resolve(&[cut.axis])].concat()) else { continue };
        if !lanes.iter().any(|row| row.windows(run.len()).any(|window| window == run)) {
            lanes.push(run);
        }
    }
}

/// Two rows of lanes that follow each other in a computed value: one row of both.
fn neighbours(body: &Graph, axes: &AxisMap, views: &[bool], lanes: &[Vec<AxisId>]) -> Option<(usize, usize)> {
    if lanes.len() < 2 {
        return None;
    }
    let at = |row: &[AxisId], flat: &[AxisId]| flat.windows(row.len()).position(|window| window == row);
    (0..body.value_count() as u32).filter(|&v| !views[v as usize]).find_map(|v| {
        let flat = axes.flat(Value(v));
        let starts: Vec<Option<usize>> = lanes.iter().map(|row| at(row, &flat)).collect();
        let follows = |a: usize, b: usize| starts[a].is_some_and(|start| starts[b] == Some(start + lanes[a].len()));
        (0..lanes.len()).find_map(|a| (0..lanes.len()).find(|&b| follows(a, b)).map(|b| (a, b)))
    })
}

/// Rows that have no lanes, beside others that have some, have the innermost dim as their lanes, if it is theirs alone.
fn add_copied(body: &Graph, axes: &AxisMap, lanes: &mut Vec<Vec<AxisId>>) {
    let counted = counted(body, axes);
    for output in body.outputs() {
        let Stored { value, .. } = Stored::of(body, output.value);
        let dims = axes.dims(value);
        let Some(dim) = dims.iter().rfind(|dim| !dim.is_empty()) else { continue };
        if dim.iter().any(|axis| counted.contains(axis)) {
            continue;
        }
        let in_lanes = |axis: &AxisId| lanes.iter().any(|row| row.contains(axis));
        let shares = |v: u32| {
            let flat = axes.flat(Value(v));
            flat.iter().any(|a| dim.contains(a)) && flat.iter().any(in_lanes)
        };
        if !(0..body.value_count() as u32).any(shares) {
            lanes.push(dim.clone());
        }
    }
}

/// The axes that indices of gathers and scatters count.
fn counted(body: &Graph, axes: &AxisMap) -> Vec<AxisId> {
    let places = body.nodes().iter().filter(|n| matches!(n.op, Op::Prim(Prim::Gather { .. } | Prim::Scatter { .. })));
    places.flat_map(|node| axes.flat(node.operands[1])).collect()
}

/// The axes of the innermost dim of the output that has most axes. What indices count are rows: where they choose single
/// elements, every element is a row.
fn innermost_dim(body: &Graph, axes: &AxisMap) -> Vec<AxisId> {
    let counted = counted(body, axes);
    let mut widest: Vec<AxisId> = Vec::new();
    let mut most = 0;
    for output in body.outputs() {
        let dims = axes.dims(Stored::of(body, output.value).value);
        let count = dims.iter().map(Vec::len).sum();
        if count > most {
            most = count;
            let innermost = dims.into_iter().rfind(|dim| !dim.is_empty()).unwrap_or_default();
            widest = if innermost.iter().any(|axis| counted.contains(axis)) { Vec::new() } else { innermost };
        }
    }
    widest
}
