//! Rows of several runs of lanes that one loop reads side by side, as where experts' outputs are summed: what is asked
//! of memory before it is used, and that no bit depends on it.

use fusewright_abi::Target;
use fusewright_codegen::backend::cpu::CpuBackend;
#[cfg(feature = "llvm")]
use fusewright_codegen::backend::cpu_llvm::CpuLlvmBackend;
use fusewright_codegen::backend::{Backend, Wanted};

use crate::support::{check, kernel};

/// The sum of four weighted runs of `n` lanes.
fn sum_of_runs(dtype: &str, n: i64) -> String {
    let lanes = 4 * n;
    let runs: String = (0..4)
        .map(|i| format!("%r{i} = slice %m start {} len {n} step 1\n", i * n))
        .chain(["%a = add %r0, %r1\n %b = add %r2, %r3\n %y = add %a, %b\n".to_owned()])
        .collect();
    format!(
        "kernel @sum(s = extent(x, 0)) rows s {{
           param %x: {dtype}[s, 4, {n}] in
           param %w: f32[s, 4] in
           param %out: {dtype}[s, {n}] out
           segment @m inner 1 {{
             %x = load x[row*{lanes} + lane] : row<{dtype}, {lanes}>
             %f = cast %x to f32 rne
             %w = load w[row*4 + lane] : group<f32, {lanes}, {n}>
             %m = mul %f, %w
             {runs}
             %o = cast %y to {dtype} rne
             store out[row*{n} + lane], %o
           }}
         }}"
    )
}

#[test]
fn every_length_of_runs_is_the_same_bits() {
    for n in [1, 15, 16, 33, 256, 1040] {
        for dtype in ["bf16", "f16"] {
            for rows in [1, 3] {
                check(&sum_of_runs(dtype, n), &[("s", rows)]);
            }
        }
    }
}

/// How often a pass of the loop asks for what lies ahead of its use, as the text of a stage says.
fn asked(backend: &dyn Backend, target: &Target, text: &str, word: &str) -> usize {
    let stages = backend.emit(&kernel(text), target, Wanted::Stages).unwrap_or_else(|e| panic!("{e}"));
    let text = String::from_utf8(stages[0].bytes.clone()).expect("text");
    text.lines().filter(|line| line.contains(word)).count()
}

/// One run of each row of as many lanes.
fn one_run() -> String {
    let one = sum_of_runs("bf16", 256).replace("s, 4", "s, 1").replace("1024", "256").replace("row*4", "row");
    (0..4).fold(one, |text, i| text.replace(&format!("start {} ", i * 256), "start 0 "))
}

/// Short runs are asked for, one by one, and nothing else.
#[track_caller]
fn asks_for_short_runs(backend: &dyn Backend, target: &Target, word: &str) {
    let asked = |text: &str| asked(backend, target, text, word);
    assert_eq!(asked(&sum_of_runs("bf16", 256)), 4, "one for every run");
    assert_eq!(asked(&sum_of_runs("bf16", 4096)), 0, "a long run is foreseen");
    assert_eq!(asked(&one_run()), 0, "a row of one run");
}

#[cfg(feature = "llvm")]
#[test]
fn short_runs_are_asked_for_a_few_rows_ahead() {
    asks_for_short_runs(&CpuLlvmBackend, &Target::CPU_LLVM, "call void @llvm.prefetch");
}

/// Cranelift has no instruction for it on other processors.
#[cfg(all(target_arch = "x86_64", unix))]
#[test]
fn short_runs_are_asked_for_by_calls() {
    asks_for_short_runs(&CpuBackend, &Target::Cpu, "call fn");
}
