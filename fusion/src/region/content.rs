//! What decides about a part of a graph, as numbers: of equal layers one is judged.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use fusewright_graph::{Graph, NodeId, Op, TensorType, Value};

/// A part of a graph without names and origins: parts with equal content compute the same. The ranges of symbols are
/// those of one graph.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Content(Vec<u32>);

/// The ops and types that occurred so far, by number. They are only looked up, so their order cannot show.
#[derive(Default)]
pub(crate) struct Contents<'g> {
    ops: HashMap<Function<'g>, u32>,
    types: HashMap<&'g TensorType, u32>,
    /// Numbers of the values of the part at hand.
    values: HashMap<Value, u32>,
}

impl<'g> Contents<'g> {
    /// The content of nodes that read some inputs and give some outputs.
    pub fn of(&mut self, graph: &'g Graph, nodes: &[NodeId], inputs: &[Value], outputs: &[Value]) -> Content {
        let counts = [nodes.len(), inputs.len(), outputs.len()];
        let mut content: Vec<u32> = counts.map(|count| count as u32).to_vec();
        self.values.clear();
        for &input in inputs {
            self.number(input);
            content.push(number_of(&mut self.types, graph.ty(input)));
        }
        for &id in nodes {
            let node = graph.node(id);
            content.extend([number_of(&mut self.ops, Function(&node.op)), node.operands.len() as u32]);
            content.extend(node.operands.iter().map(|&operand| self.number(operand)));
            for &result in &node.results {
                self.number(result);
            }
        }
        content.extend(outputs.iter().map(|&output| self.number(output)));
        Content(content)
    }

    fn number(&mut self, value: Value) -> u32 {
        number_of(&mut self.values, value)
    }
}

fn number_of<K: Hash + Eq>(known: &mut HashMap<K, u32>, key: K) -> u32 {
    let next = known.len() as u32;
    *known.entry(key).or_insert(next)
}

#[derive(PartialEq, Eq)]
struct Function<'g>(&'g Op);

impl Hash for Function<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.0 {
            Op::Prim(prim) => prim.hash(state),
            // Attributes are left to equality.
            Op::Composite(composite) => composite.name().hash(state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether two graphs of one line each have equal content.
    fn equal(a: &str, b: &str) -> bool {
        let graphs = [a, b].map(|line| -> Graph {
            let text = format!("graph @g(s: 0..; {line} }}");
            text.parse().unwrap_or_else(|e| panic!("{e}: {text}"))
        });
        let mut contents = Contents::default();
        let [a, b] = graphs.each_ref().map(|graph| {
            let nodes: Vec<NodeId> = graph.node_ids().collect();
            let inputs: Vec<Value> = graph.inputs().iter().map(|input| input.value).collect();
            let outputs: Vec<Value> = graph.outputs().iter().map(|output| output.value).collect();
            contents.of(graph, &nodes, &inputs, &outputs)
        });
        a == b
    }

    #[test]
    fn content_is_ops_types_and_edges() {
        let norm = "%x: f32[s, 8], %w: f32[8]) { %y = rms_norm %x, %w {eps = 1e-6, round = once}\n return %y";
        assert!(equal(norm, &norm.replace("%x", "%z").replace("%y", "%a")), "names do not matter");
        for (from, to) in [("1e-6", "1e-5"), ("[s, 8]", "[s, 4, 8]"), ("f32[s", "bf16[s"), ("return %y", "return %x")] {
            assert!(!equal(norm, &norm.replace(from, to)), "{from} is not {to}");
        }
        let sum = "%x: f32[s], %y: f32[s]) { %a = sub %x, %y\n %b = mul %a, %y\n return %b";
        for (from, to) in [("sub %x, %y", "sub %y, %x"), ("mul %a, %y", "mul %a, %a"), ("return %b", "return %b, %a")] {
            assert!(!equal(sum, &sum.replace(from, to)), "{from} is not {to}");
        }
    }
}
