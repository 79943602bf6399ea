//! Rotary position embedding: pairs, positions, and where each implementation rounds.

use fusewright::graph::{DType, Tensor};

use crate::oracle::{bf16, f16};
use crate::ways::{Functions, Random, differ, exact, floats, ints, reference};

rows! {
    "rope.neox" => neox;
    "rope.interleaved" => interleaved;
    "rope.inverse" => inverse;
    "rope.partial" => partial;
    "rope.mrope_sections" => mrope_sections;
    "rope.mrope_interleaved" => mrope_interleaved;
    "rope.kernel" => kernel;
    "rope.native" => native;
    "rope.after_norm_fused" => after_norm_fused;
    "rope.after_norm" => after_norm;
    "rope.ascend" => ascend;
}

type Round = fn(f32) -> f32;

const TYPES: [(DType, Round); 2] = [(DType::BF16, bf16), (DType::F16, f16)];
const M: usize = 4;
const LANES: usize = 16;
const HALF: usize = LANES / 2;

fn identity(x: f32) -> f32 {
    x
}

/// Sixteenths, exact in both dtypes, and so that squares sum without rounding.
fn x_values() -> Vec<f32> {
    Random::new(41).steps(M * LANES, 127, 1.0 / 16.0)
}

fn angles(round: Round) -> [Vec<f32>; 2] {
    let angle = |i: usize| (i as f64 * 0.37 + 0.1) % 6.0;
    let table = |f: fn(f64) -> f64| (0..M * HALF).map(|i| round(f(angle(i)) as f32)).collect();
    [table(f64::cos), table(f64::sin)]
}

fn rows_of(dtype: DType, lanes: usize, values: &[f32]) -> Tensor {
    floats(dtype, &[values.len() / lanes, lanes], values)
}

/// `o1 = x1·c − x2·s`, `o2 = x2·c + x1·s`, with every product and sum rounded by `step` and the result by `last`.
fn turned(x: &[f32], [cos, sin]: &[Vec<f32>; 2], neighbours: bool, step: Round, last: Round) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    for (i, (&c, &s)) in cos.iter().zip(sin).enumerate() {
        let (row, pair) = (i / HALF * LANES, i % HALF);
        let (a, b) = if neighbours { (row + 2 * pair, row + 2 * pair + 1) } else { (row + pair, row + pair + HALF) };
        out[a] = last(step(step(x[a] * c) - step(x[b] * s)));
        out[b] = last(step(step(x[b] * c) + step(x[a] * s)));
    }
    out
}

fn with(x: DType, table: DType, body: &str) -> String {
    format!("graph @rope(s: 0..; %x: {x}[s, 16], %cos: {table}[s, 8], %sin: {table}[s, 8]) {{\n{body}\n}}")
        .replace("{T}", x.name())
}

fn given(x: DType, table: DType, [cos, sin]: &[Vec<f32>; 2]) -> [Tensor; 3] {
    [rows_of(x, LANES, &x_values()), rows_of(table, HALF, cos), rows_of(table, HALF, sin)]
}

#[track_caller]
fn in_f32(body: &str, tables: &[Vec<f32>; 2], want: impl Fn(&[f32]) -> Vec<f32>) {
    let inputs = given(DType::F32, DType::F32, tables);
    exact(&with(DType::F32, DType::F32, body), &inputs, |_| vec![rows_of(DType::F32, LANES, &want(&x_values()))]);
}

fn neox() {
    let tables = angles(identity);
    let want = |x: &[f32]| turned(x, &tables, false, identity, identity);
    in_f32("%y = rope_half_table %x, %cos, %sin {pairs = neox}\nreturn %y", &tables, want);
    // Tables of the full width hold every angle twice.
    let wide = "%c = cat %cos, %cos {axis = 1}\n%k = cat %sin, %sin {axis = 1}\n%y = rope_neox %x, %c, %k\nreturn %y";
    in_f32(wide, &tables, want);
}

fn interleaved() {
    let tables = angles(identity);
    let body = "%y = rope_half_table %x, %cos, %sin {pairs = interleaved}\nreturn %y";
    in_f32(body, &tables, |x| turned(x, &tables, true, identity, identity));
}

fn inverse() {
    let tables = angles(identity);
    let [cos, sin] = tables.clone();
    let back = [cos, sin.iter().map(|s| -s).collect()];
    let body = "%k = neg %sin\n%y = rope_half_table %x, %cos, %k {pairs = neox}\nreturn %y";
    in_f32(body, &tables, |x| turned(x, &back, false, identity, identity));
}

/// Lanes beyond the table's width pass through.
fn partial() {
    let text = "graph @partial(s: 0..; %x: bf16[s, 24], %cos: bf16[s, 8], %sin: bf16[s, 8]) {
        %a = slice %x {axis = 1, start = 0, end = 16, step = 1}
        %b = slice %x {axis = 1, start = 16, end = 24, step = 1}
        %y = rope_half_table %a, %cos, %sin {pairs = neox}
        %z = cat %y, %b {axis = 1}
        return %z
      }";
    let (tables, x) = (angles(bf16), Random::new(43).steps(M * 24, 127, 1.0 / 16.0));
    let [cos, sin] = &tables;
    let inputs = [rows_of(DType::BF16, 24, &x), rows_of(DType::BF16, HALF, cos), rows_of(DType::BF16, HALF, sin)];
    exact(text, &inputs, |_| {
        let front: Vec<f32> = x.chunks(24).flat_map(|row| row[..LANES].to_vec()).collect();
        let turned = turned(&front, &tables, false, bf16, bf16);
        let rows = turned.chunks(LANES).zip(x.chunks(24)).flat_map(|(y, x)| [y, &x[LANES..]].concat());
        vec![rows_of(DType::BF16, 24, &rows.collect::<Vec<_>>())]
    });
}

/// Tables of three positions, and for each channel the one that it takes.
fn mrope(select: &str, axis: impl Fn(usize) -> usize) {
    let text = format!(
        "graph @mrope(s: 0..; %x: f32[s, 16], %p: i64[s, 3], %table: f32[9, 8]) {{
           %t0 = slice %p {{axis = 1, start = 0, end = 1, step = 1}}
           %t = reshape %t0 {{shape = [s]}}
           %h0 = slice %p {{axis = 1, start = 1, end = 2, step = 1}}
           %h = reshape %h0 {{shape = [s]}}
           %w0 = slice %p {{axis = 1, start = 2, end = 3, step = 1}}
           %w = reshape %w0 {{shape = [s]}}
           %a = gather %table, %t {{axis = 0}}
           %b = gather %table, %h {{axis = 0}}
           %c = gather %table, %w {{axis = 0}}
           {select}
           %one = literal f32 1
           %sin = sub %one, %cos
           %y = rope_half_table %x, %cos, %sin {{pairs = neox}}
           return %y
         }}"
    );
    let positions: Vec<i64> = (0..M * 3).map(|i| (i * 5 % 9) as i64).collect();
    let table = Random::new(44).steps(9 * HALF, 15, 1.0 / 16.0);
    let inputs = [
        rows_of(DType::F32, LANES, &x_values()),
        ints(DType::I64, &[M, 3], &positions),
        rows_of(DType::F32, HALF, &table),
    ];
    reference(&text, &inputs, |_| {
        let cos: Vec<f32> =
            (0..M * HALF).map(|i| table[positions[i / HALF * 3 + axis(i % HALF)] as usize * HALF + i % HALF]).collect();
        let sin = cos.iter().map(|c| 1.0 - c).collect();
        vec![rows_of(DType::F32, LANES, &turned(&x_values(), &[cos, sin], false, identity, identity))]
    });
}

/// Channels in order: four of time, two of height, two of width.
fn mrope_sections() {
    let select = "%at = slice %a {axis = 1, start = 0, end = 4, step = 1}
        %bt = slice %b {axis = 1, start = 4, end = 6, step = 1}
        %ct = slice %c {axis = 1, start = 6, end = 8, step = 1}
        %cos = cat %at, %bt, %ct {axis = 1}";
    mrope(select, |channel| match channel {
        0..4 => 0,
        4..6 => 1,
        _ => 2,
    });
}

/// Channel c takes height where c mod 3 is 1, width where it is 2, below three times the section; else time.
fn mrope_interleaved() {
    let select = "%channel = iota {type = i64[s, 8], axis = 1}
        %three = literal i64 3
        %q = div %channel, %three
        %t3 = mul %q, %three
        %rest = sub %channel, %t3
        %i1 = literal i64 1
        %i2 = literal i64 2
        %six = literal i64 6
        %below = lt %channel, %six
        %r1 = eq %rest, %i1
        %r2 = eq %rest, %i2
        %is_h = and %r1, %below
        %is_w = and %r2, %below
        %hw = select %is_h, %b, %a
        %cos = select %is_w, %c, %hw";
    mrope(select, |channel| if channel < 6 { channel % 3 } else { 0 });
}

/// f32 throughout, one rounding for each result.
const KERNEL: &str = "%x32 = cast %x {to = f32}
    %y32 = rope_half_table %x32, %cos, %sin {pairs = neox}
    %y = cast %y32 {to = {T}}
    return %y";

fn kernel() {
    let tables = angles(identity);
    for (dtype, round) in TYPES {
        exact(&with(dtype, DType::F32, KERNEL), &given(dtype, DType::F32, &tables), |_| {
            vec![rows_of(dtype, LANES, &turned(&x_values(), &tables, false, identity, round))]
        });
    }
}

/// Tables in the activation's dtype, in which every product and sum is rounded.
fn native() {
    let body = "%y = rope_half_table %x, %cos, %sin {pairs = neox}\nreturn %y";
    for (dtype, round) in TYPES {
        let tables = angles(round);
        let inputs = given(dtype, dtype, &tables);
        exact(&with(dtype, dtype, body), &inputs, |_| {
            vec![rows_of(dtype, LANES, &turned(&x_values(), &tables, false, round, round))]
        });
        let wide = KERNEL
            .replace("%y32 =", "%c = cast %cos {to = f32}\n%k = cast %sin {to = f32}\n%y32 =")
            .replace("%cos, %sin {", "%c, %k {");
        differ(&with(dtype, dtype, body), &with(dtype, dtype, &wide), &inputs);
    }
}

/// `x · (rstd · w)` and the rotation.
#[track_caller]
fn after(norm: &str, normal: impl Fn(f32, f32, f32, Round) -> f32, root: fn(f32, Functions) -> f32) {
    for (dtype, round) in TYPES {
        let (tables, w) = (angles(identity), Random::new(45).steps(LANES, 63, 1.0 / 32.0));
        let body = format!(
            "%x32 = cast %x {{to = f32}}
             {norm}
             %y32 = rope_half_table %n, %cos, %sin {{pairs = neox}}
             %y = cast %y32 {{to = {{T}}}}
             return %y"
        );
        let text = with(dtype, DType::F32, &body).replace(") {", &format!(", %w: {dtype}[16]) {{"));
        let [x, cos, sin] = given(dtype, DType::F32, &tables);
        exact(&text, &[x, cos, sin, floats(dtype, &[LANES], &w)], |functions| {
            let mut n = Vec::new();
            for row in x_values().chunks(LANES) {
                let mean = row.iter().map(|x| x * x).sum::<f32>() / LANES as f32;
                let scale = root(mean + 1e-6, functions);
                n.extend(row.iter().zip(&w).map(|(x, w)| normal(*x, scale, *w, round)));
            }
            vec![rows_of(dtype, LANES, &turned(&n, &tables, false, identity, round))]
        });
    }
}

/// The norm's factor in primitives; `%k` per row and the weight in f32.
const FACTOR: &str = "%sq = mul %x32, %x32
    %sum = reduce %sq {op = add, axes = [1]}
    %lanes = literal f32 16
    %mean = div %sum, %lanes
    %eps = literal f32 1e-6
    %v = add %mean, %eps
    %w32 = cast %w {to = f32}";

/// No rounding between norm and rotation.
fn after_norm_fused() {
    let norm = format!("{FACTOR}\n%k = rsqrt %v\n%kw = mul %k, %w32\n%n = mul %x32, %kw");
    after(&norm, |x, k, w, _| x * (k * w), |v, functions| (functions.rsqrt)(v));
}

/// The norm rounds, then the rotation begins.
fn after_norm() {
    let norm = "%n0 = rms_norm %x, %w {eps = 1e-6, round = once}\n%n = cast %n0 {to = f32}";
    after(norm, |x, k, w, round| round(x * k * w), |v, functions| (functions.rsqrt)(v));
}

/// The root and its reciprocal are two roundings; the norm is rounded before the rotation.
fn ascend() {
    let norm = format!(
        "{FACTOR}\n%one = literal f32 1\n%root = sqrt %v\n%k = div %one, %root\n%z = mul %x32, %k
         %zw = mul %z, %w32\n%nt = cast %zw {{to = {{T}}}}\n%n = cast %nt {{to = f32}}"
    );
    after(&norm, |x, k, w, round| round(x * k * w), |v, _| 1.0 / v.sqrt());
}
