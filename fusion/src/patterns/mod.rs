//! Named patterns: queries over the bodies of regions.
//!
//! A name says what a region computes at least, whatever the spelling and the rounding; fusion never depends on it. A
//! region has one name, the most specific: a residual add before a norm is more specific than the norm, a fused
//! quantiser more than none. Several quantisers are all in it. A region that no query knows has the name of its kind.

mod emulated;
mod gate;
mod multiple;
mod norm;
mod outside;
mod power;
mod quant;
mod rope;
mod scale;
mod skeleton;
mod stream;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fusewright_graph::{Graph, NodeId, Prim, ReduceOp, ScalarFn, Value};

use crate::region::{Content, Contents, Kind, Partition, expand};
use outside::Front;
use skeleton::Skeleton;

pub use vocabulary::{all_names, is_name};

/// Gives every region its name.
pub fn name_regions(graph: &Graph, partition: &mut Partition) {
    let mut contents = Contents::default();
    // Of equal layers one is looked at. It is only looked up.
    let mut known: HashMap<Content, Named> = HashMap::new();
    let mut names = Vec::with_capacity(partition.regions.len());
    for region in &partition.regions {
        let body = &region.body;
        let nodes: Vec<NodeId> = body.node_ids().collect();
        let values = body.inputs().iter().map(|input| input.value).collect::<Vec<_>>();
        let outputs = body.outputs().iter().map(|output| output.value).collect::<Vec<_>>();
        let content = contents.of(body, &nodes, &values, &outputs);
        let found = known.entry(content).or_insert_with(|| name(body, None));
        let front = (!found.scales.is_empty()).then(|| Front::of(graph, region, &found.scales));
        names.push(match front.filter(|front| !front.is_given()) {
            None => found.name.clone(),
            Some(front) => name(body, Some(&front)).name,
        });
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

/// What a region is called.
#[derive(Default)]
struct Named {
    name: Option<String>,
    /// The inputs that the scales of its quantisers are made of, besides what is scaled.
    scales: BTreeSet<String>,
}

/// The most specific name of the body of a region, and of what lies in front of it if scales are computed there.
fn name(region: &Graph, front: Option<&Front<'_>>) -> Named {
    // Names are of what is computed, wherever its layout stands.
    let Ok(body) = expand(region) else { return Named::default() };
    let Some(s) = Skeleton::of(&body) else { return Named::default() };
    let base = base(&s);
    // Quantisers belong to the name if they quantise what the name computes.
    let products = base.as_ref().map(|(_, products)| products.as_slice());
    let is_of = |q: &quant::Quantiser, products: &[Value]| {
        let ancestors = s.ancestors(q.source);
        products.iter().any(|value| ancestors.contains(value))
    };
    let mut fused = quant::find(&s);
    fused.retain(|q| products.is_none_or(|products| is_of(q, products)));
    let made: BTreeSet<Value> = fused.iter().flat_map(|q| q.scale_is_of(&s)).collect();
    let scales = body.inputs().iter().filter(|i| made.contains(&i.value)).map(|i| i.name.clone()).collect();
    if let Some(front) = front {
        let outside = front.with(&body);
        let wide = outside.as_ref().and_then(|outside| Some((outside, outside.skeleton()?)));
        fused = fused.into_iter().filter_map(|q| q.traced(wide.as_ref().map(|(outside, s)| (*outside, s)))).collect();
    }
    let suffixes = vocabulary::ordered(fused.iter().filter_map(|q| q.suffix(&s)));
    let name = match base {
        Some((base, _)) => Some([vec![base.to_owned()], suffixes].concat().join(".")),
        None if suffixes.is_empty() => None,
        None => Some(format!("{}.{}", vocabulary::QUANTISER, suffixes.join("."))),
    };
    Named { name, scales }
}

/// The most specific name without quantisers, and the values that bear it.
fn base(s: &Skeleton<'_>) -> Option<(&'static str, Vec<Value>)> {
    let norms = norm::find(s);
    let ropes = rope::find(s);
    let normed: Vec<Value> = ropes.iter().copied().filter(|&x| norm::is_result(s, &norms, x)).collect();
    if !normed.is_empty() {
        return Some(("qk_norm_rope", normed));
    }
    if let Some(best) = norms.iter().map(|n| (n.added, n.layer)).max() {
        let name = match best {
            (true, true) => "add_layer_norm",
            (true, false) => "add_rms_norm",
            (false, true) => "layer_norm",
            (false, false) => "rms_norm",
        };
        let alike = norms.iter().filter(|n| (n.added, n.layer) == best);
        return Some((name, alike.map(|n| n.normal).collect()));
    }
    let gates = gate::find(s);
    if let Some(first) = gates.first() {
        let alike = gates.iter().filter(|gate| gate.name == first.name);
        return Some((first.name, alike.map(|gate| gate.product).collect()));
    }
    if !ropes.is_empty() {
        return Some(("rope", ropes));
    }
    let soft_cap = || gate::soft_cap(s).map(|value| ("soft_cap", vec![value]));
    softmax(s).map(|value| ("softmax", vec![value])).or_else(soft_cap)
}

/// A value `e / Σ e`, or `e` times the reciprocal, with `e = exp(x − max x)`.
fn softmax(s: &Skeleton<'_>) -> Option<Value> {
    let inverse = |value| match s.map(value)? {
        (ScalarFn::Div, &[one, sum]) => s.is_about(one, 1.0).then_some(sum),
        (ScalarFn::Recip, &[sum]) => Some(sum),
        _ => None,
    };
    s.nodes().find_map(|(_, prim, node)| {
        let (e, sum) = match (prim, node.operands.as_slice()) {
            (Prim::Map(ScalarFn::Div), &[e, sum]) => (e, sum),
            (Prim::Map(ScalarFn::Mul), &[a, b]) => {
                [(a, b), (b, a)].into_iter().find_map(|(e, f)| Some((e, inverse(f)?)))?
            }
            _ => return None,
        };
        let (total, summed) = s.reduction(sum, ReduceOp::Add)?;
        let (ScalarFn::Exp, &[shifted]) = s.map(e)? else { return None };
        let (ScalarFn::Sub, &[x, largest]) = s.map(shifted)? else { return None };
        let (of, compared) = s.reduction(largest, ReduceOp::Max)?;
        (s.same(total, e) && s.same(of, x) && summed == compared).then_some(node.results[0])
    })
}
