//! How large the tiles of a segment are: as large as good transfers ask for and unified buffer allows.

use fusewright_graph::Dim;
use fusewright_templates::ascend as template;

use super::EmitError;
use super::chip::Chip;
use super::cut::cut_rows;
use super::memory::BLOCK;
use super::passes::passes;
use super::segment::{self, Made};
use super::tile::Tile;
use crate::kernel::{INNER, InstOp, Kernel, Level, ROW, Segment};

/// Bytes that a transfer should have.
const GOOD_TRANSFER: u64 = 16 << 10;
/// Most inner rows of a tile.
const MOST_ROWS: u64 = 64;
/// Bytes of a line of a scalar unit's cache.
const LINE: u64 = 64;
/// More rows than there are.
const ALL_ROWS: u64 = 1 << 40;
/// Lanes that rows are cut to where they do not fit.
const CUT: i64 = 2048;

/// Writes a segment in the largest tiles that are of use; in several passes if its rows do not fit.
pub(super) fn write(chip: Chip, kernel: &Kernel, segment: &Segment, params: &[String]) -> Made<Vec<template::Segment>> {
    let known = segment.types.iter().all(|t| t.shape.elements().as_const().is_some());
    if !known {
        return in_passes(chip, kernel, segment, params);
    }
    let whole = in_tiles(chip, kernel, segment, params);
    match whole {
        Err(EmitError::TooLarge(_)) => in_passes(chip, kernel, segment, params).or(whole.map(|s| vec![s])),
        other => other.map(|segment| vec![segment]),
    }
}

/// One class for each pass; they share unified buffer.
fn in_passes(chip: Chip, kernel: &Kernel, segment: &Segment, params: &[String]) -> Made<Vec<template::Segment>> {
    let passes = passes(segment)?;
    let mut refused = None;
    for lanes in [8192, 4096, 2048, 1024, 512] {
        let written = passes.iter().map(|pass| {
            let inner = &pass.segment.inner;
            let inners = if *inner == Dim::constant(1) { 1 } else { lanes };
            let tile = Tile { rows: 1, inners, inner: inner.clone() };
            segment::write(chip, kernel, &pass.segment, params, &tile, 2, Some(pass))
        });
        let written = match written.collect::<Made<Vec<_>>>() {
            Err(EmitError::TooLarge(why)) => {
                refused = Some(why);
                continue;
            }
            // There is no smaller tile than a part of a row.
            Err(EmitError::Single) => {
                return Err(EmitError::unsupported("lanes in another order, in a row that does not fit"));
            }
            other => other?,
        };
        let group = template::Group { passes: written };
        let bytes = group.buffer_bytes();
        if bytes <= chip.buffer_bytes {
            return Ok(group.passes);
        }
        refused = Some(format!("{bytes} bytes of unified buffer: {} has {}", chip.vendor, chip.buffer_bytes));
    }
    Err(EmitError::TooLarge(refused.unwrap_or_default()))
}

/// Rows whose multiples begin a line of a scalar unit's cache in every output that scalar units store the ends of: two
/// cores that store to one line undo each other's stores. Where there is none, one core computes all.
pub(super) fn granule(kernel: &Kernel) -> u64 {
    let stores = kernel.segments.iter().flat_map(|segment| {
        segment.insts.iter().filter_map(move |inst| match &inst.op {
            InstOp::Store { index, .. } => Some((index, segment.ty(inst.args[0]))),
            _ => None,
        })
    });
    let of_store = |(index, ty): (&Dim, &crate::kernel::Ty)| {
        let size = u64::from(ty.dtype.bits()).div_ceil(8);
        let whole = |n: &Dim| n.as_const().is_some_and(|n| (n.unsigned_abs() * size).is_multiple_of(BLOCK));
        if whole(&ty.shape.elements()) {
            return 1;
        }
        let slope = |name: &str| index.split_linear(name).and_then(|(slope, _)| slope.as_const());
        // Inner rows lie within their outer row, or else anywhere.
        let by_row = slope(ROW).filter(|n| *n > 0 && slope(INNER).is_some_and(|inner| inner < *n));
        let bytes = by_row.map(|n| n.unsigned_abs() * size);
        bytes.map_or(ALL_ROWS, |bytes| LINE >> bytes.trailing_zeros().min(LINE.trailing_zeros()))
    };
    stores.map(of_store).max().unwrap_or(1)
}

fn in_tiles(chip: Chip, kernel: &Kernel, segment: &Segment, params: &[String]) -> Made<template::Segment> {
    let whole = tiles(chip, kernel, segment, params);
    let Err(EmitError::TooLarge(_)) = whole else { return whole };
    let longest = segment.types.iter().filter_map(|t| t.shape.elements().as_const()).max().unwrap_or(0);
    let parts = (1..=longest).filter(|p| longest % p == 0 && longest / p <= CUT);
    for parts in parts.take(8) {
        if let Some(cut) = cut_rows(kernel, segment, parts) {
            return tiles(chip, kernel, &cut, params);
        }
    }
    whole
}

fn tiles(chip: Chip, kernel: &Kernel, segment: &Segment, params: &[String]) -> Made<template::Segment> {
    let wanted = wanted(segment);
    let attempt = |tile: &Tile, depth| segment::write(chip, kernel, segment, params, tile, depth, None);
    for tile in &wanted {
        match attempt(tile, 2) {
            Err(EmitError::TooLarge(_) | EmitError::Single) => {}
            other => return other,
        }
    }
    let single = Tile::single(&segment.inner);
    match attempt(&single, 2) {
        Err(EmitError::TooLarge(_)) => attempt(&single, 1),
        other => other,
    }
}

/// Tiles of more than one row, largest first.
fn wanted(segment: &Segment) -> Vec<Tile> {
    let levels = segment.levels();
    let bytes = |inst: &crate::kernel::Inst| {
        let varies = inst.results.first().is_some_and(|r| levels[r.0 as usize] != Level::Kernel);
        let ty = segment.ty(*inst.results.first()?);
        let loaded = matches!(inst.op, InstOp::Load { .. }) && varies && ty.dtype.is_float();
        loaded.then(|| ty.shape.elements().as_const()).flatten().map(|n| n as u64 * u64::from(ty.dtype.bits()) / 8)
    };
    let row = segment.insts.iter().filter_map(bytes).max().unwrap_or(0).max(1);
    let most = GOOD_TRANSFER.div_ceil(row).clamp(1, MOST_ROWS);
    let mut tiles = Vec::new();
    let mut rows = most;
    while rows > 1 {
        tiles.push(tile(&segment.inner, rows));
        rows = rows.div_ceil(2);
    }
    tiles.dedup();
    tiles.retain(|tile| !tile.is_single());
    tiles
}

/// A tile of about so many inner rows.
fn tile(inner: &Dim, rows: u64) -> Tile {
    match inner.as_const().and_then(|n| u64::try_from(n).ok()) {
        Some(inners) if inners <= rows => {
            Tile { rows: rows / inners.max(1), inners: inners.max(1), inner: inner.clone() }
        }
        Some(inners) => {
            // Parts of equal size, as far as they go.
            let parts = inners.div_ceil(rows);
            Tile { rows: 1, inners: inners.div_ceil(parts), inner: inner.clone() }
        }
        None => Tile { rows: 1, inners: rows, inner: inner.clone() },
    }
}
