//! The iteration space of a body of primitives, and whether it has one.
//!
//! Lanes are the axes that reductions and top-k run over and that slices and concatenations of computed values cut; without any,
//! the innermost dim of the output of most axes. Every other axis counts rows. A body is one row program if all its
//! outputs run over the same rows, no row depends on another, and every computed value holds its lanes in one order.
//! Where that fails for a body that pads, its padded rows are tried as rows of which some values have fewer.

use fusewright_graph::axes::{AxisId, AxisMap};
use fusewright_graph::{Graph, Op, Prim, Value, padding};

use super::stored::check_scatters;
use super::{Refusal, Stored};

/// Rows and lanes of a body.
#[derive(Clone, Debug)]
pub struct Space {
    /// The axes of all values.
    pub axes: AxisMap,
    /// Row axes in the order of the first output.
    pub rows: Vec<AxisId>,
    /// Lane axes of each lane space, outermost first; a space that is part of another is not listed.
    pub lanes: Vec<Vec<AxisId>>,
    packs: Packs,
}

/// What packing made of lanes: the axes that it joined, and the axes of the packed ones.
///
/// Packing the last lanes of a longer row packs all of that row, so that its leading axes and the packed ones are lanes
/// of one value.
#[derive(Clone, Debug, Default)]
pub struct Packs(Vec<(Vec<AxisId>, Vec<AxisId>)>);

impl Packs {
    /// The packings of a body.
    pub fn of(body: &Graph, axes: &AxisMap) -> Packs {
        let packs = axes.derived().iter().filter(|cut| matches!(body.node(cut.node).op, Op::Prim(Prim::Pack { .. })));
        Packs(packs.map(|cut| (axes.resolve(&cut.from.concat()), axes.resolve(&[cut.axis]))).collect())
    }

    /// Whether lanes are those of a row of several axes, the last of which were packed.
    pub fn is_packed_row(&self, row: &[AxisId], lanes: &[AxisId]) -> bool {
        self.0.iter().any(|(from, to)| {
            lanes
                .strip_suffix(&to[..])
                .is_some_and(|kept| !kept.is_empty() && row.strip_prefix(kept) == Some(&from[..]))
        })
    }
}

impl Space {
    /// The space of a body of primitives.
    ///
    /// # Errors
    /// Why the body is no row program.
    pub fn of(body: &Graph) -> Result<Space, Refusal> {
        Space::find(body, false)
    }

    /// As [`Space::of`]; with `segments`, outputs may run over inner rows of their own beside the common rows.
    ///
    /// # Errors
    /// Why the body is no row program.
    pub fn find(body: &Graph, segments: bool) -> Result<Space, Refusal> {
        let plain = AxisMap::of(body).map_err(|_| Refusal::Reshape).and_then(|axes| Space::over(body, axes, segments));
        match plain {
            Err(refusal) if padding::pads(body) => {
                let axes = AxisMap::with_padded_rows(body).map_err(|_| refusal)?;
                Space::over(body, axes, segments).map_err(|_| refusal)
            }
            other => other,
        }
    }

    fn over(body: &Graph, axes: AxisMap, segments: bool) -> Result<Space, Refusal> {
        let views = views(body);
        let lanes = find_lanes(body, &axes, &views)?;
        let packs = Packs::of(body, &axes);
        let mut space = Space { axes, rows: Vec::new(), lanes, packs };
        space.check_selected(body)?;
        space.check_values(body, &views)?;
        space.rows = space.common_rows(body, segments)?;
        space.check_nodes(body, &views)?;
        check_scatters(body, &space.axes)?;
        Ok(space)
    }

    /// Whether an axis is a lane.
    pub fn is_lane(&self, axis: AxisId) -> bool {
        self.row_of(axis).is_some()
    }

    fn row_of(&self, axis: AxisId) -> Option<&[AxisId]> {
        self.lanes.iter().find(|row| row.contains(&axis)).map(Vec::as_slice)
    }

    /// The lane axes of a value.
    fn lanes_of(&self, value: Value) -> Vec<AxisId> {
        self.axes.flat(value).into_iter().filter(|&a| self.is_lane(a)).collect()
    }

    /// Whether a value is a packed row: of such a one only whole rows are computed with.
    fn is_packed_row(&self, value: Value) -> bool {
        let lanes = self.lanes_of(value);
        lanes.first().and_then(|&a| self.row_of(a)).is_some_and(|row| self.packs.is_packed_row(row, &lanes))
    }

    /// A top-k runs over all lanes of a row, and selects a known number of them.
    fn check_selected(&self, body: &Graph) -> Result<(), Refusal> {
        for (id, over) in self.axes.reduced() {
            let node = body.node(id);
            let Op::Prim(Prim::TopK { k }) = &node.op else { continue };
            let lanes = self.axes.flat(node.operands[0]).into_iter().filter(|&a| self.is_lane(a));
            if !lanes.eq(over) || k.as_const().is_none() {
                return Err(Refusal::TopK);
            }
        }
        Ok(())
    }

    /// Every value holds an axis once, and computed values hold their lanes in the order of the row.
    fn check_values(&self, body: &Graph, views: &[bool]) -> Result<(), Refusal> {
        for value in (0..body.value_count() as u32).map(Value) {
            let flat = self.axes.flat(value);
            if (1..flat.len()).any(|i| flat[..i].contains(&flat[i])) {
                return Err(Refusal::Diagonal);
            }
            let lanes = self.lanes_of(value);
            let Some(row) = lanes.first().and_then(|&a| self.row_of(a)) else { continue };
            let fits =
                if views[value.0 as usize] { lanes.iter().all(|a| row.contains(a)) } else { row.starts_with(&lanes) };
            if !fits && !self.packs.is_packed_row(row, &lanes) {
                return Err(Refusal::LaneOrder);
            }
        }
        Ok(())
    }

    /// The rows that every output runs over.
    fn common_rows(&self, body: &Graph, segments: bool) -> Result<Vec<AxisId>, Refusal> {
        let rows_of =
            |value| -> Vec<AxisId> { self.axes.flat(value).into_iter().filter(|&a| !self.is_lane(a)).collect() };
        let outputs: Vec<Vec<AxisId>> =
            body.outputs().iter().map(|o| rows_of(Stored::of(body, o.value).value)).collect();
        let Some(first) = outputs.first() else { return Err(Refusal::Dead) };
        if outputs.iter().all(|rows| rows.len() == first.len() && rows.iter().all(|a| first.contains(a))) {
            return Ok(first.clone());
        }
        let shared: Vec<AxisId> =
            first.iter().copied().filter(|a| outputs.iter().all(|rows| rows.contains(a))).collect();
        match (shared.is_empty(), segments) {
            (true, _) => Err(Refusal::NoCommonRows),
            (false, false) => Err(Refusal::InnerRows),
            (false, true) => Ok(shared),
        }
    }

    fn check_nodes(&self, body: &Graph, views: &[bool]) -> Result<(), Refusal> {
        let reduced: Vec<_> = self.axes.reduced().collect();
        for id in body.node_ids() {
            let node = body.node(id);
            let Op::Prim(prim) = &node.op else { continue };
            match prim {
                Prim::Reduce { .. } | Prim::ArgReduce { .. } | Prim::TopK { .. } => {
                    let over = reduced.iter().find(|(at, _)| *at == id).map_or(&[][..], |(_, over)| over);
                    self.check_reduced(node.operands[0], over)?;
                    self.check_single_row(node.operands[0], over)?;
                }
                Prim::Gather { .. } => {
                    if !views[node.operands[0].0 as usize] {
                        return Err(Refusal::GatherComputed);
                    }
                    if self.axes.flat(node.operands[1]).iter().any(|&a| self.is_lane(a)) {
                        return Err(Refusal::GatherLanes);
                    }
                }
                Prim::Scatter { axis } => {
                    let chosen = self.axes.dims(node.operands[0]).swap_remove(*axis);
                    let places = self.axes.flat(node.operands[1]);
                    if chosen.iter().chain(&places).any(|&a| self.is_lane(a)) {
                        return Err(Refusal::GatherLanes);
                    }
                }
                Prim::Cat { axis } if self.axes.pads(id) => {
                    let rows = |a: &AxisId| !self.is_lane(*a);
                    self.axes.dims(node.results[0])[*axis].iter().all(rows).then_some(()).ok_or(Refusal::LaneCut)?;
                }
                Prim::Slice { axis, .. } | Prim::Cat { axis } if !views[node.results[0].0 as usize] => {
                    let dim = |v: &Value| self.axes.dims(*v).swap_remove(*axis);
                    let whole = |v: &Value| self.lanes.contains(&dim(v));
                    // A stack joins along a new dim.
                    let cat = matches!(prim, Prim::Cat { .. });
                    let stacks = cat && node.operands.iter().all(|v| dim(v).is_empty());
                    if !stacks && !node.operands.iter().chain(&node.results).all(whole) {
                        return Err(Refusal::LaneCut);
                    }
                }
                Prim::Map(_) if self.is_packed_row(node.results[0]) => {
                    let whole = self.lanes_of(node.results[0]);
                    let fits = |v: &Value| [&whole[..], &[]].contains(&&self.lanes_of(*v)[..]);
                    if !node.operands.iter().all(fits) {
                        return Err(Refusal::LaneOrder);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reductions run over the last lanes of their operand. Rows may be behind these, if it is known how many lanes
    /// there are: what has a symbolic extent counts the rows of the whole tensor.
    fn check_reduced(&self, operand: Value, over: &[AxisId]) -> Result<(), Refusal> {
        if self.is_packed_row(operand) {
            return Err(Refusal::LaneOrder);
        }
        let flat = self.axes.flat(operand);
        let known = over.iter().all(|&a| self.axes.extent(a).as_const().is_some());
        let lanes: Vec<AxisId> = flat.iter().copied().filter(|&a| self.is_lane(a)).collect();
        if flat.ends_with(over) || (known && lanes.ends_with(over)) { Ok(()) } else { Err(Refusal::ReductionAxis) }
    }

    /// A body without rows reduces one axis of known extent at a time; anything else is a reduction of a tensor.
    fn check_single_row(&self, operand: Value, over: &[AxisId]) -> Result<(), Refusal> {
        if !self.rows.is_empty() {
            return Ok(());
        }
        let symbolic = over.iter().any(|&a| self.axes.extent(a).as_const().is_none());
        let dims = self.axes.dims(operand);
        let several = dims.iter().filter(|dim| dim.iter().any(|a| over.contains(a))).count() > 1;
        if symbolic || several { Err(Refusal::WholeTensor) } else { Ok(()) }
    }
}

/// For each value, whether it is an index map of an input.
fn views(body: &Graph) -> Vec<bool> {
    let mut views = vec![false; body.value_count()];
    for input in body.inputs() {
        views[input.value.0 as usize] = true;
    }
    for node in body.nodes() {
        let layout = matches!(
            &node.op,
            Op::Prim(
                Prim::Reshape { .. }
                    | Prim::Permute { .. }
                    | Prim::Expand { .. }
                    | Prim::Slice { .. }
                    | Prim::Gather { .. }
            )
        );
        if layout && views[node.operands[0].0 as usize] {
            views[node.results[0].0 as usize] = true;
        }
    }
    views
}

/// The lane axes of a body of primitives: each row of lanes once, outermost axis first.
///
/// # Errors
/// Lanes that overlap without nesting.
pub fn lanes(body: &Graph, axes: &AxisMap) -> Result<Vec<Vec<AxisId>>, Refusal> {
    find_lanes(body, axes, &views(body))
}

fn find_lanes(body: &Graph, axes: &AxisMap, views: &[bool]) -> Result<Vec<Vec<AxisId>>, Refusal> {
    let mut runs: Vec<Vec<AxisId>> = axes.reduced().map(|(_, over)| over).collect();
    // What a top-k selects is a row of its own.
    let selected = body.nodes().iter().filter(|node| matches!(node.op, Op::Prim(Prim::TopK { .. })));
    runs.extend(selected.filter_map(|node| axes.dims(node.results[0]).pop()));
    for cut in axes.derived() {
        if !views[body.node(cut.node).results[0].0 as usize] {
            runs.push(axes.resolve(&[cut.axis]));
            runs.extend(cut.from.iter().map(|from| axes.resolve(from)));
        }
    }
    runs.retain(|run| !run.is_empty());
    if runs.is_empty() {
        runs.push(innermost_dim(body, axes));
        runs.retain(|run| !run.is_empty());
    }
    // Longest first, so that a shorter run is found inside the one that holds it.
    runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
    let mut lanes: Vec<Vec<AxisId>> = Vec::new();
    for run in runs {
        match lanes.iter().find(|row| run.iter().any(|a| row.contains(a))) {
            None => lanes.push(run),
            Some(row) if row.windows(run.len()).any(|window| window == run) => {}
            Some(_) => return Err(Refusal::LaneOverlap),
        }
    }
    while let Some((a, b)) = neighbours(body, axes, views, &lanes) {
        let joined = [&lanes[a][..], &lanes[b]].concat();
        lanes.retain(|row| !joined.starts_with(row) && !joined.ends_with(row));
        lanes.push(joined);
    }
    add_copied(body, axes, &mut lanes);
    Ok(lanes)
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

/// Rows that are only copied, beside others that are computed, have the innermost dim as their lanes.
fn add_copied(body: &Graph, axes: &AxisMap, lanes: &mut Vec<Vec<AxisId>>) {
    for output in body.outputs() {
        let Stored { value, scatter: Some(_) } = Stored::of(body, output.value) else { continue };
        let dims = axes.dims(value);
        let Some(dim) = dims.iter().rfind(|dim| !dim.is_empty()) else { continue };
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

/// The axes of the innermost dim of the output that has most axes.
fn innermost_dim(body: &Graph, axes: &AxisMap) -> Vec<AxisId> {
    let mut widest: Vec<AxisId> = Vec::new();
    let mut most = 0;
    for output in body.outputs() {
        let dims = axes.dims(Stored::of(body, output.value).value);
        let count = dims.iter().map(Vec::len).sum();
        if count > most {
            most = count;
            widest = dims.into_iter().rfind(|dim| !dim.is_empty()).unwrap_or_default();
        }
    }
    widest
}
