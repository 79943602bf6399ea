//! vLLM's writes of keys and values to paged caches. A token without a slot has a negative one and is skipped.

use fusewright_abi::DType;

use super::super::aten::layout::cut;
use super::super::call::{Call, Imported, Refusal};
use super::One;
use super::vllm::single;
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::ops::{Apply, Codes, Composite, NanCode, QuantizeStatic};
use crate::prim::Prim;

/// What a cache holds of its rows.
enum Stored {
    /// Their own dtype.
    AsIs,
    /// Codes by a division by a scale; what is beyond the largest is that.
    Coded(Codes, f64),
}

fn stored(call: &Call<'_>) -> Result<Stored, Refusal> {
    match call.word("kv_cache_dtype")? {
        "auto" => Ok(Stored::AsIs),
        "fp8" | "fp8_e4m3" => Ok(Stored::Coded(Codes::F8E4M3, 448.0)),
        "fp8_e5m2" => Ok(Stored::Coded(Codes::F8E5M2, 57344.0)),
        _ => Err(call.refused("kv_cache_dtype", "codes that are not known")),
    }
}

/// Rows as `cache` holds them: its dtype may be that of bytes for codes.
fn coded(call: &Call<'_>, x: Value, scale: &str, cache: &str) -> One {
    let b = call.b;
    let held = b.dtype(call.tensor(cache)?);
    let rows = match stored(call)? {
        Stored::AsIs => x,
        Stored::Coded(codes, bound) => {
            let op = QuantizeStatic { codes, apply: Apply::Divide, bound, nan: NanCode::Propagate };
            b.composite(Composite::new(op), &[x, single(call, scale)?])?[0]
        }
    };
    if b.dtype(rows) == held {
        return Ok(rows);
    }
    if held == DType::U8 && b.dtype(rows).bits() == held.bits() {
        return Ok(b.bitcast(rows, held)?);
    }
    Err(call.refused(cache, &format!("rows are {}", b.dtype(rows))))
}

/// A line of slots; tokens behind the last slot are filled up and count for nothing.
fn slots(call: &Call<'_>) -> One {
    let slots = call.tensor("slot_mapping")?;
    Ok(call.b.reshape(slots, vec![call.b.ty(slots).elements()])?)
}

/// The rows of `x` that have a slot.
fn of_slots(call: &Call<'_>, x: Value, slots: Value) -> One {
    let count = call.b.ty(slots).shape[0].clone();
    cut(call, x, 0, [Dim::constant(0), count], 1)
}

/// The argument `name` as `cache`: blocks of slots of rows of the shape `row`, with `rows` in their slots.
fn written(call: &Call<'_>, (name, cache): (&str, Value), slots: Value, rows: Value) -> One {
    let b = call.b;
    let shape = b.ty(cache).shape;
    let [blocks, size, row @ ..] = shape.as_slice() else { return Err(call.refused(name, "less than two axes")) };
    let count = b.ty(slots).shape[0].clone();
    let line: Vec<Dim> = [blocks * size].into_iter().chain(row.iter().cloned()).collect();
    let given: Vec<Dim> = [count.clone()].into_iter().chain(row.iter().cloned()).collect();
    if b.ty(rows).elements() != &count * &product(row) {
        return Err(call.refused(name, "rows of another width"));
    }
    let line = b.reshape(cache, line)?;
    let line = b.prim(Prim::Scatter { axis: 0 }, &[line, slots, b.reshape(rows, given)?])?;
    Ok(b.reshape(line, shape)?)
}

/// Blocks of slots of heads: `[blocks, slots, heads, lanes]`.
pub(super) fn reshape_and_cache_flash(call: &Call<'_>) -> Imported {
    let slots = slots(call)?;
    let one = |x: &str, cache: &str, scale: &str| -> One {
        let rows = of_slots(call, call.tensor(x)?, slots)?;
        written(call, (cache, call.tensor(cache)?), slots, coded(call, rows, scale, cache)?)
    };
    Ok(vec![one("key", "key_cache", "k_scale")?, one("value", "value_cache", "v_scale")?])
}

/// Heads outside, slots inside: keys `[blocks, heads, lanes/x, slots, x]`, values `[blocks, heads, lanes, slots]`.
pub(super) fn reshape_and_cache(call: &Call<'_>) -> Imported {
    let slots = slots(call)?;
    let one = |x: &str, name: &str, scale: &str, slot_axis: usize| -> One {
        let b = call.b;
        let cache = call.tensor(name)?;
        let rank = b.ty(cache).rank();
        if rank != slot_axis + if x == "key" { 2 } else { 1 } {
            return Err(call.refused(name, "a cache of another number of axes"));
        }
        let inner = (1..rank).filter(|&axis| axis != slot_axis);
        let outside: Vec<usize> = [0, slot_axis].into_iter().chain(inner).collect();
        let mut back = vec![0; rank];
        outside.iter().enumerate().for_each(|(to, &from)| back[from] = to);
        let pages = b.prim(Prim::Permute { perm: outside }, &[cache])?;
        let rows = of_slots(call, call.tensor(x)?, slots)?;
        let pages = written(call, (name, pages), slots, coded(call, rows, scale, name)?)?;
        Ok(b.prim(Prim::Permute { perm: back }, &[pages])?)
    };
    Ok(vec![one("key", "key_cache", "k_scale", 3)?, one("value", "value_cache", "v_scale", 3)?])
}

/// The compressed row of latent attention and the rotated part beside it, in one row.
pub(super) fn concat_and_cache_mla(call: &Call<'_>) -> Imported {
    let b = call.b;
    let (slots, cache) = (slots(call)?, "kv_cache");
    let part = |name: &str| -> One {
        let x = of_slots(call, call.tensor(name)?, slots)?;
        let shape = b.ty(x).shape;
        let width = product(shape.get(1..).unwrap_or(&[]));
        Ok(b.reshape(x, vec![b.ty(slots).shape[0].clone(), width])?)
    };
    let row = b.cat(&[part("kv_c")?, part("k_pe")?], 1)?;
    Ok(vec![written(call, (cache, call.tensor(cache)?), slots, coded(call, row, "scale", cache)?)?])
}
