//! Programs on a device in memory of the host: the same commands in the same order as on a GPU.

use std::path::Path;
use std::sync::atomic::Ordering;

use fusewright_abi::Target;
use fusewright_graph::Graph;
use fusewright_graph::interp::Symbols;
use fusewright_runtime::capture::HostStream;

use super::host::HostDevice;
use super::*;
use crate::check::{self, cases};
use crate::compile::fuse;
use crate::diff::options;
use crate::inputs::{Sizes, Values, symbols, tensors};
use crate::program::build::{Built, build_at};
use crate::program::{Argument, Home, user_memory};
use crate::settled::Ahead;
use crate::{Compiler, HostTensor, Options, model, read_safetensors};

/// A program whose values lie on a device, with kernels of the CPU.
pub(super) fn built(graph: &Graph, fused: bool) -> Built {
    let options = Options { fuse: fused, ..options() };
    let gpu = Target::Cuda { arch: "sm_90".to_owned() };
    let fused = fuse(graph, &options, Some(&gpu), Ahead::Nothing).expect("the passes run");
    let compiler = Compiler::of(&Target::Cpu, &options).expect("this machine has a processor");
    let built = build_at(&fused.graph, &fused.partition, &compiler, Home::Device).expect("it is built");
    Built { program: built.program.attending(&fused.attention), ..built }
}

pub(super) fn device() -> Core<HostDevice> {
    Core::new(HostDevice::default(), HostStream::new())
}

/// Results of a call, where those that update inputs come from the tensors that they overwrite.
pub(super) fn run(
    core: &Core<HostDevice>,
    program: &Program,
    inputs: &[HostTensor],
    overwrite: bool,
) -> Vec<HostTensor> {
    let mut tensors = inputs.to_vec();
    let names: Vec<String> = program.graph.inputs().iter().map(|input| input.name.clone()).collect();
    let updated = |at: usize| program.graph.outputs().iter().any(|o| o.updates.as_deref() == Some(&names[at]));
    let mut arguments: Vec<Argument<'_>> = Vec::new();
    for (at, tensor) in tensors.iter_mut().enumerate() {
        arguments.push(if overwrite && updated(at) { Argument::InOut(tensor) } else { Argument::Read(tensor) });
    }
    let (key, planned) = program.planned(&Symbols::new(), &arguments, false).expect("the inputs fit");
    let results = core.call(program, &planned.plan, &key, &mut user_memory(&mut arguments, None));
    let results = results.unwrap_or_else(|e| panic!("{e}"));
    drop(arguments);
    let outputs = program.graph.outputs().iter().zip(results);
    let of_input = |name: &str| names.iter().position(|own| own == name).map(|at| tensors[at].clone());
    outputs.map(|(o, result)| result.or_else(|| of_input(o.updates.as_deref()?)).expect("a result")).collect()
}

pub(super) fn text(text: &str) -> Graph {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

pub(super) fn made(graph: &Graph, rows: i64) -> Vec<HostTensor> {
    let sizes = symbols(graph, &Sizes { rows: Some(rows), ..Sizes::default() }, rows).expect("all have values");
    let tensors = tensors(graph, &sizes, 7, Values::Ordinary).expect("typed");
    tensors.iter().map(|tensor| HostTensor::of(tensor).expect("there is memory")).collect()
}

/// Results on the device lie in the intervals of the graph, fused and unfused, overwriting inputs or not.
fn agrees(graph: &Graph, rows: i64) -> Built {
    let inputs = made(graph, rows);
    let expected = check::reference(graph, &inputs.iter().collect::<Vec<_>>()).expect("the interpreter runs");
    let expected: Vec<(usize, HostTensor)> = expected.into_iter().enumerate().collect();
    let mut last = None;
    for fused in [true, false] {
        let built = built(graph, fused);
        let core = device();
        for overwrite in [false, true] {
            let got = run(&core, &built.program, &inputs, overwrite);
            for check in check::compare(graph, &inputs, &expected, &got).expect("typed") {
                assert!(check.outside == 0, "fused {fused}, overwriting {overwrite}: {check:?}");
            }
        }
        last = last.or(Some(built));
    }
    last.expect("two were built")
}

#[test]
fn models_give_what_they_are_stored_with() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let (mut models, mut products) = (0, 0);
    for entry in std::fs::read_dir(&fixtures).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "pt2") {
            continue;
        }
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let graph = model::open(&path).unwrap_or_else(|e| panic!("{e}"));
        model::check_runnable(&graph).unwrap_or_else(|e| panic!("{name}: {e}"));
        let stored = name.split('.').next().expect("a name");
        let stored = read_safetensors(&fixtures.join(format!("{stored}.safetensors"))).expect("a file of tensors");
        let (built, core) = (built(&graph, true), device());
        for case in cases(&graph, &stored).expect("the file fits") {
            let got = run(&core, &built.program, &case.inputs, false);
            let expected = case.expected.expect("results are stored");
            for check in check::compare(&graph, &case.inputs, &expected, &got).expect("typed") {
                assert!(check.passed(), "{name}: {check:?}");
            }
        }
        models += 1;
        products += built.program.counts().matmuls;
    }
    assert!(models >= 20 && products >= 20, "{models} models, {products} products");
}

#[test]
fn a_second_call_allocates_prepares_and_waits_for_nothing() {
    let graph = text(
        "graph @g(s: 1..; %x: bf16[s, 64], %w: bf16[32, 64]) {\n  %y = silu %x {form = quotient}\n  \
         %p = matmul %y, %w {transpose_b, out = bf16}\n  %e = exp %p\n  return %e\n}\n",
    );
    let built = built(&graph, true);
    assert_eq!(built.fallbacks.len(), 0, "{:?}", built.fallbacks);
    let core = device();
    let inputs = made(&graph, 5);
    let first = run(&core, &built.program, &inputs, false);
    let counts = || {
        let HostDevice { allocations, prepared, waits, .. } = &core.hardware;
        [allocations, prepared, waits].map(|count| count.load(Ordering::Relaxed))
    };
    let before = counts();
    core.hardware.enqueued.lock().expect("nobody panicked").clear();
    assert_eq!(run(&core, &built.program, &inputs, false), first);
    let after = counts();
    // Two inputs up, one result down; nothing in between.
    assert_eq!([0, 1, 2].map(|i| after[i] - before[i]), [0, 0, 3]);
    assert_eq!(*core.hardware.enqueued.lock().expect("nobody panicked"), ["launch", "product", "launch"]);
    // A larger shape has a larger arena, a smaller one shares it.
    run(&core, &built.program, &made(&graph, 50), false);
    let large = counts()[0];
    run(&core, &built.program, &made(&graph, 3), false);
    assert_eq!(counts()[0] - large, 3, "memory for two inputs, and for no constants");
}

#[test]
fn views_are_copied_by_kernels_where_kernels_read_them() {
    let graph = text(
        "graph @g(s: 1..; %x: f32[s, 4, 6], %w: f32[5, 6]) {\n  %p = matmul %x, %w {transpose_b, out = f32}\n  \
         %t = permute %p {perm = [1, 0, 2]}\n  %r = reshape %t {shape = [4, s*5]}\n  %c = slice %r {axis = 0, start = 1, end = 3}\n  \
         return %p, %t, %c\n}\n",
    );
    let built = agrees(&graph, 3);
    assert!(built.program.counts().copies > 0 && built.fallbacks.is_empty(), "{:?}", built.fallbacks);
}

#[test]
fn results_of_products_are_written_in_the_order_in_which_they_are_read() {
    let graph = text(
        "graph @g(s: 1..; %x: f32[4, s, 6], %w: f32[4, 6, 5]) {\n  %p = matmul %x, %w {out = f32}\n  \
         %t = permute %p {perm = [1, 0, 2]}\n  %r = reshape %t {shape = [s, 20]}\n  %e = exp %r\n  return %e\n}\n",
    );
    let built = agrees(&graph, 3);
    assert_eq!(built.program.counts().copies, 0);
}

#[test]
fn what_no_device_has_code_for_runs_on_the_host_and_says_so() {
    let graph = text(
        "graph @g(s: 1..; %x: bf16[s, 8], %w: bf16[2, 8, 4], %ends: i32[2]) {\n  %y = exp %x\n  \
         %p = grouped_matmul %y, %w, %ends {out = bf16}\n  %z = neg %p\n  return %z\n}\n",
    );
    let built = built(&graph, true);
    let [fallback] = built.fallbacks.as_slice() else { panic!("one step: {:?}", built.fallbacks) };
    assert!(fallback.label.contains("grouped_matmul") && fallback.reason.contains("host"), "{fallback:?}");
    agrees(&graph, 6);
}

#[test]
fn products_of_codes_are_exact_where_the_library_takes_them() {
    let product = |lengths: &str| {
        let [n, k] = lengths.split(' ').collect::<Vec<_>>()[..] else { panic!("two lengths") };
        text(&format!(
            "graph @g(s: 1..; %x: f32[s, {k}], %w: i8[{n}, {k}]) {{\n  %q = cast %x {{to = i8, round = rne, saturate}}\n  \
             %p = matmul %q, %w {{transpose_b, out = i32}}\n  %f = cast %p {{to = f32, round = rne}}\n  return %f\n}}\n"
        ))
    };
    let taken = agrees(&product("32 48"), 5);
    assert!(taken.fallbacks.is_empty() && taken.program.counts().matmuls == 1, "{:?}", taken.fallbacks);
    // As vLLM has them: the right matrix as it lies, and a scale behind the sum.
    let graph = text(
        "graph @g(s: 1..; %x: f32[s, 48], %w: i8[48, 32]) {\n  %q = cast %x {to = i8, round = rne, saturate}\n  \
         %p = matmul %q, %w {out = f32}\n  %e = neg %p\n  return %e\n}\n",
    );
    let plain = agrees(&graph, 5);
    assert!(plain.fallbacks.is_empty() && plain.program.counts().matmuls == 1, "{:?}", plain.fallbacks);
    let ragged = agrees(&product("32 50"), 5);
    assert!(ragged.fallbacks.len() == 1 && ragged.fallbacks[0].reason.contains("host"), "{:?}", ragged.fallbacks);
}

#[test]
fn tensors_that_calls_overwrite_hold_the_new_values() {
    let graph = text(
        "graph @g(s: 1..; %x: f32[s, 8], %r: f32[s, 8], %q: f32[8, s]) {\n  %n = add %x, %r\n  \
         %t = permute %n {perm = [1, 0]}\n  %old = neg %r\n  return %old, %q, %n updates %r, %t updates %q\n}\n",
    );
    agrees(&graph, 4);
}

#[test]
fn rows_of_no_elements_are_sums_of_nothing() {
    let graph = text(
        "graph @g(s: 0.., k: 0..; %x: bf16[s, k], %w: bf16[3, k]) {\n  %p = matmul %x, %w {transpose_b, out = bf16}\n  return %p\n}\n",
    );
    let built = built(&graph, true);
    for (rows, k) in [(2, 0), (0, 4), (2, 4)] {
        let tensor = |rows: usize| HostTensor::zeros(DType::BF16, &[rows, k]);
        let got = run(&device(), &built.program, &[tensor(rows), tensor(3)], false);
        assert!(got[0].shape == [rows, 3] && got[0].bytes.iter().all(|&byte| byte == 0), "{got:?}");
    }
}
