//! Dtypes and tensor types as the file states them.

use std::collections::BTreeSet;

use fusewright_abi::DType;

use super::dims;
use super::schema::{SymInt, TensorMeta};
use crate::dim::Dim;
use crate::dim_range::simplified;
use crate::graph::Symbol;
use crate::ty::{MAX_AXES, TensorType};

/// The dtype of a serialised `ScalarType`.
///
/// # Errors
/// Complex types, whose parts have dtypes, quantised types and the fp8 types without a signed zero.
pub(super) fn dtype(code: i64) -> Result<DType, String> {
    Ok(match code {
        1 => DType::U8,
        2 => DType::I8,
        3 => DType::I16,
        4 => DType::I32,
        5 => DType::I64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        12 => DType::Bool,
        13 => DType::BF16,
        28 => DType::U16,
        29 => DType::F8E4M3,
        30 => DType::F8E5M2,
        33 => DType::F8E8M0,
        34 => DType::U32,
        35 => DType::U64,
        _ => return Err(format!("has the unsupported dtype {}", dtype_name(code))),
    })
}

/// The dtype of the parts of complex numbers.
fn part(code: i64) -> Option<DType> {
    match code {
        10 => Some(DType::F32),
        11 => Some(DType::F64),
        _ => None,
    }
}

/// Whether a tensor is one of complex numbers.
pub(super) fn is_complex(meta: &TensorMeta) -> bool {
    part(meta.dtype).is_some()
}

fn dtype_name(code: i64) -> String {
    let name = match code {
        9 => "complex32",
        10 => "complex64",
        11 => "complex128",
        31 => "float8_e4m3fnuz",
        32 => "float8_e5m2fnuz",
        _ => return format!("number {code}"),
    };
    name.to_owned()
}

/// The extent that a size states.
pub(super) fn dim(size: &SymInt) -> Result<Dim, String> {
    match size {
        SymInt::Int(n) => Ok(Dim::constant(*n)),
        SymInt::Expr(text) => dims::parse(text).map_err(|message| format!("size `{}` {message}", dims::clipped(text))),
        SymInt::Unknown(kind) => Err(format!("has a size of the unknown kind `{kind}`")),
    }
}

/// Number of the layout in which strides say where elements are; the others are of sparse tensors.
const STRIDED: i64 = 7;

/// The type of the value that stands for a tensor, by the tensor's metadata. Complex numbers have a last axis of two, the
/// real and the imaginary part.
pub(super) fn tensor_type(meta: &TensorMeta) -> Result<TensorType, String> {
    if let Some(layout) = meta.layout.filter(|layout| *layout != STRIDED) {
        return Err(format!("has the memory layout {layout}; only strided tensors are read"));
    }
    let part = part(meta.dtype);
    let dtype = part.map_or_else(|| dtype(meta.dtype), Ok)?;
    let mut shape: Vec<Dim> = meta.sizes.iter().map(dim).collect::<Result<_, _>>()?;
    shape.extend(part.map(|_| Dim::constant(2)));
    if shape.len() > MAX_AXES {
        return Err(format!("has {} axes, more than {MAX_AXES}", shape.len()));
    }
    match shape.iter().find(|d| d.as_const().is_some_and(|n| n < 0)) {
        Some(negative) => Err(format!("has the extent {negative}")),
        None => Ok(TensorType::new(dtype, shape)),
    }
}

/// Whether two types are the same as far as can be told: equal, or equal at a sample of symbol values where an extent
/// is written with functions such as `floordiv`, whose forms are not all unique.
pub(super) fn agree(a: &TensorType, b: &TensorType, symbols: &[Symbol]) -> bool {
    let same = |(x, y): (&Dim, &Dim)| same_extent(x, y, symbols);
    a.dtype == b.dtype && a.rank() == b.rank() && a.shape.iter().zip(&b.shape).all(same)
}

pub(super) fn same_extent(a: &Dim, b: &Dim, symbols: &[Symbol]) -> bool {
    if a == b {
        return true;
    }
    if a.as_polynomial().is_some() && b.as_polynomial().is_some() {
        return false;
    }
    let (a, b) = (simplified(a, symbols), simplified(b, symbols));
    let mut names = BTreeSet::new();
    a.collect_symbols(&mut names);
    b.collect_symbols(&mut names);
    let names: Vec<String> = names.into_iter().collect();
    let in_range = |name: &str, value: i64| {
        let declared = symbols.iter().find(|s| s.name == name);
        declared.map_or(value, |s| value.min(s.max.unwrap_or(value)).max(s.min))
    };
    a == b
        || [2i64, 3, 7, 16, 129, 1000, 4096].iter().all(|sample| {
            // Whichever symbol is the larger.
            [5, -5].into_iter().all(|step| {
                let from = if step < 0 { sample - step * names.len() as i64 } else { *sample };
                let at = |name: &str| names.iter().position(|n| n == name);
                let value = |name: &str| at(name).map(|i| in_range(name, from + step * i as i64));
                let (x, y) = (a.eval(&value), b.eval(&value));
                x.is_err() || y.is_err() || x == y
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::DimFn;

    #[test]
    fn extents_with_functions_are_compared_by_value() {
        let s = Dim::symbol("s");
        let two = Dim::constant(2);
        let up = (&s + &Dim::constant(1)).clone();
        let half_up = Dim::function(DimFn::FloorDiv, &up, &two);
        let split = &s - &Dim::function(DimFn::FloorDiv, &s, &two);
        assert!(same_extent(&half_up, &split, &[]));
        assert!(!same_extent(&half_up, &Dim::function(DimFn::FloorDiv, &s, &two), &[]));
        assert!(!same_extent(&s, &up, &[]));
        let lesser = Dim::function(DimFn::Min, &s, &Dim::symbol("t"));
        assert!(!same_extent(&lesser, &s, &[]) && !same_extent(&lesser, &Dim::symbol("t"), &[]));
        let short = [Symbol { name: "s".into(), min: 2, max: Some(64) }];
        let chunks = s.ceil_div(&Dim::constant(64));
        assert!(same_extent(&Dim::function(DimFn::Max, &s, &two), &s, &short));
        assert!(same_extent(&chunks, &Dim::constant(1), &short) && !same_extent(&chunks, &two, &short));
    }

    #[test]
    fn unsupported_dtypes_are_named() {
        assert_eq!(dtype(9), Err("has the unsupported dtype complex32".into()));
        assert_eq!(dtype(99), Err("has the unsupported dtype number 99".into()));
    }
}
