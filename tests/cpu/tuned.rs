//! Short forms of code where something is known of values: the same bits, and taken only where it is known.

use fusewright_abi::{DType, Level, Target};
use fusewright_codegen::backend::{HOST_TARGETS, Wanted, for_target};
use fusewright_codegen::kernel::interp::put_bits;

use crate::support::{check, check_on, kernel};

/// `2^n` times a number in two factors, as expansions of `exp` write it; `x` is what `n` is rounded from.
fn power(bounds: &str, x: &str) -> String {
    format!(
        "kernel @power(n = extent(p, 0)) rows 1 {{
           param %p: f32[n] in
           param %x: f32[n] in
           param %y: f32[n] out
           segment @m inner 1 {{
             %p = load p[lane] : row<f32, n>
             %x = load x[lane] : row<f32, n>
             {bounds}
             %round = literal f32 12582912.0
             %t = add {x}, %round
             %b = bitcast %t to i32
             %one = literal i32 1
             %h = shr %b, %one
             %r = sub %b, %h
             %places = literal i32 23
             %field = literal i32 1065353216
             %h1 = shl %h, %places
             %h2 = add %h1, %field
             %h3 = bitcast %h2 to f32
             %q = mul %p, %h3
             %r1 = shl %r, %places
             %r2 = add %r1, %field
             %r3 = bitcast %r2 to f32
             %y = mul %q, %r3
             store y[lane], %y
           }}
         }}"
    )
}

fn clamp(least: f32, greatest: f32) -> String {
    format!(
        "%least = literal f32 {least:?}
         %greatest = literal f32 {greatest:?}
         %below = lt %x, %least
         %inside = select %below, %least, %x
         %above = lt %greatest, %inside
         %clamped = select %above, %greatest, %inside"
    )
}

/// A product with a power of two is one instruction where its factors are known to be normal, and rounds as two do.
#[test]
fn products_with_powers_of_two_round_once() {
    let bounded = power(&clamp(-151.0, 130.0), "%clamped");
    let cases = [(bounded, true), (power(&clamp(-151.0, 260.0), "%clamped"), false), (power("", "%x"), false)];
    for (text, known) in cases {
        let kernel = kernel(&text);
        let floats = |of: &dyn Fn(usize) -> f32| (0..1000).flat_map(|i| of(i).to_le_bytes()).collect::<Vec<u8>>();
        let factors = floats(&|i| if i % 97 == 0 { f32::NAN } else { 0.7 + 0.37 * (i % 31) as f32 / 31.0 });
        let powers = floats(&|i| i as f32 * 0.61 - 300.0);
        check_on(&kernel, &[("n", 1000)], vec![factors, powers, vec![0; 4000]], 1);
        if cfg!(target_arch = "x86_64") && HOST_TARGETS.contains(&Target::CPU_LLVM) {
            let target = Target::CpuLlvm { level: Some(Level::V4) };
            let backend = for_target(&target).expect("a target of this build");
            let stages = backend.emit(&kernel, &target, Wanted::Stages).expect("compiles");
            let text = String::from_utf8_lossy(&stages[0].bytes).into_owned();
            assert_eq!(text.contains("scalef"), known, "{text}");
        }
    }
}

/// Zeros have an order, and a NaN of either sign is beyond everything, wherever it is in the row.
#[test]
fn extremes_of_rows_tell_zeros_apart_and_hand_nan_on() {
    for lanes in [16, 37, 64] {
        for op in ["max", "min"] {
            let text = format!(
                "kernel @extreme(s = extent(x, 0)) rows s {{
                   param %x: f32[s, {lanes}] in
                   param %y: f32[s] out
                   segment @m inner 1 {{
                     %x = load x[row*{lanes} + lane] : row<f32, {lanes}>
                     %y = reduce {op} %x over row nan propagate order tree(16)
                     store y[row], %y
                   }}
                 }}"
            );
            let special = [0x8000_0000, 0, 0x7fc0_0000, 0xffc0_0000, 0xff80_0000, 0x7f80_0000, 0x8000_0001, 1];
            let rows = special.len() * special.len() * lanes;
            let mut bytes = vec![0; rows * lanes * 4];
            for row in 0..rows {
                let (first, second) = (special[row % 8], special[row / 8 % 8]);
                for lane in 0..lanes {
                    let bits = if lane == row / 64 { second } else { first };
                    put_bits(DType::F32, &mut bytes, row * lanes + lane, bits);
                }
            }
            let start = vec![bytes, vec![0; rows * 4]];
            check_on(&kernel(&text), &[("s", rows as i64)], start, 1);
        }
    }
}

/// Parts of a row that lie in one group each take its value once.
#[test]
fn parts_of_a_row_in_one_group_each_agree() {
    for (size, count) in [(32, 3), (17, 4), (1, 5), (64, 2)] {
        let (lanes, half) = (size * count, size / 2);
        let parts: Vec<String> = (0..count)
            .map(|i| {
                let start = i * size;
                let sum =
                    if i == 0 { "%s0 = add %p0, %p0".to_owned() } else { format!("%s{i} = add %s{}, %p{i}", i - 1) };
                format!("%p{i} = slice %m start {start} len {size} step 1\n{sum}")
            })
            .collect();
        // The last part begins in one group and ends in the next.
        let text = format!(
            "kernel @parts(s = extent(x, 0)) rows s {{
               param %x: bf16[s, {lanes}] in
               param %w: f32[s, {count}] in
               param %y: f32[s, {size}] out
               param %z: f32[s, {size}] out
               segment @m inner 1 {{
                 %x = load x[row*{lanes} + lane] : row<bf16, {lanes}>
                 %f = cast %x to f32 rne
                 %w = load w[row*{count} + lane] : group<f32, {lanes}, {size}>
                 %m = mul %f, %w
                 {}
                 %across = slice %m start {half} len {size} step 1
                 store y[row*{size} + lane], %s{}
                 store z[row*{size} + lane], %across
               }}
             }}",
            parts.join("\n"),
            count - 1
        );
        check(&text, &[("s", 5)]);
    }
}

/// Even and odd lanes that are taken apart come back in their places: every width of elements, rows of any length, in
/// place, beside extremes of the row and of groups.
#[test]
fn lanes_taken_in_two_parts_agree() {
    for lanes in [31, 32, 33, 47, 48, 64, 65, 96, 100] {
        let text = format!(
            "kernel @pairs(s = extent(x, 0)) rows s {{
               param %x: bf16[s, {lanes}] inout
               param %h: f16[s, {lanes}] in
               param %c: f8e4m3[s, {lanes}] in
               param %i: i8[{lanes}] in
               param %w: f32[{lanes}] in
               param %q: f8e4m3[s, {lanes}] out
               param %j: i8[s, {lanes}] out
               param %z: f32[s, {lanes}] out
               param %m: f32[s] out
               segment @m inner 1 {{
                 %x = load x[row*{lanes} + lane] : row<bf16, {lanes}>
                 %h = load h[row*{lanes} + lane] : row<f16, {lanes}>
                 %c = load c[row*{lanes} + lane] : row<f8e4m3, {lanes}>
                 %i = load i[lane] : row<i8, {lanes}>
                 %w = load w[lane] : row<f32, {lanes}>
                 %xf = cast %x to f32 rne
                 %hf = cast %h to f32 rne
                 %cf = cast %c to f32 rne
                 %if = cast %i to f32 rne
                 %a = mul %xf, %hf
                 %b = add %a, %cf
                 %d = add %b, %if
                 %e = mul %d, %w
                 %y = cast %e to bf16 rne
                 %q = cast %e to f8e4m3 rne sat
                 %r = cast %e to i8 rne sat
                 store x[row*{lanes} + lane], %y
                 store q[row*{lanes} + lane], %q
                 store j[row*{lanes} + lane], %r
                 store z[row*{lanes} + lane], %e
                 %size = abs %xf
                 %m = reduce max %size over row nan propagate order tree(16)
                 store m[row], %m
               }}
             }}"
        );
        check(&text, &[("s", 5)]);
        if HOST_TARGETS.contains(&Target::CPU_LLVM) {
            let backend = for_target(&Target::CPU_LLVM).expect("a target of this build");
            let stages = backend.emit(&kernel(&text), &Target::CPU_LLVM, Wanted::Stages).expect("compiles");
            let text = String::from_utf8_lossy(&stages[0].bytes).into_owned();
            assert_eq!(text.contains("<32 x i16>"), lanes >= 32, "{lanes} lanes:\n{text}");
        }
    }
}

/// Values of a group that are kept, and extremes of groups, are of even and odd lanes as of others.
#[test]
fn groups_taken_in_two_parts_agree() {
    for size in [32, 48, 64, 80] {
        let lanes = 3 * size;
        let text = format!(
            "kernel @groups(s = extent(x, 0)) rows s {{
               param %x: bf16[s, {lanes}] in
               param %q: f8e4m3[s, {lanes}] out
               param %m: f32[s, 3] out
               segment @m inner 1 {{
                 %x = load x[row*{lanes} + lane] : row<bf16, {lanes}>
                 %f = cast %x to f32 rne
                 %e = exp %f
                 %y = cast %e to bf16 rne
                 %yf = cast %y to f32 rne
                 %size = abs %yf
                 %m = reduce max %size over group {size} nan propagate order tree(16)
                 %s = div %yf, %m
                 %q = cast %s to f8e4m3 rne sat
                 store m[row*3 + lane], %m
                 store q[row*{lanes} + lane], %q
               }}
             }}"
        );
        check(&text, &[("s", 4)]);
    }
}
