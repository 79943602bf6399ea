//! Chains compute what programs do, on memory of the caller, and say what is in their way.

use fusewright_abi::Target;
use fusewright_graph::Graph;

use super::{Attempt, Chain, writing_once};
use crate::compile::fuse;
use crate::settled::Ahead;
use crate::store::CacheChoice;
use crate::{HostTensor, Options, compile};

fn options() -> Options {
    Options { cache: CacheChoice::Off, ..Options::default() }
}

#[track_caller]
fn chain(text: &str) -> (Graph, Chain) {
    let graph: Graph = text.parse().expect("parses");
    match Chain::of(&graph, &Target::Cpu, &options()).expect("compiles") {
        Attempt::Chain(chain) => (graph, *chain),
        Attempt::Outside(outside) => panic!("{outside:?}"),
    }
}

/// Bytes of f32 elements 0, ⅛, ….
fn ramp(elements: usize) -> Vec<u8> {
    (0..elements).flat_map(|i| (i as f32 / 8.0 - 1.0).to_le_bytes()).collect()
}

const SOFTMAX_OF_COLUMNS: &str = "graph @g(s: 1..; %x: f32[s, 16], %y: f32[s, 16]) {
  %a = add %x, %y
  %t = permute %a {perm = [1, 0]}
  %e = exp %t
  return %a, %e
}
";

#[test]
fn outputs_are_written_where_the_caller_has_them() {
    let (graph, chain) = chain(SOFTMAX_OF_COLUMNS);
    let program = compile(&graph, &Target::Cpu, &options()).expect("compiles").program;
    for rows in [1usize, 2, 33, 2] {
        let input = HostTensor { dtype: fusewright_abi::DType::F32, shape: vec![rows, 16], bytes: ramp(rows * 16) };
        let expected = program.run(&[&input, &input], 1).expect("runs");
        let fitted = chain.fit(&[rows as i64]).expect("fits");
        let mut outputs = fitted.outputs().iter().map(|&bytes| vec![0u8; bytes]).collect::<Vec<_>>();
        let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        chain.call(&fitted, &[&input.bytes, &input.bytes], &mut slices, 1).expect("runs");
        assert_eq!(outputs[0], expected[0].bytes);
        let order = chain.outputs()[1].order.to_vec();
        let in_order = |bytes: &[u8]| -> Vec<u8> {
            let element = |c: usize, r: usize| &bytes[(r * 16 + c) * 4..][..4];
            (0..16).flat_map(|c| (0..rows).flat_map(move |r| element(c, r).to_vec())).collect()
        };
        let second = if order == [1, 0] { in_order(&outputs[1]) } else { outputs[1].clone() };
        assert_eq!(second, expected[1].bytes, "order {order:?}");
    }
}

#[test]
fn what_no_kernel_computes_is_named() {
    let text = "graph @g(s: 1..; %x: f32[s, 16], %w: f32[16, 8]) {
  %y = matmul %x, %w {out = f32}
  %z = exp %y
  return %z
}
";
    let graph: Graph = text.parse().expect("parses");
    let attempt = Chain::of(&graph, &Target::Cpu, &options()).expect("fuses");
    let Attempt::Outside(outside) = attempt else { panic!("a matrix product is no chain") };
    assert!(outside.iter().any(|outside| outside.reason.contains("matmul")), "{outside:?}");
}

#[test]
fn an_input_as_it_came_is_no_output() {
    let graph: Graph =
        "graph @g(s: 1..; %x: f32[s, 16]) {\n  %y = exp %x\n  return %y, %x\n}\n".parse().expect("parses");
    let Attempt::Outside(outside) = Chain::of(&graph, &Target::Cpu, &options()).expect("fuses") else {
        panic!("an input is returned")
    };
    assert_eq!(outside[0].output, Some(1));
}

#[test]
fn sizes_outside_their_range_are_refused() {
    let (_, chain) = chain(SOFTMAX_OF_COLUMNS);
    assert!(chain.fit(&[0]).is_err() && chain.fit(&[]).is_err());
}

/// What a chain of one symbol makes of tensors, each of which begins with the bytes that are given for it.
#[track_caller]
fn called(chain: &Chain, rows: i64, inputs: &[&[u8]], mut outputs: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let fitted = chain.fit(&[rows]).expect("fits");
    let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    chain.call(&fitted, inputs, &mut slices, 2).expect("runs");
    outputs
}

#[test]
fn an_input_in_another_order_is_copied_by_a_kernel() {
    let (graph, chain) = chain(
        "graph @g(s: 0..; %x: f32[3, s, 8]) {
  %y = permute %x {perm = [1, 0, 2]}
  %z = slice %y {axis = 1, start = 1, end = 3}
  return %y, %z
}
",
    );
    assert_eq!(chain.regions().iter().map(|region| region.name.as_str()).collect::<Vec<_>>(), ["copy", "copy"]);
    assert_eq!((chain.launches(), chain.explanation().regions.len()), (2, 2));
    assert!(chain.outputs().iter().all(|output| output.order.is_sorted() && output.overwrites.is_none()));
    let program = compile(&graph, &Target::Cpu, &options()).expect("compiles").program;
    for rows in [1usize, 5, 0] {
        let x = HostTensor { dtype: fusewright_abi::DType::F32, shape: vec![3, rows, 8], bytes: ramp(24 * rows) };
        let expected = program.run(&[&x], 1).expect("runs");
        let made = called(&chain, rows as i64, &[&x.bytes], vec![vec![1; 96 * rows], vec![1; 64 * rows]]);
        assert_eq!(made, [expected[0].bytes.clone(), expected[1].bytes.clone()]);
    }
}

#[test]
fn elements_that_lie_as_they_did_are_no_kernel() {
    for op in ["reshape %x {shape = [s, 2, 8]}", "slice %x {axis = 0, start = 0, end = 1}"] {
        let text = format!("graph @g(s: 1..; %x: f32[s, 16]) {{\n  %y = {op}\n  return %y\n}}\n");
        let graph: Graph = text.parse().expect("parses");
        let attempt = Chain::of(&graph, &Target::Cpu, &options()).expect("fuses");
        assert!(matches!(attempt, Attempt::Outside(_)), "{op}");
    }
}

const WRITE: &str = "graph @g(s: 0..; %cache: f32[5, 4], %x: f32[s, 4], %at: i64[s]) {
  %y = add %x, %x
  %new = scatter %cache, %at, %y {axis = 0}
  return %new
}
";

#[test]
fn a_part_of_an_input_is_overwritten_where_the_caller_has_it() {
    let (_, chain) = chain(WRITE);
    assert_eq!(chain.outputs()[0].overwrites, Some(0));
    let at: Vec<u8> = [3i64, 0].iter().flat_map(|place| place.to_le_bytes()).collect();
    assert_eq!(chain.fit(&[2]).expect("fits").inputs(), [0, 32, 16]);
    let cache = ramp(20);
    let made = called(&chain, 2, &[&[], &ramp(8), &at], vec![cache.clone()]);
    let float = |bytes: &[u8], i: usize| f32::from_le_bytes(bytes[4 * i..][..4].try_into().expect("four bytes"));
    for i in 0..20 {
        let row = [3, 0].iter().position(|&place| place == i / 4);
        let expected = row.map_or_else(|| float(&cache, i), |row| 2.0 * float(&ramp(8), 4 * row + i % 4));
        assert_eq!(float(&made[0], i), expected, "element {i}");
    }
    assert_eq!(called(&chain, 0, &[&[], &[], &[]], vec![cache.clone()]), [cache]);
}

#[test]
fn what_is_read_as_it_was_is_not_overwritten() {
    let text = WRITE.replace("return %new", "%old = exp %cache\n  return %new, %old");
    let graph: Graph = text.parse().expect("parses");
    let attempt = Chain::of(&graph, &Target::Cpu, &options()).expect("fuses");
    let Attempt::Outside(outside) = attempt else { panic!("the old rows are read") };
    assert!(outside.iter().any(|outside| outside.reason.contains("overwrites parts")), "{outside:?}");
}

#[test]
fn kernels_that_write_once_into_each_tensor_are_told_from_others() {
    let once = |text: &str| {
        let graph: Graph = text.parse().expect("parses");
        let fused = fuse(&graph, &options(), None, Ahead::Anything).expect("fuses");
        let kernels = fused.partition.kernels().count();
        assert!(kernels > 0, "{text}");
        writing_once(&fused.partition).expect("expands").len() == kernels
    };
    assert!(once(WRITE));
    assert!(!once(&WRITE.replace("%y = add %x, %x", "%old = gather %cache, %at {axis = 0}\n  %y = add %x, %old")));
    assert!(!once("graph @g(s: 0..; %x: f32[s, 4]) {\n  %y = add %x, %x\n  return %y\n}\n"));
}
