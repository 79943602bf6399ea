//! Reductions to the greatest or the least lane.

use crate::support::{bind, check, check_on, inputs, kernel};

/// Greatest and least lanes, of rows and of groups: NaN wherever there is one, and −0 below +0.
#[test]
fn extremes_of_rows_and_groups() {
    for (lanes, size) in [(16, 8), (32, 16), (96, 32), (80, 40)] {
        let groups = lanes / size;
        let text = format!(
            "kernel @extremes(s = extent(x, 0)) rows s {{
               param %x: f32[s, {lanes}] in
               param %a: f32[s] out
               param %b: f32[s] out
               param %c: f32[s, {groups}] out
               param %d: bf16[s, {groups}] out
               segment @m inner 1 {{
                 %x = load x[row*{lanes} + lane] : row<f32, {lanes}>
                 %a = reduce max %x over row nan propagate order tree(16)
                 %b = reduce min %x over row nan propagate order tree(16)
                 %c = reduce max %x over group {size} nan propagate order tree(8)
                 %m = reduce min %x over group {size} nan propagate order tree(8)
                 %d = cast %m to bf16 rne
                 store a[row], %a
                 store b[row], %b
                 store c[row*{groups} + lane], %c
                 store d[row*{groups} + lane], %d
               }}
             }}"
        );
        check(&text, &[("s", 7)]);
        // Zeros of both signs, in every order.
        let kernel = kernel(&text);
        for pattern in 0..64u32 {
            let mut start = inputs(&kernel, &bind(&[("s", 1)]), 1, 0);
            let zero = |lane: usize| if pattern >> (lane % 6) & 1 == 1 { -0.0f32 } else { 0.0 };
            start[0] = (0..lanes).flat_map(|lane| zero(lane).to_le_bytes()).collect();
            check_on(&kernel, &[("s", 1)], start, 1);
        }
    }
}
