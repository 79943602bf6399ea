//! The graph of a combination.

use fusewright_abi::DType;
use fusewright_graph::ops::Composite;
use fusewright_graph::{Builder, Dim, Graph, TensorType, TypeError, Value};

use super::{Combination, ROW_SYMBOL};

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
    /// The graph; rows are the symbol `s`.
    ///
    /// # Errors
    /// Ops that do not fit each other or the number of lanes: there is no such combination.
    pub fn graph(&self) -> Result<Graph, TypeError> {
        let b = Builder::new("combination");
        b.symbol(ROW_SYMBOL, 0, None);
        let ty = self.row_type();
        let mut outputs = Vec::new();
        let mut row = self.input(&b, &ty)?;
        if self.residual {
            row = b.add(row, b.input("residual", ty.clone()))?;
            outputs.push(row);
        }
        if let Some(op) = &self.op {
            row = self.apply(&b, op, row)?[0];
        }
        if self.product {
            row = b.mul(row, b.input("up", ty))?;
        }
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

    /// The type of rows: what the op in the middle takes, or a matrix.
    fn row_type(&self) -> TensorType {
        let matrix = || TensorType::new(self.dtype, [Dim::symbol(ROW_SYMBOL), Dim::constant(self.lanes)]);
        self.op.as_ref().map_or_else(matrix, |op| self.operands(op, self.dtype).swap_remove(0))
    }

    fn input(&self, b: &Builder, ty: &TensorType) -> Result<Value, TypeError> {
        if !self.strided {
            return Ok(b.input("x", ty.clone()));
        }
        let mut wide = ty.clone();
        let axis = wide.rank() - 1;
        wide.shape[axis] = &wide.shape[axis] + &Dim::constant(MARGIN);
        let x = b.input("x", wide);
        b.slice(x, axis, Dim::constant(START), Dim::constant(START + self.lanes))
    }

    /// An op on a value; its other operands are inputs.
    fn apply(&self, b: &Builder, op: &Composite, value: Value) -> Result<Vec<Value>, TypeError> {
        let mut operands = vec![value];
        for (i, ty) in self.operands(op, b.dtype(value)).into_iter().enumerate().skip(1) {
            operands.push(b.input(&format!("{}{i}", op.name()), ty));
        }
        b.composite(op.clone(), &operands)
    }

    /// Operand types of an op at this number of lanes: extents of last axes are in proportion to those of its spec.
    fn operands(&self, op: &Composite, dtype: DType) -> Vec<TensorType> {
        let mut types = (op.spec().operands)(dtype);
        let of_spec = types.first().and_then(|ty| ty.shape.last()).and_then(Dim::as_const).unwrap_or(1);
        for ty in &mut types {
            if let Some(last) = ty.shape.last_mut()
                && let Some(extent) = last.as_const()
            {
                *last = Dim::constant(extent * self.lanes / of_spec);
            }
        }
        types
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
