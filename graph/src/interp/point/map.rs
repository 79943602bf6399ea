//! Elementwise functions of points.

use fusewright_abi::DType;

use super::{arity, floats, ints};
use crate::interp::fault::Fault;
use crate::interp::walk::{zip1, zip2, zip3};
use crate::num;
use crate::prim::Rounding;
use crate::scalar::{ScalarFn, Yields};
use crate::tensor::{Data, Tensor};

type Elements = Data<f64, i64>;

/// Expands the body once for each common rounding, so that the loops hold no dispatch.
macro_rules! rounded {
    ($dtype:expr, $round:ident => $body:expr) => {
        match $dtype {
            DType::F64 => {
                let $round = |x: f64| x;
                $body
            }
            DType::F32 => {
                let $round = |x: f64| f64::from(x as f32);
                $body
            }
            dtype => {
                let $round = move |x: f64| num::round_to(dtype, x, Rounding::NearestEven, false);
                $body
            }
        }
    };
}

pub(super) fn map(f: ScalarFn, operands: &[&Tensor], shape: &[usize]) -> Result<Elements, Fault> {
    if f == ScalarFn::Select {
        return select(f, operands, shape);
    }
    let first = operands.first().ok_or("takes operands")?;
    match (first.data(), f.spec().yields) {
        (Data::Int(_), _) => int_map(f, first.dtype(), operands, shape),
        (Data::Float(_), Yields::Bool) => {
            let [a, b] = arity(f, operands)?;
            Ok(Data::Int(zip2(shape, floats(a)?, floats(b)?, |x, y| f.eval(&[x, y]) as i64)?))
        }
        (Data::Float(_), Yields::Operand) => {
            let dtype = first.dtype();
            rounded!(dtype, round => float_map(f, dtype, operands, shape, round)).map(Data::Float)
        }
    }
}

fn float_map(
    f: ScalarFn,
    dtype: DType,
    operands: &[&Tensor],
    shape: &[usize],
    round: impl Fn(f64) -> f64,
) -> Result<Vec<f64>, Fault> {
    match f.arity() {
        1 => {
            let [a] = arity(f, operands)?;
            zip1(floats(a)?, |x| round(f.eval(&[x])))
        }
        2 => {
            let [a, b] = arity(f, operands)?;
            let (a, b) = (floats(a)?, floats(b)?);
            match f {
                ScalarFn::Add => zip2(shape, a, b, |x, y| round(x + y)),
                ScalarFn::Sub => zip2(shape, a, b, |x, y| round(x - y)),
                ScalarFn::Mul => zip2(shape, a, b, |x, y| round(x * y)),
                ScalarFn::Div => zip2(shape, a, b, |x, y| round(x / y)),
                _ => zip2(shape, a, b, |x, y| round(f.eval(&[x, y]))),
            }
        }
        _ => {
            let [a, b, c] = arity(f, operands)?;
            let operands = (floats(a)?, floats(b)?, floats(c)?);
            match f {
                ScalarFn::Fma => zip3(shape, operands, |x, y, z| num::fma(dtype, x, y, z)),
                _ => zip3(shape, operands, |x, y, z| round(f.eval(&[x, y, z]))),
            }
        }
    }
}

fn int_map(f: ScalarFn, dtype: DType, operands: &[&Tensor], shape: &[usize]) -> Result<Elements, Fault> {
    if f.eval_int(&[1, 1, 1]).is_none() {
        return Err(format!("is not defined on {dtype}").into());
    }
    Ok(Data::Int(match f.arity() {
        1 => {
            let [a] = arity(f, operands)?;
            zip1(ints(a)?, |x| int_fn(f, dtype, &[x]))?
        }
        2 => {
            let [a, b] = arity(f, operands)?;
            zip2(shape, ints(a)?, ints(b)?, |x, y| int_fn(f, dtype, &[x, y]))?
        }
        _ => return Err(format!("is not defined on {dtype}").into()),
    }))
}

fn select(f: ScalarFn, operands: &[&Tensor], shape: &[usize]) -> Result<Elements, Fault> {
    let [condition, a, b] = arity(f, operands)?;
    let condition = ints(condition)?;
    Ok(if a.floats().is_some() {
        Data::Float(zip3(shape, (condition, floats(a)?, floats(b)?), |c, x, y| if c != 0 { x } else { y })?)
    } else {
        Data::Int(zip3(shape, (condition, ints(a)?, ints(b)?), |c, x, y| if c != 0 { x } else { y })?)
    })
}

/// A function of integers or booleans that is defined on them, wrapped to its result dtype.
pub(in crate::interp) fn int_fn(f: ScalarFn, dtype: DType, x: &[i64]) -> i64 {
    let wide = |i: usize| num::int_value(dtype, x[i]);
    let value = match f {
        ScalarFn::Not if dtype == DType::Bool => return i64::from(x[0] == 0),
        // 64-bit unsigned elements are carried as signed ones: what depends on their order is done in more bits.
        ScalarFn::Div if dtype == DType::U64 => wide(0).checked_div(wide(1)).unwrap_or(0) as i64,
        ScalarFn::Rem if dtype == DType::U64 => wide(0).checked_rem(wide(1)).unwrap_or(0) as i64,
        ScalarFn::Max | ScalarFn::MaxNum if dtype == DType::U64 => wide(0).max(wide(1)) as i64,
        ScalarFn::Min | ScalarFn::MinNum if dtype == DType::U64 => wide(0).min(wide(1)) as i64,
        ScalarFn::Lt if dtype == DType::U64 => i64::from(wide(0) < wide(1)),
        ScalarFn::Le if dtype == DType::U64 => i64::from(wide(0) <= wide(1)),
        ScalarFn::Gt if dtype == DType::U64 => i64::from(wide(0) > wide(1)),
        ScalarFn::Ge if dtype == DType::U64 => i64::from(wide(0) >= wide(1)),
        ScalarFn::Abs if dtype == DType::U64 => x[0],
        ScalarFn::Shr if dtype == DType::U64 => (wide(0) >> wide(1).min(64)) as i64,
        _ => f.eval_int(x).unwrap_or(0),
    };
    let to = if f.spec().yields == Yields::Bool { DType::Bool } else { dtype };
    num::wrap_int(to, value)
}
