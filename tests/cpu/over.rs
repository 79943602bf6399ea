//! Stores over what the same row loads.

use super::support::{check, each, kernel};

/// A row reversed in its own memory.
fn reversed(lanes: usize) -> String {
    format!(
        "kernel @reverse(s = extent(x, 0)) rows s {{
           param %x: f32[s, {lanes}] inout
           segment @m inner 1 {{
             %x = load x[row*{lanes} - lane + {}] : row<f32, {lanes}>
             store x[row*{lanes} + lane], %x
           }}
         }}",
        lanes - 1
    )
}

#[test]
fn what_a_row_overwrites_before_it_loads_it_is_saved() {
    for lanes in [1, 7, 8, 16, 64, 133] {
        check(&reversed(lanes), &[("s", 3)]);
    }
    for (read, write) in [(3, 0), (0, 3)] {
        let shift = format!(
            "kernel @shift(s = extent(x, 0)) rows s {{
               param %x: f32[s, 64] inout
               segment @m inner 1 {{
                 %x = load x[row*64 + lane + {read}] : row<f32, 60>
                 store x[row*64 + lane + {write}], %x
               }}
             }}"
        );
        check(&shift, &[("s", 3)]);
    }
}

#[test]
fn a_row_that_cannot_be_saved_is_refused() {
    // Beside the stack memory of a kernel, and of no constant length.
    let symbolic = "kernel @reverse(s = extent(x, 0), n = extent(x, 1)) rows s {
           param %x: f32[s, n] inout
           segment @m inner 1 {
             %x = load x[row*n - lane + n - 1] : row<f32, n>
             store x[row*n + lane], %x
           }
         }";
    for text in [&reversed(20_000), symbolic] {
        for compiled in each(&kernel(text)) {
            let error = compiled.expect_err("it overwrites what it reads");
            assert!(error.to_string().contains("may overwrite elements of `x`"), "{error}");
        }
    }
}

#[test]
fn sums_of_groups_are_taken_of_what_is_then_overwritten() {
    for (lanes, size) in [(64, 16), (40, 20), (256, 128)] {
        let groups = lanes / size;
        let text = format!(
            "kernel @scaled(s = extent(x, 0)) rows s {{
               param %x: bf16[s, {lanes}] in
               param %r: bf16[s, {lanes}] inout
               param %q: f8e4m3[s, {lanes}] out
               param %k: f32[s, {groups}] out
               segment @m inner 1 {{
                 %x0 = load x[row*{lanes} + lane] : row<bf16, {lanes}>
                 %r0 = load r[row*{lanes} + lane] : row<bf16, {lanes}>
                 %x = cast %x0 to f32 rne
                 %r = cast %r0 to f32 rne
                 %h = add %x, %r
                 %hr = cast %h to bf16 rne
                 store r[row*{lanes} + lane], %hr
                 %hf = cast %hr to f32 rne
                 %total = reduce add %hf over row nan propagate order tree(16)
                 %y = mul %hf, %total
                 %m = abs %y
                 %amax = reduce max %m over group {size} nan propagate order tree(16)
                 store k[row*{groups} + lane], %amax
                 %d = div %y, %amax
                 %q = cast %d to f8e4m3 rne sat
                 store q[row*{lanes} + lane], %q
               }}
             }}"
        );
        check(&text, &[("s", 4)]);
    }
}
