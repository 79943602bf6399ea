//! Evaluation of a graph of primitives, node by node.
//!
//! A value is dropped after its last use. What does not depend on the kind of element (layout, indexing, loops over
//! rows and batches) is here and in [`super::layout`]; arithmetic is the domain's.

use std::borrow::Cow;
use std::sync::Arc;

use fusewright_abi::DType;

use super::bind::{Binding, user_inputs};
use super::domain::{ArrayOf, Call, CastTo, DataOf, Domain, Head, Product};
use super::fault::Fault;
use super::{InterpError, grouped, layout, scatter_reduce};
use crate::graph::{Def, Graph, Input, InputKind, Node, Op, Value};
use crate::prim::{Literal, NanRule, Prim, ReduceOp, Rounding, Sdpa};
use crate::tensor::{Array, Data, NoMemory, Tensor, TensorError, check_memory};

/// Dtype and extents of a result.
type Type = (DType, Vec<usize>);

/// Evaluates graphs of primitives in a domain.
pub(super) struct Machine<'a, D> {
    pub domain: &'a D,
    pub binding: &'a Binding,
}

/// Values that are still needed.
struct Frame<A> {
    values: Vec<Option<Arc<A>>>,
    uses: Vec<usize>,
}

impl<A> Frame<A> {
    fn new(graph: &Graph) -> Self {
        let mut uses = vec![0; graph.value_count()];
        let operands = graph.nodes().iter().flat_map(|node| node.operands.iter().copied());
        for value in operands.chain(graph.outputs().iter().map(|output| output.value)) {
            uses[value.0 as usize] += 1;
        }
        Frame { values: uses.iter().map(|_| None).collect(), uses }
    }

    fn set(&mut self, value: Value, array: A) {
        let index = value.0 as usize;
        if self.uses[index] > 0 {
            self.values[index] = Some(Arc::new(array));
        }
    }

    /// The value, which the frame forgets after its last use.
    fn take(&mut self, value: Value) -> Arc<A> {
        let index = value.0 as usize;
        self.uses[index] -= 1;
        let slot = &mut self.values[index];
        let found = if self.uses[index] == 0 { slot.take() } else { slot.clone() };
        found.expect("nodes are in topological order, so an operand has been computed")
    }
}

impl<D: Domain> Machine<'_, D> {
    /// The outputs on tensors for the user inputs.
    pub fn run(&self, graph: &Graph, inputs: &[Tensor]) -> Result<Vec<ArrayOf<D>>, InterpError> {
        let mut frame = Frame::new(graph);
        for (input, tensor) in user_inputs(graph).zip(inputs) {
            frame.set(input.value, self.lifted(input, tensor)?);
        }
        for node in graph.nodes() {
            self.step(graph, node, &mut frame)?;
        }
        for output in graph.outputs() {
            self.load(graph, output.value, &mut frame)?;
        }
        let outputs = graph.outputs().iter().map(|output| frame.take(output.value));
        Ok(outputs.map(Arc::unwrap_or_clone).collect())
    }

    /// Makes sure that a value which is a weight is in the frame: weights are read at their first use.
    fn load(&self, graph: &Graph, value: Value, frame: &mut Frame<ArrayOf<D>>) -> Result<(), InterpError> {
        match graph.def(value) {
            Def::Input(index) if frame.values[value.0 as usize].is_none() => {
                let input = &graph.inputs()[index];
                frame.set(value, self.lifted(input, &self.weight(graph, input)?)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// A tensor of an input in the domain.
    fn lifted(&self, input: &Input, tensor: &Tensor) -> Result<ArrayOf<D>, InterpError> {
        let what = || format!("input `{}`", input.name);
        check::<D>(tensor.dtype(), tensor.shape()).map_err(|lack| InterpError::Memory { what: what(), lack })?;
        Ok(self.domain.lift(tensor))
    }

    fn weight(&self, graph: &Graph, input: &Input) -> Result<Tensor, InterpError> {
        let error = |message: String| InterpError::Input { name: input.name.clone(), message };
        let ty = graph.ty(input.value);
        match &input.kind {
            InputKind::Weight(Some(weight)) => {
                let shape = self.binding.shape(&ty.shape).map_err(error)?;
                Tensor::from_weight(ty.dtype, &shape, weight).map_err(|e| match e {
                    TensorError::Memory(lack) => InterpError::Memory { what: format!("input `{}`", input.name), lack },
                    other => error(other.to_string()),
                })
            }
            _ => Err(error(format!("the weight of type {ty} has no data"))),
        }
    }

    fn step(&self, graph: &Graph, node: &Node, frame: &mut Frame<ArrayOf<D>>) -> Result<(), InterpError> {
        let Node { op, operands, results, .. } = node;
        for &operand in operands {
            self.load(graph, operand, frame)?;
        }
        let values: Vec<Arc<ArrayOf<D>>> = operands.iter().map(|&v| frame.take(v)).collect();
        let refs: Vec<&ArrayOf<D>> = values.iter().map(|v| &**v).collect();
        let types: Result<Vec<Type>, String> = results
            .iter()
            .map(|&v| {
                let ty = graph.ty(v);
                let shape = self.binding.shape(&ty.shape)?;
                crate::tensor::element_count(ty.dtype, &shape)?;
                Ok((ty.dtype, shape))
            })
            .collect();
        let failed =
            |message| InterpError::Node { op: op.name().to_owned(), origin: Box::new(graph.origin(node)), message };
        let types = types.map_err(failed)?;
        let lacking =
            |lack| InterpError::Memory { what: format!("{} of node {}", op.name(), graph.origin(node)), lack };
        types.iter().try_for_each(|(dtype, shape)| check::<D>(*dtype, shape)).map_err(lacking)?;
        let computed = match op {
            Op::Prim(prim) => self.prim(prim, &refs, &types),
            Op::Composite(_) => Err("is not expanded".into()),
        };
        // What a value takes in between is counted as its own.
        let arrays = computed.map_err(|fault| match (fault, types.first()) {
            (Fault::Memory(bytes), Some((dtype, shape))) => {
                lacking(NoMemory { dtype: *dtype, shape: shape.clone(), bytes })
            }
            (Fault::Memory(bytes), None) => failed(format!("no memory for {bytes} bytes")),
            (Fault::Wrong(message), _) => failed(message),
        })?;
        results.iter().zip(arrays).for_each(|(&value, array)| frame.set(value, array));
        Ok(())
    }

    fn prim(&self, prim: &Prim, operands: &[&ArrayOf<D>], types: &[Type]) -> Result<Vec<ArrayOf<D>>, Fault> {
        match prim {
            Prim::Opaque { target, attrs, .. } => {
                return self.domain.opaque(Call { target, attrs, operands, results: types });
            }
            Prim::TopK { .. } => {
                let [x] = take(operands)?;
                return self.top_k(x, types);
            }
            _ => {}
        }
        let [(dtype, shape)] = types else { return Err(format!("has {} results", types.len()).into()) };
        let data = match prim {
            Prim::AllReduce(all) => {
                let [x] = take(operands)?;
                let one = all.ranks == Some(1);
                return Ok(vec![if one { x.clone() } else { self.domain.all_reduce(all, x)? }]);
            }
            Prim::Map(f) => self.domain.map(*f, operands, shape)?,
            Prim::MatMul { transpose_b, .. } => {
                let [a, b] = take(operands)?;
                self.matmul(a, b, *transpose_b, *dtype)?
            }
            Prim::GroupedMatMul { .. } => {
                let [x, w, ends] = take(operands)?;
                grouped::matmul(self.domain, [x, w, ends], *dtype)?
            }
            Prim::Sdpa(attrs) => {
                let (first, mask) = operands.split_at_checked(3).ok_or("takes at least 3 operands")?;
                let [q, k, v] = take(first)?;
                self.sdpa(q, k, v, mask.first().copied(), attrs)?
            }
            Prim::Gather { axis } => {
                let [x, indices] = take(operands)?;
                layout::gather(self.domain, x, indices, *axis)?
            }
            Prim::Scatter { axis } => {
                let [x, indices, updates] = take(operands)?;
                layout::scatter(self.domain, x, indices, updates, *axis)?
            }
            Prim::ScatterReduce { op, axis } => {
                let [x, indices, updates] = take(operands)?;
                scatter_reduce::scatter_reduce(self.domain, [x, indices, updates], *op, *axis)?
            }
            Prim::Cat { axis } => layout::cat(operands, *axis)?,
            Prim::Literal(_) | Prim::SizeOf(_) | Prim::Iota { .. } => self.source(prim, shape)?,
            _ => {
                let [x] = take(operands)?;
                self.unary(prim, x, shape)?
            }
        };
        let data = if prim.moves() { data } else { self.domain.with_one_nan(data) };
        Ok(vec![Array::new(*dtype, shape.clone(), data)?])
    }

    fn source(&self, prim: &Prim, shape: &[usize]) -> Result<DataOf<D>, Fault> {
        let domain = self.domain;
        Ok(match prim {
            Prim::Literal(Literal::Float(_, x)) => Data::Float(vec![domain.float(*x)]),
            Prim::Literal(Literal::Int(_, v)) => Data::Int(vec![domain.int(*v)]),
            Prim::SizeOf(dim) => Data::Int(vec![domain.int(self.binding.eval(dim)?)]),
            Prim::Iota { dtype, axis, .. } => {
                let mut indices = layout::iota(shape, *axis)?;
                if dtype.is_float() {
                    let round = |v| crate::num::int_to_float(DType::I64, v, *dtype, Rounding::NearestEven, false);
                    Data::Float(indices.into_iter().map(|v| domain.float(round(v))).collect())
                } else {
                    indices.iter_mut().for_each(|v| *v = crate::num::wrap_int(*dtype, *v));
                    Data::Int(indices.into_iter().map(|v| domain.int(v)).collect())
                }
            }
            _ => return Err("takes operands".into()),
        })
    }

    fn unary(&self, prim: &Prim, x: &ArrayOf<D>, shape: &[usize]) -> Result<DataOf<D>, Fault> {
        match prim {
            Prim::Cast { to, round, saturate } => {
                self.domain.cast(x, CastTo { to: *to, round: *round, saturate: *saturate })
            }
            Prim::Bitcast { to, nan } => self.domain.bitcast(x, *to, *nan),
            Prim::Pack { ways, to } => match x.shape().last() {
                Some(last) if *ways > 0 && last % *ways as usize == 0 => self.domain.pack(x, *ways as usize, *to),
                _ => Err(format!("the last axis of {:?} is not a multiple of {ways}", x.shape()).into()),
            },
            Prim::Reduce { op, axes, nan } => self.reduce(x, *op, axes, *nan),
            Prim::ArgReduce { op, axis } => self.arg_reduce(x, *op, *axis),
            Prim::Reshape { .. } => Ok(x.data().clone()),
            Prim::Permute { perm } => layout::permute(x, perm),
            Prim::Expand { .. } => layout::expand(x, shape),
            Prim::Slice { axis, start, end, step } => {
                let bounds = (self.binding.eval(start)?, self.binding.eval(end)?);
                layout::slice(x, *axis, bounds, *step)
            }
            _ => Err("takes other operands".into()),
        }
    }

    fn reduce(&self, x: &ArrayOf<D>, op: ReduceOp, axes: &[usize], nan: NanRule) -> Result<DataOf<D>, Fault> {
        let (rows, count, length) = layout::rows(x, axes)?;
        Ok(match &*rows {
            Data::Float(v) => {
                let row = |i: usize| self.domain.reduce_floats(op, nan, x.dtype(), &v[i * length..][..length]);
                Data::Float((0..count).map(row).collect())
            }
            Data::Int(v) => {
                let row = |i: usize| self.domain.reduce_ints(op, x.dtype(), &v[i * length..][..length]);
                Data::Int((0..count).map(row).collect())
            }
        })
    }

    fn arg_reduce(&self, x: &ArrayOf<D>, op: ReduceOp, axis: usize) -> Result<DataOf<D>, Fault> {
        let (rows, count, length) = layout::rows(x, &[axis])?;
        if length == 0 && count > 0 {
            return Err(format!("axis {axis} of {:?} is empty", x.shape()).into());
        }
        Ok(Data::Int(match &*rows {
            Data::Float(v) => (0..count).map(|i| self.domain.arg_floats(op, &v[i * length..][..length])).collect(),
            Data::Int(v) => {
                (0..count).map(|i| self.domain.arg_ints(op, x.dtype(), &v[i * length..][..length])).collect()
            }
        }))
    }

    fn top_k(&self, x: &ArrayOf<D>, types: &[Type]) -> Result<Vec<ArrayOf<D>>, Fault> {
        let [(dtype, shape), (index_dtype, index_shape)] = types else { return Err("has two results".into()) };
        let (Some(&length), Some(&k)) = (x.shape().last(), shape.last()) else {
            return Err("operand has no axis".into());
        };
        if k > length {
            return Err(format!("{k} elements are wanted of an axis of {length}").into());
        }
        let count = x.len().checked_div(length).unwrap_or(0);
        let mut indices = Vec::new();
        let data = match x.data() {
            Data::Float(v) => Data::Float(
                (0..count)
                    .flat_map(|i| {
                        let (values, at) = self.domain.top_floats(&v[i * length..][..length], k);
                        indices.extend(at);
                        values
                    })
                    .collect(),
            ),
            Data::Int(v) => Data::Int(
                (0..count)
                    .flat_map(|i| {
                        let (values, at) = self.domain.top_ints(x.dtype(), &v[i * length..][..length], k);
                        indices.extend(at);
                        values
                    })
                    .collect(),
            ),
        };
        let values = Array::new(*dtype, shape.clone(), self.domain.with_one_nan(data))?;
        Ok(vec![values, Array::new(*index_dtype, index_shape.clone(), Data::Int(indices))?])
    }

    fn matmul(&self, a: &ArrayOf<D>, b: &ArrayOf<D>, transposed: bool, out: DType) -> Result<DataOf<D>, Fault> {
        let (&[ref batches @ .., m, k], &[ref b_batches @ .., b_rows, b_columns]) = (a.shape(), b.shape()) else {
            return Err(format!("{:?} by {:?}", a.shape(), b.shape()).into());
        };
        let n = if transposed { b_rows } else { b_columns };
        let batches: usize = batches.iter().product();
        // `b` with its rows along k: one matrix for all batches, or one each.
        let rows = if transposed { Cow::Borrowed(b.data()) } else { Cow::Owned(layout::transpose_last(b)?) };
        let step = if b_batches.is_empty() { 0 } else { n * k };
        let dtype = a.dtype();
        match (a.data(), &*rows) {
            (Data::Float(x), Data::Float(y)) if out.is_float() => {
                let mut values = super::walk::reserve(batches * m * n)?;
                for i in 0..batches {
                    let (a, b) = (&x[i * m * k..][..m * k], &y[i * step..][..n * k]);
                    self.domain.product_floats(Product { a, b, m, n, k, dtype, out }, &mut values);
                }
                Ok(Data::Float(values))
            }
            (Data::Int(x), Data::Int(y)) => {
                let mut values = super::walk::reserve(batches * m * n)?;
                for i in 0..batches {
                    let (a, b) = (&x[i * m * k..][..m * k], &y[i * step..][..n * k]);
                    self.domain.product_ints(Product { a, b, m, n, k, dtype, out: DType::I64 }, &mut values);
                }
                let sums = Array::new(DType::I64, vec![values.len()], Data::Int(values))?;
                self.domain.cast(&sums, CastTo { to: out, round: Rounding::NearestEven, saturate: false })
            }
            _ => Err(format!("{dtype} does not multiply into {out}").into()),
        }
    }

    fn sdpa(
        &self,
        q: &ArrayOf<D>,
        k: &ArrayOf<D>,
        v: &ArrayOf<D>,
        mask: Option<&ArrayOf<D>>,
        attrs: &Sdpa,
    ) -> Result<DataOf<D>, Fault> {
        let (&[batches, heads, t, d], &[_, groups, u, _], &[.., e]) = (q.shape(), k.shape(), v.shape()) else {
            return Err(format!("query {:?}, key {:?}", q.shape(), k.shape()).into());
        };
        let (Data::Float(qs), Data::Float(ks), Data::Float(vs)) = (q.data(), k.data(), v.data()) else {
            return Err(format!("is not defined on {}", q.dtype()).into());
        };
        if heads > 0 && (groups == 0 || heads % groups != 0) {
            return Err(format!("{heads} query heads on {groups} key heads").into());
        }
        let dtype = q.dtype();
        let bias = mask.map(|mask| self.bias(mask, &[batches, heads, t, u])).transpose()?;
        let mut values = super::walk::reserve(batches * heads * t * e)?;
        for batch in 0..batches {
            for head in 0..heads {
                let bias = bias.as_ref().map(|all| &all[(batch * heads + head) * t * u..][..t * u]);
                let group = batch * groups + head / (heads / groups);
                let q = &qs[(batch * heads + head) * t * d..][..t * d];
                let (k, v) = (&ks[group * u * d..][..u * d], &vs[group * u * e..][..u * e]);
                self.domain.attend(Head { q, k, v, t, u, d, e, dtype, attrs, bias }, &mut values);
            }
        }
        Ok(Data::Float(values))
    }

    /// What a mask adds to each score.
    fn bias(&self, mask: &ArrayOf<D>, scores: &[usize]) -> Result<Vec<D::Float>, Fault> {
        let domain = self.domain;
        let (seen, hidden) = (domain.float(0.0), domain.float(f64::NEG_INFINITY));
        let additive: Vec<D::Float> = match mask.data() {
            Data::Float(values) => values.clone(),
            Data::Int(flags) => {
                let value = |&flag: &D::Int| match domain.range(flag) {
                    (0, 0) => hidden,
                    (0, _) => domain.join_floats(hidden, seen),
                    _ => seen,
                };
                flags.iter().map(value).collect()
            }
        };
        let additive: ArrayOf<D> = Array::new(DType::F64, mask.shape().to_vec(), Data::Float(additive))?;
        match layout::expand(&additive, scores)? {
            Data::Float(values) => Ok(values),
            Data::Int(_) => Err("a mask of integers".into()),
        }
    }
}

/// Whether the machine has memory for a value.
fn check<D: Domain>(dtype: DType, shape: &[usize]) -> Result<(), NoMemory> {
    let count = shape.iter().product();
    if dtype.is_float() {
        check_memory::<D::Float>(count, dtype, shape)
    } else {
        check_memory::<D::Int>(count, dtype, shape)
    }
}

/// Exactly `N` operands.
fn take<'a, A, const N: usize>(operands: &[&'a A]) -> Result<[&'a A; N], Fault> {
    <[&A; N]>::try_from(operands).map_err(|_| format!("takes {N} operands, got {}", operands.len()).into())
}
