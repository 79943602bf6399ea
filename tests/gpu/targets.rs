//! The kernels of exported models on targets that do not run here: PTX that `ptxas` takes without a spill, Ascend C or
//! a refusal by name.

use std::path::Path;

use fusewright::graph::Graph;
use fusewright::{Compiler, Fused, Options, Target, fuse_graph, model};
#[cfg(feature = "cuda")]
use {xtask::ptxas, xtask::skipped::skipped};

const MODELS: [&str; 3] =
    ["qwen3_tiny_layer_bf16", "aten_addrms_fp8tok_h4096_bfloat16", "aten_silu_grp128_h12288_bfloat16"];

fn models() -> impl Iterator<Item = (String, Fused)> {
    MODELS.iter().flat_map(|model| ["train", "core"].map(|form| format!("{model}.{form}.pt2"))).map(|file| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(&file);
        let graph = model::open(&path).expect("the fixture opens");
        (file, fuse_graph(&graph, &Options::default()).expect("the fixture fuses"))
    })
}

fn bodies(fused: &Fused) -> Vec<(String, Graph)> {
    let body = |r: &fusewright::FusedRegion| (r.name.clone(), r.expand_body().expect("a region's body is typed"));
    fused.partition.regions.iter().map(body).collect()
}

/// The assembler, or a line that says which test is not run for want of it.
#[cfg(feature = "cuda")]
fn assembler(test: &str) -> Option<std::path::PathBuf> {
    let found = ptxas::locate(&Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools"));
    if found.is_none() {
        skipped(test, ptxas::MISSING);
    }
    found
}

#[test]
#[cfg(feature = "cuda")]
fn every_kernel_assembles_for_nvidia_without_a_spill() {
    let Some(tool) = assembler("every_kernel_assembles_for_nvidia_without_a_spill") else { return };
    let mut assembled = 0;
    for arch in ["sm_90", "sm_100"] {
        let compiler = Compiler::new(&Target::Cuda { arch: arch.to_owned() }).expect("this build has the backend");
        for (file, fused) in models() {
            for (name, body) in bodies(&fused) {
                let artifact = compiler.artifact(&name, &body).unwrap_or_else(|e| panic!("{file}: {name}: {e}"));
                let ptx = String::from_utf8(artifact.payload.bytes).expect("PTX is text");
                let report = ptxas::assemble(&tool, &ptx).unwrap_or_else(|e| panic!("{file}: {name}: {e}"));
                assert_eq!(report.spilled, 0, "{file}: {name} for {arch}");
                assert!(artifact.launch.threads >= 32, "{file}: {name} for {arch}");
                assembled += 1;
            }
        }
    }
    assert!(assembled >= 2 * 15, "{assembled} kernels");
}

/// On a machine with a GPU: a sample of all combinations, each program against its kernels in the interpreter.
#[test]
#[cfg(feature = "cuda")]
fn kernels_are_their_text_on_an_nvidia_gpu() {
    let target = Target::Cuda { arch: "sm_80".to_owned() };
    if let Err(error) = fusewright_runtime::device_for(&target) {
        skipped("kernels_are_their_text_on_an_nvidia_gpu", error);
        return;
    }
    for combination in fusewright::matrix::sample(40, 1) {
        let found = combination.check(&target, 1).expect("checks");
        found.unwrap_or_else(|why| panic!("{combination}: {why}"));
    }
}

#[test]
#[cfg(feature = "ascend")]
fn every_kernel_has_ascend_c_or_a_reason() {
    let (mut written, mut refused) = (0, 0);
    for chip in ["910b1", "950"] {
        let compiler = Compiler::new(&Target::Ascend { chip: chip.to_owned() }).expect("this build has the backend");
        for (file, fused) in models() {
            for (name, body) in bodies(&fused) {
                match compiler.artifact(&name, &body) {
                    Ok(artifact) => {
                        let text = String::from_utf8(artifact.payload.bytes).expect("source is text");
                        assert!(text.contains("__aicore__"), "{file}: {name} for {chip}");
                        written += 1;
                    }
                    Err(error) => {
                        let message = error.to_string();
                        assert!(message.contains("no Ascend C for"), "{file}: {name} for {chip}: {message}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(written >= 12, "{written} written, {refused} refused");
}

#[test]
fn an_unknown_architecture_is_refused_by_name() {
    for target in ["cuda:sm_999", "ascend:310z9"] {
        let target: Target = target.parse().expect("the word is a target");
        let error = match Compiler::new(&target) {
            Err(error) => error.to_string(),
            Ok(compiler) => {
                let (_, fused) = models().next().expect("there are models");
                let (name, body) = bodies(&fused).swap_remove(0);
                compiler.artifact(&name, &body).expect_err("there is no such device").to_string()
            }
        };
        let (kind, detail) = (target.to_string(), error);
        let named = detail.contains("sm_999") || detail.contains("310z9") || detail.contains("lacks feature");
        assert!(named, "{kind}: {detail}");
    }
}
