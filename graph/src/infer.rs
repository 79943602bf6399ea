//! Shape and dtype rules of the primitives.
//!
//! [`infer`] is the only place that says which operand types a primitive takes and what it yields; the builder and
//! the verifier both call it.

use fusewright_abi::DType;

use crate::dim::{self, Dim};
use crate::num;
use crate::prim::{NanBits, Prim, ReduceOp};
use crate::scalar::{ScalarFn, Yields};
use crate::ty::{MAX_AXES, TensorType};

/// The largest step of a slice: places that it reaches are counted without overflow.
const MAX_STEP: i64 = i32::MAX as i64;

/// Why operands do not fit an op.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{op}: {message}")]
pub struct TypeError {
    /// Name of the op.
    pub op: String,
    /// What is wrong.
    pub message: String,
}

/// Result types of a primitive on operands of the given types.
///
/// # Errors
/// A wrong operand count, dtype, rank or extent; the message names it.
pub fn infer(prim: &Prim, operands: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
    let rule = Rule { prim, operands };
    let results = rule.few_axes().and_then(|()| rule.results());
    results.map_err(|message| TypeError { op: prim.name().to_owned(), message })
}

struct Rule<'a> {
    prim: &'a Prim,
    operands: &'a [&'a TensorType],
}

impl Rule<'_> {
    /// Messages repeat types, so that those of too many axes are refused before.
    fn few_axes(&self) -> Result<(), String> {
        let stated = match self.prim {
            Prim::Reshape { shape } | Prim::Expand { shape } | Prim::Iota { shape, .. } => shape.len(),
            _ => 0,
        };
        let most = self.operands.iter().map(|ty| ty.rank()).fold(stated, usize::max);
        ensure(most <= MAX_AXES, || format!("a tensor of {most} axes, more than {MAX_AXES}"))
    }

    fn results(&self) -> Result<Vec<TensorType>, String> {
        if let Prim::Opaque { results, .. } = self.prim {
            return Ok(results.clone());
        }
        if let Prim::TopK { k } = self.prim {
            let [x] = self.take()?;
            let mut shape = x.shape.clone();
            *shape.last_mut().ok_or("operand has no axis")? = k.clone();
            return Ok(vec![TensorType::new(x.dtype, shape.clone()), TensorType::new(DType::I64, shape)]);
        }
        Ok(vec![self.result()?])
    }

    fn result(&self) -> Result<TensorType, String> {
        match self.prim {
            Prim::Literal(literal) => self.take::<0>().map(|_| TensorType::scalar(literal.dtype())),
            Prim::SizeOf(_) => self.take::<0>().map(|_| TensorType::scalar(DType::I64)),
            Prim::Iota { dtype, shape, axis } => {
                let [] = self.take()?;
                ensure(*axis < shape.len(), || format!("axis {axis} of rank {}", shape.len()))?;
                let counts = dtype.is_int() || matches!(dtype, DType::F32 | DType::F64);
                ensure(counts, || format!("does not count in {dtype}"))?;
                Ok(TensorType::new(*dtype, shape.clone()))
            }
            Prim::Map(f) => self.map(*f),
            Prim::Cast { to, .. } => self.take().map(|[x]| TensorType { dtype: *to, shape: x.shape.clone() }),
            Prim::Bitcast { to, nan } => {
                let [x] = self.take()?;
                ensure(to.bits() == x.dtype.bits(), || format!("{} and {to} differ in width", x.dtype))?;
                let tells = *nan == NanBits::One || num::has_nans(x.dtype);
                ensure(tells, || format!("`nan` = `kept` says nothing: {} has no two NaNs", x.dtype))?;
                Ok(TensorType { dtype: *to, shape: x.shape.clone() })
            }
            Prim::Reduce { axes, .. } => self.reduce(axes),
            Prim::ArgReduce { op, axis } => {
                ensure(matches!(op, ReduceOp::Max | ReduceOp::Min), || {
                    format!("the extreme is `max` or `min`, not `{}`", op.name())
                })?;
                self.reduce(&[*axis]).map(|t| TensorType { dtype: DType::I64, ..t })
            }
            Prim::Reshape { shape } => {
                let [x] = self.take()?;
                let (from, to) = (x.elements(), dim::product(shape));
                ensure(from == to, || format!("{x} has {from} elements, the new shape {to}"))?;
                Ok(TensorType::new(x.dtype, shape.clone()))
            }
            Prim::Permute { perm } => {
                let [x] = self.take()?;
                ensure(perm.len() == x.rank(), || format!("{} axes do not permute {x}", perm.len()))?;
                let mut sorted = perm.clone();
                sorted.sort_unstable();
                ensure(sorted.iter().copied().eq(0..x.rank()), || format!("{perm:?} does not permute {x}"))?;
                Ok(TensorType::new(x.dtype, perm.iter().map(|&i| x.shape[i].clone())))
            }
            Prim::Expand { shape } => {
                let [x] = self.take()?;
                let to = TensorType::new(x.dtype, shape.clone());
                let joined = broadcast([&x.shape, &to.shape])?;
                ensure(joined == *shape, || format!("{x} does not broadcast to {to}"))?;
                Ok(to)
            }
            Prim::Slice { axis, start, end, step } => self.slice(*axis, start, end, *step),
            Prim::Cat { axis } => self.cat(*axis),
            Prim::Gather { axis } => self.take().and_then(|[x, indices]| chosen(x, indices, *axis)),
            Prim::Scatter { axis } | Prim::ScatterReduce { axis, .. } => {
                let [x, indices, updates] = self.take()?;
                let expected = chosen(x, indices, *axis)?;
                let added = matches!(self.prim, Prim::ScatterReduce { op: ReduceOp::Add | ReduceOp::Mul, .. });
                let number = x.dtype.is_float() || x.dtype.is_int();
                ensure(!added || number, || format!("a sum or product of {}", x.dtype))?;
                ensure(*updates == expected, || format!("updates are {updates}, expected {expected}"))?;
                Ok(x.clone())
            }
            Prim::Pack { ways, to } => self.pack(*ways, *to),
            Prim::MatMul { transpose_b, out } => self.matmul(*transpose_b, *out),
            Prim::GroupedMatMul { out } => self.grouped_matmul(*out),
            Prim::Sdpa(_) => self.sdpa(),
            Prim::AllReduce(all) => {
                let [x] = self.take()?;
                ensure(all.ranks != Some(0), || format!("group `{}` has no rank", all.group))?;
                Ok(x.clone())
            }
            Prim::TopK { .. } | Prim::Opaque { .. } => unreachable!("handled by `results`"),
        }
    }

    fn pack(&self, ways: u32, to: DType) -> Result<TensorType, String> {
        let [x] = self.take()?;
        let fits = ways > 0 && x.dtype.bits().checked_mul(ways) == Some(to.bits());
        ensure(fits, || format!("{ways} × {} do not fill {to}", x.dtype))?;
        let codes = !x.dtype.is_float() || x.dtype.bits() <= 8;
        ensure(codes, || format!("packs no floats of {} bits; a bitcast makes integers of them", x.dtype.bits()))?;
        let mut shape = x.shape.clone();
        let last = shape.last_mut().ok_or("operand has no axis")?;
        *last = last.exact_div(&Dim::constant(i64::from(ways))).ok_or("last extent is not a multiple")?;
        Ok(TensorType::new(to, shape))
    }

    fn take<const N: usize>(&self) -> Result<[&TensorType; N], String> {
        <[&TensorType; N]>::try_from(self.operands.to_vec())
            .map_err(|got: Vec<_>| format!("takes {N} operands, got {}", got.len()))
    }

    fn map(&self, f: ScalarFn) -> Result<TensorType, String> {
        ensure(self.operands.len() == f.arity(), || {
            format!("takes {} operands, got {}", f.arity(), self.operands.len())
        })?;
        let data = if f == ScalarFn::Select {
            let condition = self.operands[0].dtype;
            ensure(condition == DType::Bool, || format!("the condition is {condition}, not bool"))?;
            &self.operands[1..]
        } else {
            self.operands
        };
        let dtype = data[0].dtype;
        if let Some(other) = data.iter().find(|t| t.dtype != dtype) {
            return Err(format!("operands are {dtype} and {}; cast one of them", other.dtype));
        }
        let integer_ok = f == ScalarFn::Select || f.eval_int(&[1, 1, 1]).is_some();
        ensure(dtype.is_float() || integer_ok, || format!("is not defined on {dtype}"))?;
        let float_ok =
            !matches!(f, ScalarFn::And | ScalarFn::Or | ScalarFn::Xor | ScalarFn::Not | ScalarFn::Shl | ScalarFn::Shr);
        ensure(!dtype.is_float() || float_ok, || format!("is not defined on {dtype}"))?;
        let shape = broadcast(self.operands.iter().map(|t| &t.shape))?;
        let dtype = if f.spec().yields == Yields::Bool { DType::Bool } else { dtype };
        Ok(TensorType { dtype, shape })
    }

    fn reduce(&self, axes: &[usize]) -> Result<TensorType, String> {
        let [x] = self.take()?;
        ensure(!axes.is_empty(), || "there are no axes to reduce over".to_owned())?;
        ensure(axes.len() <= x.rank(), || format!("{} axes of {x}", axes.len()))?;
        ensure(axes.is_sorted_by(|a, b| a < b), || format!("axes {axes:?} are not sorted, each once"))?;
        let mut shape = x.shape.clone();
        for &axis in axes {
            *shape.get_mut(axis).ok_or_else(|| format!("axis {axis} of {x}"))? = Dim::constant(1);
        }
        Ok(TensorType::new(x.dtype, shape))
    }

    fn slice(&self, axis: usize, start: &Dim, end: &Dim, step: i64) -> Result<TensorType, String> {
        let [x] = self.take()?;
        let mut shape = x.shape.clone();
        let extent = shape.get_mut(axis).ok_or_else(|| format!("axis {axis} of {x}"))?;
        ensure((1..=MAX_STEP).contains(&step), || format!("step {step}, which is not in 1..={MAX_STEP}"))?;
        if let (Some(s), Some(e)) = (start.as_const(), end.as_const()) {
            let inside = 0 <= s && s <= e && extent.as_const().is_none_or(|n| e <= n);
            ensure(inside, || format!("[{s}..{e}] of extent {extent}"))?;
        }
        *extent = (end - start).ceil_div(&Dim::constant(step));
        Ok(TensorType::new(x.dtype, shape))
    }

    fn cat(&self, axis: usize) -> Result<TensorType, String> {
        let (first, rest) = self.operands.split_first().ok_or("takes at least one operand")?;
        let mut shape = first.shape.clone();
        ensure(axis < shape.len(), || format!("axis {axis} of {first}"))?;
        for other in rest {
            let fits = other.dtype == first.dtype
                && other.rank() == first.rank()
                && (0..shape.len()).all(|i| i == axis || other.shape[i] == first.shape[i]);
            ensure(fits, || format!("{first} and {other} do not join along axis {axis}"))?;
            shape[axis] = &shape[axis] + &other.shape[axis];
        }
        Ok(TensorType::new(first.dtype, shape))
    }

    fn matmul(&self, transpose_b: bool, out: DType) -> Result<TensorType, String> {
        let [a, b] = self.take()?;
        let mismatch = || format!("{a} by {b}{}", if transpose_b { " transposed" } else { "" });
        ensure(a.dtype == b.dtype && a.rank() >= 2 && b.rank() >= 2, mismatch)?;
        let (batch_a, a_mk) = a.shape.split_at(a.rank() - 2);
        let (batch_b, b_kn) = b.shape.split_at(b.rank() - 2);
        let (k, n) = if transpose_b { (&b_kn[1], &b_kn[0]) } else { (&b_kn[0], &b_kn[1]) };
        ensure(a_mk[1] == *k && (batch_b.is_empty() || batch_a == batch_b), mismatch)?;
        let shape = batch_a.iter().chain([&a_mk[0], n]).cloned();
        Ok(TensorType::new(out, shape))
    }

    fn grouped_matmul(&self, out: DType) -> Result<TensorType, String> {
        let [x, w, ends] = self.take()?;
        let fits = match (x.shape.as_slice(), w.shape.as_slice(), ends.shape.as_slice()) {
            ([_, k], [e, rows, _], [groups]) => k == rows && e == groups && x.dtype == w.dtype,
            _ => false,
        };
        ensure(fits && ends.dtype.is_int() && ends.dtype != DType::Bool, || {
            format!("{x} by {w}, groups ending at {ends}")
        })?;
        Ok(TensorType::new(out, [x.shape[0].clone(), w.shape[2].clone()]))
    }

    fn sdpa(&self) -> Result<TensorType, String> {
        let (q, k, v, mask) = match *self.operands {
            [q, k, v] => (q, k, v, None),
            [q, k, v, mask] => (q, k, v, Some(mask)),
            _ => return Err(format!("takes 3 or 4 operands, got {}", self.operands.len())),
        };
        let mismatch = || format!("query {q}, key {k}, value {v}");
        let axes = || {
            format!("operands of four axes, [batch, heads, rows, width], and one dtype are asked for: {}", mismatch())
        };
        ensure([q, k, v].iter().all(|t| t.rank() == 4 && t.dtype == q.dtype), axes)?;
        let same = q.shape[0] == k.shape[0] && k.shape[..3] == v.shape[..3] && q.shape[3] == k.shape[3];
        let grouped = q.shape[1].exact_div(&k.shape[1]).is_some();
        ensure(same && grouped, || format!("batches, heads or widths that do not fit each other: {}", mismatch()))?;
        if let Some(mask) = mask {
            let scores: Vec<Dim> = q.shape[..3].iter().chain([&k.shape[2]]).cloned().collect();
            let fits = broadcast([&scores, &mask.shape]).is_ok_and(|joined| joined == scores);
            let typed = mask.dtype == DType::Bool || mask.dtype.is_float();
            ensure(fits && typed, || format!("the mask {mask} on scores of {}", TensorType::new(q.dtype, scores)))?;
        }
        Ok(TensorType::new(q.dtype, q.shape[..3].iter().chain([&v.shape[3]]).cloned()))
    }
}

/// `x` with as many slices along `axis` as there are indices.
fn chosen(x: &TensorType, indices: &TensorType, axis: usize) -> Result<TensorType, String> {
    ensure(axis < x.rank(), || format!("axis {axis} of {x}"))?;
    ensure(indices.dtype.is_int() && indices.rank() == 1, || {
        format!("indices are one axis of integers, got {indices}")
    })?;
    let mut shape = x.shape.clone();
    shape[axis] = indices.shape[0].clone();
    Ok(TensorType::new(x.dtype, shape))
}

/// The NumPy broadcast of shapes: aligned at the last axis, extent 1 stretches.
pub(crate) fn broadcast<'a>(shapes: impl IntoIterator<Item = &'a Vec<Dim>>) -> Result<Vec<Dim>, String> {
    let one = Dim::constant(1);
    let mut joined: Vec<Dim> = Vec::new();
    for shape in shapes {
        let added = shape.len().saturating_sub(joined.len());
        joined.splice(..0, std::iter::repeat_n(one.clone(), added));
        let skip = joined.len() - shape.len();
        for (slot, extent) in joined[skip..].iter_mut().zip(shape) {
            if *slot == one {
                *slot = extent.clone();
            } else if *extent != one && extent != slot {
                return Err(format!("extents {slot} and {extent} do not broadcast"));
            }
        }
    }
    Ok(joined)
}

fn ensure(condition: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message()) }
}
