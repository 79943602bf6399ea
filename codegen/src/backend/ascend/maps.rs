//! Elementwise functions. Only functions whose meaning the vendor documents as the plain function are spelled; the
//! reciprocal and inverse root instructions, which are approximations, are not.
//!
//! An operand that is there less often than the result takes part by strides: a scalar as its block, for every vector of
//! its row; a row that all rows share once for each of them. What the vendor leaves open about NaN is selected.

use fusewright_abi::DType;
use fusewright_graph::{Literal, ScalarFn};

use super::EmitError;
use super::memory::Tensor;
use super::operands::{Operand, as_words};
use super::segment::{Made, Scalar, Writer};
use super::text;
use crate::kernel::{Inst, InstOp, Val};

impl Writer<'_> {
    /// An elementwise function.
    pub fn map(&mut self, f: ScalarFn, inst: &Inst, result: Val) -> Made<()> {
        let args = &inst.args;
        match f {
            ScalarFn::Eq | ScalarFn::Ne | ScalarFn::Lt | ScalarFn::Le | ScalarFn::Gt | ScalarFn::Ge => {
                self.compare(f, args, result)
            }
            ScalarFn::And | ScalarFn::Or | ScalarFn::Not if self.dtype(result) == DType::Bool => {
                self.combine_masks(f, args, result)
            }
            ScalarFn::Select => self.select(args, result),
            _ if args.iter().any(|&a| !matches!(self.dtype(a), DType::F32 | DType::I32)) => {
                Err(EmitError::unsupported(format!("`{}` of {}", f.name(), self.dtype(args[0]))))
            }
            ScalarFn::RoundEven | ScalarFn::Floor | ScalarFn::Ceil | ScalarFn::Trunc => self.round(f, args[0], result),
            ScalarFn::And | ScalarFn::Or if self.dtype(result) == DType::I32 => self.bits(f, args, result),
            ScalarFn::Shl | ScalarFn::Shr if self.dtype(result) == DType::I32 => self.shift(f, args, result),
            _ if args.len() == 1 => self.unary(f, args[0], result),
            ScalarFn::Add | ScalarFn::Sub | ScalarFn::Mul | ScalarFn::Div | ScalarFn::Max | ScalarFn::Min => {
                self.binary(f, args, result)
            }
            _ => Err(unknown(f, self.dtype(result))),
        }
    }

    fn unary(&mut self, f: ScalarFn, x: Val, result: Val) -> Made<()> {
        let float = self.dtype(x) == DType::F32;
        let (name, more) = match f {
            ScalarFn::Neg if float => ("Muls", "-1.0f, "),
            ScalarFn::Neg => ("Muls", "-1, "),
            ScalarFn::Abs if float => ("Abs", ""),
            ScalarFn::Sqrt if float => ("Sqrt", ""),
            ScalarFn::Exp if float => ("Exp", ""),
            ScalarFn::Log if float => ("Ln", ""),
            _ => return Err(unknown(f, self.dtype(x))),
        };
        let from = self.lane_for_lane(x, result)?;
        let count = self.count(result)?;
        let to = self.destination(result, f.name(), &[x])?;
        let line = format!("{name}({}, {}, {more}{count});", to.text(), from.text());
        self.steps().vector(line, &[&from], &to);
        Ok(())
    }

    fn binary(&mut self, f: ScalarFn, args: &[Val], result: Val) -> Made<()> {
        let dtype = self.dtype(result);
        if dtype == DType::I32 && f == ScalarFn::Div {
            return Err(unknown(f, dtype));
        }
        let (a, b) = (self.operand(args[0], result)?, self.operand(args[1], result)?);
        let extreme = matches!(f, ScalarFn::Max | ScalarFn::Min) && dtype == DType::F32;
        let tested = extreme && !self.nan_is_replaced(result, args);
        // Operands that are looked at once more must not be overwritten.
        let dying = if tested { &[] } else { args };
        let to = match (a, b) {
            (Operand::Same(a), Operand::Same(b)) => {
                let to = self.destination(result, f.name(), dying)?;
                let count = self.count(result)?;
                let name = instruction(f);
                let line = format!("{name}({}, {}, {}, {count});", to.text(), a.text(), b.text());
                self.steps().vector(line, &[&a, &b], &to);
                to
            }
            (Operand::Same(a), b) => self.spread_over(f, result, dying, (&a, b), false)?,
            (a, Operand::Same(b)) => self.spread_over(f, result, dying, (&b, a), true)?,
            (a, b) => {
                let whole = self.materialised(a, result)?;
                self.spread_over(f, result, dying, (&whole, b), false)?
            }
        };
        if tested {
            for &arg in args {
                if !self.is_constant(arg) {
                    let from = self.operand(arg, result)?;
                    self.keep_nan(&to, from, result)?;
                }
            }
        }
        Ok(())
    }

    /// Bits of integers: those of their halves.
    fn bits(&mut self, f: ScalarFn, args: &[Val], result: Val) -> Made<()> {
        let (a, b) = (self.lane_for_lane(args[0], result)?, self.lane_for_lane(args[1], result)?);
        let count = self.count(result)?.of(2);
        let to = self.destination(result, f.name(), &[])?;
        let name = if f == ScalarFn::And { "And" } else { "Or" };
        let [to_text, a_text, b_text] = [&to, &a, &b].map(|t| format!("{}.ReinterpretCast<uint16_t>()", t.text()));
        self.steps().vector(format!("{name}({to_text}, {a_text}, {b_text}, {count});"), &[&a, &b], &to);
        Ok(())
    }

    /// A shift by a constant.
    fn shift(&mut self, f: ScalarFn, args: &[Val], result: Val) -> Made<()> {
        let by = match self.defining(args[1]).map(|i| &i.op) {
            Some(InstOp::Literal(Literal::Int(_, by))) if (0..32).contains(by) => *by,
            _ => return Err(EmitError::unsupported("a shift by other than a constant")),
        };
        let from = self.lane_for_lane(args[0], result)?;
        let count = self.count(result)?;
        let to = self.destination(result, f.name(), &[])?;
        let name = if f == ScalarFn::Shl { "ShiftLeft" } else { "ShiftRight" };
        self.steps().vector(format!("{name}({}, {}, {by}, {count});", to.text(), from.text()), &[&from], &to);
        Ok(())
    }

    /// `f(x, by)`, or `f(by, x)` if `flipped`, where `by` spreads over the lanes of `x`.
    fn spread_over(
        &mut self,
        f: ScalarFn,
        result: Val,
        args: &[Val],
        of: (&Tensor, Operand),
        flipped: bool,
    ) -> Made<Tensor> {
        let (x, by) = of;
        let count = self.count(result)?;
        let dtype = self.dtype(result);
        let immediate = match (f, &by) {
            (_, Operand::Constant(c)) if !c.is_finite() => None,
            (ScalarFn::Add, Operand::Constant(c)) => Some(("Adds", *c)),
            (ScalarFn::Sub, Operand::Constant(c)) if !flipped => Some(("Adds", -c)),
            (ScalarFn::Mul, Operand::Constant(c)) => Some(("Muls", *c)),
            (ScalarFn::Max, Operand::Constant(c)) => Some(("Maxs", *c)),
            (ScalarFn::Min, Operand::Constant(c)) => Some(("Mins", *c)),
            _ => None,
        };
        // The result may overwrite the operand that has its lanes, but not the one that spreads.
        let dying: Vec<Val> = args.iter().copied().filter(|&a| self.holds(a, x)).collect();
        if let (Some((name, by)), DType::F32) = (immediate, dtype) {
            let by = text::float(by).ok_or_else(|| EmitError::unsupported(format!("the constant {by}")))?;
            let to = self.destination(result, f.name(), &dying)?;
            let line = format!("{name}({}, {}, {by}, {count});", to.text(), x.text());
            self.steps().vector(line, &[x], &to);
            return Ok(to);
        }
        let by = match by {
            Operand::Constant(c) => Operand::Block(self.block(c.to_bits())),
            other => other,
        };
        let to = self.destination(result, f.name(), &dying)?;
        let op = combiner(f, flipped);
        let (from, shape) = match &by {
            Operand::Block(of) => {
                (of, format!("ByBlocks<{op}>({}, {}, {}, 1, {count})", to.text(), x.text(), of.text()))
            }
            Operand::Blocks { of, blocks, lanes } => {
                (of, format!("ByBlocks<{op}>({}, {}, {}, {blocks}, {lanes})", to.text(), x.text(), of.text()))
            }
            Operand::Line { of, rows, lanes } => {
                (of, format!("ByLine<{op}>({}, {}, {}, {rows}, {lanes})", to.text(), x.text(), of.text()))
            }
            Operand::Lines { of, lanes } => {
                let line = format!(
                    "ByLines<{op}>({}, {}, {}, tile.rows, tile.inners, {lanes})",
                    to.text(),
                    x.text(),
                    of.text()
                );
                (of, line)
            }
            Operand::Same(_) | Operand::Constant(_) => return Err(EmitError::unsupported("an operand twice")),
        };
        let from = from.clone();
        self.steps().vector(format!("fusewright::{shape};"), &[x, &from], &to);
        Ok(to)
    }

    pub fn holds(&self, value: Val, tensor: &Tensor) -> bool {
        self.tensor(value).is_ok_and(|t| t == *tensor)
    }

    /// The same bits as another type of words.
    pub fn bitcast(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let x = inst.args[0];
        let (from, to) = (self.dtype(x), self.dtype(result));
        if let Some(packed) = self.packed.get(&x).cloned().filter(|_| self.element(from).ok() == self.element(to).ok())
        {
            self.packed.insert(result, packed);
            return Ok(());
        }
        if let Some(Scalar::Literal(v)) = self.scalar(x).cloned() {
            let block = self.block(v.to_bits());
            self.bind(result, as_words(&block));
            return Ok(());
        }
        let of = self.tensor(x)?;
        let element = self.element(to)?;
        let seen = match (from, to) {
            _ if self.element(from)? == element => of,
            (DType::F32 | DType::I32 | DType::U32, DType::F32 | DType::I32) => {
                // Of the base, so that casts do not pile up.
                let base = of.var.split(".Reinterpret").next().unwrap_or(&of.var).to_owned();
                let text = Tensor { var: base, ..of.clone() }.text();
                Tensor { var: format!("{text}.ReinterpretCast<{element}>()"), offset: 0, ..of }
            }
            _ => return Err(EmitError::unsupported(format!("the bits of {from} as {to}"))),
        };
        self.bind(result, seen);
        Ok(())
    }

    /// A scalar, group or row over a larger shape, or over more rows.
    pub fn broadcast(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let x = inst.args[0];
        let shape = self.shape(x) == self.shape(result);
        let same = shape && self.tile.level(self.level(x)) == self.tile.level(self.level(result));
        if let Some(packed) = self.packed.get(&x).cloned().filter(|_| same && !self.has_tensor(x)) {
            // Scalars side by side stay so.
            let (element, last) = (self.element(self.dtype(result))?, self.last_of(result));
            let most = self.tile.most(self.level(result)) * self.elements(result)?;
            let count = self.tile.times(self.level(result)).of(self.elements(result)?);
            let to = self.lasting("spread", element, most, packed.size, last);
            self.move_lanes(&to, &packed, &count, most);
            self.packed.insert(result, to);
            return Ok(());
        }
        if !matches!(self.dtype(result), DType::F32 | DType::I32) {
            if !shape || self.dtype(result) == DType::Bool {
                return Err(EmitError::unsupported(format!("a broadcast of {}", self.dtype(result))));
            }
            if !same {
                return Err(EmitError::Single);
            }
            let (from, count, most) = (self.tensor(x)?, self.count(result)?, self.most(result)?);
            let to = self.destination(result, "spread", &[])?;
            self.move_lanes(&to, &from, &count, most);
            return Ok(());
        }
        let operand = self.operand(x, result)?;
        let from = self.materialised(operand, result)?;
        let to = self.destination(result, "spread", &[])?;
        if from.var != to.var {
            let count = self.count(result)?;
            let line = format!("fusewright::Move({}, {}, {count});", to.text(), from.text());
            self.steps().vector(line, &[&from], &to);
        }
        Ok(())
    }

    /// Rounding to integers.
    fn round(&mut self, f: ScalarFn, x: Val, result: Val) -> Made<()> {
        let mode = match f {
            ScalarFn::RoundEven => "CAST_RINT",
            ScalarFn::Floor => "CAST_FLOOR",
            ScalarFn::Ceil => "CAST_CEIL",
            _ => "CAST_TRUNC",
        };
        let from = self.lane_for_lane(x, result)?;
        let (count, lanes) = (self.count(result)?, self.most(result)?);
        let whole = self.scratch("whole", "int32_t", lanes, 4);
        let mask = self.mask_scratch(lanes);
        let limit = self.block(8_388_608.0f32.to_bits());
        let to = self.destination(result, f.name(), &[])?;
        let operands = [&to, &from, &whole, &mask, &limit].map(|t| t.text()).join(", ");
        let line = format!("fusewright::RoundToInteger<RoundMode::{mode}>({operands}, {count});");
        self.steps().settled(line, &[&from], &[&to]);
        Ok(())
    }
}

fn unknown(f: ScalarFn, dtype: DType) -> EmitError {
    EmitError::unsupported(format!("`{}` of {dtype}: no vector instruction is documented to compute it", f.name()))
}

fn instruction(f: ScalarFn) -> &'static str {
    match f {
        ScalarFn::Add => "Add",
        ScalarFn::Sub => "Sub",
        ScalarFn::Mul => "Mul",
        ScalarFn::Div => "Div",
        ScalarFn::Max => "Max",
        _ => "Min",
    }
}

/// The structure of the header that combines by a function.
fn combiner(f: ScalarFn, flipped: bool) -> String {
    let name = match f {
        ScalarFn::Add => "Sum",
        ScalarFn::Sub => "Difference",
        ScalarFn::Mul => "Product",
        ScalarFn::Div => "Quotient",
        ScalarFn::Max => "Largest",
        _ => "Smallest",
    };
    match (f, flipped) {
        (ScalarFn::Sub | ScalarFn::Div, true) => format!("fusewright::Flipped<fusewright::{name}>"),
        _ => format!("fusewright::{name}"),
    }
}
