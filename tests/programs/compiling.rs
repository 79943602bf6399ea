//! Compilations as others see them: who is told as they begin, the forms of a kernel, and pictures of steps.

use std::sync::{Arc, Mutex};

use fusewright::diff::options;
use fusewright::explain::{explain, kernels};
use fusewright::graph::Graph;
use fusewright::{Compiler, Options, PictureStep, Progress, Target, compile, picture_of, steps_picture};

const TEXT: &str = "graph @g(s: 1..; %x: f32[s, 8], %w: f32[8, 8]) {
  %a = silu %x {form = quotient}
  %b = mul %a, %x
  %c = matmul %b, %w {out = f32}
  %d = exp %c
  %e = mul %d, %c
  return %e
}
";

fn graph() -> Graph {
    TEXT.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_listener_hears_of_every_kernel_once() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    let progress = Progress::to(move |compiling| {
        let line = (compiling.name.to_owned(), compiling.number, compiling.of);
        told.lock().expect("nobody panics").push(line);
    });
    let compiled = compile(&graph(), &Target::Cpu, &Options { progress: progress.clone(), ..options() });
    let compiled = compiled.unwrap_or_else(|e| panic!("{e}"));
    let mut heard = heard.lock().expect("nobody panics").clone();
    heard.sort_by_key(|(_, number, _)| *number);
    let names: Vec<&str> = compiled.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    assert_eq!(names.len(), 2);
    assert_eq!(heard.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), names);
    assert!(heard.iter().enumerate().all(|(at, (_, number, of))| (*number, *of) == (at + 1, 2)));
    assert!(progress == progress.clone() && progress != Progress::to(|_| ()) && progress != Progress::default());
}

#[test]
fn the_forms_of_a_kernel_end_with_the_code() {
    let compiled = compile(&graph(), &Target::Cpu, &options()).unwrap_or_else(|e| panic!("{e}"));
    let compiler = Compiler::new(&Target::Cpu).unwrap_or_else(|e| panic!("{e}"));
    for region in compiled.fused.partition.kernels() {
        let body = region.expand_body().unwrap_or_else(|e| panic!("{e}"));
        let stages = compiler.stages(&region.name, &body).unwrap_or_else(|e| panic!("{e}"));
        let names: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
        assert_eq!(names[..4], ["body", "lowered", "expanded", "clif"]);
        assert_eq!(stages[0].bytes, body.to_string().into_bytes());
        assert!(stages.iter().all(|stage| !stage.bytes.is_empty()));
        let lowered = String::from_utf8_lossy(&stages[1].bytes).into_owned();
        assert!(lowered.starts_with(&format!("kernel @{}(", region.name)), "{lowered}");
    }
}

#[test]
fn a_picture_of_the_same_steps_is_the_same_picture() {
    let compiled = compile(&graph(), &Target::Cpu, &options()).unwrap_or_else(|e| panic!("{e}"));
    let report = explain(&compiled.fused).unwrap_or_else(|e| panic!("{e}"));
    let made = kernels(&compiled.fused, &report, &Target::Cpu).unwrap_or_else(|e| panic!("{e}"));
    let drawn = steps_picture("g", &compiled.fused, &report, &made).unwrap_or_else(|e| panic!("{e}"));
    let mut steps: Vec<PictureStep> = report
        .regions
        .iter()
        .map(|region| PictureStep::Kernel {
            name: region.name.clone(),
            ops: region.ops.clone(),
            bytes_fused: region.bytes_fused,
            bytes_unfused: region.bytes_unfused,
        })
        .collect();
    steps.insert(1, PictureStep::Apart("matmul".to_owned()));
    assert_eq!(picture_of("g", &steps).unwrap_or_else(|e| panic!("{e}")), drawn);
    let odd = [PictureStep::Apart("<b>".to_owned()), PictureStep::Apart("<b>".to_owned())];
    let odd = picture_of("&", &odd).unwrap_or_else(|e| panic!("{e}"));
    assert!(odd.contains("2 × &#60;b&#62;") || odd.contains("2 × &lt;b&gt;"), "{odd}");
}
