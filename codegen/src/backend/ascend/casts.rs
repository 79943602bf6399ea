//! Conversions by the ways that each chip has, with exactly the graph's rounding.

use fusewright_abi::DType;
use fusewright_graph::Rounding;

use super::EmitError;
use super::lanes::Offsets;
use super::memory::Tensor;
use super::segment::{Made, Scalar, Writer};
use super::text;
use super::tile::{COPIES, Count};
use crate::kernel::{Inst, InstOp, Shape, Val};

/// A float format of 8 bits or fewer, for conversions by integer arithmetic.
struct Narrow {
    /// Template arguments of the conversion: bits, mantissa, least exponent.
    format: &'static str,
    /// Magnitude that larger ones are cut to.
    most: f32,
    /// Code of NaN.
    nan: u32,
}

/// The lanes that a conversion works on: of a tile of rows, or of packed scalars.
struct Lanes {
    count: Count,
    most: u64,
}

impl Writer<'_> {
    /// A conversion of a row or a scalar.
    pub fn cast(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let InstOp::Cast { to, round, saturate } = inst.op else { return Ok(()) };
        let x = inst.args[0];
        let from = self.dtype(x);
        if from == DType::Bool {
            return self.cast_mask(x, to, result);
        }
        if let Some(Scalar::Expression(number)) = self.scalar(x).cloned() {
            return self.cast_number(&number, to, result);
        }
        // Scalars of a byte stand side by side, for blocks of eight copies are no blocks.
        let scalar = !matches!(self.shape(result), Shape::Row(_));
        let bytes = |dtype: DType| dtype.bits() <= 8 && dtype != DType::F4E2M1;
        if scalar && (bytes(to) || self.packed.contains_key(&x)) {
            let most = self.tile.most(self.level(x)) * self.elements(x)?;
            let count = self.tile.times(self.level(x)).of(self.elements(x)?);
            let operand = self.packed_of(x)?;
            let (element, size) = (self.element(to)?, self.size(to));
            let last = self.last_of(result);
            let dest = self.lasting(&format!("{}Packed", text::suffix(to)), element, most, size, last);
            self.convert(&dest, &operand, (from, to), (round, saturate), &Lanes { count, most })?;
            self.packed.insert(result, dest);
            return Ok(());
        }
        if let Some(Scalar::Literal(v)) = self.scalar(x).cloned() {
            let block = self.block(v.to_bits());
            self.bind(x, block);
        }
        let operand = self.tensor(x)?;
        let lanes = Lanes { count: self.count(result)?, most: self.most(result)? };
        let wish = format!("{}{}", text::stem(&operand.var), text::suffix(to));
        let dest = self.destination(result, &wish, &[])?;
        self.convert(&dest, &operand, (from, to), (round, saturate), &lanes)
    }

    /// An integer of an address as a float.
    fn cast_number(&mut self, number: &str, to: DType, result: Val) -> Made<()> {
        if to != DType::F32 || self.tile.most(self.level(result)) > 1 {
            return Err(if to == DType::F32 {
                EmitError::Single
            } else {
                EmitError::unsupported(format!("a number as {to}"))
            });
        }
        let dest = self.destination(result, "number", &[])?;
        self.declare_ahead(&[number.to_owned()]);
        let line = format!("Duplicate({}, static_cast<float>({number}), {COPIES});", dest.text());
        self.steps().vector(line, &[], &dest);
        Ok(())
    }

    /// `dest = x` converted.
    fn convert(
        &mut self,
        dest: &Tensor,
        x: &Tensor,
        dtypes: (DType, DType),
        how: (Rounding, bool),
        lanes: &Lanes,
    ) -> Made<()> {
        let ((from, to), (round, saturate)) = (dtypes, how);
        let refuse = |why: &str| {
            let saturate = if saturate { ", saturating" } else { "" };
            Err(EmitError::unsupported(format!("cast {from} to {to} ({}{saturate}): {why}", round.name())))
        };
        let mode = mode(round);
        match (from, to) {
            // Infinities become the greatest numbers, which no instruction does.
            _ if from == to && !(saturate && from.is_float()) => self.one(dest, x, "CAST_NONE", lanes, true),
            (DType::F16 | DType::BF16, DType::F32) if !saturate => self.one(dest, x, "CAST_NONE", lanes, false),
            (DType::F32, DType::F16) if !self.chip.bf16 && round != Rounding::NearestEven => {
                return refuse("this chip rounds to nearest alone");
            }
            (DType::F32, DType::F16 | DType::BF16) if !saturate && round != Rounding::NearestEven => {
                return refuse(
                    "a number beyond the range is to become infinite, and a directed rounding stays below that",
                );
            }
            (DType::F32, DType::F16 | DType::BF16) if !saturate => {
                let mode = if self.chip.bf16 { mode } else { "CAST_NONE" };
                self.one(dest, x, mode, lanes, false);
            }
            (DType::F32, DType::I32) if saturate => {
                let numbers = self.without_nan(x, lanes);
                self.one(dest, &numbers, mode, lanes, false);
            }
            (DType::F32, DType::I8 | DType::U8) if saturate => self.convert_to_byte(dest, x, mode, lanes),
            (DType::I32, DType::F32) if round == Rounding::NearestEven => self.one(dest, x, mode, lanes, false),
            (DType::I32, DType::U8 | DType::I8) if saturate => self.narrow_to_bytes(dest, x, lanes),
            (DType::I8 | DType::U8, DType::F32) => {
                let half = self.scratch("half", "half", lanes.most, 2);
                self.one(&half, x, "CAST_NONE", lanes, false);
                self.one(dest, &half, "CAST_NONE", lanes, false);
            }
            (DType::F32, DType::F8E4M3 | DType::F8E5M2)
                if self.chip.fp8 && round == Rounding::NearestEven && saturate =>
            {
                self.one(dest, x, "CAST_RINT", lanes, false);
            }
            (DType::F8E4M3 | DType::F8E5M2, DType::F32) if self.chip.fp8 => {
                self.one(dest, x, "CAST_NONE", lanes, false)
            }
            (DType::F32, DType::F8E4M3 | DType::F8E5M2 | DType::F4E2M1) if round == Rounding::NearestEven => {
                self.convert_to_narrow(dest, x, to, saturate, lanes)?;
            }
            (DType::F8E4M3, DType::F32) => self.widen_e4m3(dest, x, lanes),
            (DType::F16 | DType::BF16, _) => {
                let wide = self.scratch("wide", "float", lanes.most, 4);
                self.one(&wide, x, "CAST_NONE", lanes, false);
                self.convert(dest, &wide, (DType::F32, to), how, lanes)?;
            }
            (_, DType::F16 | DType::BF16) if matches!(from, DType::I8 | DType::U8 | DType::F8E4M3 | DType::F8E5M2) => {
                // Every value of these is an f32, so rounding happens once.
                let wide = self.scratch("wide", "float", lanes.most, 4);
                self.convert(&wide, x, (from, DType::F32), (Rounding::NearestEven, false), lanes)?;
                self.convert(dest, &wide, (DType::F32, to), how, lanes)?;
            }
            (DType::F32, DType::I32 | DType::I8 | DType::U8) => {
                return refuse("conversions to integers saturate here: it has a kernel with `saturate = true`");
            }
            _ => return refuse("the vector unit has no such conversion"),
        }
        Ok(())
    }

    /// One instruction.
    fn one(&mut self, dest: &Tensor, x: &Tensor, mode: &str, lanes: &Lanes, same: bool) {
        if same {
            self.move_lanes(dest, x, &lanes.count, lanes.most);
            return;
        }
        let line = format!("Cast({}, {}, RoundMode::{mode}, {});", dest.text(), x.text(), lanes.count);
        self.steps().vector(line, &[x], dest);
    }

    /// Zero where a float is NaN: what an integer of NaN is, is open.
    fn without_nan(&mut self, x: &Tensor, lanes: &Lanes) -> Tensor {
        let count = lanes.count.to_string();
        let mask = self.numbers(x, lanes.most, &count);
        let zero = self.block(0);
        let numbers = if self.dies(x) { x.clone() } else { self.scratch("numbers", "float", lanes.most, 4) };
        self.select_into(&numbers, &mask, (x, ", false"), (&zero, ", true"), &count);
        numbers
    }

    /// By way of i32 and half, which are exact and saturate: there is no conversion of f32 to bytes.
    fn convert_to_byte(&mut self, dest: &Tensor, x: &Tensor, mode: &str, lanes: &Lanes) {
        let numbers = self.without_nan(x, lanes);
        // Words in the place of words.
        let whole =
            Tensor { var: format!("{}.ReinterpretCast<int32_t>()", numbers.text()), offset: 0, ..numbers.clone() };
        let narrow = self.scratch("narrow", "half", lanes.most, 2);
        let operands = [dest, &numbers, &whole, &narrow].map(|t| t.text()).join(", ");
        let line = format!("fusewright::CastToByte<RoundMode::{mode}>({operands}, {});", lanes.count);
        self.steps().settled(line, &[&numbers], &[&whole]);
    }

    /// By integer arithmetic: to codes of a word each, and those of bytes to bytes.
    fn convert_to_narrow(&mut self, dest: &Tensor, x: &Tensor, to: DType, saturate: bool, lanes: &Lanes) -> Made<()> {
        let narrow = match (to, saturate) {
            (DType::F8E4M3, true) => Narrow { format: "8, 3, -6", most: 448.0, nan: 0x7f },
            // What rounds to 480 has the code of NaN.
            (DType::F8E4M3, false) => Narrow { format: "8, 3, -6", most: 480.0, nan: 0x7f },
            (DType::F8E5M2, true) => Narrow { format: "8, 2, -14", most: 57344.0, nan: 0x7f },
            (DType::F8E5M2, false) => Narrow { format: "8, 2, -14", most: 65536.0, nan: 0x7f },
            _ => Narrow { format: "4, 1, 0", most: 6.0, nan: 0x7 },
        };
        let count = lanes.count.to_string();
        let codes = if self.size(to) == 4 { dest.clone() } else { self.scratch("codes", "int32_t", lanes.most, 4) };
        let (magnitude, steps) =
            (self.scratch("magnitude", "float", lanes.most, 4), self.scratch("steps", "int32_t", lanes.most, 4));
        let mask = self.mask_scratch(lanes.most);
        let nan = self.block(narrow.nan);
        let most = text::float(narrow.most).unwrap_or_default();
        let operands = [&codes, x, &magnitude, &steps, &mask, &nan].map(|t| t.text()).join(", ");
        let line = format!("fusewright::ToNarrow<{}>({operands}, {most}, {count});", narrow.format);
        self.steps().settled(line, &[x], &[&mask, &magnitude]);
        if self.size(to) != 4 {
            self.narrow_to_bytes(dest, &codes, lanes);
        }
        Ok(())
    }

    /// Integers from 0 to 255 as bytes.
    pub fn codes_to_bytes(&mut self, dest: &Tensor, codes: &Tensor, count: Count, most: u64) {
        self.narrow_to_bytes(dest, codes, &Lanes { count, most });
    }

    fn narrow_to_bytes(&mut self, dest: &Tensor, codes: &Tensor, lanes: &Lanes) {
        let half = self.scratch("half", "half", lanes.most, 2);
        let operands = [dest, codes, &half].map(|t| t.text()).join(", ");
        let line = format!("fusewright::CodesToBytes({operands}, {});", lanes.count);
        self.steps().settled(line, &[codes], &[&half]);
    }

    /// f8e4m3 by integer arithmetic.
    fn widen_e4m3(&mut self, dest: &Tensor, x: &Tensor, lanes: &Lanes) {
        let scratch: Vec<Tensor> =
            ["codes", "signs", "exponents"].iter().map(|n| self.scratch(n, "int32_t", lanes.most, 4)).collect();
        let half = self.scratch("half", "half", lanes.most, 2);
        let mask = self.mask_scratch(lanes.most);
        let nan = self.block(f32::NAN.to_bits());
        let limit = self.block(127.0f32.to_bits());
        let all = [dest, x, &half, &scratch[0], &scratch[1], &scratch[2], &mask, &nan, &limit];
        let operands = all.map(|t| t.text()).join(", ");
        let line = format!("fusewright::FromE4M3({operands}, {});", lanes.count);
        self.steps().settled(line, &[x], &[&half]);
    }

    /// A condition as ones and zeros.
    fn cast_mask(&mut self, x: Val, to: DType, result: Val) -> Made<()> {
        if !matches!(to, DType::F32 | DType::I32) {
            return Err(EmitError::unsupported(format!("a condition as {to}")));
        }
        let mask = self.tensor(x)?;
        let count = self.count(result)?.to_string();
        let dest = self.destination(result, "truth", &[])?;
        let one = if to == DType::F32 { 1.0f32.to_bits() } else { 1 };
        let (one, zero) = (self.block(one), self.block(0));
        self.select_into(&dest, &mask, (&one, ", true"), (&zero, ", true"), &count);
        Ok(())
    }

    /// A scalar that is packed, each as one lane.
    pub fn packed_of(&mut self, value: Val) -> Made<Tensor> {
        if let Some(tensor) = self.packed.get(&value) {
            return Ok(tensor.clone());
        }
        let most = self.tile.most(self.level(value)) * self.elements(value)?;
        let dtype = self.dtype(value);
        let (element, size) = (self.element(dtype)?, self.size(dtype));
        let from = self.unpacked_tensor(value)?;
        if most == 1 {
            // Its first copy.
            return Ok(from);
        }
        let last = self.last_of(value);
        let to = self.lasting("packed", element, most, size, last);
        let count = self.tile.times(self.level(value)).of(self.elements(value)?);
        self.pack_lanes(&to, &from, size, count, most)?;
        self.packed.insert(value, to.clone());
        Ok(to)
    }

    /// Lane `i` of `to` is lane `8 i` of `from`.
    pub fn pack_lanes(&mut self, to: &Tensor, from: &Tensor, size: u64, count: Count, most: u64) -> Made<()> {
        if size != 4 && size != 2 {
            return Err(EmitError::unsupported("scalars of a byte that are computed as copies"));
        }
        let table = self.table(most, Offsets { scale: COPIES * size, ..Offsets::default() });
        let line = format!("Gather({}, {}, {}, 0, {count});", to.text(), from.text(), table.text());
        self.steps().vector(line, &[from, &table], to);
        Ok(())
    }

    /// The tensor of a value with copies of each scalar.
    pub fn unpacked(&mut self, value: Val) -> Made<Tensor> {
        self.unpacked_tensor(value)
    }

    fn unpacked_tensor(&mut self, value: Val) -> Made<Tensor> {
        let Some(packed) = self.packed.get(&value).cloned().filter(|_| !self.has_tensor(value)) else {
            return self.tensor(value);
        };
        let size = self.size(self.dtype(value));
        if size != 4 {
            return Err(EmitError::unsupported(format!("copies of a scalar of {}", self.dtype(value))));
        }
        let most = self.most(value)?;
        let table = self.table(most, Offsets { shift: COPIES.ilog2(), scale: size, ..Offsets::default() });
        let count = self.count(value)?;
        let element = self.element(self.dtype(value))?;
        let last = self.last_of(value);
        let to = self.lasting("copies", element, most, size, last);
        let line = format!("Gather({}, {}, {}, 0, {count});", to.text(), packed.text(), table.text());
        self.steps().vector(line, &[&packed, &table], &to);
        self.bind(value, to.clone());
        Ok(to)
    }
}

fn mode(round: Rounding) -> &'static str {
    match round {
        Rounding::NearestEven => "CAST_RINT",
        Rounding::TowardZero => "CAST_TRUNC",
        Rounding::Down => "CAST_FLOOR",
        Rounding::Up => "CAST_CEIL",
        Rounding::HalfAway => "CAST_ROUND",
    }
}
