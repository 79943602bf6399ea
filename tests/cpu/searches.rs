//! Searches of a row, and lanes that do not just follow each other in memory.

use crate::support::check;

#[test]
fn the_largest_lanes_in_order() {
    for dtype in ["f32", "bf16", "i32", "u8", "f8e8m0", "i64"] {
        for (n, k) in [(1, 1), (3, 2), (8, 8), (64, 6), (300, 17)] {
            let text = format!(
                "kernel @top(s = extent(x, 0)) rows s {{
                   param %x: {dtype}[s, {n}] in
                   param %v: {dtype}[s, {k}] out
                   param %i: i32[s, {k}] out
                   segment @m inner 1 {{
                     %x = load x[row*{n} + lane] : row<{dtype}, {n}>
                     %v, %i = top_k %x k {k}
                     store v[row*{k} + lane], %v
                     store i[row*{k} + lane], %i
                   }}
                 }}"
            );
            check(&text, &[("s", 5)]);
        }
    }
}

/// Groups have no lanes of each other: in blocks of rows and one by one, of few and of many lanes.
#[test]
fn the_largest_lanes_of_groups_in_order() {
    for dtype in ["f32", "bf16", "f64", "i32", "u8"] {
        for (n, size, k) in [(6, 3, 2), (64, 8, 2), (24, 12, 12), (96, 32, 3), (256, 32, 2), (300, 100, 40)] {
            let all = n / size * k;
            let text = format!(
                "kernel @top(s = extent(x, 0)) rows s {{
                   param %x: {dtype}[s, {n}] in
                   param %v: {dtype}[s, {all}] out
                   param %i: i32[s, {all}] out
                   segment @m inner 1 {{
                     %x = load x[row*{n} + lane] : row<{dtype}, {n}>
                     %v, %i = top_k %x k {k} over group {size}
                     store v[row*{all} + lane], %v
                     store i[row*{all} + lane], %i
                   }}
                 }}"
            );
            check(&text, &[("s", 5)]);
            check(&text, &[("s", 17)]);
        }
    }
}

/// Routing: what is done with the largest lanes, and with the whole row, after they are known.
#[test]
fn the_largest_lanes_go_on() {
    for k in [4, 8, 9] {
        check(
            &format!(
                "kernel @route(s = extent(x, 0)) rows s {{
                   param %x: bf16[s, 40] in
                   param %v: f32[s, {k}] out
                   param %y: f32[s, 40] out
                   param %i: i64[s, {k}] out
                   segment @m inner 1 {{
                     %x = load x[row*40 + lane] : row<bf16, 40>
                     %xf = cast %x to f32 rne
                     %sq = mul %xf, %xf
                     %v, %i = top_k %sq k {k}
                     %sum = reduce add %v over row nan propagate order tree(16)
                     %w = div %v, %sum
                     %wide = cast %i to i64 rne
                     store v[row*{k} + lane], %w
                     store i[row*{k} + lane], %wide
                     %y = div %sq, %sum
                     store y[row*40 + lane], %y
                   }}
                 }}"
            ),
            &[("s", 3)],
        );
    }
}

/// Every other element in memory, from even and odd places, at the end of a tensor of an even and an odd size.
#[test]
fn every_other_element() {
    for dtype in ["bf16", "f32", "f8e4m3"] {
        for (n, m) in [(16, 8), (64, 32), (34, 17), (35, 17), (200, 100)] {
            for start in [0, 1] {
                let text = format!(
                    "kernel @half(s = extent(x, 0)) rows s {{
                       param %x: {dtype}[s, {n}] in
                       param %y: f32[s, {m}] out
                       param %z: f32[s, {n}] inout
                       segment @m inner 1 {{
                         %a = load x[row*{n} + lane*2 + {start}] : row<{dtype}, {m}>
                         %b = load x[row*{n} + lane*2 + {other}] : row<{dtype}, {m}>
                         %af = cast %a to f32 rne
                         %bf = cast %b to f32 rne
                         %d = sub %af, %bf
                         %e = mul %af, %bf
                         store y[row*{m} + lane], %d
                         %p = zip %d, %e
                         store z[row*{n} + lane], %p
                       }}
                     }}",
                    other = 1 - start
                );
                check(&text, &[("s", 3)]);
            }
        }
    }
}

/// A table that repeats along the row, as cos and sin do.
#[test]
fn elements_that_repeat() {
    for (n, m) in [(128, 64), (64, 24), (48, 16), (24, 12), (72, 8)] {
        let text = format!(
            "kernel @repeat(s = extent(x, 0)) rows s {{
               param %x: f16[s, {n}] in
               param %y: f32[s, {n}] out
               segment @m inner 1 {{
                 %a = load x[row*{n} + lane mod {m}] : row<f16, {n}>
                 %b = load x[row*{n} + (lane floordiv {m})*{m} + lane mod {m}] : row<f16, {n}>
                 %af = cast %a to f32 rne
                 %bf = cast %b to f32 rne
                 %d = sub %af, %bf
                 store y[row*{n} + lane], %d
               }}
             }}"
        );
        let text = text.replace(&format!("lane mod {m}"), &format!("mod(lane, {m})"));
        check(&text.replace(&format!("(lane floordiv {m})"), &format!("floordiv(lane, {m})")), &[("s", 3)]);
    }
}

/// Every number of lanes that chunks leave of a reduction of elements that lie apart.
#[test]
fn what_chunks_leave_of_a_reduction() {
    for dtype in ["f32", "bf16"] {
        for n in [4, 6, 8, 12, 17, 20, 22, 24, 25, 28, 30, 31, 199] {
            let all = 2 * n;
            let text = format!(
                "kernel @left(s = extent(x, 0)) rows s {{
                   param %x: {dtype}[s, {all}] in
                   param %y: f32[s, {n}] out
                   param %m: f32[s] out
                   segment @m inner 1 {{
                     %a = load x[row*{all} + lane*2] : row<{dtype}, {n}>
                     %b = load x[row*{all} + lane*2 + 1] : row<{dtype}, {n}>
                     %af = cast %a to f32 rne
                     %bf = cast %b to f32 rne
                     %p = mul %af, %bf
                     %sum = reduce add %p over row nan propagate order tree(16)
                     %most = reduce max %p over row nan propagate order tree(16)
                     %least = reduce min %bf over row nan ignore order tree(16)
                     %all = reduce mul %af over row nan propagate order tree(16)
                     %c = add %sum, %most
                     %d = add %c, %least
                     %e = add %d, %all
                     %y = sub %p, %e
                     store y[row*{n} + lane], %y
                     store m[row], %most
                   }}
                 }}"
            );
            check(&text, &[("s", 11)]);
        }
    }
}
