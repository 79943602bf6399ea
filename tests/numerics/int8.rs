//! Integer quantisers, of eight bits and of four.

use fusewright::graph::{DType, Tensor};

use crate::ways::{Random, coded, differ, exact, floats, ints};

rows! {
    "int8.static" => static_scale;
    "int8.static_zero_point" => static_zero_point;
    "int8.token" => token;
    "int8.token_norm" => token_norm;
    "int4.packed" => packed;
    "int8.asymmetric" => asymmetric;
    "int8.saturating_add" => saturating_add;
    "int8.pytorch_cast" => pytorch_cast;
}

const SHAPE: [usize; 2] = [4, 33];

/// Rows of many magnitudes; one of zeros, and one of ties.
fn values() -> Vec<f32> {
    let mut values = Random::new(11).wide(SHAPE[0] * SHAPE[1]);
    values[SHAPE[1]..2 * SHAPE[1]].fill(0.0);
    for (i, x) in values[2 * SHAPE[1]..3 * SHAPE[1]].iter_mut().enumerate() {
        *x = i as f32 / 2.0 - 8.0;
    }
    values
}

fn x() -> Tensor {
    floats(DType::BF16, &SHAPE, &values())
}

fn code(y: f32) -> i64 {
    y.round_ties_even().clamp(-128.0, 127.0) as i64
}

/// Two codes of four bits in a byte.
fn packed() {
    let op = "%q = quantize_static %x, %k {codes = i4, apply = divide, bound = 7.0}\nreturn %q";
    let lanes = SHAPE[1] - 1;
    let rows: Vec<f32> = values().chunks(SHAPE[1]).flat_map(|row| row[..lanes].to_vec()).collect();
    for scale in [0.5f32, 0.037, 3.0] {
        let text = with(", %k: f32[]", op).replace("[s, 33]", "[s, 32]");
        exact(&text, &[floats(DType::BF16, &[SHAPE[0], lanes], &rows), floats(DType::F32, &[], &[scale])], |_| {
            let code = |x: f32| (x / scale).round_ties_even().clamp(-8.0, 7.0) as i64 as u64 & 15;
            let bytes: Vec<u64> = rows.chunks(2).map(|pair| code(pair[0]) | code(pair[1]) << 4).collect();
            vec![coded(DType::U8, &[SHAPE[0], lanes / 2], &bytes)]
        });
    }
}

/// Rounded to int32, which saturates, and moved as an integer.
fn moved(y: f32, zero_point: i64) -> i64 {
    (i64::from(y.round_ties_even() as i32) + zero_point).clamp(-128, 127)
}

fn with(params: &str, body: &str) -> String {
    format!("graph @int8(s: 0..; %x: bf16[s, 33]{params}) {{\n{body}\n}}")
}

fn static_scale() {
    let of = |apply| {
        let op = format!("%q = quantize_static %x, %k {{codes = i8, apply = {apply}, bound = 127.0}}\nreturn %q");
        with(", %k: f32[]", &op)
    };
    for scale in [0.5f32, 0.037, 3e-3] {
        let inputs = [x(), floats(DType::F32, &[], &[scale])];
        exact(&of("divide"), &inputs, |_| {
            vec![ints(DType::I8, &SHAPE, &values().iter().map(|x| code(x / scale)).collect::<Vec<_>>())]
        });
    }
    // Division and the product with the reciprocal part at ties, here 1.5 · 0.3 / 0.3.
    let scale = 0.3f32;
    let ties: Vec<f32> = (0..99).map(|i| (i as f32 / 2.0) * scale).collect();
    let quotients: Vec<i64> = ties.iter().map(|x| code(x / scale)).collect();
    let products: Vec<i64> = ties.iter().map(|x| code(x * (1.0 / scale))).collect();
    assert_ne!(quotients, products);
    let inputs = [floats(DType::F32, &[3, 33], &ties), floats(DType::F32, &[], &[scale])];
    let wide = |apply| of(apply).replace("bf16", "f32");
    exact(&wide("divide"), &inputs, |_| vec![ints(DType::I8, &[3, 33], &quotients)]);
    exact(&wide("reciprocal"), &inputs, |_| vec![ints(DType::I8, &[3, 33], &products)]);
}

fn static_zero_point() {
    let after =
        "%q = quantize_affine %x, %k, %z {apply = reciprocal, offset = after_rounding, bound = 127.0}\nreturn %q";
    let scale = 0.25f32;
    for zero_point in [-128i64, -3, 0, 5, 100_000] {
        let inputs = [x(), floats(DType::F32, &[], &[scale]), ints(DType::I32, &[], &[zero_point])];
        exact(&with(", %k: f32[], %z: i32[]", after), &inputs, |_| {
            let codes: Vec<i64> = values().iter().map(|x| moved(x * (1.0 / scale), zero_point)).collect();
            vec![ints(DType::I8, &SHAPE, &codes)]
        });
    }
    // An odd offset before rounding turns ties to the other side.
    let before = after.replace("after_rounding", "before_rounding");
    let inputs = |dtype| {
        let z = if dtype == DType::I32 { ints(dtype, &[], &[5]) } else { floats(dtype, &[], &[5.0]) };
        [x(), floats(DType::F32, &[], &[1.0]), z]
    };
    differ(&with(", %k: f32[], %z: f32[]", after), &with(", %k: f32[], %z: f32[]", &before), &inputs(DType::F32));
}

fn largest(row: &[f32]) -> f32 {
    row.iter().fold(0f32, |m, x| m.max(x.abs()))
}

fn token() {
    let op = "%q, %k = quantize_dynamic %x {codes = i8, bound = 127.0, apply = factor, nan = skip}\nreturn %q, %k";
    exact(&with("", op), &[x()], |_| {
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        for row in values().chunks(SHAPE[1]) {
            let absmax = largest(row);
            let factor = if absmax == 0.0 { 0.0 } else { 127.0 / absmax };
            codes.extend(row.iter().map(|x| code(x * factor)));
            scales.push(absmax / 127.0);
        }
        vec![ints(DType::I8, &SHAPE, &codes), floats(DType::F32, &[SHAPE[0], 1], &scales)]
    });
}

/// The quantiser behind a fused norm: a floor under the scale, and its reciprocal.
fn token_norm() {
    let op = "%q, %k = quantize_dynamic %x, %ub {codes = i8, bound = 127.0, floor = 1.1920929e-7, floor_of = scale,
              apply = reciprocal, nan = skip}\nreturn %q, %k"
        .replace("\n              ", " ");
    for upper in [1e9f32, 20.0] {
        exact(&with(", %ub: f32[]", &op), &[x(), floats(DType::F32, &[], &[upper])], |_| {
            let scale = |row: &[f32]| (largest(row).min(upper) / 127.0).max(f32::EPSILON);
            let scales: Vec<f32> = values().chunks(SHAPE[1]).map(scale).collect();
            let codes =
                values().iter().enumerate().map(|(i, x)| code(x * (1.0 / scales[i / SHAPE[1]]))).collect::<Vec<_>>();
            vec![ints(DType::I8, &SHAPE, &codes), floats(DType::F32, &[SHAPE[0], 1], &scales)]
        });
    }
}

/// Scale and zero point from both ends of the row; a constant row divides by zero, so that rows here are none.
fn asymmetric() {
    let body = "%x32 = cast %x {to = f32}
        %max = reduce %x32 {op = max, axes = [1], nan = ignore}
        %min = reduce %x32 {op = min, axes = [1], nan = ignore}
        %range = sub %max, %min
        %n = literal f32 255
        %k = div %range, %n
        %shift = div %min, %k
        %low = literal f32 -128
        %z32 = sub %low, %shift
        %zr = round %z32
        %z = cast %zr {to = i32, saturate}
        %q = quantize_affine %x, %k, %z {apply = reciprocal, offset = after_rounding, bound = 127.0}
        return %q, %k, %z";
    let values: Vec<f32> =
        values().chunks(SHAPE[1]).enumerate().filter(|(i, _)| *i != 1).flat_map(|(_, r)| r.to_vec()).collect();
    exact(&with("", body), &[floats(DType::BF16, &[3, 33], &values)], |_| {
        let (mut codes, mut scales, mut points) = (Vec::new(), Vec::new(), Vec::new());
        for row in values.chunks(SHAPE[1]) {
            let (max, min) = row.iter().fold((f32::MIN, f32::MAX), |(a, b), &x| (a.max(x), b.min(x)));
            let scale = (max - min) / 255.0;
            let point = i64::from((-128.0 - min / scale).round_ties_even() as i32);
            codes.extend(row.iter().map(|x| moved(x * (1.0 / scale), point)));
            scales.push(scale);
            points.push(point);
        }
        let column = &[3, 1];
        vec![ints(DType::I8, &[3, 33], &codes), floats(DType::F32, column, &scales), ints(DType::I32, column, &points)]
    });
}

/// What is beyond int32 saturates there before the zero point is added, and the sum does not wrap.
fn saturating_add() {
    let op = "%q = quantize_affine %x, %k, %z {apply = multiply, offset = after_rounding, bound = 127.0}\nreturn %q";
    let x: Vec<f32> = [1e12, -1e12, 2e9, -2e9, 2.2e9, -2.2e9, f32::INFINITY, f32::NEG_INFINITY, f32::NAN].to_vec();
    for zero_point in [i64::from(i32::MAX), i64::from(i32::MIN), 5] {
        let text = "graph @add(s: 0..; %x: f32[s, 9], %k: f32[], %z: i32[]) {\n{op}\n}".replace("{op}", op);
        let inputs =
            [floats(DType::F32, &[1, 9], &x), floats(DType::F32, &[], &[1.0]), ints(DType::I32, &[], &[zero_point])];
        exact(&text, &inputs, |_| {
            vec![ints(DType::I8, &[1, 9], &x.iter().map(|&x| moved(x, zero_point)).collect::<Vec<_>>())]
        });
    }
}

/// A cast of PyTorch's truncates and wraps; a graph that quantises rounds and clamps before it.
fn pytorch_cast() {
    let text = "graph @cast(s: 0..; %x: f32[s, 8]) {\n%y = cast %x {to = i8, round = trunc}\nreturn %y\n}";
    let x = [300.0, -300.0, 2.9, -2.9, 127.5, 128.0, f32::NAN, -129.0];
    exact(text, &[floats(DType::F32, &[1, 8], &x)], |_| {
        vec![ints(DType::I8, &[1, 8], &[44, -44, 2, -2, 127, -128, 0, 127])]
    });
    // What the clamp leaves is not changed by the cast.
    let text = "graph @quantised(s: 0..; %x: f32[s, 8]) {
        %r = round %x
        %low = literal f32 -128
        %high = literal f32 127
        %a = max %r, %low
        %b = min %a, %high
        %y = cast %b {to = i8, round = trunc}
        return %y
      }";
    exact(text, &[floats(DType::F32, &[1, 8], &x)], |_| {
        vec![ints(DType::I8, &[1, 8], &x.map(|x| if x.is_nan() { 0 } else { code(x) }))]
    });
}
