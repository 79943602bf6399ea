//! Arithmetic on points: the exact value, rounded once.

mod map;
mod product;
mod select;

use fusewright_abi::DType;

use super::Host;
use super::domain::{Call, CastTo, Domain, Head, Product};
use super::walk::{Operand, reserve, zip1};
use crate::interp::fault::Fault;
use crate::num;
use crate::prim::{AllReduce, NanBits, NanRule, ReduceOp, Rounding};
use crate::scalar::ScalarFn;
use crate::tensor::{Array, Data, Tensor};

pub(super) use map::int_fn;
pub(super) use product::softmax;
pub(super) use select::{arg_best, top_order};

/// Numbers.
pub(super) struct Points<'a> {
    pub host: &'a dyn Host,
}

impl Domain for Points<'_> {
    type Float = f64;
    type Int = i64;

    fn float(&self, x: f64) -> f64 {
        x
    }

    fn int(&self, v: i64) -> i64 {
        v
    }

    fn range(&self, v: i64) -> (i64, i64) {
        (v, v)
    }

    fn join_floats(&self, _: f64, b: f64) -> f64 {
        b
    }

    fn join_ints(&self, _: DType, _: i64, b: i64) -> i64 {
        b
    }

    fn map(&self, f: ScalarFn, operands: &[&Tensor], shape: &[usize]) -> Result<Data<f64, i64>, Fault> {
        map::map(f, operands, shape)
    }

    fn cast(&self, x: &Tensor, cast: CastTo) -> Result<Data<f64, i64>, Fault> {
        let CastTo { to, round, saturate } = cast;
        let from = x.dtype();
        Ok(match x.data() {
            Data::Float(v) if to.is_float() => {
                let v = Operand { data: v, shape: x.shape() };
                Data::Float(zip1(v, |x| num::round_to(to, x, round, saturate))?)
            }
            Data::Float(v) => {
                let v = Operand { data: v, shape: x.shape() };
                Data::Int(zip1(v, |x| num::float_to_int(to, x, round, saturate))?)
            }
            Data::Int(v) if to.is_float() => {
                let v = Operand { data: v, shape: x.shape() };
                Data::Float(zip1(v, |x| num::int_to_float(from, x, to, round, saturate))?)
            }
            Data::Int(v) => {
                let v = Operand { data: v, shape: x.shape() };
                Data::Int(zip1(v, |x| if saturate { num::saturate_int(from, x, to) } else { num::wrap_int(to, x) })?)
            }
        })
    }

    fn bitcast(&self, x: &Tensor, to: DType, nan: NanBits) -> Result<Data<f64, i64>, Fault> {
        let mut codes = codes(x)?;
        if let (NanBits::One, Data::Float(v)) = (nan, x.data()) {
            let one = num::encode(x.dtype(), f64::NAN);
            codes.iter_mut().zip(v).filter(|(_, v)| v.is_nan()).for_each(|(code, _)| *code = one);
        }
        from_codes(codes, to)
    }

    fn with_one_nan(&self, mut computed: Data<f64, i64>) -> Data<f64, i64> {
        if let Data::Float(v) = &mut computed {
            v.iter_mut().filter(|v| v.is_nan()).for_each(|v| *v = f64::NAN);
        }
        computed
    }

    fn pack(&self, x: &Tensor, ways: usize, to: DType) -> Result<Data<f64, i64>, Fault> {
        let bits = x.dtype().bits();
        let join = |codes: &[u64]| codes.iter().rev().fold(0, |word, code| word << bits | code);
        from_codes(codes(x)?.chunks_exact(ways).map(join).collect(), to)
    }

    fn reduce_floats(&self, op: ReduceOp, nan: NanRule, dtype: DType, row: &[f64]) -> f64 {
        match op {
            ReduceOp::Add => num::round_to(dtype, sum(row), Rounding::NearestEven, false),
            ReduceOp::Mul => num::round_to(dtype, row.iter().product(), Rounding::NearestEven, false),
            ReduceOp::Max => {
                let f = if nan == NanRule::Ignore { ScalarFn::MaxNum } else { ScalarFn::Max };
                row.iter().fold(start(dtype, ReduceOp::Max), |best, &x| f.eval(&[best, x]))
            }
            ReduceOp::Min => {
                let f = if nan == NanRule::Ignore { ScalarFn::MinNum } else { ScalarFn::Min };
                row.iter().fold(start(dtype, ReduceOp::Min), |best, &x| f.eval(&[best, x]))
            }
        }
    }

    fn reduce_ints(&self, op: ReduceOp, dtype: DType, row: &[i64]) -> i64 {
        let (least, greatest) = num::int_range(dtype);
        match op {
            ReduceOp::Add => num::wrap_int(dtype, row.iter().fold(0, |sum: i64, &v| sum.wrapping_add(v))),
            ReduceOp::Mul => num::wrap_int(dtype, row.iter().fold(1, |product: i64, &v| product.wrapping_mul(v))),
            ReduceOp::Max => row.iter().map(|&v| num::int_value(dtype, v)).max().unwrap_or(least) as i64,
            ReduceOp::Min => row.iter().map(|&v| num::int_value(dtype, v)).min().unwrap_or(greatest) as i64,
        }
    }

    fn arg_floats(&self, op: ReduceOp, row: &[f64]) -> i64 {
        arg_best(op, row.iter().copied())
    }

    fn arg_ints(&self, op: ReduceOp, dtype: DType, row: &[i64]) -> i64 {
        let best = row.iter().enumerate().reduce(|best, other| {
            let (x, y) = (num::int_value(dtype, *best.1), num::int_value(dtype, *other.1));
            if if op == ReduceOp::Max { y > x } else { y < x } { other } else { best }
        });
        best.map_or(0, |(index, _)| index as i64)
    }

    fn top_floats(&self, row: &[f64], k: usize) -> (Vec<f64>, Vec<i64>) {
        let mut order = top_order(row);
        order.truncate(k);
        (order.iter().map(|&i| row[i]).collect(), order.iter().map(|&i| i as i64).collect())
    }

    fn top_ints(&self, dtype: DType, row: &[i64], k: usize) -> (Vec<i64>, Vec<i64>) {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(num::int_value(dtype, row[i])));
        order.truncate(k);
        (order.iter().map(|&i| row[i]).collect(), order.iter().map(|&i| i as i64).collect())
    }

    fn product_floats(&self, p: Product<'_, f64>, out: &mut Vec<f64>) {
        product::floats(p, out);
    }

    fn product_ints(&self, p: Product<'_, i64>, out: &mut Vec<i64>) {
        for i in 0..p.m {
            for j in 0..p.n {
                let pairs = p.a[i * p.k..][..p.k].iter().zip(&p.b[j * p.k..][..p.k]);
                out.push(pairs.fold(0, |sum: i64, (&x, &y)| sum.wrapping_add(x.wrapping_mul(y))));
            }
        }
    }

    fn attend(&self, head: Head<'_, f64>, out: &mut Vec<f64>) {
        product::attend(head, out);
    }

    fn lift(&self, tensor: &Tensor) -> Tensor {
        tensor.clone()
    }

    fn opaque(&self, call: Call<'_, Tensor>) -> Result<Vec<Tensor>, Fault> {
        call.on(self.host)
    }

    fn all_reduce(&self, all: &AllReduce, x: &Tensor) -> Result<Tensor, Fault> {
        let y = self.host.all_reduce(all, x)?;
        if y.dtype() == x.dtype() && y.shape() == x.shape() {
            return Ok(y);
        }
        Err(format!("the host returned {}{:?} for {}{:?}", y.dtype(), y.shape(), x.dtype(), x.shape()).into())
    }
}

/// The neutral element of a max or min of floats, as the dtype can hold it.
pub(super) fn start(dtype: DType, op: ReduceOp) -> f64 {
    let infinity = if op == ReduceOp::Max { f64::NEG_INFINITY } else { f64::INFINITY };
    let held = num::round_to(dtype, infinity, Rounding::NearestEven, false);
    match held.is_nan() {
        // e8m0 has no sign: its least value is neutral for max.
        true if dtype == DType::F8E8M0 && op == ReduceOp::Max => num::decode(dtype, 0),
        true => num::max_finite(dtype).copysign(infinity),
        false => held,
    }
}

/// A sum with eight interleaved partial sums; +0 for no operands.
pub(super) fn sum(row: &[f64]) -> f64 {
    let mut parts = [0.0f64; 8];
    let chunks = row.chunks_exact(8);
    let tail = chunks.remainder();
    for chunk in chunks {
        parts.iter_mut().zip(chunk).for_each(|(part, x)| *part += x);
    }
    parts.iter_mut().zip(tail).for_each(|(part, x)| *part += x);
    parts.iter().fold(0.0, |sum, part| sum + part)
}

/// The bits of each element.
pub(super) fn codes(x: &Tensor) -> Result<Vec<u64>, Fault> {
    let mut out = reserve(x.len())?;
    match x.data() {
        Data::Float(v) => out.extend(v.iter().map(|&v| num::code(x.dtype(), v))),
        Data::Int(v) => out.extend(v.iter().map(|&v| num::encode_int(x.dtype(), v))),
    }
    Ok(out)
}

fn from_codes(codes: Vec<u64>, to: DType) -> Result<Data<f64, i64>, Fault> {
    let codes = codes.into_iter();
    Ok(if to.is_float() {
        let mut out = reserve(codes.len())?;
        out.extend(codes.map(|code| num::element(to, code)));
        Data::Float(out)
    } else {
        let mut out = reserve(codes.len())?;
        out.extend(codes.map(|code| num::decode_int(to, code)));
        Data::Int(out)
    })
}

/// A view of a float operand, or an error naming the dtype.
pub(super) fn floats<'a, F, I>(x: &'a Array<F, I>) -> Result<Operand<'a, F>, Fault> {
    let data = x.floats().ok_or_else(|| format!("is not defined on {}", x.dtype()))?;
    Ok(Operand { data, shape: x.shape() })
}

/// A view of an integer or boolean operand, or an error naming the dtype.
pub(super) fn ints<'a, F, I>(x: &'a Array<F, I>) -> Result<Operand<'a, I>, Fault> {
    let data = x.ints().ok_or_else(|| format!("is not defined on {}", x.dtype()))?;
    Ok(Operand { data, shape: x.shape() })
}

/// The operands of an elementwise function, one for each of its parameters.
pub(super) fn arity<A, const N: usize>(f: ScalarFn, operands: &[A]) -> Result<&[A; N], Fault> {
    <&[A; N]>::try_from(operands).map_err(|_| format!("{} takes {N} operands, got {}", f.name(), operands.len()).into())
}
