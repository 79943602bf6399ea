//! Complex numbers, bits as other dtypes, and sizes that restrict their symbols.

use bytes::Bytes;

use super::super::pt2;
use super::attention::{argument, call, one_node, tensor};
use super::{meta, model_json, packed};
use crate::diag::Diagnostic;
use crate::graph::{Graph, Op};
use crate::prim::Prim;
use crate::scalar::ScalarFn;
use crate::tensor::Tensor;
use crate::{DType, interp};

const COMPLEX64: i64 = 10;

fn names(graph: &Graph) -> Vec<&str> {
    graph.nodes().iter().map(|node| node.op.name()).collect()
}

#[test]
fn complex_numbers_are_pairs() {
    let node = call("aten.view_as_real.default", &[tensor("self", "x")]);
    let graph = one_node(&[("x", COMPLEX64, &[3, 4])], &node, &[("y", 7, &[3, 4, 2])]).expect("a graph");
    assert_eq!(graph.ty(graph.inputs()[0].value).to_string(), "f32[3, 4, 2]");
    assert!(graph.nodes().is_empty());
}

#[test]
fn axes_of_complex_numbers_are_counted_without_the_parts() {
    let node = call("aten.transpose.int", &[tensor("self", "x"), int("dim0", -1), int("dim1", 0)]);
    let graph = one_node(&[("x", COMPLEX64, &[3, 4, 5])], &node, &[("y", COMPLEX64, &[5, 4, 3])]).expect("a graph");
    let Op::Prim(Prim::Permute { perm }) = &graph.nodes()[0].op else { panic!("{:?}", names(&graph)) };
    assert_eq!(perm, &[2, 1, 0, 3]);
}

#[test]
fn a_product_of_numbers_that_were_joined_joins_none_of_its_operands() {
    let node = call("aten.mul.Tensor", &[tensor("self", "x"), tensor("other", "y")]);
    let numbers: (&str, i64, &[i64]) = ("x", COMPLEX64, &[3]);
    let graph = one_node(&[numbers, ("y", 7, &[3])], &node, &[("z", COMPLEX64, &[3])]).expect("a graph");
    let products = names(&graph).into_iter().filter(|name| *name == "mul").count();
    assert_eq!(products, 4, "a real operand has a part of zero: {:?}", names(&graph));
}

#[test]
fn ops_that_are_not_known_on_complex_numbers_are_named() {
    let node = call("aten.exp.default", &[tensor("self", "x")]);
    let graph = one_node(&[("x", COMPLEX64, &[3])], &node, &[("y", COMPLEX64, &[3])]).expect("a graph");
    let Op::Prim(Prim::Opaque { target, attrs, .. }) = &graph.nodes()[0].op else { panic!("{:?}", names(&graph)) };
    assert_eq!(target, "aten.exp");
    assert!(attrs.iter().any(|(_, text)| text.contains("complex numbers")), "{attrs:?}");
    let half = one_node(&[("x", 9, &[3])], &node, &[("y", 9, &[3])]).expect_err("no parts of 16 bits");
    assert!(half.to_string().contains("complex32"), "{half}");
}

/// PyTorch's CPU kernel rounds `1 − x`, the quotient and the logarithm to bf16.
#[test]
fn every_step_of_a_logit_is_rounded() {
    let node = |eps: &[String]| call("aten.logit.default", &[&[tensor("self", "x")], eps].concat());
    let x = [0.300_781_25, 0.010_009_765_625, 0.949_218_75, 1.0, -0.5];
    let eps = argument("eps", r#"{"as_float":0.1}"#);
    for (eps, expected) in [
        (vec![], [-0.84375, -4.59375, 2.9375, f64::INFINITY, f64::NAN]),
        (vec![eps], [-0.84375, -2.1875, 2.1875, 2.1875, -2.1875]),
    ] {
        let graph = one_node(&[("x", 13, &[5])], &node(&eps), &[("y", 13, &[5])]).expect("a graph");
        let x = Tensor::from_f64(DType::BF16, &[5], x.to_vec()).expect("a tensor");
        let y = interp::run(&graph, &[x], &interp::Symbols::new()).expect("has a value");
        let expected = Tensor::from_f64(DType::BF16, &[5], expected.to_vec()).expect("a tensor");
        assert_eq!(y[0].to_bytes(), expected.to_bytes());
    }
}

/// PyTorch compares with the bound as it is, and refuses one that no element can keep.
#[test]
fn bounds_of_integers_may_be_beyond_them() {
    const INT8: i64 = 2;
    let clamped = |bounds: &[String]| {
        let node = call("aten.clamp.default", &[&[tensor("self", "x")], bounds].concat());
        one_node(&[("x", INT8, &[4])], &node, &[("y", INT8, &[4])]).expect("a graph")
    };
    let x = Tensor::from_i64(DType::I8, &[4], vec![-128, -3, 5, 127]).expect("a tensor");
    for (bounds, expected) in [
        (vec![int("min", -448), int("max", 448)], [-128, -3, 5, 127]),
        (vec![int("min", -448), int("max", 4)], [-128, -3, 4, 4]),
        (vec![int("min", -2), int("max", i64::MAX)], [-2, -2, 5, 127]),
        (vec![int("min", -128), int("max", 127)], [-128, -3, 5, 127]),
    ] {
        let y = interp::run(&clamped(&bounds), std::slice::from_ref(&x), &interp::Symbols::new()).expect("has a value");
        let expected = Tensor::from_i64(DType::I8, &[4], expected.to_vec()).expect("a tensor");
        assert_eq!(y[0].to_bytes(), expected.to_bytes(), "{bounds:?}");
    }
    for bound in [int("min", 128), int("max", -129)] {
        let graph = clamped(&[bound]);
        let Op::Prim(Prim::Opaque { attrs, .. }) = &graph.nodes()[0].op else { panic!("{:?}", names(&graph)) };
        assert!(attrs.iter().any(|(_, text)| text.contains("which no i8 keeps")), "{attrs:?}");
    }
}

fn int(name: &str, value: i64) -> String {
    argument(name, &format!(r#"{{"as_int":{value}}}"#))
}

/// Every 64th row of `x[s]`, of which the file says that there are `stated`.
fn every_64th(stated: i64) -> Result<Graph, Diagnostic> {
    let symbol = r#"{"as_expr":{"expr_str":"Symbol('s', positive=True, integer=True)","hint":{"as_int":5}}}"#;
    let x = format!(r#"{{"dtype":7,"sizes":[{symbol}],"strides":[{{"as_int":1}}],"layout":7}}"#);
    let values = format!(r#""x":{x},"y":{}"#, meta(7, &[stated], &[1], 0));
    let node = call("aten.slice.Tensor", &[tensor("self", "x"), int("step", 64)]);
    let node = format!(r#"{{{node},"outputs":[{{"as_tensor":{{"name":"y"}}}}],"name":"n"}}"#);
    let json = model_json(
        r#"{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}"#,
        &node,
        &values,
        r#"{"user_output":{"arg":{"as_tensor":{"name":"y"}}}}"#,
    );
    pt2(&Bytes::from(packed(&[("models/model.json", json.as_bytes())])))
}

#[test]
fn a_number_in_place_of_a_quotient_restricts_its_symbol() {
    for (stated, min, max) in [(1, 1, 64), (3, 129, 192)] {
        let graph = every_64th(stated).unwrap_or_else(|e| panic!("{e}"));
        let [symbol] = graph.symbols() else { panic!("{:?}", graph.symbols()) };
        assert_eq!((symbol.min, symbol.max), (min, Some(max)));
        crate::verify::verify(&graph).expect("a valid graph");
        assert_eq!(graph.ty(graph.outputs()[0].value).to_string(), format!("f32[{stated}]"));
    }
}

#[test]
fn a_variance_without_correction_divides_by_the_count_alone() {
    let of = |correction: i64| {
        let node = call("aten.var.correction", &[tensor("self", "x"), int("correction", correction)]);
        let graph = super::places::on_lines(&node, "0", "").unwrap_or_else(|e| panic!("{e}"));
        graph.nodes().iter().filter(|n| matches!(n.op, Op::Prim(Prim::Map(ScalarFn::Max | ScalarFn::Sub)))).count()
    };
    // The centred value is a difference; with a correction, so is the divisor, which is not below zero.
    assert_eq!((of(0), of(1)), (1, 3));
}

#[test]
fn numbers_that_are_converted_are_constants_of_that_dtype() {
    let of = |number: &str, more: &[String]| {
        let arguments = [&[argument("self", number)], more].concat();
        let graph = one_node(&[("x", 7, &[2])], &call("aten._to_copy.default", &arguments), &[("y", 13, &[])]);
        let x = Tensor::from_f64(DType::F32, &[2], vec![0.0; 2]).expect("a tensor");
        let y = interp::run(&graph.expect("a graph"), &[x], &interp::Symbols::new()).expect("has a value");
        (y[0].dtype(), y[0].to_bytes())
    };
    let bf16 = |bits: u16| (DType::BF16, bits.to_le_bytes().to_vec());
    let to = argument("dtype", r#"{"as_scalar_type":13}"#);
    assert_eq!(of(r#"{"as_float":1e-6}"#, std::slice::from_ref(&to)), bf16(0x3586));
    assert_eq!(of(r#"{"as_int":3}"#, &[to]), bf16(0x4040));
    assert_eq!(of(r#"{"as_float":0.5}"#, &[]), bf16(0x3f00));
}
