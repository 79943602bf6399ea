//! Values of the primitives on points.

use super::*;
use crate::dim::DimFn;
use crate::ops::{Composite, Floor, QuantizeDynamic, QuantizeNvfp4, RmsNorm, RmsRounding};
use crate::prim::{Literal, NanBits, NanRule, Prim, ReduceOp, Rounding, Sdpa};
use crate::scalar::ScalarFn;

fn dims(shape: &[i64]) -> Vec<Dim> {
    shape.iter().map(|&extent| Dim::constant(extent)).collect()
}

fn map1(f: ScalarFn, x: Tensor) -> Tensor {
    eval(&[x], |b, v| b.map(f, v))
}

fn map2(f: ScalarFn, x: Tensor, y: Tensor) -> Tensor {
    eval(&[x, y], |b, v| b.map(f, v))
}

fn prim(prim: Prim, inputs: &[Tensor]) -> Tensor {
    eval(inputs, |b, v| b.prim(prim, v))
}

fn reduce(op: ReduceOp, axes: &[usize], nan: NanRule, x: Tensor) -> Tensor {
    prim(Prim::Reduce { op, axes: axes.to_vec(), nan }, &[x])
}

#[test]
fn maps_round_once_in_the_operands_dtype() {
    let a = floats(BF16, &[3], &[1.0, 256.0, -0.0]);
    let b = floats(BF16, &[3], &[2f64.powi(-9), 1.0, -0.0]);
    same(&map2(ScalarFn::Add, a.clone(), b), &floats(BF16, &[3], &[1.0, 256.0, -0.0]));
    let third = map2(ScalarFn::Div, floats(F32, &[1], &[1.0]), floats(F32, &[1], &[3.0]));
    same(&third, &floats(F32, &[1], &[f64::from(1.0f32 / 3.0)]));
    let tiny = f64::from(f32::from_bits(1));
    let halves = map2(ScalarFn::Mul, floats(F32, &[2], &[tiny, -tiny]), floats(F32, &[1], &[0.5]));
    same(&halves, &floats(F32, &[2], &[0.0, -0.0]));
    let overflow = map2(ScalarFn::Mul, floats(F32, &[1], &[1e38]), floats(F32, &[1], &[10.0]));
    same(&overflow, &floats(F32, &[1], &[INF]));
}

#[test]
fn maps_broadcast_on_every_axis() {
    let column = floats(F32, &[2, 1, 1], &[10.0, 20.0]);
    let row = floats(F32, &[3], &[1.0, 2.0, 3.0]);
    let got = map2(ScalarFn::Sub, column.clone(), row.clone());
    same(&got, &floats(F32, &[2, 1, 3], &[9.0, 8.0, 7.0, 19.0, 18.0, 17.0]));
    let middle = floats(F32, &[2, 1], &[0.0, 100.0]);
    let got = eval(&[row, middle, column], |b, v| b.map(ScalarFn::Fma, v));
    let want = [10.0, 10.0, 10.0, 110.0, 210.0, 310.0, 20.0, 20.0, 20.0, 120.0, 220.0, 320.0];
    same(&got, &floats(F32, &[2, 2, 3], &want));
}

#[test]
fn special_values_go_their_way() {
    let x = || floats(F32, &[5], &[NAN, INF, -INF, -0.0, 0.0]);
    same(&map1(ScalarFn::Neg, x()), &floats(F32, &[5], &[NAN, -INF, INF, 0.0, -0.0]));
    same(&map1(ScalarFn::Rsqrt, x()), &floats(F32, &[5], &[NAN, 0.0, NAN, -INF, INF]));
    same(&map1(ScalarFn::Exp, x()), &floats(F32, &[5], &[NAN, INF, 0.0, 1.0, 1.0]));
    let zero = floats(F32, &[1], &[0.0]);
    same(&map2(ScalarFn::Max, x(), zero.clone()), &floats(F32, &[5], &[NAN, INF, 0.0, 0.0, 0.0]));
    same(&map2(ScalarFn::MaxNum, x(), zero.clone()), &floats(F32, &[5], &[0.0, INF, 0.0, 0.0, 0.0]));
    same(&map2(ScalarFn::Ne, x(), zero), &ints(DType::Bool, &[5], &[1, 1, 1, 0, 0]));
}

#[test]
fn select_takes_bits_of_either_class() {
    let condition = ints(DType::Bool, &[2, 1], &[1, 0]);
    let got = eval(&[condition.clone(), floats(BF16, &[2], &[NAN, -0.0]), floats(BF16, &[1], &[3.0])], |b, v| {
        b.map(ScalarFn::Select, v)
    });
    same(&got, &floats(BF16, &[2, 2], &[NAN, -0.0, 3.0, 3.0]));
    let got = eval(&[condition, ints(I64, &[1], &[7]), ints(I64, &[1], &[-7])], |b, v| b.map(ScalarFn::Select, v));
    same(&got, &ints(I64, &[2, 1], &[7, -7]));
}

#[test]
fn integers_wrap_in_their_dtype() {
    let i8s = |v: &[i64]| ints(DType::I8, &[v.len()], v);
    same(&map2(ScalarFn::Add, i8s(&[127, -128]), i8s(&[1, -1])), &i8s(&[-128, 127]));
    same(&map2(ScalarFn::Div, i8s(&[-7, 5, -128]), i8s(&[2, 0, -1])), &i8s(&[-3, 0, -128]));
    same(&map2(ScalarFn::Shl, i8s(&[1, 1]), i8s(&[7, 8])), &i8s(&[-128, 0]));
    let u64s = |v: &[i64]| ints(DType::U64, &[v.len()], v);
    same(&map2(ScalarFn::Max, u64s(&[-1, 1]), u64s(&[1, 2])), &u64s(&[-1, 2]));
    same(&map2(ScalarFn::Div, u64s(&[-1]), u64s(&[2])), &u64s(&[i64::MAX]));
    same(&map2(ScalarFn::Shr, u64s(&[-1, -1]), u64s(&[63, 64])), &u64s(&[1, 0]));
    same(&map2(ScalarFn::Lt, u64s(&[1]), u64s(&[-1])), &ints(DType::Bool, &[1], &[1]));
    let i64s = |v: &[i64]| ints(I64, &[v.len()], v);
    same(&map2(ScalarFn::Div, i64s(&[i64::MIN]), i64s(&[-1])), &i64s(&[i64::MIN]));
    let bools = |v: &[i64]| ints(DType::Bool, &[v.len()], v);
    same(&map1(ScalarFn::Not, bools(&[0, 1])), &bools(&[1, 0]));
    same(&map2(ScalarFn::Xor, bools(&[1, 1]), bools(&[0, 1])), &bools(&[1, 0]));
}

#[test]
fn casts_between_classes() {
    let cast = |x: Tensor, to, round, saturate| prim(Prim::Cast { to, round, saturate }, &[x]);
    let x = floats(F32, &[4], &[2.5, -300.0, NAN, 0.0]);
    let even = Rounding::NearestEven;
    same(&cast(x.clone(), DType::I8, even, true), &ints(DType::I8, &[4], &[2, -128, 0, 0]));
    same(&cast(x.clone(), DType::I8, Rounding::TowardZero, false), &ints(DType::I8, &[4], &[2, -44, 0, 0]));
    same(&cast(x.clone(), DType::Bool, even, false), &ints(DType::Bool, &[4], &[1, 1, 1, 0]));
    same(&cast(x, DType::F8E4M3, even, true), &floats(DType::F8E4M3, &[4], &[2.5, -288.0, NAN, 0.0]));
    let big = ints(I64, &[2], &[(1 << 24) + 1, -1]);
    same(&cast(big.clone(), F32, even, false), &floats(F32, &[2], &[16_777_216.0, -1.0]));
    same(&cast(big.clone(), DType::U8, even, true), &ints(DType::U8, &[2], &[255, 0]));
    same(&cast(big, DType::U8, even, false), &ints(DType::U8, &[2], &[1, 255]));
}

#[test]
fn codes_are_reinterpreted_and_packed() {
    let x = floats(F32, &[2], &[1.0, -0.0]);
    let bits = prim(Prim::Bitcast { to: DType::I32, nan: NanBits::One }, &[x]);
    same(&bits, &ints(DType::I32, &[2], &[0x3f80_0000, i64::from(i32::MIN)]));
    let codes = [0x7fc0_0000u32, 0xffc0_0001, 0x7f80_0001, 0x3f80_0000];
    let x = Tensor::from_bytes(F32, &[4], &codes.map(u32::to_le_bytes).concat()).expect("four floats");
    let own = ints(DType::I32, &[4], &codes.map(|code| i64::from(code as i32)));
    let one = ints(DType::I32, &[4], &[0x7fc0_0000, 0x7fc0_0000, 0x7fc0_0000, 0x3f80_0000]);
    let read = |x: &Tensor, nan| prim(Prim::Bitcast { to: DType::I32, nan }, std::slice::from_ref(x));
    same(&read(&x, NanBits::Kept), &own);
    same(&read(&x, NanBits::One), &one);
    // An element that is moved is the one that it was, as bytes too; one that is computed is not.
    let moved = prim(Prim::Slice { axis: 0, start: 1.into(), end: 3.into(), step: 1 }, std::slice::from_ref(&x));
    assert_eq!(moved.to_bytes(), [codes[1], codes[2]].map(u32::to_le_bytes).concat());
    same(&read(&map1(ScalarFn::Abs, x), NanBits::Kept), &one);
    let nibbles = floats(DType::F4E2M1, &[1, 4], &[0.5, -6.0, 0.0, 1.0]);
    same(&prim(Prim::Pack { ways: 2, to: DType::U8 }, &[nibbles]), &ints(DType::U8, &[1, 2], &[0xf1, 0x20]));
    let scales = floats(DType::F8E8M0, &[4], &[1.0, 2.0, 0.5, 2f64.powi(-127)]);
    same(&prim(Prim::Pack { ways: 4, to: DType::I32 }, &[scales]), &ints(DType::I32, &[1], &[0x007e_807f]));
}

#[test]
fn sums_are_exact_until_the_end() {
    let x = floats(F32, &[2, 3], &[1e8, 1.0, -1e8, 0.1, 0.2, 0.3]);
    let got = reduce(ReduceOp::Add, &[1], NanRule::Propagate, x.clone());
    let exact: f64 = [0.1f32, 0.2, 0.3].map(f64::from).iter().sum();
    same(&got, &floats(F32, &[2, 1], &[1.0, exact]));
    let got = reduce(ReduceOp::Add, &[0, 1], NanRule::Propagate, x);
    same(&got, &floats(F32, &[1, 1], &[1.0 + exact]));
    let ones = floats(BF16, &[1000], &[1.0; 1000]);
    same(&reduce(ReduceOp::Add, &[0], NanRule::Propagate, ones), &floats(BF16, &[1], &[1000.0]));
    let codes = ints(DType::I8, &[3], &[100, 100, 1]);
    same(&reduce(ReduceOp::Add, &[0], NanRule::Propagate, codes), &ints(DType::I8, &[1], &[-55]));
}

#[test]
fn reductions_over_inner_axes_and_of_nothing() {
    let x = floats(F32, &[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let got = reduce(ReduceOp::Mul, &[0, 2], NanRule::Propagate, x.clone());
    same(&got, &floats(F32, &[1, 2, 1], &[60.0, 672.0]));
    same(&reduce(ReduceOp::Min, &[1], NanRule::Propagate, x), &floats(F32, &[2, 1, 2], &[1.0, 2.0, 5.0, 6.0]));
    let none = || floats(F32, &[2, 0], &[]);
    same(&reduce(ReduceOp::Add, &[1], NanRule::Propagate, none()), &floats(F32, &[2, 1], &[0.0, 0.0]));
    same(&reduce(ReduceOp::Mul, &[1], NanRule::Propagate, none()), &floats(F32, &[2, 1], &[1.0, 1.0]));
    same(&reduce(ReduceOp::Max, &[1], NanRule::Propagate, none()), &floats(F32, &[2, 1], &[-INF, -INF]));
    let codes = ints(DType::U8, &[0], &[]);
    same(&reduce(ReduceOp::Min, &[0], NanRule::Propagate, codes), &ints(DType::U8, &[1], &[255]));
}

#[test]
fn nan_rules_and_zeros_of_max() {
    let x = || floats(F32, &[3, 2], &[NAN, 1.0, -0.0, 0.0, NAN, NAN]);
    let got = reduce(ReduceOp::Max, &[1], NanRule::Propagate, x());
    same(&got, &floats(F32, &[3, 1], &[NAN, 0.0, NAN]));
    let got = reduce(ReduceOp::Min, &[1], NanRule::Ignore, x());
    same(&got, &floats(F32, &[3, 1], &[1.0, -0.0, INF]));
}

#[test]
fn indices_of_the_best() {
    let arg = |op, x| prim(Prim::ArgReduce { op, axis: 1 }, &[x]);
    let x = || floats(F32, &[3, 4], &[1.0, 5.0, 5.0, 2.0, -1.0, NAN, 9.0, NAN, 0.0, -0.0, 0.0, 0.0]);
    same(&arg(ReduceOp::Max, x()), &ints(I64, &[3, 1], &[1, 1, 0]));
    same(&arg(ReduceOp::Min, x()), &ints(I64, &[3, 1], &[0, 1, 0]));
    same(&arg(ReduceOp::Min, ints(DType::U64, &[1, 2], &[-1, 3])), &ints(I64, &[1, 1], &[1]));
    assert!(
        refusal(&[floats(F32, &[1, 0], &[])], |b, v| b.prim(Prim::ArgReduce { op: ReduceOp::Max, axis: 1 }, v))
            .contains("is empty")
    );
}

#[test]
fn the_largest_few() {
    let inputs = [floats(F32, &[2, 4], &[1.0, 3.0, 3.0, NAN, -1.0, -2.0, -3.0, -4.0])];
    let top = graph(&inputs, |b, v| b.op(crate::Op::Prim(Prim::TopK { k: Dim::constant(3) }), v));
    let outputs = run(&top, &inputs, &Symbols::new()).expect("four elements");
    same(&outputs[0], &floats(F32, &[2, 3], &[NAN, 3.0, 3.0, -1.0, -2.0, -3.0]));
    same(&outputs[1], &ints(I64, &[2, 3], &[3, 1, 2, 0, 1, 2]));
    let inputs = [ints(DType::I32, &[2], &[5, 5])];
    let top = graph(&inputs, |b, v| b.op(crate::Op::Prim(Prim::TopK { k: Dim::constant(3) }), v));
    let error = run(&top, &inputs, &Symbols::new()).expect_err("two elements").to_string();
    assert!(error.contains("3 elements are wanted of an axis of 2"), "{error}");
}

#[test]
fn layout_moves_elements() {
    let x = || ints(I64, &[2, 3], &[0, 1, 2, 3, 4, 5]);
    same(&prim(Prim::Permute { perm: vec![1, 0] }, &[x()]), &ints(I64, &[3, 2], &[0, 3, 1, 4, 2, 5]));
    same(&prim(Prim::Reshape { shape: dims(&[3, 2]) }, &[x()]), &ints(I64, &[3, 2], &[0, 1, 2, 3, 4, 5]));
    let cut = Prim::Slice { axis: 1, start: Dim::constant(0), end: Dim::constant(3), step: 2 };
    same(&prim(cut, &[x()]), &ints(I64, &[2, 2], &[0, 2, 3, 5]));
    let column = ints(I64, &[2, 1], &[8, 9]);
    same(&prim(Prim::Cat { axis: 1 }, &[x(), column.clone()]), &ints(I64, &[2, 4], &[0, 1, 2, 8, 3, 4, 5, 9]));
    let wide = Prim::Expand { shape: dims(&[2, 2, 3]) };
    same(&prim(wide, &[column]), &ints(I64, &[2, 2, 3], &[8, 8, 8, 9, 9, 9, 8, 8, 8, 9, 9, 9]));
    let count = Prim::Iota { dtype: F32, shape: dims(&[2, 2]), axis: 0 };
    same(&prim(count, &[]), &floats(F32, &[2, 2], &[0.0, 0.0, 1.0, 1.0]));
}

#[test]
fn three_axes_permute() {
    let x = ints(I64, &[2, 3, 2], &(0..12).collect::<Vec<_>>());
    let got = prim(Prim::Permute { perm: vec![2, 0, 1] }, &[x]);
    same(&got, &ints(I64, &[2, 2, 3], &[0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]));
}

#[test]
fn rows_are_gathered_and_scattered() {
    let x = || floats(F32, &[3, 2], &[0.0, 1.0, 10.0, 11.0, 20.0, 21.0]);
    let got = prim(Prim::Gather { axis: 0 }, &[x(), ints(DType::I32, &[2], &[2, 0])]);
    same(&got, &floats(F32, &[2, 2], &[20.0, 21.0, 0.0, 1.0]));
    let got = prim(Prim::Gather { axis: 1 }, &[x(), ints(I64, &[3], &[1, 1, 0])]);
    same(&got, &floats(F32, &[3, 3], &[1.0, 1.0, 0.0, 11.0, 11.0, 10.0, 21.0, 21.0, 20.0]));
    let updates = || floats(F32, &[3, 2], &[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
    let got = prim(Prim::Scatter { axis: 0 }, &[x(), ints(I64, &[3], &[2, -1, 2]), updates()]);
    same(&got, &floats(F32, &[3, 2], &[0.0, 1.0, 10.0, 11.0, -5.0, -6.0]));
    let outside = || ints(I64, &[3], &[3, i64::MIN, 1]);
    same(
        &prim(Prim::Gather { axis: 0 }, &[x(), outside()]),
        &floats(F32, &[3, 2], &[20.0, 21.0, 0.0, 1.0, 10.0, 11.0]),
    );
    let got = prim(Prim::Scatter { axis: 0 }, &[x(), outside(), updates()]);
    same(&got, &floats(F32, &[3, 2], &[0.0, 1.0, -5.0, -6.0, 20.0, 21.0]));
    let got = prim(Prim::ScatterReduce { op: ReduceOp::Add, axis: 0 }, &[x(), outside(), updates()]);
    same(&got, &floats(F32, &[3, 2], &[0.0, 1.0, 5.0, 5.0, 20.0, 21.0]));
    let nothing = || floats(F32, &[0, 2], &[]);
    let error = refusal(&[nothing(), ints(I64, &[1], &[3])], |b, v| b.prim(Prim::Gather { axis: 0 }, v));
    assert!(error.contains("index 3..=3 on an axis without places"), "{error}");
    same(&prim(Prim::Gather { axis: 0 }, &[nothing(), ints(I64, &[0], &[])]), &nothing());
}

#[test]
fn products_of_matrices() {
    let a = floats(BF16, &[1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let b = floats(BF16, &[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    let times = |transpose_b, out| Prim::MatMul { transpose_b, out };
    same(&prim(times(false, F32), &[a.clone(), b]), &floats(F32, &[1, 2, 2], &[4.0, 5.0, 10.0, 11.0]));
    let rows = floats(BF16, &[1, 1, 3], &[256.0, 1.0, -0.25]);
    same(&prim(times(true, BF16), &[a, rows]), &floats(BF16, &[1, 2, 1], &[257.25, 1028.0]));
    let (codes, ones) = (ints(DType::I8, &[1, 2], &[100, 100]), ints(DType::I8, &[1, 2], &[127, 127]));
    same(&prim(times(true, DType::I32), &[codes, ones]), &ints(DType::I32, &[1, 1], &[25400]));
    let nothing = prim(times(false, F32), &[floats(F32, &[2, 0], &[]), floats(F32, &[0, 1], &[])]);
    same(&nothing, &floats(F32, &[2, 1], &[0.0, 0.0]));
}

#[test]
fn rows_meet_the_matrix_of_their_group() {
    let x = floats(BF16, &[5, 2], &[0.0, 1.0, 1.0, 1.0, 2.0, 1.0, 3.0, 1.0, 4.0, 1.0]);
    let w = floats(BF16, &[3, 2, 1], &[1.0, 0.0, 10.0, 0.5, 2.0, 100.0]);
    // Groups of two rows, none, and two; the fifth row is in none.
    let got = prim(Prim::GroupedMatMul { out: F32 }, &[x, w, ints(DType::I32, &[3], &[2, 1, 4])]);
    same(&got, &floats(F32, &[5, 1], &[0.0, 1.0, 104.0, 106.0, 0.0]));
}

#[test]
fn attention_by_hand() {
    let attrs = |causal| Prim::Sdpa(Sdpa { causal, wide: false, scale_bits: 2f64.ln().to_bits() });
    // Two query heads share one key head; scores are ln 2 · q·k, so weights are powers of two.
    let q = floats(F32, &[1, 2, 2, 1], &[0.0, 1.0, 2.0, -1.0]);
    let k = floats(F32, &[1, 1, 2, 1], &[0.0, 1.0]);
    let v = floats(F32, &[1, 1, 2, 1], &[3.0, 9.0]);
    let got = prim(attrs(false), &[q.clone(), k.clone(), v.clone()]);
    same(&got, &floats(F32, &[1, 2, 2, 1], &[6.0, 7.0, 7.8, 5.0]));
    let got = prim(attrs(true), &[q, k, v]);
    same(&got, &floats(F32, &[1, 2, 2, 1], &[3.0, 7.0, 3.0, 5.0]));
}

#[test]
fn attention_under_masks_by_hand() {
    let sdpa = |operands: &[Tensor]| {
        prim(Prim::Sdpa(Sdpa { causal: false, wide: false, scale_bits: 2f64.ln().to_bits() }), operands)
    };
    let q = floats(F32, &[1, 2, 2, 1], &[0.0, 1.0, 2.0, -1.0]);
    let k = floats(F32, &[1, 1, 2, 1], &[0.0, 1.0]);
    let v = floats(F32, &[1, 1, 2, 1], &[3.0, 9.0]);
    // One mask for both heads; the second query sees no key.
    let seen = ints(DType::Bool, &[2, 2], &[0, 1, 0, 0]);
    let got = sdpa(&[q.clone(), k.clone(), v.clone(), seen]);
    same(&got, &floats(F32, &[1, 2, 2, 1], &[9.0, 0.0, 9.0, 0.0]));
    // One number per head, added to the scores of its first key: weights 2^(1 - 0) to 1, and 2^(1 - 2) to 1.
    let ln2 = f64::from(std::f32::consts::LN_2);
    let added = floats(F32, &[2, 1, 2], &[ln2, 0.0, -f64::INFINITY, 0.0]);
    let got = sdpa(&[q, k, v, added]);
    let want = floats(F32, &[1, 2, 2, 1], &[5.0, 6.0, 9.0, 9.0]);
    assert!(got.compare(&want).expect("one type").max_abs < 1e-6, "{got:?}");
}

#[test]
fn nvfp4_codes_by_hand() {
    let mut row = vec![0.0; 32];
    // The block's scale is 448 · 6/6 / 448 = 1, so values are their own codes; ties go to the even code.
    row[..8].copy_from_slice(&[6.0, -6.0, 0.25, 0.75, -5.0, 2.5, NAN, -0.0]);
    let quantize = Composite::new(QuantizeNvfp4);
    let inputs = [floats(F32, &[1, 32], &row), floats(F32, &[], &[1.0])];
    let g = graph(&inputs, |b, v| b.composite(quantize, v));
    let outputs = run(&g, &inputs, &Symbols::new()).expect("has a value");
    let codes = [0xf7, 0x20, 0x4e, 0x87].into_iter().chain([0; 12]).collect::<Vec<_>>();
    same(&outputs[0], &ints(DType::U8, &[1, 16], &codes));
    same(&outputs[1], &floats(DType::F8E4M3, &[1, 2], &[1.0, 0.0]));
}

#[test]
fn sizes_come_from_the_binding() {
    let b = Builder::new("sizes");
    let s = b.symbol("s", 0, None);
    b.input("x", TensorType::new(F32, [s.clone()]));
    b.output(b.prim(Prim::SizeOf(Dim::function(DimFn::FloorDiv, &s, &Dim::constant(2))), &[]).expect("no operand"));
    b.output(b.prim(Prim::Literal(Literal::Int(DType::U8, 9)), &[]).expect("no operand"));
    let outputs = run(&b.finish(), &[floats(F32, &[5], &[0.0; 5])], &Symbols::new()).expect("bound");
    same(&outputs[0], &ints(I64, &[], &[2]));
    same(&outputs[1], &ints(DType::U8, &[], &[9]));
}

#[test]
fn composites_are_their_expansion() {
    let x = floats(BF16, &[1, 2], &[3.0, 4.0]);
    let w = floats(BF16, &[2], &[1.0, 3.0]);
    let norm = |round| Composite::new(RmsNorm::new(0.0, round));
    let rms = 1.0 / 12.5f64.sqrt();
    for (round, wide) in [(RmsRounding::Once, true), (RmsRounding::BeforeWeight, false)] {
        let got = eval(&[x.clone(), w.clone()], |b, v| Ok(b.composite(norm(round), v)?[0]));
        let normal = |x: f64| f64::from((x * f64::from(rms as f32)) as f32);
        let once = [normal(3.0), f64::from((normal(4.0) * 3.0) as f32)];
        let rounded = floats(BF16, &[2], &[normal(3.0), normal(4.0)]);
        let early = rounded.floats().map_or(vec![], |v| vec![v[0], v[1] * 3.0]);
        same(&got, &floats(BF16, &[1, 2], if wide { &once } else { &early }));
    }
}

#[test]
fn a_zero_row_quantises_to_zero() {
    let x = floats(BF16, &[2, 4], &[0.0, -0.0, 0.0, 0.0, 448.0, -17.0, 19.0, NAN]);
    let quantize = Composite::new(QuantizeDynamic {
        floor: f64::from(1e-10f32),
        floor_of: Floor::Scale,
        ..QuantizeDynamic::default()
    });
    let inputs = [x];
    let g = graph(&inputs, |b, v| b.composite(quantize, v));
    let outputs = run(&g, &inputs, &Symbols::new()).expect("has a value");
    let codes = outputs[0].floats().map(|v| v[..4].to_vec());
    assert_eq!(codes.map(|v| v.iter().map(|x| x.to_bits()).collect()), Some(vec![0, 1 << 63, 0, 0]));
    same(&outputs[1], &floats(F32, &[2, 1], &[f64::from(1e-10f32), NAN]));
}
