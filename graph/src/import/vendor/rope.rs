//! Rotations of heads by a table of cosines and sines per position.

use fusewright_abi::DType;

use super::super::aten::layout::cut;
use super::super::aten::promote::convert;
use super::super::call::{Call, Imported, Refusal};
use super::vllm::halves;
use super::{One, last_axis};
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{Composite, RopeNeox};
use crate::prim::Prim;
use crate::scalar::ScalarFn;

/// A rotation of the first lanes of every head, in f32 and rounded once.
struct Rotation {
    cos: Value,
    sin: Value,
    tokens: Dim,
    half: Dim,
    /// Lanes of a head.
    width: Dim,
    /// Whether a lane of the first half and one of the second are a pair, or neighbours.
    neox: bool,
}

impl Rotation {
    /// The rows of `cos_sin_cache` at `positions`.
    fn of(call: &Call<'_>, width: &str, neox: &str, inverse: bool) -> Result<Rotation, Refusal> {
        let b = call.b;
        let (positions, cache) = (call.tensor("positions")?, call.tensor("cos_sin_cache")?);
        let tokens = b.ty(positions).elements();
        let flat = b.reshape(positions, vec![tokens.clone()])?;
        let rows = convert(b, b.prim(Prim::Gather { axis: 0 }, &[cache, flat])?, DType::F32)?;
        let [cos, mut sin] = halves(call, rows, "cos_sin_cache")?;
        if inverse {
            sin = b.map(ScalarFn::Neg, &[sin])?;
        }
        let half = b.ty(cos).shape[1].clone();
        let per_token = |table| b.reshape(table, vec![tokens.clone(), Dim::constant(1), half.clone()]);
        let (cos, sin) = (per_token(cos)?, per_token(sin)?);
        let (width, neox) = (Dim::constant(call.int(width)?), call.bool(neox)?);
        Ok(Rotation { cos, sin, tokens, half, width, neox })
    }

    /// `(a·cos − b·sin, b·cos + a·sin)` over the heads of an argument; lanes beyond the table pass through.
    fn turned(&self, call: &Call<'_>, argument: &str) -> One {
        let (b, x) = (call.b, call.tensor(argument)?);
        let ty = b.ty(x);
        let per_token = ty.elements().exact_div(&self.tokens).and_then(|n| n.exact_div(&self.width));
        let per_token = per_token.ok_or_else(|| call.refused(argument, "heads of another width"))?;
        let shape = vec![self.tokens.clone(), per_token, self.width.clone()];
        let heads = b.reshape(x, shape)?;
        let turned = &self.half + &self.half;
        let (zero, one, two) = (Dim::constant(0), Dim::constant(1), Dim::constant(2));
        let active = convert(b, cut(call, heads, 2, [zero.clone(), turned.clone()], 1)?, DType::F32)?;
        let [first, second] = if self.neox {
            halves(call, active, "cos_sin_cache")?
        } else {
            [cut(call, active, 2, [zero, turned.clone()], 2)?, cut(call, active, 2, [one.clone(), turned.clone()], 2)?]
        };
        let low = b.sub(b.mul(first, self.cos)?, b.mul(second, self.sin)?)?;
        let high = b.add(b.mul(second, self.cos)?, b.mul(first, self.sin)?)?;
        let joined = if self.neox {
            b.cat(&[low, high], 2)?
        } else {
            let mut pair = b.ty(low).shape;
            pair.push(one);
            let pairs = b.cat(&[b.reshape(low, pair.clone())?, b.reshape(high, pair.clone())?], 3)?;
            pair.pop();
            pair[2] = &pair[2] * &two;
            b.reshape(pairs, pair)?
        };
        let mut y = b.cast(joined, ty.dtype)?;
        if turned != self.width {
            y = b.cat(&[y, cut(call, heads, 2, [turned, self.width.clone()], 1)?], 2)?;
        }
        Ok(b.reshape(y, ty.shape)?)
    }
}

/// vLLM's rotation of query and key.
pub(super) fn rotary_embedding(call: &Call<'_>) -> Imported {
    if call.int("rope_dim_offset")? != 0 {
        return Err(call.refused("rope_dim_offset", "an offset of the rotation"));
    }
    let rotation = Rotation::of(call, "head_size", "is_neox", call.bool("inverse")?)?;
    let mut rotated = Vec::new();
    for name in ["query", "key"] {
        if !call.is_none(name)? {
            rotated.push(rotation.turned(call, name)?);
        }
    }
    Ok(rotated)
}

/// The same on Ascend, by the kernel behind `npu_mrope`, which has tables in the dtype of the rows.
pub(super) fn npu_rotary_embedding(call: &Call<'_>) -> Imported {
    for (name, what) in [("offsets", "positions of several batches"), ("out_dtype", "codes of the result")] {
        if !call.is_none(name)? {
            return Err(format!("`{name}`: {what}").into());
        }
    }
    let b = call.b;
    let (query, cache) = (call.tensor("query")?, b.ty(call.tensor("cos_sin_cache")?));
    if cache.dtype != b.dtype(query) {
        return Err(call.refused("cos_sin_cache", "another dtype than the rows, and where it is rounded is not known"));
    }
    if cache.shape.last() != Some(&call.dim("rotary_dim")?) {
        return Err(call.refused("rotary_dim", "not the width of `cos_sin_cache`"));
    }
    let rotation = Rotation::of(call, "head_size", "is_neox_style", false)?;
    ["query", "key"].into_iter().map(|name| rotation.turned(call, name)).collect()
}

/// Neighbours are pairs, and the first of all of them come before the second: `x·cos + turned(x)·sin` in f32, rounded
/// once, under tables of the full width.
pub(super) fn interleaved_to_halves(call: &Call<'_>, (name, x): (&str, Value), [cos, sin]: [Value; 2]) -> One {
    let b = call.b;
    let axis = last_axis(call, x)?;
    let lanes = b.ty(x).shape[axis].clone();
    if lanes.exact_div(&Dim::constant(2)).is_none() {
        return Err(call.refused(name, "an odd number of lanes"));
    }
    let every_other = |start| cut(call, x, axis, [Dim::constant(start), lanes.clone()], 2);
    let halves = b.cat(&[every_other(0)?, every_other(1)?], axis)?;
    let wide = |x| convert(b, x, DType::F32);
    let y = b.composite(Composite::new(RopeNeox), &[wide(halves)?, wide(cos)?, wide(sin)?])?[0];
    if b.ty(y).shape != b.ty(x).shape {
        return Err(call.refused("cos", "tables of another width than the rows"));
    }
    Ok(b.cast(y, b.dtype(x))?)
}

pub(super) fn interleave_rope(call: &Call<'_>) -> Imported {
    Ok(vec![interleaved_to_halves(call, ("x", call.tensor("x")?), [call.tensor("cos")?, call.tensor("sin")?])?])
}
