//! Ops on whole tensors against what PyTorch 2.15 gave for them on a CPU.

use super::attention::{argument, call, one_node, tensor};
use crate::DType;
use crate::interp::{self, Symbols};
use crate::tensor::Tensor;

const F32: (i64, DType) = (7, DType::F32);
const I64: (i64, DType) = (5, DType::I64);

const X: &[u32] = &[0x40f00000, 0xc0f00000, 0x80000000, 0x7f800000, 0x7fc00000, 0x40a80000];
const Y: &[u32] = &[0xc0000000, 0x40000000, 0x40400000, 0x40000000, 0x3f800000, 0x00000000];
const Z: &[u32] = &[0x3f800000, 0x40200000, 0xc0400000, 0x3dcccccd, 0x3e4ccccd, 0x3ecccccd];
const NAN: u32 = 0x7fc00000;

/// Target, arguments besides `self` as JSON by name, the tensor that is `self`, shape and bits of the result.
type Row = (&'static str, &'static [(&'static str, &'static str)], &'static str, &'static [i64], &'static [u32]);

const Y_OTHER: (&str, &str) = ("other", r#"{"as_tensor":{"name":"y"}}"#);
const X_OTHER: (&str, &str) = ("other", r#"{"as_tensor":{"name":"x"}}"#);
const LAST: (&str, &str) = ("dim", r#"{"as_ints":[-1]}"#);

const ROWS: &[Row] = &[
    ("floor_divide.default", &[Y_OTHER], "x", &[2, 3], &[0xc0800000, 0xc0800000, 0x80000000, NAN, NAN, 0x7f800000]),
    ("remainder.Tensor", &[Y_OTHER], "x", &[2, 3], &[0xbf000000, 0x3f000000, 0x80000000, NAN, NAN, NAN]),
    ("fmod.Tensor", &[Y_OTHER], "x", &[2, 3], &[0x3fc00000, 0xbfc00000, 0x80000000, NAN, NAN, NAN]),
    (
        "div.Tensor_mode",
        &[Y_OTHER, ("rounding_mode", r#"{"as_string":"trunc"}"#)],
        "x",
        &[2, 3],
        &[0xc0400000, 0xc0400000, 0x80000000, 0x7f800000, NAN, 0x7f800000],
    ),
    ("nan_to_num.default", &[], "x", &[2, 3], &[0x40f00000, 0xc0f00000, 0x80000000, 0x7f7fffff, 0, 0x40a80000]),
    (
        "fmax.default",
        &[Y_OTHER],
        "x",
        &[2, 3],
        &[0x40f00000, 0x40000000, 0x40400000, 0x7f800000, 0x3f800000, 0x40a80000],
    ),
    ("std.dim", &[LAST], "z", &[2], &[0x4035f5af, 0x3e1c6b28]),
    ("var.correction", &[LAST, ("correction", r#"{"as_int":0}"#)], "z", &[2], &[0x40ac71c7, 0x3c7edcbb]),
    ("linalg_vector_norm.default", &[("ord", r#"{"as_float":2.0}"#), LAST], "z", &[2], &[0x4080ff02, 0x3eeaa0bd]),
    ("linalg_norm.default", &[LAST], "z", &[2], &[0x4080ff02, 0x3eeaa0bd]),
    ("linalg_norm.default", &[("ord", r#"{"as_int":1}"#), LAST], "z", &[2], &[0x40d00000, 0x3f333334]),
    (
        "special_softmax.default",
        &[("dim", r#"{"as_int":-1}"#)],
        "z",
        &[2, 3],
        &[0x3e3a2e81, 0x3f509a21, 0x3b5a3e07, 0x3e943094, 0x3ea3c667, 0x3ec80906],
    ),
    (
        "special_log_softmax.default",
        &[("dim", r#"{"as_int":-1}"#)],
        "z",
        &[2, 3],
        &[0xbfda3537, 0xbe51a9b7, 0xc0b68d4e, 0xbf9eb2c8, 0xbf91e5fc, 0xbf7098c4],
    ),
    ("prod.dim_int", &[("dim", r#"{"as_int":-1}"#)], "z", &[2], &[0xc0f00000, 0x3c03126f]),
    ("logsumexp.default", &[LAST], "z", &[2], &[0x402d1a9b, 0x3fab7f95]),
    (
        "flip.default",
        &[("dims", r#"{"as_ints":[1]}"#)],
        "z",
        &[2, 3],
        &[0xc0400000, 0x40200000, 0x3f800000, 0x3ecccccd, 0x3e4ccccd, 0x3dcccccd],
    ),
    (
        "roll.default",
        &[("shifts", r#"{"as_ints":[1]}"#), ("dims", r#"{"as_ints":[1]}"#)],
        "z",
        &[2, 3],
        &[0xc0400000, 0x3f800000, 0x40200000, 0x3ecccccd, 0x3dcccccd, 0x3e4ccccd],
    ),
    (
        "pad.default",
        &[("pad", r#"{"as_ints":[1,-1]}"#), ("mode", r#"{"as_string":"constant"}"#), ("value", r#"{"as_float":9.0}"#)],
        "z",
        &[2, 3],
        &[0x41100000, 0x3f800000, 0x40200000, 0x41100000, 0x3dcccccd, 0x3e4ccccd],
    ),
    (
        "pad.default",
        &[("pad", r#"{"as_ints":[2,1]}"#), ("mode", r#"{"as_string":"reflect"}"#)],
        "z",
        &[2, 6],
        &[
            0xc0400000, 0x40200000, 0x3f800000, 0x40200000, 0xc0400000, 0x40200000, 0x3ecccccd, 0x3e4ccccd, 0x3dcccccd,
            0x3e4ccccd, 0x3ecccccd, 0x3e4ccccd,
        ],
    ),
    (
        "pad.default",
        &[("pad", r#"{"as_ints":[1,2]}"#), ("mode", r#"{"as_string":"replicate"}"#)],
        "z",
        &[2, 6],
        &[
            0x3f800000, 0x3f800000, 0x40200000, 0xc0400000, 0xc0400000, 0xc0400000, 0x3dcccccd, 0x3dcccccd, 0x3e4ccccd,
            0x3ecccccd, 0x3ecccccd, 0x3ecccccd,
        ],
    ),
    (
        "gather.default",
        &[("dim", r#"{"as_int":1}"#), ("index", r#"{"as_tensor":{"name":"i"}}"#)],
        "z",
        &[2, 2],
        &[0xc0400000, 0x3f800000, 0x3e4ccccd, 0x3e4ccccd],
    ),
    (
        "scatter.value",
        &[("dim", r#"{"as_int":1}"#), ("index", r#"{"as_tensor":{"name":"i"}}"#), ("value", r#"{"as_float":8.0}"#)],
        "z",
        &[2, 3],
        &[0x41000000, 0x40200000, 0x41000000, 0x3dcccccd, 0x41000000, 0x3ecccccd],
    ),
    (
        "unfold.default",
        &[("dimension", r#"{"as_int":1}"#), ("size", r#"{"as_int":2}"#), ("step", r#"{"as_int":1}"#)],
        "z",
        &[2, 2, 2],
        &[0x3f800000, 0x40200000, 0x40200000, 0xc0400000, 0x3dcccccd, 0x3e4ccccd, 0x3e4ccccd, 0x3ecccccd],
    ),
    ("diagonal.default", &[("offset", r#"{"as_int":1}"#)], "z", &[2], &[0x40200000, 0x3ecccccd]),
    (
        "addcmul.default",
        &[
            ("tensor1", r#"{"as_tensor":{"name":"z"}}"#),
            ("tensor2", r#"{"as_tensor":{"name":"z"}}"#),
            ("value", r#"{"as_float":0.3}"#),
        ],
        "z",
        &[2, 3],
        &[0x3fa66666, 0x408c0000, 0xbe999996, 0x3dd2f1aa, 0x3e591687, 0x3ee56042],
    ),
    (
        "lerp.Scalar",
        &[("end", r#"{"as_tensor":{"name":"y"}}"#), ("weight", r#"{"as_float":0.7}"#)],
        "z",
        &[2, 3],
        &[0xbf8ccccc, 0x4009999a, 0x3f999999, 0x3fb70a3d, 0x3f428f5c, 0x3df5c290],
    ),
    ("selu.default", &[], "x", &[2, 3], &[0x40fc2b12, 0xbfe0e989, 0x80000000, 0x7f800000, NAN, 0x40b0848d]),
    (
        "celu.default",
        &[("alpha", r#"{"as_float":2.0}"#)],
        "x",
        &[2, 3],
        &[0x40f00000, 0xbff9fabe, 0x80000000, 0x7f800000, NAN, 0x40a80000],
    ),
    ("softshrink.default", &[], "x", &[2, 3], &[0x40e00000, 0xc0e00000, 0x80000000, 0x7f800000, NAN, 0x40980000]),
    ("hardshrink.default", &[], "z", &[2, 3], &[0x3f800000, 0x40200000, 0xc0400000, 0, 0, 0]),
    ("erfc.default", &[], "x", &[2, 3], &[0x15097e37, 0x40000000, 0x3f800000, 0, NAN, 0x29feaf84]),
    ("erfinv.default", &[], "x", &[2, 3], &[NAN, NAN, 0x80000000, NAN, NAN, NAN]),
    ("erfinv.default", &[], "z", &[2, 3], &[0x7f800000, NAN, NAN, 0x3db5fa21, 0x3e377162, 0x3ebdda70]),
    ("special_erfinv.default", &[], "z", &[2, 3], &[0x7f800000, NAN, NAN, 0x3db5fa21, 0x3e377162, 0x3ebdda70]),
    (
        "special_erfc.default",
        &[],
        "z",
        &[2, 3],
        &[0x3e21130b, 0x39d55c2d, 0x3fffff47, 0x3f6335a1, 0x3f46fcf7, 0x3f1254e1],
    ),
    ("atan.default", &[], "x", &[2, 3], &[0x3fb81868, 0xbfb81868, 0x80000000, 0x3fc90fdb, NAN, 0x3fb0f836]),
    ("atan2.default", &[Y_OTHER], "x", &[2, 3], &[0x3fea6b46, 0xbfa7b46f, 0x80000000, 0x3fc90fdb, NAN, 0x3fc90fdb]),
    ("hypot.default", &[Y_OTHER], "x", &[2, 3], &[0x40f86305, 0x40f86305, 0x40400000, 0x7f800000, NAN, 0x40a80000]),
    ("rad2deg.default", &[], "z", &[2, 3], &[0x42652ee1, 0x430f3d4d, 0xc32be329, 0x40b758b4, 0x413758b4, 0x41b758b4]),
    ("deg2rad.default", &[], "x", &[2, 3], &[0x3e060a92, 0xbe060a92, 0x80000000, 0x7f800000, NAN, 0x3dbba866]),
    (
        "special_ndtr.default",
        &[],
        "z",
        &[2, 3],
        &[0x3f57625e, 0x3f7e690b, 0x3ab0ef00, 0x3f0a3228, 0x3f144a5d, 0x3f27c9b8],
    ),
    ("sinc.default", &[], "x", &[2, 3], &[0xbd2dd6f3, 0xbd2dd6f3, 0x3f800000, NAN, NAN, 0xbd2f9acf]),
    (
        "special_sinc.default",
        &[],
        "z",
        &[2, 3],
        &[0xb2ef0965, 0x3e026136, 0xb12de5b3, 0x3f7bcf49, 0x3f6f7c39, 0x3f41bf65],
    ),
    (
        "logaddexp2.default",
        &[Y_OTHER],
        "x",
        &[2, 3],
        &[0x40f01050, 0x4000209f, 0x404ae00d, 0x7f800000, NAN, 0x40a9328f],
    ),
    (
        "logaddexp2.default",
        &[X_OTHER],
        "x",
        &[2, 3],
        &[0x41080000, 0xc0d00000, 0x3f800000, 0x7f800000, NAN, 0x40c80000],
    ),
    ("xlogy.Tensor", &[Y_OTHER], "x", &[2, 3], &[NAN, 0xc0a65af6, 0, 0x7f800000, NAN, 0xff800000]),
    ("special_xlogy.Tensor", &[X_OTHER], "y", &[2, 3], &[0xc080f42c, NAN, 0xff800000, 0x7f800000, NAN, 0]),
    ("special_xlog1py.default", &[X_OTHER], "y", &[2, 3], &[0xc088f6d8, NAN, 0x80000000, 0x7f800000, NAN, 0]),
    (
        "heaviside.default",
        &[("values", r#"{"as_tensor":{"name":"y"}}"#)],
        "x",
        &[2, 3],
        &[0x3f800000, 0, 0x40400000, 0x3f800000, 0, 0x3f800000],
    ),
    (
        "ldexp.Tensor",
        &[Y_OTHER],
        "z",
        &[2, 3],
        &[0x3e800000, 0x41200000, 0xc1c00000, 0x3ecccccd, 0x3ecccccd, 0x3ecccccd],
    ),
    ("asin.default", &[], "z", &[2, 3], &[0x3fc90fdb, NAN, NAN, 0x3dcd2494, 0x3e4e30c6, 0x3ed2b256]),
    ("acos.default", &[], "z", &[2, 3], &[0, NAN, NAN, 0x3fbc3d91, 0x3faf49c2, 0x3f946345]),
    ("round.decimals", &[], "z", &[2, 3], &[0x3f800000, 0x40000000, 0xc0400000, 0, 0, 0]),
    (
        "round.decimals",
        &[("decimals", r#"{"as_int":1}"#)],
        "z",
        &[2, 3],
        &[0x3f800000, 0x40200000, 0xc0400000, 0x3dcccccd, 0x3e4ccccd, 0x3ecccccd],
    ),
    (
        "round.decimals",
        &[("decimals", r#"{"as_int":-1}"#)],
        "x",
        &[2, 3],
        &[0x41200000, 0xc1200000, 0x80000000, 0x7f800000, NAN, 0x41200000],
    ),
];

fn bytes(bits: &[u32]) -> Vec<u8> {
    bits.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// The tensors `x`, `y`, `z` of f32[2, 3], and `i` of i64[2, 2].
fn operands() -> [Tensor; 4] {
    let floats = |bits| Tensor::from_bytes(DType::F32, &[2, 3], &bytes(bits)).expect("bytes of its type");
    let index: Vec<u8> = [2i64, 0, 1, 1].iter().flat_map(|v| v.to_le_bytes()).collect();
    [floats(X), floats(Y), floats(Z), Tensor::from_bytes(DType::I64, &[2, 2], &index).expect("bytes of its type")]
}

#[test]
fn results_are_those_of_the_framework() {
    for (target, arguments, of, shape, expected) in ROWS {
        let mut list = vec![tensor("self", of)];
        list.extend(arguments.iter().map(|(name, value)| argument(name, value)));
        let inputs: [(&str, i64, &[i64]); 4] =
            [("x", F32.0, &[2, 3]), ("y", F32.0, &[2, 3]), ("z", F32.0, &[2, 3]), ("i", I64.0, &[2, 2])];
        let node = call(&format!("aten.{target}"), &list);
        let graph = one_node(&inputs, &node, &[("r", F32.0, shape)]).unwrap_or_else(|e| panic!("{target}: {e}"));
        crate::verify::verify(&graph).unwrap_or_else(|e| panic!("{target}: {e:?}"));
        assert!(super::opaque_targets(&graph).is_empty(), "{target}: {graph}");
        let extents: Vec<usize> = shape.iter().map(|&n| usize::try_from(n).expect("small")).collect();
        let expected = Tensor::from_bytes(F32.1, &extents, &bytes(expected)).expect("bytes of its type");
        let interval = interp::enclose(&graph, &operands(), &Symbols::new()).expect("has a value").swap_remove(0);
        let report = interval.check(&expected).expect("of one type");
        assert!(report.is_ok(), "{target}: {report:?}\n{interval:?}");
    }
}

/// What PyTorch 2.10 gave on a CPU for ops without `self`, and what is read of none.
#[test]
fn angles_and_norms_are_those_of_vectors() {
    let inputs: [(&str, i64, &[i64]); 2] = [("y", F32.0, &[2, 3]), ("z", F32.0, &[2, 3])];
    let node = call("aten.cosine_similarity.default", &[tensor("x1", "z"), tensor("x2", "y")]);
    let graph = one_node(&inputs, &node, &[("r", F32.0, &[2])]).expect("a graph");
    let [_, y, z, _] = operands();
    let interval = interp::enclose(&graph, &[y, z], &Symbols::new()).expect("has a value").swap_remove(0);
    let expected = Tensor::from_bytes(F32.1, &[2], &bytes(&[0xbeb8d438, 0x3ec7dd44])).expect("bytes of its type");
    let report = interval.check(&expected).expect("of one type");
    assert!(report.is_ok(), "{report:?}\n{interval:?}");
    let node = call("aten.linalg_norm.default", &[tensor("self", "z"), argument("ord", r#"{"as_int":2}"#)]);
    let graph = one_node(&inputs, &node, &[("r", F32.0, &[])]).expect("a graph");
    assert_eq!(super::opaque_targets(&graph), ["aten.linalg_norm"]);
}

/// A power rounds to the dtype of the exponent, and distances of integers are floats, as PyTorch 2.10 has it.
#[test]
fn mixed_and_integer_operands_round_as_in_the_framework() {
    let of = |target: &str, (code, shape): (i64, &[i64]), inputs: [Tensor; 2], result: i64| {
        let types: [(&str, i64, &[i64]); 2] = [("a", code, shape), ("b", if code == 7 { 6 } else { code }, shape)];
        let node = call(&format!("aten.{target}"), &[tensor("self", "a"), tensor("other", "b")]);
        let graph = one_node(&types, &node, &[("r", result, shape)]).expect("a graph");
        assert!(super::opaque_targets(&graph).is_empty(), "{target}: {graph}");
        interp::run(&graph, &inputs, &Symbols::new()).expect("has a value").swap_remove(0)
    };
    let floats = |dtype, values: Vec<f64>| Tensor::from_f64(dtype, &[2], values).expect("fits");
    let powers = [floats(DType::F32, vec![1.0, 3.0]), floats(DType::F16, vec![20.0, 4.0])];
    let scaled = of("ldexp.Tensor", (F32.0, &[2]), powers, F32.0);
    assert_eq!(scaled.floats(), Some(&[f64::INFINITY, 48.0][..]));
    let integers = |values: [i64; 2]| Tensor::from_i64(I64.1, &[2], values.to_vec()).expect("fits");
    let close = of("isclose.default", (I64.0, &[2]), [integers([200_001, 7]), integers([200_000, 8])], 12);
    assert_eq!(close.ints().map(<[_]>::to_vec), Some(vec![1, 0]), "one is within a part in 100,000");
}

/// As PyTorch counts integers on a GPU: `(x - min) · bins / (max - min)` in integers, the upper bound in the last part.
#[test]
fn integers_are_counted_in_parts_of_a_range() {
    let parts = |bins: i64, bounds: [i64; 2], expected: &[i64]| {
        let number = |name: &str, v: i64| argument(name, &format!(r#"{{"as_int":{v}}}"#));
        let list = [tensor("self", "x"), number("bins", bins), number("min", bounds[0]), number("max", bounds[1])];
        let node = call("aten.histc.default", &list);
        let inputs: [(&str, i64, &[i64]); 1] = [("x", I64.0, &[8])];
        let graph = one_node(&inputs, &node, &[("r", I64.0, &[bins])]).expect("a graph");
        let x = Tensor::from_i64(I64.1, &[8], vec![-1, 0, 1, 3, 3, 6, 7, 8]).expect("fits");
        let found = interp::run(&graph, &[x], &Symbols::new()).expect("has a value").swap_remove(0);
        assert_eq!(found.ints().map(<[_]>::to_vec).as_deref(), Some(expected), "{bins} of {bounds:?}");
    };
    parts(8, [0, 7], &[1, 1, 0, 2, 0, 0, 1, 1]);
    parts(3, [0, 7], &[2, 2, 2]);
    parts(2, [-1, 6], &[3, 3]);
    // Bounds that are one as integers leave the range to the data.
    let bound = |name: &str, v: &str| argument(name, &format!(r#"{{"as_float":{v}}}"#));
    let list = [tensor("self", "x"), argument("bins", r#"{"as_int":2}"#), bound("min", "0.2"), bound("max", "0.9")];
    let node = call("aten.histc.default", &list);
    let graph = one_node(&[("x", I64.0, &[8])], &node, &[("r", I64.0, &[2])]).expect("a graph");
    assert_eq!(super::opaque_targets(&graph), ["aten.histc"]);
}

/// What PyTorch 2.10 gave on a CPU for ops whose results are of another dtype.
#[test]
fn results_of_other_dtypes_are_those_of_the_framework() {
    let flag = |name: &str| argument(name, r#"{"as_bool":true}"#);
    let number = |name: &str, v: &str| argument(name, &format!(r#"{{"as_float":{v}}}"#));
    let of = |target: &str, x: &str, arguments: &[String], (code, dtype): (i64, DType), expected: &[f64]| {
        let list = [&[tensor("self", x)], arguments].concat();
        let inputs: [(&str, i64, &[i64]); 4] =
            [("x", F32.0, &[2, 3]), ("y", F32.0, &[2, 3]), ("z", F32.0, &[2, 3]), ("b", F32.0, &[5])];
        let node = call(&format!("aten.{target}"), &list);
        let graph = one_node(&inputs, &node, &[("r", code, &[2, 3])]).unwrap_or_else(|e| panic!("{target}: {e}"));
        assert!(super::opaque_targets(&graph).is_empty(), "{target}: {graph}");
        let [x, y, z, _] = operands();
        let bounds = Tensor::from_f64(F32.1, &[5], vec![-3.0, 0.0, 1.0, 1.0, 2.5]).expect("fits");
        let results = interp::run(&graph, &[x, y, z, bounds], &Symbols::new()).expect("has a value");
        assert_eq!(results[0].dtype(), dtype, "{target}");
        let whole = || results[0].ints().map(|v| v.iter().map(|&n| n as f64).collect());
        let found: Option<Vec<f64>> = results[0].floats().map(<[f64]>::to_vec).or_else(whole);
        assert_eq!(found.as_deref(), Some(expected), "{target}");
    };
    const BOOL: (i64, DType) = (12, DType::Bool);
    const F64: (i64, DType) = (8, DType::F64);
    let [same, other] = ["x", "y"].map(|name| tensor("other", name));
    of("isclose.default", "x", std::slice::from_ref(&same), BOOL, &[1.0, 1.0, 1.0, 1.0, 0.0, 1.0]);
    of("isclose.default", "x", &[same, flag("equal_nan")], BOOL, &[1.0; 6]);
    of("isclose.default", "x", std::slice::from_ref(&other), BOOL, &[0.0; 6]);
    let wide = [other, number("rtol", "0.0"), number("atol", "3.0")];
    of("isclose.default", "z", &wide, BOOL, &[1.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
    let bounds = tensor("boundaries", "b");
    of("bucketize.Tensor", "z", std::slice::from_ref(&bounds), I64, &[2.0, 4.0, 0.0, 2.0, 2.0, 2.0]);
    of("bucketize.Tensor", "z", &[bounds.clone(), flag("right")], I64, &[4.0, 5.0, 1.0, 2.0, 2.0, 2.0]);
    of("bucketize.Tensor", "x", &[bounds], I64, &[5.0, 0.0, 1.0, 5.0, 5.0, 5.0]);
    let cubes = [1.0, 15.625, -27.0, 0.0010000000447034842, 0.008000000357627874, 0.06400000286102299];
    of("float_power.Tensor_Scalar", "z", &[argument("exponent", r#"{"as_int":3}"#)], F64, &cubes);
}

/// Of equal shape in a file, an equation whose axes have no names is the one in which they have some.
#[test]
fn dots_of_an_equation_are_axes() {
    let sum = |equation: &str, shapes: [&[i64]; 2], result: &[i64]| {
        let tensors = r#"{"as_tensors":[{"name":"p"},{"name":"q"}]}"#;
        let equation = format!(r#"{{"as_string":"{equation}"}}"#);
        let node = call("aten.einsum.default", &[argument("equation", &equation), argument("tensors", tensors)]);
        let inputs: [(&str, i64, &[i64]); 2] = [("p", F32.0, shapes[0]), ("q", F32.0, shapes[1])];
        one_node(&inputs, &node, &[("r", F32.0, result)]).expect("a graph")
    };
    let shapes: [&[i64]; 2] = [&[2, 5, 3, 4], &[2, 5, 4, 6]];
    let named = sum("abij,abjk->abik", shapes, &[2, 5, 3, 6]).to_string();
    assert_eq!(sum("...ij,...jk->...ik", shapes, &[2, 5, 3, 6]).to_string(), named);
    assert_eq!(sum("...ij, ...jk", shapes, &[2, 5, 3, 6]).to_string(), named);
    let one_sided = sum("...j,jk->...k", [&[2, 5, 4], &[4, 6]], &[2, 5, 6]);
    assert_eq!(one_sided.to_string(), sum("abj,jk->abk", [&[2, 5, 4], &[4, 6]], &[2, 5, 6]).to_string());
    for wrong in ["..ij,...jk->...ik", "...ij,..1k->...ik", "abcij,abjk->abik", "...ij->...ij"] {
        let refused = sum(wrong, shapes, &[2, 5, 3, 6]);
        assert_eq!(super::opaque_targets(&refused), ["aten.einsum"], "{wrong}");
    }
}

/// `x[i, :, j] = v`: the indexed axes of the tensor, and those of the values that they stand for, come first.
#[test]
fn places_on_axes_that_are_apart_are_written() {
    let indices = argument(
        "indices",
        r#"{"as_optional_tensors":[{"as_tensor":{"name":"i"}},{"as_none":true},{"as_tensor":{"name":"j"}}]}"#,
    );
    let node = call("aten.index_put.default", &[tensor("self", "x"), indices, tensor("values", "v")]);
    let inputs: [(&str, i64, &[i64]); 4] =
        [("x", F32.0, &[2, 3, 4]), ("i", I64.0, &[2]), ("j", I64.0, &[2]), ("v", F32.0, &[2, 3])];
    let graph = one_node(&inputs, &node, &[("r", F32.0, &[2, 3, 4])]).expect("a graph");
    assert!(super::opaque_targets(&graph).is_empty(), "{graph}");
    let floats = |shape: &[usize], values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Tensor::from_bytes(DType::F32, shape, &bytes).expect("bytes of its type")
    };
    let places = |values: [i64; 2]| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Tensor::from_bytes(DType::I64, &[2], &bytes).expect("bytes of its type")
    };
    let v = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let given = [floats(&[2, 3, 4], &[0.0; 24]), places([1, 0]), places([3, -4]), floats(&[2, 3], &v)];
    let mut expected = [0f32; 24];
    for row in 0..3 {
        expected[12 + row * 4 + 3] = v[row];
        expected[row * 4] = v[3 + row];
    }
    let results = interp::run(&graph, &given, &Symbols::new()).expect("has a value");
    assert_eq!(results[0], floats(&[2, 3, 4], &expected));
    // Behind the end of one axis is no place of the next row.
    let given = [floats(&[2, 3, 4], &[0.0; 24]), places([0, 1]), places([4, 0]), floats(&[2, 3], &v)];
    let mut expected = [0f32; 24];
    (0..3).for_each(|row| expected[12 + row * 4] = v[3 + row]);
    let results = interp::run(&graph, &given, &Symbols::new()).expect("has a value");
    assert_eq!(results[0], floats(&[2, 3, 4], &expected));
}

/// What PyTorch 2.15 gave on a CPU: statistics of bf16 are rounded to it, the variance of three roundings.
#[test]
fn channels_are_normed_as_on_a_cpu() {
    const BF16: (i64, DType) = (13, DType::BF16);
    let halves = |bits: &[u16], shape: &[usize]| {
        let bytes: Vec<u8> = bits.iter().flat_map(|v| v.to_le_bytes()).collect();
        Tensor::from_bytes(BF16.1, shape, &bytes).expect("bytes of its type")
    };
    let x = halves(&[0x3f80, 0x4020, 0xc040, 0x40e0, 0x3dcd, 0x3e4d, 0x3ecd, 0x3f66], &[1, 2, 4]);
    let w = halves(&[0x3e9a, 0xbfda], &[2]);
    let y = halves(&[0xbd97, 0x3d57, 0xbed2, 0x3edc, 0x3fd5, 0x3f8e, 0x0000, 0xc030], &[1, 2, 4]);
    let flag = |name, on: bool| argument(name, &format!(r#"{{"as_bool":{on}}}"#));
    let none = |name| argument(name, r#"{"as_none":true}"#);
    let number = |name, value: &str| argument(name, &format!(r#"{{"as_float":{value}}}"#));
    let batch = |training| {
        let flags = [flag("training", training), number("momentum", "0.1"), number("eps", "1e-05")];
        let list = [vec![tensor("input", "x"), tensor("weight", "w"), none("bias")], flags.to_vec()].concat();
        call("aten._native_batch_norm_legit.no_stats", &list)
    };
    let inputs: [(&str, i64, &[i64]); 2] = [("x", BF16.0, &[1, 2, 4]), ("w", BF16.0, &[2])];
    let results: [(&str, i64, &[i64]); 3] = [("y", BF16.0, &[1, 2, 4]), ("m", BF16.0, &[2]), ("s", BF16.0, &[2])];
    let graph = one_node(&inputs, &batch(true), &results).expect("a graph");
    let given = [x, w];
    let expected = [y.clone(), halves(&[0x3ff0, 0x3ecd], &[2]), halves(&[0x3e8f, 0x4050], &[2])];
    assert_eq!(interp::run(&graph, &given, &Symbols::new()).expect("has a value"), expected);

    let instance = |own: bool| {
        let list = [tensor("input", "x"), tensor("weight", "w"), none("bias"), none("running_mean")];
        let more = [none("running_var"), flag("use_input_stats", own), number("momentum", "0.1")];
        let last = [number("eps", "1e-05"), flag("cudnn_enabled", true)];
        call("aten.instance_norm.default", &[&list[..], &more, &last].concat())
    };
    let graph = one_node(&inputs, &instance(true), &results[..1]).expect("a graph");
    assert_eq!(interp::run(&graph, &given, &Symbols::new()).expect("has a value"), [y]);
    for (node, results) in [(batch(false), &results[..]), (instance(false), &results[..1])] {
        let refused = one_node(&inputs, &node, results).expect("a graph");
        assert_eq!(super::opaque_targets(&refused).len(), 1, "{refused}");
    }
}

/// What PyTorch 2.15 gave on a CPU: products of bf16 that one sum takes are not rounded, where a product of two tensors is.
#[test]
fn products_of_one_row_with_one_are_sums() {
    const BF16: (i64, DType) = (13, DType::BF16);
    let halves = |bits: &[u16], shape: &[usize]| {
        let bytes: Vec<u8> = bits.iter().flat_map(|v| v.to_le_bytes()).collect();
        Tensor::from_bytes(BF16.1, shape, &bytes).expect("bytes of its type")
    };
    let (p, q) = ([0x3f4e, 0x3e33, 0x3db6], [0xbf1d, 0x3d3d, 0xbfaf]);
    let einsum = call(
        "aten.einsum.default",
        &[
            argument("equation", r#"{"as_string":"ij,ij->i"}"#),
            argument("tensors", r#"{"as_tensors":[{"name":"p"},{"name":"q"}]}"#),
        ],
    );
    let vecdot = call("aten.linalg_vecdot.default", &[tensor("x", "p"), tensor("y", "q")]);
    let bmm = call("aten.bmm.default", &[tensor("self", "p"), tensor("mat2", "q")]);
    let dot = call("aten.dot.default", &[tensor("self", "p"), tensor("tensor", "q")]);
    let added = argument("bias", r#"{"as_none":true}"#);
    let linear = call("aten.linear.default", &[tensor("input", "p"), tensor("weight", "q"), added]);
    type Case<'a> = (&'a str, &'a [i64], &'a [i64], &'a [i64], u16);
    let cases: [Case<'_>; 5] = [
        (&einsum, &[1, 3], &[1, 3], &[1], 0xbf1b),
        (&vecdot, &[1, 3], &[1, 3], &[1], 0xbf1c),
        (&bmm, &[1, 1, 3], &[1, 3, 1], &[1, 1, 1], 0xbf1b),
        (&dot, &[3], &[3], &[], 0xbf1b),
        (&linear, &[1, 3], &[1, 3], &[1, 1], 0xbf1b),
    ];
    let extents = |sizes: &[i64]| sizes.iter().map(|&n| usize::try_from(n).expect("small")).collect::<Vec<_>>();
    for (node, left, right, of, expected) in cases {
        let inputs: [(&str, i64, &[i64]); 2] = [("p", BF16.0, left), ("q", BF16.0, right)];
        let graph = one_node(&inputs, node, &[("r", BF16.0, of)]).unwrap_or_else(|e| panic!("{node}: {e}"));
        assert!(graph.nodes().iter().all(|n| n.op.name() != "matmul"), "{graph}");
        let given = [halves(&p, &extents(left)), halves(&q, &extents(right))];
        let results = interp::run(&graph, &given, &Symbols::new()).expect("has a value");
        assert_eq!(results, [halves(&[expected], &extents(of))], "{graph}");
    }
    // Of several rows or columns a library has more to share.
    for (right, of) in [([1i64, 3, 2], [1i64, 1, 2]), ([1, 3, 4], [1, 1, 4])] {
        let inputs: [(&str, i64, &[i64]); 2] = [("p", BF16.0, &[1, 1, 3]), ("q", BF16.0, &right)];
        let graph = one_node(&inputs, &bmm, &[("r", BF16.0, &of)]).expect("a graph");
        assert!(graph.nodes().iter().any(|n| n.op.name() == "matmul"), "{graph}");
    }
}

#[test]
fn the_bits_of_an_input_are_its_own() {
    const I32: (i64, DType) = (4, DType::I32);
    let node = call("aten.view.dtype", &[tensor("self", "x"), argument("dtype", r#"{"as_scalar_type":4}"#)]);
    let graph = one_node(&[("x", F32.0, &[4])], &node, &[("y", I32.0, &[4])]).expect("a graph");
    let codes = bytes(&[0x7fc0_0001, 0xffff_ffff, 0x7f80_0001, 0x8000_0000]);
    let given = Tensor::from_bytes(F32.1, &[4], &codes).expect("four floats");
    let results = interp::run(&graph, &[given], &Symbols::new()).expect("has a value");
    assert_eq!(results[0], Tensor::from_bytes(I32.1, &[4], &codes).expect("four integers"), "{graph}");
}

#[test]
fn products_of_groups_by_an_op_of_transformers() {
    let inputs: [(&str, i64, &[i64]); 3] = [("x", 7, &[4, 1]), ("w", 7, &[2, 1, 2]), ("ends", 4, &[2])];
    let node = call(
        "transformers.grouped_mm_fallback.default",
        &[tensor("input", "x"), tensor("weight", "w"), tensor("offs", "ends")],
    );
    let graph = one_node(&inputs, &node, &[("y", 7, &[4, 2])]).expect("a graph");
    let f32s =
        |shape: &[usize], values: &[f64]| Tensor::from_f64(DType::F32, shape, values.to_vec()).expect("a tensor");
    let ends = Tensor::from_i64(DType::I32, &[2], vec![1, 3]).expect("a tensor");
    let given = [f32s(&[4, 1], &[1.0, 2.0, 3.0, 4.0]), f32s(&[2, 1, 2], &[1.0, 10.0, 100.0, 1000.0]), ends];
    let y = interp::run(&graph, &given, &Symbols::new()).expect("has a value");
    let expected = f32s(&[4, 2], &[1.0, 10.0, 200.0, 2000.0, 300.0, 3000.0, 0.0, 0.0]);
    assert_eq!(y[0].to_bytes(), expected.to_bytes());
}
