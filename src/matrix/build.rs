//! The graph of a combination.

use fusewright_abi::DType;
use fusewright_graph::ops::Composite;
use fusewright_graph::{Builder, Dim, Graph, Prim, TensorType, TypeError, Value};

use super::{Combination, Form, LANE_SYMBOL, Layout, ROW_SYMBOL};

/// Lanes that a strided input has beside those that are read.
const MARGIN: i64 = 7;
/// The first lane that is read of a strided input.
const START: i64 = 3;

/// Whether an op's first result has the type of its first operand.
pub(super) fn keeps_type(op: &Composite) -> bool {
    results(op).is_some_and(|(operand, results)| results.first() == Some(&operand))
}

/// Whether an op's first result is codes of fewer bits than its operand, of a byte at most.
pub(super) fn quantises(op: &Composite) -> bool {
    results(op).is_some_and(|(operand, results)| {
        results.first().is_some_and(|codes| codes.dtype.bits() <= 8 && operand.dtype.bits() > 8)
    })
}

/// Whether an op gives scales beside its codes, so that groups of lanes as rows are another quantiser.
pub(super) fn has_scales(op: &Composite) -> bool {
    results(op).is_some_and(|(_, results)| results.len() > 1)
}

/// First operand and results at the dtype that every composite takes.
fn results(op: &Composite) -> Option<(TensorType, Vec<TensorType>)> {
    let operands = (op.spec().operands)(DType::F32);
    let results = op.infer(&operands.iter().collect::<Vec<_>>()).ok()?;
    Some((operands.into_iter().next()?, results))
}

impl Combination {
    /// The graph; rows are the symbol `s`, and a symbolic row length is `n`.
    ///
    /// # Errors
    /// Ops that do not fit each other or the number of lanes: there is no such combination.
    pub fn graph(&self) -> Result<Graph, TypeError> {
        let b = Builder::new("combination");
        b.symbol(ROW_SYMBOL, 0, None);
        if self.layout == Layout::Symbolic {
            b.symbol(LANE_SYMBOL, 1, None);
        }
        let ty = self.row_type()?;
        let mut outputs = Vec::new();
        let [mut row, factor] = self.inputs(&b, &ty)?;
        if self.residual {
            row = b.add(row, b.input("residual", ty.clone()))?;
            outputs.push(row);
        }
        if let Some(op) = &self.op {
            row = self.apply(&b, op, row)?[0];
        }
        row = match self.form {
            Form::Plain => row,
            Form::Product => b.mul(row, b.input("up", ty))?,
            Form::Affine => self.affine(&b, row)?,
            Form::FirstHalf | Form::SecondHalf | Form::Neighbours => b.mul(row, factor)?,
        };
        match &self.quantiser {
            None => outputs.push(row),
            Some(quantiser) => {
                let grouped = quantiser.group.map_or(Ok(row), |lanes| self.grouped(&b, row, lanes))?;
                outputs.extend(self.apply(&b, &quantiser.op, grouped)?);
            }
        }
        outputs.into_iter().for_each(|value| b.output(value));
        Ok(b.finish())
    }

    /// `y · s + t` with one `s` and one `t` per lane.
    fn affine(&self, b: &Builder, y: Value) -> Result<Value, TypeError> {
        let lane = TensorType::new(b.dtype(y), [self.lane_dim()]);
        let scaled = b.mul(y, b.input("scale", lane.clone()))?;
        b.add(scaled, b.input("shift", lane))
    }

    /// The number of lanes.
    fn lane_dim(&self) -> Dim {
        match self.layout {
            Layout::Symbolic => Dim::symbol(LANE_SYMBOL),
            Layout::Contiguous | Layout::Strided => Dim::constant(self.lanes),
        }
    }

    /// The type of rows: what the op in the middle takes, or a matrix.
    fn row_type(&self) -> Result<TensorType, TypeError> {
        match &self.op {
            Some(op) => Ok(self.operands(op, self.dtype)?.swap_remove(0)),
            None => Ok(TensorType::new(self.dtype, [Dim::symbol(ROW_SYMBOL), self.lane_dim()])),
        }
    }

    /// What the op takes, and the factor of a gate, which is the same value where there is none.
    fn inputs(&self, b: &Builder, ty: &TensorType) -> Result<[Value; 2], TypeError> {
        let mut whole = ty.clone();
        let axis = whole.rank() - 1;
        let lanes = ty.shape[axis].clone();
        if self.form.is_gate() {
            whole.shape[axis] = &lanes * &Dim::constant(2);
        }
        let extent = whole.shape[axis].clone();
        let mut x = if self.layout == Layout::Strided {
            whole.shape[axis] = &extent + &Dim::constant(MARGIN);
            b.slice(b.input("x", whole), axis, Dim::constant(START), &extent + &Dim::constant(START))?
        } else {
            b.input("x", whole)
        };
        let of = |x: Value, start: Dim, end: Dim, step: i64| b.prim(Prim::Slice { axis, start, end, step }, &[x]);
        let zero = || Dim::constant(0);
        let mut factor = x;
        if self.form == Form::Neighbours {
            (x, factor) = (of(x, zero(), extent.clone(), 2)?, of(x, Dim::constant(1), extent, 2)?);
        } else if self.form.is_gate() {
            (x, factor) = (of(x, zero(), lanes.clone(), 1)?, of(x, lanes, extent, 1)?);
        }
        Ok(if self.form == Form::SecondHalf { [factor, x] } else { [x, factor] })
    }

    /// An op on a value; its other operands are inputs.
    fn apply(&self, b: &Builder, op: &Composite, value: Value) -> Result<Vec<Value>, TypeError> {
        let mut operands = vec![value];
        for (i, ty) in self.operands(op, b.dtype(value))?.into_iter().enumerate().skip(1) {
            operands.push(b.input(&format!("{}{i}", op.name()), ty));
        }
        b.composite(op.clone(), &operands)
    }

    /// Operand types of an op at this number of lanes: extents of last axes are in proportion to those of its spec.
    ///
    /// # Errors
    /// A symbolic number of lanes that is not divided so.
    fn operands(&self, op: &Composite, dtype: DType) -> Result<Vec<TensorType>, TypeError> {
        let mut types = (op.spec().operands)(dtype);
        let of_spec = types.first().and_then(|ty| ty.shape.last()).and_then(Dim::as_const).unwrap_or(1);
        for ty in &mut types {
            if let Some(last) = ty.shape.last_mut()
                && let Some(extent) = last.as_const()
            {
                let share = (&self.lane_dim() * &Dim::constant(extent)).exact_div(&Dim::constant(of_spec));
                *last = share.ok_or_else(|| TypeError {
                    op: op.name().to_owned(),
                    message: format!("{extent} of {of_spec} of {} lanes are no whole number", self.lane_dim()),
                })?;
            }
        }
        Ok(types)
    }

    /// The last axis split into groups.
    fn grouped(&self, b: &Builder, row: Value, lanes: i64) -> Result<Value, TypeError> {
        let mut shape = b.ty(row).shape;
        let last = shape.pop().unwrap_or_else(|| Dim::constant(1));
        let groups = last.exact_div(&Dim::constant(lanes)).unwrap_or_else(|| Dim::constant(0));
        shape.extend([groups, Dim::constant(lanes)]);
        b.reshape(row, shape)
    }
}
