//! Ascend's norm and rotation of the compressed row of latent attention, and the writes of both to caches.

use fusewright_abi::DType;

use super::super::aten::layout::{cut, expand_to};
use super::super::aten::promote::convert;
use super::super::call::{Call, Imported, Refusal};
use super::super::schema::Argument;
use super::One;
use super::ascend_quant::{absent, unwritten};
use super::rope::interleaved_to_halves;
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{Composite, Mean, RmsNorm, RmsRounding, RmsScale, Root};
use crate::prim::Prim;
use crate::scalar::ScalarFn;

/// `x / √(Σ x²·(1/n) + eps) · gamma` in f32, rounded once. The factor is exact for the rows that the kernel has.
fn norm(call: &Call<'_>, x: Value) -> One {
    let b = call.b;
    let lanes = b.ty(x).shape.last().and_then(Dim::as_const);
    if !lanes.is_some_and(|n| n > 0 && n.count_ones() == 1) {
        return Err(call.refused("gamma", "rows that are no power of two"));
    }
    let eps = f64::from(call.scalar("epsilon")?.as_f64() as f32);
    let scale = RmsScale { eps, mean: Mean::Quotient, root: Root::Divide };
    let op = RmsNorm { scale, round: RmsRounding::Once };
    Ok(b.composite(Composite::new(op), &[x, call.tensor("gamma")?])?[0])
}

/// Where the tokens of a batch go among the rows of a cache that is taken as a line of rows.
fn slots(call: &Call<'_>, cache: &str, [batch, tokens]: [&Dim; 2], rows: Option<&Dim>) -> One {
    let b = call.b;
    let index = convert(b, call.tensor("index")?, DType::I64)?;
    let Some(rows) = rows.filter(|_| batch.as_const() != Some(1)) else {
        return Ok(b.reshape(index, vec![batch * tokens])?);
    };
    let index = b.reshape(index, vec![batch.clone(), tokens.clone()])?;
    let shape = vec![batch.clone(), Dim::constant(1)];
    let number = b.prim(Prim::Iota { dtype: DType::I64, shape, axis: 0 }, &[])?;
    let rows = rows.as_const().ok_or_else(|| call.refused(cache, "an unknown length"))?;
    let first = b.mul(number, b.int(DType::I64, rows)?)?;
    let absent = b.map(ScalarFn::Lt, &[index, b.int(DType::I64, 0)?])?;
    let place = b.map(ScalarFn::Select, &[absent, b.int(DType::I64, -1)?, b.add(index, first)?])?;
    Ok(b.reshape(place, vec![batch * tokens])?)
}

/// A cache with the rows of `x`, `[batch, heads, tokens, lanes]`, in their places.
fn written(call: &Call<'_>, name: &str, x: Value) -> One {
    let b = call.b;
    let (cache, refuse) = (call.tensor(name)?, |why: &str| Err(call.refused(name, why)));
    let (ty, shape) = (b.ty(cache), b.ty(x).shape);
    let [batch, heads, tokens, lanes] = shape.as_slice() else {
        return Err(call.refused("kv", "other than four axes"));
    };
    let [outer, middle, third, width] = ty.shape.as_slice() else {
        return refuse("other than four axes");
    };
    if ty.dtype != b.dtype(x) {
        return refuse(&format!("the rows are {}", b.dtype(x)));
    }
    if width != lanes {
        return refuse("rows of another width");
    }
    let (slots, rows) = match call.word("cache_mode")? {
        "Norm" if middle != heads => return refuse("a cache of other heads"),
        "Norm" if heads.as_const() == Some(1) => (slots(call, name, [batch, tokens], Some(third))?, outer * third),
        "Norm" => return refuse("several heads in a cache of batches"),
        "PA" | "PA_BNSD" if third == heads => (slots(call, name, [batch, tokens], None)?, outer * middle),
        "PA" | "PA_BNSD" => return refuse("a cache of other heads"),
        _ => return Err(call.refused("cache_mode", "a layout that is not known")),
    };
    let by_token =
        if heads.as_const() == Some(1) { x } else { b.prim(Prim::Permute { perm: vec![0, 2, 1, 3] }, &[x])? };
    let values = b.reshape(by_token, vec![batch * tokens, heads.clone(), lanes.clone()])?;
    let line = b.reshape(cache, vec![rows, heads.clone(), lanes.clone()])?;
    let line = b.prim(Prim::Scatter { axis: 0 }, &[line, slots, values])?;
    Ok(b.reshape(line, ty.shape)?)
}

/// Both caches, the rotated and the normalised part of the rows.
fn parts(call: &Call<'_>) -> Result<[Value; 4], Refusal> {
    absent(
        call,
        &[
            ("v", "keys that are normalised before they are rotated"),
            ("k_rope_scale", "codes in the cache"),
            ("c_kv_scale", "codes in the cache"),
            ("k_rope_offset", "codes in the cache"),
            ("c_kv_offset", "codes in the cache"),
        ],
    )?;
    let b = call.b;
    let kv = call.tensor("kv")?;
    let shape = b.ty(kv).shape;
    let lanes = shape.get(3).ok_or_else(|| call.refused("kv", "other than four axes"))?;
    let split = b.ty(call.tensor("gamma")?).elements();
    let compressed = norm(call, cut(call, kv, 3, [Dim::constant(0), split.clone()], 1)?)?;
    let turned = cut(call, kv, 3, [split, lanes.clone()], 1)?;
    let mut tables = [call.tensor("cos")?, call.tensor("sin")?];
    for table in &mut tables {
        let mut wide = b.ty(turned).shape;
        wide[1] = Dim::constant(1);
        *table = expand_to(call, *table, &wide)?;
    }
    let turned = interleaved_to_halves(call, ("kv", turned), tables)?;
    let caches = [written(call, "k_cache", turned)?, written(call, "ckv_cache", compressed)?];
    Ok([caches[0], caches[1], turned, compressed])
}

/// The rows themselves, which are results only where that is asked for.
fn rows(call: &Call<'_>, [turned, compressed]: [Value; 2], [first, second]: [usize; 2]) -> Result<[Value; 2], Refusal> {
    if call.bool("is_output_kv")? {
        return Ok([turned, compressed]);
    }
    Ok([unwritten(call, first)?, unwritten(call, second)?])
}

/// The schema has no effects, but the op writes to the memory of its caches: a graph that does not read the caches that
/// it returns means those.
pub(super) fn kv_rmsnorm_rope_cache(call: &Call<'_>) -> Imported {
    for output in call.node.outputs.iter().take(2) {
        if !matches!(output, Argument::Tensor(name) if !name.contains("_unused_")) {
            return Err("`k_cache` and `ckv_cache` are written, but not read from the results".into());
        }
    }
    let [k_cache, ckv_cache, turned, compressed] = parts(call)?;
    let [turned, compressed] = rows(call, [turned, compressed], [2, 3])?;
    Ok(vec![k_cache, ckv_cache, turned, compressed])
}

/// The same with the rows before the caches.
pub(super) fn kv_rmsnorm_rope_cache_functional(call: &Call<'_>) -> Imported {
    absent(call, &[("k_cache_dtype", "codes in the cache"), ("ckv_cache_dtype", "codes in the cache")])?;
    let [k_cache, ckv_cache, turned, compressed] = parts(call)?;
    let [turned, compressed] = rows(call, [turned, compressed], [0, 1])?;
    Ok(vec![turned, compressed, k_cache, ckv_cache])
}
