//! Hand-computed values of every primitive, edge values included.

mod binding;
mod point;

use fusewright_abi::DType;

use super::*;
use crate::builder::{Builder, Built};
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::ty::TensorType;

pub(super) const F32: DType = DType::F32;
pub(super) const BF16: DType = DType::BF16;
pub(super) const I64: DType = DType::I64;
pub(super) const NAN: f64 = f64::NAN;
pub(super) const INF: f64 = f64::INFINITY;

pub(super) fn floats(dtype: DType, shape: &[usize], values: &[f64]) -> Tensor {
    Tensor::from_f64(dtype, shape, values.to_vec()).expect("elements fit the shape")
}

pub(super) fn ints(dtype: DType, shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_i64(dtype, shape, values.to_vec()).expect("elements fit the shape")
}

/// A graph whose inputs have the static types of tensors.
pub(super) fn graph(
    inputs: &[Tensor],
    build: impl FnOnce(&Builder, &[Value]) -> Result<Vec<Value>, TypeError>,
) -> Graph {
    let b = Builder::new("test");
    let input = |(i, t): (usize, &Tensor)| {
        let shape = t.shape().iter().map(|&extent| Dim::constant(extent as i64));
        b.input(&format!("x{i}"), TensorType::new(t.dtype(), shape))
    };
    let values: Vec<Value> = inputs.iter().enumerate().map(input).collect();
    for output in build(&b, &values).expect("well typed") {
        b.output(output);
    }
    b.finish()
}

/// The one output of a graph with one node or a few.
pub(super) fn eval(inputs: &[Tensor], build: impl FnOnce(&Builder, &[Value]) -> Built) -> Tensor {
    let graph = graph(inputs, |b, x| Ok(vec![build(b, x)?]));
    run(&graph, inputs, &Symbols::new()).expect("has a value").remove(0)
}

/// The message of the error that evaluation gives.
pub(super) fn refusal(inputs: &[Tensor], build: impl FnOnce(&Builder, &[Value]) -> Built) -> String {
    let graph = graph(inputs, |b, x| Ok(vec![build(b, x)?]));
    run(&graph, inputs, &Symbols::new()).expect_err("has no value").to_string()
}

#[track_caller]
pub(super) fn same(got: &Tensor, want: &Tensor) {
    let difference = got.compare(want).expect("one type");
    assert_eq!(difference.mismatched, 0, "{difference:?}\n got {got:?}\nwant {want:?}");
}
