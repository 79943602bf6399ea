//! Rows that are no whole number of chunks: the last lanes run as a chunk, some of whose lanes ran before.

use crate::support::{blocks, check};

/// Lengths below a chunk, around whole ones, and around a pass of two.
const LENGTHS: [i64; 18] = [1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 33, 39, 40, 47, 193, 198, 255];

/// A row beside zero on both sides, rounded to f16 on the way, and its reductions; over its input if that is `access`.
fn row(access: &str, dims: &str, n: &str) -> String {
    let out = if access == "in" { "param %y: f32[s, N] out" } else { "" };
    let to = if access == "in" { "y" } else { "x" };
    let reduced = [("add", "%r"), ("max", "%l"), ("min", "%r"), ("mul", "%r")];
    let ways = reduced.iter().flat_map(|(op, v)| ["propagate", "ignore"].map(|nan| (*op, *v, nan)));
    let ways: Vec<_> = ways.filter(|(op, _, nan)| matches!(*op, "max" | "min") || *nan == "propagate").collect();
    let params: String = (0..ways.len()).map(|i| format!("param %z{i}: f32[s] out\n")).collect();
    let stores: String = ways
        .iter()
        .enumerate()
        .map(|(i, (op, v, nan))| {
            format!("%t{i} = reduce {op} {v} over row nan {nan} order tree(16)\n store z{i}[row], %t{i}\n")
        })
        .collect();
    format!(
        "kernel @row(s = extent(x, 0){dims}) rows s {{
           param %x: f32[s, N] {access}
           {out}
           {params}
           segment @m inner 1 {{
             %x = load x[row*N + lane] : row<f32, N>
             %zero = literal f32 0.0
             %half = literal f16 0.0
             %wide = cast %half to f32 rne
             %a = max %x, %zero
             %b = min %zero, %x
             %c = max %wide, %b
             %ac = add %a, %c
             %h = cast %ac to f16 rne
             %r = cast %h to f32 rne
             %l = min %r, %wide
             %q = cast %r to f16 rne
             %u = cast %q to f32 rne
             store {to}[row*N + lane], %u
             {stores}
           }}
         }}"
    )
    .replace('N', n)
}

#[test]
fn stores_and_reductions_of_every_length() {
    for access in ["in", "inout"] {
        for n in LENGTHS {
            check(&row(access, "", &n.to_string()), &[("s", 3)]);
            check(&row(access, ", n = extent(x, 1)", "n"), &[("s", 3), ("n", n)]);
        }
    }
}

/// Integers, eight accumulators, narrow sums, parts of rows and joined rows.
#[test]
fn other_forms_of_every_length() {
    let of = |dims: &str, n: &str| {
        format!(
            "kernel @forms(s = extent(x, 0){dims}) rows s {{
               param %x: bf16[s, N] in
               param %i: i32[s, N] in
               param %c: f32[s, N*2] out
               param %k: i32[s] out
               param %l: i32[s] out
               param %m: f32[s] out
               param %b: bf16[s] out
               segment @m inner 1 {{
                 %x = load x[row*N + lane] : row<bf16, N>
                 %i = load i[row*N + lane] : row<i32, N>
                 %k = reduce add %i over row nan propagate order tree(16)
                 %l = reduce max %i over row nan propagate order tree(8)
                 %b = reduce add %x over row nan propagate order tree(16)
                 %f = cast %x to f32 rne
                 %m = reduce add %f over row nan propagate order tree(8)
                 %p = add %f, %m
                 %c = cat %f, %p
                 store c[row*N*2 + lane], %c
                 store k[row], %k
                 store l[row], %l
                 store m[row], %m
                 store b[row], %b
               }}
             }}"
        )
        .replace('N', n)
    };
    for n in LENGTHS {
        check(&of("", &n.to_string()), &[("s", 3)]);
        check(&of(", n = extent(x, 1)", "n"), &[("s", 3), ("n", n)]);
    }
}

/// A packing of pairs, whose chunks begin at even lanes, beside a sum.
#[test]
fn packed_pairs_of_every_even_length() {
    for n in LENGTHS.into_iter().map(|n| 2 * n) {
        let text = format!(
            "kernel @packed(s = extent(x, 0)) rows s {{
               param %x: f32[s, {n}] in
               param %p: u8[s, {half}] out
               param %m: f32[s] out
               segment @m inner 1 {{
                 %x = load x[row*{n} + lane] : row<f32, {n}>
                 %m = reduce add %x over row nan propagate order tree(16)
                 %q = cast %x to i4 trunc sat
                 %p = pack %q ways 2 to u8
                 store p[row*{half} + lane], %p
                 store m[row], %m
               }}
             }}",
            half = n / 2
        );
        check(&text, &[("s", 3)]);
    }
}

#[test]
fn no_lane_runs_by_itself_behind_a_chunk() {
    let [whole, odd, over] =
        [("in", "192"), ("in", "193"), ("inout", "193")].map(|(access, n)| blocks(&row(access, "", n)));
    assert_eq!(whole, odd);
    assert!(over > odd, "what is overwritten is not read again");
}
