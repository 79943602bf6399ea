//! Symbols, weights, inputs and calls of the host.

use bytes::Bytes;

use super::*;
use crate::graph::{InputKind, Origin, Weight};
use crate::ops::{Composite, RopeNeox};
use crate::prim::{AllReduce, Prim, ReduceOp};

fn rows(extents: &[usize]) -> Tensor {
    floats(F32, extents, &vec![1.0; extents.iter().product()])
}

/// `(x[s, 4], y[2·s + t]) → y`, with `t` in 1..=3.
fn linear() -> Graph {
    let b = Builder::new("linear");
    let (s, t) = (b.symbol("s", 0, None), b.symbol("t", 1, Some(3)));
    b.input("x", TensorType::new(F32, [s.clone(), Dim::constant(4)]));
    let y = b.input("y", TensorType::new(F32, [&(&s * &Dim::constant(2)) + &t]));
    b.output(y);
    b.finish()
}

#[test]
fn shapes_give_the_symbols() {
    let binding = Binding::of(&linear(), &[rows(&[3, 4]), rows(&[8])], &Symbols::new()).expect("fits");
    assert_eq!((binding.get("s"), binding.get("t")), (Some(3), Some(2)));
}

#[test]
fn what_does_not_fit_is_named() {
    let refuse = |inputs: &[Tensor]| run(&linear(), inputs, &Symbols::new()).expect_err("does not fit").to_string();
    assert_eq!(refuse(&[rows(&[3, 5]), rows(&[8])]), "input `x`: axis 1 has extent 5, expected 4");
    assert_eq!(refuse(&[rows(&[3, 4]), rows(&[10])]), "symbol `t`: 4 is outside 1 to 3");
    assert_eq!(refuse(&[rows(&[3, 4])]), "graph `linear` takes 2 inputs, got 1");
    assert_eq!(refuse(&[rows(&[3, 4]), rows(&[8, 1])]), "input `y`: is f32[8, 1], expected f32[s*2 + t]");
    let given = Symbols::from([("s".to_owned(), 4)]);
    let error = run(&linear(), &[rows(&[3, 4]), rows(&[8])], &given).expect_err("contradiction").to_string();
    assert_eq!(error, "input `x`: axis 0 has extent 3, expected s = 4");
}

#[test]
fn zero_rows_pass_through_everything() {
    let b = Builder::new("empty");
    let s = b.symbol("s", 0, None);
    let x = b.input("x", TensorType::new(BF16, [Dim::constant(2), s.clone(), Dim::constant(4)]));
    let table = b.input("t", TensorType::new(BF16, [s, Dim::constant(4)]));
    let y = b.composite(Composite::new(RopeNeox), &[x, table, table]).expect("well typed")[0];
    b.output(b.reduce_last(ReduceOp::Max, y).expect("well typed"));
    let inputs = [floats(BF16, &[2, 0, 4], &[]), floats(BF16, &[0, 4], &[])];
    let outputs = run(&b.finish(), &inputs, &Symbols::new()).expect("no rows are fine");
    assert_eq!(outputs[0].shape(), [2, 0, 1]);
}

#[test]
fn weights_are_strided_views_or_named_as_missing() {
    let build = |weight| {
        let b = Builder::new("weights");
        let two = Dim::constant(2);
        let w = b.add_input("w", TensorType::new(I64, [two.clone(), two]), InputKind::Weight(weight));
        b.output(w);
        b.finish()
    };
    let storage: Vec<u8> = (0..4i64).flat_map(i64::to_le_bytes).collect();
    let weight = Weight { storage: Bytes::from(storage), offset: 0, strides: vec![1, 2], checksum: None };
    let outputs = run(&build(Some(weight)), &[], &Symbols::new()).expect("inside the storage");
    same(&outputs[0], &ints(I64, &[2, 2], &[0, 2, 1, 3]));
    let error = run(&build(None), &[], &Symbols::new()).expect_err("no data").to_string();
    assert_eq!(error, "input `w`: the weight of type i64[2, 2] has no data");
}

#[derive(Debug)]
struct Twice;

impl Host for Twice {
    fn all_reduce(&self, _: &AllReduce, x: &Tensor) -> Result<Tensor, String> {
        let values = x.floats().ok_or("floats only")?.iter().map(|x| x * 2.0).collect();
        Ok(Tensor::from_f64(x.dtype(), x.shape(), values)?)
    }

    fn opaque(&self, call: &OpaqueCall<'_>) -> Result<Vec<Tensor>, String> {
        match call.operands {
            [x] if call.target == "host.twice" => {
                let values = x.floats().ok_or("floats only")?.iter().map(|x| x * 2.0).collect();
                Ok(vec![Tensor::from_f64(x.dtype(), x.shape(), values)?])
            }
            _ => Ok(Vec::new()),
        }
    }
}

#[test]
fn opaque_ops_are_the_hosts() {
    let x = floats(F32, &[2], &[1.0, 2.0]);
    let opaque = |target: &str| Prim::Opaque {
        target: target.to_owned(),
        attrs: Vec::new(),
        results: vec![TensorType::new(F32, [Dim::constant(2)])],
    };
    let build = |target: &str| {
        graph(std::slice::from_ref(&x), |b, v| {
            b.set_origin(Origin { node: Some("attention".into()), ..Origin::default() });
            Ok(vec![b.prim(opaque(target), v)?])
        })
    };
    let inputs = std::slice::from_ref(&x);
    let outputs = run_with(&build("host.twice"), inputs, &Symbols::new(), &Twice).expect("the host knows it");
    same(&outputs[0], &floats(F32, &[2], &[2.0, 4.0]));
    let error = run(&build("host.twice"), inputs, &Symbols::new()).expect_err("no host").to_string();
    assert_eq!(error, "opaque of node attention: `host.twice` belongs to the host framework, which is absent");
    let error = run_with(&build("host.else"), inputs, &Symbols::new(), &Twice).expect_err("no results").to_string();
    assert!(error.contains("the host returned [] for `host.else`"), "{error}");
}

#[test]
fn collectives_are_the_hosts_unless_there_is_one_rank() {
    let x = floats(F32, &[3], &[1.0, -0.0, f64::NAN]);
    let inputs = std::slice::from_ref(&x);
    let all = |op, ranks| Prim::AllReduce(AllReduce { op, group: "tp".to_owned(), ranks });
    for op in ReduceOp::ALL {
        same(&eval(inputs, |b, v| b.prim(all(op, Some(1)), v)), &x);
    }
    let build = |ranks| graph(inputs, |b, v| Ok(vec![b.prim(all(ReduceOp::Add, ranks), v)?]));
    for (ranks, group) in [(None, "an unknown number of ranks"), (Some(4), "4 ranks")] {
        let message = format!("combines the tensors of group `tp` of {group}, and the other ranks are absent");
        let error = run(&build(ranks), inputs, &Symbols::new()).expect_err("no other ranks").to_string();
        assert!(error.starts_with("all_reduce of node") && error.ends_with(&message), "{error}");
        let error = enclose(&build(ranks), inputs, &Symbols::new()).expect_err("no other ranks").to_string();
        assert!(error.ends_with(&message), "{error}");
    }
    let doubled = run_with(&build(Some(2)), inputs, &Symbols::new(), &Twice).expect("the host has both ranks");
    same(&doubled[0], &floats(F32, &[3], &[2.0, -0.0, f64::NAN]));
}
