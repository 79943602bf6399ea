//! Captured programs on the host: the bits of calls that are not captured, for every number of rows, whatever padding holds.

use std::sync::Arc;

use fusewright::diff::options;
use fusewright::graph::{Graph, InputKind};
use fusewright::inputs::{Sizes, Values, symbols, tensors};
use fusewright::{
    Argument, CaptureOptions, CaptureSizes, CapturedProgram, HostTensor, Options, Program, SplitStep, Target, Tiers,
    compile, model,
};

fn parsed(text: &str) -> Graph {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn program(graph: &Graph) -> Arc<Program> {
    let options = Options { tiers: Tiers::Off, ..options() };
    Arc::new(compile(graph, &Target::Cpu, &options).unwrap_or_else(|e| panic!("{e}\n{graph}")).program)
}

fn captured(program: &Arc<Program>, options: &CaptureOptions) -> CapturedProgram {
    CapturedProgram::new(Arc::clone(program), options).unwrap_or_else(|e| panic!("{e}\n{}", program.graph()))
}

/// Inputs for so many rows, `s`, with other symbols as given.
fn inputs(graph: &Graph, rows: usize, dims: &[(&str, i64)], seed: u64) -> Vec<HostTensor> {
    let dims = dims.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let sizes = Sizes { rows: Some(rows as i64), dims };
    let symbols = symbols(graph, &sizes, rows as i64).unwrap_or_else(|e| panic!("{e}"));
    let tensors = tensors(graph, &symbols, seed, Values::Ordinary).unwrap_or_else(|e| panic!("{e}"));
    tensors.iter().map(|t| HostTensor::of(t).expect("there is memory")).collect()
}

fn sizes(sizes: &[usize]) -> CaptureSizes {
    CaptureSizes::new(sizes.iter().copied()).expect("there are some, and none is zero")
}

/// Compares a captured program with the program, for so many rows.
fn check(graph: &Graph, program: &Program, captured: &CapturedProgram, rows: usize) {
    let tensors = inputs(graph, rows, &[], rows as u64);
    let given: Vec<&HostTensor> = tensors.iter().collect();
    let expected = program.run(&given, 1).unwrap_or_else(|e| panic!("{rows} rows: {e}"));
    let found = captured.run(&given).unwrap_or_else(|e| panic!("{rows} rows: {e}"));
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!(found.as_ref() == Some(expected), "{rows} rows: output {at} has other bits");
    }
}

/// A matrix product between two regions; results with rows and of another form.
const BLOCK: &str = "graph @block(s: 0..; %x: bf16[s, 64], %r: bf16[s, 64], %w: bf16[64], %m: bf16[64, 64]) {
  %h = add %x, %r
  %n = rms_norm %h, %w {eps = 1e-6, round = once}
  %p = matmul %n, %m {out = bf16}
  %y = silu %p {form = quotient}
  %t = permute %y {perm = [1, 0]}
  return %h, %y, %t
}
";

#[test]
fn every_number_of_rows_gives_the_bits_of_uncaptured_calls() {
    let graph = parsed(BLOCK);
    let program = program(&graph);
    let captured = captured(&program, &CaptureOptions::new("s"));
    assert_eq!(captured.split(), []);
    for rows in 0..=520 {
        check(&graph, &program, &captured, rows);
    }
    assert_eq!(captured.uncaptured(), 1 + 8, "none, and more than the largest size");
    let report = captured.report();
    let sizes = CaptureSizes::default();
    assert_eq!(report.graphs.len(), report.pieces.len() * sizes.all().len());
    assert!(report.graphs.iter().all(|graph| graph.cost.nodes >= 3 && graph.cost.bytes > 0), "{:?}", report.graphs);
    // The memory is that of the largest size: four inputs, and at most four values at once.
    assert!(report.pool_bytes <= 8 * 512 * 64 * 2, "{} bytes", report.pool_bytes);
    assert!(report.pool_bytes * 20 < report.apart_bytes, "{} of {}", report.pool_bytes, report.apart_bytes);
}

#[test]
fn named_ops_are_split_off_and_beforehand_is_as_lazily() {
    let graph = parsed(BLOCK);
    let program = program(&graph);
    let split_at = vec!["matmul".to_owned()];
    let chosen = CaptureOptions { split_at, sizes: sizes(&[2, 8, 32]), ..CaptureOptions::new("s") };
    let [lazy, ready] = [(); 2].map(|()| captured(&program, &chosen));
    ready.prepare().expect("records");
    let order: Vec<usize> = ready.report().graphs.iter().map(|graph| graph.rows).collect();
    assert_eq!(order, [32, 32, 8, 8, 2, 2]);
    let compiled = program.code().compiled;
    for rows in [5, 1, 32, 33, 0, 2, 8] {
        check(&graph, &program, &ready, rows);
        check(&graph, &program, &lazy, rows);
    }
    assert_eq!((ready.report().graphs.len(), lazy.report().graphs.len()), (6, 6));
    assert_eq!(program.code().compiled, compiled, "nothing compiles while calls are served");
    let [split] = lazy.split() else { panic!("one step is split off: {:?}", lazy.split()) };
    assert!(split.step.contains("matmul") && split.reason.contains("to be split off"), "{split:?}");
    let pieces: Vec<bool> = lazy.report().pieces.iter().map(|piece| piece.captured).collect();
    assert_eq!(pieces, [true, false, true]);
    let unknown = CaptureOptions { split_at: vec!["attention".to_owned()], ..CaptureOptions::new("s") };
    let error = CapturedProgram::new(program, &unknown).map(drop).expect_err("there is none").to_string();
    assert!(error.contains("no step") && error.contains("`attention`"), "{error}");
}

#[test]
fn what_does_not_keep_rows_apart_runs_for_the_rows_of_the_call() {
    let cases = [
        ("sum", "%a = reduce %x {op = add, axes = [0]}\n  %y = exp %a", "it combines rows"),
        ("count", "%n = size_of {dim = s}\n  %c = cast %n {to = f32}\n  %y = mul %x, %c", "it counts the rows"),
        ("last", "%l = slice %x {axis = 0, start = s - 1, end = s}\n  %y = exp %l", "it takes some of the rows"),
        ("first", "%l = slice %x {axis = 0, start = 0, end = 1}\n  %y = exp %l", "it takes some of the rows"),
        ("columns", "%t = permute %x {perm = [1, 0]}\n  %y = reduce %t {op = max, axes = [1]}", "it combines rows"),
        ("twice", "%y = cat %x, %x {axis = 0}", "rows"),
        ("gram", "%y = matmul %x, %x {transpose_b, out = f32}", "along two of its axes"),
    ];
    for (name, body, reason) in cases {
        let text = format!("graph @{name}(s: 1..; %x: f32[s, 8]) {{\n  {body}\n  %z = exp %x\n  return %y, %z\n}}\n");
        let graph = parsed(&text);
        let program = program(&graph);
        let captured = captured(&program, &CaptureOptions { sizes: sizes(&[1, 4, 8, 16]), ..CaptureOptions::new("s") });
        let split = captured.split();
        assert!(split.iter().any(|split| split.reason.contains(reason)), "{name}: {split:?}");
        // In both directions, so that what is behind a call's rows was other calls'.
        for rows in (1..=17).chain((1..=17).rev()) {
            check(&graph, &program, &captured, rows);
        }
    }
}

/// Attention of a call's rows to each other, between what is recorded.
const ATTENTION: &str = include_str!("../captured/attention.fw");

#[test]
fn attention_sees_the_rows_of_the_call_alone() {
    let graph = parsed(ATTENTION);
    let program = program(&graph);
    let captured = captured(&program, &CaptureOptions { sizes: sizes(&[4, 8, 16]), ..CaptureOptions::new("s") });
    assert!(captured.split().iter().any(|split| split.step.contains("sdpa")), "{:?}", captured.split());
    let pieces = captured.report().pieces;
    assert!(pieces.iter().filter(|piece| piece.captured).count() >= 2, "{pieces:?} {:?}", captured.split());
    for rows in (1..=17).chain((1..=17).rev()) {
        check(&graph, &program, &captured, rows);
    }
}

/// A cache that is written at slots and read by positions.
const CACHE: &str = "graph @cache(s: 1.., n: 1..; %cache: f32[n, 8], %x: f32[s, 8], %slots: i64[s], %at: i64[s]) {
  %y = exp %x
  %new = scatter %cache, %slots, %y {axis = 0}
  %old = gather %cache, %at {axis = 0}
  %z = add %old, %x
  return %new updates %cache, %z
}
";

fn integers(values: impl IntoIterator<Item = i64>) -> HostTensor {
    let bytes: Vec<u8> = values.into_iter().flat_map(i64::to_le_bytes).collect();
    HostTensor { dtype: fusewright::DType::I64, shape: vec![bytes.len() / 8], bytes }
}

#[test]
fn padding_writes_to_no_slot_of_a_cache() {
    const SLOTS: i64 = 40;
    let graph = parsed(CACHE);
    let program = program(&graph);
    let chosen = CaptureOptions {
        dims: [("n".to_owned(), SLOTS)].into(),
        kept: vec!["cache".to_owned()],
        sizes: sizes(&[1, 8, 16]),
        ..CaptureOptions::new("s")
    };
    let captured = captured(&program, &chosen);
    assert!(captured.split().iter().all(|split| !split.step.contains("scatter")), "{:?}", captured.split());
    let mut cache = inputs(&graph, 1, &[("n", SLOTS)], 7).swap_remove(0);
    captured.set("cache", &cache).expect("it is of its type");
    for rows in (0..=18).chain([3, 1, 11]).filter(|&rows| rows > 0) {
        let x = &inputs(&graph, rows, &[("n", SLOTS)], rows as u64)[1];
        let slots = integers((0..rows as i64).map(|row| if row % 3 == 2 { -1 } else { (row * 7 + 3) % SLOTS }));
        let at = integers((0..rows as i64).map(|row| (row * 11) % SLOTS));
        let found = captured.run(&[x, &slots, &at]).unwrap_or_else(|e| panic!("{rows} rows: {e}"));
        let mut arguments =
            [Argument::InOut(&mut cache), Argument::Read(x), Argument::Read(&slots), Argument::Read(&at)];
        let expected = program.run_in_place(&mut arguments, 1).unwrap_or_else(|e| panic!("{e}"));
        assert!(found == expected, "{rows} rows");
        assert!(captured.get("cache").expect("it is kept") == cache, "{rows} rows: the cache has other bits");
    }
    assert_eq!(captured.uncaptured(), 2);
}

#[test]
fn slots_that_are_computed_are_not_recorded() {
    let text =
        CACHE.replace("%new = scatter %cache, %slots, %y", "%two = add %slots, %at\n  %new = scatter %cache, %two, %y");
    let graph = parsed(&text);
    let chosen = CaptureOptions {
        dims: [("n".to_owned(), 40)].into(),
        kept: vec!["cache".to_owned()],
        sizes: sizes(&[8]),
        ..CaptureOptions::new("s")
    };
    let program = program(&graph);
    let captured = captured(&program, &chosen);
    let said: Vec<&str> = captured.split().iter().map(|split| split.reason.as_str()).collect();
    assert!(said.iter().any(|said| said.contains("padding rows write nothing")), "{said:?}");
    let x = &inputs(&graph, 3, &[("n", 40)], 3)[1];
    let (slots, at) = (integers([4, 5, 6]), integers([0, 1, 0]));
    captured.run(&[x, &slots, &at]).expect("runs");
    let cache = captured.get("cache").expect("it is kept");
    let written: Vec<usize> =
        (0..40).filter(|row| cache.bytes[row * 32..][..32].iter().any(|&byte| byte != 0)).collect();
    assert_eq!(written, [4, 6], "the last of two that are one is what stays");
}

#[test]
fn buffers_of_a_model_stay_from_call_to_call() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/decode_state.train.pt2");
    let graph = model::open(&file).unwrap_or_else(|e| panic!("{e}"));
    let program = program(&graph);
    let Some(symbol) = graph.symbols().first() else {
        // Without rows nothing can be captured, and that is said.
        let error =
            CapturedProgram::new(program, &CaptureOptions::new("s")).map(drop).expect_err("no rows").to_string();
        assert!(error.contains("no symbol `s`"), "{error}");
        return;
    };
    let chosen = CaptureOptions { sizes: sizes(&[1, 4, 8]), ..CaptureOptions::new(&symbol.name) };
    let captured = captured(&program, &chosen);
    let mut state = program.state().expect("the file has the buffers");
    for rows in [1, 3, 2] {
        let tensors = inputs(&graph, rows, &[], rows as u64);
        let found = captured.run(&tensors.iter().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{rows} rows: {e}"));
        let mut arguments: Vec<Argument<'_>> = tensors.iter().map(Argument::Read).collect();
        let expected = program.run_with_state(&mut state, &mut arguments, 1).unwrap_or_else(|e| panic!("{e}"));
        assert!(found == expected, "{rows} rows");
        for (name, tensor) in state.buffers() {
            assert!(captured.get(name).expect("it is kept") == *tensor, "{rows} rows: {name}");
        }
    }
}

#[test]
fn calls_of_many_threads_follow_each_other() {
    let graph = parsed(BLOCK);
    let program = program(&graph);
    let captured = captured(&program, &CaptureOptions { sizes: sizes(&[4, 16]), ..CaptureOptions::new("s") });
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (graph, program, captured) = (&graph, &program, &captured);
            scope.spawn(move || (0..20).for_each(|call| check(graph, program, captured, (thread * 5 + call) % 18)));
        }
    });
    assert_eq!(captured.report().graphs.len(), 2 * captured.report().pieces.len());
}

#[test]
fn calls_and_options_that_do_not_fit_are_named() {
    let graph = parsed(CACHE);
    let program = program(&graph);
    let of = |change: &dyn Fn(&mut CaptureOptions)| {
        let mut chosen = CaptureOptions { dims: [("n".to_owned(), 4)].into(), ..CaptureOptions::new("s") };
        change(&mut chosen);
        CapturedProgram::new(Arc::clone(&program), &chosen)
    };
    let refused = |change: &dyn Fn(&mut CaptureOptions)| of(change).map(drop).expect_err("does not fit").to_string();
    for (said, error) in [
        ("no symbol `t`", refused(&|chosen| chosen.rows = "t".to_owned())),
        ("do not say what symbol `n` is", refused(&|chosen| chosen.dims.clear())),
        ("symbol `n` is 0, outside", refused(&|chosen| chosen.dims.extend([("n".to_owned(), 0)]))),
        ("no symbol `m`", refused(&|chosen| chosen.dims.extend([("m".to_owned(), 1)]))),
        ("no input `y`", refused(&|chosen| chosen.kept.push("y".to_owned()))),
        ("it has rows", refused(&|chosen| chosen.kept.push("x".to_owned()))),
    ] {
        assert!(error.contains(said), "no `{said}` in: {error}");
    }
    let captured = of(&|chosen| chosen.kept.push("cache".to_owned())).unwrap_or_else(|e| panic!("{e}"));
    let tensors = inputs(&graph, 3, &[("n", 4)], 1);
    let error = captured.run(&[&tensors[1]]).expect_err("two are missing").to_string();
    assert!(error.contains("takes 3 inputs, got 1"), "{error}");
    let wide = HostTensor::zeros(fusewright::DType::F32, &[3, 9]);
    let error = captured.run(&[&wide, &tensors[2], &tensors[3]]).expect_err("it is wider").to_string();
    assert!(error.contains("`x`") && error.contains("must be 8"), "{error}");
    let error = captured.set("cache", &wide).expect_err("it is another type").to_string();
    assert!(error.contains("`cache` is f32[4, 8]"), "{error}");
    assert!(captured.get("x").is_err());
    // A call that did not fit leaves the program usable.
    captured.run(&[&tensors[1], &integers([0, 1, -1]), &integers([0; 3])]).expect("fits");
    // A graph that takes few rows is captured for few.
    let graph = parsed("graph @few(s: 2..9; %x: f32[s, 8]) {\n  %y = exp %x\n  return %y\n}\n");
    let program = self::program(&graph);
    let captured = self::captured(&program, &CaptureOptions::new("s"));
    captured.prepare().expect("records");
    assert_eq!(captured.report().graphs.iter().map(|graph| graph.rows).collect::<Vec<_>>(), [8, 4, 2]);
    (2..=9).for_each(|rows| check(&graph, &program, &captured, rows));
}

#[test]
fn in_place_updates_of_what_calls_bring_are_results() {
    assert!(matches!(parsed(CACHE).inputs()[0].kind, InputKind::User));
    let text = "graph @residual(s: 1..; %h: f32[s, 16], %x: f32[s, 16]) {\n  %n = add %h, %x\n  %y = exp %n\n  \
                return %n updates %h, %y\n}\n";
    let graph = parsed(text);
    let program = program(&graph);
    let captured = captured(&program, &CaptureOptions { sizes: sizes(&[1, 2, 4]), ..CaptureOptions::new("s") });
    (1..=5).for_each(|rows| check(&graph, &program, &captured, rows));
}

#[test]
fn a_layer_of_a_model_is_captured_but_for_its_attention() {
    for form in ["train", "core"] {
        let file =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/qwen3_tiny_layer_bf16.{form}.pt2"));
        let graph = model::open(&file).unwrap_or_else(|e| panic!("{e}"));
        let program = program(&graph);
        let rows = &graph.symbols()[0].name;
        let captured = captured(&program, &CaptureOptions { sizes: sizes(&[2, 8, 16]), ..CaptureOptions::new(rows) });
        for rows in [3, 16, 2, 17, 9, 5] {
            check(&graph, &program, &captured, rows);
        }
        // As one op, or as products and a softmax of their own between them.
        let pieces: Vec<bool> = captured.report().pieces.iter().map(|piece| piece.captured).collect();
        assert_eq!(pieces, [true, false, true], "{form}: {:#?}", captured.split());
        let attends = |split: &SplitStep| ["sdpa", "matmul", "softmax"].iter().any(|op| split.step.contains(op));
        assert!(captured.split().iter().all(attends), "{form}: {:#?}", captured.split());
    }
}
