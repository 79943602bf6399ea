//! Functions of lane numbers alone, such as masks: computed for the lanes that read them, not repeated as rows.
//!
//! A mask of a triangle holds the lanes of two axes. Where it is read with more lanes around them, each of these lanes knows its
//! place along both axes by itself. A join of one mask after the other would be searched for the part that a lane is in.

use fusewright_graph::axes::AxisId;
use fusewright_graph::{DType, Op, Prim, Rounding, ScalarFn, Value};

use super::LowerError;
use super::emit::Emitter;
use super::reduce::Groups;
use crate::kernel::{InstOp, Shape, Val};

/// Most functions that each lane computes rather than taking them from a repeated row.
const MOST: usize = 8;

impl Emitter<'_> {
    /// Gives a value over lanes of which it holds some, as a row of all of them. `None` if more than lane numbers and constants
    /// make it.
    pub(super) fn counted(&mut self, value: Value, lanes: &[AxisId]) -> Result<Option<Val>, LowerError> {
        let mut room = MOST;
        if !self.counts(value, lanes, &mut room) {
            return Ok(None);
        }
        let counted = self.count_over(value, lanes)?;
        self.of_each_lane(counted, lanes).map(Some).map_err(LowerError::new)
    }

    /// Says whether a value is made of lane numbers and constants, by few functions.
    fn counts(&self, value: Value, lanes: &[AxisId], room: &mut usize) -> bool {
        let Some(node) = self.body.def_node(value) else { return false };
        match &node.op {
            Op::Prim(Prim::Iota { axis, .. }) => self.place_of(&self.axes.dims(value)[*axis], lanes).is_some(),
            Op::Prim(Prim::Literal(_)) => true,
            Op::Prim(Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } | Prim::Cast { .. }) => {
                self.counts(node.operands[0], lanes, room)
            }
            Op::Prim(Prim::Map(f)) if is_cheap(*f) && *room > 0 => {
                *room -= 1;
                node.operands.iter().all(|operand| self.counts(*operand, lanes, room))
            }
            _ => false,
        }
    }

    /// Where the axes of a dim begin among lanes.
    fn place_of(&self, counted: &[AxisId], lanes: &[AxisId]) -> Option<usize> {
        if counted.is_empty() || counted.iter().any(|axis| self.space.is_row(*axis)) {
            return None;
        }
        lanes.windows(counted.len()).position(|window| window == counted)
    }

    fn count_over(&mut self, value: Value, lanes: &[AxisId]) -> Result<Val, LowerError> {
        let body = self.body;
        let Some(node) = body.def_node(value) else { return self.value(value) };
        match &node.op {
            Op::Prim(Prim::Iota { axis, dtype, .. }) => {
                let counted = self.axes.dims(value).swap_remove(*axis);
                let Some(at) = self.place_of(&counted, lanes) else { return self.value(value) };
                self.places(lanes, at, counted.len(), *dtype).map_err(LowerError::new)
            }
            Op::Prim(Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. }) => {
                self.count_over(node.operands[0], lanes)
            }
            Op::Prim(Prim::Cast { to, round, saturate }) => {
                let counted = self.count_over(node.operands[0], lanes)?;
                let op = InstOp::Cast { to: *to, round: *round, saturate: *saturate };
                Ok(self.push(op, &[counted]).map_err(LowerError::new)?[0])
            }
            Op::Prim(Prim::Map(f)) => {
                let args: Result<Vec<Val>, LowerError> =
                    node.operands.iter().map(|v| self.count_over(*v, lanes)).collect();
                let args = self.alike(args?, lanes).map_err(LowerError::new)?;
                Ok(self.push(InstOp::Map(*f), &args).map_err(LowerError::new)?[0])
            }
            _ => self.value(value),
        }
    }

    /// The places of lanes along the axes from one on: the same for the lanes of a group that the axes behind them make.
    fn places(&mut self, lanes: &[AxisId], at: usize, axes: usize, dtype: DType) -> Result<Val, String> {
        let (before, behind) = (self.count(&lanes[..at + axes]), self.count(&lanes[at + axes..]));
        let mut place = self.push(InstOp::Iota(before.clone()), &[])?[0];
        if at > 0 {
            let groups = Groups { lanes: before, size: self.count(&lanes[at..at + axes]) };
            place = self.inside(place, &groups)?;
        }
        if behind.as_const() != Some(1) {
            let group = InstOp::AsGroup { lanes: self.count(lanes), size: behind };
            place = self.push(group, &[place])?[0];
        }
        if dtype == DType::I32 {
            return Ok(place);
        }
        Ok(self.push(InstOp::Cast { to: dtype, round: Rounding::NearestEven, saturate: false }, &[place])?[0])
    }

    /// Operands of one function: groups of different sizes meet as elements of a row.
    fn alike(&mut self, mut args: Vec<Val>, lanes: &[AxisId]) -> Result<Vec<Val>, String> {
        let shape = |this: &Self, v: Val| this.segment.ty(v).shape.clone();
        let groups: Vec<Shape> =
            args.iter().map(|v| shape(self, *v)).filter(|shape| matches!(shape, Shape::Group { .. })).collect();
        if groups.windows(2).all(|pair| pair[0] == pair[1]) {
            return Ok(args);
        }
        for arg in &mut args {
            *arg = self.of_each_lane(*arg, lanes)?;
        }
        Ok(args)
    }

    /// The elements of groups as those of their lanes.
    fn of_each_lane(&mut self, value: Val, lanes: &[AxisId]) -> Result<Val, String> {
        if !matches!(self.segment.ty(value).shape, Shape::Group { .. }) {
            return Ok(value);
        }
        let row = Shape::Row(self.count(lanes));
        Ok(self.push(InstOp::Broadcast(row), &[value])?[0])
    }
}

/// Says whether a function of integers or truth values is an instruction or two.
fn is_cheap(f: ScalarFn) -> bool {
    use ScalarFn::{Add, And, Eq, Ge, Gt, Le, Lt, Max, Min, Mul, Ne, Not, Or, Select, Sub, Xor};
    matches!(f, Add | And | Eq | Ge | Gt | Le | Lt | Max | Min | Mul | Ne | Not | Or | Select | Sub | Xor)
}
