//! Operands of elementwise functions: how what is there less often than the result spreads over its lanes.

use fusewright_abi::DType;
use fusewright_graph::Literal;

use super::EmitError;
use super::memory::Tensor;
use super::segment::{Made, Scalar, Writer};
use super::text;
use super::tile::{COPIES, Count};
use crate::kernel::{InstOp, Level, Shape, Val};

/// How an operand spreads over a result.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    /// Lane for lane.
    Same(Tensor),
    /// One block for all lanes.
    Block(Tensor),
    /// An f32 constant.
    Constant(f32),
    /// A block for every `lanes` lanes.
    Blocks { of: Tensor, blocks: Count, lanes: String },
    /// One row for all rows of `lanes`.
    Line { of: Tensor, rows: Count, lanes: u64 },
    /// One row for each outer row's inner rows of `lanes`.
    Lines { of: Tensor, lanes: u64 },
}

impl Writer<'_> {
    pub fn is_constant(&self, value: Val) -> bool {
        matches!(self.scalar(value), Some(Scalar::Literal(_)))
    }

    /// How an operand of a map spreads over a result.
    pub fn operand(&mut self, value: Val, result: Val) -> Made<Operand> {
        match self.scalar(value) {
            Some(Scalar::Literal(v)) => return Ok(Operand::Constant(*v)),
            Some(Scalar::Expression(_)) => return self.number(value),
            None => {}
        }
        let of = self.unpacked(value)?;
        let (own, whole) = (self.tile.level(self.level(value)), self.tile.level(self.level(result)));
        let (shape, over) = (self.shape(value).clone(), self.shape(result).clone());
        let same = shape == over;
        // Rows of a tile are whole blocks where they are told apart.
        let told_apart = if shape == Shape::Scalar { own != Level::Kernel } else { !(own == whole && same) };
        let several = self.tile.most(self.level(result)) > 1;
        if told_apart && several && ends_within_block(self.lanes(result)?) {
            return Err(EmitError::Single);
        }
        let of_rows = self.tile.times(self.level(value));
        let rows = self.tile.times(self.level(result));
        let lanes = self.lanes(result)?;
        Ok(match (own, whole) {
            _ if own == whole && same => Operand::Same(of),
            (Level::Kernel, _) if shape == Shape::Scalar => Operand::Block(of),
            _ if own == whole && shape == Shape::Scalar => {
                Operand::Blocks { of, blocks: of_rows, lanes: lanes.to_string() }
            }
            _ if own == whole => {
                let groups = self.elements(value)?;
                if lanes % groups != 0 {
                    return Err(EmitError::unsupported("groups of which the last is shorter"));
                }
                if groups > 1 && ends_within_block(lanes / groups) {
                    let what = format!("groups of {} lanes: blocks are of {COPIES}", lanes / groups);
                    return Err(EmitError::unsupported(what));
                }
                Operand::Blocks { of, blocks: of_rows.of(groups), lanes: (lanes / groups).to_string() }
            }
            (Level::Outer, Level::Inner) if shape == Shape::Scalar => {
                Operand::Blocks { of, blocks: of_rows, lanes: format!("tile.inners * {lanes}") }
            }
            (Level::Kernel, _) if same => Operand::Line { of, rows, lanes },
            (Level::Outer, Level::Inner) if same => Operand::Lines { of, lanes },
            _ => return Err(EmitError::Single),
        })
    }

    /// An integer of an address as an f32 or i32 operand.
    fn number(&mut self, value: Val) -> Made<Operand> {
        let literal = match self.defining(value).map(|i| &i.op) {
            Some(InstOp::Literal(Literal::Int(DType::I32, v))) => i32::try_from(*v).ok(),
            _ => None,
        };
        let Some(bits) = literal else { return self.computed_number(value) };
        Ok(Operand::Block(as_words(&self.block(bits.cast_unsigned()))))
    }

    /// An integer that the scalar unit has, as a block.
    fn computed_number(&mut self, value: Val) -> Made<Operand> {
        if self.tile.most(self.level(value)) > 1 {
            return Err(EmitError::Single);
        }
        let (Some(text), DType::I32) = (self.expression(value), self.dtype(value)) else {
            return Err(EmitError::unsupported(format!("a {} of the scalar unit beside lanes", self.dtype(value))));
        };
        self.declare_ahead(std::slice::from_ref(&text));
        let block = self.scratch("number", "int32_t", COPIES, 4);
        self.integers.insert(block.var.clone());
        let line = format!("Duplicate({}, static_cast<int32_t>({text}), {COPIES});", block.text());
        self.steps().vector(line, &[], &block);
        Ok(Operand::Block(block))
    }

    /// The tensor of an operand that has every lane of the result.
    pub fn lane_for_lane(&mut self, value: Val, result: Val) -> Made<Tensor> {
        match self.operand(value, result)? {
            Operand::Same(tensor) => Ok(tensor),
            other => self.materialised(other, result),
        }
    }

    /// An operand with every lane of the result, in a tensor of this step.
    pub fn materialised(&mut self, operand: Operand, result: Val) -> Made<Tensor> {
        let lanes = self.most(result)?;
        let count = self.count(result)?;
        let words = matches!(&operand, Operand::Block(of) | Operand::Blocks { of, .. } | Operand::Line { of, .. }
            if self.is_words(of));
        let to = self.scratch("spread", if words { "int32_t" } else { "float" }, lanes, 4);
        let (line, from) = match operand {
            Operand::Same(tensor) => return Ok(tensor),
            Operand::Constant(c) => match text::float(c) {
                Some(c) => (format!("Duplicate({}, {c}, {count});", to.text()), None),
                None => {
                    let block = self.block(c.to_bits());
                    (format!("fusewright::Spread({}, {}, 1, {count});", to.text(), block.text()), Some(block))
                }
            },
            Operand::Block(of) => (format!("fusewright::Spread({}, {}, 1, {count});", to.text(), of.text()), Some(of)),
            Operand::Blocks { of, blocks, lanes } => {
                (format!("fusewright::Spread({}, {}, {blocks}, {lanes});", to.text(), of.text()), Some(of))
            }
            Operand::Line { of, rows, lanes } => {
                (format!("fusewright::Repeat({}, {}, {rows}, {lanes});", to.text(), of.text()), Some(of))
            }
            Operand::Lines { .. } => return Err(EmitError::Single),
        };
        let reads: Vec<&Tensor> = from.iter().collect();
        self.steps().vector(line, &reads, &to);
        Ok(to)
    }

    /// Whether a tensor holds integers of 32 bits.
    pub fn is_words(&self, tensor: &Tensor) -> bool {
        let held = || {
            (0..self.segment.types.len() as u32).map(Val).any(|v| self.dtype(v) == DType::I32 && self.holds(v, tensor))
        };
        self.integers.contains(&tensor.var) || tensor.var.contains(".ReinterpretCast<int32_t>") || held()
    }

    /// A block of eight equal words, made once per core.
    pub fn block(&mut self, bits: u32) -> Tensor {
        if let Some(tensor) = self.blocks.get(&bits) {
            return tensor.clone();
        }
        let value = f32::from_bits(bits);
        let wish = match value {
            0.0 => "zeros".to_owned(),
            1.0 => "ones".to_owned(),
            v if v.is_nan() => "nans".to_owned(),
            v if v.is_infinite() => "infinities".to_owned(),
            _ => "constants".to_owned(),
        };
        let before = std::mem::replace(&mut self.at_start, true);
        let tensor = self.lasting(&wish, "float", COPIES, 4, usize::MAX);
        let line = match text::float(value) {
            Some(text) if value.is_normal() || bits == 0 => format!("Duplicate({}, {text}, {COPIES});", tensor.text()),
            _ => format!("Duplicate({}.ReinterpretCast<uint32_t>(), {bits:#010x}u, {COPIES});", tensor.text()),
        };
        self.fixed.vector(line, &[], &tensor);
        self.at_start = before;
        self.blocks.insert(bits, tensor.clone());
        tensor
    }
}

/// Whether so many words end within a block.
fn ends_within_block(lanes: u64) -> bool {
    !lanes.is_multiple_of(COPIES)
}

/// A tensor of words seen as integers.
pub(super) fn as_words(tensor: &Tensor) -> Tensor {
    if tensor.var.contains(".ReinterpretCast<int32_t>") {
        return tensor.clone();
    }
    Tensor { var: format!("{}.ReinterpretCast<int32_t>()", tensor.text()), offset: 0, ..tensor.clone() }
}
