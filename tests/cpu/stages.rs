//! Loops whose passes overlap in stages, for any number of passes.

use fusewright_abi::Target;
use fusewright_codegen::backend::{Backend, cpu::CpuBackend};

use crate::support::{check, kernel};

/// `y = (…((x + 1) / (y + 1) + 1) / (y + 1) …)` in place, so many divisions deep, and the sum of a row.
fn divisions(dtype: &str, depth: usize, dims: &str, n: &str) -> String {
    let mut chain = String::new();
    let mut last = "%fx".to_owned();
    for i in 0..depth {
        chain.push_str(&format!("%a{i} = add {last}, %one\n %d{i} = div %a{i}, %by\n"));
        last = format!("%d{i}");
    }
    format!(
        "kernel @divisions(s = extent(x, 0){dims}) rows s {{
           param %x: {dtype}[s, {n}] in
           param %y: {dtype}[s, {n}] inout
           param %z: f32[s] out
           segment @m inner 1 {{
             %x = load x[row*{n} + lane] : row<{dtype}, {n}>
             %y = load y[row*{n} + lane] : row<{dtype}, {n}>
             %fx = cast %x to f32 rne
             %fy = cast %y to f32 rne
             %one = literal f32 1.0
             %by = add %fy, %one
             {chain}
             %q = cast {last} to {dtype} rne
             %sum = reduce add {last} over row nan propagate order tree(16)
             store y[row*{n} + lane], %q
             store z[row], %sum
           }}
         }}"
    )
}

fn blocks(text: &str) -> usize {
    let stages = CpuBackend.emit(&kernel(text), &Target::Cpu).unwrap_or_else(|e| panic!("{e}"));
    String::from_utf8_lossy(&stages[0].bytes).matches("\nblock").count()
}

#[test]
fn long_chains_alone_are_cut() {
    let [short, long] = [1, 8].map(|depth| blocks(&divisions("f16", depth, "", "4096")));
    assert!(short < long, "{short} blocks of a short chain, {long} of a long one");
}

#[test]
fn every_number_of_passes() {
    for depth in [3, 5, 8] {
        for n in [1, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 80, 96, 112, 128, 1000] {
            for dtype in ["bf16", "f16", "f32"] {
                check(&divisions(dtype, depth, ", n = extent(x, 1)", "n"), &[("s", 3), ("n", n)]);
            }
            check(&divisions("bf16", depth, "", &n.to_string()), &[("s", 2)]);
        }
    }
}
