//! Short inner rows whose reductions run ahead of what uses them.

use fusewright_codegen::backend::{HOST_TARGETS, for_target};

use super::kept::decisions;
use super::support::check;

/// Normalises `heads` rows of `d` lanes by mean and variance, in two stages, and stores a scalar of each besides.
fn norm_of_heads(heads: i64, d: i64, in_place: bool) -> String {
    let (access, out, to) = if in_place {
        ("inout", String::new(), "x")
    } else {
        ("in", format!("param %y: bf16[s, {heads}, {d}] out"), "y")
    };
    let row = format!("inner*{d} + row*{} + lane", heads * d);
    format!(
        "kernel @norm(s = extent(x, 0)) rows s {{
           param %x: bf16[s, {heads}, {d}] {access}
           param %c: f32[s, {d}] in
           {out}
           param %r: f32[s, {heads}] out
           segment @m inner {heads} {{
             %x0 = load x[{row}] : row<bf16, {d}>
             %x = cast %x0 to f32 rne
             %n = literal f32 {d}.0
             %sum = reduce add %x over row nan propagate order tree(16)
             %mean = div %sum, %n
             %apart = sub %x, %mean
             %square = mul %apart, %apart
             %squares = reduce add %square over row nan propagate order tree(16)
             %variance = div %squares, %n
             %root = sqrt %variance
             store r[inner + row*{heads}], %root
             %q = div %apart, %root
             %c = load c[row*{d} + lane] : row<f32, {d}>
             %z = mul %q, %c
             %z0 = cast %z to bf16 rne
             store {to}[{row}], %z0
           }}
         }}"
    )
}

/// Whether it is so; every compiler decides alike.
fn runs_ahead(text: &str) -> bool {
    let decided = HOST_TARGETS.iter().map(|target| {
        let backend = for_target(target).unwrap_or_else(|e| panic!("{e}"));
        decisions(&*backend, target, text).iter().any(|line| line.ends_with("inner rows ahead"))
    });
    let decided: Vec<bool> = decided.collect();
    assert!(decided.iter().all(|ahead| *ahead == decided[0]), "{decided:?}");
    decided[0]
}

#[test]
fn reductions_of_short_inner_rows_run_ahead() {
    for (heads, d) in [(2, 1), (3, 7), (8, 16), (33, 64), (8, 128), (16, 512)] {
        let text = norm_of_heads(heads, d, false);
        assert!(runs_ahead(&text), "{heads} rows of {d}");
        check(&text, &[("s", 4)]);
    }
}

#[test]
fn rows_that_are_long_or_single_or_overwritten_do_not() {
    // The third are so many that no part of them is a row of its own.
    for (heads, d, in_place) in [(1, 64, false), (2, 520, false), (127, 128, false), (8, 64, true)] {
        let text = norm_of_heads(heads, d, in_place);
        assert!(!runs_ahead(&text), "{heads} rows of {d}");
        check(&text, &[("s", 2)]);
    }
}
