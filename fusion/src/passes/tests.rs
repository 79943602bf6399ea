//! What the tests of passes have in common: expressions of one input, and what is left of them.

use fusewright_graph::DType::F32;
use fusewright_graph::interp::{Symbols, run};
use fusewright_graph::operands::{Values, tensors};
use fusewright_graph::{Builder, Dim, Graph, TensorType, TypeError, Value};

use crate::pass::{Cx, PassManager};

/// A shape of `s` rows.
pub fn dims(extents: &[i64]) -> Vec<Dim> {
    std::iter::once(Dim::symbol("s")).chain(extents.iter().map(|&e| Dim::constant(e))).collect()
}

/// An expression of `x: f32[s, 4, 8]`, and what the passes leave of it.
pub fn before_and_after(build: impl Fn(&Builder, Value) -> Result<Value, TypeError>) -> [Graph; 2] {
    let b = Builder::new("g");
    let x = b.input("x", TensorType::new(F32, dims(&[4, 8])));
    b.output(build(&b, x).expect("types"));
    let graph = b.finish();
    let (out, _) = PassManager::default().run(&graph, &mut Cx::default(), &mut []).expect("runs");
    [graph, out]
}

/// Lanes of the last axis.
pub fn cut(b: &Builder, x: Value, from: i64, to: i64) -> Result<Value, TypeError> {
    b.slice(x, 2, Dim::constant(from), Dim::constant(to))
}

/// The ops of a graph.
pub fn names(graph: &Graph) -> Vec<String> {
    graph.nodes().iter().map(|n| n.op.name().to_owned()).collect()
}

/// The ops that the passes, which keep its value, leave of an expression.
pub fn ops(build: impl Fn(&Builder, Value) -> Result<Value, TypeError>) -> Vec<String> {
    let [before, after] = before_and_after(build);
    let inputs = tensors(&before, 3, Values::Ordinary);
    let [want, got] = [&before, &after].map(|g| run(g, &inputs, &Symbols::new()).expect("runs"));
    assert_eq!(want, got, "{before}");
    names(&after)
}
