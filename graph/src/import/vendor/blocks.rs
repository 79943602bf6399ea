//! Quantisers to block formats and the layouts of their scales.

use fusewright_abi::DType;

use super::super::aten::layout::expand_to;
use super::super::call::{Call, Imported};
use super::One;
use super::vllm::single;
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{Composite, QuantizeNvfp4};
use crate::prim::{Literal, Prim};

pub(super) fn nvfp4(call: &Call<'_>) -> Imported {
    let swizzled = call.bool("is_sf_swizzled_layout")?;
    nvfp4_codes(call, call.tensor("input")?, single(call, "input_scale")?, ("output_scale", swizzled))
}

/// NVFP4 codes, and scales in the layout that the result or the argument for them has: one per block in row order, or in tiles of 128
/// rows by four blocks, four scales to an i32.
pub(super) fn nvfp4_codes(call: &Call<'_>, x: Value, scale: Value, (argument, swizzled): (&str, bool)) -> Imported {
    let b = call.b;
    let results = b.composite(Composite::new(QuantizeNvfp4), &[x, scale])?;
    let [_, stated] = call.results else { return Err("not two results".into()) };
    let tiled = swizzled || stated.dtype.bits() == 32;
    let scales = if tiled { in_tiles(call, results[1])? } else { results[1] };
    let words = stated.dtype.bits();
    let scales = match words {
        8 => scales,
        32 => b.prim(Prim::Pack { ways: 4, to: stated.dtype }, &[scales])?,
        _ => return Err(format!("`{argument}`: scales in {}", stated.dtype).into()),
    };
    let scales = if words == 8 && stated.dtype != DType::F8E4M3 { b.bitcast(scales, stated.dtype)? } else { scales };
    Ok(vec![results[0], scales])
}

/// Scales `[m, k]` at `(((m >> 7) · ⌈k/4⌉ + (k >> 2)) << 9) | ((m & 31) << 4) | (((m >> 5) & 3) << 2) | (k & 3)`, in rows
/// and columns filled up with zeros.
fn in_tiles(call: &Call<'_>, scales: Value) -> One {
    let b = call.b;
    let shape = b.ty(scales).shape;
    let [rows, blocks] = shape.as_slice() else { return Err("rows of other than two axes".into()) };
    let (four, tile) = (Dim::constant(4), Dim::constant(128));
    let (row_tiles, column_tiles) = (rows.ceil_div(&tile), blocks.ceil_div(&four));
    let (height, width) = (&row_tiles * &tile, &column_tiles * &four);
    let zeros = |shape: &[Dim]| -> One {
        let zero = b.prim(Prim::Literal(Literal::Float(DType::F8E4M3, 0.0)), &[])?;
        expand_to(call, zero, shape)
    };
    let mut full = scales;
    if width != *blocks {
        full = b.cat(&[full, zeros(&[rows.clone(), &width - blocks])?], 1)?;
    }
    if height != *rows {
        full = b.cat(&[full, zeros(&[&height - rows, width.clone()])?], 0)?;
    }
    let split = vec![row_tiles, four.clone(), Dim::constant(32), column_tiles, four];
    let split = b.reshape(full, split)?;
    let tiled = b.prim(Prim::Permute { perm: vec![0, 3, 2, 1, 4] }, &[split])?;
    Ok(b.reshape(tiled, vec![height, width])?)
}
