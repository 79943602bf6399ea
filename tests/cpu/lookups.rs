//! Functions of 16 bits that Cranelift's code looks up: which they are, and that each result is the bits of its function.

use fusewright_abi::Target;
use fusewright_codegen::backend::cpu::CpuBackend;

use crate::kept::decisions;
use crate::kernels::silu_mul_group;
use crate::support::{bind, check, check_on, compile, inputs, kernel};

/// Rows of `n` elements of `x`, `inner` of them side by side from an odd place on; `%e` is their exponential over one more,
/// `%q` the same rounded. What is stored where is the `tail`'s to say, in which `@` is the place of a lane.
fn gate(dtype: &str, n: i64, inner: i64, tail: &str) -> String {
    let tail = tail.replace('@', &format!("row*{inner}*{n} + inner*{n} + lane + 3"));
    format!(
        "kernel @gate(s = extent(sums, 0)) rows s {{
           param %x: {dtype}[s*{inner}*{n} + 3] inout
           param %y: {dtype}[s*{inner}*{n} + 3] inout
           param %z: f32[s*{inner}*{n} + 3] inout
           param %sums: f32[s, {inner}] out
           segment @m inner {inner} {{
             %x = load x[row*{inner}*{n} + inner*{n} + lane + 3] : row<{dtype}, {n}>
             %f = cast %x to f32 rne
             %p = exp %f
             %one = literal f32 1.0
             %by = add %p, %one
             %e = div %p, %by
             %q = cast %e to {dtype} rne
             %sum = reduce add %e over row nan propagate order tree(16)
             store sums[inner + row*{inner}], %sum
             {tail}
           }}
         }}"
    )
}

const BOTH: &str = "store y[@], %q store z[@], %e";
/// The row that is looked up is overwritten while it is still needed.
const IN_PLACE: &str = "%share = div %e, %sum store x[@], %q store z[@], %share";

/// How many values are looked up, as the code and the artifact say.
#[track_caller]
fn looked_up(text: &str) -> usize {
    let lines = decisions(&CpuBackend, &Target::Cpu, text);
    let said = lines.iter().filter(|line| line.ends_with("is looked up")).count();
    let artifact = compile(&kernel(text), &Target::Cpu).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(artifact.launch.tables as usize, said);
    said
}

#[test]
fn what_is_dear_and_a_function_of_16_bits_is_looked_up() {
    assert_eq!(looked_up(&silu_mul_group(512, 128)), 1);
    for dtype in ["bf16", "f16"] {
        assert_eq!(looked_up(&gate(dtype, 512, 1, BOTH)), 1, "{dtype}");
        assert_eq!(looked_up(&gate(dtype, 128, 4, IN_PLACE)), 1, "{dtype}");
        assert_eq!(looked_up(&gate(dtype, 511, 1, BOTH)), 0, "few lanes");
    }
    let wide =
        gate("f32", 512, 1, BOTH).replace("cast %x to f32 rne", "neg %x").replace("cast %e to f32 rne", "neg %e");
    assert_eq!(looked_up(&wide), 0, "functions of 32 bits");
    let two = gate("bf16", 512, 1, BOTH).replace("literal f32 1.0", "load z[row*512 + lane + 3] : row<f32, 512>");
    assert_eq!(looked_up(&two), 0, "functions of two elements");
    let every_other =
        gate("bf16", 512, 1, BOTH).replace("load x[row*1*512 + inner*512 + lane + 3]", "load x[row*512 + 512 - lane]");
    assert_eq!(looked_up(&every_other), 1, "elements that do not follow each other");
    let cheap = gate("bf16", 512, 1, BOTH).replace("exp %f", "neg %f").replace("div %p, %by", "mul %p, %by");
    assert_eq!(looked_up(&cheap), 0, "what takes a few instructions");
}

#[test]
fn each_code_has_the_result_of_its_function() {
    for dtype in ["bf16", "f16"] {
        for tail in [BOTH, IN_PLACE] {
            let kernel = kernel(&gate(dtype, 1 << 16, 1, tail));
            let mut start = inputs(&kernel, &bind(&[("s", 2)]), 1, 0);
            for (i, element) in start[0].chunks_exact_mut(2).enumerate() {
                element.copy_from_slice(&(i as u16).wrapping_mul(40_503).to_le_bytes());
            }
            check_on(&kernel, &[("s", 2)], start, 2);
        }
    }
}

#[test]
fn every_length_and_place() {
    for n in [512, 513, 519, 520, 527, 528, 543, 1000, 1025] {
        for (dtype, tail) in [("bf16", BOTH), ("f16", IN_PLACE), ("bf16", IN_PLACE)] {
            check(&gate(dtype, n, 1, tail), &[("s", 3)]);
        }
    }
    for n in [100, 128, 257] {
        check(&gate("bf16", n, 6, IN_PLACE), &[("s", 3)]);
        check(&gate("f16", n, 6, BOTH), &[("s", 0)]);
    }
    for dtype in ["bf16", "f16"] {
        check(&silu_mul_group(520, 128).replace("bf16", dtype), &[("s", 5)]);
    }
}

/// `%q` of [`gate`], of the product with a row of `y`, which is rounded to 16 bits.
fn of_products(dtype: &str, n: i64, inner: i64, tail: &str) -> String {
    let load = format!("%u = load y[row*{inner}*{n} + inner*{n} + lane + 3] : row<{dtype}, {n}>");
    let rounded = format!(
        "{load} %fu = cast %u to f32 rne %fx = cast %x to f32 rne %m = mul %fx, %fu %r = cast %m to {dtype} rne %f = cast %r to f32 rne"
    );
    gate(dtype, n, inner, tail).replace("%f = cast %x to f32 rne", &rounded)
}

#[test]
fn what_is_computed_and_rounded_is_looked_up_too() {
    for dtype in ["bf16", "f16"] {
        for tail in [BOTH, IN_PLACE] {
            assert_eq!(looked_up(&of_products(dtype, 512, 1, tail)), 1, "{dtype}");
            for (n, inner) in [(512, 1), (519, 1), (100, 6), (4096, 1)] {
                check(&of_products(dtype, n, inner, tail), &[("s", 3)]);
            }
        }
        check(
            &gate(dtype, 640, 1, BOTH)
                .replace("load x[row*1*640 + inner*640 + lane + 3]", "load x[row*640 + 640 - lane]"),
            &[("s", 2)],
        );
    }
}

/// A loop keeps the rounded result for the next: it is that which has a table, and nothing is computed.
#[test]
fn what_is_kept_is_looked_up() {
    let tail = "%w = cast %q to f32 rne %most = reduce max %w over row nan propagate order tree(16) \
        %share = div %w, %most store z[@], %share";
    let text = gate("bf16", 1024, 1, tail).replace("reduce add %e over", "reduce add %w over");
    let text = text.replace("%sum = ", "%w = cast %q to f32 rne %sum = ").replacen(
        "%w = cast %q to f32 rne %most",
        "%most",
        1,
    );
    assert_eq!(looked_up(&text), 1);
    let clif = &decisions(&CpuBackend, &Target::Cpu, &text);
    let named = |what: &str| {
        clif.iter()
            .find(|line| line.contains(what))
            .map(|line| line.split('%').nth(1).map(|l| l.split(' ').next().map(str::to_owned)))
    };
    assert_eq!(named(" keeps "), named("looked up"), "{clif:?}");
    check(&text, &[("s", 3)]);
}
