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
}
