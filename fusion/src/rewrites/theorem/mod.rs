//! Every rewrite is a theorem: the left side and what the matcher makes of it are evaluated by the interpreter on random
//! and edge operands.
//!
//! For a rewrite, left sides are built for every dtype that the parameters admit, several shapes and every choice of
//! attributes of a sample. What is `exact` must give the same bits. What is `fast` must stay within the bound that
//! follows from the number of roundings, on operands where every function is well conditioned, and must differ
//! somewhere, or it should be `exact`.

mod instances;
mod wide;

use std::collections::BTreeMap;

use fusewright_graph::interp::{InterpError, Symbols, run};
use fusewright_graph::operands::{Values, tensors, tensors_near};
use fusewright_graph::{
    DType, Dim, Graph, Literal, Op, Prim, ReduceOp, ScalarFn, Tensor, TensorType, TypeError, Value, num,
};

use super::{Class, Rewrite};
use crate::passes;
use instances::{Instance, instances};

/// Types of the parameters, and texts of variables, on which a rewrite is checked as well.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sample {
    /// Types in the order of the parameters.
    pub types: Vec<TensorType>,
    /// Texts of attributes by variable.
    pub texts: BTreeMap<String, String>,
}

/// Value of every symbol.
const ROWS: i64 = 3;
/// Constants whose neighbourhoods are tried together: all pairs of values near them meet in the largest shape.
const TOGETHER: usize = 7;
/// Most elements of all values of a graph that is evaluated.
const MOST_ELEMENTS: i64 = 1 << 22;

/// Number of elements of a shape that is evaluated; `None` if an extent is negative, or it does not fit.
fn elements(shape: &[Dim]) -> Option<i64> {
    let extent = |dim: &Dim| dim.eval(&|_| Some(ROWS)).ok().filter(|n| *n >= 0);
    shape.iter().try_fold(1i64, |product, dim| product.checked_mul(extent(dim)?))
}

/// Whether evaluating a graph takes little memory.
fn is_small(graph: &Graph) -> bool {
    let mut values = 0..graph.value_count() as u32;
    let sum = |sum: i64, value| sum.checked_add(elements(&graph.ty(Value(value)).shape)?);
    values.try_fold(0i64, sum).is_some_and(|sum| sum <= MOST_ELEMENTS)
}

/// Why no operand of a type is tried.
pub fn why_untried(ty: &TensorType) -> Option<String> {
    let negative = |dim: &&Dim| dim.eval(&|_| Some(ROWS)).is_ok_and(|n| n < 0);
    match (ty.shape.iter().find(negative), elements(&ty.shape)) {
        (Some(dim), _) => Some(format!("an extent of {dim}")),
        (None, Some(n)) if n <= MOST_ELEMENTS => None,
        _ => Some(format!("{ty} has more elements than the {MOST_ELEMENTS} that are tried")),
    }
}

/// What checking a rewrite found.
#[derive(Clone, Default, Debug)]
pub struct Verdict {
    /// Dtypes of the last parameter with an instance.
    pub built: Vec<DType>,
    /// Dtypes of the last parameter with an instance to which the rewrite applied.
    pub dtypes: Vec<DType>,
    /// Instances to which it applied.
    pub instances: usize,
    /// Operands on which both sides have values.
    pub evaluated: usize,
    /// Operands on which the bits differ.
    pub different: usize,
    /// What is wrong with the first bad instance.
    pub failure: Option<String>,
    /// What was compared of each result of a `fast` rewrite.
    compared: BTreeMap<(DType, usize), Compared>,
}

/// What was compared of a result at one dtype of the last parameter.
#[derive(Clone, Default, Debug)]
struct Compared {
    /// Whether an instance had a relative error, and no element without one that differs.
    whole: bool,
    /// The first element that differs and has no relative error.
    open: Option<String>,
}

/// The graph after the rewrite, if it applies.
pub type Rewritten<'a> = &'a dyn Fn(&Graph) -> Result<Option<Graph>, TypeError>;

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Most choices of attributes for each choice of types.
    pub choices: usize,
    /// Most left sides.
    pub instances: usize,
}

/// The left sides that a rewrite is checked on.
pub fn lefts(rewrite: &Rewrite, given: &[Sample], most: Effort) -> Vec<Graph> {
    instances(rewrite, given, most).into_iter().map(|instance| instance.graph).collect()
}

/// Checks a rewrite on operands of many types and on the given samples.
pub fn check(rewrite: &Rewrite, given: &[Sample], most: Effort, apply: Rewritten<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    for Instance { graph, dtype } in instances(rewrite, given, most) {
        if !verdict.built.contains(&dtype) {
            verdict.built.push(dtype);
        }
        let rewritten = match apply(&graph) {
            Ok(None) => continue,
            Ok(Some(rewritten)) => rewritten,
            Err(error) => {
                verdict.failure.get_or_insert(error.to_string());
                continue;
            }
        };
        verdict.instances += 1;
        if !verdict.dtypes.contains(&dtype) {
            verdict.dtypes.push(dtype);
        }
        if !(is_small(&graph) && is_small(&rewritten)) {
            continue;
        }
        for values in [Values::Edges, Values::Codes, Values::Positive] {
            let positive = (values == Values::Positive).then_some(dtype);
            verdict.judge(rewrite, [&graph, &rewritten], &tensors(&graph, ROWS, values), positive);
        }
        // Of nothing, where reductions are what they start from.
        verdict.judge(rewrite, [&graph, &rewritten], &tensors(&graph, 0, Values::Edges), None);
        if rewrite.class == Class::Exact {
            for inputs in near_constants(&graph, &rewritten) {
                verdict.judge(rewrite, [&graph, &rewritten], &inputs, None);
            }
            if verdict.failure.is_none()
                && let Some((a, b)) = wide::nearly_equal(&graph, &rewritten, ROWS)
            {
                let why = format!("without roundings the left side gives {a:?} where the right side gives {b:?}");
                verdict.failure = Some(format!("{why}\n{graph}{rewritten}"));
            }
        }
    }
    verdict
}

/// Operands at the constants of both sides and beside them, where comparisons and steps change.
fn near_constants(left: &Graph, right: &Graph) -> Vec<Vec<Tensor>> {
    let mut constants: Vec<Literal> = Vec::new();
    for graph in [left, right] {
        // A composite that does not expand has no value either.
        let Ok(graph) = graph.expanded() else { continue };
        for node in graph.nodes() {
            if let Op::Prim(Prim::Literal(literal)) = &node.op
                && !constants.contains(literal)
            {
                constants.push(*literal);
            }
        }
    }
    let mut all = Vec::new();
    for few in constants.chunks(TOGETHER) {
        let first = tensors_near(left, ROWS, few, 0);
        let longest = first.iter().map(Tensor::len).max().unwrap_or(0);
        // No dtype has more values near a constant than these.
        let values = few.len() * 3 + 7;
        all.push(first);
        if longest > 0 {
            all.extend((longest..values).step_by(longest).map(|start| tensors_near(left, ROWS, few, start)));
        }
    }
    all
}

impl Verdict {
    /// Why the sides of a `fast` rewrite were not compared: at some dtype they differ, and one of them is zero, infinite,
    /// NaN or below the normal range wherever they do.
    pub fn uncompared(&self) -> Option<String> {
        let mut never = self.compared.iter().filter(|(_, compared)| !compared.whole);
        never.find_map(|((dtype, _), compared)| {
            let shown = compared.open.as_ref()?;
            let unknown = "one side is zero, infinite, NaN or below the normal range where they differ";
            Some(format!("at {dtype} {unknown}: {shown}"))
        })
    }

    /// Evaluates both sides; `positive` is the dtype of the last parameter where all operands are positive.
    fn judge(&mut self, rewrite: &Rewrite, [left, right]: [&Graph; 2], inputs: &[Tensor], positive: Option<DType>) {
        let evaluate = |graph: &Graph| run(graph, inputs, &Symbols::new());
        let wrong = match (evaluate(left), evaluate(right)) {
            // Operands on which the left side has no value show nothing.
            (Err(_), _) => return,
            (Ok(_), Err(error)) => Some(no_value(left, right, &error)),
            (Ok(a), Ok(b)) => {
                self.evaluated += 1;
                let unequal = a.iter().zip(&b).position(|(a, b)| a != b);
                self.different += usize::from(unequal.is_some());
                match rewrite.class {
                    Class::Exact => unequal.map(|i| differs(left, right, inputs, (&a[i], &b[i]))),
                    Class::Fast => positive.and_then(|dtype| match rounding(left, right) {
                        Err(message) => Some(message),
                        Ok(bound) => {
                            self.note(dtype, [left, right], inputs, [&a, &b]);
                            let mut pairs = a.iter().zip(&b);
                            let far = pairs.find_map(|(a, b)| Some((a, b, first_far(a, b, bound)?)));
                            far.map(|(a, b, at)| differs_at(left, right, inputs, (a, b), at))
                        }
                    }),
                }
            }
        };
        if self.failure.is_none() {
            self.failure = wrong;
        }
    }

    /// Notes of which elements of each result the error is known.
    fn note(&mut self, dtype: DType, [left, right]: [&Graph; 2], inputs: &[Tensor], [a, b]: [&[Tensor]; 2]) {
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            let compared = self.compared.entry((dtype, i)).or_default();
            let open = (0..a.len()).find(|&at| !same(a, b, at) && normal(a, b, at).is_none());
            compared.whole |= open.is_none() && (0..a.len()).any(|at| normal(a, b, at).is_some());
            if let Some(at) = open {
                compared.open.get_or_insert_with(|| differs_at(left, right, inputs, (a, b), at));
            }
        }
    }
}

fn no_value(left: &Graph, right: &Graph, error: &InterpError) -> String {
    format!("the right side has no value where the left one has: {error}\n{}", sides(left, right))
}

/// Both sides as text, the right one without what it does not need.
fn sides(left: &Graph, right: &Graph) -> String {
    let right = passes::dce(right).0.to_string().replacen("@left", "@right", 1);
    format!("{left}{right}")
}

/// The first element that differs, the operands that make it, and both sides.
fn differs(left: &Graph, right: &Graph, inputs: &[Tensor], (a, b): (&Tensor, &Tensor)) -> String {
    let at = (0..a.len()).find(|&i| !same(a, b, i)).unwrap_or(a.len());
    differs_at(left, right, inputs, (a, b), at)
}

/// An element that differs, the operands that make it, and both sides.
fn differs_at(left: &Graph, right: &Graph, inputs: &[Tensor], (a, b): (&Tensor, &Tensor), at: usize) -> String {
    if a.dtype() != b.dtype() || a.shape() != b.shape() || at >= a.len() {
        return format!("the sides differ in type\n{}", sides(left, right));
    }
    let operand = |(input, tensor): (&fusewright_graph::Input, &Tensor)| {
        let place = beneath(at, a.shape(), tensor.shape());
        let value = place.and_then(|i| element(tensor, i));
        let value = value.unwrap_or_else(|| format!("{:?} elements", tensor.shape()));
        format!("{} = {value} ({})", input.name, tensor.dtype())
    };
    let operands: Vec<String> = left.inputs().iter().zip(inputs).map(operand).collect();
    let value = |t: &Tensor| element(t, at).unwrap_or_default();
    format!(
        "for {} the left side gives {}, the right side {}, at element {at}\n{}",
        operands.join(", "),
        value(a),
        value(b),
        sides(left, right)
    )
}

fn same(a: &Tensor, b: &Tensor, at: usize) -> bool {
    match (a.floats(), b.floats()) {
        (Some(x), Some(y)) => {
            matches!((x.get(at), y.get(at)), (Some(x), Some(y)) if x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan())
        }
        _ => a.code(at) == b.code(at),
    }
}

fn element(tensor: &Tensor, at: usize) -> Option<String> {
    match (tensor.floats(), tensor.ints()) {
        (Some(values), _) => values.get(at).map(|x| format!("{x:?}")),
        (_, Some(values)) => values.get(at).map(i64::to_string),
        _ => None,
    }
}

/// The element of an operand that broadcasting puts beneath an element of a result, if the shapes broadcast.
fn beneath(mut at: usize, result: &[usize], operand: &[usize]) -> Option<usize> {
    let skip = result.len().checked_sub(operand.len())?;
    let (mut place, mut stride) = (0, 1);
    for (axis, &extent) in result.iter().enumerate().rev() {
        let index = at.checked_rem(extent)?;
        at /= extent;
        if axis >= skip {
            match operand[axis - skip] {
                1 => {}
                own if own == extent => place += index * stride,
                _ => return None,
            }
            stride *= operand[axis - skip];
        }
    }
    Some(place)
}

/// Relative error that the roundings of two graphs of positive operands may add up to: each node of floats rounds once
/// by half a unit, and sums, products and quotients of positive numbers add relative errors at most.
fn rounding(left: &Graph, right: &Graph) -> Result<f64, String> {
    let mut sum = 0.0;
    for graph in [left, right] {
        let graph = graph.expanded().map_err(|e| e.to_string())?;
        for node in graph.nodes() {
            let dtype = graph.ty(node.results[0]).dtype;
            if !(dtype.is_float() && is_well_conditioned(&node.op)) {
                let name = node.op.name();
                return Err(format!(
                    "a side has `{name}` of {dtype}, behind which a small error may be of any size, so that no bound for a \
                     comparison of the sides is known"
                ));
            }
            // A value passes through each node once; twice the unit covers products of errors.
            sum += 2.0 * num::unit_roundoff(dtype);
        }
    }
    Ok(sum)
}

/// Whether relative errors of positive operands add at most.
fn is_well_conditioned(op: &Op) -> bool {
    match op {
        Op::Prim(Prim::Map(f)) => {
            use ScalarFn::{Add, Div, Max, Min, Mul, Recip, Rsqrt, Sqrt};
            matches!(f, Add | Mul | Div | Recip | Sqrt | Rsqrt | Max | Min)
        }
        Op::Prim(Prim::Reduce { op, .. }) => matches!(op, ReduceOp::Add | ReduceOp::Max | ReduceOp::Min),
        Op::Prim(
            Prim::Cast { .. }
            | Prim::Literal(_)
            | Prim::Expand { .. }
            | Prim::Reshape { .. }
            | Prim::Permute { .. }
            | Prim::Slice { .. }
            | Prim::Cat { .. },
        ) => true,
        _ => false,
    }
}

/// An element of both sides, if both are of the normal range: what leaves it has no relative error bound.
fn normal(left: &Tensor, right: &Tensor, at: usize) -> Option<(f64, f64)> {
    let top = num::max_finite(left.dtype());
    let is_normal = |x: f64| x.is_finite() && x.abs() < top && num::ulp(left.dtype(), x) <= x.abs();
    let (&x, &y) = (left.floats()?.get(at)?, right.floats()?.get(at)?);
    (is_normal(x) && is_normal(y)).then_some((x, y))
}

/// The first element whose sides have another relative error than a bound allows. Other dtypes have none.
fn first_far(left: &Tensor, right: &Tensor, bound: f64) -> Option<usize> {
    if left.dtype() != right.dtype() || left.shape() != right.shape() || left.floats().is_none() {
        return Some(left.len());
    }
    let is_far = |(x, y): (f64, f64)| (x - y).abs() > bound * x.abs().max(y.abs());
    (0..left.len()).find(|&at| normal(left, right, at).is_some_and(is_far))
}
