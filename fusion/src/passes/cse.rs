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

/// The nodes met so far, by what makes nodes equal.
#[derive(Default)]
pub(crate) struct Met {
    results: HashMap<Key, Vec<Value>>,
}

impl Met {
    /// The results of a node equal to one with these operands, if one was met and merging is allowed; else what `make`
    /// makes. Says whether the node was merged.
    pub fn merged<E>(
        &mut self,
        op: &Op,
        operands: &[Value],
        allowed: bool,
        make: impl FnOnce() -> Result<Vec<Value>, E>,
    ) -> Result<(Vec<Value>, bool), E> {
        let key = key(op, operands);
        if let Some(results) = key.as_ref().filter(|_| allowed).and_then(|k| self.results.get(k)) {
            return Ok((results.clone(), true));
        }
        let results = make()?;
        if let Some(key) = key {
            self.results.insert(key, results.clone());
        }
        Ok((results, false))
    }
}

fn run(graph: &Graph, cx: &mut Cx) -> PassResult {
    let mut met = Met::default();
    let mut changed = 0;
    let rebuilt = graph.rebuild(|b, _, node, operands| {
        let make = || b.op(node.op.clone(), operands).map_err(|e| Diagnostic::rebuilt("cse", &node.origin, &e));
        let (results, merged) = met.merged(&node.op, operands, !cx.is_spent(), make)?;
        if merged {
            cx.spend();
            changed += 1;
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
