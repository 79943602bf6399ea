//! Lanes that change places: slices, joins, packing, and scalars on their way to memory.

use fusewright_abi::DType;
use fusewright_graph::Dim;

use super::EmitError;
use super::memory::{BLOCK, Tensor};
use super::segment::{Made, Writer};
use super::tile::Count;
use crate::kernel::{Inst, Shape, Val};

/// Byte offsets of lanes: `(lane >> shift) · scale + (lane mod 2^shift) · low + start`, and what is more from some lanes on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Offsets {
    pub shift: u32,
    pub scale: u64,
    pub low: u64,
    pub start: u64,
    /// `(first lane, bytes)`.
    pub gaps: Vec<(u64, u64)>,
}

impl Writer<'_> {
    /// A table of byte offsets, made once per core; one for the most lanes that ask for it.
    pub fn table(&mut self, lanes: u64, of: Offsets) -> Tensor {
        if let Some(table) = self.tables.get(&of).filter(|t| t.lanes >= lanes) {
            return table.clone();
        }
        let before = std::mem::replace(&mut self.at_start, true);
        let table = self.lasting("offsets", "uint32_t", lanes, 4, usize::MAX);
        let scratch = self.scratch("indices", "int32_t", lanes, 4);
        let Offsets { shift, scale, low, start, gaps } = &of;
        let (at, by) = (table.text(), scratch.text());
        let line = format!("fusewright::MakeOffsets({at}, {by}, {lanes}, {shift}, {scale}, {low}, {start});");
        self.fixed.settled(line, &[], &[&scratch]);
        for (first, bytes) in gaps {
            let line = format!("fusewright::WidenOffsets({at}, {by}, {lanes}, {first}, {bytes});");
            self.fixed.settled(line, &[&table], &[&scratch]);
        }
        self.at_start = before;
        self.tables.insert(of, table.clone());
        table
    }

    /// Lanes of a row: in place where a tile is one row and they start a block, else copied.
    pub fn slice(&mut self, inst: &Inst, result: Val, start: &Dim, step: i64) -> Made<()> {
        let start = start.as_const().and_then(|n| u64::try_from(n).ok());
        let start = start.ok_or_else(|| EmitError::unsupported("a slice from an unknown lane"))?;
        let (from, lanes) = (self.tensor(inst.args[0])?, self.lanes(result)?);
        let size = from.size;
        let aligned = (start * size).is_multiple_of(BLOCK);
        if step == 1 && aligned && self.tile.is_single() {
            self.bind(result, from.part(start, lanes)?);
            return Ok(());
        }
        let whole = self.lanes(inst.args[0])?;
        if step == 1 && aligned && [lanes, whole].iter().all(|n| (n * size).is_multiple_of(BLOCK)) {
            let to = self.destination(result, "part", &[])?;
            let from = Tensor { offset: from.offset + start, ..from };
            self.copy_lanes(&to, &from, result, (lanes, whole, lanes))?;
            return Ok(());
        }
        // Every n-th lane of rows that have n times as many is every n-th lane of the tile.
        if !self.tile.is_single() && whole != lanes * step as u64 {
            return Err(EmitError::Single);
        }
        self.gather(result, &from, Offsets { scale: step as u64 * size, start: start * size, ..Offsets::default() })
    }

    /// `lanes` of each row, from rows that are `from` apart to rows that are `to` apart.
    fn copy_lanes(&mut self, to: &Tensor, from: &Tensor, rows: Val, pitch: (u64, u64, u64)) -> Made<()> {
        let (lanes, of_from, of_to) = pitch;
        let count = self.tile.times(self.level(rows));
        let line =
            format!("fusewright::CopyLanes({}, {}, {count}, {lanes}, {of_from}, {of_to});", to.text(), from.text());
        // Both sides reach over the lanes between.
        let reach = |t: &Tensor| Tensor { lanes: t.lanes.saturating_sub(t.offset).max(1), ..t.clone() };
        let (from, to) = (reach(from), reach(to));
        self.steps().vector(line, &[&from], &to);
        Ok(())
    }

    fn gather(&mut self, result: Val, from: &Tensor, offsets: Offsets) -> Made<()> {
        if !matches!(from.size, 2 | 4) {
            return Err(EmitError::unsupported(format!("lanes of {} bytes in another order", from.size)));
        }
        let lanes = self.most(result)?;
        let table = self.table(lanes, offsets);
        let to = self.destination(result, "gathered", &[])?;
        let count = self.count(result)?;
        let line = format!("Gather({}, {}, {}, 0, {count});", to.text(), from.text(), table.text());
        self.steps().vector(line, &[from, &table], &to);
        Ok(())
    }

    /// Rows one after the other; what was computed in its place stays there.
    pub fn join(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let to = self.destination(result, "joined", &[])?;
        let whole = self.lanes(result)?;
        let single = self.tile.is_single();
        let lengths = inst.args.iter().map(|&a| self.lanes(a)).collect::<Made<Vec<_>>>()?;
        let aligned = |n: u64| (n * to.size).is_multiple_of(BLOCK);
        // Where a tile is one row, the last one may end within a block.
        let ends = if single { &lengths[..lengths.len().saturating_sub(1)] } else { &lengths };
        if !ends.iter().all(|n| aligned(*n)) {
            return if single { self.join_unaligned(inst, &to, result) } else { Err(EmitError::Single) };
        }
        let mut start = 0;
        for (&arg, lanes) in inst.args.iter().zip(lengths) {
            let from = self.lane_for_lane_of(arg, result)?;
            if single {
                let part = to.part(start, lanes)?;
                if from != part {
                    self.move_lanes(&part, &from, &Count::one().of(lanes), lanes);
                }
            } else {
                let part = Tensor { offset: to.offset + start, ..to.clone() };
                self.copy_lanes(&part, &from, result, (lanes, lanes, whole))?;
            }
            start += lanes;
        }
        Ok(())
    }

    /// A part of a join, for every row of the result.
    fn lane_for_lane_of(&mut self, arg: Val, result: Val) -> Made<Tensor> {
        if self.tile.level(self.level(arg)) == self.tile.level(self.level(result)) {
            return self.tensor(arg);
        }
        Err(EmitError::Single)
    }

    /// Rows of which some end within a block: each from a block on, and all gathered from there.
    fn join_unaligned(&mut self, inst: &Inst, to: &Tensor, result: Val) -> Made<()> {
        let size = to.size;
        if !matches!(size, 2 | 4) {
            let parts: Vec<String> = inst.args.iter().map(|&a| self.shape(a).to_string()).collect();
            let what = format!("a join of {}: parts start at multiples of {BLOCK} bytes", parts.join(", "));
            return Err(EmitError::unsupported(what));
        }
        let pitch = |lanes: u64| (lanes * size).next_multiple_of(BLOCK) / size;
        let lengths = inst.args.iter().map(|&a| self.lanes(a)).collect::<Made<Vec<_>>>()?;
        let element = self.element(self.dtype(result))?;
        let beside = self.scratch("beside", element, lengths.iter().map(|n| pitch(*n)).sum(), size);
        let mut offsets = Offsets { scale: size, ..Offsets::default() };
        let (mut start, mut place) = (0, 0);
        for (&arg, lanes) in inst.args.iter().zip(lengths) {
            let from = self.lane_for_lane_of(arg, result)?;
            let part = beside.part(place, lanes)?;
            let line = format!("fusewright::Move({}, {}, {lanes});", part.text(), from.text());
            self.steps().vector(line, &[&from], &part);
            (start, place) = (start + lanes, place + pitch(lanes));
            if pitch(lanes) > lanes {
                offsets.gaps.push((start, (pitch(lanes) - lanes) * size));
            }
        }
        // There is no lane behind the last row.
        offsets.gaps.retain(|(first, _)| *first < start);
        self.gather(result, &beside, offsets)
    }

    /// Lanes of equally long rows in turn.
    pub fn zip(&mut self, inst: &Inst, result: Val) -> Made<()> {
        if !self.tile.is_single() {
            return Err(EmitError::Single);
        }
        let ways = inst.args.len() as u64;
        let lanes = self.lanes(inst.args[0])?;
        let size = self.size(self.dtype(result));
        let pitch = (lanes * size).next_multiple_of(BLOCK) / size;
        if !ways.is_power_of_two() {
            return Err(EmitError::unsupported(format!("{ways} rows in turn")));
        }
        let element = self.element(self.dtype(result))?;
        let beside = self.scratch("beside", element, pitch * ways, size);
        for (i, &arg) in inst.args.iter().enumerate() {
            let from = self.tensor(arg)?;
            let part = beside.part(i as u64 * pitch, lanes)?;
            self.move_lanes(&part, &from, &Count::one().of(lanes), lanes);
        }
        let shift = ways.ilog2();
        self.gather(result, &beside, Offsets { shift, scale: size, low: pitch * size, ..Offsets::default() })
    }

    /// Codes of 4 bits, two in a byte.
    pub fn pack(&mut self, inst: &Inst, result: Val, ways: u32, to: DType) -> Made<()> {
        let from = self.dtype(inst.args[0]);
        if (ways, from, to) != (2, DType::F4E2M1, DType::U8) {
            return Err(EmitError::unsupported(format!("{ways} codes of {from} in one {to}")));
        }
        let codes = self.tensor(inst.args[0])?;
        let (count, most) = (self.count(result)?, self.most(result)?);
        let pairs = self.scratch("pairs", "int32_t", most, 4);
        let shifted = self.scratch("shifted", "int32_t", most, 4);
        let halves = self.scratch("codesOfHalves", "int16_t", most * 2, 2);
        let narrow = self.scratch("narrow", "half", most * 2, 2);
        let operands = [&pairs, &codes, &narrow, &halves, &shifted].map(|t| t.text()).join(", ");
        let line = format!("fusewright::PairCodes({operands}, {count});");
        self.steps().settled(line, &[&codes], &[&narrow]);
        let dest = self.destination(result, "pairsOfCodes", &[])?;
        self.codes_to_bytes(&dest, &pairs, count, most);
        Ok(())
    }

    /// Lane numbers.
    pub fn iota(&mut self, result: Val) -> Made<()> {
        let (first, lanes) = match self.out.passes {
            // Each lane is an inner row.
            true => ("static_cast<int32_t>(tile.inner)", self.count(result)?.to_string()),
            false => ("0", self.lanes(result)?.to_string()),
        };
        let to = self.destination(result, "lane", &[])?;
        self.steps().vector(format!("CreateVecIndex({}, {first}, {lanes});", to.text()), &[], &to);
        Ok(())
    }

    /// The output tensor of a value: where it was computed, or where it is brought to.
    pub fn in_output(&mut self, value: Val, param: u32) -> Made<Tensor> {
        if let Ok(tensor) = self.tensor(value)
            && self.out.outputs.iter().any(|q| q.tensor == tensor.var)
            && tensor.offset == 0
        {
            return Ok(tensor);
        }
        let known = self.outputs_of.get(&value).cloned();
        if let Some(tensor) = known {
            return Ok(Tensor { var: tensor, offset: 0, lanes: 0, size: self.size(self.dtype(value)), work: None });
        }
        let to = self.output(value, param)?;
        self.outputs_of.insert(value, to.var.clone());
        let elements = self.elements(value)?;
        let most = self.tile.most(self.level(value)) * elements;
        let count = self.tile.times(self.level(value)).of(elements);
        if self.dtype(value) == DType::Bool {
            self.bytes_of_mask(value, &to)?;
            return Ok(to);
        }
        let copies = !matches!(self.shape(value), Shape::Row(_));
        let from = match self.scalar(value).cloned() {
            Some(_) => {
                let operand = self.operand(value, value)?;
                self.materialised(operand, value)?
            }
            None if copies && self.packed.contains_key(&value) => {
                let packed = self.packed_of(value)?;
                self.move_lanes(&to, &packed, &count, most);
                return Ok(to);
            }
            None => self.tensor(value)?,
        };
        if copies && most > 1 {
            self.pack_lanes(&to, &from, to.size, count, most)?;
        } else {
            self.move_lanes(&to, &from, &count, most);
        }
        Ok(to)
    }

    /// `count` lanes as they are, at most `most`.
    pub fn move_lanes(&mut self, to: &Tensor, from: &Tensor, count: &Count, most: u64) {
        if to.size != 1 || !count.may_be_odd() {
            let line = format!("fusewright::Move({}, {}, {count});", to.text(), from.text());
            self.steps().vector(line, &[from], to);
            return;
        }
        // Words would reach over the last byte, which nothing need have written.
        let half = self.scratch("half", "half", most, 2);
        let bytes = |tensor: &Tensor| format!("{}.ReinterpretCast<uint8_t>()", tensor.text());
        let line = format!("Cast({}, {}, RoundMode::CAST_NONE, {count});", half.text(), bytes(from));
        self.steps().vector(line, &[from], &half);
        let line = format!("Cast({}, {}, RoundMode::CAST_TRUNC, {count});", bytes(to), half.text());
        self.steps().vector(line, &[&half], to);
    }

    /// A condition as bytes of 0 and 1.
    fn bytes_of_mask(&mut self, value: Val, to: &Tensor) -> Made<()> {
        let mask = self.mask_over(value, value)?;
        let (mut count, mut most) = (self.count(value)?, self.most(value)?);
        let (one, zero) = (self.block(1), self.block(0));
        let mut codes = self.scratch("truth", "float", most, 4);
        self.select_into(&codes, &mask, (&one, ", true"), (&zero, ", true"), &count.to_string());
        if !matches!(self.shape(value), Shape::Row(_)) {
            // One of the copies of each.
            let elements = self.elements(value)?;
            (count, most) =
                (self.tile.times(self.level(value)).of(elements), self.tile.most(self.level(value)) * elements);
            if most > 1 {
                let packed = self.scratch("packed", "float", most, 4);
                self.pack_lanes(&packed, &codes, 4, count.clone(), most)?;
                codes = packed;
            }
        }
        let codes = Tensor { var: format!("{}.ReinterpretCast<int32_t>()", codes.var), ..codes };
        self.codes_to_bytes(to, &codes, count, most);
        Ok(())
    }
}
