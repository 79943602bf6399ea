//! Fused regions that one op of a vendor's library computes, for users who prefer it to a generated kernel.
//!
//! An op replaces a region only where both compute the same: the op's definition, which the importer has, goes through the
//! passes that the graph went through, and what comes out is compared with the region's body, node by node. So every rounding
//! counts, and in relaxed mode those that are left. Nothing is replaced unless its op is switched on by name.

mod bind;
mod near;
mod same;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use fusewright_graph::Graph;
use fusewright_graph::import::Plain;

use crate::key::body_key;
use crate::pass::Pipeline;
use crate::region::{FusedRegion, Partition};
use bind::Verdict;

pub use near::Near;

/// The names of the ops that can be switched on, in the order in which they are tried: what fuses more comes first.
pub fn names() -> impl Iterator<Item = &'static str> {
    table::OPS.iter().map(|op| op.name)
}

/// A call of an op in the place of a region.
#[derive(Clone, PartialEq, Debug)]
pub struct VendorCall {
    /// The op, as the framework spells it.
    pub op: &'static str,
    /// Parameters that are tensors, and the inputs of the region's body that they are.
    pub tensors: Vec<(&'static str, String)>,
    /// Parameters of other kinds that do not have their defaults.
    pub plain: Vec<(&'static str, Plain)>,
    /// The results of the op by name, and which output of the region's body each is.
    pub results: Vec<(&'static str, Option<usize>)>,
}

impl fmt::Display for VendorCall {
    /// As Python calls it; `_` is a result that nothing reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = |(_, output): &(&str, Option<usize>)| output.map_or("_".to_owned(), |i| format!("out{i}"));
        let results: Vec<String> = self.results.iter().map(result).collect();
        write!(f, "{} = torch_npu.{}(", results.join(", "), self.op)?;
        let tensors = self.tensors.iter().map(|(name, input)| format!("{name}={input}"));
        let plain = self.plain.iter().map(|(name, value)| format!("{name}={}", python(value)));
        write!(f, "{})", tensors.chain(plain).collect::<Vec<_>>().join(", "))
    }
}

/// A value as Python writes it.
fn python(value: &Plain) -> String {
    match value {
        Plain::Bool(true) => "True".to_owned(),
        Plain::Bool(false) => "False".to_owned(),
        Plain::Int(n) => n.to_string(),
        Plain::Float(x) => format!("{x:?}"),
        Plain::Word(word) => format!("'{word}'"),
    }
}

/// What became of an op that was switched on.
#[derive(Clone, PartialEq, Debug)]
pub struct VendorReport {
    /// The op.
    pub name: &'static str,
    /// The regions that it replaces, by their places in the partition.
    pub regions: Vec<usize>,
    /// Regions that it would replace but for their roundings: `--relaxed` may take them.
    pub but_for_rounding: Vec<usize>,
    /// How near it comes to regions that no op replaces, these among them, by their places.
    pub near: BTreeMap<usize, Near>,
}

/// Regions that ops replace, and what became of every op that is on.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Replaced {
    /// The call of each replaced region, by its place in the partition.
    pub calls: BTreeMap<usize, VendorCall>,
    /// Of each op, in the order of [`names`].
    pub reports: Vec<VendorReport>,
}

/// The regions of a partition that ops of a set compute. `pipeline` is what the graph went through, in relaxed mode or not.
pub fn replaced(partition: &Partition, pipeline: &Pipeline, relaxed: bool) -> Replaced {
    let on: &BTreeSet<&'static str> = pipeline.vendor_ops();
    let mut replaced = Replaced::default();
    // Of equal layers one is looked at.
    let mut known: BTreeMap<(&str, String), Verdict> = BTreeMap::new();
    for op in table::OPS.iter().filter(|op| on.contains(op.name)) {
        let mut report =
            VendorReport { name: op.name, regions: Vec::new(), but_for_rounding: Vec::new(), near: BTreeMap::new() };
        for (place, region) in partition.regions.iter().enumerate() {
            if replaced.calls.contains_key(&place) {
                continue;
            }
            let Some((key, body)) = content(region) else { continue };
            let verdict = known.entry((op.name, key)).or_insert_with(|| bind::find(op, &body, pipeline, relaxed));
            match verdict {
                Verdict::Same(call) => {
                    report.regions.push(place);
                    replaced.calls.insert(place, call.clone());
                }
                Verdict::ButForRounding => report.but_for_rounding.push(place),
                Verdict::Other => {}
            }
        }
        replaced.reports.push(report);
    }
    // An op that comes near another's region has nothing to say of it.
    let mut known: BTreeMap<(&str, String), Option<Near>> = BTreeMap::new();
    let named = table::OPS.iter().filter(|op| on.contains(op.name));
    for (op, report) in named.zip(&mut replaced.reports) {
        for (place, region) in partition.regions.iter().enumerate() {
            let free = !replaced.calls.contains_key(&place);
            let Some((key, body)) = content(region).filter(|_| free) else { continue };
            let near = known.entry((op.name, key)).or_insert_with(|| near::near(op, &body, pipeline, relaxed));
            report.near.extend(near.clone().map(|near| (place, near)));
        }
    }
    replaced
}

/// The body of a region in primitives, and what tells it from others: its content and the names of its inputs.
fn content(region: &FusedRegion) -> Option<(String, Graph)> {
    let body = crate::region::expand(&region.body).ok()?;
    let names: Vec<&str> = body.inputs().iter().map(|input| input.name.as_str()).collect();
    let key = format!("{} {}", body_key(&body).ok()?, names.join(" "));
    Some((key, body))
}
