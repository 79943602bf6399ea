//! What a kernel moves and computes, by the plan that its source follows: bytes between memory and unified buffer, vector
//! instructions, bytes of unified buffer. For estimates; nothing here was measured.
//!
//! Bytes are those of the loads and stores that are written. Instructions that a header makes of one statement are counted by
//! what the statement is for: a reduction reads its tile and folds it, a conversion by way of other types is several.

use fusewright_abi::DType;
use fusewright_graph::Dim;
use fusewright_graph::text::TextError;
use fusewright_templates::ascend as template;

use super::EmitError;
use super::chip::Chip;
use super::memory::Cost;
use super::segment::Writer;
use crate::kernel::{INNER, Inst, InstOp, Level, Order, Val};

/// Instructions of a conversion by way of other types: to a byte by i32 and half.
const BY_HALF: u64 = 3;
/// Instructions of a conversion by integer arithmetic, about.
const BY_BITS: u64 = 20;
/// Instructions by which a rounding to integers is made.
const BY_INTEGERS: u64 = 2;

/// What a kernel moves and computes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// What it is written for.
    pub chip: Chip,
    /// Its outer rows.
    pub rows: Dim,
    /// Its segments, one after the other.
    pub segments: Vec<SegmentSummary>,
}

/// What a segment of a kernel moves and computes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentSummary {
    /// Inner rows of an outer row.
    pub inner: Dim,
    /// How often each outer row is passed over: once for each of the kernel's inner rows, where lanes are inner rows.
    pub inner_rows: Dim,
    /// Outer rows of a full tile, and inner rows of each.
    pub tile: (u64, u64),
    /// Tiles in flight.
    pub depth: u32,
    /// Bytes of unified buffer.
    pub buffer_bytes: u64,
    /// Bytes and instructions.
    pub figures: template::Figures,
}

/// What a launch does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Rows.
    pub rows: u64,
    /// Vector cores that have rows.
    pub cores: u64,
    /// Bytes from memory to unified buffer, on all cores.
    pub loaded: u64,
    /// Those of them that every core loads for itself.
    pub shared: u64,
    /// Bytes from unified buffer to memory.
    pub stored: u64,
    /// Vector instructions, on all cores.
    pub instructions: u64,
    /// Their repeats.
    pub repeats: u64,
    /// Repeats of the core with the most rows.
    pub repeats_of_core: u64,
    /// The most bytes of unified buffer.
    pub buffer_bytes: u64,
    /// Whether loads, instructions and stores of all segments overlap.
    pub overlaps: bool,
}

impl Summary {
    /// What a launch of all rows does where the kernel's integers are as `binding` says; `None` where one is missing or
    /// negative.
    pub fn at(&self, binding: &dyn Fn(&str) -> Option<i64>) -> Option<Work> {
        let count = |dim: &Dim| dim.eval(binding).ok().and_then(|n| u64::try_from(n).ok());
        let rows = count(&self.rows)?;
        // Runs of equal length, the last perhaps shorter; cores behind it have none.
        let run = rows.div_ceil(rows.clamp(1, u64::from(self.chip.vector_cores))).max(1);
        let cores = rows.div_ceil(run);
        let last = rows - run * cores.saturating_sub(1);
        let mut work = Work { rows, cores, overlaps: true, ..Work::default() };
        for segment in &self.segments {
            let (figures, inner) = (&segment.figures, count(&segment.inner)?);
            let times = count(&segment.inner_rows)?;
            let (rows, run, last) = (rows * times, run * times, last * times);
            work.shared += figures.loaded_once * cores;
            work.loaded += figures.loaded_once * cores + rows * (figures.loaded_outer + inner * figures.loaded_inner);
            work.stored += rows * (figures.stored_outer + inner * figures.stored_inner);
            let (tile_rows, tile_inners) = segment.tile;
            let full = (tile_rows * tile_inners).max(1);
            let tiles = |rows: u64| rows.div_ceil(tile_rows.max(1)) * inner.div_ceil(tile_inners.max(1));
            work.instructions += figures.instructions * (cores.saturating_sub(1) * tiles(run) + tiles(last));
            let repeats = |rows: u64| (figures.repeats * rows * inner).div_ceil(full);
            work.repeats += repeats(rows);
            work.repeats_of_core += repeats(run.min(rows));
            work.buffer_bytes = work.buffer_bytes.max(segment.buffer_bytes);
            work.overlaps &= segment.depth > 1;
        }
        Some(work)
    }
}

impl SegmentSummary {
    /// Of a segment as written, which may have more inner rows than the kernel's: rows that do not fit are cut.
    pub(super) fn of(written: &template::Segment) -> Result<Self, EmitError> {
        let dim = |text: &str| text.parse().map_err(|e: TextError| EmitError::Template(e.to_string()));
        Ok(SegmentSummary {
            inner: dim(&written.figures.inner)?,
            inner_rows: dim(&written.figures.inner_rows)?,
            tile: (written.rows, written.inners),
            depth: written.depth,
            buffer_bytes: written.buffer_bytes(),
            figures: written.figures.clone(),
        })
    }
}

impl Writer<'_> {
    /// What the segment moves and computes.
    pub(super) fn figures(&self) -> template::Figures {
        let mut figures = template::Figures {
            inner: self.segment.inner.to_string(),
            inner_rows: self.inner_rows.to_string(),
            ..template::Figures::default()
        };
        let mut cost = self.tiled.cost;
        for inst in &self.segment.insts {
            match &inst.op {
                InstOp::Load { .. } => {
                    let bytes = self.memory_bytes(inst.results[0]);
                    match self.level(inst.results[0]) {
                        // The start of a pass is that of each row.
                        Level::Kernel if !self.out.passes => figures.loaded_once += bytes,
                        Level::Kernel | Level::Outer => figures.loaded_outer += bytes,
                        Level::Inner => figures.loaded_inner += bytes,
                    }
                }
                InstOp::Store { index, .. } => {
                    let bytes = self.memory_bytes(inst.args[0]);
                    let inner = index.mentions(INNER) || self.level(inst.args[0]) == Level::Inner;
                    *(if inner { &mut figures.stored_inner } else { &mut figures.stored_outer }) += bytes;
                }
                _ => self.add_made(inst, &mut cost),
            }
        }
        (figures.instructions, figures.repeats) = (cost.instructions, cost.repeats);
        figures
    }

    /// Bytes of a value in memory.
    fn memory_bytes(&self, value: Val) -> u64 {
        let ty = self.segment.ty(value);
        let elements = ty.shape.elements().as_const().and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        (elements * u64::from(ty.dtype.bits())).div_ceil(8)
    }

    /// Adds instructions of which a header makes one statement.
    fn add_made(&self, inst: &Inst, cost: &mut Cost) {
        let Some(&operand) = inst.args.first() else { return };
        let ty = self.segment.ty(operand);
        let tile = self.tile.most(self.level(operand));
        let elements = ty.shape.elements().as_const().and_then(|n| u64::try_from(n).ok()).unwrap_or(0) * tile;
        let instructions = match &inst.op {
            InstOp::Reduce { order, .. } => {
                let folds = if let Order::Tree(tree) = order { u64::from(tree.threads.max(1).ilog2()) } else { 0 };
                // The folds after the first take one block each.
                cost.add(folds, 0);
                1
            }
            InstOp::Cast { to: DType::I8 | DType::U8, .. } if ty.dtype.is_float() => BY_HALF,
            InstOp::Cast { to: DType::F8E4M3 | DType::F8E5M2 | DType::F4E2M1, .. } if !self.chip.fp8 => BY_BITS,
            InstOp::Map(fusewright_graph::ScalarFn::RoundEven) => BY_INTEGERS,
            _ => 0,
        };
        cost.add(instructions, elements * self.size(ty.dtype));
    }
}
