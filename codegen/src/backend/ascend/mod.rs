//! Huawei Ascend NPUs: Kernel IR to Ascend C text.
//!
//! Rows are dealt to the vector cores; each core takes its rows one by one through unified buffer, two in flight where
//! they fit. Every map is one vector instruction over the row. The text is a template filled with queues and statements;
//! it is compiled by the vendor's tools, which are not needed here. Nothing of it has run on a device.
//!
//! What the vendor leaves open stays open: NaN in maxima and in conversions to integers, and the last place of division,
//! root and exponential.

mod addresses;
mod backend;
mod casts;
mod chip;
mod conversions;
mod copies;
mod cut;
mod finish;
mod integer;
mod lanes;
mod levels;
mod maps;
mod masks;
mod memory;
mod operands;
mod passes;
mod prepare;
mod queues;
mod reduce;
mod runs;
mod schedule;
mod segment;
mod speed;
mod storage;
mod summary;
mod text;
mod tile;

use fusewright_graph::Dim;
use fusewright_templates::ascend as template;

pub use self::backend::AscendBackend;
pub use self::chip::{ALL as CHIPS, Chip};
pub use self::speed::Speed;
pub use self::summary::{SegmentSummary, Summary, Work};
pub use fusewright_templates::ascend::HEADERS;

use self::text::Names;
use crate::kernel::{Inst, Kernel, Segment};

/// Why a kernel has no Ascend C.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The kernel uses something that this backend does not make code for.
    #[error("{place}: no Ascend C for {what}")]
    Unsupported {
        /// Segment and instruction.
        place: String,
        /// What it is, and why not.
        what: String,
    },
    /// A row does not fit the chip's unified buffer.
    #[error("{0}")]
    TooLarge(String),
    /// Something is covered where a tile is one row alone.
    #[error("more than one row at a time")]
    Single,
    /// The chip is not in the table.
    #[error("no Ascend chip `{0}`; there are {known}", known = CHIPS.iter().map(|c| c.name).collect::<Vec<_>>().join(", "))]
    UnknownChip(String),
    /// The template did not render, which is a defect of this backend.
    #[error("template: {0}")]
    Template(String),
}

impl EmitError {
    fn unsupported(what: impl Into<String>) -> Self {
        EmitError::Unsupported { place: String::new(), what: what.into() }
    }

    fn at(self, segment: &Segment, inst: &Inst) -> Self {
        let result = inst.results.first().map_or_else(String::new, |r| format!(" {r:?}"));
        self.placed(format!("segment `{}`, {}{result}", segment.name, inst.op.name()))
    }

    fn in_segment(self, segment: &Segment) -> Self {
        self.placed(format!("segment `{}`", segment.name))
    }

    fn placed(self, place: String) -> Self {
        match self {
            EmitError::Unsupported { place: known, what } if known.is_empty() => EmitError::Unsupported { place, what },
            other => other,
        }
    }
}

/// Writes the source of a kernel whose functions are all native.
///
/// # Errors
/// An unknown chip, a row that does not fit, or something that this schedule does not cover, named with its reason.
pub fn emit(kernel: &Kernel, chip: &str) -> Result<String, EmitError> {
    emit_with_summary(kernel, chip).map(|(text, _)| text)
}

/// As [`emit`], with what the kernel moves and computes by the plan that the source follows.
///
/// # Errors
/// As [`emit`].
pub fn emit_with_summary(kernel: &Kernel, chip: &str) -> Result<(String, Summary), EmitError> {
    let chip = chip::by_name(chip).ok_or_else(|| EmitError::UnknownChip(chip.to_owned()))?;
    let mut names = Names::new();
    let params: Vec<String> = kernel.params.iter().map(|p| names.claim(&p.name)).collect();
    let prepared = prepare::prepare(kernel).map_err(|e| EmitError::Template(e.to_string()))?;
    let mut groups: Vec<template::Group> = Vec::new();
    let mut summary = Summary { chip, rows: kernel.rows.clone(), segments: Vec::new() };
    for segment in prepared.segments.iter().filter(|s| s.inner != Dim::constant(0)) {
        let mut passes = schedule::write(chip, &prepared, segment, &params).map_err(|e| e.in_segment(segment))?;
        for pass in &mut passes {
            while groups.iter().flat_map(|g| &g.passes).any(|s| s.class == pass.class) {
                pass.class.push('_');
            }
        }
        let group = template::Group { passes };
        let buffer_bytes = group.buffer_bytes();
        for pass in &group.passes {
            summary.segments.push(SegmentSummary { buffer_bytes, ..SegmentSummary::of(pass)? });
        }
        groups.push(group);
    }
    let source = template::Kernel {
        name: kernel.name.clone(),
        chip: chip.vendor,
        arch: chip.arch,
        granule: if chip.ragged_copies { 1 } else { schedule::granule(&prepared) },
        copies: chip.copies().0,
        program: kernel.to_string().lines().map(|line| format!("//   {line}").trim_end().to_owned()).collect(),
        buffers: params,
        dims: kernel.dims.iter().map(|d| d.name.clone()).collect(),
        groups,
    };
    Ok((source.text().map_err(EmitError::Template)?, summary))
}
