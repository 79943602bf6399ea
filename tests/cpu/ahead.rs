//! Loops whose passes compute the first half of the next one: which they are, and that no bit depends on it.

use crate::kernels::{SILU_MUL, silu_mul_group};
use crate::support::check;

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
fn every_length_is_the_same_bits_ahead_or_not() {
    for n in LENGTHS {
        for dtype in ["bf16", "f16", "f32"] {
            for coded in [true, false] {
                check(&gate(dtype, n, coded), &[("s", 3)]);
            }
        }
    }
}

#[test]
fn groups_go_ahead_each_by_itself() {
    for (n, size) in [(256, 128), (96, 32), (160, 64), (130, 65)] {
        check(&silu_mul_group(n, size), &[("s", 2)]);
    }
}

/// What the code generator says of its loops.
#[cfg(feature = "llvm")]
#[test]
fn long_chains_of_long_rows_are_cut_where_few_values_cross() {
    use crate::support::kernel;
    use fusewright_abi::Target;
    use fusewright_codegen::backend::{Backend, cpu_llvm::CpuLlvmBackend};

    let ahead = |text: &str| {
        let stages = CpuLlvmBackend.emit(&kernel(text), &Target::CPU_LLVM).unwrap_or_else(|e| panic!("{e}"));
        let text = String::from_utf8(stages[0].bytes.clone()).expect("text");
        text.lines().filter(|line| line.starts_with(';') && line.ends_with("a pass ahead")).count()
    };
    assert_eq!(ahead(&gate("bf16", 4096, false)), 1, "in pairs of chunks");
    assert_eq!(ahead(&gate("bf16", 64, false)), 1, "two passes are enough");
    assert_eq!(ahead(&gate("bf16", 63, false)), 0, "one pass has none before it");
    assert_eq!(ahead(&gate("f32", 32, false)), 1, "in chunks");
    assert_eq!(
        ahead(&gate("bf16", 4096, false).replace("%e = exp %neg", "%e = abs %neg").replace("div", "mul")),
        0,
        "short"
    );
}
