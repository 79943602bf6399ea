//! Kernels of each kind, small enough to be executed often.

use std::collections::BTreeMap;

use fusewright_codegen::kernel::expand::{Column, expand};
use fusewright_codegen::kernel::parse_kernels;

use crate::simulated::Case;

fn case(text: &str, rows: i64) -> Case {
    let kernel = parse_kernels(text).unwrap_or_else(|e| panic!("{e}\n{text}")).swap_remove(0);
    let kernel = expand(&kernel, Column::Ascend).unwrap_or_else(|e| panic!("{e}\n{text}"));
    Case { kernel, dims: BTreeMap::from([("s".to_owned(), rows)]), seed: 11, cores: 2, specials: false }
}

/// A norm of the sum of two rows, which is stored as well.
fn add_rms_norm(d: i64, rows: i64) -> Case {
    case(
        &format!(
            "kernel @add_rms_norm(s = extent(x, 0)) rows s {{
               param %x: bf16[s, {d}] in
               param %r: bf16[s, {d}] inout
               param %w: bf16[{d}] in
               param %y: bf16[s, {d}] out
               segment @m inner 1 {{
                 %x0 = load x[row*{d} + lane] : row<bf16, {d}>
                 %r0 = load r[row*{d} + lane] : row<bf16, {d}>
                 %xf = cast %x0 to f32 rne
                 %rf = cast %r0 to f32 rne
                 %sum = add %xf, %rf
                 %short = cast %sum to bf16 rne
                 store r[row*{d} + lane], %short
                 %wide = cast %short to f32 rne
                 %square = mul %wide, %wide
                 %squares = reduce add %square over row nan propagate order tree(64)
                 %n = literal f32 {d}.0
                 %mean = div %squares, %n
                 %eps = literal f32 0.0009765625
                 %shifted = add %mean, %eps
                 %root = sqrt %shifted
                 %q = div %wide, %root
                 %w0 = load w[lane] : row<bf16, {d}>
                 %wf = cast %w0 to f32 rne
                 %p = mul %q, %wf
                 %y = cast %p to bf16 rne
                 store y[row*{d} + lane], %y
               }}
             }}"
        ),
        rows,
    )
}

/// Codes of eight bits with one scale per row.
fn int8_token(d: i64, rows: i64) -> Case {
    case(
        &format!(
            "kernel @int8_token(s = extent(x, 0)) rows s {{
               param %x: f16[s, {d}] in
               param %q: i8[s, {d}] out
               param %scale: f32[s] out
               segment @m inner 1 {{
                 %x0 = load x[row*{d} + lane] : row<f16, {d}>
                 %f = cast %x0 to f32 rne
                 %a = abs %f
                 %most = reduce max %a over row nan propagate order tree(64)
                 %bound = literal f32 127.0
                 %step = div %most, %bound
                 store scale[row], %step
                 %v = div %f, %step
                 %q = cast %v to i8 rne sat
                 store q[row*{d} + lane], %q
               }}
             }}"
        ),
        rows,
    )
}

/// Rows that are turned by a table, head by head.
fn rope(heads: i64, d: i64, rows: i64) -> Case {
    let (half, all) = (d / 2, heads * d);
    case(
        &format!(
            "kernel @rope(s = extent(x, 0)) rows s {{
               param %x: f16[s, {heads}, {d}] in
               param %c: f16[s, {d}] in
               param %n: f16[s, {d}] in
               param %y: f16[s, {heads}, {d}] out
               segment @m inner {heads} {{
                 %x0 = load x[row*{all} + inner*{d} + lane] : row<f16, {d}>
                 %x = cast %x0 to f32 rne
                 %a = slice %x start 0 len {half} step 1
                 %b = slice %x start {half} len {half} step 1
                 %minus = neg %b
                 %turned = cat %minus, %a
                 %c0 = load c[row*{d} + lane] : row<f16, {d}>
                 %n0 = load n[row*{d} + lane] : row<f16, {d}>
                 %c = cast %c0 to f32 rne
                 %n = cast %n0 to f32 rne
                 %p = mul %x, %c
                 %q = mul %turned, %n
                 %z = add %p, %q
                 %z0 = cast %z to f16 rne
                 store y[row*{all} + inner*{d} + lane], %z0
               }}
             }}"
        ),
        rows,
    )
}

/// Rows from places that a buffer names.
fn gather(d: i64, rows: i64) -> Case {
    case(
        &format!(
            "kernel @gather(s = extent(at, 0)) rows s {{
               param %at: i64[s] in
               param %table: f32[9, {d}] in
               param %x: f32[s, {d}] in
               param %y: f32[s, {d}] out
               segment @m inner 1 {{
                 %place = load at[row] : scalar<i64>
                 %t = load table[min(max(%place, 0), 8)*{d} + lane] : row<f32, {d}>
                 %x = load x[row*{d} + lane] : row<f32, {d}>
                 %z = add %t, %x
                 store y[row*{d} + lane], %z
               }}
             }}"
        ),
        rows,
    )
}

/// Extremes of groups, and what is divided by them.
fn groups(d: i64, size: i64, rows: i64) -> Case {
    let count = d / size;
    case(
        &format!(
            "kernel @groups(s = extent(x, 0)) rows s {{
               param %x: f32[s, {d}] in
               param %y: f32[s, {d}] out
               param %g: f32[s, {count}] out
               segment @m inner 1 {{
                 %x = load x[row*{d} + lane] : row<f32, {d}>
                 %a = abs %x
                 %most = reduce max %a over group {size} nan propagate order tree(32)
                 store g[row*{count} + lane], %most
                 %z = div %x, %most
                 store y[row*{d} + lane], %z
               }}
             }}"
        ),
        rows,
    )
}

/// Where the other is positive, else nothing.
fn masked(d: i64, rows: i64) -> Case {
    case(
        &format!(
            "kernel @masked(s = extent(x, 0)) rows s {{
               param %x: f32[s, {d}] in
               param %z: f32[s, {d}] in
               param %y: f32[s, {d}] out
               segment @m inner 1 {{
                 %x = load x[row*{d} + lane] : row<f32, {d}>
                 %z = load z[row*{d} + lane] : row<f32, {d}>
                 %none = literal f32 0.0
                 %holds = gt %z, %none
                 %e = exp %x
                 %y = select %holds, %e, %none
                 store y[row*{d} + lane], %y
               }}
             }}"
        ),
        rows,
    )
}

/// One half of a row times the other, and their sum.
fn gated(d: i64, rows: i64) -> Case {
    let both = 2 * d;
    case(
        &format!(
            "kernel @gated(s = extent(x, 0)) rows s {{
               param %x: f16[s, {both}] in
               param %y: f16[s, {both}] out
               segment @m inner 1 {{
                 %a0 = load x[row*{both} + lane] : row<f16, {d}>
                 %b0 = load x[row*{both} + lane + {d}] : row<f16, {d}>
                 %a = cast %a0 to f32 rne
                 %b = cast %b0 to f32 rne
                 %z = mul %a, %b
                 %z0 = cast %z to f16 rne
                 store y[row*{both} + lane], %z0
                 %t = add %a, %b
                 %t0 = cast %t to f16 rne
                 store y[row*{both} + lane + {d}], %t0
               }}
             }}"
        ),
        rows,
    )
}

/// Neighbours that are taken apart and turned.
fn neighbours(d: i64, rows: i64) -> Case {
    let half = d / 2;
    case(
        &format!(
            "kernel @neighbours(s = extent(x, 0)) rows s {{
               param %x: f32[s, {d}] in
               param %y: f32[s, {d}] out
               segment @m inner 1 {{
                 %x = load x[row*{d} + lane] : row<f32, {d}>
                 %even = slice %x start 0 len {half} step 2
                 %odd = slice %x start 1 len {half} step 2
                 %minus = neg %odd
                 %z = zip %minus, %even
                 store y[row*{d} + lane], %z
               }}
             }}"
        ),
        rows,
    )
}

/// Rows that are stored as they are and widened, and their sums: more vectors than one instruction repeats.
fn kept(d: i64, rows: i64) -> Case {
    case(
        &format!(
            "kernel @kept(s = extent(x, 0)) rows s {{
               param %x: f16[s, {d}] in
               param %y: f16[s, {d}] out
               param %sums: f32[s] out
               segment @m inner 1 {{
                 %x0 = load x[row*{d} + lane] : row<f16, {d}>
                 store y[row*{d} + lane], %x0
                 %f = cast %x0 to f32 rne
                 %sum = reduce add %f over row nan propagate order tree(64)
                 store sums[row], %sum
               }}
             }}"
        ),
        rows,
    )
}

/// Shares of what a row sees, head by head, in rows of a length that is known when they run.
fn attention(heads: i64, rows: i64) -> Case {
    case(
        &format!(
            "kernel @attention(s = extent(x, 1)) rows s {{
               param %x: f32[{heads}, s, s*600] in
               param %y: f32[{heads}, s, s*600] out
               param %most: f32[{heads}, s] out
               segment @heads inner {heads} {{
                 %x = load x[inner*s*s*600 + row*s*600 + lane] : row<f32, s*600>
                 %low = literal f32 -inf
                 %at = index row*600 + 300
                 %place = cast %at to i32 rne
                 %lane = iota s*600
                 %seen = ge %place, %lane
                 %z = select %seen, %x, %low
                 %most = reduce max %z over row nan propagate order tree(64)
                 %d = sub %z, %most
                 %e = exp %d
                 %sum = reduce add %e over row nan propagate order tree(64)
                 %y = div %e, %sum
                 store y[inner*s*s*600 + row*s*600 + lane], %y
                 store most[inner*s + row], %most
               }}
             }}"
        ),
        rows,
    )
}

/// Codes that are read again, and every other number of a row that all share: both are read by the step that follows.
fn back(d: i64, rows: i64) -> Case {
    let twice = 2 * d;
    case(
        &format!(
            "kernel @back(s = extent(x, 0)) rows s {{
               param %x: f32[s, {d}] in
               param %w: f32[{twice}] in
               param %q: i8[s, {d}] out
               param %y: f32[s, {d}] out
               segment @m inner 1 {{
                 %w0 = load w[lane] : row<f32, {twice}>
                 %part = slice %w0 start 1 len {d} step 2
                 %x0 = load x[row*{d} + lane] : row<f32, {d}>
                 %q0 = cast %x0 to i8 rne sat
                 %f = cast %q0 to f32 rne
                 %y0 = mul %f, %part
                 store q[row*{d} + lane], %q0
                 store y[row*{d} + lane], %y0
               }}
             }}"
        ),
        rows,
    )
}

/// The largest of each row of such a length.
fn largest(rows: i64) -> Case {
    case(
        "kernel @largest(s = extent(x, 0)) rows s {
           param %x: f32[s, s*3600] in
           param %most: f32[s] out
           segment @rows inner 1 {
             %x = load x[row*s*3600 + lane] : row<f32, s*3600>
             %most = reduce max %x over row nan propagate order tree(64)
             store most[row], %most
           }
         }",
        rows,
    )
}

/// Parts that end within a block, one after the other.
fn joined(rows: i64) -> Case {
    case(
        "kernel @joined(s = extent(x, 0)) rows s {
           param %x: f16[s, 109] in
           param %y: f16[s, 109] out
           segment @m inner 1 {
             %a = load x[row*109 + lane] : row<f16, 42>
             %b = load x[row*109 + lane + 42] : row<f16, 16>
             %c = load x[row*109 + lane + 58] : row<f16, 51>
             %y = cat %c, %a, %b
             store y[row*109 + lane], %y
           }
         }",
        rows,
    )
}

/// All of them, with their chips. Every core has several whole tiles of rows, and a part of one.
pub fn all() -> Vec<(Case, &'static str)> {
    vec![
        (add_rms_norm(1000, 23), "910b1"),
        (add_rms_norm(96, 301), "910b1"),
        (int8_token(520, 75), "910b1"),
        (rope(4, 128, 75), "910b1"),
        (gather(200, 91), "910b1"),
        (groups(512, 128, 37), "910b1"),
        (masked(333, 59), "910b1"),
        (gated(272, 71), "910b1"),
        (neighbours(128, 70), "910b1"),
        (add_rms_norm(40_000, 3), "910b1"),
        (kept(330, 70), "910b1"),
        (back(128, 70), "910b1"),
        (kept(16_640, 5), "910b1"),
        (attention(2, 5), "910b1"),
        (largest(5), "910b1"),
        (joined(75), "910b1"),
        (int8_token(528, 75), "310p3"),
        (masked(333, 59), "310p3"),
        (gated(272, 71), "310p3"),
        (attention(2, 5), "310p3"),
    ]
}
