//! Arithmetic on ranges, element by element.

use fusewright_abi::DType;

use super::{IntRange, Interval, Intervals, arith, convert, int, product, reduce};
use crate::interp::Host;
use crate::interp::domain::{Call, CastTo, Domain, Head, Product};
use crate::interp::fault::Fault;
use crate::interp::point::{arity, floats, ints};
use crate::interp::walk::{zip1, zip2, zip3};
use crate::prim::{AllReduce, NanBits, NanRule, ReduceOp};
use crate::scalar::{ScalarFn, Yields};
use crate::tensor::{Array, Data, Tensor};

type Elements = Data<Interval, IntRange>;

/// Ranges.
pub(in crate::interp) struct Ranges<'a> {
    pub host: &'a dyn Host,
}

impl Domain for Ranges<'_> {
    type Float = Interval;
    type Int = IntRange;

    fn float(&self, x: f64) -> Interval {
        Interval::point(x)
    }

    fn int(&self, v: i64) -> IntRange {
        IntRange::point(v)
    }

    fn range(&self, v: IntRange) -> (i64, i64) {
        (v.lo, v.hi)
    }

    fn join_floats(&self, a: Interval, b: Interval) -> Interval {
        a.join(b)
    }

    fn join_ints(&self, dtype: DType, a: IntRange, b: IntRange) -> IntRange {
        int::join(dtype, a, b)
    }

    fn map(&self, f: ScalarFn, operands: &[&Intervals], shape: &[usize]) -> Result<Elements, Fault> {
        if f == ScalarFn::Select {
            return select(f, operands, shape);
        }
        let first = operands.first().ok_or("takes operands")?;
        let dtype = first.dtype();
        match (first.data(), f.spec().yields) {
            (Data::Int(_), _) if f.eval_int(&[1, 1, 1]).is_none() => Err(format!("is not defined on {dtype}").into()),
            (Data::Int(_), _) => int_map(f, dtype, operands, shape).map(Data::Int),
            (Data::Float(_), Yields::Bool) => {
                let [a, b] = arity(f, operands)?;
                let truth = |x, y| int::truth(arith::compare(f, x, y));
                Ok(Data::Int(zip2(shape, floats(a)?, floats(b)?, truth)?))
            }
            (Data::Float(_), Yields::Operand) => float_map(f, dtype, operands, shape).map(Data::Float),
        }
    }

    fn cast(&self, x: &Intervals, cast: CastTo) -> Result<Elements, Fault> {
        convert::cast(x, cast)
    }

    fn bitcast(&self, x: &Intervals, to: DType, nan: NanBits) -> Result<Elements, Fault> {
        convert::bitcast(x, to, nan)
    }

    /// A range says of a NaN only that it may be one.
    fn with_one_nan(&self, computed: Elements) -> Elements {
        computed
    }

    fn pack(&self, x: &Intervals, ways: usize, to: DType) -> Result<Elements, Fault> {
        convert::pack(x, ways, to)
    }

    fn reduce_floats(&self, op: ReduceOp, nan: NanRule, dtype: DType, row: &[Interval]) -> Interval {
        reduce::reduce(op, nan, dtype, row)
    }

    fn reduce_ints(&self, op: ReduceOp, dtype: DType, row: &[IntRange]) -> IntRange {
        int::reduce(op, dtype, row)
    }

    fn arg_floats(&self, op: ReduceOp, row: &[Interval]) -> IntRange {
        reduce::arg_floats(op, row)
    }

    fn arg_ints(&self, op: ReduceOp, dtype: DType, row: &[IntRange]) -> IntRange {
        reduce::arg_ints(op, dtype, row)
    }

    fn top_floats(&self, row: &[Interval], k: usize) -> (Vec<Interval>, Vec<IntRange>) {
        reduce::top_floats(row, k)
    }

    fn top_ints(&self, dtype: DType, row: &[IntRange], k: usize) -> (Vec<IntRange>, Vec<IntRange>) {
        reduce::top_ints(dtype, row, k)
    }

    fn product_floats(&self, p: Product<'_, Interval>, out: &mut Vec<Interval>) {
        product::floats(p, out);
    }

    fn product_ints(&self, p: Product<'_, IntRange>, out: &mut Vec<IntRange>) {
        for i in 0..p.m {
            for j in 0..p.n {
                let pairs = p.a[i * p.k..][..p.k].iter().zip(&p.b[j * p.k..][..p.k]);
                out.push(pairs.fold(IntRange::point(0), |sum, (&x, &y)| {
                    let term = int::apply(ScalarFn::Mul, DType::I64, &[x, y]);
                    int::apply(ScalarFn::Add, DType::I64, &[sum, term])
                }));
            }
        }
    }

    fn attend(&self, head: Head<'_, Interval>, out: &mut Vec<Interval>) {
        product::attend(head, out);
    }

    fn lift(&self, tensor: &Tensor) -> Intervals {
        let data = match tensor.data() {
            Data::Float(v) => Data::Float(v.iter().map(|&x| Interval::point(x)).collect()),
            Data::Int(v) => Data::Int(v.iter().map(|&v| IntRange::point(v)).collect()),
        };
        Array::new(tensor.dtype(), tensor.shape().to_vec(), data).expect("one range for each element")
    }

    fn opaque(&self, call: Call<'_, Intervals>) -> Result<Vec<Intervals>, Fault> {
        let Call { target, attrs, operands, results } = call;
        let points: Result<Vec<Tensor>, Fault> = operands.iter().map(|x| lower(x)).collect();
        let points = points.map_err(|fault| fault.about(target))?;
        let operands: Vec<&Tensor> = points.iter().collect();
        let got = Call { target, attrs, operands: &operands, results }.on(self.host)?;
        Ok(got.iter().map(|tensor| self.lift(tensor)).collect())
    }

    fn all_reduce(&self, all: &AllReduce, x: &Intervals) -> Result<Intervals, Fault> {
        match lower(x) {
            Ok(point) => Ok(self.lift(&self.host.all_reduce(all, &point)?)),
            Err(fault) if all.op == ReduceOp::Mul => Err(fault),
            // Ends of ranges may be combined as such: a sum or an extreme is monotone in each term.
            Err(fault) => {
                let ends = |end: fn(&Interval) -> f64| -> Result<Tensor, Fault> {
                    let values = x.floats().ok_or_else(|| fault.clone())?.iter().map(end).collect();
                    let ends = Tensor::from_f64(x.dtype(), x.shape(), values)?;
                    Ok(self.host.all_reduce(all, &ends)?)
                };
                let (lo, hi) = (ends(|x| x.lo)?, ends(|x| x.hi)?);
                let (Some(lo), Some(hi), Some(was)) = (lo.floats(), hi.floats(), x.floats()) else {
                    return Err(fault);
                };
                let join = |((&lo, &hi), was): ((&f64, &f64), &Interval)| Interval::of(&[lo, hi]).with_nan(was.nan);
                let data = Data::Float(lo.iter().zip(hi).zip(was).map(join).collect());
                Ok(Array::new(x.dtype(), x.shape().to_vec(), data)?)
            }
        }
    }
}

/// The tensor, if every range is a single value.
fn lower(x: &Intervals) -> Result<Tensor, Fault> {
    let several = || "takes single values, and an operand has ranges".to_owned();
    let data = match x.data() {
        Data::Float(v) => Data::Float(v.iter().map(|x| x.single()).collect::<Option<_>>().ok_or_else(several)?),
        Data::Int(v) => Data::Int(v.iter().map(|x| x.single()).collect::<Option<_>>().ok_or_else(several)?),
    };
    Ok(Array::new(x.dtype(), x.shape().to_vec(), data)?)
}

fn float_map(f: ScalarFn, dtype: DType, operands: &[&Intervals], shape: &[usize]) -> Result<Vec<Interval>, Fault> {
    match f.arity() {
        1 => {
            let [a] = arity(f, operands)?;
            zip1(floats(a)?, |x| arith::apply(f, dtype, &[x]))
        }
        2 => {
            let [a, b] = arity(f, operands)?;
            zip2(shape, floats(a)?, floats(b)?, |x, y| arith::apply(f, dtype, &[x, y]))
        }
        _ => {
            let [a, b, c] = arity(f, operands)?;
            zip3(shape, (floats(a)?, floats(b)?, floats(c)?), |x, y, z| arith::apply(f, dtype, &[x, y, z]))
        }
    }
}

fn int_map(f: ScalarFn, dtype: DType, operands: &[&Intervals], shape: &[usize]) -> Result<Vec<IntRange>, Fault> {
    match f.arity() {
        1 => {
            let [a] = arity(f, operands)?;
            zip1(ints(a)?, |x| int::apply(f, dtype, &[x]))
        }
        2 => {
            let [a, b] = arity(f, operands)?;
            zip2(shape, ints(a)?, ints(b)?, |x, y| int::apply(f, dtype, &[x, y]))
        }
        _ => Err(format!("is not defined on {dtype}").into()),
    }
}

fn select(f: ScalarFn, operands: &[&Intervals], shape: &[usize]) -> Result<Elements, Fault> {
    let [condition, a, b] = arity(f, operands)?;
    let (condition, dtype) = (ints(condition)?, a.dtype());
    Ok(if a.floats().is_some() {
        let pick = |c: IntRange, x: Interval, y: Interval| match c.single() {
            Some(c) => {
                if c != 0 {
                    x
                } else {
                    y
                }
            }
            None => x.join(y),
        };
        Data::Float(zip3(shape, (condition, floats(a)?, floats(b)?), pick)?)
    } else {
        let pick = |c: IntRange, x: IntRange, y: IntRange| match c.single() {
            Some(c) => {
                if c != 0 {
                    x
                } else {
                    y
                }
            }
            None => int::join(dtype, x, y),
        };
        Data::Int(zip3(shape, (condition, ints(a)?, ints(b)?), pick)?)
    })
}
