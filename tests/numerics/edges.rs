//! Edge cases: rows of zeros, NaN, infinities, −0, ties, subnormal values, no rows.

use std::slice::from_ref;

use fusewright::graph::{DType, Tensor, num};

use crate::oracle::{bf16, e4m3};
use crate::ways::{coded, exact, floats, ints, near};

rows! {
    "edge.zero_row_fp8" => zero_row_fp8;
    "edge.zero_row_int8" => zero_row_int8;
    "edge.constant_row" => constant_row;
    "edge.zero_block" => zero_block;
    "edge.nan_absmax" => nan_absmax;
    "edge.nan_clamp" => nan_clamp;
    "edge.nan_int8" => nan_int8;
    "edge.beyond_integers" => beyond_integers;
    "edge.nan_e2m1" => nan_e2m1;
    "edge.nan_bits" => nan_bits;
    "edge.nan_moved" => nan_moved;
    "edge.inf_fp8" => inf_fp8;
    "edge.minus_zero" => minus_zero;
    "edge.ties" => ties;
    "edge.subnormal" => subnormal;
    "edge.silu_negative" => silu_negative;
    "edge.silu_inf" => silu_inf;
    "edge.inf_norm" => inf_norm;
    "edge.ragged_group" => ragged_group;
    "edge.outside" => outside;
    "edge.shift_count" => shift_count;
    "edge.nan_compared" => nan_compared;
    "edge.no_rows" => no_rows;
    "edge.code_distance" => code_distance;
}

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;
const MINS: f32 = (1.0f64 / (448.0 * 512.0)) as f32;

fn row_of(lanes: usize, params: &str, body: &str) -> String {
    format!("graph @edge(s: 0..; %x: f32[s, {lanes}]{params}) {{\n{body}\n}}")
}

fn row(values: &[f32]) -> Tensor {
    floats(DType::F32, &[1, values.len()], values)
}

fn dynamic(attrs: &str) -> String {
    format!("%q, %k = quantize_dynamic %x {{{attrs}}}\nreturn %q, %k")
}

/// Codes and the scale of one row.
fn quantised(dtype: DType, codes: &[u64], scale: f32) -> Vec<Tensor> {
    vec![coded(dtype, &[1, codes.len()], codes), floats(DType::F32, &[1, 1], &[scale])]
}

fn zero_row_fp8() {
    let x = [0.0, -0.0, 0.0, 0.0, -0.0];
    let codes = [0, 0x80, 0, 0, 0x80];
    for apply in ["divide", "reciprocal"] {
        let token = format!("bound = 448.0, floor = 4.359654e-6, floor_of = scale, apply = {apply}");
        exact(&row_of(5, "", &dynamic(&token.replace(", apply = divide", ""))), &[row(&x)], |_| {
            quantised(DType::F8E4M3, &codes, MINS)
        });
    }
    let group = "bound = 448.0, floor = 1e-10, floor_of = absmax, apply = reciprocal, nan = low";
    exact(&row_of(5, "", &dynamic(group)), &[row(&x)], |_| quantised(DType::F8E4M3, &codes, 1e-10 / 448.0));
}

fn zero_row_int8() {
    let x = [0.0, -0.0, 0.0];
    for (attrs, scale) in [
        ("codes = i8, bound = 127.0, apply = factor, nan = skip", 0.0),
        (
            "codes = i8, bound = 127.0, floor = 1.1920929e-7, floor_of = scale, apply = reciprocal, nan = skip",
            f32::EPSILON,
        ),
        // Ascend's factor is 127/0; its reciprocal is the scale, and the codes are chosen to be 0.
        ("codes = i8, bound = 127.0, scale = inverse, apply = factor, nan = skip", 0.0),
    ] {
        exact(&row_of(3, "", &dynamic(attrs)), &[row(&x)], |_| quantised(DType::I8, &[0, 0, 0], scale));
    }
}

/// The range is 0, so a scale takes a floor; without one the quotient is NaN, which is 0 as an integer.
fn constant_row() {
    let body = |floor: &str| {
        format!(
            "%max = reduce %x {{op = max, axes = [1]}}
             %min = reduce %x {{op = min, axes = [1]}}
             %range = sub %max, %min
             %n = literal f32 255
             %k0 = div %range, %n
             %f = literal f32 {floor}
             %k = max %k0, %f
             %shift = div %min, %k
             %low = literal f32 -128
             %z0 = sub %low, %shift
             %zr = round %z0
             %z = cast %zr {{to = i32, saturate}}
             %q = quantize_affine %x, %k, %z {{apply = reciprocal, offset = after_rounding, bound = 127.0}}
             return %q, %k, %z"
        )
    };
    let column = |scale: f32, point: i64| [floats(DType::F32, &[1, 1], &[scale]), ints(DType::I32, &[1, 1], &[point])];
    let x = [0.25f32; 4];
    exact(&row_of(4, "", &body("1.1920929e-7")), &[row(&x)], |_| {
        let scale = f32::EPSILON;
        let point = i64::from((-128.0 - 0.25 / scale).round_ties_even() as i32);
        let code = (i64::from((0.25 * (1.0 / scale)).round_ties_even() as i32) + point).clamp(-128, 127);
        let [k, z] = column(scale, point);
        vec![ints(DType::I8, &[1, 4], &[code; 4]), k, z]
    });
    exact(&row_of(4, "", &body("0")), &[row(&[0.0; 4])], |_| {
        // 0/0 is NaN, and NaN is 0 as an integer.
        let [k, z] = column(0.0, 0);
        vec![ints(DType::I8, &[1, 4], &[0; 4]), k, z]
    });
    let asymmetric = "%q, %k, %z = quantize_asymmetric %x\n return %q, %k, %z";
    for (constant, point, code) in [(0.0, 0, 0), (3.0, i32::MIN, -1), (-3.0, i32::MAX, -1)] {
        exact(&row_of(4, "", asymmetric), &[row(&[constant; 4])], |_| {
            let [k, z] = column(0.0, point.into());
            vec![ints(DType::I8, &[1, 4], &[code; 4]), k, z]
        });
    }
}

fn zero_block() {
    let text = "graph @edge(s: 0..; %x: f32[s, 32], %k: f32[]) {\n%q, %b = quantize_nvfp4 %x, %k\nreturn %q, %b\n}";
    let mut x = [0.0; 32];
    x[16..].fill(3.0);
    exact(text, &[row(&x), floats(DType::F32, &[], &[1.0])], |_| {
        // Of a block of 3s the scale is 0.5, and 3/0.5 is the largest code.
        let packed: Vec<u64> = (0..16).map(|i| if i < 8 { 0 } else { 0x77 }).collect();
        vec![coded(DType::U8, &[1, 16], &packed), coded(DType::F8E4M3, &[1, 2], &[0, e4m3(0.5)])]
    });
}

fn nan_absmax() {
    let x = [1.0, NAN, -448.0, 2.0];
    let token = "bound = 448.0, floor = 4.359654e-6, floor_of = scale";
    exact(&row_of(4, "", &dynamic(token)), &[row(&x)], |_| quantised(DType::F8E4M3, &[0x7f; 4], NAN));
    let codes = [e4m3(1.0), 0x7e, 0xfe, e4m3(2.0)];
    exact(&row_of(4, "", &dynamic(&format!("{token}, nan = high"))), &[row(&x)], |_| {
        quantised(DType::F8E4M3, &codes, 1.0)
    });
    for (rule, want) in [("", NAN), (", nan = ignore", 2.0)] {
        let text = row_of(4, "", &format!("%y = reduce %x {{op = max, axes = [1]{rule}}}\nreturn %y"));
        exact(&text, &[row(&x)], |_| vec![floats(DType::F32, &[1, 1], &[want])]);
    }
}

fn nan_clamp() {
    for (nan, code) in [("", 0x7f), (", nan = high", 0x7e), (", nan = low", 0xfe)] {
        let op = format!("%q = quantize_static %x, %k {{codes = f8e4m3, apply = reciprocal, bound = 448.0{nan}}}");
        let text = row_of(3, ", %k: f32[]", &format!("{op}\nreturn %q"));
        exact(&text, &[row(&[NAN, -NAN, 1.0]), floats(DType::F32, &[], &[1.0])], |_| {
            vec![coded(DType::F8E4M3, &[1, 3], &[code, code, 0x38])]
        });
    }
}

fn nan_int8() {
    for saturate in ["", ", saturate"] {
        for round in ["rne", "trunc"] {
            let text = row_of(3, "", &format!("%y = cast %x {{to = i8, round = {round}{saturate}}}\nreturn %y"));
            exact(&text, &[row(&[NAN, -NAN, -7.0])], |_| vec![ints(DType::I8, &[1, 3], &[0, 0, -7])]);
        }
    }
    let text =
        row_of(2, ", %k: f32[]", "%q = quantize_static %x, %k {codes = i8, apply = divide, bound = 127.0}\nreturn %q");
    exact(&text, &[row(&[NAN, 5.0]), floats(DType::F32, &[], &[1.0])], |_| vec![ints(DType::I8, &[1, 2], &[0, 5])]);
}

/// Gives a float as an integer of so many bits: its whole part modulo 2^bits, or 0 if it has none.
fn wrapped(x: f64, bits: u32, signed: bool) -> i64 {
    // Beyond this, the lowest 64 bits of the whole part are zeros.
    let whole = if x.abs() < 2f64.powi(118) { x.trunc() as i128 } else { 0 };
    let rest = whole.rem_euclid(1 << bits);
    let negative = signed && rest >= 1 << (bits - 1);
    (if negative { rest - (1 << bits) } else { rest }) as i64
}

fn beyond_integers() {
    let near = [300.0, -129.0, 128.0, 255.5, 256.0, -32769.0, 65536.5, 1e6, 2147483648.0, -4294967296.0];
    let far = [1e10, -1e10, 9.3e18, 1.9e19, -3e38, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0, 0.5, -1.0];
    let integers = [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64];
    let casts: String = integers.map(|to| format!("%{to} = cast %x {{to = {to}, round = trunc}}\n")).concat();
    let results = integers.map(|to| format!("%{to}")).join(", ");
    for from in [DType::F32, DType::BF16, DType::F16, DType::F8E5M2] {
        let given: Vec<u64> = near.iter().chain(&far).map(|&x| num::encode(from, x)).collect();
        // Vectors and what is left of them, and rows that are less than a vector.
        for lanes in [1, 7, 67] {
            let codes: Vec<u64> = given.iter().cycle().take(lanes * given.len()).copied().collect();
            let text = format!("graph @edge(s: 0..; %x: {from}[s, {lanes}]) {{\n{casts}return {results}\n}}");
            let shape = [given.len(), lanes];
            let whole = |to: DType| {
                let of = |&code: &u64| wrapped(num::decode(from, code), to.bits(), to.is_signed_int());
                ints(to, &shape, &codes.iter().map(of).collect::<Vec<i64>>())
            };
            exact(&text, &[coded(from, &shape, &codes)], |_| integers.map(whole).to_vec());
        }
    }
}

fn nan_e2m1() {
    let text = row_of(4, "", "%y = cast %x {to = f4e2m1, saturate}\nreturn %y");
    exact(&text, &[row(&[NAN, -NAN, INF, -INF])], |_| vec![coded(DType::F4E2M1, &[1, 4], &[7, 7, 7, 15])]);
}

/// A float dtype, the integers of its bits, and its NaNs: the canonical one, then others of both signs.
const NANS: [(DType, DType, [u64; 4]); 6] = [
    (DType::F64, DType::I64, [0x7ff8 << 48, 0xfff8 << 48, 0x7ff0_0000_0000_0001, u64::MAX]),
    (DType::F32, DType::I32, [0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0xffff_ffff]),
    (DType::BF16, DType::I16, [0x7fc0, 0xffc0, 0x7f81, 0xffff]),
    (DType::F16, DType::U16, [0x7e00, 0xfe00, 0x7c01, 0xffff]),
    (DType::F8E5M2, DType::U8, [0x7f, 0xff, 0x7d, 0xfe]),
    (DType::F8E4M3, DType::U8, [0x7f, 0xff, 0x7f, 0xff]),
];

/// A graph of a row of four.
fn of_four(dtype: DType, params: &str, body: &str) -> String {
    format!("graph @edge(s: 0..; %x: {dtype}[s, 4]{params}) {{\n{body}\n}}")
}

fn nan_bits() {
    for (dtype, word, nans) in NANS {
        let x = coded(dtype, &[1, 4], &nans);
        let wide = if dtype == DType::F64 { "f64" } else { "f32" };
        let lanes = [
            "%y = abs %x".to_owned(),
            "%y = neg %x".to_owned(),
            "%y = add %x, %x".to_owned(),
            "%y = max %x, %x\n%z = neg %y".to_owned(),
            format!("%w = cast %x {{to = {wide}}}\n%a = abs %w\n%y = cast %a {{to = {dtype}}}"),
            // Moved and not computed, yet nothing says that the bits are kept.
            "%y = reshape %x {shape = [s, 4]}".to_owned(),
        ];
        for op in lanes {
            let text = of_four(dtype, "", &format!("{op}\n%b = bitcast %y {{to = {word}}}\nreturn %b"));
            exact(&text, from_ref(&x), |_| vec![coded(word, &[1, 4], &[nans[0]; 4])]);
        }
        // The NaN may come out of one kernel and be read by another.
        for op in ["%a = abs %x\n%y = reduce %a {op = max, axes = [1]}", "%y = reduce %x {op = add, axes = [1]}"] {
            let text = of_four(dtype, "", &format!("{op}\n%b = bitcast %y {{to = {word}}}\nreturn %b"));
            exact(&text, from_ref(&x), |_| vec![coded(word, &[1, 1], &nans[..1])]);
        }
    }
    // An exponent made of bits.
    let body = "%a = abs %x
         %m = reduce %a {op = max, axes = [1]}
         %b = bitcast %m {to = i32}
         %k = literal i32 2097152
         %c = add %b, %k
         %n = literal i32 23
         %e = shr %c, %n
         return %e";
    let rows = [[1.0, NAN, -2.0, 0.0], [0.0; 4], [-0.0; 4], [3.0, -7.0, INF, 1.0]];
    exact(&row_of(4, "", body), &[floats(DType::F32, &[4, 4], &rows.concat())], |_| {
        vec![ints(DType::I32, &[4, 1], &[255, 0, 0, 255])]
    });
    // Half a float as another: of the bits that are kept a value is made.
    let text = of_four(DType::F16, "", "%y = neg %x\n%b = bitcast %y {to = bf16}\nreturn %b");
    exact(&text, &[coded(DType::F16, &[1, 4], &NANS[3].2)], |_| vec![coded(DType::BF16, &[1, 4], &[0x7e00; 4])]);
}

fn nan_moved() {
    for (dtype, word, nans) in NANS {
        let x = coded(dtype, &[1, 4], &nans);
        let read = format!("%b = bitcast %y {{to = {word}, nan = kept}}\nreturn %b");
        let swapped = "%l = slice %x {axis = 1, start = 0, end = 2}
             %h = slice %x {axis = 1, start = 2, end = 4}
             %y = cat %h, %l {axis = 1}";
        let of_bits = format!("%i = bitcast %x {{to = {word}, nan = kept}}\n%y = bitcast %i {{to = {dtype}}}");
        for (op, order) in
            [("%y = reshape %x {shape = [s, 4]}", [0, 1, 2, 3]), (swapped, [2, 3, 0, 1]), (&of_bits, [0, 1, 2, 3])]
        {
            let want = order.map(|i| nans[i]);
            exact(&of_four(dtype, "", &format!("{op}\n{read}")), from_ref(&x), |_| vec![coded(word, &[1, 4], &want)]);
        }
        let chosen = of_four(dtype, ", %c: bool[s, 4], %z: {}[s, 4]", &format!("%y = select %c, %x, %z\n{read}"));
        let chosen = chosen.replace("{}", &dtype.to_string());
        let turned = [nans[3], nans[2], nans[1], nans[0]];
        let given = [x.clone(), ints(DType::Bool, &[1, 4], &[1, 0, 0, 1]), coded(dtype, &[1, 4], &turned)];
        exact(&chosen, &given, |_| vec![coded(word, &[1, 4], &[nans[0], nans[2], nans[1], nans[3]])]);
        // Of joined lanes one that a kernel computes with others.
        let one = "%n = select %c, %x, %z\n%y = slice %n {axis = 1, start = 3, end = 4}";
        let text = of_four(dtype, ", %c: bool[s, 4], %z: {}[s, 4]", &format!("{one}\n{read}"));
        let text = text.replace("{}", &dtype.to_string());
        exact(&text, &given, |_| vec![coded(word, &[1, 1], &nans[3..])]);
        let rows = format!(
            "graph @edge(s: 0..; %x: {dtype}[s, 4], %i: i64[2]) {{\n%y = gather %x, %i {{axis = 0}}\n{read}\n}}"
        );
        exact(&rows, &[x, ints(DType::I64, &[2], &[0, 0])], |_| vec![coded(word, &[2, 4], &[nans, nans].concat())]);
    }
}

fn inf_fp8() {
    let x = [464.0, 464.1, 479.0, 480.0, 1e30, INF, -INF, -500.0];
    let cast = |to: &str| row_of(8, "", &format!("%y = cast %x {{to = {to}}}\nreturn %y"));
    exact(&cast("f8e4m3, saturate"), &[row(&x)], |_| {
        vec![coded(DType::F8E4M3, &[1, 8], &[0x7e, 0x7e, 0x7e, 0x7e, 0x7e, 0x7e, 0xfe, 0xfe])]
    });
    // Without saturation the middle to what would be next goes to the even code, and all beyond is NaN.
    exact(&cast("f8e4m3"), &[row(&x)], |_| {
        vec![coded(DType::F8E4M3, &[1, 8], &[0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f])]
    });
    let wide = [57344.0, 61439.0, 61440.0, 1e30, INF, -INF, -61440.0, NAN];
    exact(&cast("f8e5m2"), &[row(&wide)], |_| {
        vec![coded(DType::F8E5M2, &[1, 8], &[0x7b, 0x7b, 0x7c, 0x7c, 0x7c, 0xfc, 0xfc, 0x7f])]
    });
    exact(&cast("f8e5m2, saturate"), &[row(&wide)], |_| {
        vec![coded(DType::F8E5M2, &[1, 8], &[0x7b, 0x7b, 0x7b, 0x7b, 0x7b, 0xfb, 0xfb, 0x7f])]
    });
}

fn minus_zero() {
    let text = row_of(
        2,
        "",
        "%a = cast %x {to = f8e4m3, saturate}
         %b = cast %x {to = i8, saturate}
         %c = cast %x {to = f4e2m1, saturate}
         %d = abs %x
         %e = cast %x {to = bf16}
         return %a, %b, %c, %d, %e",
    );
    exact(&text, &[row(&[-0.0, 0.0])], |_| {
        vec![
            coded(DType::F8E4M3, &[1, 2], &[0x80, 0]),
            ints(DType::I8, &[1, 2], &[0, 0]),
            coded(DType::F4E2M1, &[1, 2], &[8, 0]),
            row(&[0.0, 0.0]),
            coded(DType::BF16, &[1, 2], &[0x8000, 0]),
        ]
    });
}

fn ties() {
    let least = 2f32.powi(-10);
    let x = [1.0625, 1.1875, 17.0, 19.0, least, least * 1.0001, 3.0 * least, -17.0];
    let text = row_of(8, "", "%y = cast %x {to = f8e4m3, saturate}\nreturn %y");
    exact(&text, &[row(&x)], |_| vec![coded(DType::F8E4M3, &[1, 8], &[0x38, 0x3a, 0x58, 0x5a, 0, 1, 2, 0xd8])]);
    let text = row_of(6, "", "%a = cast %x {to = i8, saturate}\n%r = round %x\nreturn %a, %r");
    exact(&text, &[row(&[0.5, 1.5, 2.5, -0.5, -1.5, 126.5])], |_| {
        vec![ints(DType::I8, &[1, 6], &[0, 2, 2, 0, -2, 126]), row(&[0.0, 2.0, 2.0, -0.0, -2.0, 126.0])]
    });
}

/// Nothing flushes subnormal values, but where a definition says so.
fn subnormal() {
    let x = [1e-45f32, -3e-42, 1.1754942e-38, 2e-38];
    let text = row_of(
        4,
        "",
        "%half = literal f32 0.5
         %a = mul %x, %half
         %big = literal f32 1e30
         %b = mul %x, %big
         %one = literal f32 1
         %c = div %one, %x
         %d = cast %x {to = bf16}
         %e = cast %d {to = f32}
         return %a, %b, %c, %e",
    );
    exact(&text, &[row(&x)], |_| {
        vec![row(&x.map(|x| x * 0.5)), row(&x.map(|x| x * 1e30)), row(&x.map(|x| 1.0 / x)), row(&x.map(bf16))]
    });
    // The reciprocals of NVFP4 flush: a subnormal scale has the reciprocal 1/0, so that stored scales are 0.
    let text = "graph @edge(s: 0..; %x: f32[s, 16], %k: f32[]) {\n%q, %b = quantize_nvfp4 %x, %k\nreturn %q, %b\n}";
    let given = [row(&[1.0; 16]), floats(DType::F32, &[], &[1e-40])];
    exact(text, &given, |_| vec![coded(DType::U8, &[1, 8], &[0; 8]), coded(DType::F8E4M3, &[1, 1], &[0])]);
}

const SILU: &str = "%y = silu %x {form = quotient}\nreturn %y";

/// `e^−g` overflows below −88.73, and the quotient is −0.
fn silu_negative() {
    let x = [-88.8, -90.0, -1000.0, -3.4e38];
    near(&row_of(4, "", SILU), &[row(&x)], |_| vec![row(&[-0.0; 4])]);
    let text = row_of(4, "", "%a = silu %x {form = quotient}\n%y = cast %a {to = f8e4m3, saturate}\nreturn %y");
    exact(&text, &[row(&[-30.0, -87.0, -89.0, -200.0])], |_| vec![coded(DType::F8E4M3, &[1, 4], &[0x80; 4])]);
}

fn silu_inf() {
    near(&row_of(4, "", SILU), &[row(&[-INF, INF, NAN, 0.0])], |_| vec![row(&[NAN, INF, NAN, 0.0])]);
    near(&row_of(1, "", SILU), &[row(&[-0.0])], |_| vec![row(&[-0.0])]);
}

/// The mean is infinite, its root's reciprocal 0: the infinity becomes NaN and all else a zero of its sign.
fn inf_norm() {
    let x = [1.0, INF, -2.0, 0.0, -0.0];
    let want = [0.0, NAN, -0.0, 0.0, -0.0];
    for op in ["rms_norm %x {eps = 1e-6, round = once}", "rms_norm %x {eps = 1e-6, round = once, root = inverse}"] {
        exact(&row_of(5, "", &format!("%y = {op}\nreturn %y")), &[row(&x)], |_| vec![row(&want)]);
    }
    // The mean of a layer norm is infinite too, and nothing is left of the row.
    exact(&row_of(5, "", "%y = layer_norm %x {eps = 1e-5}\nreturn %y"), &[row(&x)], |_| vec![row(&[NAN; 5])]);
    let nan = [1.0, NAN, 2.0];
    exact(&row_of(3, "", "%y = rms_norm %x {eps = 1e-6, round = once}\nreturn %y"), &[row(&nan)], |_| {
        vec![row(&[NAN; 3])]
    });
    exact(&row_of(3, "", "%y = layer_norm %x {eps = 1e-5}\nreturn %y"), &[row(&nan)], |_| vec![row(&[NAN; 3])]);
    // A row of zeros: the root of eps alone.
    let zeros = [0.0, -0.0, 0.0];
    exact(&row_of(3, "", "%y = rms_norm %x {eps = 1e-6, round = once}\nreturn %y"), &[row(&zeros)], |_| {
        vec![row(&zeros)]
    });
}

/// The last group has the lanes that are there, padded with zeros that are no result.
fn ragged_group() {
    let body = "%zero = literal f32 0
        %pad = expand %zero {shape = [s, 3]}
        %wide = cat %x, %pad {axis = 1}
        %g = reshape %wide {shape = [s, 2, 4]}
        %m = abs %g
        %y0 = reduce %m {op = max, axes = [2]}
        %y = reshape %y0 {shape = [s, 2]}
        return %y";
    exact(&row_of(5, "", body), &[row(&[1.0, -2.0, 3.0, -4.0, -5.0])], |_| vec![row(&[4.0, 5.0])]);
}

fn outside() {
    let table: Vec<f32> = (1..=12u8).map(f32::from).collect();
    let x = floats(DType::F32, &[3, 4], &table);
    let (first, second, last) = (&table[..4], &table[4..8], &table[8..]);
    let (far, one) = (ints(DType::I64, &[3], &[3, i64::MIN, 1]), ints(DType::I32, &[1], &[-1]));
    let graph = |inputs: &str, body: &str| format!("graph @edge({inputs}) {{\n{body}\nreturn %y\n}}");
    let negated = |rows: &[&[f32]]| rows.concat().iter().map(|v| -v).collect::<Vec<_>>();
    let read = "%g = gather %x, %i {axis = 0}\n%y = neg %g";
    let text = graph("s: 0..; %x: f32[s, 4], %i: i64[3]", read);
    exact(&text, &[x.clone(), far.clone()], |_| vec![floats(DType::F32, &[3, 4], &negated(&[last, first, second]))]);
    let text = graph("s: 0..; %x: f32[s, 4], %i: i32[1]", read);
    exact(&text, &[x.clone(), one.clone()], |_| vec![floats(DType::F32, &[1, 4], &negated(&[first]))]);
    // Unsigned indices are never ahead of an axis.
    let unsigned = "%j = bitcast %i {to = u64}\n%g = gather %x, %j {axis = 0}\n%y = neg %g";
    let text = graph("s: 0..; %x: f32[s, 4], %i: i64[3]", unsigned);
    exact(&text, &[x.clone(), far.clone()], |_| vec![floats(DType::F32, &[3, 4], &negated(&[last, last, second]))]);
    let write = "%n = neg %v\n%y = scatter %x, %i, %n {axis = 0}";
    let text = graph("s: 0..; %x: f32[s, 4], %i: i64[3], %v: f32[3, 4]", write);
    let written = [first, &negated(&[last]), last].concat();
    exact(&text, &[x.clone(), far, x.clone()], |_| vec![floats(DType::F32, &[3, 4], &written)]);
    let text = graph("s: 0..; %x: f32[s, 4], %i: i32[1], %v: f32[1, 4]", write);
    exact(&text, &[x.clone(), one, floats(DType::F32, &[1, 4], first)], |_| vec![x.clone()]);
}

fn shift_count() {
    for dtype in [DType::I64, DType::U64, DType::I32, DType::U32, DType::I16, DType::U8] {
        let width = i64::from(dtype.bits());
        // Counts of 64 bits whose lower half is a small one.
        let wide = [1 << 32, (1 << 32) + 3, i64::MIN, i64::MIN + 1];
        let wide = if width == 64 { wide } else { [width + 1, width + 2, width + 8, 127] };
        let mut counts = vec![0, 1, 3, width - 1, width];
        counts.extend(wide.into_iter().filter(|n| dtype.is_signed_int() || *n >= 0));
        let x = if dtype.is_signed_int() { -77 } else { 77 };
        let left = |n: i64| if (0..width).contains(&n) { num::wrap_int(dtype, x << n) } else { 0 };
        let right = |n: i64| x >> n.clamp(0, 63);
        let lanes = counts.len();
        let shape = [1, lanes];
        let text = format!(
            "graph @edge(s: 0..; %x: {dtype}[s, {lanes}], %n: {dtype}[s, {lanes}]) {{
               %l = shl %x, %n
               %r = shr %x, %n
               return %l, %r
             }}"
        );
        exact(&text, &[ints(dtype, &shape, &vec![x; lanes]), ints(dtype, &shape, &counts)], |_| {
            let of = |f: &dyn Fn(i64) -> i64| ints(dtype, &shape, &counts.iter().map(|n| f(*n)).collect::<Vec<_>>());
            vec![of(&left), of(&right)]
        });
    }
}

/// Magnitudes with numbers below zero: of all numbers these say yes, and of NaN no.
fn nan_compared() {
    let x = [NAN, -NAN, INF, -INF, 0.0, -0.0, 1e-40, -3.0];
    let yes_of = |says: &dyn Fn(f32) -> bool| -> Tensor {
        let codes: Vec<u64> = x.iter().map(|v| u64::from(says(*v))).collect();
        coded(DType::Bool, &[1, x.len()], &codes)
    };
    for (f, bound) in
        [("gt", -1.0f32), ("ge", -1.0), ("ge", 0.0), ("ge", -0.0), ("gt", 0.0), ("ne", -1.0), ("lt", -1.0)]
    {
        let body = format!(
            "%a = abs %x
             %c = literal f32 {bound:?}
             %above = {f} %a, %c
             %n = neg %a
             %d = neg %c
             %below = {turned} %n, %d
             %swapped = {turned} %c, %a
             %p = gt %x, %zero
             %z = mul %a, %a
             %m = abs %z
             %either = select %p, %a, %m
             %chosen = {f} %either, %c
             return %above, %below, %swapped, %chosen",
            turned = match f {
                "gt" => "lt",
                "ge" => "le",
                "lt" => "gt",
                other => other,
            },
        );
        let body = format!("%zero = literal f32 0.0\n{body}");
        exact(&row_of(x.len(), "", &body), &[row(&x)], |_| {
            let says = |a: f32| match f {
                "gt" => a > bound,
                "ge" => a >= bound,
                "lt" => a < bound,
                _ => a != bound,
            };
            let plain = yes_of(&|v| says(v.abs()));
            let chosen = yes_of(&|v| says(if v > 0.0 { v.abs() } else { (v.abs() * v.abs()).abs() }));
            vec![plain.clone(), plain.clone(), plain, chosen]
        });
    }
}

fn no_rows() {
    for lanes in [0, 1, 5] {
        let body = "%n = rms_norm %x {eps = 1e-6, round = once}
            %q, %k = quantize_dynamic %n {bound = 448.0, floor = 4.359654e-6, floor_of = scale}
            return %q, %k";
        let given = [floats(DType::F32, &[0, lanes], &[])];
        exact(&row_of(lanes, "", body), &given, |_| {
            vec![coded(DType::F8E4M3, &[0, lanes], &[]), floats(DType::F32, &[0, 1], &[])]
        });
    }
}

/// Codes are compared on a line on which −0 is next to +0.
fn code_distance() {
    let key = |code: u64| num::key(DType::F8E4M3, num::decode(DType::F8E4M3, code));
    assert_eq!([key(0x80) - key(0), key(1) - key(0), key(0x80) - key(0x81), key(0x7e) - key(0x7d)], [-1, 1, 1, 1]);
}
