//! Whole models on a GPU. Where there is none, or no cuBLASLt, each test says so by name.
#![cfg(feature = "cuda")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fusewright::check::{cases, compare};
use fusewright::diff::{self, Verdict};
use fusewright::graph::Graph;
use fusewright::graph::interp::Symbols;
use fusewright::graph::text::{ParsedGraph, parse_graphs};
use fusewright::{
    CaptureOptions, CaptureSizes, CapturedProgram, Compiled, Compiler, DType, DeviceArgument, DeviceTensor, Error,
    HostTensor, KernelSchedule, Options, Program, ScheduleChoice, ScheduleTable, Target, compile, inputs, model,
    read_safetensors,
};
use fusewright_runtime::RuntimeError;
use fusewright_runtime::cuda::Stream;

const MODELS: [&str; 6] = [
    "qwen3_tiny_layer_bf16",
    "attention_masks",
    "aten_addrms_fp8tok_h4096_bfloat16",
    "decode_state",
    "ops_bf16",
    "ops_composites",
];

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(file)
}

/// A graph for the GPU of this machine, or none, which is said under the name of the test.
fn compiled(test: &str, graph: &Graph) -> Option<Compiled> {
    let target: Target = "cuda:sm_80".parse().expect("a target");
    match compile(graph, &target, &Options::default()) {
        Ok(compiled) => Some(compiled),
        Err(Error::Unavailable(reason)) => {
            println!("skipped: {test} ({reason})");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn models_give_what_they_are_stored_with() {
    for name in MODELS {
        let graph = model::open(&fixture(&format!("{name}.train.pt2"))).expect("the fixture opens");
        let Some(compiled) = compiled("models_give_what_they_are_stored_with", &graph) else { return };
        let stored = read_safetensors(&fixture(&format!("{name}.safetensors"))).expect("a file of tensors");
        for case in cases(&graph, &stored).expect("the file fits") {
            let given: Vec<&HostTensor> = case.inputs.iter().collect();
            let got = compiled.program.run(&given, 1).unwrap_or_else(|e| panic!("{name}: {e}"));
            let expected = case.expected.expect("results are stored");
            for check in compare(&graph, &case.inputs, &expected, &got).expect("typed") {
                assert!(check.passed(), "{name}: {check:?}");
            }
            assert_eq!(compiled.program.run(&given, 1).expect("it runs again"), got, "{name}: a second call");
        }
    }
}

/// Products and kernels on memory of the GPU: enqueued, captured, replayed, with new inputs at the same addresses.
#[test]
fn calls_on_device_memory_are_enqueued_and_captured() {
    let text = "graph @g(s: 1..; %x: bf16[s, 64], %w: bf16[32, 64], %r: bf16[s, 32]) {\n  %y = silu %x {form = quotient}\n  \
                %p = matmul %y, %w {transpose_b, out = bf16}\n  %n = add %r, %p\n  return %p, %n updates %r\n}\n";
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let Some(compiled) = compiled("calls_on_device_memory_are_enqueued_and_captured", &graph) else { return };
    let on = compiled.program.on_gpu().expect("its target is a GPU");
    let mut stream = on.gpu().stream().expect("a stream");
    let tensor = |seed: usize, shape: &[usize]| {
        let count: usize = shape.iter().product();
        let bytes = (0..count).flat_map(|i| (0x3f00 + ((i * 37 + seed) % 200) as u16).to_le_bytes()).collect();
        HostTensor { dtype: DType::BF16, shape: shape.to_vec(), bytes }
    };
    let there = |host: &HostTensor, stream: &Stream| -> Result<DeviceTensor, RuntimeError> {
        let buffer = on.gpu().buffer(host.bytes.len())?;
        buffer.upload(stream, &host.bytes)?;
        Ok(DeviceTensor { dtype: host.dtype, shape: host.shape.clone(), buffer })
    };
    let here = |device: &DeviceTensor, stream: &Stream| {
        let mut host = HostTensor::zeros(device.dtype, &device.shape);
        device.buffer.download(stream, 0, &mut host.bytes).unwrap_or_else(|e| panic!("{e}"));
        host
    };
    let inputs = [tensor(1, &[7, 64]), tensor(5, &[32, 64]), tensor(9, &[7, 32])];
    let [x, w, r] = inputs.each_ref().map(|host| there(host, &stream).unwrap_or_else(|e| panic!("{e}")));
    let arguments = [DeviceArgument::Read(&x), DeviceArgument::Read(&w), DeviceArgument::InOut(&r)];
    let calls = on.bind(&arguments, true).unwrap_or_else(|e| panic!("{e}"));
    assert!((0..calls.len()).all(|i| !calls.waits(i) && calls.label(i).is_some()));
    let expected = compiled.program.run(&inputs.each_ref(), 1).expect("it runs");
    calls.enqueue(&stream).unwrap_or_else(|e| panic!("{e}"));
    let product = calls.outputs()[0].as_ref().expect("a result of its own");
    assert_eq!((here(product, &stream), here(&r, &stream)), (expected[0].clone(), expected[1].clone()));
    let captured = stream.capture(|stream| calls.enqueue(stream).map_err(|e| panic!("{e}")));
    let replay = captured.unwrap_or_else(|e| panic!("{e}"));
    let others = [tensor(11, &[7, 64]), inputs[1].clone(), tensor(3, &[7, 32])];
    x.buffer.upload(&stream, &others[0].bytes).expect("it fits");
    r.buffer.upload(&stream, &others[2].bytes).expect("it fits");
    replay.launch(&stream).expect("it is launched");
    let expected = compiled.program.run(&others.each_ref(), 1).expect("it runs");
    let product = calls.outputs()[0].as_ref().expect("a result of its own");
    assert_eq!(here(&r, &stream), expected[1]);
    assert_eq!(product.shape, [7, 32]);
}

#[test]
fn tensors_that_do_not_fit_are_refused_by_name() {
    let text = "graph @g(s: 1..; %x: bf16[s, 64]) {\n  %y = exp %x\n  return %y\n}\n";
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let Some(compiled) = compiled("tensors_that_do_not_fit_are_refused_by_name", &graph) else { return };
    let on = compiled.program.on_gpu().expect("its target is a GPU");
    let buffer = on.gpu().buffer(128).expect("it is small");
    let x = DeviceTensor { dtype: DType::BF16, shape: vec![2, 64], buffer };
    let refused = |arguments: &[DeviceArgument<'_>], said: &str| {
        let error = on.bind(arguments, false).expect_err("does not fit").to_string();
        assert!(error.contains(said), "{error}");
    };
    refused(&[DeviceArgument::Read(&x)], "input `x` takes 256 bytes, its memory has 128");
    refused(&[DeviceArgument::Read(&x), DeviceArgument::Read(&x)], "takes 1 input, got 2");
    let short = DeviceTensor { shape: vec![1, 64], ..x };
    refused(&[DeviceArgument::InOut(&short)], "no output updates it");
}

/// Attention of a call's rows to each other between two regions, and a result whose rows lie elsewhere if there are more.
const LAYER: &str = include_str!("../captured/layer.fw");

fn captured(program: &Arc<Program>, split_at: &[&str], sizes: &[usize]) -> CapturedProgram {
    let sizes = CaptureSizes::new(sizes.iter().copied()).expect("some, and none is zero");
    let split_at = split_at.iter().map(|name| (*name).to_owned()).collect();
    let options = CaptureOptions { split_at, sizes, ..CaptureOptions::new("s") };
    CapturedProgram::new(Arc::clone(program), &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Values of a fixed sequence between −1 and 1, in eighths, so that short sums of their products are exact.
fn eighths(shape: &[usize], seed: usize) -> HostTensor {
    let value = |i: usize| ((i * 7 + seed * 5) % 17) as f32 / 8.0 - 1.0;
    let bytes = (0..shape.iter().product()).flat_map(|i| value(i).to_le_bytes()).collect();
    HostTensor { dtype: DType::F32, shape: shape.to_vec(), bytes }
}

/// Attention and products are enqueued for the rows of each call, all else is padded and replayed: the bits are those of other calls.
#[test]
fn captured_layers_give_the_bits_of_uncaptured_calls() {
    let graph: Graph = LAYER.parse().unwrap_or_else(|e| panic!("{e}"));
    let Some(compiled) = compiled("captured_layers_give_the_bits_of_uncaptured_calls", &graph) else { return };
    let program = Arc::new(compiled.program);
    let captured = captured(&program, &["sdpa", "matmul"], &[1, 4, 8, 16]);
    captured.prepare().unwrap_or_else(|e| panic!("{e}"));
    let graphs = captured.report().graphs;
    let pieces = captured.report().pieces.iter().filter(|piece| piece.captured).count();
    assert!(pieces >= 2 && graphs.len() == 4 * pieces, "{pieces} pieces: {graphs:?}");
    assert!(graphs.iter().all(|graph| graph.us > 0 && graph.cost.nodes > 0), "{graphs:?}");
    let weights = [eighths(&[32], 1), eighths(&[32, 96], 2), eighths(&[32, 32], 3)];
    for rows in (1..=17).chain((1..=17).rev()) {
        let x = eighths(&[rows, 32], rows);
        let given: Vec<&HostTensor> = [&x].into_iter().chain(&weights).collect();
        let expected = program.run(&given, 1).unwrap_or_else(|e| panic!("{rows} rows: {e}"));
        let found = captured.run(&given).unwrap_or_else(|e| panic!("{rows} rows: {e}"));
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!(found.as_ref() == Some(expected), "{rows} rows: output {at} has other bits");
        }
    }
    assert_eq!((captured.report().graphs.len(), captured.uncaptured()), (graphs.len(), 2));
    let x = eighths(&[5, 32], 5);
    let given: Vec<&HostTensor> = [&x].into_iter().chain(&weights).collect();
    let us = captured.time(&given).unwrap_or_else(|e| panic!("{e}"));
    assert!(us > 0.0, "{us} us");
}

/// Products within graphs, of padded rows: their sums are exact, in whatever order a library adds. A cache stays.
#[test]
fn products_are_captured_and_caches_stay() {
    let graph: Graph = include_str!("../captured/cache.fw").parse().unwrap_or_else(|e| panic!("{e}"));
    let Some(compiled) = compiled("products_are_captured_and_caches_stay", &graph) else { return };
    let program = Arc::new(compiled.program);
    let sizes = CaptureSizes::new([2, 8, 32]).expect("some, and none is zero");
    let kept = vec!["cache".to_owned()];
    let options = CaptureOptions { sizes, kept, distinct: true, ..CaptureOptions::new("s") };
    let captured = CapturedProgram::new(Arc::clone(&program), &options).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(captured.split(), []);
    let (m, mut cache) = (eighths(&[32, 16], 2), eighths(&[40, 16], 9));
    captured.set("cache", &cache).unwrap_or_else(|e| panic!("{e}"));
    for rows in [5usize, 1, 32, 33, 8, 3] {
        let x = eighths(&[rows, 32], rows);
        let slots = (0..rows as i64).map(|row| if row % 3 == 2 { -1 } else { (row * 7 + 3) % 40 });
        let bytes = slots.flat_map(i64::to_le_bytes).collect();
        let slots = HostTensor { dtype: DType::I64, shape: vec![rows], bytes };
        let found = captured.run(&[&x, &m, &slots]).unwrap_or_else(|e| panic!("{rows} rows: {e}"));
        let expected = program.run(&[&x, &m, &cache, &slots], 1).unwrap_or_else(|e| panic!("{rows} rows: {e}"));
        assert!(found == [None, Some(expected[1].clone())], "{rows} rows");
        cache = expected[0].clone();
        assert!(captured.get("cache").unwrap_or_else(|e| panic!("{e}")) == cache, "{rows} rows: the cache");
    }
    assert_eq!(captured.uncaptured(), 1);
}

/// Heads and rows of widths that are no powers of two.
const HEADS: &str = include_str!("heads.fw");

/// The code of every schedule that the rule gives them is their kernels, to the bit: of few rows, and of many where those
/// have code of their own.
#[test]
fn heads_of_any_width_give_the_bits_of_their_kernels() {
    let test = "heads_of_any_width_give_the_bits_of_their_kernels";
    let target: Target = "cuda:sm_80".parse().expect("a target");
    for ParsedGraph { graph, .. } in parse_graphs(HEADS).unwrap_or_else(|e| panic!("{e}")) {
        if compiled(test, &graph).is_none() {
            return;
        }
        let at = |rows: i64| -> Symbols {
            let value = |name: &str| if name == "s" { rows } else { 3 };
            graph.symbols().iter().map(|symbol| (symbol.name.clone(), value(&symbol.name))).collect()
        };
        let cases = [1, 5, 67].map(at);
        let verdict = diff::graph(&graph, &target, &cases, 7).unwrap_or_else(|e| panic!("{}: {e}", graph.name()));
        let Verdict::Equal(agreed) = verdict else { panic!("{}: {verdict:?}", graph.name()) };
        assert!(agreed.fallbacks.is_empty(), "{}: {agreed:?}", graph.name());
        let usual = compile(&graph, &target, &diff::options()).unwrap_or_else(|e| panic!("{}: {e}", graph.name()));
        let Some(table) = of_many(&usual, &target) else { continue };
        let options = Options { schedules: ScheduleChoice::Table(Arc::new(table)), ..diff::options() };
        let other = compile(&graph, &target, &options).unwrap_or_else(|e| panic!("{}: {e}", graph.name()));
        for symbols in &cases {
            let inputs = inputs::tensors(&graph, symbols, 7, inputs::Values::Edges).unwrap_or_else(|e| panic!("{e}"));
            let inputs: Vec<HostTensor> =
                inputs.iter().map(|input| HostTensor::of(input).expect("it has a memory form")).collect();
            let given: Vec<&HostTensor> = inputs.iter().collect();
            let run = |compiled: &Compiled| compiled.program.run(&given, 1).unwrap_or_else(|e| panic!("{e}"));
            for (few, many) in run(&usual).iter().zip(run(&other)) {
                let differs = diff::first_difference(few.dtype, &many.bytes, &few.bytes);
                assert!(differs.is_none(), "{}: {symbols:?}: {differs:?}", graph.name());
            }
        }
    }
}

/// A table by which launches of few rows have the code of those of many, if a kernel has such.
fn of_many(compiled: &Compiled, target: &Target) -> Option<ScheduleTable> {
    let compiler = Compiler::new(target).expect("this build has the backend");
    let mut table = ScheduleTable::empty(target);
    let mut any = false;
    for region in &compiled.fused.partition.regions {
        let body = region.expand_body().expect("a region's body is typed");
        let (_, kernel) = compiler.kernel(&region.name, &body).unwrap_or_else(|e| panic!("{}: {e}", region.name));
        let many = compiler.backend().schedules().and_then(|schedules| schedules.of(&kernel).many);
        if let Some((_, spread)) = many {
            table.insert(&kernel, KernelSchedule::uniform(spread), Vec::new());
            any = true;
        }
    }
    any.then_some(table)
}
