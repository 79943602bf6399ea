//! Named patterns: queries over the bodies of regions.
//!
//! A name says what a region computes at least, whatever the spelling and the rounding; fusion never depends on it. A
//! region has one name, the most specific: a residual add before a norm is more specific than the norm, a fused
//! quantiser more than none. A region that no query knows has the name of its kind.

mod gate;
mod norm;
mod power;
mod quant;
mod rope;
mod skeleton;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::collections::{BTreeMap, HashMap};

use fusewright_graph::{Def, Graph, NodeId, Op, Prim, ReduceOp, ScalarFn, Value};

use crate::region::{Content, Contents, Kind, Partition, expand};
use skeleton::Skeleton;

pub use vocabulary::{all_names, is_name};

/// Gives every region its name.
pub fn name_regions(graph: &Graph, partition: &mut Partition) {
    let mut contents = Contents::default();
    // By what a name depends on: of equal layers one is named. It is only looked up.
    let mut known: HashMap<(Content, Vec<bool>), Option<String>> = HashMap::new();
    let mut names = Vec::with_capacity(partition.regions.len());
    for region in &partition.regions {
        let body = &region.body;
        let nodes: Vec<NodeId> = body.node_ids().collect();
        let values = body.inputs().iter().map(|input| input.value).collect::<Vec<_>>();
        let outputs = body.outputs().iter().map(|output| output.value).collect::<Vec<_>>();
        let content = contents.of(body, &nodes, &values, &outputs);
        let whole: Vec<bool> = region.inputs.iter().map(|&value| reduces_tensor(graph, value)).collect();
        let found = known.entry((content, whole)).or_insert_with_key(|(_, whole)| name(body, whole));
        names.push(found.clone());
    }
    for (region, name) in partition.regions.iter_mut().zip(names) {
        region.name = name.unwrap_or_else(|| region.name.clone());
    }
}

/// How often each name occurs; names of kinds are not counted.
pub fn counts(partition: &Partition) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for region in partition.regions.iter().filter(|r| r.name != Kind::Row.name()) {
        *counts.entry(region.name.clone()).or_default() += 1;
    }
    counts
}

/// The most specific name of the body of a region, some of whose inputs come from reductions of whole tensors.
fn name(region: &Graph, whole: &[bool]) -> Option<String> {
    // Names are of what is computed, wherever its layout stands.
    let body = expand(region).ok()?;
    let s = Skeleton::of(&body)?;
    let (base, product) = base(&s).map_or((None, None), |(name, value)| (Some(name), value));
    let quantisers = quant::find(&s);
    // The quantiser belongs to the name if it quantises what the name computes.
    let mut fused = quantisers.iter().filter(|q| product.is_none_or(|value| s.ancestors(q.source).contains(&value)));
    let suffix = fused.find_map(|q| q.suffix(&s, comes_from_whole_tensor(region, whole, &s, q.by)));
    match (base, suffix) {
        (Some(base), Some(suffix)) => Some(format!("{base}.{suffix}")),
        (Some(base), None) => Some(base.to_owned()),
        (None, Some(suffix)) => Some(format!("quant.{suffix}")),
        (None, None) => None,
    }
}

/// The most specific name without a quantiser, and the value that bears it.
fn base(s: &Skeleton<'_>) -> Option<(&'static str, Option<Value>)> {
    let norms = norm::find(s);
    let ropes = rope::find(s);
    if let Some(&x) = ropes.iter().find(|&&x| norm::is_result(s, &norms, x)) {
        return Some(("qk_norm_rope", Some(x)));
    }
    let best = norms.iter().max_by_key(|n| (n.added, n.layer));
    if let Some(norm) = best {
        let name = match (norm.added, norm.layer) {
            (true, true) => "add_layer_norm",
            (true, false) => "add_rms_norm",
            (false, true) => "layer_norm",
            (false, false) => "rms_norm",
        };
        return Some((name, Some(norm.normal)));
    }
    if let Some(gate) = gate::find(s).first() {
        return Some((gate.name, Some(gate.product)));
    }
    if let Some(&x) = ropes.first() {
        return Some(("rope", Some(x)));
    }
    let soft_cap = || gate::soft_cap(s).map(|value| ("soft_cap", Some(value)));
    softmax(s).map(|value| ("softmax", Some(value))).or_else(soft_cap)
}

/// A value `e / Σ e` with `e = exp(x − max x)`.
fn softmax(s: &Skeleton<'_>) -> Option<Value> {
    s.nodes().find_map(|(_, prim, node)| {
        let (Prim::Map(ScalarFn::Div), &[e, sum]) = (prim, node.operands.as_slice()) else { return None };
        let (Prim::Reduce { op: ReduceOp::Add, .. }, total) = s.prim(s.peel(sum))? else { return None };
        let (ScalarFn::Exp, &[shifted]) = s.map(e)? else { return None };
        let (ScalarFn::Sub, &[x, largest]) = s.map(shifted)? else { return None };
        let (Prim::Reduce { op: ReduceOp::Max, .. }, of) = s.prim(s.peel(largest))? else { return None };
        (s.same(total.operands[0], e) && s.same(of.operands[0], x)).then_some(node.results[0])
    })
}

/// Whether a scale is an input of the region that the graph computes by reducing a whole tensor.
fn comes_from_whole_tensor(region: &Graph, whole: &[bool], s: &Skeleton<'_>, by: Value) -> bool {
    let ancestors = s.ancestors(by);
    let names: Vec<&str> =
        s.body.inputs().iter().filter(|i| ancestors.contains(&i.value)).map(|i| i.name.as_str()).collect();
    let mut inputs = region.inputs().iter().zip(whole);
    inputs.any(|(input, whole)| *whole && names.contains(&input.name.as_str()))
}

/// Whether a value of few steps is the largest element of a tensor.
fn reduces_tensor(graph: &Graph, value: Value) -> bool {
    let mut stack = vec![value];
    let mut steps = 0;
    while let Some(value) = stack.pop() {
        steps += 1;
        let Def::Node(id, _) = graph.def(value) else { continue };
        let node = graph.node(id);
        match &node.op {
            Op::Prim(Prim::Reduce { op: ReduceOp::Max, .. }) => {
                return graph.ty(node.results[0]).elements().as_const() == Some(1);
            }
            Op::Prim(Prim::Map(_) | Prim::Cast { .. } | Prim::Reshape { .. }) if steps < 32 => {
                stack.extend(&node.operands);
            }
            _ => {}
        }
    }
    false
}
