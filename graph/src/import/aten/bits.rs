//! The bits of a tensor as another dtype.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal};
use super::promote::constant;
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::import::call::Scalar;
use crate::prim::{Prim, Rounding};
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// The unsigned integer of as many bits.
fn unsigned(dtype: DType) -> Result<DType, Refusal> {
    Ok(match dtype.bits() {
        8 => DType::U8,
        16 => DType::U16,
        32 => DType::U32,
        64 => DType::U64,
        bits => return Err(format!("the bits of {bits}-bit elements").into()),
    })
}

/// The same bits as another dtype. Between dtypes of other widths elements are joined or taken apart along the last axis,
/// the first in the low bits.
pub(super) fn view_dtype(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let to = call.dtype_or_none("dtype")?.ok_or("no dtype is given")?;
    let from = b.dtype(x);
    if from == to {
        return Ok(vec![x]);
    }
    if from == DType::Bool || to == DType::Bool || from.bits() < 8 || to.bits() < 8 {
        return Err(format!("the bits of {from} as {to}").into());
    }
    let (narrow, wide) = (unsigned(from)?, unsigned(to)?);
    if from.bits() == to.bits() {
        return Ok(vec![b.bitcast(x, to)?]);
    }
    let words = b.bitcast(x, narrow)?;
    let words = if from.bits() < to.bits() {
        b.prim(Prim::Pack { ways: to.bits() / from.bits(), to: wide }, &[words])?
    } else {
        apart(b, words, wide)?
    };
    Ok(vec![b.bitcast(words, to)?])
}

/// The parts of every word, the low one first, along the last axis.
fn apart(b: &Builder, words: Value, to: DType) -> One {
    let (from, mut shape) = (b.dtype(words), b.ty(words).shape);
    let ways = i64::from(from.bits() / to.bits());
    let axis = shape.len();
    let extent = shape.last_mut().ok_or("a tensor without axes")?;
    let whole = &*extent * &Dim::constant(ways);
    let mut column = shape.clone();
    column.push(Dim::constant(1));
    let mut parts = Vec::with_capacity(ways as usize);
    for i in 0..ways {
        let by = constant(b, from, Scalar::Int(i * i64::from(to.bits())))?;
        let shifted = if i == 0 { words } else { b.map(ScalarFn::Shr, &[words, by])? };
        // A cast of integers that does not saturate keeps the low bits.
        let low = b.prim(Prim::Cast { to, round: Rounding::NearestEven, saturate: false }, &[shifted])?;
        parts.push(b.reshape(low, column.clone())?);
    }
    let pairs = b.cat(&parts, axis)?;
    if let Some(last) = shape.last_mut() {
        *last = whole;
    }
    Ok(b.reshape(pairs, shape)?)
}
