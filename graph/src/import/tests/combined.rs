//! Values combined at places of a tensor, against what PyTorch 2.15 gave on a CPU.

use super::attention::{argument, call, one_node, tensor};
use crate::graph::Graph;
use crate::interp::{Symbols, run};
use crate::tensor::Tensor;
use crate::{DType, Op, Prim};

const F32: i64 = 7;
const I64: i64 = 5;
const NAN: f64 = f64::NAN;

const WORDS: [&str; 5] = ["sum", "prod", "mean", "amax", "amin"];

fn floats(shape: &[usize], values: &[f64]) -> Tensor {
    Tensor::from_f64(DType::F32, shape, values.to_vec()).expect("fits")
}

fn integers(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_i64(DType::I64, shape, values.to_vec()).expect("fits")
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// The arguments of a reduction along the first axis; those of slices are called otherwise.
fn arguments(src: &str, word: &str, with_self: bool) -> Vec<String> {
    let dim = argument("dim", r#"{"as_int":0}"#);
    let reduce = argument("reduce", &format!(r#"{{"as_string":"{word}"}}"#));
    let with_self = argument("include_self", &format!(r#"{{"as_bool":{with_self}}}"#));
    vec![tensor("self", "x"), dim, tensor("index", "i"), tensor(src, "s"), reduce, with_self]
}

#[track_caller]
fn imported(inputs: &[(&str, i64, &[i64])], node: &str, result: (&str, i64, &[i64])) -> Graph {
    let graph = one_node(inputs, node, &[result]).unwrap_or_else(|e| panic!("{e}"));
    assert!(super::opaque_targets(&graph).is_empty(), "{node}: {graph}");
    graph
}

#[test]
fn elements_are_reduced_as_by_the_framework() {
    let x = [0.5, -0.0, 3.0, 7.0, NAN, -1.0];
    let s = [1.0, -0.0, 4.0, 2.0, -0.0, -8.0, 5.0, -0.0, 0.25, -1.0, -0.0, 2.0];
    let i = [0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1];
    let third = f64::from(f32::from_bits(0x4005_5555));
    // With what stood there and without it.
    let expected: [[[f64; 6]; 2]; 5] = [
        [[7.5, -0.0, -5.0, 7.0, NAN, 5.25], [7.0, -0.0, -8.0, 7.0, 0.0, 6.25]],
        [[-5.0, -0.0, -24.0, 7.0, NAN, -2.0], [-10.0, -0.0, -8.0, 7.0, 0.0, 2.0]],
        [[1.5, -0.0, -2.5, 7.0, NAN, 1.3125], [1.75, -0.0, -8.0, 7.0, 0.0, third]],
        [[5.0, -0.0, 3.0, 7.0, NAN, 4.0], [5.0, -0.0, -8.0, 7.0, -0.0, 4.0]],
        [[-1.0, -0.0, -8.0, 7.0, NAN, -1.0], [-1.0, -0.0, -8.0, 7.0, -0.0, 0.25]],
    ];
    // Few places of few slices are reductions; of many, what is beyond them is at a place of its own.
    for more in [0usize, 1000] {
        let rows = 2 + more as i64;
        let (x_shape, s_shape) = ([rows, 3], [4 + more as i64, 3]);
        let inputs: [(&str, i64, &[i64]); 3] = [("x", F32, &x_shape), ("i", I64, &s_shape), ("s", F32, &s_shape)];
        let tail = more * 3;
        let given = [
            floats(&[2 + more, 3], &[&x[..], &vec![1.0; tail]].concat()),
            integers(&[4 + more, 3], &[&i[..], &vec![rows - 1; tail]].concat()),
            floats(&[4 + more, 3], &[&s[..], &vec![1.0; tail]].concat()),
        ];
        for (word, results) in WORDS.iter().zip(&expected) {
            for (with_self, result) in [true, false].into_iter().zip(results) {
                let node = call("aten.scatter_reduce.two", &arguments("src", word, with_self));
                let graph = imported(&inputs, &node, ("y", F32, &x_shape));
                let by_op = graph.nodes().iter().any(|n| matches!(n.op, Op::Prim(Prim::ScatterReduce { .. })));
                assert_eq!(by_op, more > 0, "{graph}");
                let found = run(&graph, &given, &Symbols::new()).expect("runs");
                assert_eq!(bits(&found[0].floats().expect("floats")[..6]), bits(result), "{word} {with_self} {more}");
            }
        }
    }
}

#[test]
fn integers_are_reduced_and_their_means_rounded_down() {
    let expected = [
        [[-2, -3, 5], [-9, 4, 5]],
        [[56, -28, 5], [8, 4, 5]],
        [[-1, -1, 5], [-5, 2, 5]],
        [[7, 2, 5], [-1, 2, 5]],
        [[-8, -7, 5], [-8, 2, 5]],
    ];
    let given = [integers(&[3], &[7, -7, 5]), integers(&[4], &[0, 1, 1, 0]), integers(&[4], &[-8, 2, 2, -1])];
    let inputs: [(&str, i64, &[i64]); 3] = [("x", I64, &[3]), ("i", I64, &[4]), ("s", I64, &[4])];
    for (op, src) in [("aten.scatter_reduce.two", "src"), ("aten.index_reduce.default", "source")] {
        for (word, results) in WORDS.iter().zip(&expected) {
            for (with_self, result) in [true, false].into_iter().zip(results) {
                let graph = imported(&inputs, &call(op, &arguments(src, word, with_self)), ("y", I64, &[3]));
                let found = run(&graph, &given, &Symbols::new()).expect("runs");
                assert_eq!(found[0].ints().expect("integers"), result, "{op} {word} {with_self}");
            }
        }
    }
}

#[test]
fn an_index_may_cover_a_part_and_the_older_spelling_combines() {
    let zeros = floats(&[2, 3], &[0.0; 6]);
    let found = |op: &str, inputs: &[(&str, i64, &[i64])], extra: &[String], given: &[Tensor]| {
        let dim = argument("dim", r#"{"as_int":0}"#);
        let node = call(op, &[&[tensor("self", "x"), dim, tensor("index", "i")], extra].concat());
        let graph = imported(inputs, &node, ("y", F32, &[2, 3]));
        run(&graph, given, &Symbols::new()).expect("runs")[0].floats().expect("floats").to_vec()
    };
    let x: (&str, i64, &[i64]) = ("x", F32, &[2, 3]);
    let (few, all) = (("i", I64, &[2i64, 2][..]), ("i", I64, &[2i64, 3][..]));
    let part = [zeros.clone(), integers(&[2, 2], &[0, 1, 0, 0]), floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0])];
    let sums = found("aten.scatter_add.default", &[x, few, ("s", F32, &[2, 2])], &[tensor("src", "s")], &part);
    assert_eq!(sums, [4.0, 4.0, 0.0, 0.0, 2.0, 0.0]);
    let places = integers(&[2, 3], &[0, 1, 1, 0, 0, 1]);
    let threes = [zeros, places.clone(), floats(&[2, 3], &[3.0; 6])];
    let word = |word: &str| argument("reduce", &format!(r#"{{"as_string":"{word}"}}"#));
    let of = [tensor("src", "s"), word("add")];
    let sums = found("aten.scatter.reduce", &[x, all, ("s", F32, &[2, 3])], &of, &threes);
    assert_eq!(sums, [6.0, 3.0, 0.0, 0.0, 3.0, 6.0]);
    let number = [argument("value", r#"{"as_float":2.0}"#), word("multiply")];
    let products = found("aten.scatter.value_reduce", &[x, all], &number, &[floats(&[2, 3], &[1.0; 6]), places]);
    assert_eq!(products, [4.0, 2.0, 1.0, 1.0, 2.0, 4.0]);
}
