//! Whole graphs on the host model of an NPU, through the driver and the stand-in of its runtime. All results are SIMULATED.
//! Where there is no compiler of C++, each test says so by name.
#![cfg(feature = "ascend")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fusewright::check::{cases, compare};
use fusewright::graph::Graph;
use fusewright::graph::interp::Symbols;
use fusewright::inputs::{Sizes, Values, symbols, tensors};
use fusewright::matrix::{self, Outcome};
use fusewright::{
    CacheChoice, CaptureOptions, CaptureSizes, CapturedProgram, Compiled, Error, HostTensor, Options, Target, compile,
    model, read_safetensors,
};
use xtask::skipped::skipped;

/// Models whose regions are kernels there, beside products that the host computes and ops that have none.
const MODELS: [&str; 4] =
    ["aten_addrms_fp8tok_h4096_bfloat16", "aten_silu_grp128_h12288_bfloat16", "qwen3_tiny_layer_bf16", "decode_state"];

/// Two regions with a product between them, and a result whose rows lie apart for fewer of them.
const BLOCK: &str = "graph @block(s: 0..; %x: f32[s, 64], %r: f32[s, 64], %w: f32[64], %m: f32[64, 64]) {
  %h = add %x, %r
  %n = rms_norm %h, %w {eps = 1e-6, round = once}
  %p = matmul %n, %m {out = f32}
  %y = silu %p {form = quotient}
  return %h, %y
}
";

/// Rows of which every core of every chip has several, and not all equally many.
const MORE_ROWS: usize = 150;

/// What no row changes, stored for each: a number that two vectors take from the scalar unit, lane numbers as floats, and parts,
/// conversions and reductions of a weight.
const REPEATED: [&str; 5] = [
    "%o = iota {type = f32[s, 1], axis = 1}\n  %i = iota {type = i64[s, 1], axis = 1}\n  \
     %c = cast %i {to = f32, round = rne, saturate = true}\n  %y = mul %c, %o\n  %z = add %y, %x",
    "%i = iota {type = i32[s, 99], axis = 1}\n  %y = cast %i {to = f32}\n  %z = add %y, %x",
    "%b = expand %w {shape = [s, 99]}\n  %y = reduce %b {op = add, axes = [1]}\n  %z = cast %y {to = f16}",
    "%b = expand %w {shape = [s, 99]}\n  %y = cast %b {to = f16}\n  %z = cast %b {to = i8, saturate = true}",
    "%e = exp %w\n  %p = slice %e {axis = 0, start = 8, end = 40}\n  %y = expand %p {shape = [s, 32]}\n  \
     %i = iota {type = i32[s, 99], axis = 1}\n  %z = add %i, %i",
];

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(file)
}

/// What is compiled once is kept for the next test run.
fn options() -> Options {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("npu");
    Options { cache: CacheChoice::Folder(folder), ..Options::default() }
}

/// A graph for a chip of the host model, or none without a compiler of C++, which is said under the name of the test.
fn compiled(test: &str, graph: &Graph, chip: &str, options: &Options) -> Option<Compiled> {
    let target: Target = format!("ascend-sim:{chip}").parse().expect("a target");
    match compile(graph, &target, options) {
        Ok(compiled) => Some(compiled),
        Err(Error::Unavailable(reason)) if reason.contains("compiler of C++") => {
            skipped(test, reason);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn parsed(text: &str) -> Graph {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Inputs of so many rows.
fn inputs(graph: &Graph, rows: usize) -> Vec<HostTensor> {
    let sizes = Sizes { rows: Some(rows as i64), ..Sizes::default() };
    let sizes = symbols(graph, &sizes, rows as i64).expect("all have values");
    let made = tensors(graph, &sizes, rows as u64, Values::Ordinary).expect("typed");
    made.iter().map(|tensor| HostTensor::of(tensor).expect("there is memory")).collect()
}

#[test]
fn models_give_what_they_are_stored_with() {
    for name in MODELS {
        let graph = model::open(&fixture(&format!("{name}.train.pt2"))).expect("the fixture opens");
        // Only newer chips have the formats of eight bits.
        let chip = if name.contains("fp8") || name.contains("grp128") { "950" } else { "910b1" };
        let test = "models_give_what_they_are_stored_with";
        let Some(compiled) = compiled(test, &graph, chip, &options()) else { return };
        assert!(compiled.program.simulated().is_some_and(|soc| soc.starts_with("Ascend9")));
        assert!(compiled.program.counts().kernels > 0, "{name}: {:?}", compiled.fallbacks);
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

#[test]
fn captured_calls_give_the_bits_of_others() {
    let graph = parsed(BLOCK);
    let Some(compiled) = compiled("captured_calls_give_the_bits_of_others", &graph, "910b1", &options()) else {
        return;
    };
    let program = Arc::new(compiled.program);
    let sizes = CaptureSizes::new([1, 4, 16]).expect("some");
    let capture = CaptureOptions { sizes, ..CaptureOptions::new("s") };
    for split_at in [vec![], vec!["matmul".to_owned()]] {
        let pieces = if split_at.is_empty() { 1 } else { 2 };
        let capture = CaptureOptions { split_at, ..capture.clone() };
        let captured = CapturedProgram::new(Arc::clone(&program), &capture).unwrap_or_else(|e| panic!("{e}"));
        captured.prepare().unwrap_or_else(|e| panic!("{e}"));
        for rows in [3, 16, 1, MORE_ROWS, 4, 3] {
            let given = inputs(&graph, rows);
            let given: Vec<&HostTensor> = given.iter().collect();
            let expected: Vec<Option<HostTensor>> =
                program.run(&given, 1).unwrap_or_else(|e| panic!("{e}")).into_iter().map(Some).collect();
            let found = captured.run(&given).unwrap_or_else(|e| panic!("{rows} rows: {e}"));
            assert!(found == expected, "{rows} rows have other bits");
        }
        assert_eq!(captured.report().graphs.len(), 3 * pieces);
    }
}

#[test]
fn inputs_are_overwritten_where_they_lie() {
    let text = "graph @g(s: 1..; %x: f32[s, 96], %r: f32[s, 96]) {\n  %y = add %x, %r\n  %z = mul %y, %y\n  \
                return %z, %y updates %r\n}\n";
    let graph = parsed(text);
    let Some(compiled) = compiled("inputs_are_overwritten_where_they_lie", &graph, "910b1", &options()) else { return };
    let given = inputs(&graph, MORE_ROWS);
    let apart = compiled.program.run(&given.iter().collect::<Vec<_>>(), 1).unwrap_or_else(|e| panic!("{e}"));
    let (results, placement) =
        compiled.program.run_overwriting(&Symbols::new(), given, 1).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(results, apart);
    assert!(placement.copies.is_empty() && placement.updates.iter().all(|update| update.reason.is_none()));
}

#[test]
fn what_is_the_same_for_all_rows_is_stored_for_each() {
    let test = "what_is_the_same_for_all_rows_is_stored_for_each";
    for chip in ["910b1", "310p3", "950"] {
        for body in REPEATED {
            let graph =
                parsed(&format!("graph @g(s: 1..; %w: f32[99], %x: f32[s, 99]) {{\n  {body}\n  return %y, %z\n}}\n"));
            let Some(found) = compiled(test, &graph, chip, &options()) else { return };
            assert!(found.program.counts().kernels > 0, "{chip}: {body}: {:?}", found.fallbacks);
            let host = compile(&graph, &"cpu".parse().expect("a target"), &options()).unwrap_or_else(|e| panic!("{e}"));
            for rows in [3, MORE_ROWS] {
                let given = inputs(&graph, rows);
                let refs: Vec<&HostTensor> = given.iter().collect();
                let got = found.program.run(&refs, 1).unwrap_or_else(|e| panic!("{chip}: {body}: {rows} rows: {e}"));
                let expected = host.program.run(&refs, 1).unwrap_or_else(|e| panic!("{e}"));
                let expected: Vec<(usize, HostTensor)> = expected.into_iter().enumerate().collect();
                for check in compare(&graph, &given, &expected, &got).expect("typed") {
                    assert!(check.passed(), "{chip}: {body}: {rows} rows: {check:?}");
                }
            }
        }
    }
}

/// As PyTorch writes rows into a cache, and reads rows of a table, at places of which negative ones count from the end.
#[test]
fn places_from_the_end_are_found_by_the_scalar_unit() {
    let test = "places_from_the_end_are_found_by_the_scalar_unit";
    let cpu: Target = "cpu".parse().expect("a target");
    for (chip, int) in [("910b1", "i64"), ("950", "i32"), ("310p3", "i64")] {
        let graph = parsed(&format!(
            "graph @g(s: 0..; %cache: f16[400, 48], %table: f16[9, 48], %x: f16[s, 48], %at: {int}[s]) {{
  %zero = literal {int} 0
  %below = lt %at, %zero
  %rows = literal {int} 400
  %moved = add %at, %rows
  %place = select %below, %moved, %at
  %y = exp %x
  %new = scatter %cache, %place, %y {{axis = 0}}
  %few = literal {int} 9
  %back = add %at, %few
  %last = select %below, %back, %zero
  %read = gather %table, %last {{axis = 0}}
  %z = mul %read, %x
  return %new updates %cache, %z
}}
"
        ));
        let Some(found) = compiled(test, &graph, chip, &options()) else { return };
        assert!(found.fallbacks.is_empty(), "{chip}: {:?}", found.fallbacks);
        let host = compile(&graph, &cpu, &options()).unwrap_or_else(|e| panic!("{e}"));
        for rows in [0, 1, MORE_ROWS] {
            let mut given = inputs(&graph, rows);
            // Negative ones, which a table of nine rows has, then others; no place is written twice.
            let places = (0..rows as i64).map(|row| if row < 9 { row - 9 } else { 3 + 2 * row });
            given[3].bytes = match int {
                "i32" => places.flat_map(|place| (place as i32).to_le_bytes()).collect(),
                _ => places.flat_map(i64::to_le_bytes).collect(),
            };
            let refs: Vec<&HostTensor> = given.iter().collect();
            let got = found.program.run(&refs, 1).unwrap_or_else(|e| panic!("{chip}: {rows} rows: {e}"));
            let expected = host.program.run(&refs, 1).unwrap_or_else(|e| panic!("{e}"));
            let expected: Vec<(usize, HostTensor)> = expected.into_iter().enumerate().collect();
            for check in compare(&graph, &given, &expected, &got).expect("typed") {
                assert!(check.passed(), "{chip}: {rows} rows: {check:?}");
            }
        }
    }
}

/// Copies to memory are in no order by themselves: of rows that chose one place the later one has to wait.
#[test]
fn of_rows_at_one_place_the_later_one_stays() {
    let test = "of_rows_at_one_place_the_later_one_stays";
    for (chip, lanes) in [("910b1", 48), ("910b1", 33), ("950", 33), ("310p3", 48)] {
        let graph = parsed(&format!(
            "graph @g(s: 0..; %cache: f16[40, {lanes}], %x: f16[s, {lanes}], %at: i64[s]) {{
  %y = exp %x
  %new = scatter %cache, %at, %y {{axis = 0}}
  return %new updates %cache
}}
"
        ));
        let Some(found) = compiled(test, &graph, chip, &options()) else { return };
        assert!(found.fallbacks.is_empty(), "{chip}: {:?}", found.fallbacks);
        let host = compile(&graph, &"cpu".parse().expect("a target"), &options()).unwrap_or_else(|e| panic!("{e}"));
        for (rows, apart) in [(2usize, 1i64), (MORE_ROWS, 1), (MORE_ROWS, 7), (MORE_ROWS, 39)] {
            let mut given = inputs(&graph, rows);
            given[2].bytes = (0..rows as i64).flat_map(|row| (row % apart).to_le_bytes()).collect();
            let refs: Vec<&HostTensor> = given.iter().collect();
            let got = found.program.run(&refs, 1).unwrap_or_else(|e| panic!("{chip}: {rows} rows, {apart}: {e}"));
            let expected = host.program.run(&refs, 1).unwrap_or_else(|e| panic!("{e}"));
            let expected: Vec<(usize, HostTensor)> = expected.into_iter().enumerate().collect();
            for check in compare(&graph, &given, &expected, &got).expect("typed") {
                assert!(check.passed(), "{chip}: {rows} rows at {apart} places: {check:?}");
            }
        }
    }
}

#[test]
fn what_was_compiled_is_not_compiled_again() {
    let graph = parsed(BLOCK);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    // The model beside the cache is that of the other tests.
    let options = |cache| Options { cache, ..Options::default() };
    let of = |cache| compiled("what_was_compiled_is_not_compiled_again", &graph, "910b1", &options(cache));
    let Some(first) = of(CacheChoice::Folder(folder.path().to_owned())) else { return };
    assert!(first.from_disk() == 0 && first.program.code().compiled > 0);
    let again = of(CacheChoice::Folder(folder.path().to_owned())).expect("the compiler is there");
    assert_eq!((again.from_disk(), again.program.code().compiled), (first.kernels.len(), 0));
    let given = inputs(&graph, MORE_ROWS);
    let given: Vec<&HostTensor> = given.iter().collect();
    let run = |compiled: &Compiled| compiled.program.run(&given, 1).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run(&first), run(&again));
}

#[test]
fn a_graph_of_a_dtype_that_a_chip_lacks_is_refused_by_name() {
    let text = "graph @g(s: 1..; %x: f16[s, 64], %w: bf16[s, 64]) {\n  %y = mul %x, %x\n  %row = slice %w {axis = 1, \
                start = 0, end = 32}\n  %wide = cast %row {to = f32, round = rne}\n  return %y, %wide\n}\n";
    let graph = parsed(text);
    let name = "a_graph_of_a_dtype_that_a_chip_lacks_is_refused_by_name";
    if compiled(name, &graph, "910b1", &options()).is_none() {
        return;
    }
    let refused = compile(&graph, &"ascend-sim:310p3".parse().expect("a target"), &options()).expect_err("no bf16");
    let said = refused.to_string();
    for word in ["`ascend-sim:310p3`", "bf16 on Ascend 310P3", "`cast`", "value `row`"] {
        assert!(said.contains(word), "no {word} in: {said}");
    }
    assert!(matches!(refused, Error::Input(_)));
    // Views of such elements compute nothing.
    let views = parsed(
        "graph @g(s: 1..; %x: f16[s, 64], %w: bf16[s, 64]) {\n  %y = mul %x, %x\n  %row = slice %w {axis = 1, \
         start = 0, end = 32}\n  return %y, %row\n}\n",
    );
    compile(&views, &"ascend-sim:310p3".parse().expect("a target"), &options()).unwrap_or_else(|e| panic!("{e}"));
    let unknown = compile(&graph, &"ascend-sim:910z".parse().expect("a target"), &options()).expect_err("no such chip");
    assert!(unknown.to_string().contains("910z"), "{unknown}");
}

#[test]
fn a_machine_without_the_runtime_says_what_was_looked_for() {
    let graph = parsed(BLOCK);
    match compile(&graph, &"ascend:910b1".parse().expect("a target"), &options()) {
        Err(Error::Unavailable(said)) => assert!(said.contains("`ascend:910b1`"), "{said}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("this machine has an NPU and a library for products"),
    }
}

/// What is refused is computed on the host, with results inside their intervals; the long chores check hundreds.
#[test]
fn a_sample_of_the_matrix_is_right_or_refused_by_name() {
    for (chip, count) in [("910b1", 14), ("950", 14), ("310p3", 12)] {
        let target: Target = format!("ascend-sim:{chip}").parse().expect("a target");
        let sample = matrix::sample_for(&target, count, 1);
        match matrix::prepare(&sample, &target) {
            Err(Error::Unavailable(reason)) if reason.contains("compiler of C++") => {
                return skipped("a_sample_of_the_matrix_is_right_or_refused_by_name", reason);
            }
            prepared => prepared.unwrap_or_else(|e| panic!("{e}")),
        }
        let mut passed = 0;
        for combination in &sample {
            match combination.run(&target, 1).unwrap_or_else(|e| panic!("{combination}: {e}")) {
                Outcome::Passed(agreed) => passed += usize::from(agreed.elements > 0),
                Outcome::Refused(reason) => {
                    assert!(reason.contains("no Ascend C for"), "{chip}: {combination}: {reason}");
                }
                Outcome::Failed(reason) => panic!("{chip}: {combination}: {reason}"),
            }
        }
        assert!(2 * passed > count, "{chip}: {passed} of {count} have kernels");
    }
}
