//! Computes what is constant, by the reference interpreter.
//!
//! A constant has the same element everywhere: a literal, or layout of one. An elementwise op of constants is computed
//! on their elements, whatever the shape; any other op of constants is computed where it is small and gives a constant.
//! So the graph holds scalars only, and nothing large is ever made.

use std::collections::BTreeMap;

use fusewright_graph::interp::{self, Symbols};
use fusewright_graph::tensor::Tensor;
use fusewright_graph::{Builder, Dim, Graph, Literal, Op, Prim, TensorType, TypeError, Value};

use crate::pass::{Cx, Diagnostic, Outcome, Pass, PassResult};

/// The pass.
pub const PASS: Pass = Pass { name: "fold", required: false, run };

/// Most elements of an operand or result of what is computed as a whole.
const MOST: i64 = 4096;

fn run(graph: &Graph, cx: &mut Cx) -> PassResult {
    let mut known: BTreeMap<Value, Literal> = BTreeMap::new();
    let mut changed = 0;
    let rebuilt = graph.rebuild(|b, _, node, operands| {
        let error = |e: TypeError| Diagnostic::rebuilt(PASS.name, &node.origin, &e);
        let elements: Option<Vec<Literal>> = operands.iter().map(|v| known.get(v).copied()).collect();
        let element = elements.and_then(|elements| element(b, &node.op, operands, &elements));
        let results = match element {
            Some(element) if !cx.is_spent() && !is_plain(b, &node.op, operands) => {
                cx.spend();
                changed += 1;
                let ty = graph.ty(node.results[0]);
                vec![spread(b, element, &ty.shape).map_err(error)?]
            }
            _ => b.op(node.op.clone(), operands).map_err(error)?,
        };
        if let Some(element) = element {
            known.insert(results[0], element);
        }
        Ok(results)
    });
    Ok((rebuilt?, Outcome { changed }))
}

/// Whether a node is how constants are spelled: a literal, or one layout op of a literal.
fn is_plain(b: &Builder, op: &Op, operands: &[Value]) -> bool {
    match op {
        Op::Prim(Prim::Literal(_)) => true,
        Op::Prim(Prim::Reshape { .. } | Prim::Expand { .. }) => {
            matches!(b.definition(operands[0]), Some((Op::Prim(Prim::Literal(_)), _)))
        }
        _ => false,
    }
}

/// A constant of a shape.
fn spread(b: &Builder, element: Literal, shape: &[Dim]) -> Result<Value, TypeError> {
    let literal = b.prim(Prim::Literal(element), &[])?;
    if shape.is_empty() {
        return Ok(literal);
    }
    let ones = shape.iter().all(|extent| extent.as_const() == Some(1));
    let shape = shape.to_vec();
    b.prim(if ones { Prim::Reshape { shape } } else { Prim::Expand { shape } }, &[literal])
}

/// What every element of an op's result is, if its operands are constants and so is the result.
fn element(b: &Builder, op: &Op, operands: &[Value], elements: &[Literal]) -> Option<Literal> {
    let small = || {
        let types: Vec<TensorType> = operands.iter().map(|&v| b.ty(v)).collect();
        types.iter().all(is_small).then(|| computed(op, &types, elements)).flatten()
    };
    match op {
        Op::Prim(prim) => match prim {
            Prim::Literal(literal) => Some(*literal),
            Prim::Map(_) | Prim::Cast { .. } | Prim::Bitcast { .. } => {
                let types: Vec<TensorType> = elements.iter().map(|e| TensorType::scalar(e.dtype())).collect();
                computed(op, &types, elements)
            }
            Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } | Prim::Slice { .. } => {
                elements.first().copied()
            }
            Prim::Cat { .. } => {
                let (first, rest) = elements.split_first()?;
                rest.iter().all(|other| other == first).then_some(*first)
            }
            // Their values come from outside or depend on it.
            Prim::Opaque { .. } | Prim::AllReduce(_) => None,
            Prim::SizeOf(_)
            | Prim::Iota { .. }
            | Prim::Reduce { .. }
            | Prim::ArgReduce { .. }
            | Prim::TopK { .. }
            | Prim::Gather { .. }
            | Prim::Scatter { .. }
            | Prim::Pack { .. }
            | Prim::MatMul { .. }
            | Prim::GroupedMatMul { .. }
            | Prim::Sdpa(_) => small(),
        },
        Op::Composite(_) => small(),
    }
}

fn is_small(ty: &TensorType) -> bool {
    ty.elements().as_const().is_some_and(|n| n <= MOST)
}

/// The op on constants of the given types, where it has one result, a small one, of equal elements.
fn computed(op: &Op, types: &[TensorType], elements: &[Literal]) -> Option<Literal> {
    let b = Builder::new("constant");
    let operands: Vec<Value> =
        types.iter().zip(elements).map(|(ty, &e)| spread(&b, e, &ty.shape)).collect::<Result<_, _>>().ok()?;
    let results = b.op(op.clone(), &operands).ok()?;
    let &[result] = results.as_slice() else { return None };
    if !is_small(&b.ty(result)) {
        return None;
    }
    b.output(result);
    // What has no value, such as a gather out of range, is left to whoever runs the graph.
    let tensor = interp::run(&b.finish(), &[], &Symbols::new()).ok()?.pop()?;
    uniform(&tensor)
}

/// The element that a tensor has everywhere.
fn uniform(tensor: &Tensor) -> Option<Literal> {
    let first = tensor.code(0)?;
    if (1..tensor.len()).any(|i| tensor.code(i) != Some(first)) {
        return None;
    }
    let float = tensor.floats().map(|v| Literal::Float(tensor.dtype(), v[0]));
    float.or_else(|| tensor.ints().map(|v| Literal::Int(tensor.dtype(), v[0])))
}

#[cfg(test)]
mod tests {
    use fusewright_graph::DType::{self, BF16, F32, I8, I64};
    use fusewright_graph::{ReduceOp, Rounding, ScalarFn};

    use super::*;
    use crate::passes::dce;

    type Build<'a> = dyn Fn(&Builder, Value) -> Result<Value, TypeError> + 'a;

    /// The nodes left of an expression of literals and `x: f32[s, 64]`.
    fn left(build: &Build<'_>) -> Vec<Op> {
        let b = Builder::new("g");
        let s = b.symbol("s", 1, None);
        let x = b.input("x", TensorType::new(F32, [s, Dim::constant(64)]));
        let y = build(&b, x).expect("types");
        b.output(y);
        let graph = b.finish();
        let (out, outcome) = run(&graph, &mut Cx::default()).expect("folds");
        let (again, none) = run(&out, &mut Cx::default()).expect("folds");
        assert_eq!(none.changed, 0, "{again}");
        assert!(outcome.changed <= graph.nodes().len());
        dce(&out).0.nodes().iter().map(|node| node.op.clone()).collect()
    }

    fn literal(build: &Build<'_>) -> Option<Literal> {
        match left(build).as_slice() {
            [Op::Prim(Prim::Literal(literal))] => Some(*literal),
            _ => None,
        }
    }

    fn f32(v: f32) -> Option<Literal> {
        Some(Literal::Float(F32, f64::from(v)))
    }

    #[test]
    fn scalars_are_computed_at_their_own_dtype() {
        let float = |b: &Builder, v: f32| b.float(F32, f64::from(v));
        assert_eq!(literal(&|b, _| b.map(ScalarFn::Neg, &[float(b, 448.0)?])), f32(-448.0));
        assert_eq!(literal(&|b, _| b.map(ScalarFn::Neg, &[float(b, 0.0)?])), f32(-0.0));
        assert_eq!(literal(&|b, _| b.div(float(b, 1.0)?, float(b, 448.0)?)), f32(1.0 / 448.0));
        assert_eq!(literal(&|b, _| b.add(float(b, 1e8)?, float(b, 1.0)?)), f32(1e8));
        // Rounded to bf16 on the way.
        let narrowed = |b: &Builder, _| b.cast(b.cast(float(b, 0.1)?, BF16)?, F32);
        assert_eq!(literal(&narrowed), f32(0.100_097_656));
        let wrapped = |b: &Builder, _| {
            b.prim(Prim::Cast { to: I8, round: Rounding::TowardZero, saturate: false }, &[b.int(I64, 300)?])
        };
        assert_eq!(literal(&wrapped), Some(Literal::Int(I8, 44)));
        assert_eq!(literal(&|b, _| b.add(b.int(I8, 127)?, b.int(I8, 1)?)), Some(Literal::Int(I8, -128)));
        let less = |b: &Builder, _| b.map(ScalarFn::Lt, &[b.int(I64, 1)?, b.int(I64, 2)?]);
        assert_eq!(literal(&less), Some(Literal::Int(DType::Bool, 1)));
        assert_eq!(literal(&|b, _| b.prim(Prim::SizeOf(Dim::constant(7)), &[])), Some(Literal::Int(I64, 7)));
    }

    #[test]
    fn spread_constants_are_computed_on_one_element() {
        let huge = |b: &Builder, _| {
            let shape = vec![Dim::symbol("s"), Dim::constant(1 << 40)];
            b.map(ScalarFn::Neg, &[b.prim(Prim::Expand { shape }, &[b.float(F32, 2.0)?])?])
        };
        let [Op::Prim(Prim::Literal(two)), Op::Prim(Prim::Expand { shape })] = &left(&huge)[..] else {
            panic!("{:?}", left(&huge))
        };
        assert_eq!((*two, shape.len()), (Literal::Float(F32, -2.0), 2));
        let sum = |b: &Builder, _| {
            let shape = vec![Dim::constant(3)];
            b.reduce_last(ReduceOp::Add, b.prim(Prim::Expand { shape }, &[b.float(F32, 0.5)?])?)
        };
        let [Op::Prim(Prim::Literal(sum)), Op::Prim(Prim::Reshape { .. })] = left(&sum)[..] else {
            panic!("{:?}", left(&sum))
        };
        assert_eq!(sum, Literal::Float(F32, 1.5));
    }

    #[test]
    fn what_is_not_constant_stays() {
        let ops = |build: &Build<'_>| left(build).iter().map(|op| op.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(ops(&|b, x| b.mul(x, b.float(F32, 0.0)?)), ["literal", "mul"]);
        assert_eq!(ops(&|b, _| b.prim(Prim::SizeOf(Dim::symbol("s")), &[])), ["size_of"]);
        let iota = |n: i64| {
            move |b: &Builder, _| b.prim(Prim::Iota { dtype: I64, shape: vec![Dim::constant(n)], axis: 0 }, &[])
        };
        assert_eq!(ops(&iota(4)), ["iota"]);
        assert_eq!(ops(&iota(1)), ["literal", "reshape"]);
        let parts = |b: &Builder, _| {
            let one = |v| b.reshape(b.float(F32, v)?, vec![Dim::constant(1)]);
            b.cat(&[one(0.0)?, one(-0.0)?], 0)
        };
        assert_eq!(ops(&parts), ["literal", "reshape", "literal", "reshape", "cat"]);
        let opaque = |b: &Builder, _| {
            let prim = Prim::Opaque { target: "draw".into(), attrs: vec![], results: vec![TensorType::scalar(F32)] };
            b.prim(prim, &[b.float(F32, 1.0)?])
        };
        assert_eq!(ops(&opaque), ["literal", "opaque"]);
        // Too large to compute.
        let many = |b: &Builder, _| {
            let shape = vec![Dim::constant(MOST + 1)];
            b.reduce_last(ReduceOp::Add, b.prim(Prim::Expand { shape }, &[b.float(F32, 0.5)?])?)
        };
        assert_eq!(ops(&many), ["literal", "expand", "reduce"]);
    }
}
