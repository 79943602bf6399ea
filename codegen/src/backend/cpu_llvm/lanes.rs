//! Instructions that move lanes.
//!
//! Where an instruction has no form for a whole chunk, the chunk is put together from single lanes.

use fusewright_abi::DType;
use fusewright_graph::Dim;
use inkwell::IntPredicate;
use inkwell::values::{BasicValue, BasicValueEnum, InstructionOpcode, IntValue};

use super::address::Pos;
use super::eval::{CHUNK, Eval, Key};
use crate::backend::host::index::{at_least, borders};
use crate::backend::llvm::ops::{bits, lanes, widened};
use crate::backend::llvm::{BuildError, Built, Value, index};
use crate::kernel::{Inst, Val};

impl<'k, 'c> Eval<'k, '_, 'c> {
    /// A chunk from its single lanes.
    pub fn by_single_lanes(
        &mut self,
        pos: &Pos<'c>,
        width: u32,
        lane: &mut dyn FnMut(&mut Self, &Pos<'c>) -> Built<Value<'c>>,
    ) -> Built<Value<'c>> {
        // What a mask leaves out is no lane to look at, and lanes of a part are not those that follow.
        if self.pass.as_ref().is_some_and(|pass| pass.mask.is_some() || pass.part.is_some()) {
            return Err(BuildError::Llvm("single lanes of a chunk that has not all of them".into()));
        }
        let mut whole: Option<inkwell::values::VectorValue<'c>> = None;
        for i in 0..width {
            let one = lane(self, &pos.plus(i64::from(i)))?;
            let so_far = match (whole, widened(one.get_type(), width)) {
                (Some(v), _) => v,
                (None, inkwell::types::BasicTypeEnum::VectorType(ty)) => ty.get_poison(),
                (None, _) => return Ok(one),
            };
            whole = Some(self.code.b.build_insert_element(so_far, one, self.code.i64(i64::from(i)), "")?);
        }
        whole.map(Into::into).ok_or_else(|| BuildError::Llvm("a chunk of no lanes".into()))
    }

    pub fn iota(&mut self, pos: &Pos<'c>, width: u32) -> Built<Value<'c>> {
        let lane = self.lane(pos)?;
        let first = self.code.extend(lane.into(), 32, false)?;
        if width == 1 {
            return Ok(first);
        }
        self.code.iadd(self.code.splat(first, width)?, self.lane_numbers(width))
    }

    /// 0, 1, 2, … in `i32` lanes.
    pub fn lane_numbers(&self, width: u32) -> Value<'c> {
        let numbers: Vec<IntValue<'c>> = (0..i64::from(width)).map(|i| self.code.i32(i)).collect();
        inkwell::types::VectorType::const_vector(&numbers).into()
    }

    /// Lanes of two vectors, those of the second numbered after the first's.
    pub fn shuffle(&self, a: Value<'c>, b: Value<'c>, lanes: impl Iterator<Item = u32>) -> Built<Value<'c>> {
        let (BasicValueEnum::VectorValue(a), BasicValueEnum::VectorValue(b)) = (a, b) else {
            return Err(BuildError::Llvm("only vectors are shuffled".into()));
        };
        let numbers: Vec<IntValue<'c>> = lanes.map(|i| self.code.i32(i64::from(i))).collect();
        let mask = inkwell::types::VectorType::const_vector(&numbers);
        Ok(self.code.b.build_shuffle_vector(a, b, mask, "")?.as_basic_value_enum())
    }

    /// The lanes of two vectors in turn.
    pub fn interleave(&self, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        let width = lanes(a);
        self.shuffle(a, b, (0..width).flat_map(|i| [i, width + i]))
    }

    /// Every other lane from the first of `low` on; `high` starts with its last lane but goes as far again.
    pub fn every_other(&self, low: Value<'c>, high: Value<'c>) -> Built<Value<'c>> {
        let width = lanes(low);
        let first = (0..width).step_by(2);
        let second = (0..width).map(move |i| 2 * i).filter(move |lane| *lane >= width).map(move |lane| lane + 1);
        self.shuffle(low, high, first.chain(second))
    }

    pub fn slice(&mut self, x: Val, start: &Dim, step: i64, pos: &Pos<'c>, width: u32) -> Built<Value<'c>> {
        let shape = self.shape(x);
        let first = self.stretched(pos, step).plus_dim(start);
        // The lanes beside those of a pair have to exist: behind each, or before it.
        let even_row = shape.elements().as_const().is_some_and(|lanes| lanes % 2 == 0);
        let odd = start.as_const().map(|start| start % 2).filter(|odd| *odd == 1 || even_row);
        match step {
            _ if step == 1 || width == 1 => self.value(x, shape, Some(&first), width),
            2 if 2 * width <= CHUNK && odd.is_some() => {
                let odd = odd.unwrap_or(0);
                let lanes = self.value(x, shape, Some(&first.plus(-odd)), 2 * width)?;
                self.shuffle(lanes, lanes, (0..width).map(|i| 2 * i + odd as u32))
            }
            2 if width.is_multiple_of(2) => {
                let low = self.value(x, shape, Some(&first), width)?;
                let high = self.value(x, shape, Some(&first.plus(i64::from(width) - 1)), width)?;
                self.every_other(low, high)
            }
            _ => self.by_single_lanes(pos, width, &mut |eval, pos| eval.slice(x, start, step, pos, 1)),
        }
    }

    /// The operand that holds a chunk is known where the loop does not cross a border; else single lanes look it up.
    pub fn cat(&mut self, inst: &'k Inst, pos: &Pos<'c>, width: u32) -> Built<Value<'c>> {
        let borders = borders(self.segment, inst);
        if let Some((operand, start)) = self.operand_of(&borders, pos) {
            let arg = inst.args[operand];
            let inside = pos.plus_dim(&(&Dim::constant(0) - &start));
            return self.value(arg, self.shape(arg), Some(&inside), width);
        }
        if width > 1 {
            return self.by_single_lanes(pos, width, &mut |eval, pos| eval.cat(inst, pos, 1));
        }
        if inst.args.iter().all(|arg| *arg == inst.args[0]) {
            return self.repeated(inst.args[0], pos);
        }
        self.branching_cat(&inst.args, &borders, pos)
    }

    /// A lane of a row that comes again and again.
    fn repeated(&mut self, row: Val, pos: &Pos<'c>) -> Built<Value<'c>> {
        let (lane, length) = (self.lane(pos)?, self.dim(&self.shape(row).elements())?);
        let turn = index::floor_div(self.code, lane, length)?;
        let inside = self.code.b.build_int_sub(lane, self.code.mul(turn, length)?, "")?;
        self.value(row, self.shape(row), Some(&Pos::at(inside)), 1)
    }

    fn branching_cat(&mut self, args: &[Val], borders: &[Dim], pos: &Pos<'c>) -> Built<Value<'c>> {
        let [first, rest @ ..] = args else { return Err(BuildError::unsupported("`cat` of nothing")) };
        let (lane, start) = (self.lane(pos)?, self.dim(&borders[0])?);
        let inside = |eval: &mut Self| {
            let lane = eval.code.b.build_int_sub(lane, start, "")?;
            eval.value(*first, eval.shape(*first), Some(&Pos::at(lane)), 1)
        };
        if rest.is_empty() {
            return inside(self);
        }
        let end = self.dim(&borders[1])?;
        let here = self.code.cmp(IntPredicate::SLT, lane, end)?;
        self.branch(here.into(), inside, |eval| eval.branching_cat(rest, &borders[1..], pos))
    }

    /// All lanes that a position takes in the passes of the loop, as a half-open range.
    pub fn piece_lanes(&self, pos: &Pos<'c>) -> Option<(Dim, Dim)> {
        let pass = self.pass.as_ref().filter(|pass| pass.base == pos.base)?;
        let from = &pos.offset - &Dim::constant(pass.shift.checked_mul(pos.scale)?);
        let to = &from + &(pass.lanes.as_ref()? * &Dim::constant(pos.scale));
        Some((from, to))
    }

    /// The operand of a concatenation that holds the lanes from `pos` on to the end of the piece, and its start.
    fn operand_of(&self, borders: &[Dim], pos: &Pos<'c>) -> Option<(usize, Dim)> {
        let (from, to) = self.piece_lanes(pos)?;
        let holds = |i: &usize| at_least(&from, &borders[*i]) && at_least(&borders[*i + 1], &to);
        let found = (0..borders.len() - 1).find(holds)?;
        Some((found, borders[found].clone()))
    }

    pub fn zip(&mut self, inst: &'k Inst, pos: &Pos<'c>, width: u32) -> Built<Value<'c>> {
        let ways = inst.args.len() as i64;
        let shape = self.shape(inst.args[0]);
        let even = pos.scale % 2 == 0 || self.even_base(pos.base);
        let aligned = even && pos.offset.as_const().is_some_and(|o| o % 2 == 0);
        if width > 1 && width.is_multiple_of(2) && ways == 2 && aligned {
            let half = self.halved(pos)?;
            let a = self.value(inst.args[0], shape, Some(&half), width / 2)?;
            let b = self.value(inst.args[1], shape, Some(&half), width / 2)?;
            return if width == 2 { self.pair(a, b) } else { self.interleave(a, b) };
        }
        if width > 1 {
            return self.by_single_lanes(pos, width, &mut |eval, pos| eval.zip(inst, pos, 1));
        }
        let lane = self.lane(pos)?;
        let by = self.code.i64(ways);
        let at = index::floor_div(self.code, lane, by)?;
        let way = self.code.b.build_int_sub(lane, self.code.mul(at, by)?, "")?;
        // All operands have this lane, so the others may be read in vain.
        let mut result = self.value(inst.args[0], shape, Some(&Pos::at(at)), 1)?;
        for (i, &arg) in inst.args.iter().enumerate().skip(1) {
            let value = self.value(arg, shape, Some(&Pos::at(at)), 1)?;
            let here = self.code.cmp(IntPredicate::EQ, way, self.code.i64(i as i64))?;
            result = self.code.select(here, value, result)?;
        }
        Ok(result)
    }

    fn pair(&self, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        let (a, b) = (self.code.splat(a, 2)?, self.code.splat(b, 2)?);
        self.shuffle(a, b, [0, 2].into_iter())
    }

    /// Whether a loop counter is even in every pass.
    pub fn even_base(&self, base: IntValue<'c>) -> bool {
        self.pass.as_ref().is_some_and(|pass| pass.base == base && pass.multiple % 2 == 0)
    }

    /// `step` times a position. Twice a half of the loop's counter is that counter: what was computed there is found.
    fn stretched(&self, pos: &Pos<'c>, step: i64) -> Pos<'c> {
        let counter = self.pass.as_ref().map(|pass| pass.base).filter(|_| step == 2);
        let is_half = |half: Value<'c>| half.into_int_value() == pos.base;
        let halved = |base: &IntValue<'c>| self.memo.known(&Key::Half(*base)).is_some_and(is_half);
        match counter.filter(halved) {
            Some(base) => Pos { base, scale: pos.scale, offset: &pos.offset * &Dim::constant(2) },
            None => pos.times(step),
        }
    }

    /// Half of a position whose scale or base, and whose offset, are even.
    fn halved(&mut self, pos: &Pos<'c>) -> Built<Pos<'c>> {
        let offset = Dim::constant(pos.offset.as_const().unwrap_or(0) / 2);
        if pos.scale % 2 == 0 {
            return Ok(Pos { base: pos.base, scale: pos.scale / 2, offset });
        }
        let key = Key::Half(pos.base);
        let base = match self.memo.known(&key) {
            Some(known) => known.into_int_value(),
            None => {
                let half = self.code.sar(pos.base.into(), 1)?;
                self.memo.remember(key, half).into_int_value()
            }
        };
        Ok(Pos { base, scale: pos.scale, offset })
    }

    pub fn pack(&mut self, x: Val, ways: u32, to: DType, pos: &Pos<'c>, width: u32) -> Built<Value<'c>> {
        let from = self.dtype(x);
        let first = pos.times(i64::from(ways));
        if width > 1 {
            let codes = self.value(x, self.shape(x), Some(&first), width * ways)?;
            let codes = self.code.bits_of(self.to_memory(codes, from)?)?;
            let codes = if from.bits() == 4 { self.join_nibbles(codes)? } else { codes };
            let word = widened(self.code.int_type(to.bits().max(8)).into(), width);
            let packed = self.code.b.build_bit_cast(codes, word, "")?;
            return self.loaded(self.code.bits(packed, self.memory_type(to))?, to);
        }
        let mut packed: Option<Value<'c>> = None;
        for way in 0..ways {
            let lane = self.value(x, self.shape(x), Some(&first.plus(i64::from(way))), 1)?;
            let code = self.code.bits_of(self.to_memory(lane, from)?)?;
            let code = self.code.extend(code, to.bits().max(8), false)?;
            let shifted = self.code.shl(code, i64::from(way * from.bits()))?;
            packed = Some(match packed {
                Some(packed) => self.code.or(packed, shifted)?,
                None => shifted,
            });
        }
        let packed = packed.ok_or_else(|| BuildError::unsupported("`pack` of nothing"))?;
        self.loaded(self.code.bits(packed, self.memory_type(to))?, to)
    }

    /// Elements of four bits, two in each byte.
    pub fn join_nibbles(&self, codes: Value<'c>) -> Built<Value<'c>> {
        let pairs = widened(self.code.int_type(16).into(), lanes(codes) / 2);
        let pairs = self.code.b.build_bit_cast(codes, pairs, "")?;
        debug_assert_eq!(bits(pairs), 16);
        let high = self.code.op(InstructionOpcode::LShr, pairs, self.code.int(pairs, 4))?;
        self.code.extend(self.code.or(pairs, high)?, 8, false)
    }
}
