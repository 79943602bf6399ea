//! Computes equal nodes once.
//!
//! Two nodes are equal if their ops are and their operands are, the first two of a commutative function in either
//! order. Ops of the host framework and collectives are never merged.

use std::collections::HashMap;

use fusewright_graph::{Graph, Op, Prim, Value};

use crate::pass::{Cx, Diagnostic, Outcome, Pass, PassResult};

/// The pass.
pub const PASS: Pass = Pass { name: "cse", required: false, run };

/// What makes nodes equal. A map keyed by it is only looked up, so its order cannot show.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Prim(Prim, Vec<Value>),
    Composite(&'static str, Vec<(String, String)>, Vec<Value>),
}

fn key(op: &Op, operands: &[Value]) -> Option<Key> {
    let mut operands = operands.to_vec();
    match op {
        Op::Prim(Prim::Opaque { .. } | Prim::AllReduce(_)) => None,
        Op::Prim(prim) => {
            if let Prim::Map(f) = prim
                && f.spec().commutative
            {
                operands[..2].sort_unstable();
            }
            Some(Key::Prim(prim.clone(), operands))
        }
        Op::Composite(composite) => Some(Key::Composite(composite.name(), composite.attrs().0.clone(), operands)),
    }
}

/// The graph with equal nodes merged.
///
/// # Errors
/// None for a verified graph.
pub fn merge(graph: &Graph) -> PassResult {
    run(graph, &mut Cx::default())
}

fn run(graph: &Graph, cx: &mut Cx) -> PassResult {
    let mut seen: HashMap<Key, Vec<Value>> = HashMap::new();
    let mut changed = 0;
    let rebuilt = graph.rebuild(|b, _, node, operands| {
        let key = key(&node.op, operands);
        if !cx.is_spent()
            && let Some(results) = key.as_ref().and_then(|k| seen.get(k))
        {
            cx.spend();
            changed += 1;
            return Ok(results.clone());
        }
        let results = b.op(node.op.clone(), operands).map_err(|e| Diagnostic::rebuilt("cse", &node.origin, &e))?;
        if let Some(key) = key {
            seen.insert(key, results.clone());
        }
        Ok(results)
    });
    Ok((rebuilt?, Outcome { changed }))
}

#[cfg(test)]
mod tests {
    use fusewright_graph::{Builder, DType::F32, Dim, ScalarFn, TensorType};

    use super::*;
    use crate::passes::dce;

    #[test]
    fn equal_nodes_merge_whatever_the_order_of_commutative_operands() {
        let b = Builder::new("g");
        let ty = TensorType::new(F32, [Dim::symbol("s")]);
        let (x, y) = (b.input("x", ty.clone()), b.input("y", ty));
        let sums = [b.add(x, y).expect("add"), b.add(y, x).expect("add")];
        let differences = [b.sub(x, y).expect("sub"), b.sub(y, x).expect("sub")];
        let zeros = [b.float(F32, 0.0).expect("zero"), b.float(F32, -0.0).expect("zero")];
        for v in [sums, differences, zeros].concat() {
            b.output(v);
        }
        let opaque = Prim::Opaque { target: "draw".into(), attrs: Vec::new(), results: vec![TensorType::scalar(F32)] };
        for _ in 0..2 {
            let drawn = b.op(Op::Prim(opaque.clone()), &[]).expect("opaque")[0];
            b.output(b.map(ScalarFn::Neg, &[drawn]).expect("neg"));
        }
        let (out, outcome) = merge(&b.finish()).expect("merges");
        assert_eq!(outcome.changed, 1);
        assert_eq!(dce(&out).0.nodes().len(), 9);
    }
}
