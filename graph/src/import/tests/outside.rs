//! Indices outside their axis: reads take the nearest place of that axis, writes none.

use super::attention::{argument, call, one_node, tensor};
use crate::interp::{Symbols, run};
use crate::tensor::Tensor;
use crate::{DType, Op, Prim};

const F32: i64 = 7;
const I64: i64 = 5;

/// Runs one node on `x`, counted from 1, the indices `i` and `j`, and `v`, counted from 10.
#[track_caller]
fn found(node: &str, x: &[i64], index: (&[i64], [&[i64]; 2]), result: &[i64]) -> Vec<f64> {
    let (shape, [i, j]) = index;
    let inputs = [("x", F32, x), ("i", I64, shape), ("j", I64, shape), ("v", F32, shape)];
    let graph = one_node(&inputs, node, &[("r", F32, result)]).expect("a graph");
    assert!(!graph.nodes().iter().any(|n| matches!(n.op, Op::Prim(Prim::Opaque { .. }))), "{graph}");
    let extents = |shape: &[i64]| shape.iter().map(|&n| n as usize).collect::<Vec<_>>();
    let counted = |shape: &[i64], from: i64| {
        let values = (from..).take(shape.iter().product::<i64>() as usize).map(|n| n as f64).collect();
        Tensor::from_f64(DType::F32, &extents(shape), values).expect("fits")
    };
    let places = |values: &[i64]| Tensor::from_i64(DType::I64, &extents(shape), values.to_vec()).expect("fits");
    let given = [counted(x, 1), places(i), places(j), counted(shape, 10)];
    run(&graph, &given, &Symbols::new()).expect("runs")[0].floats().expect("floats").to_vec()
}

fn along(dim: i64) -> String {
    argument("dim", &format!(r#"{{"as_int":{dim}}}"#))
}

#[test]
fn single_elements() {
    let index = [3, 0, -4, 2];
    let at = |node: &str, x: &[i64], result: &[i64]| found(node, x, (&[2, 2], [&index, &index]), result);
    let gather = call("aten.gather.default", &[tensor("self", "x"), along(1), tensor("index", "i")]);
    assert_eq!(at(&gather, &[2, 3], &[2, 2]), [3.0, 1.0, 4.0, 6.0]);
    let written = |target: &str, more: &[String]| {
        let arguments = [&[tensor("self", "x"), along(1), tensor("index", "i"), tensor("src", "v")], more].concat();
        at(&call(target, &arguments), &[3, 3], &[3, 3])
    };
    assert_eq!(written("aten.scatter.src", &[]), [11.0, 2.0, 3.0, 4.0, 5.0, 13.0, 7.0, 8.0, 9.0]);
    assert_eq!(written("aten.scatter_add.default", &[]), [12.0, 2.0, 3.0, 4.0, 5.0, 19.0, 7.0, 8.0, 9.0]);
    let largest = [argument("reduce", r#"{"as_string":"amax"}"#), argument("include_self", r#"{"as_bool":false}"#)];
    assert_eq!(written("aten.scatter_reduce.two", &largest), [11.0, 2.0, 3.0, 4.0, 5.0, 13.0, 7.0, 8.0, 9.0]);
}

#[test]
fn places_of_two_axes() {
    let listed =
        argument("indices", r#"{"as_optional_tensors":[{"as_tensor":{"name":"i"}},{"as_tensor":{"name":"j"}}]}"#);
    let at = |node: &str, result: &[i64]| found(node, &[2, 3], (&[3], [&[2, -1, 0], &[0, 7, 1]]), result);
    let read = call("aten.index.Tensor", &[tensor("self", "x"), listed.clone()]);
    assert_eq!(at(&read, &[3]), [4.0, 6.0, 2.0]);
    for (sum, there) in [("false", 12.0), ("true", 14.0)] {
        let sum = argument("accumulate", &format!(r#"{{"as_bool":{sum}}}"#));
        let put = call("aten.index_put.default", &[tensor("self", "x"), listed.clone(), tensor("values", "v"), sum]);
        assert_eq!(at(&put, &[2, 3]), [1.0, there, 3.0, 4.0, 5.0, 6.0]);
    }
}

#[test]
fn slices() {
    let at = |node: &str, result: &[i64]| found(node, &[3, 1], (&[3], [&[5, 1, -9], &[0, 0, 0]]), result);
    let select = call("aten.index_select.default", &[tensor("self", "x"), along(0), tensor("index", "i")]);
    assert_eq!(at(&select, &[3, 1]), [3.0, 2.0, 1.0]);
    let embedding = call("aten.embedding.default", &[tensor("weight", "x"), tensor("indices", "i")]);
    assert_eq!(at(&embedding, &[3, 1]), [3.0, 2.0, 1.0]);
}
