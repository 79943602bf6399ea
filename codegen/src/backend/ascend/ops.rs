//! Instructions as statements: the one place where Kernel IR meets intrinsic names.
//!
//! Only functions whose meaning the vendor documents as the plain f32 function are spelled; the reciprocal and inverse
//! root instructions, which are approximations, are not. A scalar operand takes the scalar form of an instruction where
//! there is one and is spread over a row where there is none.

use fusewright_abi::DType;
use fusewright_graph::scalar::Spelling;
use fusewright_graph::{Dim, Literal, NanRule, ReduceOp, Rounding, ScalarFn};

use super::EmitError;
use super::memory::{BLOCK, Tensor};
use super::segment::{Scalar, Writer};
use super::text;
use crate::kernel::{Inst, InstOp, Order, Over, Shape, Tree, Val};

type Made<T> = Result<T, EmitError>;

/// Lanes of a tensor that holds a scalar.
const SCALAR_LANES: u64 = 8;

/// What a map operand is for a statement.
enum Operand {
    Tensor(Tensor),
    Immediate(String),
}

impl Writer<'_> {
    /// The name that the table gives a function here, if it is one instruction of the vector unit.
    fn spelling(&self, f: ScalarFn) -> Made<&'static str> {
        match (f.spec().ascend, f) {
            (
                Spelling::Native(name),
                ScalarFn::Add
                | ScalarFn::Sub
                | ScalarFn::Mul
                | ScalarFn::Div
                | ScalarFn::Max
                | ScalarFn::Min
                | ScalarFn::Abs
                | ScalarFn::Sqrt
                | ScalarFn::Exp
                | ScalarFn::Log,
            ) => Ok(name),
            _ => {
                Err(EmitError::unsupported(format!("`{}` of f32 is no vector instruction of known meaning", f.name())))
            }
        }
    }

    /// An elementwise function of f32 rows or scalars.
    pub fn map(&mut self, f: ScalarFn, inst: &Inst, result: Val) -> Made<()> {
        let args = &inst.args;
        if args.iter().any(|&a| self.segment.ty(a).dtype != DType::F32) {
            return Err(EmitError::unsupported(format!("`{}` of other than f32", f.name())));
        }
        let shape = self.segment.ty(result).shape.clone();
        let count = self.count(&shape)?;
        let mut operands = Vec::new();
        for &arg in args {
            operands.push(self.operand(arg, &shape)?);
        }
        let wish = f.name();
        match (f, operands.as_slice()) {
            (ScalarFn::Neg, [Operand::Tensor(x)]) => {
                let to = self.destination(result, wish, args)?;
                self.steps.vector(format!("Muls({}, {}, -1.0f, {count});", to.text(), x.text()), &[x], &to);
            }
            (_, [Operand::Tensor(x)]) => {
                let name = self.spelling(f)?;
                let to = self.destination(result, wish, args)?;
                self.steps.vector(format!("{name}({}, {}, {count});", to.text(), x.text()), &[x], &to);
            }
            (_, [Operand::Tensor(a), Operand::Tensor(b)]) => {
                let name = self.spelling(f)?;
                let to = self.destination(result, wish, args)?;
                let line = format!("{name}({}, {}, {}, {count});", to.text(), a.text(), b.text());
                self.steps.vector(line, &[a, b], &to);
            }
            (_, [Operand::Tensor(x), Operand::Immediate(by)]) => self.by_scalar(f, result, args, (x, by), false)?,
            (_, [Operand::Immediate(by), Operand::Tensor(x)]) => self.by_scalar(f, result, args, (x, by), true)?,
            _ => return Err(EmitError::unsupported(format!("`{}` of scalars alone", f.name()))),
        }
        Ok(())
    }

    /// `f(x, by)`, or `f(by, x)` if `swapped`.
    fn by_scalar(&mut self, f: ScalarFn, result: Val, args: &[Val], of: (&Tensor, &str), swapped: bool) -> Made<()> {
        let (x, by) = of;
        let count = self.count(&self.segment.ty(result).shape.clone())?;
        let short = match f {
            ScalarFn::Add => Some(("Adds", by.to_owned())),
            ScalarFn::Sub if !swapped => Some(("Adds", format!("-{by}"))),
            ScalarFn::Mul => Some(("Muls", by.to_owned())),
            ScalarFn::Max => Some(("Maxs", by.to_owned())),
            ScalarFn::Min => Some(("Mins", by.to_owned())),
            _ => None,
        };
        if let Some((name, by)) = short {
            let by = by.strip_prefix("--").map_or(by.clone(), str::to_owned);
            let to = self.destination(result, f.name(), args)?;
            self.steps.vector(format!("{name}({}, {}, {by}, {count});", to.text(), x.text()), &[x], &to);
            return Ok(());
        }
        let name = self.spelling(f)?;
        let spread = self.scratch("spread", "float", count.max(SCALAR_LANES), 4);
        self.steps.vector(format!("Duplicate({}, {by}, {count});", spread.text()), &[], &spread);
        let to = self.destination(result, f.name(), args)?;
        let (a, b) = if swapped { (&spread, x) } else { (x, &spread) };
        self.steps.vector(format!("{name}({}, {}, {}, {count});", to.text(), a.text(), b.text()), &[a, b], &to);
        Ok(())
    }

    /// Lanes that a statement works on; scalars are the first lane of their block.
    fn count(&self, shape: &Shape) -> Made<u64> {
        let elements = shape.elements();
        let known = elements.as_const().and_then(|n| u64::try_from(n).ok());
        known.ok_or_else(|| EmitError::unsupported(format!("{elements} lanes: the buffer plan needs a known length")))
    }

    /// An operand of a map whose result has a shape.
    fn operand(&mut self, value: Val, shape: &Shape) -> Made<Operand> {
        if let Some(scalar) = self.scalar(value) {
            return match scalar {
                Scalar::Expression(text) => Ok(Operand::Immediate(text.clone())),
                Scalar::Literal(v) => match text::float(*v) {
                    Some(text) => Ok(Operand::Immediate(text)),
                    None => Err(EmitError::unsupported(format!("the constant {v}"))),
                },
            };
        }
        let tensor = self.tensor(value)?;
        if self.segment.ty(value).shape == Shape::Scalar && *shape != Shape::Scalar {
            return Ok(Operand::Immediate(self.read_scalar(value, &tensor)));
        }
        Ok(Operand::Tensor(tensor))
    }

    /// The C++ value of a scalar tensor, read once.
    fn read_scalar(&mut self, value: Val, tensor: &Tensor) -> String {
        if let Some(name) = self.read.get(&value) {
            return name.clone();
        }
        let name = self.names.claim(&format!("{}Value", tensor.var));
        self.steps.plain(format!("const float {name} = fusewright::ReadScalar({});", tensor.text()));
        self.read.insert(value, name.clone());
        name
    }

    /// A scalar or group over a row.
    pub fn spread(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let shape = self.segment.ty(result).shape.clone();
        let Operand::Immediate(by) = self.operand(inst.args[0], &shape)? else {
            return Err(EmitError::unsupported("a broadcast of other than a scalar"));
        };
        let count = self.count(&shape)?;
        let to = self.destination(result, "spread", &[])?;
        self.steps.vector(format!("Duplicate({}, {by}, {count});", to.text()), &[], &to);
        Ok(())
    }

    /// Lanes of a row in place.
    pub fn slice(&mut self, inst: &Inst, result: Val, start: &Dim) -> Made<()> {
        let start = start.as_const().and_then(|n| u64::try_from(n).ok());
        let start = start.ok_or_else(|| EmitError::unsupported("a slice from an unknown lane"))?;
        let lanes = self.count(&self.segment.ty(result).shape.clone())?;
        let part = self.tensor(inst.args[0])?.part(start, lanes)?;
        self.bind(result, part);
        Ok(())
    }

    /// Rows one after the other; what was computed in its place stays there.
    pub fn join(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let to = self.destination(result, "joined", &[])?;
        let mut start = 0;
        for &arg in &inst.args {
            let from = self.tensor(arg)?;
            let part = to.part(start, from.lanes)?;
            start += from.lanes;
            if from == part {
                continue;
            }
            if !(from.lanes * from.size).is_multiple_of(BLOCK) {
                let what = format!("a join of {} bytes: moves take multiples of {BLOCK}", from.lanes * from.size);
                return Err(EmitError::unsupported(what));
            }
            let line = format!("DataCopy({}, {}, {});", part.text(), from.text(), from.lanes);
            self.steps.vector(line, &[&from], &part);
        }
        Ok(())
    }

    /// A conversion of a row.
    pub fn cast(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let InstOp::Cast { to, round, saturate } = inst.op else { return Ok(()) };
        let from = self.segment.ty(inst.args[0]).dtype;
        let refuse = |why: &str| {
            let saturate = if saturate { ", saturating" } else { "" };
            Err(EmitError::unsupported(format!("cast {from} to {to} ({}{saturate}): {why}", round.name())))
        };
        let mode = match round {
            Rounding::NearestEven => "CAST_RINT",
            Rounding::TowardZero => "CAST_TRUNC",
            Rounding::Down => "CAST_FLOOR",
            Rounding::Up => "CAST_CEIL",
            Rounding::HalfAway => "CAST_ROUND",
        };
        let x = self.tensor(inst.args[0])?;
        let wish = format!("{}{}", text::stem(&x.var), text::suffix(to));
        let mode = match (from, to) {
            (DType::F16 | DType::BF16, DType::F32) => "CAST_NONE",
            (DType::F32, DType::F16 | DType::BF16) if !saturate => mode,
            (DType::F32, DType::F8E4M3 | DType::F8E5M2) if saturate && round == Rounding::NearestEven => mode,
            (DType::F32, DType::I32 | DType::I16) if saturate => mode,
            (DType::F32, DType::I8) if saturate && round == Rounding::NearestEven => {
                return self.cast_to_int8(inst, result, &wish);
            }
            (DType::I32, DType::F32) if round == Rounding::NearestEven => mode,
            _ => return refuse("the vector unit has no such conversion"),
        };
        self.element(to).map(|_| ())?;
        let count = self.count(&self.segment.ty(result).shape.clone())?;
        let dest = self.destination(result, &wish, &inst.args)?;
        let line = format!("Cast({}, {}, RoundMode::{mode}, {count});", dest.text(), x.text());
        self.steps.vector(line, &[&x], &dest);
        Ok(())
    }

    fn cast_to_int8(&mut self, inst: &Inst, result: Val, wish: &str) -> Made<()> {
        let count = self.count(&self.segment.ty(result).shape.clone())?;
        let x = self.tensor(inst.args[0])?;
        let whole = self.scratch("whole", "int32_t", count, 4);
        let narrow = self.scratch("narrow", "half", count, 2);
        let to = self.destination(result, wish, &[])?;
        let operands = [&to, &x, &whole, &narrow].map(|t| t.text()).join(", ");
        self.steps.settled(format!("fusewright::CastToInt8({operands}, {count});"));
        Ok(())
    }

    /// A reduction of a row to a scalar.
    pub fn reduce(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let InstOp::Reduce { op, over: Over::Row, nan, order } = &inst.op else {
            return Err(EmitError::unsupported("a reduction over groups"));
        };
        if self.segment.ty(result).dtype != DType::F32 {
            return Err(EmitError::unsupported("a reduction of other than f32"));
        }
        if *nan == NanRule::Ignore && matches!(op, ReduceOp::Max | ReduceOp::Min) {
            return Err(EmitError::unsupported("an extreme that ignores NaN"));
        }
        let x = self.tensor(inst.args[0])?;
        let count = self.count(&self.segment.ty(inst.args[0]).shape.clone())?;
        match order {
            Order::Tree(tree) => self.reduce_by_tree(*op, *tree, result, (&x, count)),
            Order::Relaxed => self.reduce_relaxed(*op, result, (&x, count)),
        }
    }

    fn reduce_by_tree(&mut self, op: ReduceOp, tree: Tree, result: Val, of: (&Tensor, u64)) -> Made<()> {
        let (x, count) = of;
        let Tree { vec: 1, threads: width @ (8 | 16 | 32 | 64), ways: 1 } = tree else {
            let what = format!("a reduction in order {}: the vector unit adds tree(8) to tree(64)", Order::Tree(tree));
            return Err(EmitError::unsupported(what));
        };
        let (name, wish) = match op {
            ReduceOp::Add => ("Sum", "sum"),
            ReduceOp::Max => ("Largest", "largest"),
            ReduceOp::Min => ("Smallest", "smallest"),
            ReduceOp::Mul => return Err(EmitError::unsupported("a product of a row")),
        };
        let scratch = self.scratch("tree", "float", 192, 4);
        let to = self.destination(result, wish, &[])?;
        let operands = [&to, x, &scratch].map(|t| t.text()).join(", ");
        self.steps.settled(format!("fusewright::TreeReduce<fusewright::{name}, {width}>({operands}, {count});"));
        Ok(())
    }

    fn reduce_relaxed(&mut self, op: ReduceOp, result: Val, of: (&Tensor, u64)) -> Made<()> {
        let (x, count) = of;
        let (name, wish) = match op {
            ReduceOp::Add => ("ReduceSum", "sum"),
            ReduceOp::Max => ("ReduceMax", "largest"),
            ReduceOp::Min => ("ReduceMin", "smallest"),
            ReduceOp::Mul => return Err(EmitError::unsupported("a product of a row")),
        };
        let scratch = self.scratch("partial", "float", count, 4);
        let to = self.destination(result, wish, &[])?;
        self.steps.plain("// The vendor's order: results may differ from other targets in the last place.".to_owned());
        let line = format!("{name}({}, {}, {}, {count});", to.text(), x.text(), scratch.text());
        self.steps.settled(line);
        self.steps.vector_result(&to);
        Ok(())
    }

    /// Integers and conditions of a row, for addresses.
    pub fn integer(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let text = |writer: &Self, i: usize| -> Made<String> {
            let found = inst.args.get(i).and_then(|&a| writer.expression(a));
            found.ok_or_else(|| EmitError::unsupported(format!("`{}` of other than integers", inst.op.name())))
        };
        let binary = |writer: &Self, sign: &str| Ok(format!("{} {sign} {}", text(writer, 0)?, text(writer, 1)?));
        let dtype = self.segment.ty(result).dtype;
        let expression = match &inst.op {
            InstOp::Literal(Literal::Int(_, v)) => {
                self.express(result, v.to_string());
                return Ok(());
            }
            InstOp::Index(index) => self.index_text(index),
            InstOp::Cast { to: DType::I64, .. } => text(self, 0)?,
            InstOp::Map(f) => match f {
                ScalarFn::Eq => binary(self, "==")?,
                ScalarFn::Ne => binary(self, "!=")?,
                ScalarFn::Lt => binary(self, "<")?,
                ScalarFn::Le => binary(self, "<=")?,
                ScalarFn::Gt => binary(self, ">")?,
                ScalarFn::Ge => binary(self, ">=")?,
                ScalarFn::And if dtype == DType::Bool => binary(self, "&&")?,
                ScalarFn::Or if dtype == DType::Bool => binary(self, "||")?,
                ScalarFn::Not if dtype == DType::Bool => format!("!{}", text(self, 0)?),
                ScalarFn::Add if dtype == DType::I64 => binary(self, "+")?,
                ScalarFn::Sub if dtype == DType::I64 => binary(self, "-")?,
                ScalarFn::Mul if dtype == DType::I64 => binary(self, "*")?,
                ScalarFn::Max => format!("fusewright::Larger({}, {})", text(self, 0)?, text(self, 1)?),
                ScalarFn::Min => format!("fusewright::Smaller({}, {})", text(self, 0)?, text(self, 1)?),
                _ => return Err(EmitError::unsupported(format!("`{}` of {dtype}", f.name()))),
            },
            _ => return Err(EmitError::unsupported(format!("`{}` of {dtype}", inst.op.name()))),
        };
        let (wish, kind) = match dtype {
            DType::Bool => ("condition", "bool"),
            _ => (inst.op.name(), "int64_t"),
        };
        let name = self.names.claim(wish);
        self.declare(result, &name, kind, &expression);
        Ok(())
    }
}
