//! Lanes of rows: loads, stores and the instructions that move lanes.
//!
//! Where lanes are not consecutive in memory, or an instruction has no vector form, a chunk is put together from
//! single lanes.

use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use fusewright_abi::DType;
use fusewright_graph::{Dim, Literal};

use super::eval::{Eval, Key, repeated};
use super::index::{Address, Pos};
use super::memory::{Lanes, Width};
use crate::backend::host::index::{at_least, borders, consecutive, parity};
use crate::backend::host::{Taken, short_run};
use crate::kernel::{Inst, InstOp, LANE, ParamId, Shape, Val};

/// Bytes that the largest chunk of any element takes.
const CHUNK_BYTES: u32 = 32;

impl<'k> Eval<'k, '_> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn load(
        &mut self,
        param: ParamId,
        index: &Dim,
        otherwise: Option<Literal>,
        predicate: Option<Val>,
        shape: &Shape,
        pos: Option<&Pos>,
        width: Width,
    ) -> Taken<Lanes> {
        let dtype = self.kernel.param(param).dtype;
        let by_lane = predicate.is_some_and(|p| self.segment.ty(p).shape != Shape::Scalar);
        if width != Width::One && !by_lane && !index.mentions(LANE) {
            let one = self.load(param, index, otherwise, predicate, shape, pos, Width::One)?.first;
            let vector = self.code.splat(one);
            return Ok(repeated(vector, width));
        }
        if let (Some(pos), None, true) = (pos, predicate, width != Width::One)
            && let Some(chunk) = self.load_chunk(param, index, pos, width)?
        {
            return Ok(chunk);
        }
        let lanes_step = pos.map_or(0, |_| consecutive(index));
        if width != Width::One && (by_lane || lanes_step != 1 || dtype.bits() < 8) {
            return self.by_single_lanes(pos, width, &mut |eval, pos| {
                Ok(eval.load(param, index, otherwise, predicate, shape, Some(pos), Width::One)?.first)
            });
        }
        if dtype.bits() < 8 {
            let element = self.element(index, pos)?;
            let base = self.buffers[param.0 as usize];
            if predicate.is_some() {
                return Err(self.refuse(format!("a predicated load of {dtype} elements")));
            }
            return Ok(Lanes::one(self.code.load_nibble(dtype, base, element)));
        }
        let address = self.address(param, index, pos)?;
        let address = match (predicate, otherwise) {
            (Some(p), Some(literal)) => {
                let holds = self.value(p, shape, pos, Width::One)?.first;
                let dummy = self.dummy(param, literal)?;
                self.guarded(holds, address, dummy)
            }
            _ => address,
        };
        if predicate.is_none() && width == Width::Eight {
            self.prefetch_run(dtype, &address, index);
        }
        Ok(self.code.load_lanes(dtype, address.pointer, address.offset, width))
    }

    /// Whether loads over so many lanes ask for elements of a later row, all of at most 16 bits.
    pub fn asks_for_short_runs(&self, lanes: Option<&Dim>) -> bool {
        let distances = self.segment.insts.iter().filter_map(|inst| match &inst.op {
            InstOp::Load { param, index, shape: Shape::Row(_), otherwise: None } => {
                let bytes = self.kernel.param(*param).dtype.bits() / 8;
                Some((bytes, short_run::distance(index, lanes?, bytes)?))
            }
            _ => None,
        });
        let widest = distances.map(|(bytes, _)| bytes).max();
        self.prefetches && widest.is_some_and(|bytes| bytes <= 2)
    }

    /// Asks for the same lanes of a later row, once in a pass, where a loop reads a short run of each.
    pub(super) fn prefetch_run(&mut self, dtype: DType, address: &Address, index: &Dim) {
        let Some(pass) = self.pass.as_ref().filter(|pass| self.prefetches && pass.shift == 0) else { return };
        let distance = pass.lanes.as_ref().and_then(|lanes| short_run::distance(index, lanes, dtype.bits() / 8));
        if let Some(distance) = distance {
            let later = self.code.add(address.pointer, distance + i64::from(address.offset));
            self.code.prefetch(later);
        }
    }

    /// The address where the predicate holds, else that of a dummy.
    fn guarded(&mut self, holds: Value, address: Address, dummy: Value) -> Address {
        let pointer = self.code.add(address.pointer, i64::from(address.offset));
        Address { pointer: self.code.b.ins().select(holds, pointer, dummy), offset: 0 }
    }

    /// Stack memory for a chunk of a parameter's elements, all of them `literal`.
    pub(super) fn dummy(&mut self, param: ParamId, literal: Literal) -> Taken<Value> {
        let key = Key::Dummy(param, literal);
        if let Some(known) = self.memo.known(&key) {
            return Ok(known.first);
        }
        let dtype = self.kernel.param(param).dtype;
        if dtype.bits() < 8 {
            return Err(self.refuse(format!("a predicated access of {dtype} elements")));
        }
        let address = self.code.stack(CHUNK_BYTES);
        let bytes = dtype.bits() / 8;
        let value = self.literal(literal, Width::One);
        for at in 0..(CHUNK_BYTES / bytes).min(8) {
            self.code.store_lanes(dtype, Lanes::one(value), address, (at * bytes) as i32, Width::One);
        }
        Ok(self.remember(key, address))
    }

    /// Stack memory for a chunk that nobody reads.
    pub(super) fn trash(&mut self) -> Value {
        match self.memo.known(&Key::Trash) {
            Some(known) => known.first,
            None => {
                let address = self.code.stack(CHUNK_BYTES);
                self.remember(Key::Trash, address)
            }
        }
    }

    /// A chunk from its single lanes.
    fn by_single_lanes(
        &mut self,
        pos: Option<&Pos>,
        width: Width,
        lane: &mut dyn FnMut(&mut Self, &Pos) -> Taken<Value>,
    ) -> Taken<Lanes> {
        let Some(pos) = pos else { return Err(self.refuse("lanes where a scalar belongs")) };
        let lanes = (0..width.lanes()).map(|i| lane(self, &pos.plus(i))).collect::<Taken<Vec<Value>>>()?;
        Ok(self.code.gather(&lanes))
    }

    pub(super) fn iota(&mut self, pos: &Pos, width: Width) -> Taken<Lanes> {
        let lane = self.lane(pos)?;
        let lane = self.code.b.ins().ireduce(I32, lane);
        if width == Width::One {
            return Ok(Lanes::one(lane));
        }
        let start = self.code.splat(lane);
        let offsets: &[[u32; 4]] = if width == Width::Four { &[[0, 1, 2, 3]] } else { &[[0, 2, 4, 6], [1, 3, 5, 7]] };
        let parts: Vec<Value> = offsets
            .iter()
            .map(|&lanes| {
                let offset = self.code.lanes(lanes);
                self.code.b.ins().iadd(start, offset)
            })
            .collect();
        Ok(Lanes { first: parts[0], second: parts.get(1).copied() })
    }

    pub(super) fn slice(&mut self, inst: &Inst, pos: &Pos, width: Width) -> Taken<Lanes> {
        let InstOp::Slice { start, len, step } = &inst.op else { return Err(self.refuse("not a slice")) };
        let x = inst.args[0];
        let shape = &self.segment.ty(x).shape;
        let first = self.stretched(pos, *step).plus_dim(start);
        if *step == 1 || width == Width::One {
            return self.value(x, shape, Some(&first), width);
        }
        // A chunk of eight holds every other lane and those beside them, which have to exist: behind a lane, or before an
        // odd one.
        let odd = parity(start) == Some(true);
        let paired = odd || at_least(&shape.elements(), &(start + &(len * &Dim::constant(2))));
        let mut every_other = |ahead: i64| {
            let first = first.plus(ahead - i64::from(odd));
            let lanes = self.value(x, shape, Some(&first), Width::Eight)?;
            Ok(if odd { lanes.second.unwrap_or(lanes.first) } else { lanes.first })
        };
        match width {
            Width::Four if *step == 2 && paired => Ok(Lanes::one(every_other(0)?)),
            Width::Eight if *step == 2 && paired => {
                let (low, high) = (every_other(0)?, every_other(8)?);
                Ok(self.code.split_even_odd(low, high))
            }
            _ => self.by_single_lanes(Some(pos), width, &mut |eval, pos| Ok(eval.slice(inst, pos, Width::One)?.first)),
        }
    }

    /// The operand that holds a chunk is known where the loop does not cross a border; else single lanes look it up.
    pub(super) fn cat(&mut self, inst: &'k Inst, v: Val, pos: &Pos, width: Width) -> Taken<Lanes> {
        let borders = borders(self.segment, inst);
        if let Some((operand, start)) = self.operand_of(&borders, pos) {
            let arg = inst.args[operand];
            let shape = &self.segment.ty(arg).shape;
            let inside = pos.plus_dim(&(&Dim::constant(0) - &start));
            return self.value(arg, shape, Some(&inside), width);
        }
        if width != Width::One {
            return self
                .by_single_lanes(Some(pos), width, &mut |eval, pos| Ok(eval.cat(inst, v, pos, Width::One)?.first));
        }
        if inst.args.iter().all(|arg| *arg == inst.args[0]) {
            return self.repeated(inst.args[0], pos);
        }
        self.branching_cat(inst, v, &borders, pos)
    }

    /// A lane of a row that comes again and again.
    fn repeated(&mut self, row: Val, pos: &Pos) -> Taken<Lanes> {
        let shape = &self.segment.ty(row).shape;
        let (lane, length) = (self.lane(pos)?, self.dim(&shape.elements())?);
        let turn = self.code.floor_div(lane, length);
        let before = self.code.b.ins().imul(turn, length);
        let inside = self.code.b.ins().isub(lane, before);
        self.value(row, shape, Some(&Pos::at(inside)), Width::One)
    }

    fn branching_cat(&mut self, inst: &'k Inst, v: Val, borders: &[Dim], pos: &Pos) -> Taken<Lanes> {
        let lane = self.lane(pos)?;
        // Before the first branch: what is remembered must be there on every path.
        let borders = borders[..inst.args.len()].iter().map(|border| self.dim(border)).collect::<Taken<Vec<_>>>()?;
        let ty = super::cast::register(self.dtype(v));
        let done = self.code.b.create_block();
        let result = self.code.b.append_block_param(done, ty);
        for (i, &arg) in inst.args.iter().enumerate() {
            let start = borders[i];
            let next = (i + 1 < inst.args.len()).then(|| self.code.b.create_block());
            if let Some(next) = next {
                let end = borders[i + 1];
                let here = self.code.b.create_block();
                let inside = self.code.icmp(cranelift_codegen::ir::condcodes::IntCC::SignedLessThan, lane, end);
                self.code.b.ins().brif(inside, here, &[], next, &[]);
                self.code.b.seal_block(here);
                self.code.b.seal_block(next);
                self.code.b.switch_to_block(here);
            }
            let mark = self.memo.enter();
            let inside = self.code.b.ins().isub(lane, start);
            let shape = &self.segment.ty(arg).shape;
            let value = self.value(arg, shape, Some(&Pos::at(inside)), Width::One)?.first;
            self.memo.leave(mark);
            self.code.b.ins().jump(done, &[value.into()]);
            if let Some(next) = next {
                self.code.b.switch_to_block(next);
            }
        }
        self.code.b.seal_block(done);
        self.code.b.switch_to_block(done);
        Ok(Lanes::one(result))
    }

    pub(super) fn zip(&mut self, inst: &'k Inst, pos: &Pos, width: Width) -> Taken<Lanes> {
        let ways = inst.args.len() as i64;
        let shape = &self.segment.ty(inst.args[0]).shape;
        let even = pos.scale % 2 == 0 || self.even_base(pos.base);
        let aligned = even && pos.offset.as_const().is_some_and(|o| o % 2 == 0);
        if width == Width::Eight && ways == 2 && aligned {
            let half = self.halved(pos);
            let a = self.value(inst.args[0], shape, Some(&half), Width::Four)?.first;
            let b = self.value(inst.args[1], shape, Some(&half), Width::Four)?.first;
            return Ok(Lanes::pair(a, b));
        }
        if width != Width::One {
            return self.by_single_lanes(Some(pos), width, &mut |eval, pos| Ok(eval.zip(inst, pos, Width::One)?.first));
        }
        let lane = self.lane(pos)?;
        let by = self.code.i64(ways);
        let at = self.code.floor_div(lane, by);
        let whole = self.code.b.ins().imul(at, by);
        let way = self.code.b.ins().isub(lane, whole);
        // All operands have this lane, so the others may be read in vain.
        let mut result = self.value(inst.args[0], shape, Some(&Pos::at(at)), Width::One)?.first;
        for (i, &arg) in inst.args.iter().enumerate().skip(1) {
            let value = self.value(arg, shape, Some(&Pos::at(at)), Width::One)?.first;
            let here = self.code.icmp_const(cranelift_codegen::ir::condcodes::IntCC::Equal, way, i as i64);
            result = self.code.b.ins().select(here, value, result);
        }
        Ok(Lanes::one(result))
    }

    /// Half of a position whose scale or base, and whose offset, are even.
    fn halved(&mut self, pos: &Pos) -> Pos {
        let offset = Dim::constant(pos.offset.as_const().unwrap_or(0) / 2);
        if pos.scale % 2 == 0 {
            return Pos { base: pos.base, scale: pos.scale / 2, offset };
        }
        let key = half_of(pos.base);
        let base = match self.memo.known(&key) {
            Some(known) => known.first,
            None => {
                let half = self.code.sar(pos.base, 1);
                self.remember(key, half)
            }
        };
        Pos { base, scale: pos.scale, offset }
    }

    /// `step` times a position. Twice a half of the loop's counter is that counter: what was computed there is found.
    fn stretched(&self, pos: &Pos, step: i64) -> Pos {
        let counter = self.pass.as_ref().map(|pass| pass.base).filter(|_| step == 2);
        let halved = |base: &Value| self.memo.known(&half_of(*base)).is_some_and(|half| half.first == pos.base);
        match counter.filter(halved) {
            Some(base) => Pos { base, scale: pos.scale, offset: &pos.offset * &Dim::constant(2) },
            None => pos.times(step),
        }
    }

    pub(super) fn pack(&mut self, x: Val, ways: u32, to: DType, pos: &Pos, width: Width) -> Taken<Lanes> {
        let from = self.dtype(x);
        let shape = &self.segment.ty(x).shape;
        let first = pos.times(i64::from(ways));
        let two = ways == 2 && from.bits() < 32;
        match width {
            Width::Four if two => Ok(Lanes::one(self.pack_eight(x, to, &first)?)),
            Width::Eight if two => {
                let low = self.pack_eight(x, to, &first)?;
                let high = self.pack_eight(x, to, &first.plus(8))?;
                Ok(self.code.split_even_odd(low, high))
            }
            Width::One => {
                let mut packed: Option<Value> = None;
                for way in 0..ways {
                    let lane = self.value(x, shape, Some(&first.plus(i64::from(way))), Width::One)?.first;
                    let code = self.code.code_of(lane, from);
                    let code = if to.bits() == 64 { self.code.b.ins().uextend(I64, code) } else { code };
                    let shifted = if way > 0 { self.code.shl(code, way * from.bits()) } else { code };
                    packed = Some(packed.map_or(shifted, |p| self.code.or(p, shifted)));
                }
                let packed = packed.ok_or_else(|| self.refuse("no ways"))?;
                Ok(Lanes::one(self.code.seat_code(packed, to)))
            }
            _ => self
                .by_single_lanes(Some(pos), width, &mut |eval, pos| Ok(eval.pack(x, ways, to, pos, Width::One)?.first)),
        }
    }

    /// Eight codes as four of twice the width, in ascending order.
    fn pack_eight(&mut self, x: Val, to: DType, first: &Pos) -> Taken<Value> {
        let from = self.dtype(x);
        let shape = &self.segment.ty(x).shape;
        let lanes = self.value(x, shape, Some(first), Width::Eight)?;
        let even = self.code.code_of(lanes.first, from);
        let odd = self.code.code_of(lanes.second.unwrap_or(lanes.first), from);
        let high = self.code.shl(odd, from.bits());
        let packed = self.code.or(even, high);
        Ok(self.code.seat_code(packed, to))
    }

    /// Writes a chunk; `predicate` and `otherwise` are the store's.
    pub fn store(&mut self, at: usize, value: Lanes, pos: Option<&Pos>, width: Width) -> Taken<()> {
        let inst = &self.segment.insts[at];
        self.at = Some(at);
        let InstOp::Store { param, index, otherwise } = &inst.op else { return Err(self.refuse("not a store")) };
        let dtype = self.kernel.param(*param).dtype;
        if dtype.bits() < 8 {
            return self.store_packed(at, value, pos, width);
        }
        let predicate = inst.args.get(1).copied();
        let by_lane = predicate.is_some_and(|p| self.segment.ty(p).shape != Shape::Scalar);
        let in_order = consecutive(index) == 1 || pos.is_some_and(|pos| self.is_run(index, pos, width));
        if width != Width::One && (by_lane || !in_order) {
            let Some(pos) = pos else { return Err(self.refuse("lanes where a scalar belongs")) };
            for (i, lane) in self.code.scatter(value, dtype).into_iter().enumerate() {
                self.store(at, Lanes::one(lane), Some(&pos.plus(i as i64)), Width::One)?;
            }
            return Ok(());
        }
        let mut address = self.address(*param, index, pos)?;
        let mut value = value;
        if let Some(predicate) = predicate {
            let shape = &self.segment.ty(inst.args[0]).shape;
            match otherwise {
                Some(literal) => {
                    let holds = self.value(predicate, shape, pos, width)?;
                    let padding = repeated(self.literal(*literal, width), width);
                    value = self.choose(holds, value, padding);
                }
                None => {
                    let holds = self.value(predicate, shape, pos, Width::One)?.first;
                    let trash = self.trash();
                    address = self.guarded(holds, address, trash);
                }
            }
        }
        self.code.store_lanes(dtype, value, address.pointer, address.offset, width);
        self.at = None;
        Ok(())
    }

    fn choose(&mut self, holds: Lanes, a: Lanes, b: Lanes) -> Lanes {
        let first = self.code.select(holds.first, a.first, b.first);
        let second = match (holds.second, a.second, b.second) {
            (Some(holds), Some(a), Some(b)) => Some(self.code.select(holds, a, b)),
            _ => None,
        };
        Lanes { first, second }
    }

    /// Whether a loop counter is even in every pass.
    pub(super) fn even_base(&self, base: Value) -> bool {
        self.pass.as_ref().is_some_and(|pass| pass.base == base && pass.multiple % 2 == 0)
    }

    /// All lanes that a position takes in the passes of the loop, as a half-open range.
    pub fn piece_lanes(&self, pos: &Pos) -> Option<(Dim, Dim)> {
        let pass = self.pass.as_ref().filter(|pass| pass.base == pos.base)?;
        let from = &pos.offset - &Dim::constant(pass.shift.checked_mul(pos.scale)?);
        let to = &from + &(pass.lanes.as_ref()? * &Dim::constant(pos.scale));
        Some((from, to))
    }

    /// The operand of a concatenation that holds the lanes from `pos` on to the end of the piece, and its start.
    fn operand_of(&self, borders: &[Dim], pos: &Pos) -> Option<(usize, Dim)> {
        let (from, to) = self.piece_lanes(pos)?;
        let holds = |i: &usize| at_least(&from, &borders[*i]) && at_least(&borders[*i + 1], &to);
        let found = (0..borders.len() - 1).find(holds)?;
        Some((found, borders[found].clone()))
    }
}

/// What half of an even loop counter is remembered as.
fn half_of(counter: Value) -> Key {
    Key::Lane(Pos { base: counter, scale: 0, offset: Dim::constant(2) })
}
