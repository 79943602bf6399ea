//! The iteration space of a body of primitives, and whether it has one.
//!
//! Lanes are the axes that reductions and top-k run over and that slices and concatenations of computed values cut; without any,
//! the innermost dim of the output of most axes. Every other axis counts rows. A body is one row program if all its
//! outputs run over the same rows, no row depends on another, and every computed value holds its lanes in one order.
//! Where that fails for a body that pads, its padded rows are tried as rows of which some values have fewer.

use std::collections::BTreeSet;

use fusewright_graph::axes::{AxisId, AxisMap};
use fusewright_graph::{Def, Graph, Node, NodeId, Op, Prim, Value, padding};

use super::chained::chained;
use super::lanes::{count, selects_few};
use super::packed::packed;
use super::reread::reread;
use super::stored::check_scatters;
use super::{Lanes, Refusal, RowForm, Stored};

/// Rows and lanes of a body.
#[derive(Clone, Debug)]
pub struct Space {
    /// The axes of all values.
    pub axes: AxisMap,
    /// Row axes in the order of the first output.
    pub rows: Vec<AxisId>,
    /// The other axes.
    pub lanes: Lanes,
    /// The row program that these are axes of, if it is not the body as it stands.
    pub form: Option<RowForm>,
}

/// How the lanes of values may lie to each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Nesting {
    /// Every computed value holds the leading lanes of one row, and rows share no lanes.
    Strict,
    /// Values may be rows of their own beside others that hold the same lanes.
    Loose,
}

impl Space {
    /// The space of a body of primitives.
    ///
    /// # Errors
    /// Why the body is no row program.
    pub fn of(body: &Graph) -> Result<Space, Refusal> {
        Space::find(body, false)
    }

    /// As [`Space::of`]; with `segments`, outputs may run over inner rows of their own beside the common rows, and so may
    /// the parts of outputs that are concatenations. Lanes nest strictly where they can.
    ///
    /// # Errors
    /// Why the body is no row program.
    pub fn find(body: &Graph, segments: bool) -> Result<Space, Refusal> {
        let plain = Space::plain(body, segments, Nesting::Loose);
        let in_parts = |nesting| Space::in_parts(body, segments, nesting);
        match plain {
            Ok(space) => {
                let strict = || Space::plain(body, segments, Nesting::Strict).is_ok();
                Ok(in_parts(Nesting::Strict).filter(|_| !strict()).unwrap_or(space))
            }
            Err(refusal) => {
                let nestings = [Nesting::Strict, Nesting::Loose];
                let found = nestings.into_iter().find_map(in_parts);
                found.or_else(|| Space::reread(body, segments, &nestings, refusal)).ok_or(refusal)
            }
        }
    }

    /// As [`Space::find`], of lanes that lie to each other as is said.
    ///
    /// # Errors
    /// Why the body is no such row program.
    pub fn nested(body: &Graph, segments: bool, nesting: Nesting) -> Result<Space, Refusal> {
        match nesting {
            Nesting::Loose => Space::find(body, segments),
            Nesting::Strict => Space::plain(body, segments, nesting).or_else(|refusal| {
                let found = Space::in_parts(body, segments, nesting);
                found.or_else(|| Space::reread(body, segments, &[nesting], refusal)).ok_or(refusal)
            }),
        }
    }

    /// The space of a body that was refused because one axis occurs twice in a value, if those are readings of one tensor.
    fn reread(body: &Graph, segments: bool, nestings: &[Nesting], refusal: Refusal) -> Option<Space> {
        let form = if refusal == Refusal::Diagonal { reread(body)? } else { return None };
        let space = nestings.iter().find_map(|&nesting| Space::plain(&form.body, segments, nesting).ok())?;
        Some(Space { form: Some(form), ..space })
    }

    /// The space of a body whose outputs are stored part by part: concatenations, and writes into one input.
    fn in_parts(body: &Graph, segments: bool, nesting: Nesting) -> Option<Space> {
        // The parts of a concatenation have rows of their own.
        let packed = |body: &Graph, deep| if segments { packed(body, deep) } else { None };
        let both = || {
            let chained = chained(body)?;
            packed(&chained.body, true).map(|form| form.of(&chained))
        };
        let forms: [&dyn Fn() -> Option<RowForm>; 4] =
            [&|| packed(body, false), &|| packed(body, true), &|| chained(body), &both];
        forms.into_iter().find_map(|form| {
            let form = form()?;
            let space = Space::plain(&form.body, segments, nesting).ok()?;
            Some(Space { form: Some(form), ..space })
        })
    }

    /// The space of a body as it stands.
    fn plain(body: &Graph, segments: bool, nesting: Nesting) -> Result<Space, Refusal> {
        let plain =
            AxisMap::of(body).map_err(|_| Refusal::Reshape).and_then(|axes| Space::over(body, axes, segments, nesting));
        // A body that fills rows up may have them as lanes too. A row of lanes is then as long as there are rows.
        let open = plain.as_ref().map_or(usize::MAX, Space::open_lanes);
        if open == 0 || !padding::pads(body) {
            return plain;
        }
        let padded = with_padded_rows(body).and_then(|axes| Space::over(body, axes, segments, nesting).ok());
        padded.filter(|padded| padded.open_lanes() < open).map_or(plain, Ok)
    }

    /// Counts the axes of lanes that have no constant extent.
    fn open_lanes(&self) -> usize {
        let lanes = self.lanes.rows().iter().flatten();
        lanes.filter(|&&axis| self.axes.extent(axis).as_const().is_none()).count()
    }

    fn over(body: &Graph, axes: AxisMap, segments: bool, nesting: Nesting) -> Result<Space, Refusal> {
        let lanes = Lanes::of(body, &axes);
        let mut space = Space { axes, rows: Vec::new(), lanes, form: None };
        space.check_selected(body)?;
        space.check_diagonals(body)?;
        if nesting == Nesting::Strict {
            space.check_nested(body)?;
        }
        space.rows = space.common_rows(body, segments)?;
        space.check_nodes(body)?;
        for output in body.outputs() {
            let stored = Stored::of(body, output.value).value;
            space.check_reaches(stored, &space.lanes_of(stored))?;
        }
        check_scatters(body, &space.axes)?;
        Ok(space)
    }

    /// Whether all outputs of the row program of a body run over the same rows.
    pub fn is_even(&self, body: &Graph) -> bool {
        let body = self.form.as_ref().map_or(body, |form| &form.body);
        body.outputs().iter().all(|output| {
            let flat = self.axes.flat(Stored::of(body, output.value).value);
            flat.into_iter().filter(|&axis| !self.is_lane(axis)).count() == self.rows.len()
        })
    }

    /// The inputs of the row program of a body that read the input at some position.
    pub fn reading(&self, body: &Graph, position: usize) -> impl Iterator<Item = Value> {
        let own = match &self.form {
            Some(form) => {
                let pairs = form.body.inputs().iter().zip(&form.inputs);
                pairs.filter(|(_, of)| **of == position).map(|(input, _)| input.value).collect()
            }
            None => body.inputs().get(position).map(|input| vec![input.value]).unwrap_or_default(),
        };
        own.into_iter()
    }

    /// Whether an axis is a lane.
    pub fn is_lane(&self, axis: AxisId) -> bool {
        self.lanes.is_lane(axis)
    }

    /// The lane axes of a value.
    fn lanes_of(&self, value: Value) -> Vec<AxisId> {
        self.lanes.of_value(&self.axes, value)
    }

    /// A top-k runs over all lanes of a row, or finds a few of each group of them; how many is known.
    fn check_selected(&self, body: &Graph) -> Result<(), Refusal> {
        for (id, over) in self.axes.reduced() {
            let node = body.node(id);
            let Op::Prim(Prim::TopK { k }) = &node.op else { continue };
            let lanes = self.lanes_of(node.operands[0]);
            let whole = over.is_empty() || lanes == over;
            let fits = whole || (lanes.ends_with(&over) && selects_few(k));
            if !fits || k.as_const().is_none() {
                return Err(Refusal::TopK);
            }
        }
        Ok(())
    }

    /// Every value holds an axis once.
    fn check_diagonals(&self, body: &Graph) -> Result<(), Refusal> {
        let twice = |value: u32| self.axes.is_diagonal(Value(value));
        if (0..body.value_count() as u32).any(twice) { Err(Refusal::Diagonal) } else { Ok(()) }
    }

    /// Lanes are those of one row, from its first on, and what runs over lanes of a row or cuts them takes them all.
    fn check_nested(&self, body: &Graph) -> Result<(), Refusal> {
        let rows = self.lanes.rows();
        let shared = |i: usize| rows[..i].iter().any(|row| row.iter().any(|a| rows[i].contains(a)));
        if (0..rows.len()).any(shared) {
            return Err(Refusal::LaneOrder);
        }
        for value in (0..body.value_count() as u32).map(Value) {
            let lanes = self.lanes_of(value);
            let Some(row) = lanes.first().and_then(|first| rows.iter().find(|row| row.contains(first))) else {
                continue;
            };
            let inside = || self.lanes.is_view(value) && lanes.iter().all(|a| row.contains(a));
            if !row.starts_with(&lanes) && !inside() {
                return Err(Refusal::LaneOrder);
            }
        }
        for (id, over) in self.axes.reduced().filter(|(_, over)| !over.is_empty()) {
            let lanes = self.lanes_of(body.node(id).operands[0]);
            match &body.node(id).op {
                Op::Prim(Prim::TopK { .. }) if lanes != over => return Err(Refusal::TopK),
                Op::Prim(Prim::Reduce { .. }) if !lanes.ends_with(&over) => return Err(Refusal::ReductionAxis),
                _ => {}
            }
        }
        Ok(())
    }

    fn check_reaches(&self, value: Value, to: &[AxisId]) -> Result<(), Refusal> {
        if self.lanes.reaches(&self.axes, value, to) { Ok(()) } else { Err(Refusal::LaneOrder) }
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
        match (shared.is_empty() && !has_one_row(body), segments) {
            (true, _) => Err(Refusal::NoCommonRows),
            (false, false) => Err(Refusal::InnerRows),
            (false, true) => Ok(shared),
        }
    }

    fn check_nodes(&self, body: &Graph) -> Result<(), Refusal> {
        for id in body.node_ids() {
            let node = body.node(id);
            let Op::Prim(prim) = &node.op else { continue };
            if let Prim::Gather { axis } = prim {
                self.check_gather(body, node, *axis)?;
            }
            if let Prim::Slice { axis, .. } = prim
                && self.lanes.is_view(node.results[0])
            {
                self.check_gathered(body, node.operands[0], *axis)?;
            }
            if node.results.iter().all(|&r| self.lanes.is_view(r)) {
                continue;
            }
            match prim {
                Prim::Reduce { .. } | Prim::ArgReduce { .. } | Prim::TopK { .. } => {
                    let over = self.axes.reduced().find(|(at, _)| *at == id).map(|(_, over)| over).unwrap_or_default();
                    let writes_out = matches!(prim, Prim::Reduce { .. });
                    self.check_reduced(node.operands[0], &over, writes_out)?;
                    self.check_single_row(body, id, &over)?;
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
                Prim::Slice { axis, .. } if self.takes_one(node, *axis) => {
                    self.check_reaches(node.operands[0], &self.lanes_of(node.operands[0]))?;
                }
                Prim::Slice { axis, .. } | Prim::Cat { axis } => self.check_cut(node, *axis)?,
                Prim::Pack { .. } => {
                    let lanes = self.lanes_of(node.operands[0]);
                    self.check_reaches(node.operands[0], &lanes)?;
                }
                Prim::Iota { axis, .. } => {
                    let counted = self.axes.dims(node.results[0]).swap_remove(*axis);
                    let lanes = counted.iter().filter(|&&a| self.is_lane(a)).count();
                    [0, counted.len()].contains(&lanes).then_some(()).ok_or(Refusal::LaneOrder)?;
                }
                Prim::Map(_) => {
                    for &operand in &node.operands {
                        self.check_reaches(operand, self.lanes.held(node.results[0]))?;
                    }
                }
                Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } => {
                    let held = self.lanes.held(node.results[0]);
                    let lanes = self.lanes_of(node.results[0]).into_iter().filter(|a| held.contains(a));
                    lanes.eq(held.iter().copied()).then_some(()).ok_or(Refusal::LaneOrder)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_gather(&self, body: &Graph, node: &Node, axis: usize) -> Result<(), Refusal> {
        let source = node.operands[0];
        if !self.lanes.is_view(source) {
            return Err(Refusal::GatherComputed);
        }
        if self.axes.flat(node.operands[1]).iter().any(|&a| self.is_lane(a)) {
            return Err(Refusal::GatherLanes);
        }
        // An index map has no place for indices at indices.
        let chosen = self.axes.dims(source).swap_remove(axis);
        let again = self.gathers_below(body, source).any(|(_, places)| places.iter().any(|a| chosen.contains(a)));
        if again { Err(Refusal::GatherComputed) } else { Ok(()) }
    }

    /// The indices by which gathers make a view, innermost last, and the axes that these run over.
    fn gathers_below<'b>(&'b self, body: &'b Graph, view: Value) -> impl Iterator<Item = (Value, Vec<AxisId>)> + 'b {
        let below = move |node: &&'b Node| body.def_node(*node.operands.first()?);
        std::iter::successors(body.def_node(view), below).filter_map(|node| {
            match (&node.op, node.operands.as_slice()) {
                (Op::Prim(Prim::Gather { .. }), &[_, indices]) => Some((indices, self.axes.flat(indices))),
                _ => None,
            }
        })
    }

    /// What computed indices chose is sliced along other axes than theirs: an index map has no place for the rest.
    fn check_gathered(&self, body: &Graph, view: Value, axis: usize) -> Result<(), Refusal> {
        let sliced = self.axes.dims(view).swap_remove(axis);
        let along = |(indices, places): (Value, Vec<AxisId>)| {
            !self.lanes.is_view(indices) && places.iter().any(|axis| sliced.contains(axis))
        };
        if self.gathers_below(body, view).any(along) { Err(Refusal::GatherComputed) } else { Ok(()) }
    }

    /// Slices and concatenations change all lanes of a value; a stack lays rows end to end, or has their lanes take turns.
    fn check_cut(&self, node: &Node, axis: usize) -> Result<(), Refusal> {
        let dim = |v: Value| self.axes.dims(v).swap_remove(axis);
        // A stack joins along a new dim.
        let cat = matches!(node.op, Op::Prim(Prim::Cat { .. }));
        let stacks = cat && node.operands.iter().all(|&v| dim(v).is_empty());
        let whole = |&v: &Value| (cat || !dim(v).is_empty()) && dim(v) == self.lanes_of(v);
        let new = dim(node.results[0]);
        let lanes = self.lanes_of(node.results[0]);
        let at_an_end = lanes.starts_with(&new) || lanes.ends_with(&new);
        let fits = if stacks { at_an_end } else { node.operands.iter().chain(&node.results).all(whole) };
        if !fits {
            return Err(Refusal::LaneCut);
        }
        node.operands.iter().try_for_each(|&v| self.check_reaches(v, &self.lanes_of(v)))
    }

    /// Whether a slice takes one lane of all that a value has, or one of each group of them.
    fn takes_one(&self, node: &Node, axis: usize) -> bool {
        let dim = |v: Value| self.axes.dims(v).swap_remove(axis);
        let from = dim(node.operands[0]);
        let known = from.iter().all(|&a| self.axes.extent(a).as_const().is_some());
        let lanes = self.lanes_of(node.operands[0]);
        !from.is_empty() && dim(node.results[0]).is_empty() && known && lanes.ends_with(&from)
    }

    /// Reductions run over the last lanes of their operand, or over the first if these are few. Rows may be behind them,
    /// if it is known how many lanes there are: what has a symbolic extent counts the rows of the whole tensor.
    fn check_reduced(&self, operand: Value, over: &[AxisId], writes_out: bool) -> Result<(), Refusal> {
        if over.is_empty() {
            return Ok(());
        }
        let flat = self.axes.flat(operand);
        let known = over.iter().all(|&a| self.axes.extent(a).as_const().is_some());
        let lanes = self.lanes_of(operand);
        let first = || writes_out && lanes.starts_with(over) && count(&self.axes, over).is_some();
        if !(flat.ends_with(over) || (known && lanes.ends_with(over)) || first()) {
            return Err(Refusal::ReductionAxis);
        }
        self.check_reaches(operand, &lanes)
    }

    /// A body without rows reduces one dim of known extent at a time, or several beside one of extent 1, which is the row.
    /// Behind such a dim it reduces one axis of any extent, if that is all that the row holds: rows that are reduced in
    /// turn, or laid end to end, are better computed side by side. Anything else is a reduction of a tensor.
    fn check_single_row(&self, body: &Graph, id: NodeId, over: &[AxisId]) -> Result<(), Refusal> {
        if !self.rows.is_empty() {
            return Ok(());
        }
        let node = body.node(id);
        let symbolic = over.iter().any(|&a| self.axes.extent(a).as_const().is_none());
        let dims = self.axes.dims(node.operands[0]);
        let several = dims.iter().filter(|dim| dim.iter().any(|a| over.contains(a))).count() > 1;
        let is_reduced = |i: usize| match &node.op {
            Op::Prim(Prim::Reduce { axes, .. }) => axes.contains(&i),
            Op::Prim(Prim::ArgReduce { axis, .. }) => i == *axis,
            _ => i + 1 == dims.len(),
        };
        let is_row = |i: usize| dims[i].is_empty() && !is_reduced(i);
        let is_tensor = if symbolic {
            let first = (0..dims.len()).position(is_reduced).unwrap_or(0);
            over.len() > 1 || !(0..first).any(is_row) || !self.is_line(body, over)
        } else {
            (several || self.reduced_in_turn(body, id, over)) && !(0..dims.len()).any(is_row)
        };
        if is_tensor { Err(Refusal::WholeTensor) } else { Ok(()) }
    }

    /// Whether a reduction runs over what were rows of another before it.
    fn reduced_in_turn(&self, body: &Graph, id: NodeId, over: &[AxisId]) -> bool {
        let mut before = BTreeSet::new();
        let mut open = vec![id];
        while let Some(at) = open.pop() {
            for &operand in &body.node(at).operands {
                if let Def::Node(source, _) = body.def(operand)
                    && before.insert(source)
                {
                    open.push(source);
                }
            }
        }
        self.axes.reduced().filter(|(at, _)| before.contains(at)).any(|(at, within)| {
            let held = self.axes.flat(body.node(at).operands[0]);
            held.iter().any(|axis| over.contains(axis) && !within.contains(axis))
        })
    }

    /// Whether values that hold some lanes hold no others.
    fn is_line(&self, body: &Graph, lanes: &[AxisId]) -> bool {
        let mut all = (0..body.value_count() as u32).map(|value| self.lanes_of(Value(value)));
        all.all(|held| {
            let of_line = held.iter().filter(|axis| lanes.contains(axis)).count();
            of_line == 0 || of_line == held.len()
        })
    }
}

/// Whether all outputs run over a dim of extent 1: a row that they have in common, though it is no axis.
fn has_one_row(body: &Graph) -> bool {
    body.outputs().iter().all(|o| holds_one(body, Stored::of(body, o.value).value))
}

/// Whether a value has a dim of extent 1.
pub(super) fn holds_one(body: &Graph, value: Value) -> bool {
    body.ty(value).shape.iter().any(|extent| extent.as_const() == Some(1))
}

/// The axes of a body that pads rows. What pads lanes joins them, and has an axis of its own.
fn with_padded_rows(body: &Graph) -> Option<AxisMap> {
    let pads: Vec<NodeId> = body.node_ids().filter(|&id| padding::Pad::of(body, id).is_some()).collect();
    let mut joins: BTreeSet<NodeId> = BTreeSet::new();
    while joins.len() < pads.len() {
        let axes = match AxisMap::with_padded_rows(body, &joins) {
            Ok(axes) => axes,
            Err(error) if pads.contains(&error.node) && joins.insert(error.node) => continue,
            Err(_) => return None,
        };
        let lanes = Lanes::of(body, &axes);
        let of_lanes = |&id: &NodeId| {
            let grown = padding::Pad::of(body, id).map(|pad| axes.dims(body.node(id).results[0]).swap_remove(pad.axis));
            axes.pads(id) && grown.is_some_and(|dim| dim.iter().any(|&a| lanes.is_lane(a)))
        };
        let found: Vec<NodeId> = pads.iter().copied().filter(of_lanes).collect();
        if found.is_empty() {
            return Some(axes);
        }
        joins.extend(found);
    }
    None
}
