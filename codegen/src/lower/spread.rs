//! Elements over some lanes as elements over others: what is repeated, regrouped or taken as a row.

use fusewright_fusion::region::{Spread, spread};
use fusewright_graph::axes::AxisId;
use fusewright_graph::dim::product;
use fusewright_graph::{DType, Dim, NanRule, Node, NodeId, ReduceOp, Rounding, ScalarFn, Value};

use super::LowerError;
use super::bits::word;
use super::emit::Emitter;
use crate::kernel::{Inst, InstOp, Over, Shape, Val};

impl Emitter<'_> {
    /// The lanes of a value as its type has them.
    pub(super) fn lanes_of(&self, value: Value) -> Vec<AxisId> {
        self.space.lanes().of_value(self.axes, value)
    }

    /// How many elements lanes have.
    pub(super) fn count(&self, lanes: &[AxisId]) -> Dim {
        product(lanes.iter().map(|&a| self.axes.extent(a)))
    }

    /// An elementwise function. Groups of different sizes meet as elements of a row of their own.
    pub(super) fn map(&mut self, id: NodeId, node: &Node, f: ScalarFn) -> Result<Vec<Val>, LowerError> {
        let lanes = self.space.lanes().held(node.results[0]).to_vec();
        let mut form = self.space.shape(self.axes, &lanes);
        let fewer = |v: &Value| ![&lanes[..], &[]].contains(&self.space.lanes().held(*v));
        if matches!(form, Shape::Group { .. }) && node.operands.iter().any(fewer) {
            form = Shape::Row(self.count(&lanes));
        }
        let mut args = Vec::with_capacity(node.operands.len());
        for &operand in &node.operands {
            args.push(self.over(operand, &lanes, &form).map_err(|e| placed(e, id))?);
        }
        self.push_at(id, InstOp::Map(f), &args)
    }

    /// A layout op on a computed value.
    pub(super) fn relabel(&mut self, id: NodeId, node: &Node) -> Result<Val, LowerError> {
        let held = self.space.lanes().held(node.results[0]);
        let lanes = self.lanes_of(node.results[0]).into_iter().filter(|a| held.contains(a));
        if !lanes.eq(held.iter().copied()) {
            return Err(LowerError::at(id, "its lanes are in another order than those of its operand"));
        }
        self.value(node.operands[0])
    }

    /// A value over some lanes, in a shape that broadcasts to the form of these.
    fn over(&mut self, value: Value, lanes: &[AxisId], form: &Shape) -> Result<Val, LowerError> {
        let held = self.space.lanes().held(value).to_vec();
        let views = self.views;
        if let Some(view) = &views[value.0 as usize]
            && !lanes.starts_with(&held)
            && held.iter().all(|a| lanes.contains(a))
        {
            let here = self.before_end(value)?;
            return self.load_lanes(view, lanes, form.clone(), here);
        }
        let spread = spread(self.axes, &held, lanes);
        if matches!(spread, Some(Spread::Trailing(_)) | None)
            && let Some(counted) = self.counted(value, lanes)?
        {
            return self.shaped(counted, form).map_err(LowerError::new);
        }
        let made = self.value(value)?;
        let shaped = match spread {
            _ if held.is_empty() => Ok(made),
            Some(Spread::Same) => self.shaped(made, form),
            Some(Spread::Leading) => {
                let group = Shape::Group { lanes: self.count(lanes), size: self.count(&lanes[held.len()..]) };
                self.shaped(made, &group)
            }
            Some(Spread::Trailing(times)) => {
                let row = self.shaped(made, &Shape::Row(self.count(&held))).map_err(LowerError::new)?;
                let rows = vec![row; times as usize];
                let repeated = self.push(InstOp::Cat, &rows).map_err(LowerError::new)?[0];
                self.shaped(repeated, form)
            }
            None => Err("it is read with its lanes in another order, or repeated inside of them".to_owned()),
        };
        shaped.map_err(LowerError::new)
    }

    /// A value over some lanes, each of which has its element.
    pub(super) fn stretched(&mut self, value: Value, lanes: &[AxisId]) -> Result<Val, LowerError> {
        let shape = self.space.shape(self.axes, lanes);
        let held = self.space.lanes().held(value);
        let form = match &shape {
            Shape::Group { .. } if ![lanes, &[]].contains(&held) => Shape::Row(self.count(lanes)),
            _ => shape.clone(),
        };
        let mut made = self.over(value, lanes, &form)?;
        if self.segment.ty(made).shape != form {
            made = self.push(InstOp::Broadcast(form), &[made]).map_err(LowerError::new)?[0];
        }
        self.shaped(made, &shape).map_err(LowerError::new)
    }

    /// All lanes of a value as a row; one element if it has none.
    pub(super) fn row(&mut self, id: NodeId, value: Value) -> Result<Val, LowerError> {
        let lanes = self.lanes_of(value);
        let made = self.stretched(value, &lanes).map_err(|e| placed(e, id))?;
        if lanes.is_empty() {
            return Ok(made);
        }
        self.shaped(made, &Shape::Row(self.count(&lanes))).map_err(|m| LowerError::at(id, m))
    }

    /// The same elements in another shape: those of groups as lanes, lanes as those of groups, a row of one as one element.
    pub(super) fn shaped(&mut self, value: Val, shape: &Shape) -> Result<Val, String> {
        let from = self.segment.ty(value).shape.clone();
        if from == *shape || from == Shape::Scalar {
            return Ok(value);
        }
        let row = match from {
            Shape::Group { .. } => match self.segment.definition(value) {
                Some(Inst { op: InstOp::AsGroup { .. }, args, .. }) => args[0],
                _ => self.push(InstOp::AsRow, &[value])?[0],
            },
            _ => value,
        };
        match shape {
            Shape::Row(_) => Ok(row),
            Shape::Group { lanes, size } => {
                Ok(self.push(InstOp::AsGroup { lanes: lanes.clone(), size: size.clone() }, &[row])?[0])
            }
            Shape::Scalar => self.only(row),
        }
    }

    /// The element of a row of one, as it is: the largest of integers, which floats and short codes are here.
    fn only(&mut self, row: Val) -> Result<Val, String> {
        let dtype = self.segment.ty(row).dtype;
        let as_word = |dtype| InstOp::Cast { to: dtype, round: Rounding::NearestEven, saturate: false };
        let word = if dtype.is_float() { word(dtype) } else { dtype };
        let mut held = row;
        if word != dtype {
            held = self.push(InstOp::Bitcast(word), &[held])?[0];
        }
        let short = word == DType::Bool || word.bits() < 8;
        if short {
            held = self.push(as_word(DType::I32), &[held])?[0];
        }
        let (over, order) = (Over::Row, self.orders.row(&Dim::constant(1)));
        let largest = InstOp::Reduce { op: ReduceOp::Max, over, nan: NanRule::Propagate, order };
        held = self.push(largest, &[held])?[0];
        if short {
            held = self.push(as_word(word), &[held])?[0];
        }
        if word == dtype { Ok(held) } else { Ok(self.push(InstOp::Bitcast(dtype), &[held])?[0]) }
    }

    /// Lanes of a value: some of all that it has, or one of each group of them.
    pub(super) fn slice(
        &mut self,
        id: NodeId,
        node: &Node,
        axis: usize,
        start: &Dim,
        step: i64,
    ) -> Result<Vec<Val>, LowerError> {
        let (x, result) = (node.operands[0], node.results[0]);
        let [from, to] = [x, result].map(|v| self.axes.dims(v).swap_remove(axis));
        if !to.is_empty() || from.is_empty() {
            let row = self.cut_row(id, x, axis)?;
            self.covers_lanes(id, result, axis)?;
            let len = self.body.ty(result).shape[axis].clone();
            return self.push_at(id, InstOp::Slice { start: start.clone(), len, step }, &[row]);
        }
        let lanes = self.lanes_of(x);
        let groups = lanes.strip_suffix(&from[..]).ok_or_else(|| LowerError::at(id, "cuts part of the lanes"))?;
        let (len, each) = (self.count(groups), self.count(&from).as_const());
        let each = each.ok_or_else(|| LowerError::at(id, "takes one of an unknown number of lanes"))?;
        let step = if groups.is_empty() { 1 } else { each };
        let row = self.row(id, x)?;
        self.push_at(id, InstOp::Slice { start: start.clone(), len, step }, &[row])
    }

    /// The row of a value all lanes of which a dim is.
    pub(super) fn cut_row(&mut self, id: NodeId, value: Value, axis: usize) -> Result<Val, LowerError> {
        self.covers_lanes(id, value, axis)?;
        self.row(id, value)
    }

    /// Rows one after the other; those of a stack take turns where its axis is the innermost.
    pub(super) fn cat(&mut self, id: NodeId, node: &Node, axis: usize) -> Result<Vec<Val>, LowerError> {
        let mut rows = Vec::with_capacity(node.operands.len());
        for &operand in &node.operands {
            rows.push(self.joined(id, operand, axis)?);
        }
        let dim = &self.axes.dims(node.results[0])[axis];
        let lanes = self.lanes_of(node.results[0]);
        let stack = node.operands.iter().all(|&v| self.axes.dims(v)[axis].is_empty());
        let turns = stack && lanes.len() > dim.len() && lanes.ends_with(dim);
        if !stack || lanes.len() == dim.len() {
            self.covers_lanes(id, node.results[0], axis)?;
        } else if !turns && !lanes.starts_with(dim) {
            return Err(LowerError::at(id, "stacks rows of lanes between their axes"));
        }
        self.push_at(id, if turns { InstOp::Zip } else { InstOp::Cat }, &rows)
    }

    /// An operand of a concatenation as lanes; an extent of 1 is no axis, yet one lane here, or a row of a stack.
    fn joined(&mut self, id: NodeId, value: Value, axis: usize) -> Result<Val, LowerError> {
        if !self.axes.dims(value)[axis].is_empty() {
            return self.cut_row(id, value, axis);
        }
        let row = self.row(id, value)?;
        if self.segment.ty(row).shape != Shape::Scalar {
            return Ok(row);
        }
        Ok(self.push_at(id, InstOp::Broadcast(Shape::Row(Dim::constant(1))), &[row])?[0])
    }

    /// Checks that the dim that a slice or concatenation changes is all the lanes of a value.
    pub(super) fn covers_lanes(&self, id: NodeId, value: Value, axis: usize) -> Result<(), LowerError> {
        let dim = &self.axes.dims(value)[axis];
        if *dim != self.lanes_of(value) || dim.is_empty() {
            return Err(LowerError::at(id, "cuts part of the lanes"));
        }
        Ok(())
    }
}

/// An error that names its node.
fn placed(error: LowerError, id: NodeId) -> LowerError {
    LowerError { node: error.node.or(Some(id)), ..error }
}
