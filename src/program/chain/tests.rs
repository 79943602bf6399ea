//! Chains compute what programs do, on memory of the caller, and say what is in their way.

use fusewright_abi::Target;
use fusewright_graph::Graph;

use super::{Attempt, Chain};
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
