//! Integers and conditions of a row, for addresses: plain C++ of the scalar unit.

use fusewright_abi::DType;
use fusewright_graph::{Literal, ScalarFn};

use super::EmitError;
use super::segment::{Made, Writer};
use crate::kernel::{Inst, InstOp, Shape, Val};

/// Integers are computed with 64 bits; those of 32 wrap around.
fn narrow(expression: &str) -> String {
    format!("static_cast<int32_t>({expression})")
}

impl Writer<'_> {
    /// Integers and conditions of a row.
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
            InstOp::Cast { to: DType::I64, .. } | InstOp::Broadcast(Shape::Scalar) => text(self, 0)?,
            InstOp::Cast { to: DType::I32, saturate: false, .. } => narrow(&text(self, 0)?),
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
                ScalarFn::Add if dtype == DType::I32 => narrow(&binary(self, "+")?),
                ScalarFn::Sub if dtype == DType::I32 => narrow(&binary(self, "-")?),
                ScalarFn::Mul if dtype == DType::I32 => narrow(&binary(self, "*")?),
                ScalarFn::Select => format!("{} ? {} : {}", text(self, 0)?, text(self, 1)?, text(self, 2)?),
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
