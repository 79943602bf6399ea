//! Loads and stores.

use fusewright_abi::DType;
use fusewright_graph::Dim;
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::code::GLOBAL;
use super::rows::Rows;
use crate::backend::llvm::cast::literal;
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::{Inst, InstOp, ParamId, Shape};

impl<'c> Rows<'_, 'c> {
    /// One element of a load.
    pub fn load(&mut self, inst: &Inst, lane: IntValue<'c>) -> Built<Value<'c>> {
        let InstOp::Load { param, index, otherwise, .. } = &inst.op else {
            return Err(BuildError::unsupported("not a load"));
        };
        let dtype = self.frame.kernel.param(*param).dtype;
        let base = self.buffer(*param);
        let at = self.index(index, Some(lane))?;
        let (Some(literal_of), Some(&predicate)) = (otherwise, inst.args.first()) else {
            return self.load_from(base, dtype, at, GLOBAL);
        };
        let predicate = self.element(predicate, lane)?.into_int_value();
        let other = literal(self.code, literal_of)?;
        let loaded =
            self.branch(predicate, |rows| Ok(vec![rows.load_from(base, dtype, at, GLOBAL)?]), |_| Ok(vec![other]))?;
        Ok(loaded[0])
    }

    /// Address of a parameter.
    pub fn buffer(&self, param: ParamId) -> IntValue<'c> {
        self.frame.buffers[param.0 as usize]
    }

    /// Element number `at` of an array.
    pub fn load_from(&self, base: IntValue<'c>, dtype: DType, at: IntValue<'c>, space: u16) -> Built<Value<'c>> {
        let code = self.code;
        if dtype.bits() == 4 && space == GLOBAL {
            let half = code.b.build_right_shift(at, code.i64(1), true, "")?;
            let byte = code.load(code.int_type(8).into(), code.add(base, half)?, space)?.into_int_value();
            let odd = code.b.build_and(code.resize(at, 8)?, code.int_type(8).const_int(1, false), "")?;
            let place = code.b.build_left_shift(odd, code.int_type(8).const_int(2, false), "")?;
            let nibble = code.b.build_right_shift(byte, place, false, "")?;
            return Ok(code.b.build_and(nibble, code.int_type(8).const_int(15, false), "")?.into());
        }
        let ty = if dtype == DType::Bool { code.int_type(8).into() } else { code.type_of(dtype) };
        let offset = code.mul(at, code.i64(i64::from(dtype.bits().div_ceil(8))))?;
        let value = code.load(ty, code.add(base, offset)?, space)?;
        if dtype != DType::Bool {
            return Ok(value);
        }
        Ok(code.cmp(IntPredicate::NE, value.into_int_value(), code.int_type(8).const_zero())?.into())
    }

    /// All stores of values of one shape: every value of a lane is computed before the first is written.
    pub fn store_pass(&mut self, shape: &Shape, stores: &[&Inst]) -> Built<()> {
        if *shape == Shape::Scalar {
            let mut own = self.frame.thread;
            if let Some(share) = self.frame.share {
                own = self.code.b.build_or(own, share.part, "")?;
            }
            let first = self.code.cmp(IntPredicate::EQ, own, self.code.i64(0))?;
            return self.when(first, |rows| rows.store_lanes(stores, &[rows.code.i64(0)]));
        }
        let end = self.dim(&shape.elements())?;
        let step = self.code.i64(i64::from(self.frame.threads));
        let pass = |rows: &mut Self, lane, _: &[Value<'c>]| rows.store_lanes(stores, &[lane]).map(|()| Vec::new());
        let Some(share) = self.frame.share else {
            return self.each(self.frame.thread, end, step, Vec::new(), pass).map(|_| ());
        };
        let own = self.code.i64(i64::from(share.at_once) * i64::from(self.frame.threads));
        let begin = self.code.mul(share.part, own)?;
        let (first, behind) = (self.code.add(begin, self.frame.thread)?, self.code.add(begin, own)?);
        let whole = self.code.cmp(IntPredicate::SLE, behind, end)?;
        let at_once = |rows: &mut Self| {
            let lane = |i: u32| rows.code.add(first, rows.code.i64(i64::from(i * rows.frame.threads)));
            let lanes = (0..share.at_once).map(lane).collect::<Built<Vec<_>>>()?;
            rows.store_lanes(stores, &lanes).map(|()| Vec::new())
        };
        // The last part has fewer.
        self.branch(whole, at_once, |rows| rows.each(first, end, step, Vec::new(), pass)).map(|_| ())
    }

    /// Stores of some lanes: every value is computed before the first is written, so that what is loaded is underway at once.
    pub fn store_lanes(&mut self, stores: &[&Inst], lanes: &[IntValue<'c>]) -> Built<()> {
        let segment = self.segment;
        let mut writes = Vec::new();
        for &lane in lanes {
            for store in stores {
                writes.push((*store, self.prepare(store, lane).map_err(|e| e.at(segment, store))?));
            }
        }
        for (store, write) in writes {
            self.write(write).map_err(|e| e.at(segment, store))?;
        }
        Ok(())
    }

    fn prepare(&mut self, store: &Inst, lane: IntValue<'c>) -> Built<Write<'c>> {
        let InstOp::Store { param, index, otherwise } = &store.op else {
            return Err(BuildError::unsupported("not a store"));
        };
        let dtype = self.frame.kernel.param(*param).dtype;
        if dtype.bits() == 4 {
            return Err(BuildError::unsupported(format!("a store of single {dtype} elements; pack them into bytes")));
        }
        let base = self.buffer(*param);
        let mut value = self.element(store.args[0], lane)?;
        let predicate = match store.args.get(1) {
            Some(&p) => Some(self.element(p, lane)?.into_int_value()),
            None => None,
        };
        let offset = self.byte_offset(index, lane, dtype)?;
        let address = self.code.add(base, offset)?;
        if let (Some(predicate), Some(other)) = (predicate, otherwise) {
            value = self.code.select(predicate, value, literal(self.code, other)?)?;
            return Ok(Write { value, address, predicate: None });
        }
        Ok(Write { value, address, predicate })
    }

    fn byte_offset(&self, index: &Dim, lane: IntValue<'c>, dtype: DType) -> Built<IntValue<'c>> {
        let at = self.index(index, Some(lane))?;
        self.code.mul(at, self.code.i64(i64::from(dtype.bits() / 8)))
    }

    fn write(&mut self, write: Write<'c>) -> Built<()> {
        let (value, _) = self.in_memory(write.value)?;
        match write.predicate {
            Some(predicate) => self.when(predicate, |rows| rows.code.store(value, write.address, GLOBAL)),
            None => self.code.store(value, write.address, GLOBAL),
        }
    }
}

/// A store whose operands are computed.
struct Write<'c> {
    value: Value<'c>,
    address: IntValue<'c>,
    predicate: Option<IntValue<'c>>,
}
