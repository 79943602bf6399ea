//! Activations against what PyTorch 2.15 gave for them on a CPU, and sizes as operands.

use super::attention::{argument, call, one_node, one_node_json, tensor};
use super::{meta, model_json, packed};
use crate::DType;
use crate::import::pt2;
use crate::interp::{self, Symbols};
use crate::tensor::Tensor;

const X_F32: &[u32] = &[
    0x7fc00000, 0x7f800000, 0xff800000, 0x80000000, 0x00000000, 0x000116c2, 0x33d6bf95, 0xb99d4952, 0x3d75c28f,
    0x3d80346e, 0xbd80346e, 0x3f000000, 0xbf666666, 0x3f800000, 0xbf800000, 0x40200000, 0xc0400000, 0xc0f00000,
    0x41a40000, 0x42b00000, 0xc2d00000, 0x7f61b1e6,
];

const F32: &[(&str, &str, &[u32])] = &[
    (
        "sign",
        "",
        &[
            0x00000000, 0x3f800000, 0xbf800000, 0x00000000, 0x00000000, 0x3f800000, 0x3f800000, 0xbf800000, 0x3f800000,
            0x3f800000, 0xbf800000, 0x3f800000, 0xbf800000, 0x3f800000, 0xbf800000, 0x3f800000, 0xbf800000, 0xbf800000,
            0x3f800000, 0x3f800000, 0xbf800000, 0x3f800000,
        ],
    ),
    (
        "log1p",
        "",
        &[
            0x7fc00000, 0x7f800000, 0xffffffff, 0x80000000, 0x00000000, 0x000116c2, 0x33d6bf94, 0xb99d4f5c, 0x3d6eab61,
            0x3d78b436, 0xbd8464b3, 0x3ecf991f, 0xc0135d8d, 0x3f317218, 0xff800000, 0x3fa05a89, 0xffffffff, 0xffffffff,
            0x40445afb, 0x408fa2e9, 0xffffffff, 0x42b13196,
        ],
    ),
    (
        "expm1",
        "",
        &[
            0x7fc00000, 0x7f800000, 0xbf800000, 0x80000000, 0x00000000, 0x000116c2, 0x33d6bf96, 0xb99d4348, 0x3d7d4851,
            0x3d844d7c, 0xbd788c82, 0x3f261299, 0xbf17eb0d, 0x3fdbf0a9, 0xbf21d2a7, 0x4132eb7f, 0xbf734128, 0xbf7fdbc1,
            0x4e3eb628, 0x7ef882b7, 0xbf800000, 0x7f800000,
        ],
    ),
    (
        "softplus",
        "beta=2.0",
        &[
            0x7fc00000, 0x7f800000, 0x00000000, 0x3eb17218, 0x3eb17218, 0x3eb17218, 0x3eb1721a, 0x3eb15e70, 0x3ec14426,
            0x3ec1f8fa, 0x3ea1ebde, 0x3f2818f5, 0x3d9ca62a, 0x3f881f97, 0x3d81f96a, 0x40203703, 0x3aa23f1b, 0x34243ae3,
            0x41a40000, 0x42b00000, 0x00000000, 0x7f61b1e6,
        ],
    ),
    (
        "elu",
        "alpha=1.5",
        &[
            0x7fc00000, 0x7f800000, 0xbfc00000, 0x80000000, 0x00000000, 0x000116c2, 0x33d6bf95, 0xb9ebe4ec, 0x3d75c28f,
            0x3d80346e, 0xbdba6962, 0x3f000000, 0xbf63e094, 0x3f800000, 0xbf72bbfa, 0x40200000, 0xbfb670de, 0xbfbfe4d1,
            0x41a40000, 0x42b00000, 0xbfc00000, 0x7f61b1e6,
        ],
    ),
    (
        "leaky_relu",
        "negative_slope=0.1",
        &[
            0x7fc00000, 0x7f800000, 0xff800000, 0x80000000, 0x00000000, 0x000116c2, 0x33d6bf95, 0xb7fba883, 0x3d75c28f,
            0x3d80346e, 0xbbcd20b0, 0x3f000000, 0xbdb851eb, 0x3f800000, 0xbdcccccd, 0x40200000, 0xbe99999a, 0xbf400000,
            0x41a40000, 0x42b00000, 0xc1266667, 0x7f61b1e6,
        ],
    ),
    (
        "relu6",
        "",
        &[
            0x7fc00000, 0x40c00000, 0x00000000, 0x80000000, 0x00000000, 0x000116c2, 0x33d6bf95, 0x00000000, 0x3d75c28f,
            0x3d80346e, 0x00000000, 0x3f000000, 0x00000000, 0x3f800000, 0x00000000, 0x40200000, 0x00000000, 0x00000000,
            0x40c00000, 0x40c00000, 0x00000000, 0x40c00000,
        ],
    ),
    (
        "hardtanh",
        "min_val=-2.0 max_val=0.5",
        &[
            0x7fc00000, 0x3f000000, 0xc0000000, 0x80000000, 0x00000000, 0x000116c2, 0x33d6bf95, 0xb99d4952, 0x3d75c28f,
            0x3d80346e, 0xbd80346e, 0x3f000000, 0xbf666666, 0x3f000000, 0xbf800000, 0x3f000000, 0xc0000000, 0xc0000000,
            0x3f000000, 0x3f000000, 0xc0000000, 0x3f000000,
        ],
    ),
    (
        "hardswish",
        "",
        &[
            0x7fc00000, 0x7f800000, 0xffc00000, 0x80000000, 0x00000000, 0x00008b61, 0x3356bf95, 0xb91d454b, 0x3cfaacd9,
            0x3d02e148, 0xbcfb0f28, 0x3e955555, 0xbea147ad, 0x3f2aaaab, 0xbeaaaaab, 0x4012aaab, 0x80000000, 0x80000000,
            0x41a40000, 0x42b00000, 0x80000000, 0x7f800000,
        ],
    ),
    (
        "hardsigmoid",
        "",
        &[
            0xffffffff, 0x3f800000, 0x00000000, 0x3f000000, 0x3f000000, 0x3f000000, 0x3f000000, 0x3efff973, 0x3f028f5c,
            0x3f02abc2, 0x3efaa87c, 0x3f155555, 0x3eb33333, 0x3f2aaaab, 0x3eaaaaab, 0x3f6aaaab, 0x00000000, 0x00000000,
            0x3f800000, 0x3f800000, 0x00000000, 0x3f800000,
        ],
    ),
    (
        "log_sigmoid",
        "",
        &[
            0xffffffff, 0x00000000, 0xff800000, 0xbf317218, 0xbf317218, 0xbf317218, 0xbf317217, 0xbf317bed, 0xbf29e180,
            0xbf298eea, 0xbf399578, 0xbef2ba38, 0xbf9ede21, 0xbea063d6, 0xbfa818f6, 0xbda190f1, 0xc0431c0e, 0xc0f00488,
            0xb0abd1d8, 0x8041edc4, 0xc2d00000, 0x00000000,
        ],
    ),
    (
        "mish",
        "",
        &[
            0x7fc00000, 0x7f800000, 0xffc00000, 0x80000000, 0x00000000, 0x0000a741, 0x3380d95a, 0xb93cb6a7, 0x3d182872,
            0x3d1ef695, 0xbd14b238, 0x3ec02025, 0xbe976047, 0x3f5d7716, 0xbe9b576f, 0x401e2b4b, 0xbe15249c, 0xbb87e36f,
            0x41a40000, 0x42b00000, 0x80000000, 0x7f61b1e6,
        ],
    ),
];

const X_BF16: &[u16] = &[
    0xffff, 0x7f80, 0xff80, 0x8000, 0x0000, 0x0001, 0x33d7, 0xb99d, 0x3d76, 0x3d80, 0xbd80, 0x3f00, 0xbf66, 0x3f80,
    0xbf80, 0x4020, 0xc040, 0xc0f0, 0x41a4, 0x42b0, 0xc2d0, 0x7f62,
];

/// As [`F32`], in bf16.
const BF16: &[(&str, &str, &[u16])] = &[
    (
        "sign",
        "",
        &[
            0x0000, 0x3f80, 0xbf80, 0x0000, 0x0000, 0x3f80, 0x3f80, 0xbf80, 0x3f80, 0x3f80, 0xbf80, 0x3f80, 0xbf80,
            0x3f80, 0xbf80, 0x3f80, 0xbf80, 0xbf80, 0x3f80, 0x3f80, 0xbf80, 0x3f80,
        ],
    ),
    (
        "log1p",
        "",
        &[
            0xffff, 0x7f80, 0xffff, 0x8000, 0x0000, 0x0001, 0x33d7, 0xb99d, 0x3d6f, 0x3d78, 0xbd84, 0x3ed0, 0xc012,
            0x3f31, 0xff80, 0x3fa0, 0xffff, 0xffff, 0x4044, 0x4090, 0xffff, 0x42b1,
        ],
    ),
    (
        "expm1",
        "",
        &[
            0xffff, 0x7f80, 0xbf80, 0x8000, 0x0000, 0x0001, 0x33d7, 0xb99d, 0x3d7e, 0x3d84, 0xbd78, 0x3f26, 0xbf18,
            0x3fdc, 0xbf22, 0x4133, 0xbf73, 0xbf80, 0x4e3f, 0x7ef9, 0xbf80, 0x7f80,
        ],
    ),
    (
        "softplus",
        "beta=2.0",
        &[
            0x7fc0, 0x7f80, 0x0000, 0x3eb1, 0x3eb1, 0x3eb1, 0x3eb1, 0x3eb1, 0x3ec1, 0x3ec2, 0x3ea2, 0x3f28, 0x3d9d,
            0x3f88, 0x3d82, 0x4020, 0x3aa2, 0x3424, 0x41a4, 0x42b0, 0x0000, 0x7f62,
        ],
    ),
    (
        "elu",
        "alpha=1.5",
        &[
            0x7fc0, 0x7f80, 0xbfc0, 0x8000, 0x0000, 0x0001, 0x33d7, 0xb9eb, 0x3d76, 0x3d80, 0xbdba, 0x3f00, 0xbf64,
            0x3f80, 0xbf73, 0x4020, 0xbfb6, 0xbfc0, 0x41a4, 0x42b0, 0xbfc0, 0x7f62,
        ],
    ),
    (
        "leaky_relu",
        "negative_slope=0.1",
        &[
            0x7fc0, 0x7f80, 0xff80, 0x8000, 0x0000, 0x0001, 0x33d7, 0xb7fb, 0x3d76, 0x3d80, 0xbbcd, 0x3f00, 0xbdb8,
            0x3f80, 0xbdcd, 0x4020, 0xbe9a, 0xbf40, 0x41a4, 0x42b0, 0xc126, 0x7f62,
        ],
    ),
    (
        "relu6",
        "",
        &[
            0xffff, 0x40c0, 0x0000, 0x8000, 0x0000, 0x0001, 0x33d7, 0x0000, 0x3d76, 0x3d80, 0x0000, 0x3f00, 0x0000,
            0x3f80, 0x0000, 0x4020, 0x0000, 0x0000, 0x40c0, 0x40c0, 0x0000, 0x40c0,
        ],
    ),
    (
        "hardtanh",
        "min_val=-2.0 max_val=0.5",
        &[
            0xffff, 0x3f00, 0xc000, 0x8000, 0x0000, 0x0001, 0x33d7, 0xb99d, 0x3d76, 0x3d80, 0xbd80, 0x3f00, 0xbf66,
            0x3f00, 0xbf80, 0x3f00, 0xc000, 0xc000, 0x3f00, 0x3f00, 0xc000, 0x3f00,
        ],
    ),
    (
        "hardswish",
        "",
        &[
            0x7fc0, 0x7f80, 0x7fc0, 0x8000, 0x0000, 0x0000, 0x3357, 0xb91d, 0x3cfb, 0x3d03, 0xbcfb, 0x3e95, 0xbea1,
            0x3f2b, 0xbeab, 0x4013, 0x8000, 0x8000, 0x41a4, 0x42b0, 0x8000, 0x7f80,
        ],
    ),
    (
        "hardsigmoid",
        "",
        &[
            0x7fc0, 0x3f80, 0x0000, 0x3f00, 0x3f00, 0x3f00, 0x3f00, 0x3f00, 0x3f03, 0x3f03, 0x3efb, 0x3f15, 0x3eb3,
            0x3f2b, 0x3eab, 0x3f6b, 0x0000, 0x0000, 0x3f80, 0x3f80, 0x0000, 0x3f80,
        ],
    ),
    (
        "log_sigmoid",
        "",
        &[
            0xffff, 0x0000, 0xff80, 0xbf31, 0xbf31, 0xbf31, 0xbf31, 0xbf31, 0xbf2a, 0xbf2a, 0xbf3a, 0xbef3, 0xbf9f,
            0xbea0, 0xbfa8, 0xbda2, 0xc043, 0xc0f0, 0xb0ac, 0x8042, 0xc2d0, 0x0000,
        ],
    ),
    (
        "mish",
        "",
        &[
            0x7fc0, 0x7f80, 0x7fc0, 0x8000, 0x0000, 0x0001, 0x3381, 0xb93c, 0x3d18, 0x3d1f, 0xbd14, 0x3ec0, 0xbe97,
            0x3f5d, 0xbe9b, 0x401e, 0xbe15, 0xbb88, 0x41a4, 0x42b0, 0x8000, 0x7f62,
        ],
    ),
];

/// The op on `x`, whose bytes are given, against stored bytes.
#[track_caller]
fn compare(op: &str, arguments: &str, (code, dtype): (i64, DType), x: &[u8], expected: &[u8]) {
    let n = x.len() / dtype.bytes_for(1);
    let mut list = vec![tensor("self", "x")];
    for pair in arguments.split_whitespace() {
        let (name, value) = pair.split_once('=').expect("name=value");
        list.push(argument(name, &format!(r#"{{"as_float":{value}}}"#)));
    }
    let shape = [i64::try_from(n).expect("small")];
    let graph = one_node(&[("x", code, &shape)], &call(&format!("aten.{op}.default"), &list), &[("y", code, &shape)]);
    let graph = graph.expect("a graph");
    crate::verify::verify(&graph).expect("a valid graph");
    assert!(super::opaque_targets(&graph).is_empty(), "{op}: {graph}");
    let x = Tensor::from_bytes(dtype, &[n], x).expect("bytes of its type");
    let expected = Tensor::from_bytes(dtype, &[n], expected).expect("bytes of its type");
    let interval = interp::enclose(&graph, &[x], &Symbols::new()).expect("has a value").swap_remove(0);
    let report = interval.check(&expected).expect("of one type");
    assert!(report.is_ok(), "{op} of {dtype}: {report:?}\n{interval:?}");
}

#[test]
fn activations_give_what_the_framework_gave() {
    assert_eq!((F32.len(), BF16.len()), (12, 12));
    let wide = |x: &[u32]| x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let narrow = |x: &[u16]| x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    for (op, arguments, expected) in F32 {
        compare(op, arguments, (7, DType::F32), &wide(X_F32), &wide(expected));
    }
    for (op, arguments, expected) in BF16 {
        compare(op, arguments, (13, DType::BF16), &narrow(X_BF16), &narrow(expected));
    }
}

/// The sign bits of what an op gives for both zeros, as f32 on a device.
fn signs_of_zeros(op: &str, arguments: &[String], device: &str) -> Vec<bool> {
    let mut list = vec![tensor("self", "x")];
    list.extend_from_slice(arguments);
    let json = one_node_json(&[("x", 7, &[2])], &call(&format!("aten.{op}.default"), &list), &[("y", 7, &[2])]);
    let json = json.replace(r#""layout":7"#, &format!(r#""layout":7,"device":{{"type":"{device}","index":null}}"#));
    let graph = pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).expect("a graph");
    let x = Tensor::from_f64(DType::F32, &[2], vec![-0.0, 0.0]).expect("two elements");
    let y = interp::run(&graph, &[x], &Symbols::new()).expect("has a value").swap_remove(0);
    y.floats().expect("floats").iter().map(|v| v.is_sign_negative()).collect()
}

/// What PyTorch 2.11 and 2.15 gave on a CPU and on an H200.
#[test]
fn which_zero_a_bound_leaves_is_the_devices_choice() {
    let number = |name, value: &str| argument(name, &format!(r#"{{"as_float":{value}}}"#));
    let (kept, greater, lesser) = ([true, false], [false, false], [true, true]);
    for (op, arguments, on_gpu) in [
        ("relu", vec![], greater),
        ("relu6", vec![], greater),
        ("hardtanh", vec![number("min_val", "0.0"), number("max_val", "1.0")], greater),
        ("clamp", vec![number("min", "0.0")], greater),
        ("clamp", vec![number("min", "-1.0"), number("max", "-0.0")], lesser),
        ("clamp_min", vec![number("min", "0.0")], greater),
        ("clamp_min", vec![number("min", "-0.0")], kept),
        ("clamp_max", vec![number("max", "-0.0")], lesser),
        ("clamp_max", vec![number("max", "0.0")], kept),
    ] {
        assert_eq!(signs_of_zeros(op, &arguments, "cpu"), kept, "{op} {arguments:?}");
        assert_eq!(signs_of_zeros(op, &arguments, "cuda"), on_gpu, "{op} {arguments:?}");
    }
}

/// What an op gives for a bf16 tensor of these extents, counted up from 1, and the first extent, a symbol, as an argument.
fn with_its_size(target: &str, argument_name: &str, extents: &[i64]) -> Vec<f64> {
    let rows = extents[0];
    let size = format!(
        r#"{{"as_expr":{{"expr_str":"Symbol('s0', positive=True, integer=True)","hint":{{"as_int":{rows}}}}}}}"#
    );
    let operand = argument(argument_name, r#"{"as_sym_int":{"as_name":"n"}}"#);
    let x = r#"{"as_tensor":{"name":"x"}}"#;
    let inner = call(target, &[tensor("self", "x"), operand]);
    let node = format!(r#"{{{inner},"outputs":[{{"as_tensor":{{"name":"y"}}}}],"name":"y"}}"#);
    let ty = meta(13, extents, &vec![1; extents.len()], 0).replacen(&format!(r#"{{"as_int":{rows}}}"#), &size, 1);
    let json = model_json(
        &format!(r#"{{"user_input":{{"arg":{x}}}}}"#),
        &node,
        &format!(r#""x":{ty},"y":{ty}"#),
        r#"{"user_output":{"arg":{"as_tensor":{"name":"y"}}}}"#,
    );
    let json = json.replace(r#""sym_int_values":{}"#, &format!(r#""sym_int_values":{{"n":{size}}}"#));
    let graph = pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).expect("a graph");
    assert!(super::opaque_targets(&graph).is_empty(), "{target}: {graph}");
    let shape: Vec<usize> = extents.iter().map(|&n| usize::try_from(n).expect("small")).collect();
    let counted = (1..=shape.iter().product()).map(|n: usize| n as f64).collect();
    let x = Tensor::from_f64(DType::BF16, &shape, counted).expect("as many elements");
    let y = interp::run(&graph, &[x], &Symbols::new()).expect("has a value").swap_remove(0);
    y.floats().expect("floats").to_vec()
}

#[test]
fn a_symbolic_size_is_a_number() {
    let nearest = |v: f64| crate::num::round_to(DType::BF16, v, crate::Rounding::NearestEven, false);
    assert_eq!(with_its_size("aten.mul.Tensor", "other", &[3]), [3.0, 6.0, 9.0]);
    assert_eq!(with_its_size("aten.div.Tensor", "other", &[3]), [1.0 / 3.0, 2.0 / 3.0, 1.0].map(nearest));
    assert_eq!(with_its_size("aten.triu.default", "diagonal", &[2, 4]), [0.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 8.0]);
    assert_eq!(with_its_size("aten.tril.default", "diagonal", &[2, 4]), [1.0, 2.0, 3.0, 0.0, 5.0, 6.0, 7.0, 8.0]);
}
