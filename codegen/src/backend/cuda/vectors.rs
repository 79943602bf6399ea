//! Rows that lie in registers: each thread has vectors of neighbouring lanes ([`super::lanes`]), moves them at once and
//! computes every value of them once, however many phases read it. Here are loads and stores of vectors, and what is
//! computed for two lanes at once.

use fusewright_abi::DType;
use fusewright_graph::{Dim, Rounding, ScalarFn};
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::code::GLOBAL;
use super::plan::{Held, VECTOR};
use super::rows::{Known, Rows};
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::{Inst, InstOp, LANE, ParamId, Shape, Val};

impl<'c> Rows<'_, 'c> {
    /// Whether a load or store is of neighbouring elements, with the first of a vector where vectors begin.
    pub fn moves_vectors(&self, inst: &Inst) -> bool {
        let (param, index, shape) = match &inst.op {
            InstOp::Load { .. } if self.joined.is_piece(inst.results[0]) => return false,
            InstOp::Load { param, index, shape, otherwise: None } => (param, index, shape),
            InstOp::Store { param, index, .. } => (param, index, &self.segment.ty(inst.args[0]).shape),
            _ => return false,
        };
        let each = match shape {
            Shape::Row(_) => i64::from(VECTOR / self.ways(inst)),
            _ => return false,
        };
        let whole = |rest: &Dim| rest.exact_div(&Dim::constant(each)).is_some();
        let bits = self.frame.kernel.param(*param).dtype.bits();
        let bytes = i64::from(bits) * each / 8;
        let neighbours =
            index.split_linear(LANE).is_some_and(|(slope, rest)| slope.as_const() == Some(1) && whole(&rest));
        neighbours && bits >= 8 && (bytes >= 16 || bytes.count_ones() == 1)
    }

    /// Lanes that each element of what is stored comes from.
    fn ways(&self, inst: &Inst) -> u32 {
        let defining = |&value: &Val| &self.segment.insts[self.defining[value.0 as usize]].op;
        match inst.args.first().map(defining) {
            Some(InstOp::Pack { ways, .. }) if matches!(inst.op, InstOp::Store { .. }) => *ways,
            _ => 1,
        }
    }

    /// An element that is computed together with its neighbours, which are remembered.
    pub fn with_neighbours(&mut self, inst: &Inst, lane: IntValue<'c>) -> Built<Option<Value<'c>>> {
        let Some(&(vector, place)) = self.lanes.as_ref().and_then(|lanes| lanes.places.get(&lane)) else {
            return Ok(None);
        };
        match &inst.op {
            InstOp::Pack { ways, to } => {
                let at = self.own(vector)[place * *ways as usize..][..*ways as usize].to_vec();
                self.pack_of(inst.args[0], *to, &at).map(Some)
            }
            _ if self.own(vector).get(place) != Some(&lane) => Ok(None),
            InstOp::Load { .. } if self.moves_vectors(inst) => self.load_vector(inst, vector, place).map(Some),
            InstOp::Cast { to, round: Rounding::NearestEven, saturate } if *to != DType::F32 => {
                self.cast_pair(inst, (*to, *saturate), vector, place)
            }
            op if op.is_widening() => self.widen_pair(inst.args[0], vector, place),
            InstOp::Map(ScalarFn::Div) => self.row_quotient(inst, vector, place),
            InstOp::Cat if self.joined.pieces(inst.results[0]).is_some() => {
                self.load_vector(inst, vector, place).map(Some)
            }
            InstOp::Slice { .. } | InstOp::Cat => {
                let outside = || BuildError::unsupported("parts of rows that threads do not have");
                let (value, vector) = self.origin(inst, vector).ok_or_else(outside)?;
                let lane = *self.own(vector).get(place).ok_or_else(outside)?;
                self.element(value, lane).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Where a vector of whole elements, of some lanes each, begins: one address of the thread's first vector, and a known
    /// distance from there.
    fn address(&mut self, param: ParamId, index: &Dim, ways: u32, vector: usize) -> Built<IntValue<'c>> {
        let none = || BuildError::unsupported("vectors that do not lie together");
        let lanes = self.lanes.as_ref().ok_or_else(none)?;
        // A vector that not all threads have is nowhere known.
        let known = if self.present(vector).is_some() { vector } else { 0 };
        let first =
            lanes.packed.get(&ways).and_then(|numbers| numbers.get(known)?.first().copied()).ok_or_else(none)?;
        let distance = (vector - known) as u32 * lanes.held.row_threads(self.frame.threads) * (VECTOR / ways);
        let (_, row) = index.split_linear(LANE).ok_or_else(none)?;
        let (code, bytes) = (self.code, i64::from(self.frame.kernel.param(param).dtype.bits() / 8));
        let row = code.mul(self.index(&row, None)?, code.i64(bytes))?;
        let first = code.add(code.add(self.buffer(param), row)?, code.mul(first, code.i64(bytes))?)?;
        code.add(first, code.i64(i64::from(distance) * bytes))
    }

    /// Loads a vector, of one place or joined of several, and remembers its elements and pairs of them.
    fn load_vector(&mut self, inst: &Inst, vector: usize, place: usize) -> Built<Value<'c>> {
        let (code, value) = (self.code, inst.results[0]);
        let address = match &inst.op {
            InstOp::Load { param, index, .. } => self.address(*param, index, 1, vector)?,
            _ => self.joined_address(value, vector)?,
        };
        let dtype = self.segment.ty(value).dtype;
        let bits = dtype.bits();
        let lanes = self.own(vector).to_vec();
        let words = code.load_words(address, VECTOR * bits / 8, GLOBAL)?;
        let mut elements = Vec::new();
        for j in 0..VECTOR {
            let raw = if bits == 64 {
                let half = |i: u32| code.resize(words[(2 * j + i) as usize], 64);
                code.b.build_or(half(0)?, code.b.build_left_shift(half(1)?, code.i64(32), "")?, "")?
            } else {
                let word = words[(j * bits / 32) as usize];
                code.resize(code.b.build_right_shift(word, code.i32(i64::from(j * bits % 32)), false, "")?, bits)?
            };
            let element = match dtype {
                DType::Bool => code.cmp(IntPredicate::NE, raw, raw.get_type().const_zero())?.into(),
                _ => code.bits(raw, code.type_of(dtype))?,
            };
            elements.push(element);
        }
        for (&lane, &element) in lanes.iter().zip(&elements) {
            self.known_scope().insert(Known::Element(value, lane), element);
        }
        if bits == 16 {
            for (pair, &word) in words.iter().enumerate() {
                self.known_scope().insert(Known::Pair(value, vector, pair), word.into());
            }
        }
        Ok(elements[place])
    }

    /// A bf16 as f32, out of the word that it shares with its neighbour if there is one.
    fn widen_pair(&mut self, value: Val, vector: usize, place: usize) -> Built<Option<Value<'c>>> {
        let (mut value, mut vector) = (value, vector);
        while let Some(origin) = self.origin(&self.segment.insts[self.defining[value.0 as usize]], vector) {
            (value, vector) = origin;
        }
        let ty = self.segment.ty(value);
        let Some(&lane) = self.own(vector).get(place).filter(|_| ty.dtype == DType::BF16) else { return Ok(None) };
        if !matches!(ty.shape, Shape::Row(_)) {
            return Ok(None);
        }
        self.element(value, lane)?;
        let Some(word) = self.known(&Known::Pair(value, vector, place / 2)) else { return Ok(None) };
        let (code, word) = (self.code, word.into_int_value());
        let bits = match place % 2 {
            0 => code.b.build_left_shift(word, code.i32(16), "")?,
            _ => code.b.build_and(word, code.i32(0xffff_0000), "")?,
        };
        code.bits(bits, code.ctx.f32_type()).map(Some)
    }

    /// Converts two neighbours at once, where the target does.
    fn cast_pair(
        &mut self,
        inst: &Inst,
        (to, saturate): (DType, bool),
        vector: usize,
        place: usize,
    ) -> Built<Option<Value<'c>>> {
        let code = self.code;
        let from = self.segment.ty(inst.args[0]).dtype;
        let arch = self.frame.arch;
        let name = match (to, saturate) {
            _ if from != DType::F32 => return Ok(None),
            (DType::BF16, false) => "llvm.nvvm.ff2bf16x2.rn",
            (DType::F8E4M3, true) if arch.fp8_convert => "llvm.nvvm.ff.to.e4m3x2.rn",
            (DType::F8E5M2, true) if arch.fp8_convert => "llvm.nvvm.ff.to.e5m2x2.rn",
            _ => return Ok(None),
        };
        let pair = place / 2;
        let lanes = [0, 1].map(|i| self.own(vector)[2 * pair + i]);
        let both = match self.packed_arithmetic(inst, to, vector, pair)? {
            Some(word) => word,
            None => {
                let [low, high] = [self.element(inst.args[0], lanes[0])?, self.element(inst.args[0], lanes[1])?];
                let both = code.call(name, &[], &[high, low])?;
                code.b.build_bit_cast(both, code.int_type(2 * to.bits()), "")?.into_int_value()
            }
        };
        let value = inst.results[0];
        let high = code.b.build_right_shift(both, both.get_type().const_int(u64::from(to.bits()), false), false, "")?;
        let elements = [code.resize(both, to.bits())?, code.resize(high, to.bits())?];
        for (lane, element) in lanes.into_iter().zip(elements) {
            self.known_scope().insert(Known::Element(value, lane), element.into());
        }
        self.known_scope().insert(Known::Pair(value, vector, pair), both.into());
        Ok(Some(elements[place % 2].into()))
    }

    /// A sum or product of two bf16 in f32 that is rounded to bf16 is one rounded operation of bf16, since f32 has more
    /// than twice the digits and two: both lanes of a pair in one instruction.
    fn packed_arithmetic(&mut self, inst: &Inst, to: DType, vector: usize, pair: usize) -> Built<Option<IntValue<'c>>> {
        if to != DType::BF16 || !self.frame.arch.packed {
            return Ok(None);
        }
        let segment = self.segment;
        let defining = |value: Val| &segment.insts[self.defining[value.0 as usize]];
        let narrow = |value: Val| {
            let of = defining(value).op.is_widening().then(|| defining(value).args[0])?;
            let ty = segment.ty(of);
            (ty.dtype == DType::BF16 && matches!(ty.shape, Shape::Row(_))).then_some(of)
        };
        let operation = defining(inst.args[0]);
        let function = match operation.op {
            InstOp::Map(f @ (ScalarFn::Add | ScalarFn::Sub | ScalarFn::Mul)) => f,
            _ => return Ok(None),
        };
        let (Some(a), Some(b)) = (narrow(operation.args[0]), narrow(operation.args[1])) else { return Ok(None) };
        let code = self.code;
        let ty = code.ctx.bf16_type().vec_type(2);
        let a = code.b.build_bit_cast(self.pair(a, vector, pair)?, ty, "")?.into_vector_value();
        let b = code.b.build_bit_cast(self.pair(b, vector, pair)?, ty, "")?.into_vector_value();
        let both = match function {
            ScalarFn::Add => code.b.build_float_add(a, b, "")?,
            ScalarFn::Sub => code.b.build_float_sub(a, b, "")?,
            _ => code.b.build_float_mul(a, b, "")?,
        };
        Ok(Some(code.b.build_bit_cast(both, code.ctx.i32_type(), "")?.into_int_value()))
    }

    /// Two neighbours of at most 16 bits each in one integer, the first in the low half.
    pub fn pair(&mut self, value: Val, vector: usize, pair: usize) -> Built<IntValue<'c>> {
        if let Some((value, vector)) = self.origin(&self.segment.insts[self.defining[value.0 as usize]], vector) {
            return self.pair(value, vector, pair);
        }
        let lanes = [0, 1].map(|i| self.own(vector)[2 * pair + i]);
        let low = self.element(value, lanes[0])?;
        let key = Known::Pair(value, vector, pair);
        if let Some(word) = self.known(&key) {
            return Ok(word.into_int_value());
        }
        let high = self.element(value, lanes[1])?;
        self.joined(&[low, high])
    }

    /// Elements one after the other in one integer of at most 32 bits.
    fn joined(&mut self, elements: &[Value<'c>]) -> Built<IntValue<'c>> {
        let code = self.code;
        let mut word: Option<IntValue<'c>> = None;
        for (i, &element) in elements.iter().enumerate() {
            let (element, bytes) = self.in_memory(element)?;
            let bits = 8 * bytes as u32;
            let raw = code.bits(element, code.int_type(bits))?.into_int_value();
            let wide = code.resize(raw, bits * elements.len() as u32)?;
            let at = wide.get_type().const_int(u64::from(bits) * i as u64, false);
            let placed = code.b.build_left_shift(wide, at, "")?;
            word = Some(match word {
                Some(word) => code.b.build_or(word, placed, "")?,
                None => placed,
            });
        }
        word.ok_or_else(|| BuildError::unsupported("no elements"))
    }

    /// Stores a value of which each thread has whole vectors.
    pub fn store_vector(&mut self, store: &Inst, vector: usize) -> Built<()> {
        let InstOp::Store { param, index, otherwise } = &store.op else {
            return Err(BuildError::unsupported("not a store"));
        };
        let (code, value) = (self.code, store.args[0]);
        let bits = self.frame.kernel.param(*param).dtype.bits();
        let lanes = self.stored_lanes(store, vector);
        let uniform = store.args.get(1).is_none_or(|&p| self.segment.ty(p).shape == Shape::Scalar);
        if !self.moves_vectors(store) || !uniform || otherwise.is_some() {
            return lanes.into_iter().try_for_each(|lane| self.store_lanes(&[store], &[lane]));
        }
        let mut words = Vec::new();
        let per_word = (32 / bits).max(1) as usize;
        let paired = bits <= 16 && self.ways(store) == 1;
        let codes = self.codes_of_vector(value, vector)?;
        words.extend(codes);
        for (i, lanes) in lanes.chunks(per_word).enumerate().skip(words.len()) {
            let word = match bits {
                16 if paired => self.pair(value, vector, i)?,
                8 if paired => {
                    let low = self.pair(value, vector, 2 * i)?;
                    let high = self.pair(value, vector, 2 * i + 1)?;
                    self.joined(&[low.into(), high.into()])?
                }
                _ => {
                    let elements = lanes.iter().map(|&lane| self.element(value, lane)).collect::<Built<Vec<_>>>()?;
                    self.joined(&elements)?
                }
            };
            words.push(word);
        }
        let address = self.address(*param, index, self.ways(store), vector)?;
        match store.args.get(1) {
            None => code.store_words(&words, address, GLOBAL),
            Some(&predicate) => {
                let predicate = self.element(predicate, code.i64(0))?.into_int_value();
                self.when(predicate, |rows| rows.code.store_words(&words, address, GLOBAL))
            }
        }
    }

    fn stored_lanes(&self, store: &Inst, vector: usize) -> Vec<IntValue<'c>> {
        let ways = self.ways(store);
        let numbers = self.lanes.as_ref().and_then(|lanes| lanes.packed.get(&ways));
        numbers.map_or_else(Vec::new, |numbers| numbers[vector].clone())
    }

    /// All stores of a segment whose rows lie in registers. Scalars are stored by the first thread of the first part.
    pub fn store_all(&mut self, held: Held, part: IntValue<'c>) -> Built<()> {
        let segment = self.segment;
        let done = |i: &usize| self.lanes.as_ref().is_some_and(|lanes| lanes.stored.contains(i));
        let left = |(i, inst): &(usize, &Inst)| matches!(inst.op, InstOp::Store { .. }) && !done(i);
        let stores: Vec<&Inst> = segment.insts.iter().enumerate().filter(left).map(|(_, inst)| inst).collect();
        let shape = |store: &Inst| segment.ty(store.args[0]).shape.clone();
        for vector in 0..held.vectors as usize {
            self.where_present(vector, |rows| {
                stores.iter().try_for_each(|store| {
                    match shape(store) {
                        Shape::Row(_) if vector < rows.vectors(store.args[0]) => rows.store_vector(store, vector),
                        Shape::Row(_) => Ok(()),
                        Shape::Group { size, .. } => rows.store_group(store, vector, &size),
                        Shape::Scalar => Ok(()),
                    }
                    .map_err(|e| e.at(segment, store))
                })
            })?;
        }
        let scalars: Vec<&Inst> = stores.into_iter().filter(|store| shape(store) == Shape::Scalar).collect();
        if scalars.is_empty() {
            return Ok(());
        }
        let code = self.code;
        let first = code.b.build_or(self.thread_of_row(held)?, part, "")?;
        let first = code.cmp(IntPredicate::EQ, first, code.i64(0))?;
        self.when(first, |rows| rows.store_lanes(&scalars, &[rows.code.i64(0)]))
    }
}
