//! Rows that come from attention or from other ranks.

use fusewright_graph::Graph;
use fusewright_graph::interp::{Host, OpaqueCall, Symbols, run_with};
use fusewright_graph::{AllReduce, Tensor};

use crate::key::region_key;
use crate::patterns::name_regions;
use crate::region::{Limits, Partition, Refusal, Rows, SourceKind, Step, partition};

fn all() -> Limits {
    Limits { sources: &SourceKind::ALL, ..Limits::default() }
}

const NORM: &str = "graph @g(s: 1..; %x: bf16[s, 64], %r: bf16[s, 64], %w: bf16[64]) {
  %t = neg %x
  %a = all_reduce %t {group = \"tp\", ranks = 4}
  %h = add %a, %r
  %n = rms_norm %h, %w {eps = 1e-6, round = once}
  %y, %ss = quantize_dynamic %n {bound = 448}
  return %y, %ss, %h
}";

const ATTENTION: &str =
    "graph @g(s: 1..; %q: bf16[1, 4, s, 64], %k: bf16[1, 2, s, 64], %v: bf16[1, 2, s, 64], %sc: f32[]) {
  %a = sdpa %q, %k, %v {scale = 0.125, causal}
  %t = permute %a {perm = [0, 2, 1, 3]}
  %r = reshape %t {shape = [s, 256]}
  %y = quantize_static %r, %sc {codes = f8e4m3, apply = reciprocal, bound = 448}
  return %y
}";

const OPAQUE: &str = "graph @g(s: 1..; %q: bf16[s, 4, 64], %c: bf16[s, 512], %p: bf16[s, 1, 64], %sc: f32[]) {
  %a = opaque %q, %c, %p {target = \"vllm.unified_mla_attention\", attrs = {}, results = [bf16[s, 256]]}
  %y = quantize_static %a, %sc {codes = f8e4m3, apply = reciprocal, bound = 448}
  return %y
}";

fn divided(text: &str, limits: &Limits) -> (Graph, Partition) {
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut partition = partition(&graph, limits);
    name_regions(&graph, &mut partition);
    (graph, partition)
}

#[test]
fn a_source_joins_where_limits_have_it_and_else_is_a_step() {
    for (text, name, kind, op) in [
        (NORM, "add_rms_norm.fp8_token", SourceKind::Peer, "all_reduce"),
        (ATTENTION, "quant.fp8_static", SourceKind::Producer, "sdpa"),
        (OPAQUE, "quant.fp8_static", SourceKind::Producer, "opaque"),
    ] {
        let (graph, apart) = divided(text, &Limits::default());
        let region = apart.regions.last().expect("a region");
        let source = region.source.expect("a source");
        let refusal = if kind == SourceKind::Peer { Refusal::PeerSource } else { Refusal::ProducerSource };
        assert_eq!((region.name.as_str(), source.kind, source.refusal), (name, kind, Some(refusal)));
        assert_eq!(graph.node(source.node).op.name(), op);
        assert!(!region.nodes.contains(&source.node) && apart.steps.contains(&Step::Node(source.node)));
        assert!(apart.unfused.iter().any(|u| u.node == source.node && u.refusal == refusal));
        assert!(region.ends.iter().any(|e| e.node == source.node && e.refusal == refusal));

        let (graph, joined) = divided(text, &all());
        let one = joined.regions.last().expect("a region");
        assert_eq!((one.name.as_str(), one.source.map(|s| (s.kind, s.refusal))), (name, Some((kind, None))));
        assert!(one.nodes.contains(&source.node) && !joined.steps.contains(&Step::Node(source.node)));
        assert!(joined.unfused.iter().all(|u| u.node != source.node));
        assert!(!one.inputs.contains(&graph.node(source.node).results[0]));
        assert!(graph.node(source.node).operands.iter().all(|v| one.inputs.contains(v)));
        // The rows are those of the region without its source; the kernel is another one.
        let body = one.expand_body().expect("types");
        let rows = Rows::of(&body).expect("types").expect("a source");
        assert_eq!(rows.source.name(), op);
        assert_eq!(rows.body.nodes().len() + 1, body.nodes().len());
        assert_eq!(one.space().expect("rows").rows.len(), region.space().expect("rows").rows.len());
        assert_ne!(region_key(one).expect("types"), region_key(region).expect("types"));
    }
}

#[test]
fn what_a_source_reads_is_no_part_of_its_region() {
    let (graph, joined) = divided(NORM, &all());
    let [before, after] = joined.regions.as_slice() else { panic!("{joined:?}") };
    assert_eq!(before.body.nodes().iter().map(|n| n.op.name()).collect::<Vec<_>>(), ["neg"]);
    let ends = |region: &crate::region::FusedRegion| -> Vec<(String, Refusal)> {
        region.ends.iter().map(|e| (graph.node(e.node).op.name().to_owned(), e.refusal)).collect()
    };
    assert_eq!(ends(before), [("all_reduce".to_owned(), Refusal::Collective)]);
    assert_eq!(ends(after), [("neg".to_owned(), Refusal::Collective)]);
}

/// Every rank holds the same tensor.
#[derive(Debug)]
struct Alike;

impl Host for Alike {
    fn opaque(&self, call: &OpaqueCall<'_>) -> Result<Vec<Tensor>, String> {
        Err(call.target.to_owned())
    }

    fn all_reduce(&self, all: &AllReduce, x: &Tensor) -> Result<Tensor, String> {
        let ranks = f64::from(all.ranks.ok_or("unknown")?);
        let sums = x.floats().ok_or("floats only")?.iter().map(|x| x * ranks).collect();
        Ok(Tensor::from_f64(x.dtype(), x.shape(), sums)?)
    }
}

/// The body of a region with its source computes what the graph does.
#[test]
fn a_region_with_its_source_means_what_the_graph_does() {
    let (graph, joined) = divided(NORM, &all());
    let tensor = |extents: &[usize], seed: usize| {
        let count: usize = extents.iter().product();
        let values = (0..count).map(|i| ((i * 37 + seed * 11) % 29) as f64 / 4.0 - 3.0).collect();
        Tensor::from_f64(fusewright_graph::DType::BF16, extents, values).expect("a tensor")
    };
    let inputs = [tensor(&[3, 64], 1), tensor(&[3, 64], 2), tensor(&[64], 3)];
    let wanted = run_with(&graph, &inputs, &Symbols::new(), &Alike).expect("runs");
    let [before, after] = joined.regions.as_slice() else { panic!("{joined:?}") };
    let negated = run_with(&before.body, &inputs[..1], &Symbols::new(), &Alike).expect("runs");
    let given: Vec<Tensor> = after
        .inputs
        .iter()
        .map(|value| match graph.inputs().iter().position(|input| input.value == *value) {
            Some(i) => inputs[i].clone(),
            None => negated[0].clone(),
        })
        .collect();
    let got = run_with(&after.body, &given, &Symbols::new(), &Alike).expect("runs");
    let order: Vec<usize> = after
        .outputs
        .iter()
        .map(|value| graph.outputs().iter().position(|o| o.value == *value).expect("an output"))
        .collect();
    for (got, i) in got.iter().zip(order) {
        assert_eq!((got.dtype(), got.to_bytes()), (wanted[i].dtype(), wanted[i].to_bytes()), "output {i}");
    }
}
