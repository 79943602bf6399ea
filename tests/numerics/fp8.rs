//! FP8 quantisers, power-of-two scales and the layouts of scales.

use fusewright::graph::{DType, Graph, Tensor};
use fusewright::{Options, fuse_graph};

use crate::oracle::{e4m3, e5m2, e8m0};
use crate::ways::{Random, coded, differ, exact, floats, ints};

rows! {
    "fp8.static" => static_scale;
    "fp8.e5m2" => e5m2_codes;
    "fp8.token_kernel" => token_kernel;
    "fp8.token_native" => token_native;
    "fp8.tensor" => tensor;
    "fp8.group_kernel" => group_kernel;
    "fp8.group_native" => group_native;
    "fp8.group_norm" => group_norm;
    "fp8.group_silu" => group_silu;
    "ue8m0.bits" => ue8m0_bits;
    "ue8m0.chain" => ue8m0_chain;
    "ue8m0.cast" => ue8m0_cast;
    "layout.row_major" => row_major;
    "layout.column_major" => column_major;
    "layout.tma" => tma;
    "layout.packed" => packed;
    "layout.tiles" => tiles;
}

const MINS: f32 = (1.0f64 / (448.0 * 512.0)) as f32;

/// Rows, groups and lanes of a group.
const SHAPE: [usize; 3] = [5, 3, 16];
const LANES: usize = SHAPE[1] * SHAPE[2];
const COUNT: usize = SHAPE[0] * LANES;

/// Rows of many magnitudes: one of zeros, one with −0, one of tiny values, one beyond every bound.
fn values() -> Vec<f32> {
    let mut values = Random::new(21).wide(COUNT);
    values[LANES..2 * LANES].fill(0.0);
    values[LANES + 3] = -0.0;
    values[2 * LANES..3 * LANES].iter_mut().for_each(|x| *x *= 2f32.powi(-40));
    values[3 * LANES..4 * LANES].iter_mut().for_each(|x| *x *= 2f32.powi(12));
    values
}

fn x() -> Tensor {
    floats(DType::BF16, &[SHAPE[0], LANES], &values())
}

fn largest(row: &[f32]) -> f32 {
    row.iter().fold(0f32, |m, x| m.max(x.abs()))
}

fn code(y: f32) -> u64 {
    e4m3(y.clamp(-448.0, 448.0))
}

fn with(params: &str, body: &str) -> String {
    format!("graph @fp8(s: 0..; %x: bf16[s, 48]{params}) {{\n{body}\n}}")
}

/// A dynamic quantiser on rows, or on groups of 16 lanes.
fn dynamic(operands: &str, attrs: &str, grouped: bool) -> String {
    if !grouped {
        return format!("%q, %k = quantize_dynamic %x{operands} {{{attrs}}}\nreturn %q, %k");
    }
    format!(
        "%g = reshape %x {{shape = [s, 3, 16]}}
         %c, %k0 = quantize_dynamic %g{operands} {{{attrs}}}
         %q = reshape %c {{shape = [s, 48]}}
         %k = reshape %k0 {{shape = [s, 3]}}
         return %q, %k"
    )
}

/// Scales from a row or group, and codes from a value and its scale.
#[track_caller]
fn quantiser(text: &str, inputs: &[Tensor], width: usize, scale: impl Fn(f32) -> f32, apply: impl Fn(f32, f32) -> f32) {
    exact(text, inputs, |_| {
        let scales: Vec<f32> = values().chunks(width).map(|row| scale(largest(row))).collect();
        let codes = values().iter().enumerate().map(|(i, &x)| code(apply(x, scales[i / width]))).collect::<Vec<_>>();
        let columns = LANES / width;
        vec![coded(DType::F8E4M3, &[SHAPE[0], LANES], &codes), floats(DType::F32, &[SHAPE[0], columns], &scales)]
    });
}

fn static_scale() {
    for scale in [0.5f32, 0.037, 3e-3, 1e-30] {
        for (apply, scaled) in [
            ("reciprocal", (|x, k| x * (1.0 / k)) as fn(f32, f32) -> f32),
            ("divide", |x, k| x / k),
            ("multiply", |x, k| x * k),
        ] {
            let op =
                format!("%q = quantize_static %x, %k {{codes = f8e4m3, apply = {apply}, bound = 448.0}}\nreturn %q");
            exact(&with(", %k: f32[]", &op), &[x(), floats(DType::F32, &[], &[scale])], |_| {
                let codes: Vec<u64> = values().iter().map(|&x| code(scaled(x, scale))).collect();
                vec![coded(DType::F8E4M3, &[SHAPE[0], LANES], &codes)]
            });
        }
    }
    // Quotients that are ties; the product with the reciprocal is beside some of them.
    let ties: Vec<f32> =
        (0..COUNT as u32).map(|i| ((17 + i % 8 * 2) << (i / 8 % 4)) as f32 * (1.0 + i as f32 / 512.0)).collect();
    let [divide, reciprocal] = ["divide", "reciprocal"].map(|apply| {
        let op = format!("%q = quantize_static %x, %k {{codes = f8e4m3, apply = {apply}, bound = 448.0}}\nreturn %q");
        with(", %k: f32[1, 48]", &op).replace("x: bf16", "x: f32")
    });
    let scales: Vec<f32> = (0..LANES).map(|i| 0.3 + i as f32 / 64.0).collect();
    let x: Vec<f32> = ties.iter().enumerate().map(|(i, t)| t.floor() * scales[i % LANES]).collect();
    let given = [floats(DType::F32, &[SHAPE[0], LANES], &x), floats(DType::F32, &[1, LANES], &scales)];
    differ(&divide, &reciprocal, &given);
}

/// The same in e5m2, which ends at ±57344.
fn e5m2_codes() {
    let op = "%q = quantize_static %x, %k {codes = f8e5m2, apply = divide, bound = 57344.0}\nreturn %q";
    for scale in [0.037f32, 1e-6, 1e-30] {
        exact(&with(", %k: f32[]", op), &[x(), floats(DType::F32, &[], &[scale])], |_| {
            let codes = values().iter().map(|&x| e5m2((x / scale).clamp(-57344.0, 57344.0))).collect::<Vec<_>>();
            vec![coded(DType::F8E5M2, &[SHAPE[0], LANES], &codes)]
        });
    }
    let op = "%q, %k = quantize_dynamic %x {codes = f8e5m2, bound = 57344.0}\nreturn %q, %k";
    let rows: Vec<f32> = values().iter().map(|x| if *x == 0.0 { 1.0 } else { *x }).collect();
    exact(&with("", op), &[floats(DType::BF16, &[SHAPE[0], LANES], &rows)], |_| {
        let scales: Vec<f32> = rows.chunks(LANES).map(|row| largest(row) / 57344.0).collect();
        let codes: Vec<u64> = rows.iter().enumerate().map(|(i, x)| e5m2(x / scales[i / LANES])).collect();
        vec![coded(DType::F8E5M2, &[SHAPE[0], LANES], &codes), floats(DType::F32, &[SHAPE[0], 1], &scales)]
    });
}

const TOKEN: &str = "bound = 448.0, floor = 4.359654e-6, floor_of = scale";

fn token_kernel() {
    let attrs = format!("{TOKEN}, nan = high");
    quantiser(&with("", &dynamic("", &attrs, false)), &[x()], LANES, |m| (m / 448.0).max(MINS), |x, k| x / k);
    for upper in [1e9f32, 30.0] {
        let text = with(", %ub: f32[]", &dynamic(", %ub", &attrs, false));
        let inputs = [x(), floats(DType::F32, &[], &[upper])];
        quantiser(&text, &inputs, LANES, |m| (m.min(upper) / 448.0).max(MINS), |x, k| x / k);
    }
}

fn token_native() {
    let text = with("", &dynamic("", &format!("{TOKEN}, apply = reciprocal"), false));
    quantiser(&text, &[x()], LANES, |m| (m / 448.0).max(MINS), |x, k| x * (1.0 / k));
}

/// One scale for all rows: the reduction is a kernel of its own.
fn tensor() {
    let body = "%x32 = cast %x {to = f32}
        %m = abs %x32
        %largest = reduce %m {op = max, axes = [0, 1], nan = ignore}
        %e = literal f32 448
        %k0 = div %largest, %e
        %floor = literal f32 4.359654e-6
        %k1 = max %k0, %floor
        %k = reshape %k1 {shape = []}
        %q = quantize_static %x, %k {codes = f8e4m3, apply = reciprocal, bound = 448.0, nan = high}
        return %q, %k";
    let inputs = [x()];
    crate::ways::reference(&with("", body), &inputs, |_| {
        let scale = (largest(&values()) / 448.0).max(MINS);
        let codes: Vec<u64> = values().iter().map(|x| code(x * (1.0 / scale))).collect();
        vec![coded(DType::F8E4M3, &[SHAPE[0], LANES], &codes), floats(DType::F32, &[], &[scale])]
    });
}

const GROUP: &str = "bound = 448.0, floor = 1e-10, floor_of = absmax";

/// By bits: the exponent, and one more if anything stands below it.
fn ue8m0(s: f32) -> f32 {
    let bits = s.abs().max(1e-10).to_bits();
    f32::from_bits(((bits >> 23) + u32::from(bits & 0x7f_ffff != 0)) << 23)
}

fn group_kernel() {
    let attrs = format!("{GROUP}, apply = reciprocal, nan = low");
    let scale = |m: f32| m.max(1e-10) / 448.0;
    quantiser(&with("", &dynamic("", &attrs, true)), &[x()], 16, scale, |x, k| x * (1.0 / k));
    let power = format!("{GROUP}, scale = power_of_two, apply = reciprocal, nan = low");
    quantiser(&with("", &dynamic("", &power, true)), &[x()], 16, |m| ue8m0(scale(m)), |x, k| x * (1.0 / k));
}

fn group_native() {
    let text = with("", &dynamic("", TOKEN, true));
    quantiser(&text, &[x()], 16, |m| (m / 448.0).max(MINS), |x, k| x / k);
    // A ragged last group counts its own lanes: the rest is as if it were zero.
    let body = "%x32 = cast %x {to = f32}
        %zero = literal f32 0
        %pad = expand %zero {shape = [s, 7]}
        %wide = cat %x32, %pad {axis = 1}
        %g = reshape %wide {shape = [s, 3, 16]}
        %c, %k0 = quantize_dynamic %g {bound = 448.0, floor = 4.359654e-6, floor_of = scale}
        %q0 = reshape %c {shape = [s, 48]}
        %q = slice %q0 {axis = 1, start = 0, end = 41, step = 1}
        %k = reshape %k0 {shape = [s, 3]}
        return %q, %k";
    let ragged: Vec<f32> = values().chunks(LANES).flat_map(|row| row[..41].to_vec()).collect();
    let text = with("", body).replace("bf16[s, 48]", "bf16[s, 41]");
    exact(&text, &[floats(DType::BF16, &[SHAPE[0], 41], &ragged)], |_| {
        let (mut scales, mut codes) = (Vec::new(), Vec::new());
        for group in ragged.chunks(41).flat_map(|row| row.chunks(16)) {
            let scale = (largest(group) / 448.0).max(MINS);
            scales.push(scale);
            codes.extend(group.iter().map(|x| code(x / scale)));
        }
        vec![coded(DType::F8E4M3, &[SHAPE[0], 41], &codes), floats(DType::F32, &[SHAPE[0], 3], &scales)]
    });
}

fn group_norm() {
    let attrs = format!("{TOKEN}, apply = reciprocal, nan = high");
    for upper in [1e9f32, 30.0] {
        let text = with(", %ub: f32[]", &dynamic(", %ub", &attrs, true));
        let inputs = [x(), floats(DType::F32, &[], &[upper])];
        quantiser(&text, &inputs, 16, |m| (m.min(upper) / 448.0).max(MINS), |x, k| x * (1.0 / k));
    }
}

/// The bound is on the scale, not on the magnitude.
fn group_silu() {
    let body = "%x32 = cast %x {to = f32}
        %g = reshape %x32 {shape = [s, 3, 16]}
        %m = abs %g
        %largest = reduce %m {op = max, axes = [2]}
        %e = literal f32 448
        %k0 = div %largest, %e
        %k1 = min %k0, %ub
        %floor = literal f32 4.359654e-6
        %k2 = max %k1, %floor
        %v = div %g, %k2
        %low = literal f32 -448
        %a = max %v, %low
        %b = min %a, %e
        %c = cast %b {to = f8e4m3, saturate}
        %q = reshape %c {shape = [s, 48]}
        %k = reshape %k2 {shape = [s, 3]}
        return %q, %k";
    let inputs = [x(), floats(DType::F32, &[], &[0.05])];
    quantiser(&with(", %ub: f32[]", body), &inputs, 16, |m| (m / 448.0).clamp(MINS, 0.05), |x, k| x / k);
}

/// Powers of two, their neighbours, and others, of both signs.
fn scales() -> Vec<f32> {
    let powers = (-40..30).map(|k| 2f32.powi(k));
    let near = powers.flat_map(|p| [p, f32::from_bits(p.to_bits() + 1), f32::from_bits(p.to_bits() - 1), -1.5 * p]);
    near.chain([0.0, -0.0, 1e-10, 9e-11, 1e-45, 3e-39]).collect()
}

fn ue8m0_bits() {
    let s = scales();
    let shape = [2, s.len() / 2];
    let text = format!("graph @up(s: 0..; %x: f32[s, {}]) {{\n%y = ue8m0_ceil %x\nreturn %y\n}}", shape[1]);
    exact(&text, &[floats(DType::F32, &shape, &s)], |_| {
        vec![floats(DType::F32, &shape, &s.iter().map(|&s| ue8m0(s)).collect::<Vec<_>>())]
    });
}

/// The chain rounds its logarithm: one ulp above a power of two it gives that power, not the next. It stays a chain.
fn ue8m0_chain() {
    let text = "graph @chain(s: 0..; %x: f32[s, 8]) {
        %l = log2 %x
        %c = ceil %l
        %y = exp2 %c
        return %y
      }";
    let above: Vec<f32> = (12..20).map(|k| f32::from_bits(2f32.powi(k).to_bits() + 1)).collect();
    let given = [floats(DType::F32, &[1, 8], &above)];
    let graph: Graph = text.parse().expect("the text is right");
    let point = fusewright::graph::interp::run(&graph, &given, &[("s".to_owned(), 1)].into()).expect("runs");
    let powers: Vec<f64> = (12..20).map(|k| 2f64.powi(k)).collect();
    assert_eq!(point[0].floats().expect("floats"), powers);
    assert!(above.iter().zip(&powers).all(|(&x, &p)| f64::from(ue8m0(x)) == 2.0 * p));
    let fused = fuse_graph(&graph, &Options::default()).expect("fuses");
    assert!(!fused.graph.to_string().contains("ue8m0"), "{}", fused.graph);
}

/// To the nearest power of two, ties up.
fn ue8m0_cast() {
    let x = [0.75f32, 1.4999, 1.5, 3.0, 0.0, f32::INFINITY, f32::NAN, 3.4e38, 2.9e-39, 5.87e-39, 6e-39, -2.0];
    let codes = [127, 127, 128, 129, 0, 255, 255, 255, 0, 0, 1, 128];
    assert_eq!(x.map(|x| e8m0(f64::from(x), fusewright::graph::Rounding::NearestEven, false)), codes);
    let text = "graph @cast(s: 0..; %x: f32[s, 12]) {\n%y = cast %x {to = f8e8m0}\nreturn %y\n}";
    exact(text, &[floats(DType::F32, &[1, 12], &x)], |_| vec![coded(DType::F8E8M0, &[1, 12], &codes)]);
}

/// Rows and groups of the layouts.
const ROWS: usize = 6;
const GROUPS: usize = 5;

/// A scale per group in a layout: element `address(m, j)` of the output is that of row `m` and group `j`, others are 0.
#[track_caller]
fn laid(body: &str, shape: &[usize], address: impl Fn(usize, usize) -> usize) {
    let scales: Vec<f32> = (0..ROWS * GROUPS).map(|i| 1.0 + i as f32).collect();
    let text = format!("graph @layout(s: 0..; %x: f32[s, 5]) {{\n{body}\n}}");
    crate::ways::reference(&text, &[floats(DType::F32, &[ROWS, GROUPS], &scales)], |_| {
        let mut out = vec![0.0; shape.iter().product()];
        (0..ROWS).for_each(|m| (0..GROUPS).for_each(|j| out[address(m, j)] = scales[m * GROUPS + j]));
        vec![floats(DType::F32, shape, &out)]
    });
}

fn row_major() {
    laid("%y = abs %x\nreturn %y", &[ROWS, GROUPS], |m, j| m * GROUPS + j);
}

fn column_major() {
    laid("%a = abs %x\n%y = permute %a {perm = [1, 0]}\nreturn %y", &[GROUPS, ROWS], |m, j| j * ROWS + m);
}

/// Columns of a multiple of four rows.
fn tma() {
    let body = "%a = abs %x
        %t = permute %a {perm = [1, 0]}
        %zero = literal f32 0
        %pad = expand %zero {shape = [5, floordiv(s + 3, 4)*4 - s]}
        %y = cat %t, %pad {axis = 1}
        return %y";
    laid(body, &[GROUPS, 8], |m, j| j * 8 + m);
}

/// Exponents of four groups in one word, the first in the low byte; groups that are not there are 0.
fn packed() {
    let text = "graph @packed(s: 0..; %x: f32[s, 5]) {
        %p = ue8m0_ceil %x
        %e = cast %p {to = f8e8m0}
        %b = bitcast %e {to = u8}
        %zero = literal u8 0
        %pad = expand %zero {shape = [s, 3]}
        %w = cat %b, %pad {axis = 1}
        %y = pack %w {ways = 4, to = i32}
        return %y
      }";
    let scales: Vec<f32> = (0..ROWS * GROUPS).map(|i| 2f32.powi(i as i32 - 12)).collect();
    crate::ways::reference(text, &[floats(DType::F32, &[ROWS, GROUPS], &scales)], |_| {
        let mut words = [0u32; ROWS * 2];
        for (i, s) in scales.iter().enumerate() {
            let (m, j) = (i / GROUPS, i % GROUPS);
            words[m * 2 + j / 4] |= (s.to_bits() >> 23) << (8 * (j % 4));
        }
        vec![ints(DType::I32, &[ROWS, 2], &words.iter().map(|&w| i64::from(w as i32)).collect::<Vec<_>>())]
    });
}

/// Tiles of 128 rows by four blocks.
fn tiles() {
    let (rows, blocks) = (ROWS, 8);
    let text = "graph @tiles(s: 0..; %x: f32[s, 8]) {
        %a = abs %x
        %zero = literal f32 0
        %pad = expand %zero {shape = [floordiv(s + 127, 128)*128 - s, 8]}
        %full = cat %a, %pad {axis = 0}
        %split = reshape %full {shape = [floordiv(s + 127, 128), 4, 32, 2, 4]}
        %tiled = permute %split {perm = [0, 3, 2, 1, 4]}
        %y = reshape %tiled {shape = [floordiv(s + 127, 128)*128, 8]}
        return %y
      }";
    let scales: Vec<f32> = (0..rows * blocks).map(|i| 1.0 + i as f32).collect();
    crate::ways::reference(text, &[floats(DType::F32, &[rows, blocks], &scales)], |_| {
        let mut out = vec![0.0; 128 * blocks];
        for (i, &s) in scales.iter().enumerate() {
            let (m, k) = (i / blocks, i % blocks);
            let tile = ((m >> 7) * (blocks / 4) + (k >> 2)) << 9;
            out[tile | (m & 31) << 4 | (m >> 5 & 3) << 2 | (k & 3)] = s;
        }
        vec![floats(DType::F32, &[128, blocks], &out)]
    });
}
