//! Values added at places of a tensor, and signs.

use super::attention::{argument, call, one_node, tensor};

use crate::graph::Graph;
use crate::interp::{Symbols, enclose, run};
use crate::tensor::Tensor;
use crate::{DType, Op, Prim, num};

const F32: i64 = 7;
const U8: i64 = 1;
const I64: i64 = 5;
const BOOL: i64 = 12;

fn floats(shape: &[usize], values: &[f64]) -> Tensor {
    Tensor::from_f64(DType::F32, shape, values.to_vec()).expect("fits")
}

fn places(values: &[i64]) -> Tensor {
    Tensor::from_i64(DType::I64, &[values.len()], values.to_vec()).expect("fits")
}

#[track_caller]
fn result(graph: &Graph, inputs: &[Tensor]) -> Vec<f64> {
    assert!(!graph.nodes().iter().any(|n| matches!(n.op, Op::Prim(Prim::Opaque { .. }))), "{graph}");
    run(graph, inputs, &Symbols::new()).expect("runs")[0].floats().expect("floats").to_vec()
}

#[test]
fn slices_are_added_at_places_that_may_be_equal() {
    let inputs: [(&str, i64, &[i64]); 3] = [("x", F32, &[3, 2]), ("i", I64, &[4]), ("s", F32, &[4, 2])];
    let given = [
        floats(&[3, 2], &[0.5, 0.0, 0.0, 0.0, 1.0, 2.0]),
        places(&[2, 0, 2, 2]),
        floats(&[4, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
    ];
    let dim = argument("dim", r#"{"as_int":0}"#);
    let arguments = [tensor("self", "x"), dim, tensor("index", "i"), tensor("source", "s")];
    let graph = one_node(&inputs, &call("aten.index_add.default", &arguments), &[("y", F32, &[3, 2])]);
    assert_eq!(result(&graph.expect("a graph"), &given), [3.5, 4.0, 0.0, 0.0, 14.0, 18.0]);
    let twice = [&arguments[..], &[argument("alpha", r#"{"as_float":2.0}"#)]].concat();
    let graph = one_node(&inputs, &call("aten.index_add.default", &twice), &[("y", F32, &[3, 2])]);
    assert_eq!(result(&graph.expect("a graph"), &given), [6.5, 8.0, 0.0, 0.0, 27.0, 34.0]);
    let listed = argument("indices", r#"{"as_optional_tensors":[{"as_tensor":{"name":"i"}}]}"#);
    let sum = argument("accumulate", r#"{"as_bool":true}"#);
    let put = call("aten.index_put.default", &[tensor("self", "x"), listed, tensor("values", "s"), sum]);
    let graph = one_node(&inputs, &put, &[("y", F32, &[3, 2])]);
    assert_eq!(result(&graph.expect("a graph"), &given), [3.5, 4.0, 0.0, 0.0, 14.0, 18.0]);
}

#[test]
fn what_stood_at_a_place_is_a_term_of_its_sum() {
    for (code, dtype) in [(F32, DType::F32), (13, DType::BF16)] {
        let inputs: [(&str, i64, &[i64]); 3] = [("x", code, &[2, 1]), ("i", I64, &[3]), ("s", code, &[3, 1])];
        let arguments =
            [tensor("self", "x"), argument("dim", r#"{"as_int":0}"#), tensor("index", "i"), tensor("source", "s")];
        let graph = one_node(&inputs, &call("aten.index_add.default", &arguments), &[("y", code, &[2, 1])]);
        let graph = graph.expect("a graph");
        // One at a time, each term is less than half of the last place of what stands there.
        let small = num::unit_roundoff(dtype) * 0.75;
        let given = |shape: &[usize], values: &[f64]| Tensor::from_f64(dtype, shape, values.to_vec()).expect("fits");
        let operands = [given(&[2, 1], &[1.0, -0.0]), places(&[0, 0, 0]), given(&[3, 1], &[small; 3])];
        let found = run(&graph, &operands, &Symbols::new()).expect("runs");
        assert!(found[0].floats().expect("floats")[0] > 1.0);
        let ranges = enclose(&graph, &operands, &Symbols::new()).expect("runs");
        let kept = given(&[2, 1], &[1.0, -0.0]);
        assert!(ranges[0].check(&kept).expect("of one shape").is_ok(), "{dtype}");
    }
}

#[test]
fn a_sign_is_that_of_zero_and_of_nan_too() {
    let inputs: [(&str, i64, &[i64]); 2] = [("x", F32, &[4]), ("y", F32, &[4])];
    let node = call("aten.copysign.Tensor", &[tensor("self", "x"), tensor("other", "y")]);
    let graph = one_node(&inputs, &node, &[("z", F32, &[4])]).expect("a graph");
    let given = [floats(&[4], &[1.0, -2.0, 0.0, f64::INFINITY]), floats(&[4], &[-0.0, 3.0, -1.0, f64::NEG_INFINITY])];
    let found: Vec<u64> = result(&graph, &given).iter().map(|x| x.to_bits()).collect();
    assert_eq!(found, [-1.0, 2.0, -0.0, f64::NEG_INFINITY].map(f64::to_bits));
}

#[test]
fn a_mask_takes_what_follows_in_a_source() {
    let taken = |mask: &[i64], set: &[i64], source: &[i64]| {
        let inputs: [(&str, i64, &[i64]); 3] = [("x", F32, &[2, 2, 2]), ("m", BOOL, mask), ("s", F32, source)];
        let arguments = [tensor("self", "x"), tensor("mask", "m"), tensor("source", "s")];
        let graph = one_node(&inputs, &call("aten.masked_scatter.default", &arguments), &[("y", F32, &[2, 2, 2])]);
        let count = |shape: &[i64]| shape.iter().map(|&n| n as usize).collect::<Vec<usize>>();
        let places = Tensor::from_i64(DType::Bool, &count(mask), set.to_vec()).expect("fits");
        let n: usize = count(source).iter().product();
        let source = floats(&count(source), &(1..=n).map(|i| i as f64).collect::<Vec<f64>>());
        result(&graph.expect("a graph"), &[floats(&[2, 2, 2], &[0.0; 8]), places, source])
    };
    assert_eq!(taken(&[2, 2, 1], &[0, 1, 1, 0], &[3, 2]), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0]);
    assert_eq!(taken(&[2, 1], &[0, 1], &[4]), [0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 3.0, 4.0]);
    assert_eq!(taken(&[2], &[0, 1], &[2, 2]), [0.0, 1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0]);
    assert_eq!(taken(&[1], &[1], &[8]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
}

#[test]
fn a_mask_of_many_single_elements_takes_what_follows_in_a_source() {
    let (rows, lanes) = (90usize, 70usize);
    let shape = [rows as i64, lanes as i64];
    let inputs: [(&str, i64, &[i64]); 3] = [("x", F32, &shape), ("m", BOOL, &shape), ("s", F32, &shape)];
    let arguments = [tensor("self", "x"), tensor("mask", "m"), tensor("source", "s")];
    let graph = one_node(&inputs, &call("aten.masked_scatter.default", &arguments), &[("y", F32, &shape)]);
    let set: Vec<i64> = (0..rows * lanes).map(|i| i64::from(i * i % 7 < 3)).collect();
    let source: Vec<f64> = (0..rows * lanes).map(|i| i as f64).collect();
    let mut next = source.iter();
    let expected: Vec<f64> = set.iter().map(|&s| if s == 1 { *next.next().expect("one each") } else { -1.0 }).collect();
    let given = [
        floats(&[rows, lanes], &vec![-1.0; rows * lanes]),
        Tensor::from_i64(DType::Bool, &[rows, lanes], set).expect("fits"),
        floats(&[rows, lanes], &source),
    ];
    assert_eq!(result(&graph.expect("a graph"), &given), expected);
}

#[test]
fn truth_of_unsigned_bytes_is_an_unsigned_byte() {
    for (dtype, from, to) in
        [(U8, DType::U8, DType::U8), (I64, DType::I64, DType::Bool), (BOOL, DType::Bool, DType::Bool)]
    {
        let stated = if to == DType::U8 { U8 } else { BOOL };
        for (op, expected) in [("aten.any.dim", [0, 1, 1]), ("aten.all.dim", [0, 0, 1])] {
            let node = call(op, &[tensor("self", "x"), argument("dim", r#"{"as_int":1}"#)]);
            let graph = one_node(&[("x", dtype, &[3, 2])], &node, &[("y", stated, &[3])]).expect("a graph");
            let given = Tensor::from_i64(from, &[3, 2], vec![0, 0, 1, 0, 1, 1]).expect("fits");
            let found = run(&graph, &[given], &Symbols::new()).expect("runs");
            assert_eq!((found[0].dtype(), found[0].ints().expect("integers")), (to, &expected[..]), "{op}");
        }
    }
}

#[test]
fn many_slices_are_added_at_many_places_with_work_of_the_slices() {
    let (count, places_count, lanes) = (500usize, 300usize, 3usize);
    let chosen: Vec<i64> = (0..count as i64).map(|i| i * i % 300).collect();
    let terms: Vec<f64> = (0..count * lanes).map(|i| (i % 17) as f64).collect();
    let mut expected = vec![-0.0; places_count * lanes];
    for (row, &place) in chosen.iter().enumerate() {
        for lane in 0..lanes {
            expected[place as usize * lanes + lane] += terms[row * lanes + lane];
        }
    }
    let given = [
        floats(&[places_count, lanes], &vec![-0.0; places_count * lanes]),
        places(&chosen),
        floats(&[count, lanes], &terms),
    ];
    let added = |graph: &Graph| graph.nodes().iter().any(|n| matches!(n.op, Op::Prim(Prim::ScatterReduce { .. })));
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<u64>>();
    let dim = argument("dim", r#"{"as_int":0}"#);
    let x: (&str, i64, &[i64]) = ("x", F32, &[300, 3]);
    let inputs = [x, ("i", I64, &[500]), ("s", F32, &[500, 3])];
    let arguments = [tensor("self", "x"), dim.clone(), tensor("index", "i"), tensor("source", "s")];
    let graph = one_node(&inputs, &call("aten.index_add.default", &arguments), &[("y", F32, &[300, 3])]);
    let graph = graph.expect("a graph");
    assert!(added(&graph), "{graph}");
    assert_eq!(bits(&result(&graph, &given)), bits(&expected));
    let ranges = enclose(&graph, &given, &Symbols::new()).expect("runs");
    assert!(ranges[0].check(&floats(&[places_count, lanes], &expected)).expect("of one shape").is_ok());
    // The same with an index for each element.
    let each: Vec<i64> = chosen.iter().flat_map(|&place| [place; 3]).collect();
    let each = Tensor::from_i64(DType::I64, &[count, lanes], each).expect("fits");
    let inputs = [x, ("i", I64, &[500, 3]), ("s", F32, &[500, 3])];
    let arguments = [tensor("self", "x"), dim, tensor("index", "i"), tensor("src", "s")];
    let graph = one_node(&inputs, &call("aten.scatter_add.default", &arguments), &[("y", F32, &[300, 3])]);
    let graph = graph.expect("a graph");
    assert!(added(&graph), "{graph}");
    assert_eq!(bits(&result(&graph, &[given[0].clone(), each, given[2].clone()])), bits(&expected));
}
