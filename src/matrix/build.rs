//! The graph of a combination.

use fusewright_abi::DType::{self, F32, I32};
use fusewright_graph::dim::product;
use fusewright_graph::ops::Composite;
use fusewright_graph::{Builder, Dim, Graph, NanRule, Prim, ReduceOp, ScalarFn, TensorType, TypeError, Value};

use super::{
    Combination, Form, GROUPS, HEAD, LANE_SYMBOL, Layout, Operands, Quantiser, ROW_SYMBOL, ScaleLayout, Scales,
};

/// Lanes that a strided input has beside those that are read.
const MARGIN: i64 = 7;
/// The first lane that is read of a strided input.
const START: i64 = 3;
/// Experts whose rows a masked combination has.
const EXPERTS: i64 = 3;
/// The part of a row that a norm over a prefix sees: one in so many lanes.
const PREFIX: i64 = 4;

/// Whether an op's first result has the type of its first operand.
pub(super) fn keeps_type(op: &Composite) -> bool {
    results(op).is_some_and(|(operand, results)| results.first() == Some(&operand))
}

/// Whether an op gives one f32 number per row, by which the row is multiplied.
pub(super) fn gives_factor(op: &Composite) -> bool {
    let one_per_row = |ty: &TensorType| ty.shape.last().and_then(Dim::as_const) == Some(1) && ty.dtype == F32;
    results(op).is_some_and(|(_, results)| results.len() == 1 && results.iter().all(one_per_row))
}

/// Whether an op's second operand is a row like the first.
pub(super) fn takes_pair(op: &Composite) -> bool {
    matches!((op.spec().operands)(F32).as_slice(), [x, y, ..] if x == y)
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

/// Dtype of the scales that an op gives beside its codes.
pub(super) fn scale_dtype(op: &Composite) -> DType {
    results(op).and_then(|(_, results)| results.get(1).map(|scales| scales.dtype)).unwrap_or(F32)
}

/// How many lanes share a scale, where a row has several.
pub(super) fn lanes_of_scale(quantiser: &Quantiser) -> Option<i64> {
    let (operand, results) = results(&quantiser.op)?;
    let scales = last(results.get(1)?).as_const()?;
    match scales {
        1 => quantiser.group,
        _ => quantiser.group.or(last(&operand).as_const().map(|lanes| lanes / scales)),
    }
}

/// The ways to give an op other operands than all of them in the dtype of rows.
pub(super) fn other_operands(op: &Composite) -> Vec<Operands> {
    let spec = op.spec();
    let types = (spec.operands)(DType::BF16);
    let per_lane = types.iter().any(|ty| ty.rank() == 1 && ty.dtype == DType::BF16);
    let wide = per_lane.then_some(Operands::Wide);
    (spec.arity..types.len()).map(Operands::First).chain(wide).collect()
}

/// The ways to give a quantiser other operands than its definition shows.
pub(super) fn other_scales(op: &Composite) -> Vec<Operands> {
    let spec = op.spec();
    let types = (spec.operands)(F32);
    let beside = &types[1..];
    let mut ways: Vec<Operands> = (spec.arity..types.len()).map(Operands::First).collect();
    if spec.arity > 1 && beside.iter().any(|ty| ty.rank() == 0) {
        ways.push(Operands::PerLane);
    }
    if beside.iter().any(|ty| ty.rank() == 1) {
        ways.push(Operands::Single);
    }
    if beside.len() == 1 && beside[0].rank() == 0 && spec.arity == 2 && op.attrs().float("bound").is_ok() {
        ways.push(Operands::Tensor);
    }
    ways
}

/// Whether an op takes rows of every length, and so of one that is a symbol alone. Rotations of pairs do not.
pub(super) fn takes_any_length(op: &Composite) -> bool {
    let mut row = (op.spec().operands)(F32).swap_remove(0);
    if let Some(extent) = row.shape.last_mut() {
        *extent = Dim::symbol(LANE_SYMBOL);
    }
    operand_types(op, &row, Operands::All).is_ok_and(|types| op.infer(&types.iter().collect::<Vec<_>>()).is_ok())
}

/// First operand and results at the dtype that every composite takes.
fn results(op: &Composite) -> Option<(TensorType, Vec<TensorType>)> {
    let operands = (op.spec().operands)(F32);
    let results = op.infer(&operands.iter().collect::<Vec<_>>()).ok()?;
    Some((operands.into_iter().next()?, results))
}

fn refuse(op: &str, message: impl Into<String>) -> TypeError {
    TypeError { op: op.to_owned(), message: message.into() }
}

fn last(ty: &TensorType) -> Dim {
    ty.shape.last().cloned().unwrap_or_else(|| Dim::constant(1))
}

impl Combination {
    /// The graph; rows are the symbol `s`, and a symbolic row length is `n`, or `n` times the largest group.
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
            row = self.middle(&b, op, row, factor)?;
        }
        row = match self.form {
            Form::Plain | Form::Heads => row,
            Form::Product => b.mul(row, b.input("up", ty))?,
            Form::Affine => self.affine(&b, row)?,
            _ if self.op.as_ref().is_some_and(takes_pair) => row,
            _ => b.mul(row, factor)?,
        };
        if self.form == Form::Masked {
            row = masked(&b, row)?;
        }
        match &self.quantiser {
            None => outputs.push(row),
            Some(quantiser) => {
                let grouped = quantiser.group.map_or(Ok(row), |lanes| grouped(&b, row, lanes))?;
                let scale = match quantiser.operands {
                    Operands::Tensor => Some(tensor_scale(&b, &quantiser.op, grouped)?),
                    _ => None,
                };
                outputs.extend(scale);
                let mut results = apply(&b, &quantiser.op, grouped, scale, quantiser.operands)?;
                if quantiser.scales != ScaleLayout::Rows {
                    results[1] = quantiser.scales.of(&b, scales_by_row(&b, results[1])?)?;
                }
                outputs.extend(results);
            }
        }
        outputs.into_iter().for_each(|value| b.output(value));
        Ok(b.finish())
    }

    /// The result of the op in the middle.
    fn middle(&self, b: &Builder, op: &Composite, row: Value, factor: Value) -> Result<Value, TypeError> {
        let second = (self.form.is_gate() && takes_pair(op)).then_some(factor);
        if gives_factor(op) {
            let (ty, axis) = (b.ty(row), b.ty(row).rank() - 1);
            let prefix = b.slice(row, axis, Dim::constant(0), Dim::constant(self.lanes / PREFIX))?;
            let scale = apply(b, op, prefix, None, self.operands)?[0];
            return b.cast(b.mul(b.cast(row, F32)?, scale)?, ty.dtype);
        }
        if self.form == Form::Heads {
            let shape = b.ty(row).shape;
            let of_heads = apply(b, op, grouped(b, row, HEAD)?, None, self.operands)?[0];
            return b.reshape(of_heads, shape);
        }
        Ok(apply(b, op, row, second, self.operands)?[0])
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
            Layout::Symbolic => &Dim::symbol(LANE_SYMBOL) * &Dim::constant(self.lane_unit()),
            Layout::Contiguous | Layout::Strided | Layout::Slices | Layout::Codes(_) => Dim::constant(self.lanes),
        }
    }

    /// What the symbol of a row length counts.
    pub(super) fn lane_unit(&self) -> i64 {
        let largest = GROUPS.into_iter().max().unwrap_or(1);
        if self.lanes % largest == 0 { largest } else { 1 }
    }

    /// The type of rows: what the op in the middle takes, or a matrix.
    fn row_type(&self) -> Result<TensorType, TypeError> {
        let mut ty = match &self.op {
            Some(op) => (op.spec().operands)(self.dtype).swap_remove(0),
            None => TensorType::new(self.dtype, [Dim::symbol(ROW_SYMBOL), Dim::constant(1)]),
        };
        if matches!(self.form, Form::Masked | Form::Heads) && ty.rank() != 2 {
            return Err(refuse("combination", "rows of several heads already"));
        }
        if self.form == Form::Masked {
            ty.shape.insert(0, Dim::constant(EXPERTS));
        }
        if let Some(extent) = ty.shape.last_mut() {
            *extent = self.lane_dim();
        }
        Ok(ty)
    }

    /// What the op takes, and the factor of a gate, which is the same value where there is none.
    fn inputs(&self, b: &Builder, ty: &TensorType) -> Result<[Value; 2], TypeError> {
        let mut whole = ty.clone();
        let axis = whole.rank() - 1;
        let lanes = whole.shape[axis].clone();
        if self.form.is_gate() {
            whole.shape[axis] = &lanes * &Dim::constant(2);
        }
        let extent = whole.shape[axis].clone();
        let mut x = match self.layout {
            Layout::Strided => {
                whole.shape[axis] = &extent + &Dim::constant(MARGIN);
                b.slice(b.input("x", whole), axis, Dim::constant(START), &extent + &Dim::constant(START))?
            }
            Layout::Codes(scales) => decoded(b, whole, scales)?,
            Layout::Contiguous | Layout::Symbolic | Layout::Slices => b.input("x", whole),
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
}

/// Rows made of codes and their scales.
fn decoded(b: &Builder, ty: TensorType, scales: Scales) -> Result<Value, TypeError> {
    let codes = b.input("x", TensorType { dtype: scales.codes(), ..ty.clone() });
    let parts = scales.lanes().map_or(Ok(codes), |lanes| grouped(b, codes, lanes))?;
    let mut shape = b.ty(parts).shape;
    match (scales, shape.last_mut()) {
        (Scales::Tensor, _) | (_, None) => shape.clear(),
        (_, Some(lanes)) => *lanes = Dim::constant(1),
    }
    let scale = b.input("code_scale", TensorType::new(F32, shape));
    let wide = b.mul(b.cast(parts, F32)?, scale)?;
    b.cast(b.reshape(wide, ty.shape)?, ty.dtype)
}

/// Rows of experts, zero beyond the number of rows that each expert has.
fn masked(b: &Builder, row: Value) -> Result<Value, TypeError> {
    let one = || Dim::constant(1);
    let ty = b.ty(row);
    let [experts, rows] = [ty.shape[0].clone(), ty.shape[1].clone()];
    let place = b.prim(Prim::Iota { dtype: I32, shape: vec![one(), rows, one()], axis: 1 }, &[])?;
    let counts = b.input("counts", TensorType::new(I32, [experts.clone()]));
    let here = b.map(ScalarFn::Lt, &[place, b.reshape(counts, vec![experts, one(), one()])?])?;
    b.map(ScalarFn::Select, &[here, row, b.float(ty.dtype, 0.0)?])
}

/// The scales of groups of lanes as one matrix row for each row.
fn scales_by_row(b: &Builder, scales: Value) -> Result<Value, TypeError> {
    let shape = b.ty(scales).shape;
    let [rows, groups @ ..] = &shape[..] else { return Ok(scales) };
    let known = groups.iter().all(|extent| extent.as_const().is_some());
    if !known || rows.as_const().is_some() {
        return Err(refuse("combination", "scales that are no matrix"));
    }
    b.reshape(scales, vec![rows.clone(), product(groups)])
}

/// The last axis split into groups.
fn grouped(b: &Builder, row: Value, lanes: i64) -> Result<Value, TypeError> {
    let mut shape = b.ty(row).shape;
    let extent = shape.pop().unwrap_or_else(|| Dim::constant(1));
    let groups = extent.exact_div(&Dim::constant(lanes));
    shape.extend([groups.ok_or_else(|| refuse("reshape", format!("{extent} lanes in groups of {lanes}")))?]);
    shape.push(Dim::constant(lanes));
    b.reshape(row, shape)
}

/// The scale of all rows: their largest magnitude over the bound of the quantiser's codes, with a floor.
fn tensor_scale(b: &Builder, op: &Composite, row: Value) -> Result<Value, TypeError> {
    let bound = op.attrs().float("bound").map_err(|message| refuse(op.name(), message))?;
    let magnitude = b.map(ScalarFn::Abs, &[b.cast(row, F32)?])?;
    let axes = (0..b.ty(row).rank()).collect();
    let largest = b.prim(Prim::Reduce { op: ReduceOp::Max, axes, nan: NanRule::Propagate }, &[magnitude])?;
    let scale = b.div(largest, b.float(F32, bound)?)?;
    let floored = b.map(ScalarFn::Max, &[scale, b.float(F32, f64::from(1e-6f32))?])?;
    b.reshape(floored, Vec::new())
}

/// An op on a value; its other operands are inputs, but for the second where that is given.
fn apply(
    b: &Builder,
    op: &Composite,
    value: Value,
    second: Option<Value>,
    operands: Operands,
) -> Result<Vec<Value>, TypeError> {
    let types = operand_types(op, &b.ty(value), operands)?;
    let mut values = vec![value];
    for (i, ty) in types.into_iter().enumerate().skip(1) {
        let given = second.filter(|_| i == 1);
        values.push(given.unwrap_or_else(|| b.input(&format!("{}{i}", op.name()), ty)));
    }
    b.composite(op.clone(), &values)
}

/// Operand types of an op on a value: extents of last axes are in proportion to those of its spec, and what is a row in
/// the spec has the type of the value.
///
/// # Errors
/// A number of lanes that is not divided so.
fn operand_types(op: &Composite, value: &TensorType, operands: Operands) -> Result<Vec<TensorType>, TypeError> {
    let mut types = (op.spec().operands)(value.dtype);
    let row = types[0].clone();
    let (lanes, of_spec) = (last(value), last(&row));
    for ty in &mut types {
        if *ty == row {
            *ty = value.clone();
            continue;
        }
        match (operands, ty.rank()) {
            (Operands::Wide, 1) => ty.dtype = F32,
            (Operands::Single, 1) => ty.shape.clear(),
            (Operands::PerLane, 0) => ty.shape.push(of_spec.clone()),
            _ => {}
        }
        if let Some(extent) = ty.shape.last_mut() {
            let share = (&lanes * &*extent).exact_div(&of_spec);
            let message = || format!("{extent} of {of_spec} of {lanes} lanes are no whole number");
            *extent = share.ok_or_else(|| refuse(op.name(), message()))?;
        }
    }
    if let Operands::First(count) = operands {
        types.truncate(count);
    }
    Ok(types)
}
