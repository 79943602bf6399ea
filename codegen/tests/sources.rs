//! Rows that come from attention or from other ranks: a region with its source is one kernel whose results are those of
//! the two steps, to the bit.

use std::collections::BTreeMap;

use fusewright_abi::Target;
use fusewright_codegen::backend;
use fusewright_codegen::kernel::interp::{Buffer, run};
use fusewright_codegen::kernel::{Kernel, Source, verify};
use fusewright_codegen::lower::lower;
use fusewright_codegen::schedule::Schedule;
use fusewright_fusion::region::{FusedRegion, Limits, SourceKind, partition};
use fusewright_graph::interp::{self, Symbols};
use fusewright_graph::{Graph, Prim, Tensor, num};

/// The usual limits, and rows from every source.
fn all() -> Limits {
    Limits { sources: &SourceKind::ALL, ..Limits::default() }
}
const ROWS: i64 = 5;

fn parse(text: &str) -> Graph {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The only region of a graph, and its kernel.
fn region(graph: &Graph, limits: &Limits) -> (FusedRegion, Kernel) {
    let mut regions = partition(graph, limits).regions;
    assert_eq!(regions.len(), 1, "{graph}");
    let region = regions.remove(0);
    let body = region.expand_body().expect("types");
    let kernel = lower("k", &body, &Schedule::of(&Target::Cpu)).unwrap_or_else(|e| panic!("{e}\n{body}"));
    verify(&kernel).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    (region, kernel)
}

/// A tensor with every kind of value, others for every seed.
fn tensor(graph: &Graph, input: usize, seed: usize) -> Tensor {
    let ty = graph.ty(graph.inputs()[input].value);
    let extents: Vec<usize> = ty
        .shape
        .iter()
        .map(|e| e.eval(&|_| Some(ROWS)).ok().and_then(|n| n.try_into().ok()).expect("an extent"))
        .collect();
    let special = [f64::NAN, f64::INFINITY, -0.0, 0.0, 1e-30, 3e4];
    let value = |i: usize| {
        let at = i * 7919 + seed * 104_729 + input * 31;
        // Special values stay out of the first rows.
        let plain = ((at % 997) as f64 - 498.0) / 61.0;
        if i > 200 && at.is_multiple_of(89) { special[at % special.len()] } else { plain }
    };
    let values =
        (0..extents.iter().product()).map(|i| num::decode(ty.dtype, num::encode(ty.dtype, value(i)))).collect();
    Tensor::from_f64(ty.dtype, &extents, values).expect("a tensor")
}

/// What a kernel writes. `given` are the values of its region's inputs by parameter name.
fn outputs(kernel: &Kernel, given: &BTreeMap<String, Buffer>) -> Vec<Vec<u8>> {
    let dims: BTreeMap<String, i64> = kernel.dims.iter().map(|d| (d.name.clone(), ROWS)).collect();
    let mut buffers: Vec<Buffer> = kernel
        .params
        .iter()
        .map(|param| match given.get(&param.name) {
            Some(buffer) => buffer.clone(),
            None => {
                let extent = |e: &fusewright_graph::Dim| e.eval(&|_| Some(ROWS)).expect("an extent");
                let count: i64 = param.shape.iter().map(extent).product();
                Buffer::Bytes(vec![0xa5; param.dtype.bytes_for(count as usize)])
            }
        })
        .collect();
    run(kernel, &mut buffers, &dims, 0..ROWS).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    let made = kernel.params.iter().zip(buffers).filter(|(param, _)| !given.contains_key(&param.name));
    made.map(|(_, buffer)| buffer.bytes().to_vec()).collect()
}

/// The inputs of a region by the names of its kernel's parameters.
fn named(graph: &Graph, region: &FusedRegion, tensors: &[Tensor]) -> BTreeMap<String, Buffer> {
    let values = region.body.inputs().iter().zip(&region.inputs);
    let of = |value| graph.inputs().iter().position(|input| input.value == value);
    values.filter_map(|(input, &v)| Some((input.name.clone(), Buffer::Bytes(tensors[of(v)?].to_bytes())))).collect()
}

/// The name of the parameter of the step in between, in the kernel that reads it from memory.
fn between(graph: &Graph, region: &FusedRegion) -> String {
    let is_made = |&i: &usize| graph.inputs().iter().all(|input| input.value != region.inputs[i]);
    let at = (0..region.inputs.len()).find(is_made).expect("an input that is computed");
    region.body.inputs()[at].name.clone()
}

/// The tensors of ranks combined in their order, every partial result in their dtype.
fn combined(op: &str, tensors: &[Tensor]) -> Tensor {
    let step = |a: f64, b: f64| match op {
        "add" => a + b,
        "mul" => a * b,
        _ if a.is_nan() || b.is_nan() => f64::NAN,
        "max" => a.max(b),
        _ => a.min(b),
    };
    let mut all = tensors.iter();
    let first = all.next().expect("a rank").clone();
    all.fold(first, |sum, next| {
        let dtype = sum.dtype();
        let pairs = sum.floats().expect("floats").iter().zip(next.floats().expect("floats"));
        let rounded = pairs.map(|(a, b)| num::decode(dtype, num::encode(dtype, step(*a, *b)))).collect();
        Tensor::from_f64(dtype, sum.shape(), rounded).expect("a tensor")
    })
}

/// Checks a graph whose first input is combined over ranks: the one kernel on every rank's memory gives what the
/// second step gives on the combined tensor.
fn peers(op: &str, ranks: usize, rest: &str, inputs: &str) {
    let text = format!(
        "graph @g(s: 1..; %x: bf16[s, 128]{inputs}) {{
           %a = all_reduce %x {{group = \"tp\", ranks = {ranks}, op = {op}}}
           {rest}
         }}"
    );
    let graph = parse(&text);
    let (apart, second) = region(&graph, &Limits::default());
    let (joined, one) = region(&graph, &all());
    assert_eq!(joined.source.map(|s| (s.kind, s.refusal)), Some((SourceKind::Peer, None)));
    let others: Vec<Tensor> = (0..graph.inputs().len()).map(|i| tensor(&graph, i, 0)).collect();
    let of_ranks: Vec<Tensor> = (0..ranks).map(|rank| tensor(&graph, 0, rank + 1)).collect();

    let mut given = named(&graph, &apart, &others);
    given.insert(between(&graph, &apart), Buffer::Bytes(combined(op, &of_ranks).to_bytes()));
    let wanted = outputs(&second, &given);

    let peer = one.params.iter().find(|p| matches!(p.source, Source::Peer { .. })).expect("a peer parameter");
    assert_eq!(peer.name, "all_reduce");
    let mut given = named(&graph, &joined, &others);
    given.retain(|name, _| one.params.iter().any(|p| p.name == *name));
    given.insert(peer.name.clone(), Buffer::Peers(of_ranks.iter().map(Tensor::to_bytes).collect()));
    assert_eq!(outputs(&one, &given), wanted, "{one}");
}

const NORM: &str = "%h = add %a, %r
  %n = rms_norm %h, %w {eps = 1e-6, round = once}
  %v = reshape %n {shape = [s, 2, 64]}
  %y, %ss = quantize_dynamic %v {bound = 448}
  return %y, %ss, %h";

#[test]
fn a_norm_behind_a_sum_of_ranks_reads_the_ranks_themselves() {
    for ranks in [2, 3, 8] {
        peers("add", ranks, NORM, ", %r: bf16[s, 128], %w: bf16[128]");
    }
}

#[test]
fn ranks_combine_in_every_way_that_a_reduction_does() {
    for op in ["add", "mul", "max", "min"] {
        peers(op, 4, "%y = softmax %a\n return %y", "");
    }
}

/// A view of the combined tensor is a view of every rank's.
#[test]
fn parts_of_the_combined_tensor_are_read_at_every_rank() {
    let halves = "%g = slice %a {axis = 1, start = 0, end = 64}
      %u = slice %a {axis = 1, start = 64, end = 128}
      %s = silu %g {form = quotient}
      %y = mul %s, %u
      return %y";
    peers("add", 2, halves, "");
}

#[test]
fn codes_of_attention_are_made_of_its_tile() {
    let quantisers = [
        "%y = quantize_static %r, %sc {codes = f8e4m3, apply = reciprocal, bound = 448}\n return %y",
        "%y = quantize_static %r, %sc {codes = i8, apply = divide, bound = 127}\n return %y",
        "%v = reshape %r {shape = [s, 8, 32]}\n %y, %ss = quantize_dynamic %v {bound = 448}\n return %y, %ss",
        "%v = reshape %r {shape = [s, 4, 64]}\n %y, %ss = quantize_dynamic %v {bound = 127, codes = i8}\n return %y, %ss",
        "%y, %ss = quantize_nvfp4 %r, %sc\n return %y, %ss",
    ];
    for quantiser in quantisers {
        let text = format!(
            "graph @g(s: 1..; %q: bf16[1, 4, s, 64], %k: bf16[1, 2, s, 64], %v: bf16[1, 2, s, 64], %sc: f32[]) {{
               %a = sdpa %q, %k, %v {{scale = 0.125, causal}}
               %t = permute %a {{perm = [0, 2, 1, 3]}}
               %r = reshape %t {{shape = [s, 256]}}
               {quantiser}
             }}"
        )
        .replace("%v = reshape", "%grouped = reshape")
        .replace("quantize_dynamic %v", "quantize_dynamic %grouped");
        let graph = parse(&text);
        let (apart, second) = region(&graph, &Limits::default());
        let (joined, one) = region(&graph, &all());
        assert_eq!(joined.source.map(|s| (s.kind, s.refusal)), Some((SourceKind::Producer, None)), "{graph}");
        let tensors: Vec<Tensor> = (0..4).map(|i| tensor(&graph, i, 0)).collect();
        let attention = parse(&text.split("%t =").next().map(|head| format!("{head} return %a }}")).expect("a head"));
        let tile =
            interp::run(&attention, &tensors, &Symbols::from([("s".to_owned(), ROWS)])).expect("runs")[0].to_bytes();

        let mut given = named(&graph, &apart, &tensors);
        given.insert(between(&graph, &apart), Buffer::Bytes(tile.clone()));
        let wanted = outputs(&second, &given);

        let mut given = named(&graph, &joined, &tensors);
        given.retain(|name, _| one.params.iter().any(|p| p.name == *name));
        given.insert("sdpa".to_owned(), Buffer::Bytes(tile));
        assert_eq!(outputs(&one, &given), wanted, "{one}");
        let producer = one.params.iter().find(|p| p.name == "sdpa").expect("the tile");
        assert!(matches!(&producer.source, Source::Producer { op, .. } if op == "sdpa"), "{one}");
    }
}

/// What no backend takes is refused by name, and its limits say so beforehand.
#[test]
fn backends_refuse_the_sources_that_they_do_not_list() {
    let graph = parse(
        "graph @g(s: 1..; %x: f32[s, 8]) {
      %a = all_reduce %x {group = \"tp\", ranks = 2}
      %y = exp %a
      return %y
    }",
    );
    let (_, kernel) = region(&graph, &all());
    let backend = backend::for_target(&Target::Cpu).expect("a backend");
    let error = backend.emit(&kernel, &Target::Cpu, backend::Wanted::Stages).expect_err("other ranks").to_string();
    assert!(error.contains("parameter `all_reduce`: the memory of other ranks is not taken"), "{error}");
}

#[test]
fn as_many_ranks_as_a_row_can_read() {
    let kernel = |ranks: u32| {
        let text = format!(
            "graph @g(s: 1..; %x: f32[s, 8]) {{
               %a = all_reduce %x {{group = \"tp\", ranks = {ranks}}}
               %y = neg %a
               return %y
             }}"
        );
        let body = partition(&parse(&text), &all()).regions[0].expand_body().expect("types");
        assert!(body.nodes().iter().any(|n| matches!(n.op, fusewright_graph::Op::Prim(Prim::AllReduce(_)))));
        lower("k", &body, &Schedule::of(&Target::Cpu)).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(kernel(64), Ok(()));
    assert_eq!(kernel(65), Err("65 ranks, at most 64".to_owned()));
}
