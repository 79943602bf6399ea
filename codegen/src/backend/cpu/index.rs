//! Index expressions and addresses.
//!
//! The part of an address that no loop
//! counter enters is computed once, where it is first asked for.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use fusewright_abi::DType;
use fusewright_graph::Dim;
use fusewright_graph::dim::{DimFn, DimFold};

use super::eval::{Eval, Key};
use crate::backend::host::index::split_constant;
use crate::backend::host::{Refused, Taken, place};
use crate::kernel::{INNER, LANE, ParamId, ROW, Val};

/// A position in lanes or groups.
pub(super) type Pos = place::Pos<Value>;

/// An address and a constant distance in bytes from it.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub pointer: Value,
    pub offset: i32,
}

struct Fold<'e, 'k, 'f> {
    eval: &'e mut Eval<'k, 'f>,
    lane: Option<Value>,
}

impl DimFold for Fold<'_, '_, '_> {
    type Value = Value;
    type Error = Refused;

    fn constant(&mut self, value: i64) -> Taken<Value> {
        Ok(self.eval.code.i64(value))
    }

    fn symbol(&mut self, name: &str) -> Taken<Value> {
        match (name, self.lane) {
            (LANE, Some(lane)) => Ok(lane),
            _ => self.eval.symbol(name),
        }
    }

    fn add(&mut self, a: Value, b: Value) -> Taken<Value> {
        Ok(self.eval.code.b.ins().iadd(a, b))
    }

    fn mul(&mut self, a: Value, b: Value) -> Taken<Value> {
        Ok(self.eval.code.b.ins().imul(a, b))
    }

    fn function(&mut self, f: DimFn, a: Value, b: Value) -> Taken<Value> {
        let ins = |e: &mut Eval<'_, '_>| e.code.floor_div(a, b);
        Ok(match f {
            DimFn::FloorDiv => ins(self.eval),
            DimFn::Mod => {
                let quotient = ins(self.eval);
                let product = self.eval.code.b.ins().imul(quotient, b);
                self.eval.code.b.ins().isub(a, product)
            }
            DimFn::Max => self.eval.code.b.ins().smax(a, b),
            DimFn::Min => self.eval.code.b.ins().smin(a, b),
        })
    }
}

impl super::code::Code<'_> {
    /// `⌊a / b⌋`; a zero divisor counts as 1, and no quotient traps.
    pub fn floor_div(&mut self, a: Value, b: Value) -> Value {
        if let Some(by) = self.constant_of(b)
            && by > 0
            && by & (by - 1) == 0
        {
            return self.sar(a, by.trailing_zeros());
        }
        let (zero, one) = (self.i64(0), self.i64(1));
        let by_zero = self.icmp(IntCC::Equal, b, zero);
        let minus = self.icmp_const(IntCC::Equal, b, -1);
        let safe = self.b.ins().select(by_zero, one, b);
        let safe = self.b.ins().select(minus, one, safe);
        let quotient = self.b.ins().sdiv(a, safe);
        let product = self.b.ins().imul(quotient, safe);
        let rest = self.b.ins().isub(a, product);
        let wrong = self.b.ins().bxor(rest, safe);
        let opposite = self.icmp(IntCC::SignedLessThan, wrong, zero);
        let inexact = self.icmp(IntCC::NotEqual, rest, zero);
        let down = self.b.ins().band(opposite, inexact);
        let down = self.b.ins().uextend(I64, down);
        let floored = self.b.ins().isub(quotient, down);
        let negated = self.b.ins().ineg(a);
        self.b.ins().select(minus, negated, floored)
    }

    fn constant_of(&self, v: Value) -> Option<i64> {
        let inst = self.b.func.dfg.value_def(v).inst()?;
        match self.b.func.dfg.insts[inst] {
            cranelift_codegen::ir::InstructionData::UnaryImm { imm, .. } => Some(imm.bits()),
            _ => None,
        }
    }
}

impl Eval<'_, '_> {
    fn symbol(&mut self, name: &str) -> Taken<Value> {
        if let Some(v) = Val::from_symbol(name) {
            let dtype = self.segment.ty(v).dtype;
            let value = self.scalar(v)?;
            return Ok(self.code.index_value(value, dtype));
        }
        let bound = match name {
            ROW => self.row,
            INNER => self.inner,
            _ => self.dims.get(name).copied(),
        };
        bound.ok_or_else(|| self.refuse(format!("`{name}` in an index has no value here")))
    }

    /// The value of a dim without lanes.
    pub fn dim(&mut self, dim: &Dim) -> Taken<Value> {
        let key = Key::Dim(dim.clone());
        if let Some(known) = self.memo.known(&key) {
            return Ok(known.first);
        }
        let value = dim.fold(&mut Fold { eval: self, lane: None })?;
        Ok(self.remember(key, value))
    }

    /// The lane of a position.
    pub fn lane(&mut self, pos: &Pos) -> Taken<Value> {
        if pos.scale == 1 && pos.offset.as_const() == Some(0) {
            return Ok(pos.base);
        }
        let key = Key::Lane(pos.clone());
        if let Some(known) = self.memo.known(&key) {
            return Ok(known.first);
        }
        let scaled = self.scaled(pos.base, pos.scale);
        let lane = match pos.offset.as_const() {
            Some(offset) => self.code.add(scaled, offset),
            None => {
                let offset = self.dim(&pos.offset)?;
                self.code.b.ins().iadd(scaled, offset)
            }
        };
        Ok(self.remember(key, lane))
    }

    pub(super) fn scaled(&mut self, v: Value, by: i64) -> Value {
        if by == 1 {
            return v;
        }
        if by > 0 && by & (by - 1) == 0 {
            return self.code.shl(v, by.trailing_zeros());
        }
        let by = self.code.i64(by);
        self.code.b.ins().imul(v, by)
    }

    /// The element's number for an index at a position.
    pub fn element(&mut self, index: &Dim, pos: Option<&Pos>) -> Taken<Value> {
        if !index.mentions(LANE) {
            return self.dim(index);
        }
        let lane = pos.map(|p| self.lane(p)).transpose()?;
        index.fold(&mut Fold { eval: self, lane })
    }

    /// The address of an element of a parameter of at least 8 bits.
    pub fn address(&mut self, param: ParamId, index: &Dim, pos: Option<&Pos>) -> Taken<Address> {
        let dtype = self.kernel.param(param).dtype;
        let bytes = element_bytes(dtype).ok_or_else(|| self.refuse(format!("{dtype} elements by address")))?;
        let linear = index.split_linear(LANE).and_then(|(slope, rest)| Some((slope.as_const()?, rest)));
        let Some((slope, rest)) = linear else {
            let element = self.element(index, pos)?;
            let distance = self.scaled(element, bytes);
            let base = self.buffers[param.0 as usize];
            return Ok(Address { pointer: self.code.b.ins().iadd(base, distance), offset: 0 });
        };
        let zero = Dim::constant(0);
        let lanes = pos.map_or(&zero, |p| &p.offset);
        let (start, constant) = split_constant(&(&rest + &(&Dim::constant(slope) * lanes)));
        let mut pointer = self.base(param, &start, bytes)?;
        if let Some(p) = pos
            && slope != 0
        {
            let step = self.scaled(p.base, slope.saturating_mul(p.scale).saturating_mul(bytes));
            pointer = self.code.b.ins().iadd(pointer, step);
        }
        // Room is left for the second vector of a chunk.
        let near = constant.checked_mul(bytes).and_then(|c| i32::try_from(c).ok()).filter(|c| c.abs() < 1 << 30);
        Ok(match near {
            Some(offset) => Address { pointer, offset },
            None => {
                let far = self.code.i64(constant.wrapping_mul(bytes));
                Address { pointer: self.code.b.ins().iadd(pointer, far), offset: 0 }
            }
        })
    }

    /// `parameter + start`, in bytes.
    pub fn base(&mut self, param: ParamId, start: &Dim, bytes: i64) -> Taken<Value> {
        let buffer = self.buffers[param.0 as usize];
        if start.as_const() == Some(0) {
            return Ok(buffer);
        }
        let key = Key::Base(param, start.clone());
        if let Some(known) = self.memo.known(&key) {
            return Ok(known.first);
        }
        let elements = self.dim(start)?;
        let distance = self.scaled(elements, bytes);
        let pointer = self.code.b.ins().iadd(buffer, distance);
        Ok(self.remember(key, pointer))
    }
}

/// Bytes of one element of a parameter; `None` for packed dtypes.
pub(super) fn element_bytes(dtype: DType) -> Option<i64> {
    (dtype.bits() >= 8).then(|| i64::from(dtype.bits() / 8))
}
