//! Rows that lie in registers: each thread has vectors of neighbouring lanes, moves them at once and computes every
//! value of them once, however many phases read it.
//!
//! Lane `l` is of thread `(l / VECTOR) mod threads`, as the reduction trees deal lanes. What is computed of a lane is
//! remembered by the lane's number ([`Rows::element`]); here are the lane numbers that make up all rows of a segment, what
//! is computed for two lanes at once, and loads and stores of vectors.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use fusewright_abi::DType;
use fusewright_graph::{Dim, NanRule, ReduceOp, Rounding, ScalarFn};
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::code::GLOBAL;
use super::hazard::overlap;
use super::plan::{Held, VECTOR, team, values_of};
use super::reduce::Groups;
use super::rows::{Known, Rows};
use crate::backend::llvm::map::map;
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::{Inst, InstOp, LANE, ParamId, Shape, Val};

/// The lane numbers of a thread.
pub(super) struct Lanes<'c> {
    pub held: Held,
    /// By vector and place in it.
    numbers: Vec<Vec<IntValue<'c>>>,
    /// Places of codes of some lanes each, by how many.
    packed: HashMap<u32, Vec<Vec<IntValue<'c>>>>,
    /// Vector and place of a lane number.
    places: HashMap<IntValue<'c>, (usize, usize)>,
    /// Stores that are done.
    stored: BTreeSet<usize>,
}

impl<'a, 'c> Rows<'a, 'c> {
    /// Deals the lanes of a row, of which this is one part, to threads.
    pub fn deal(&mut self, held: Held, part: IntValue<'c>) -> Built<()> {
        let code = self.code;
        let threads = i64::from(held.row_threads(self.frame.threads));
        let first =
            code.add(code.mul(part, code.i64(threads * i64::from(held.vectors)))?, self.thread_of_row(held)?)?;
        let mut lanes = Lanes {
            held,
            numbers: Vec::new(),
            packed: HashMap::new(),
            places: HashMap::new(),
            stored: BTreeSet::new(),
        };
        let mut ways: Vec<u32> = vec![1];
        ways.extend(self.segment.insts.iter().filter_map(|inst| match inst.op {
            InstOp::Pack { ways, .. } => Some(ways),
            _ => None,
        }));
        for ways in ways {
            if lanes.packed.contains_key(&ways) {
                continue;
            }
            let each = i64::from(VECTOR / ways);
            let numbers = (0..i64::from(held.vectors)).map(|v| {
                let vector = code.add(first, code.i64(v * threads))?;
                let base = code.mul(vector, code.i64(each))?;
                (0..each).map(|j| code.add(base, code.i64(j))).collect::<Built<Vec<_>>>()
            });
            let numbers = numbers.collect::<Built<Vec<_>>>()?;
            for (v, vector) in numbers.iter().enumerate() {
                lanes.places.extend(vector.iter().enumerate().map(|(j, &lane)| (lane, (v, j))));
            }
            if ways == 1 {
                lanes.numbers.clone_from(&numbers);
            }
            lanes.packed.insert(ways, numbers);
        }
        self.lanes = Some(lanes);
        Ok(())
    }

    /// Loads what no running kernel writes, with the scalars that lead there: before the kernels ahead of this one are
    /// done. Nothing else is computed of what is loaded, which would wait for it.
    pub fn read_early(&mut self) -> Built<()> {
        let segment = self.segment;
        let mut leads = vec![false; segment.types.len()];
        for inst in segment.insts.iter().rev() {
            let used = inst.results.iter().any(|result| leads[result.0 as usize]);
            let places = inst.op.index().filter(|_| matches!(inst.op, InstOp::Load { .. } | InstOp::Index(_)));
            places.into_iter().flat_map(values_of).for_each(|value| leads[value.0 as usize] = true);
            if used {
                inst.args.iter().for_each(|arg| leads[arg.0 as usize] = true);
            }
        }
        let mut early = vec![false; segment.types.len()];
        for inst in &segment.insts {
            let ready = inst.args.iter().all(|arg| early[arg.0 as usize])
                && inst.op.index().is_none_or(|index| values_of(index).all(|value| early[value.0 as usize]));
            let ready = ready
                && match &inst.op {
                    InstOp::Literal(_) | InstOp::Index(_) => true,
                    InstOp::Load { param, .. } => self.frame.kernel.param(*param).early,
                    InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_) => {
                        segment.ty(inst.results[0]).shape == Shape::Scalar
                    }
                    _ => false,
                };
            if !ready {
                continue;
            }
            inst.results.iter().for_each(|result| early[result.0 as usize] = true);
            let now = leads[inst.results[0].0 as usize] || matches!(inst.op, InstOp::Load { .. });
            match (&segment.ty(inst.results[0]).shape, &inst.op) {
                (Shape::Scalar, _) if now => self.scalar(inst).map_err(|e| e.at(segment, inst))?,
                (_, InstOp::Load { .. }) if self.moves_vectors(inst) => self.read(inst)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Loads what is read in any case.
    pub fn read_at_once(&mut self) -> Built<()> {
        let segment = self.segment;
        segment
            .insts
            .iter()
            .filter(|inst| self.is_read_at_once(inst))
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|inst| self.read(inst))
    }

    /// Loads all vectors of a value.
    fn read(&mut self, inst: &Inst) -> Built<()> {
        let value = inst.results[0];
        for vector in 0..self.vectors(value) {
            let first = self.own(vector)[0];
            self.element(value, first).map_err(|e| e.at(self.segment, inst))?;
        }
        Ok(())
    }

    /// Vectors that a thread has of a value: fewer than of whole rows if it is a part of one.
    fn vectors(&self, value: Val) -> usize {
        let Some(lanes) = &self.lanes else { return 0 };
        let each = i64::from(lanes.held.row_threads(self.frame.threads) * VECTOR);
        let own = match &self.segment.ty(value).shape {
            Shape::Row(count) => count.as_const().map(|count| (count / each) as usize),
            _ => None,
        };
        let packed = matches!(self.segment.insts[self.defining[value.0 as usize]].op, InstOp::Pack { .. });
        own.filter(|_| lanes.held.parts == 1 && !packed).unwrap_or(lanes.numbers.len()).min(lanes.numbers.len())
    }

    /// Where the lanes of a vector of a part of a row, or of joined parts, are computed: the value, and its vector.
    fn origin(&self, inst: &Inst, vector: usize) -> Option<(Val, usize)> {
        let lanes = self.lanes.as_ref()?;
        let each = i64::from(lanes.held.row_threads(self.frame.threads) * VECTOR);
        match &inst.op {
            InstOp::Slice { start, step: 1, .. } => {
                let skipped = start.as_const().filter(|start| start % each == 0)?;
                Some((inst.args[0], vector + (skipped / each) as usize))
            }
            InstOp::Cat => {
                let mut left = vector;
                inst.args.iter().find_map(|&arg| {
                    let own = self.vectors(arg);
                    let here = (left < own).then_some((arg, left));
                    left = left.wrapping_sub(own);
                    here
                })
            }
            _ => None,
        }
    }

    /// Whether an instruction loads vectors at places that nothing is computed for.
    fn is_read_at_once(&self, inst: &Inst) -> bool {
        matches!(&inst.op, InstOp::Load { index, .. } if self.moves_vectors(inst) && !reads_values(index))
    }

    /// Whether each thread has all in its registers that it or others overwrite, once lanes are dealt: what other threads
    /// overwrite it has no use for, or rows would not lie in registers.
    pub fn has_read_what_it_overwrites(&self) -> bool {
        let (kernel, insts) = (self.frame.kernel, &self.segment.insts);
        insts.iter().all(|load| {
            let InstOp::Load { param, .. } = &load.op else { return true };
            let overwritten = insts
                .iter()
                .any(|store| matches!(&store.op, InstOp::Store { param: to, .. } if overlap(kernel, *param, *to)));
            !overwritten || self.is_read_at_once(load)
        })
    }

    /// Stores whole vectors that no reduction decides before the first reduction, so that memory has time for them.
    pub fn store_early(&mut self) -> Built<()> {
        let segment = self.segment;
        let mut late = vec![false; segment.types.len()];
        for inst in &segment.insts {
            let decided = match &inst.op {
                InstOp::Reduce { .. } => true,
                InstOp::Load { index, .. } => reads_values(index),
                _ => false,
            };
            let decided = decided || inst.args.iter().any(|arg| late[arg.0 as usize]);
            inst.results.iter().for_each(|result| late[result.0 as usize] = decided);
        }
        if !late.contains(&true) {
            return Ok(());
        }
        for (i, store) in segment.insts.iter().enumerate() {
            let InstOp::Store { otherwise: None, .. } = &store.op else { continue };
            if store.args.len() == 1 && !late[store.args[0].0 as usize] && self.moves_vectors(store) {
                for vector in 0..self.vectors(store.args[0]) {
                    self.store_vector(store, vector).map_err(|e| e.at(segment, store))?;
                }
                if let Some(lanes) = &mut self.lanes {
                    lanes.stored.insert(i);
                }
            }
        }
        Ok(())
    }

    /// The number of this thread among those that share its row.
    fn thread_of_row(&self, held: Held) -> Built<IntValue<'c>> {
        if !held.is_team {
            return Ok(self.frame.thread);
        }
        let last = i64::from(held.row_threads(self.frame.threads)) - 1;
        Ok(self.code.b.build_and(self.frame.thread, self.code.i64(last), "")?)
    }

    /// The lane numbers of this thread, if rows lie in registers.
    pub fn own_lanes(&self) -> Option<Vec<Vec<IntValue<'c>>>> {
        self.lanes.as_ref().map(|lanes| lanes.numbers.clone())
    }

    /// The first lane of the vector of a lane, which has the same group.
    pub fn first_of_vector(&self, lane: IntValue<'c>) -> Option<IntValue<'c>> {
        let lanes = self.lanes.as_ref()?;
        let &(vector, place) = lanes.places.get(&lane)?;
        (lanes.numbers[vector].get(place) == Some(&lane)).then(|| lanes.numbers[vector][0])
    }

    /// Whether a load or store is of neighbouring elements, with the first of a vector where vectors begin.
    fn moves_vectors(&self, inst: &Inst) -> bool {
        let (param, index, shape) = match &inst.op {
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
            InstOp::Cast { to: DType::F32, .. } => self.widen_pair(inst.args[0], vector, place),
            InstOp::Slice { .. } | InstOp::Cat => {
                let outside = || BuildError::unsupported("parts of rows that threads do not have");
                let (value, vector) = self.origin(inst, vector).ok_or_else(outside)?;
                let lane = *self.own(vector).get(place).ok_or_else(outside)?;
                self.element(value, lane).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn own(&self, vector: usize) -> &[IntValue<'c>] {
        self.lanes.as_ref().and_then(|lanes| lanes.numbers.get(vector)).map_or(&[], Vec::as_slice)
    }

    /// Where a vector of whole elements, of some lanes each, begins: one address of the thread's first vector, and a known
    /// distance from there.
    fn address(&mut self, param: ParamId, index: &Dim, ways: u32, vector: usize) -> Built<IntValue<'c>> {
        let none = || BuildError::unsupported("vectors that do not lie together");
        let lanes = self.lanes.as_ref().ok_or_else(none)?;
        let first = lanes.packed.get(&ways).and_then(|numbers| numbers.first()?.first().copied()).ok_or_else(none)?;
        let distance = vector as u32 * lanes.held.row_threads(self.frame.threads) * (VECTOR / ways);
        let (_, row) = index.split_linear(LANE).ok_or_else(none)?;
        let (code, bytes) = (self.code, i64::from(self.frame.kernel.param(param).dtype.bits() / 8));
        let row = code.mul(self.index(&row, None)?, code.i64(bytes))?;
        let first = code.add(code.add(self.buffer(param)?, row)?, code.mul(first, code.i64(bytes))?)?;
        code.add(first, code.i64(i64::from(distance) * bytes))
    }

    /// Loads a vector, and remembers its elements and pairs of them.
    fn load_vector(&mut self, inst: &Inst, vector: usize, place: usize) -> Built<Value<'c>> {
        let InstOp::Load { param, index, .. } = &inst.op else { return Err(BuildError::unsupported("not a load")) };
        let (code, value) = (self.code, inst.results[0]);
        let dtype = self.frame.kernel.param(*param).dtype;
        let bits = dtype.bits();
        let lanes = self.own(vector).to_vec();
        let address = self.address(*param, index, 1, vector)?;
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
        if to != DType::BF16 || !self.frame.arch.packed_bf16 {
            return Ok(None);
        }
        let segment = self.segment;
        let defining = |value: Val| &segment.insts[self.defining[value.0 as usize]];
        let narrow = |value: Val| match defining(value) {
            Inst { op: InstOp::Cast { to: DType::F32, .. }, args, .. }
                if segment.ty(args[0]).dtype == DType::BF16 && matches!(segment.ty(args[0]).shape, Shape::Row(_)) =>
            {
                Some(args[0])
            }
            _ => None,
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
    fn pair(&mut self, value: Val, vector: usize, pair: usize) -> Built<IntValue<'c>> {
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
    fn store_vector(&mut self, store: &Inst, vector: usize) -> Built<()> {
        let InstOp::Store { param, index, otherwise } = &store.op else {
            return Err(BuildError::unsupported("not a store"));
        };
        let (code, value) = (self.code, store.args[0]);
        let bits = self.frame.kernel.param(*param).dtype.bits();
        let lanes = self.stored_lanes(store, vector);
        let uniform = store.args.get(1).is_none_or(|&p| self.segment.ty(p).shape == Shape::Scalar);
        if !self.moves_vectors(store) || !uniform || otherwise.is_some() {
            return lanes.into_iter().try_for_each(|lane| self.store_lane(&[store], lane));
        }
        let mut words = Vec::new();
        let per_word = (32 / bits).max(1) as usize;
        let paired = bits <= 16 && self.ways(store) == 1;
        for (i, lanes) in lanes.chunks(per_word).enumerate() {
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
            for store in &stores {
                match shape(store) {
                    Shape::Row(_) if vector < self.vectors(store.args[0]) => self.store_vector(store, vector),
                    Shape::Row(_) => Ok(()),
                    Shape::Group { size, .. } => self.store_group(store, vector, &size),
                    Shape::Scalar => Ok(()),
                }
                .map_err(|e| e.at(segment, store))?;
            }
        }
        let scalars: Vec<&Inst> = stores.into_iter().filter(|store| shape(store) == Shape::Scalar).collect();
        if scalars.is_empty() {
            return Ok(());
        }
        let code = self.code;
        let first = code.b.build_or(self.thread_of_row(held)?, part, "")?;
        let first = code.cmp(IntPredicate::EQ, first, code.i64(0))?;
        self.when(first, |rows| rows.store_lane(&scalars, rows.code.i64(0)))
    }

    /// The first thread of a group stores what belongs to it.
    fn store_group(&mut self, store: &Inst, vector: usize, size: &Dim) -> Built<()> {
        let code = self.code;
        let team = team(size).ok_or_else(|| BuildError::unsupported("groups that threads do not share"))?;
        let lane = self.own(vector)[0];
        let size = self.dim(size)?;
        let group = self.quotient(lane, size)?;
        // Computed by all, so that it is there for others.
        self.element(store.args[0], group)?;
        let place = code.b.build_and(self.frame.thread, code.i64(i64::from(team) - 1), "")?;
        let leads = code.cmp(IntPredicate::EQ, place, code.i64(0))?;
        self.when(leads, |rows| rows.store_lane(&[store], group))
    }

    /// Reduces the groups of this thread's vectors; every thread of a group ends with its result.
    pub fn reduce_own_groups(&mut self, result: Val, groups: &Groups<'_>) -> Built<()> {
        let team = team(groups.size).ok_or_else(|| BuildError::unsupported("groups that threads do not share"))?;
        let size = self.dim(groups.size)?;
        for (at, vector) in self.own_lanes().unwrap_or_default().into_iter().enumerate() {
            let value = self.reduce_team(groups.op, groups.nan, groups.x, at..at + 1, team)?;
            let group = self.quotient(vector[0], size)?;
            self.known_scope().insert(Known::Element(result, group), value);
        }
        Ok(())
    }

    /// Reduces the row of a team; every thread of the team ends with the result.
    pub fn reduce_own_row(&mut self, op: ReduceOp, nan: NanRule, x: Val) -> Built<Option<Value<'c>>> {
        let Some(lanes) = self.lanes.as_ref().filter(|lanes| lanes.held.is_team) else { return Ok(None) };
        let (team, vectors) = (lanes.held.row_threads(self.frame.threads), lanes.numbers.len());
        self.reduce_team(op, nan, x, 0..vectors, team).map(Some)
    }

    /// Reduces vectors of each thread of a team: with the two accumulators of the trees, which are combined, and then
    /// across threads. Operands of a step come in either order, which no step but that of NaNs sees.
    fn reduce_team(
        &mut self,
        op: ReduceOp,
        nan: NanRule,
        x: Val,
        vectors: Range<usize>,
        team: u32,
    ) -> Built<Value<'c>> {
        let (code, dtype, step) = (self.code, self.segment.ty(x).dtype, op.step(nan));
        let offsets =
            || std::iter::successors(Some(team / 2), |offset| Some(offset / 2)).take_while(|&offset| offset > 0);
        if let Some(mut bits) = self.greatest_magnitude(op, nan, x, vectors.clone())? {
            for offset in offsets() {
                let other = code.shuffle_across(bits.into(), offset)?;
                bits = code.call("llvm.umax", &[code.ctx.i32_type().into()], &[bits.into(), other])?.into_int_value();
            }
            return code.bits(bits, code.ctx.f32_type());
        }
        let lanes = self.own_lanes().unwrap_or_default()[vectors].concat();
        let start = vec![self.start_of(op, x)?; 2];
        let ways = self.fold_lanes(op, nan, x, &lanes, start)?;
        let mut value = map(code, step, dtype, &[ways[0], ways[1]])?;
        for offset in offsets() {
            value = map(code, step, dtype, &[value, code.shuffle_across(value, offset)?])?;
        }
        Ok(value)
    }

    /// The greatest magnitude of bf16 in vectors of this thread as the bits of an f32, those of a NaN if there is one: two
    /// lanes in one instruction. It begins with the first of them, never with a zero: of a product and a constant zero the
    /// assembler makes an instruction that takes negative products for zeros.
    pub fn greatest_magnitude(
        &mut self,
        op: ReduceOp,
        nan: NanRule,
        x: Val,
        vectors: Range<usize>,
    ) -> Built<Option<IntValue<'c>>> {
        let segment = self.segment;
        let defining = |value: Val| &segment.insts[self.defining[value.0 as usize]];
        let arg = |inst: &Inst| inst.args[0];
        let magnitude = defining(x);
        if op != ReduceOp::Max || nan != NanRule::Propagate || !matches!(magnitude.op, InstOp::Map(ScalarFn::Abs)) {
            return Ok(None);
        }
        let wide = defining(arg(magnitude));
        let narrow = matches!(wide.op, InstOp::Cast { to: DType::F32, .. }).then(|| arg(wide)).filter(|&of| {
            let ty = segment.ty(of);
            ty.dtype == DType::BF16 && matches!(ty.shape, Shape::Row(_)) && self.frame.arch.packed_bf16
        });
        let Some(value) = narrow else { return Ok(None) };
        let code = self.code;
        let ty = code.ctx.bf16_type().vec_type(2);
        let mut greatest = [None; 2];
        for vector in vectors {
            for pair in 0..VECTOR as usize / 2 {
                let word: Value<'c> = code.b.build_bit_cast(self.pair(value, vector, pair)?, ty, "")?;
                let way = &mut greatest[pair % 2];
                *way = Some(match *way {
                    Some(so_far) => code.call(PACKED_MAGNITUDE, &[], &[so_far, word])?,
                    None => word,
                });
            }
        }
        let [Some(even), Some(odd)] = greatest else { return Ok(None) };
        let both = code.call(PACKED_MAGNITUDE, &[], &[even, odd])?;
        let both = code.b.build_bit_cast(both, code.ctx.i32_type(), "")?.into_int_value();
        let low = code.b.build_and(code.b.build_left_shift(both, code.i32(16), "")?, code.i32(0x7fff_ffff), "")?;
        let high = code.b.build_and(both, code.i32(0x7fff_0000), "")?;
        let word = code.ctx.i32_type().into();
        Ok(Some(code.call("llvm.umax", &[word], &[low.into(), high.into()])?.into_int_value()))
    }
}

/// The greater magnitude of two pairs of bf16, NaN of one; its signs say nothing.
const PACKED_MAGNITUDE: &str = "llvm.nvvm.fmax.nan.xorsign.abs.bf16x2";

/// Whether an index is made of values that the segment computes.
fn reads_values(index: &Dim) -> bool {
    values_of(index).next().is_some()
}
