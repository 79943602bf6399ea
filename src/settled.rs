//! What is complete before the launch ahead of a kernel begins, as far as the order of a graph's steps says it: what a
//! product lies behind, and what the caller gives. Kernels for GPUs read it early; whether a launch may is decided of its
//! commands.

use std::collections::BTreeMap;

use fusewright_fusion::region::{Partition, Step};
use fusewright_graph::{Def, Graph, InputKind, Op, Prim, Value};

/// What may run when the first kernel of a graph is launched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ahead {
    /// Nothing that writes what the graph is given.
    Nothing,
    /// Whatever the caller enqueued, so that kernels read nothing early.
    Anything,
}

/// Marks the inputs of kernels that are settled, in the order of the steps.
pub(crate) fn mark_settled(graph: &Graph, partition: &mut Partition) {
    // The step that makes a value, and the last step that is a product.
    let (mut made, mut product) = (BTreeMap::new(), None);
    for (at, step) in partition.steps.clone().into_iter().enumerate() {
        let kernel = match step {
            Step::Region(i) => &mut partition.regions[i],
            Step::Lone(i) => &mut partition.lone[i],
            Step::Node(id) => {
                let node = graph.node(id);
                made.extend(node.results.iter().map(|&value| (value, at)));
                if matches!(node.op, Op::Prim(Prim::MatMul { .. })) {
                    product = Some(at);
                }
                continue;
            }
        };
        let is_settled = |value: Value| match graph.def(value) {
            Def::Input(i) => graph.inputs()[i].kind.is_given(),
            Def::Node(..) => made.get(&value).is_some_and(|made| product.is_some_and(|product| *made < product)),
        };
        for (i, &value) in kernel.inputs.iter().enumerate() {
            let is_given = matches!(kernel.body.inputs().get(i).map(|input| &input.kind), Some(InputKind::User));
            if is_given && is_settled(value) {
                kernel.body = std::mem::take(&mut kernel.body).with_kind(i, InputKind::Settled);
            }
        }
        made.extend(kernel.outputs.iter().map(|&value| (value, at)));
    }
}

#[cfg(test)]
mod tests {
    use fusewright_fusion::region::{Limits, partition};

    use super::*;
    use crate::Options;
    use crate::compile::fuse;

    #[test]
    fn what_a_product_lies_behind_is_settled() {
        let text = "graph @g(s: 1..; %x: bf16[s, 64], %r: bf16[s, 64], %w: weight bf16[64, 64], %n: weight bf16[64]) {
  %h = add %x, %r
  %y = rms_norm %h, %n {eps = 1e-6, round = before_weight}
  %p = matmul %y, %w {out = bf16}
  %h2 = add %p, %h
  %z = rms_norm %h2, %n {eps = 1e-6, round = before_weight}
  return %z, %h2
}
";
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let mut partition = partition(&graph, &Limits::default());
        mark_settled(&graph, &mut partition);
        let mut found = Vec::new();
        for region in partition.kernels() {
            let named = region.inputs.iter().zip(region.body.inputs());
            found.extend(named.map(|(&value, input)| (graph.value_name(value).unwrap_or_default(), &input.kind)));
        }
        let of = |wanted: bool| {
            let named = found.iter().filter(move |(_, kind)| matches!(kind, InputKind::Settled) == wanted);
            named.map(|(name, _)| *name).collect::<Vec<_>>()
        };
        // The product itself may still be written when the launch behind it begins; weights are read early in any case.
        assert_eq!((of(true), of(false)), (vec!["x", "r", "h"], vec!["n", "p", "n"]));
    }

    #[test]
    fn behind_anything_nothing_is_settled() {
        let text = "graph @g(s: 1..; %x: bf16[s, 64], %r: bf16[s, 64]) {
  %h = add %x, %r
  return %h
}
";
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let gpu = "cuda:sm_90".parse().expect("it is a target");
        let settled = |ahead: Ahead| {
            let fused = fuse(&graph, &Options::default(), Some(&gpu), ahead).expect("the passes run");
            let inputs = fused.partition.kernels().flat_map(|region| region.body.inputs());
            inputs.filter(|input| matches!(input.kind, InputKind::Settled)).count()
        };
        assert_eq!((settled(Ahead::Nothing), settled(Ahead::Anything)), (2, 0));
    }
}
