//! Captured programs on a device in memory of the host: the bits of calls that are not captured, for every number of rows,
//! whatever lies behind them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::host::HostDevice;
use super::tests::{built, device, run, text};
use super::*;
use crate::inputs::{Sizes, Values, symbols, tensors};
use crate::{CaptureOptions, CaptureSizes, CapturedProgram, HostTensor, model};
use fusewright_graph::{Graph, InputKind};

/// A captured program, the program, and the device.
fn captured(graph: &Graph, options: &CaptureOptions) -> (CapturedProgram, Arc<Program>, Arc<Core<HostDevice>>) {
    let (program, core) = (Arc::new(built(graph, true).program), Arc::new(device()));
    let captured = CapturedProgram::on(Arc::clone(&core), Arc::clone(&program), options);
    (captured.unwrap_or_else(|e| panic!("{e}\n{graph}")), program, core)
}

fn options(sizes: &[usize]) -> CaptureOptions {
    CaptureOptions { sizes: CaptureSizes::new(sizes.iter().copied()).expect("some"), ..CaptureOptions::new("s") }
}

/// Inputs of so many rows, with other symbols as given.
fn inputs(graph: &Graph, rows: usize, dims: &[(&str, i64)]) -> Vec<HostTensor> {
    let dims = dims.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let sizes = symbols(graph, &Sizes { rows: Some(rows as i64), dims }, rows as i64).expect("all have values");
    let tensors = tensors(graph, &sizes, rows as u64, Values::Ordinary).expect("typed");
    tensors.iter().map(|tensor| HostTensor::of(tensor).expect("there is memory")).collect()
}

/// Compares a captured program with the program, for these numbers of rows in this order.
fn agrees(graph: &Graph, options: &CaptureOptions, rows: impl IntoIterator<Item = usize>) -> CapturedProgram {
    let (captured, program, _) = captured(graph, options);
    let core = device();
    for rows in rows {
        let tensors = inputs(graph, rows, &[]);
        let expected = run(&core, &program, &tensors, false);
        let found = captured.run(&tensors.iter().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{rows} rows: {e}"));
        assert_eq!(found.len(), expected.len());
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!(found.as_ref() == Some(expected), "{}, {rows} rows: output {at} has other bits", graph.name());
        }
    }
    captured
}

/// A matrix product between two regions; results with rows, and one whose rows lie elsewhere if there are more of them.
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
    let captured = agrees(&text(BLOCK), &options(&[1, 4, 16]), (0..=18).chain((0..=18).rev()));
    assert_eq!(captured.split(), []);
    assert_eq!(captured.uncaptured(), 2 * (1 + 2), "none, and more than the largest size");
    let report = captured.report();
    assert_eq!(report.graphs.iter().map(|graph| graph.rows).collect::<Vec<_>>(), [1, 4, 16]);
    assert!(report.graphs.iter().all(|graph| graph.cost.nodes >= 3 && graph.cost.bytes > 0), "{:?}", report.graphs);
    assert!(report.pool_bytes < report.apart_bytes, "{} of {}", report.pool_bytes, report.apart_bytes);
}

#[test]
fn named_ops_are_split_off() {
    let chosen = CaptureOptions { split_at: vec!["matmul".to_owned()], ..options(&[2, 8]) };
    let captured = agrees(&text(BLOCK), &chosen, [5, 1, 8, 9, 0, 2, 7]);
    let [split] = captured.split() else { panic!("one step is split off: {:?}", captured.split()) };
    assert!(split.step.contains("matmul") && split.reason.contains("to be split off"), "{split:?}");
    let pieces: Vec<bool> = captured.report().pieces.iter().map(|piece| piece.captured).collect();
    assert_eq!(pieces, [true, false, true]);
}

#[test]
fn a_call_after_the_first_allocates_and_prepares_nothing_and_waits_for_tensors_alone() {
    let chosen = CaptureOptions { split_at: vec!["matmul".to_owned()], ..options(&[2, 8]) };
    let graph = text(BLOCK);
    let (captured, _, core) = captured(&graph, &chosen);
    captured.prepare().expect("records");
    let counts = || {
        let HostDevice { allocations, prepared, waits, .. } = &core.hardware;
        [allocations, prepared, waits].map(|count| count.load(Ordering::Relaxed))
    };
    for rows in [8, 5] {
        let tensors = inputs(&graph, rows, &[]);
        let given: Vec<&HostTensor> = tensors.iter().collect();
        captured.run(&given).expect("runs");
        let before = counts();
        captured.run(&given).expect("runs");
        let after = counts();
        // Four inputs up, three results down, and the end of the call.
        assert_eq!([0, 1, 2].map(|i| after[i] - before[i]), [0, 0, 8], "{rows} rows");
    }
    assert_eq!(captured.time(&inputs(&graph, 3, &[]).iter().collect::<Vec<_>>()).expect("runs"), 1.0);
    let error = captured.time(&inputs(&graph, 9, &[]).iter().collect::<Vec<_>>()).expect_err("none serves it");
    assert!(error.to_string().contains("9 rows"), "{error}");
    assert_eq!(captured.report().graphs.len(), 4, "two pieces of two sizes");
}

#[test]
fn what_combines_or_counts_rows_runs_for_those_of_the_call() {
    let cases = [
        ("sum", "%a = reduce %x {op = add, axes = [0]}\n  %y = exp %a"),
        ("count", "%n = size_of {dim = s}\n  %c = cast %n {to = f32}\n  %y = mul %x, %c"),
        ("last", "%l = slice %x {axis = 0, start = s - 1, end = s}\n  %y = exp %l"),
        ("columns", "%t = permute %x {perm = [1, 0]}\n  %y = reduce %t {op = max, axes = [1]}"),
        ("twice", "%y = cat %x, %x {axis = 0}"),
        ("gram", "%y = matmul %x, %x {transpose_b, out = f32}"),
    ];
    for (name, body) in cases {
        let text =
            text(&format!("graph @{name}(s: 1..; %x: f32[s, 8]) {{\n  {body}\n  %z = exp %x\n  return %y, %z\n}}\n"));
        let captured = agrees(&text, &options(&[1, 4, 8, 16]), (1..=17).chain((1..=17).rev()));
        assert!(!captured.split().is_empty(), "{name}");
    }
}

#[test]
fn operands_that_are_moved_for_fewer_rows_alone_have_memory_of_their_own() {
    let (core, program) = (device(), built(&text(BLOCK), true).program);
    let memory = |bytes| core.hardware.allocate(bytes).expect("there is memory");
    let (arena, scratch, constants) = (memory(512), memory(256), memory(0));
    let memories = Memories { users: Vec::new(), arena: arena.clone(), scratch: Some((256, scratch.clone())) };
    let state = &mut core.lock();
    let binding = Binding { core: &core, state, program: &program, memories: &memories, constants, distinct: false };
    let part = |start, bytes| binding.there(Region { memory: Memory::Arena, start, bytes });
    let (own, moved) = (part(0, 256).expect("it is there"), part(256, 256).expect("it is there"));
    assert!(own.overlaps(&arena) && !own.overlaps(&scratch) && moved.overlaps(&scratch) && !moved.overlaps(&arena));
    assert!(part(256, 257).is_err(), "there is no more");
}

/// Attention of a call's rows to each other, between what is recorded. On a device it is products and kernels.
const ATTENTION: &str = include_str!("../../../tests/captured/attention.fw");

#[test]
fn attention_sees_the_rows_of_the_call_alone() {
    let captured = agrees(&text(ATTENTION), &options(&[4, 8, 16]), (1..=17).chain((1..=17).rev()));
    let pieces = captured.report().pieces;
    assert!(pieces.iter().filter(|piece| piece.captured).count() >= 2, "{pieces:?} {:?}", captured.split());
}

/// Attention of rows to keys that every call has.
const DECODE: &str = "graph @decode(s: 1..; %x: f32[s, 32], %k: f32[1, 2, 24, 16], %v: f32[1, 2, 24, 16]) {
  %n = silu %x {form = quotient}
  %h = reshape %n {shape = [1, s, 2, 16]}
  %q = permute %h {perm = [0, 2, 1, 3]}
  %a = sdpa %q, %k, %v {scale = 0.25}
  %b = permute %a {perm = [0, 2, 1, 3]}
  %c = reshape %b {shape = [s, 32]}
  %y = add %c, %x
  %z = silu %y {form = quotient}
  return %z
}
";

#[test]
fn attention_that_was_taken_apart_is_split_off_by_its_name() {
    let named = CaptureOptions { split_at: vec!["sdpa".to_owned()], ..options(&[2, 8]) };
    let captured = agrees(&text(DECODE), &named, [5, 1, 8, 9, 2, 7]);
    let split = captured.split();
    assert!(split.len() >= 3 && split.iter().all(|split| split.reason.contains("`sdpa`")), "{split:?}");
    let pieces: Vec<bool> = captured.report().pieces.iter().map(|piece| piece.captured).collect();
    assert_eq!((pieces.first(), pieces.last()), (Some(&true), Some(&true)), "{pieces:?} {split:?}");
}

/// The graph that `tests/gpu/device.rs` captures on a GPU.
#[test]
fn what_gpus_are_tested_with_is_divided_and_gives_the_same_bits_here() {
    let layer = text(include_str!("../../../tests/captured/layer.fw"));
    let split_at = vec!["sdpa".to_owned(), "matmul".to_owned()];
    let captured =
        agrees(&layer, &CaptureOptions { split_at, ..options(&[1, 4, 8, 16]) }, (1..=17).chain((1..=17).rev()));
    let pieces = captured.report().pieces;
    assert!(pieces.iter().filter(|piece| piece.captured).count() >= 2, "{pieces:?} {:?}", captured.split());
    assert_eq!((captured.report().graphs.len() % 4, captured.uncaptured()), (0, 2));
    let cache = text(include_str!("../../../tests/captured/cache.fw"));
    let kept = CaptureOptions { kept: vec!["cache".to_owned()], distinct: true, ..options(&[2, 8, 32]) };
    let captured = self::captured(&cache, &kept).0;
    assert_eq!((captured.split(), captured.report().pieces.len()), ([].as_slice(), 1));
}

#[test]
fn steps_on_the_host_are_split_off() {
    let graph = text(
        "graph @g(s: 1..; %x: bf16[s, 8], %w: bf16[2, 8, 4], %ends: i32[2]) {\n  %y = exp %x\n  \
         %p = grouped_matmul %y, %w, %ends {out = bf16}\n  %z = neg %p\n  return %z\n}\n",
    );
    let captured = captured(&graph, &options(&[4, 8])).0;
    let said: Vec<&str> = captured.split().iter().map(|split| split.reason.as_str()).collect();
    assert_eq!(said, ["it runs on the host"]);
    let pieces: Vec<bool> = captured.report().pieces.iter().map(|piece| piece.captured).collect();
    assert_eq!(pieces, [true, false, true]);
    agrees(&graph, &options(&[4, 8]), [3, 4, 8, 5]);
}

fn integers(values: impl IntoIterator<Item = i64>) -> HostTensor {
    let bytes: Vec<u8> = values.into_iter().flat_map(i64::to_le_bytes).collect();
    HostTensor { dtype: DType::I64, shape: vec![bytes.len() / 8], bytes }
}

#[test]
fn padding_writes_to_no_slot_of_a_cache_that_stays() {
    const SLOTS: i64 = 40;
    let graph = text(
        "graph @cache(s: 1.., n: 1..; %cache: f32[n, 8], %x: f32[s, 8], %slots: i64[s], %at: i64[s]) {\n  %y = exp %x\n  \
         %new = scatter %cache, %slots, %y {axis = 0}\n  %old = gather %cache, %at {axis = 0}\n  %z = add %old, %x\n  \
         return %new updates %cache, %z\n}\n",
    );
    let dims = BTreeMap::from([("n".to_owned(), SLOTS)]);
    let chosen = CaptureOptions { dims, kept: vec!["cache".to_owned()], ..options(&[1, 8, 16]) };
    let (captured, program, _) = captured(&graph, &chosen);
    assert!(captured.split().iter().all(|split| !split.step.contains("scatter")), "{:?}", captured.split());
    let core = device();
    let mut cache = inputs(&graph, 1, &[("n", SLOTS)]).swap_remove(0);
    captured.set("cache", &cache).expect("it is of its type");
    for rows in (1..=18).chain([3, 1, 11]) {
        let x = inputs(&graph, rows, &[("n", SLOTS)]).swap_remove(1);
        let slots = integers((0..rows as i64).map(|row| if row % 3 == 2 { -1 } else { (row * 7 + 3) % SLOTS }));
        let at = integers((0..rows as i64).map(|row| (row * 11) % SLOTS));
        let expected = run(&core, &program, &[cache, x.clone(), slots.clone(), at.clone()], true);
        let found = captured.run(&[&x, &slots, &at]).unwrap_or_else(|e| panic!("{rows} rows: {e}"));
        assert!(found == [None, Some(expected[1].clone())], "{rows} rows");
        cache = expected[0].clone();
        assert!(captured.get("cache").expect("it is kept") == cache, "{rows} rows: the cache has other bits");
    }
    assert_eq!(captured.uncaptured(), 2);
}

#[test]
fn models_give_the_same_bits_captured() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut models = 0;
    for entry in std::fs::read_dir(&fixtures).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "pt2") {
            continue;
        }
        let graph = model::open(&path).unwrap_or_else(|e| panic!("{e}"));
        let buffers = graph.inputs().iter().any(|input| {
            matches!(input.kind, InputKind::Weight(_))
                && graph.outputs().iter().any(|output| output.updates.as_ref() == Some(&input.name))
        });
        let [symbol] = graph.symbols() else { continue };
        if buffers {
            continue;
        }
        let (from, to) = (symbol.min.max(1) as usize, symbol.max.unwrap_or(9).min(9) as usize);
        let chosen = CaptureOptions { rows: symbol.name.clone(), ..options(&[from, (from + to) / 2, to.max(from)]) };
        agrees(&graph, &chosen, (from..=to).chain([from]));
        models += 1;
    }
    assert!(models >= 10, "{models} models");
}
