//! Every rewrite of the tables is a theorem: the left side and what the matcher makes of it are evaluated by the
//! interpreter on random and edge operands.
//!
//! For a rewrite, left sides are built for every dtype that the parameters admit, several shapes and every choice of
//! attributes of a sample. What is `exact` must give the same bits. What is `fast` must stay within the bound that
//! follows from the number of roundings, on operands where every function is well conditioned, and must differ
//! somewhere, or it should be `exact`.

#[path = "theorems/instances.rs"]
mod instances;
#[path = "theorems/operands.rs"]
mod operands;

use fusewright_fusion::rewrites::{Class, Rewrite, all, apply};
use fusewright_graph::interp::{Symbols, run};
use fusewright_graph::{DType, Graph, Op, Prim, ReduceOp, ScalarFn, Tensor, num};

use instances::{Instance, instances};
use operands::{Values, tensors};

/// What checking a rewrite found.
#[derive(Default)]
struct Verdict {
    /// Dtypes of the last parameter with an instance.
    built: Vec<DType>,
    /// Dtypes of the last parameter with an instance to which the rewrite applied.
    dtypes: Vec<DType>,
    /// Instances to which it applied.
    instances: usize,
    /// Instances whose bits differ.
    different: usize,
    /// What is wrong with the first bad instance.
    failure: Option<String>,
}

fn verdict(rewrite: &Rewrite) -> Verdict {
    let mut verdict = Verdict::default();
    for Instance { graph, dtype } in instances(rewrite) {
        if !verdict.built.contains(&dtype) {
            verdict.built.push(dtype);
        }
        let (rewritten, counts) = apply(&graph, &[rewrite]).unwrap_or_else(|e| panic!("{}: {e}", rewrite.name));
        if counts.is_empty() {
            continue;
        }
        verdict.instances += 1;
        if !verdict.dtypes.contains(&dtype) {
            verdict.dtypes.push(dtype);
        }
        for values in [Values::Edges, Values::Random, Values::Positive] {
            let inputs = tensors(&graph, values);
            let [left, right] = [&graph, &rewritten].map(|g| {
                run(g, &inputs, &Symbols::new()).unwrap_or_else(|e| panic!("{}: {e}\n{g}", rewrite.name)).swap_remove(0)
            });
            let equal = left == right;
            verdict.different += usize::from(!equal);
            let wrong = match rewrite.class {
                Class::Exact => !equal,
                Class::Fast => values == Values::Positive && !close(&left, &right, rounding(&graph, &rewritten)),
            };
            if wrong && verdict.failure.is_none() {
                let difference = left.compare(&right);
                verdict.failure = Some(format!("{}: {difference:?}\n{graph}\n{rewritten}", rewrite.name));
            }
        }
    }
    verdict
}

/// Relative error that the roundings of two graphs of positive operands may add up to: each node of floats rounds once
/// by half a unit, and sums, products and quotients of positive numbers add relative errors at most.
fn rounding(left: &Graph, right: &Graph) -> f64 {
    [left, right].into_iter().flat_map(|g| g.nodes().iter().map(move |node| (g, node))).fold(0.0, |sum, (g, node)| {
        let well_conditioned = match &node.op {
            Op::Prim(Prim::Map(f)) => {
                use ScalarFn::{Add, Div, Mul, Recip, Rsqrt, Sqrt};
                matches!(f, Add | Mul | Div | Recip | Sqrt | Rsqrt)
            }
            Op::Prim(Prim::Reduce { op, .. }) => *op == ReduceOp::Add,
            Op::Prim(Prim::Cast { .. } | Prim::Literal(_) | Prim::Expand { .. } | Prim::Reshape { .. }) => true,
            _ => false,
        };
        assert!(well_conditioned, "no error bound of `{}` is known here", node.op.name());
        // A value passes through each node once; twice the unit covers products of errors.
        sum + 2.0 * num::unit_roundoff(g.ty(node.results[0]).dtype)
    })
}

fn close(left: &Tensor, right: &Tensor, bound: f64) -> bool {
    let (Some(a), Some(b)) = (left.floats(), right.floats()) else { return false };
    // What leaves the normal range has no relative error bound.
    let top = num::max_finite(left.dtype());
    let normal = |x: f64| x.is_finite() && x.abs() < top && num::ulp(left.dtype(), x) <= x.abs();
    a.iter()
        .zip(b)
        .filter(|(x, y)| normal(**x) && normal(**y))
        .all(|(x, y)| (x - y).abs() <= bound * x.abs().max(y.abs()))
}

#[test]
fn every_rewrite_of_the_tables_holds() {
    assert!(all().len() >= 80, "{} rewrites", all().len());
    let mut failures = Vec::new();
    for rewrite in all() {
        let verdict = verdict(rewrite);
        failures.extend(verdict.failure);
        let missing: Vec<_> = verdict.built.iter().filter(|d| !verdict.dtypes.contains(d)).collect();
        if verdict.instances < 6 || !missing.is_empty() {
            failures.push(format!("{}: applied {} times, never at {missing:?}", rewrite.name, verdict.instances));
        }
        if rewrite.class == Class::Fast && verdict.different == 0 {
            failures.push(format!("{}: the same bits on every operand, so it is exact", rewrite.name));
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_wrong_rewrite_is_found() {
    use Class::{Exact, Fast};
    for (class, lhs, rhs) in [
        (Exact, "(x) y = add x, 0; yield y", "(x) yield x"),
        (Exact, "(x) y = mul x, 0; yield y", "(x) y = sub x, x; yield y"),
        (Exact, "(x) y = neg x; z = abs y; yield z", "(x) z = abs x; yield z"),
        (Exact, "(x, y) z = sub x, y; w = neg z; yield w", "(x, y) w = sub y, x; yield w"),
        (Exact, "(x, y) z = sub x, y; w = add z, y; yield w", "(x, y) yield x"),
        (Exact, "(x: bf16) y = cast x {to = f16}; z = cast y {to = bf16}; yield z", "(x) yield x"),
        (Exact, "(x) y = cast x {..}; yield y", "(x) yield x"),
        (Exact, "(x: f32) y = cast x {to = f64, ..}; z = cast y {$a}; yield z", "(x) z = cast x {$a}; yield z"),
        (Exact, "(x) y = permute x {..}; z = permute y {$p}; yield z", "(x) z = permute x {$p}; yield z"),
        (Exact, "(c, x, y) n = not c; z = select n, x, y; yield z", "(c, x, y) z = select c, x, y; yield z"),
        (Fast, "(x: float, c) y = mul x, c; yield y", "(x, c) y = div x, c; yield y"),
        (Fast, "(x: f32) y = cast x {to = bf16}; z = cast y {to = f32}; yield z", "(x) y = sqrt x; yield y"),
    ] {
        let rewrite = Rewrite::new("planted", class, "", lhs, rhs).expect(lhs);
        let verdict = verdict(&rewrite);
        assert!(verdict.failure.is_some(), "{lhs} => {rhs} passed on {} instances", verdict.instances);
    }
}

#[test]
fn an_exact_rewrite_is_not_fast() {
    let rewrite = Rewrite::new("planted", Class::Fast, "", "(x) y = mul x, 1; yield y", "(x) yield x").expect("parses");
    let verdict = verdict(&rewrite);
    assert!(verdict.instances > 0 && verdict.different == 0);
}
