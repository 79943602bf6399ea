//! Sums, products and extremes of all prefixes of lines.

use super::attention::{argument, call, one_node, tensor};
use crate::DType;
use crate::graph::{Graph, Value};
use crate::interp::{Symbols, enclose, run};
use crate::tensor::Tensor;

const F32: i64 = 7;
const I64: i64 = 5;
const BF16: i64 = 13;
const BOOL: i64 = 12;
const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// Counts the elements of the largest value of a graph.
fn largest(graph: &Graph) -> i64 {
    let elements = |v| graph.ty(v).elements().as_const().unwrap_or(i64::MAX);
    (0..graph.value_count() as u32).map(|v| elements(Value(v))).max().unwrap_or_default()
}

#[test]
fn prefixes_of_long_lines_take_work_of_their_length() {
    for n in [1usize, 255, 256, 257, 320, 5000] {
        let inputs: [(&str, i64, &[i64]); 1] = [("x", I64, &[2, n as i64])];
        for (op, one) in [("aten.cumsum.default", 3), ("aten.cumprod.default", -1)] {
            let arguments = [tensor("self", "x"), argument("dim", r#"{"as_int":1}"#)];
            let graph = one_node(&inputs, &call(op, &arguments), &[("y", I64, &[2, n as i64])]).expect("a graph");
            let numbers: Vec<i64> = (0..2 * n as i64).map(|i| if i % 7 == 2 { one } else { 1 }).collect();
            let given = Tensor::from_i64(DType::I64, &[2, n], numbers.clone()).expect("fits");
            let found = run(&graph, &[given], &Symbols::new()).expect("runs");
            let mut expected = Vec::new();
            for line in numbers.chunks(n) {
                expected.extend(line.iter().scan(None, |before: &mut Option<i64>, &x| {
                    let next =
                        before.map_or(x, |before| if op == "aten.cumsum.default" { before + x } else { before * x });
                    *before = Some(next);
                    Some(next)
                }));
            }
            assert_eq!(found[0].ints().expect("integers"), expected, "{op} of {n}");
            let most = largest(&graph);
            assert!(most <= 2 * 256 * (n as i64 + 64), "{op} of {n}: {most} elements");
        }
    }
}

/// `cummax` or `cummin` of lines along the last of two axes.
fn extremes(op: &str, dtype: i64, shape: [i64; 2]) -> Graph {
    let arguments = [tensor("self", "x"), argument("dim", r#"{"as_int":-1}"#)];
    let node = call(&format!("aten.{op}.default"), &arguments);
    let graph = one_node(&[("x", dtype, &shape)], &node, &[("v", dtype, &shape), ("i", I64, &shape)]);
    let graph = graph.unwrap_or_else(|e| panic!("{e}"));
    assert!(super::opaque_targets(&graph).is_empty(), "{op}: {graph}");
    graph
}

#[test]
fn extremes_so_far_are_those_of_the_framework() {
    let x = [[0.0, -0.0, 0.0, -0.0, -1.0, 2.0, 2.0], [1.0, 2.0, 2.0, NAN, 3.0, NAN, 1.0]];
    type Row = (&'static str, [[f64; 7]; 2], [[i64; 7]; 2]);
    let rows: [Row; 2] = [
        (
            "cummax",
            [[0.0, -0.0, 0.0, -0.0, -0.0, 2.0, 2.0], [1.0, 2.0, 2.0, NAN, NAN, NAN, NAN]],
            [[0, 1, 2, 3, 3, 5, 6], [0, 1, 2, 3, 3, 5, 5]],
        ),
        (
            "cummin",
            [[0.0, -0.0, 0.0, -0.0, -1.0, -1.0, -1.0], [1.0, 1.0, 1.0, NAN, NAN, NAN, NAN]],
            [[0, 1, 2, 3, 4, 4, 4], [0, 0, 0, 3, 3, 5, 5]],
        ),
    ];
    for (code, dtype) in [(F32, DType::F32), (BF16, DType::BF16)] {
        for (op, values, places) in &rows {
            let given = Tensor::from_f64(dtype, &[2, 7], x.concat()).expect("fits");
            let found = run(&extremes(op, code, [2, 7]), &[given], &Symbols::new()).expect("runs");
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<u64>>();
            assert_eq!(bits(found[0].floats().expect("floats")), bits(&values.concat()), "{op} of {dtype}");
            assert_eq!(found[1].ints().expect("integers"), places.concat(), "{op} of {dtype}");
        }
    }
    let found = |op, dtype, values: &[i64]| {
        let given = Tensor::from_i64(dtype, &[1, values.len()], values.to_vec()).expect("fits");
        let code = if dtype == DType::Bool { BOOL } else { I64 };
        let found = run(&extremes(op, code, [1, values.len() as i64]), &[given], &Symbols::new()).expect("runs");
        [0, 1].map(|i| found[i].ints().expect("integers").to_vec())
    };
    assert_eq!(found("cummin", DType::I64, &[3, 1, 1, 2, i64::MIN]), [vec![3, 1, 1, 1, i64::MIN], vec![0, 1, 2, 2, 4]]);
    assert_eq!(found("cummax", DType::Bool, &[1, 0, 1]), [vec![1, 1, 1], vec![0, 0, 2]]);
    assert_eq!(found("cummax", DType::I64, &[]), [Vec::<i64>::new(), Vec::new()]);
}

#[test]
fn extremes_of_long_lines_take_work_of_their_length() {
    for n in [1usize, 256, 257, 3000] {
        let numbers: Vec<i64> = (0..2 * n as i64).map(|i| i * i % 1009 - i / 3).collect();
        let given = Tensor::from_i64(DType::I64, &[2, n], numbers.clone()).expect("fits");
        for (op, beats) in [("cummax", i64::ge as fn(&i64, &i64) -> bool), ("cummin", i64::le)] {
            let graph = extremes(op, I64, [2, n as i64]);
            let found = run(&graph, std::slice::from_ref(&given), &Symbols::new()).expect("runs");
            let (mut values, mut places) = (Vec::new(), Vec::new());
            for line in numbers.chunks(n) {
                let mut best = 0;
                for (at, x) in line.iter().enumerate() {
                    best = if beats(x, &line[best]) { at } else { best };
                    values.push(line[best]);
                    places.push(best as i64);
                }
            }
            assert_eq!(found[0].ints().expect("integers"), values, "{op} of {n}");
            assert_eq!(found[1].ints().expect("integers"), places, "{op} of {n}");
            assert!(largest(&graph) <= 2 * 256 * (n as i64 + 64), "{op} of {n}");
        }
    }
}

#[test]
fn sums_of_exponentials_so_far_are_those_of_the_framework() {
    let arguments = [tensor("self", "x"), argument("dim", r#"{"as_int":1}"#)];
    let node = call("aten.logcumsumexp.default", &arguments);
    let made = |code, n: i64| one_node(&[("x", code, &[2, n])], &node, &[("y", code, &[2, n])]).expect("a graph");
    let x = [1.0, 2.0, -3.0, INF, -INF, NAN, -INF, -INF, 0.5, -0.0, 100.0, -100.0];
    let bits = [
        0x3f80_0000,
        0x4014_0c7b,
        0x4014_5cfc,
        0x7f80_0000,
        0x7f80_0000,
        0x7fc0_0000,
        0xff80_0000u32,
        0xff80_0000,
        0x3f00_0000,
        0x3f79_5d1c,
        0x42c8_0000,
        0x42c8_0000,
    ];
    let expected = bits.map(|bits| f64::from(f32::from_bits(bits)));
    let graph = made(F32, 6);
    assert!(super::opaque_targets(&graph).is_empty(), "{graph}");
    let given = Tensor::from_f64(DType::F32, &[2, 6], x.to_vec()).expect("fits");
    let expected = Tensor::from_f64(DType::F32, &[2, 6], expected.to_vec()).expect("fits");
    let ranges = enclose(&graph, &[given], &Symbols::new()).expect("runs");
    let report = ranges[0].check(&expected).expect("of one shape");
    assert!(report.is_ok(), "{report:?}");
    // In blocks, and in 16 bits.
    for (code, dtype, n) in [(F32, DType::F32, 300usize), (BF16, DType::BF16, 40)] {
        let values: Vec<f64> = (0..2 * n).map(|i| f64::from((i * i % 37) as u32) / 4.0 - 5.0).collect();
        let sums = values.chunks(n).flat_map(|line| {
            line.iter().scan(0.0, |sum: &mut f64, x| {
                *sum += x.exp();
                Some(sum.ln())
            })
        });
        let round = |x| crate::num::decode(dtype, crate::num::encode(dtype, x));
        let expected = Tensor::from_f64(dtype, &[2, n], sums.map(round).collect()).expect("fits");
        let given = Tensor::from_f64(dtype, &[2, n], values).expect("fits");
        let ranges = enclose(&made(code, n as i64), &[given], &Symbols::new()).expect("runs");
        let report = ranges[0].check(&expected).expect("of one shape");
        assert!(report.is_ok(), "{dtype}: {report:?}");
    }
}
