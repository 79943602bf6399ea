//! Computes what is constant, by the reference interpreter.
//!
//! A constant is the same element everywhere: a literal, or layout of one. An elementwise op of such constants is computed
//! on their elements, whatever the shape; any other op of constants is computed where it is small. What is not the same
//! everywhere is known all the same, so that parts and sums of it are constants, and is written anew where that takes few
//! nodes. So the graph holds scalars only, and nothing large is ever made.

mod spell;
mod value;

use std::collections::BTreeMap;

use fusewright_graph::{Builder, Dim, Graph, Literal, Op, Prim, TypeError, Value};

use crate::pass::{Cx, Diagnostic, Outcome, Pass, PassResult};
use value::Known;

/// The pass.
pub const PASS: Pass = Pass { name: "fold", required: false, run };

/// Most elements of an operand or result of what is computed as a whole.
const MOST: i64 = 4096;

fn run(graph: &Graph, cx: &mut Cx) -> PassResult {
    let mut known: BTreeMap<Value, Known> = BTreeMap::new();
    let mut changed = 0;
    let rebuilt = graph.rebuild(|b, _, node, operands| {
        let error = |e: TypeError| Diagnostic::rebuilt(PASS.name, &node.origin, &e);
        let all: Option<Vec<&Known>> = operands.iter().map(|v| known.get(v)).collect();
        let value = all.and_then(|all| value::of(b, &node.op, operands, &all));
        let spelled = if cx.is_spent() {
            None
        } else {
            match &value {
                Some(Known::Same(element)) if !is_plain(b, &node.op, operands) => {
                    Some(spread(b, *element, &graph.ty(node.results[0]).shape).map_err(error)?)
                }
                Some(Known::Tensor(tensor)) => spell::constant(b, &node.op, tensor).map_err(error)?,
                None => spell::gathered(b, &node.op, operands, &known).map_err(error)?,
                Some(Known::Same(_)) => None,
            }
        };
        let results = match spelled {
            Some(spelled) => {
                cx.spend();
                changed += 1;
                vec![spelled]
            }
            None => b.op(node.op.clone(), operands).map_err(error)?,
        };
        if let Some(value) = value {
            known.insert(results[0], value);
        }
        Ok(results)
    });
    Ok((rebuilt?, Outcome { changed }))
}

/// An op of constants alone that are the same everywhere, each a literal or one layout op of it, as such a constant of a
/// shape.
pub(super) fn of_constants(
    b: &Builder,
    op: &Op,
    operands: &[Value],
    shape: &[Dim],
) -> Result<Option<Value>, TypeError> {
    let constant = |&v: &Value| match b.definition(v)? {
        (Op::Prim(Prim::Literal(literal)), _) => Some(literal),
        (Op::Prim(Prim::Reshape { .. } | Prim::Expand { .. }), of) => match b.definition(of[0])?.0 {
            Op::Prim(Prim::Literal(literal)) => Some(literal),
            _ => None,
        },
        _ => None,
    };
    let elements = operands.iter().map(constant).collect::<Option<Vec<Literal>>>();
    elements.and_then(|elements| value::same(op, &elements)).map(|element| spread(b, element, shape)).transpose()
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

#[cfg(test)]
mod tests {
    use fusewright_graph::DType::{self, BF16, F32, I8, I64};
    use fusewright_graph::{ReduceOp, Rounding, ScalarFn, TensorType};

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

    fn names(build: &Build<'_>) -> Vec<String> {
        left(build).iter().map(|op| op.name().to_owned()).collect()
    }

    fn iota(b: &Builder, shape: &[i64], axis: usize) -> Result<Value, TypeError> {
        let shape = shape.iter().map(|&n| Dim::constant(n)).collect();
        b.prim(Prim::Iota { dtype: I64, shape, axis }, &[])
    }

    /// `tril(ones(5, 5))` in f32.
    fn triangle(b: &Builder) -> Result<Value, TypeError> {
        let below = b.map(ScalarFn::Ge, &[iota(b, &[5, 5], 0)?, iota(b, &[5, 5], 1)?])?;
        b.cast(below, F32)
    }

    #[test]
    fn parts_and_sums_of_constants_are_constants() {
        let element = |b: &Builder, _| {
            let row = b.slice(triangle(b)?, 0, 3.into(), 4.into())?;
            b.slice(row, 1, 2.into(), 3.into())
        };
        assert_eq!(names(&element), ["literal", "reshape"]);
        let sum = |b: &Builder, _| b.reduce_last(ReduceOp::Add, b.slice(triangle(b)?, 0, 3.into(), 4.into())?);
        let [Op::Prim(Prim::Literal(four)), Op::Prim(Prim::Reshape { .. })] = left(&sum)[..] else {
            panic!("{:?}", left(&sum))
        };
        assert_eq!(four, Literal::Float(F32, 4.0));
        // A row is a choice by lanes, part of an index a sum.
        let row = |b: &Builder, x| {
            let row = b.reshape(b.slice(triangle(b)?, 0, 3.into(), 4.into())?, vec![5.into()])?;
            b.mul(b.slice(x, 1, 0.into(), 5.into())?, row)
        };
        let chosen = ["iota", "literal", "lt", "literal", "literal", "select", "reshape", "slice", "mul"];
        assert_eq!(names(&row), chosen);
        let part = |b: &Builder, _| b.slice(iota(b, &[9], 0)?, 0, 3.into(), 7.into());
        assert_eq!(names(&part), ["iota", "literal", "add"]);
        // Rows that differ from each other in many places stay what they are.
        let rows = |b: &Builder, _| b.slice(triangle(b)?, 0, 1.into(), 4.into());
        assert_eq!(names(&rows).last().map(String::as_str), Some("slice"));
    }

    #[test]
    fn what_is_written_anew_has_the_same_elements() {
        use fusewright_graph::interp::{Symbols, run as evaluate};
        type Part = fn(&Builder) -> Result<Value, TypeError>;
        let parts: [Part; 5] = [
            |b| b.slice(triangle(b)?, 0, 3.into(), 4.into()),
            |b| b.slice(triangle(b)?, 1, 1.into(), 2.into()),
            |b| b.slice(b.map(ScalarFn::Neg, &[iota(b, &[2, 9], 1)?])?, 1, 3.into(), 8.into()),
            |b| {
                let band = b.map(ScalarFn::Rem, &[iota(b, &[12], 0)?, b.int(I64, 4)?])?;
                b.slice(b.map(ScalarFn::Lt, &[band, b.int(I64, 2)?])?, 0, 1.into(), 7.into())
            },
            |b| b.reduce_last(ReduceOp::Max, iota(b, &[6, 3], 0)?),
        ];
        for (i, part) in parts.into_iter().enumerate() {
            let b = Builder::new("g");
            b.output(part(&b).expect("types"));
            let graph = b.finish();
            let (folded, outcome) = run(&graph, &mut Cx::default()).expect("folds");
            assert!(outcome.changed > 0, "{i}\n{folded}");
            let [before, after] = [&graph, &folded].map(|g| evaluate(g, &[], &Symbols::new()).expect("has a value"));
            assert_eq!(before, after, "{i}\n{folded}");
        }
    }

    #[test]
    fn gathers_at_known_places_are_slices() {
        let at = |b: &Builder, x, places: Value| b.prim(Prim::Gather { axis: 1 }, &[x, places]);
        let turned = |b: &Builder, x| {
            let moved = b.add(iota(b, &[64], 0)?, b.int(I64, 32)?)?;
            at(b, x, b.map(ScalarFn::Rem, &[moved, b.int(I64, 64)?])?)
        };
        assert_eq!(names(&turned), ["slice", "slice", "cat"]);
        let swapped = |b: &Builder, x| {
            let pair = b.slice(x, 1, 0.into(), 2.into())?;
            at(b, pair, b.sub(b.int(I64, 1)?, iota(b, &[2], 0)?)?)
        };
        assert_eq!(names(&swapped), ["slice", "slice", "slice", "cat"]);
        let every = |b: &Builder, x| at(b, x, b.mul(iota(b, &[16], 0)?, b.int(I64, 3)?)?);
        assert_eq!(names(&every), ["slice"]);
        // Each so often, and all of them so often.
        let some = |b: &Builder, x: Value| b.slice(x, 1, 4.into(), 8.into());
        let at_groups = |n: i64| {
            move |b: &Builder, x: Value| at(b, some(b, x)?, b.map(ScalarFn::Div, &[iota(b, &[n], 0)?, b.int(I64, 8)?])?)
        };
        assert_eq!(names(&at_groups(32)), ["slice", "reshape", "expand", "reshape"]);
        let tiled =
            |b: &Builder, x: Value| at(b, some(b, x)?, b.map(ScalarFn::Rem, &[iota(b, &[24], 0)?, b.int(I64, 4)?])?);
        assert_eq!(names(&tiled), ["slice", "reshape", "expand", "reshape"]);
        // The last comes less often.
        assert!(names(&at_groups(30)).iter().all(|op| op != "expand"));
        // Backwards, and beyond the axis.
        let back = |b: &Builder, x| at(b, x, b.sub(b.int(I64, 63)?, iota(b, &[64], 0)?)?);
        assert_eq!(names(&back).last().map(String::as_str), Some("gather"));
        let beyond = |b: &Builder, x| at(b, x, b.add(iota(b, &[4], 0)?, b.int(I64, 61)?)?);
        assert_eq!(names(&beyond).last().map(String::as_str), Some("gather"));
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
