//! PTX of hand-built kernels: `ptxas` takes it without a spill, and it says what exactness needs.
#![cfg(feature = "cuda")]

#[allow(dead_code, reason = "fetching is a chore, not a test")]
#[path = "../../xtask/src/ptxas.rs"]
mod ptxas;
#[path = "../../xtask/src/skipped.rs"]
mod skipped;
#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::path::Path;

use fusewright_abi::{DType, Target};
use fusewright_codegen::backend::cuda::{EmitError, architectures, emit};
use fusewright_codegen::backend::{self, BackendError, Wanted};
use fusewright_codegen::kernel::expand::{Column, expand};
use fusewright_codegen::kernel::{Kernel, Order, Tree};
use skipped::skipped;

fn kernels() -> Vec<Kernel> {
    let tree = Order::Tree(Tree { vec: 8, threads: 128, ways: 2 });
    let odd = Order::Tree(Tree { vec: 4, threads: 70, ways: 3 });
    vec![
        support::elementwise(4096),
        support::elementwise(33),
        support::add_rms_norm_bf16(4096, tree),
        support::add_rms_norm_bf16(5003, odd),
        support::add_rms_norm_bf16(64, Order::Relaxed),
        support::add_rms_norm_token_quant(5120, tree, DType::F8E4M3, 448.0),
        support::add_rms_norm_token_quant(777, odd, DType::I8, 127.0),
        support::group_quant(4096, 128, Tree { vec: 8, threads: 16, ways: 2 }),
        support::group_quant(1000, 128, Tree::interleaved(96)),
        support::rope(8, 128),
        support::layout(64),
        expand(&support::activation(12288), Column::Cuda).expect("every function expands"),
    ]
}

#[test]
fn ptxas_takes_every_kernel_without_a_spill() {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools");
    let Some(tool) = ptxas::locate(&tools) else {
        skipped("ptxas_takes_every_kernel_without_a_spill", ptxas::MISSING);
        return;
    };
    for arch in architectures() {
        for kernel in kernels() {
            let emitted = emit(&kernel, arch).unwrap_or_else(|e| panic!("{} for {arch}: {e}", kernel.name));
            let report = ptxas::assemble(&tool, &emitted.ptx)
                .unwrap_or_else(|e| panic!("{} for {arch}: {e}\n{}", kernel.name, emitted.ptx));
            assert_eq!(report.spilled, 0, "{} for {arch}", kernel.name);
            assert!(report.registers > 0, "{} for {arch}: {report:?}", kernel.name);
        }
    }
}

#[test]
fn kernels_of_the_text_files_assemble_or_are_refused_by_name() {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools");
    let tool = ptxas::locate(&tools);
    if tool.is_none() {
        skipped("assembling the kernels of the text files", ptxas::MISSING);
    }
    let kernels = support::from_filetests();
    let (mut emitted, mut refused) = (0, Vec::new());
    for kernel in &kernels {
        let native = expand(kernel, Column::Cuda).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        match emit(&native, "sm_90") {
            Err(EmitError::Unsupported { place, what }) => refused.push(format!("{}: {place}: {what}", kernel.name)),
            Err(other) => panic!("{}: {other}\n{native}", kernel.name),
            Ok(code) => {
                emitted += 1;
                let report = tool.as_deref().map(|tool| ptxas::assemble(tool, &code.ptx));
                if let Some(Err(message)) = report {
                    panic!("{}: {message}\n{}", kernel.name, code.ptx);
                }
            }
        }
    }
    assert!(emitted * 10 >= kernels.len() * 7, "{emitted} of {}; refused:\n{}", kernels.len(), refused.join("\n"));
    println!("{emitted} of {}; refused:\n{}", kernels.len(), refused.join("\n"));
    assert!(refused.iter().all(|r| r.contains("segment `")), "{}", refused.join("\n"));
}

fn ptx(kernel: &Kernel, arch: &str) -> String {
    emit(kernel, arch).unwrap_or_else(|e| panic!("{} for {arch}: {e}", kernel.name)).ptx
}

#[test]
fn arithmetic_is_exact() {
    let tree = Order::Tree(Tree { vec: 8, threads: 128, ways: 2 });
    let text = ptx(&support::add_rms_norm_token_quant(4096, tree, DType::F8E4M3, 448.0), "sm_90");
    for exact in ["div.rn.f32", "add.rn.f32", "mul.rn.f32", "cvt.rn.satfinite.e4m3x2.f32"] {
        assert!(text.contains(exact), "no {exact} in\n{text}");
    }
    for inexact in ["mad.rn", ".nc.", "div.approx", "div.full", "\tsqrt.approx", "ex2.approx"] {
        assert!(!text.contains(inexact), "{inexact} in\n{text}");
    }
    // Approximate reciprocals begin what steps make exact: of a root, of that, and of the scale.
    let count = |what: &str| text.matches(what).count();
    assert_eq!((count("rsqrt.approx"), count("\trcp.approx")), (1, 2), "{text}");
    assert!(count("fma.rn.f32") >= 4, "{text}");
    let old = ptx(&support::add_rms_norm_token_quant(4096, tree, DType::F8E4M3, 448.0), "sm_80");
    assert!(!old.contains("e4m3x2"), "sm_80 has no packed fp8 conversion\n{old}");
}

#[test]
fn one_barrier_a_reduction_and_one_before_stores_in_place_of_what_is_read_again() {
    let tree = Order::Tree(Tree { vec: 8, threads: 128, ways: 2 });
    let odd = Order::Tree(Tree { vec: 4, threads: 70, ways: 3 });
    let barriers = |kernel: &Kernel| ptx(kernel, "sm_90").matches("bar.sync").count();
    assert_eq!(barriers(&support::elementwise(4096)), 0);
    assert_eq!(barriers(&support::add_rms_norm_bf16(5003, odd)), 2);
    assert_eq!(barriers(&support::add_rms_norm_token_quant(777, odd, DType::I8, 127.0)), 3);
    // In registers each thread has read what it overwrites.
    assert_eq!(barriers(&support::add_rms_norm_bf16(4096, tree)), 1);
    assert_eq!(barriers(&support::add_rms_norm_token_quant(4096, tree, DType::I8, 127.0)), 2);
    // The rotation in place needs its row staged: one barrier behind the copy, one before the stores.
    assert_eq!(barriers(&support::rope(8, 128)), 2);
}

#[test]
fn the_same_kernel_gives_the_same_bytes() {
    let kernel = support::rope(8, 128);
    assert_eq!(emit(&kernel, "sm_90"), emit(&kernel, "sm_90"));
}

#[test]
fn what_is_not_covered_is_refused_by_name() {
    let exp = support::activation(64).to_string().replace(" = exp ", " = tanh ");
    let exp: Kernel = exp.parse().expect("another function of the same kind");
    let error = emit(&exp, "sm_90").expect_err("`tanh` is expanded before emission").to_string();
    assert!(error.contains("`tanh` of f32") && error.contains("segment `row`, tanh"), "{error}");
    let wide = support::add_rms_norm_bf16(4096, Order::Tree(Tree::interleaved(2048)));
    let error = emit(&wide, "sm_90").expect_err("no block has 2048 threads").to_string();
    assert!(error.contains("2048 threads"), "{error}");
    assert!(emit(&exp, "sm_70").expect_err("not in the table").to_string().contains("sm_70"));
}

#[test]
fn the_backend_yields_both_stages_and_keeps_to_its_targets() {
    let kernel = support::elementwise(64);
    let target = |text: &str| text.parse::<Target>().expect("a target");
    let backend = backend::for_target(&target("cuda:sm_90")).expect("the feature is on");
    let stages = backend.emit(&kernel, &target("cuda:sm_90"), Wanted::Stages).expect("it is covered");
    let extensions: Vec<_> = stages.iter().map(|s| s.extension).collect();
    assert_eq!(extensions, ["schedules", "ll", "ptx"]);
    assert_eq!(stages[2].bytes, ptx(&kernel, "sm_90").into_bytes());
    for wrong in ["cpu", "cuda:sm_70"] {
        let error = backend.emit(&kernel, &target(wrong), Wanted::Stages).expect_err("not a target of this backend");
        assert!(matches!(error, BackendError::Target { .. }), "{error}");
    }
}

#[test]
fn rows_in_registers_move_by_vectors_and_are_read_once() {
    let tree = Order::Tree(Tree { vec: 8, threads: 128, ways: 2 });
    let count = |text: &str, what: &str| text.matches(what).count();
    let held = emit(&support::add_rms_norm_bf16(4096, tree), "sm_90").expect("there is code");
    // Four vectors of a thread, of two tensors and a weight, read; two tensors written.
    assert_eq!((count(&held.ptx, "ld.global.v4"), count(&held.ptx, "ld.global")), (12, 12), "{}", held.ptx);
    assert_eq!((count(&held.ptx, "st.global.v4"), count(&held.ptx, "st.global")), (8, 8), "{}", held.ptx);
    assert_eq!(held.launch.alignment, 16);
    // Sums of two bf16 at once where the architecture has them.
    let packed = |arch| count(&emit(&support::add_rms_norm_bf16(4096, tree), arch).expect("code").ptx, "add.rn.bf16x2");
    assert_eq!((packed("sm_80"), packed("sm_90")), (0, 16));
    // Codes of a group are stored with its scale by the threads that have it.
    let groups = support::group_quant(4096, 128, Tree { vec: 8, threads: 16, ways: 2 });
    let groups = emit(&groups, "sm_90").expect("there is code").ptx;
    assert!(count(&groups, "shfl.sync.bfly") > 0 && count(&groups, "bar") == 0, "{groups}");
}

/// Infinities of bf16 stay what they are as f32 unless the conversion clamps them: no form of a pair may forget that.
#[test]
fn conversions_that_clamp_compare_with_infinity() {
    let kernel = |store: &str, to: &str| {
        let text = format!(
            "kernel @k(s = extent(x, 0)) rows s {{
               param %x: bf16[s, 64] in
               param %out: {to} out
               segment @rows inner 1 {{
                 %0 = load x[lane + row*64] : row<bf16, 64>
                 %1 = cast %0 to f32 rne SAT
                 {store}
               }}
             }}"
        );
        move |clamps: &str| text.replace("SAT", clamps).parse::<Kernel>().unwrap_or_else(|e| panic!("{e}\n{text}"))
    };
    let bodies = [
        ("store out[lane + row*64], %1", "f32[s, 64]"),
        ("%2 = reduce max %1 over row nan propagate order tree(8, 4, 2)\n store out[row], %2", "f32[s, 1]"),
        (
            "%2 = mul %1, %1\n %3 = reduce add %2 over row nan propagate order tree(8, 4, 2)\n store out[row], %3",
            "f32[s, 1]",
        ),
        ("%2 = mul %1, %1\n %3 = cast %2 to bf16 rne\n store out[lane + row*64], %3", "bf16[s, 64]"),
    ];
    for (body, to) in bodies {
        let of = kernel(body, to);
        let comparisons = |clamps: &str| {
            let ptx = emit(&of(clamps), "sm_90").unwrap_or_else(|e| panic!("{body}: {e}")).ptx;
            ptx.matches("setp.eq").count()
        };
        assert!(comparisons("sat") > comparisons(""), "{body}");
    }
}

/// The assembler takes magnitudes for numbers: what is true of all numbers is asked of the operand itself.
#[test]
fn magnitudes_that_may_be_nan_are_compared_with_themselves() {
    let comparisons = |f: &str, bound: &str, made: &str| {
        let text = format!(
            "kernel @k(s = extent(x, 0)) rows s {{
               param %x: f32[s, 64] in
               param %out: bool[s, 64] out
               segment @rows inner 1 {{
                 %0 = load x[lane + row*64] : row<f32, 64>
                 %1 = add %0, %0
                 %2 = abs %1
                 {made}
                 %4 = literal f32 {bound}
                 %5 = {f} %3, %4
                 store out[lane + row*64], %5
               }}
             }}"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let ptx = emit(&kernel, "sm_90").unwrap_or_else(|e| panic!("{text}: {e}")).ptx;
        let of_floats = |line: &&str| line.contains("setp.") && line.contains(".f32");
        ptx.lines().filter(of_floats).map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let (same, turned) = ("%3 = abs %2", "%3 = neg %2");
    for (f, bound, made) in [("gt", "-2.0", same), ("ge", "-2.0", same), ("ge", "-0.0", same), ("lt", "2.0", turned)] {
        let found = comparisons(f, bound, made);
        assert!(
            !found.is_empty() && found.iter().all(|line| line.starts_with("setp.num.f32")),
            "{f} {bound}: {found:?}"
        );
    }
    for (f, bound, made) in [("gt", "2.0", same), ("gt", "0.0", same), ("lt", "-2.0", turned), ("le", "2.0", same)] {
        let found = comparisons(f, bound, made);
        assert!(!found.is_empty() && found.iter().all(|line| !line.contains("num")), "{f} {bound}: {found:?}");
    }
}

/// PTX reads 32 bits of a count: one of 64 bits is compared as it is.
#[test]
fn counts_of_64_bits_are_compared_as_they_are() {
    for (f, dtype) in [("shl", "i64"), ("shl", "u64"), ("shr", "u64"), ("shr", "i64")] {
        let text = format!(
            "kernel @k(s = extent(x, 0)) rows s {{
               param %x: {dtype}[s, 64] in
               param %n: {dtype}[s, 64] in
               param %out: {dtype}[s, 64] out
               segment @rows inner 1 {{
                 %0 = load x[lane + row*64] : row<{dtype}, 64>
                 %1 = load n[lane + row*64] : row<{dtype}, 64>
                 %2 = {f} %0, %1
                 store out[lane + row*64], %2
               }}
             }}"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let ptx = emit(&kernel, "sm_90").unwrap_or_else(|e| panic!("{f} of {dtype}: {e}")).ptx;
        let whole = ["setp.lt.u64", "setp.gt.u64", "min.u64", "min.s64"]
            .iter()
            .map(|op| ptx.matches(op).count())
            .sum::<usize>();
        // Addresses are shifted by constants.
        let by_register = |line: &&str| {
            line.trim_start().starts_with(&format!("{f}."))
                && line.rsplit(' ').next().is_some_and(|n| n.starts_with("%r"))
        };
        let shifts = ptx.lines().filter(by_register).count();
        assert!(shifts > 0 && whole == shifts, "{f} of {dtype}: {whole} of {shifts}\n{ptx}");
    }
}
