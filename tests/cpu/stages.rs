//! Loops whose passes overlap in stages, for any number of passes.

use crate::kernels::{SILU_MUL, silu_mul_group};
use crate::support::{blocks, check};

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

#[test]
fn long_chains_alone_are_cut_by_cranelift() {
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

/// A gate written over its input, and its codes and sum if they are asked for.
fn gate(dtype: &str, n: i64, coded: bool) -> String {
    let params = format!("param %q: f8e4m3[s, {n}] out\n param %sum: f32[s] out");
    let stores = format!(
        "%q = cast %y to f8e4m3 rne sat
         store q[row*{n} + lane], %q
         %total = reduce add %y over row nan propagate order tree(16)
         store sum[row], %total"
    );
    let (params, stores) = if coded { (params, stores) } else { (String::new(), String::new()) };
    format!(
        "kernel @gate(s = extent(x, 0)) rows s {{
           param %x: {dtype}[s, {n}] inout
           param %u: {dtype}[s, {n}] in
           {params}
           segment @m inner 1 {{
             %g = load x[row*{n} + lane] : row<{dtype}, {n}>
             %u = load u[row*{n} + lane] : row<{dtype}, {n}>
             {SILU_MUL}
             %yr = cast %y to {dtype} rne
             store x[row*{n} + lane], %yr
             {stores}
           }}
         }}"
    )
}

/// Lengths around one, two and more passes of 16 and of 32 lanes.
const LENGTHS: [i64; 14] = [1, 15, 16, 31, 32, 33, 47, 48, 63, 64, 65, 96, 127, 400];

#[test]
fn every_length_of_a_gate() {
    for n in LENGTHS {
        for dtype in ["bf16", "f16", "f32"] {
            for coded in [true, false] {
                check(&gate(dtype, n, coded), &[("s", 3)]);
            }
        }
    }
}

#[test]
fn passes_overlap_in_each_group_by_itself() {
    for (n, size) in [(256, 128), (96, 32), (160, 64), (130, 65)] {
        check(&silu_mul_group(n, size), &[("s", 2)]);
    }
}

/// What the code generator of LLVM says of its loops.
#[cfg(feature = "llvm")]
#[test]
fn long_chains_of_several_passes_overlap() {
    use fusewright_abi::Target;
    use fusewright_codegen::backend::{Backend, Wanted, cpu_llvm::CpuLlvmBackend};

    use crate::support::kernel;

    let overlapping = |text: &str| {
        let stages =
            CpuLlvmBackend.emit(&kernel(text), &Target::CPU_LLVM, Wanted::Stages).unwrap_or_else(|e| panic!("{e}"));
        let text = String::from_utf8(stages[0].bytes.clone()).expect("text");
        let said = text.lines().filter_map(|line| line.strip_prefix("; segment `m` has "));
        let counts = said.filter_map(|line| line.strip_suffix(" passes of a loop under way at once"));
        counts.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(overlapping(&gate("bf16", 4096, false)), "3", "in pairs of chunks");
    assert_eq!(overlapping(&gate("bf16", 64, false)), "3", "two passes are enough");
    assert_eq!(overlapping(&gate("bf16", 63, false)), "", "one pass has none before it");
    assert_eq!(overlapping(&gate("f32", 32, false)), "3", "in chunks");
    assert_ne!(overlapping(&divisions("f16", 8, ", n = extent(x, 1)", "n")), "", "of any length");
    assert_eq!(overlapping(&divisions("f16", 1, "", "4096")), "", "a short chain");
}
