//! Tensor constants of one element are numbers of the graph.

use super::mutation::{F32, Model};
use super::refused;
use crate::graph::Graph;
use crate::{Op, Prim};

/// `min(x, k)` with a tensor of the file.
fn bounded(kind: &str, sizes: &[i64]) -> Model {
    let minimum = ("aten.minimum.default", ["self=@x", "other=@k"]);
    Model::default().stored(kind, "k", sizes).input("x", F32, &[2, 3]).node("y", &[2, 3], minimum.0, &minimum.1)
}

fn literals(graph: &Graph) -> usize {
    graph.nodes().iter().filter(|n| matches!(n.op, Op::Prim(Prim::Literal(_)))).count()
}

#[test]
fn constants_of_one_element_are_numbers() {
    for sizes in [&[][..], &[1], &[1, 1]] {
        let graph = bounded("tensor_constant", sizes).output("y").import().expect("a graph");
        assert_eq!((graph.inputs().len(), literals(&graph)), (1, 1), "{graph}");
        assert_eq!(bounded("tensor_constant", sizes).output("y").run(), [[1.0; 6]]);
    }
    // The caller may replace a buffer or a parameter; what has more elements stays a tensor of the file.
    for (kind, sizes) in [("buffer", &[][..]), ("parameter", &[]), ("tensor_constant", &[3])] {
        let graph = bounded(kind, sizes).output("y").import().expect("a graph");
        assert_eq!((graph.inputs().len(), literals(&graph)), (2, 0), "{graph}");
    }
}

#[test]
fn constants_that_are_overwritten_are_no_numbers() {
    let add = |of: &str| format!("self=@{of}");
    let model = bounded("tensor_constant", &[]);
    let graph = model.node("a", &[], "aten.add_.Tensor", &[&add("k"), "other=@k"]).output("y").import();
    let graph = graph.expect("a graph");
    let updates: Vec<_> = graph.outputs().iter().filter_map(|o| o.updates.as_deref()).collect();
    assert_eq!((graph.inputs().len(), updates), (2, vec!["k"]), "{graph}");
    // By a view, of which the name says nothing.
    let model =
        bounded("tensor_constant", &[1]).node("v", &[], "aten.view.default", &["self=@k", r#"size={"as_ints":[]}"#]);
    let model = model.node("a", &[], "aten.add_.Tensor", &[&add("v"), "other=@v"]);
    let model = model.node("z", &[2, 3], "aten.add.Tensor", &["self=@x", "other=@k"]).output("z");
    refused(model.import(), "import.value", "`k` is a constant of the model");
}
