//! Which outputs of regions are to lie where an input does: those on the way to a value that updates an input of the
//! graph.
//!
//! A residual that is updated in place goes through many regions: each adds to what the one before has left. Such a
//! region's body says `updates` of its output, so that its kernel is made to write there. Whether it may is for lowering
//! to say, and whether the old value is still wanted for whoever plans memory.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::{Graph, Value};

use super::stored::Stored;
use super::{FusedRegion, Partition, Step};

/// Marks the outputs of regions that lead to values that update inputs of the graph.
pub(super) fn mark(graph: &Graph, partition: &mut Partition) {
    let found: Vec<Link> = {
        let mut search = Search::of(graph, partition);
        let mut links = Vec::new();
        for output in graph.outputs() {
            let input = output.updates.as_ref().and_then(|name| graph.inputs().iter().find(|i| i.name == *name));
            if let Some(input) = input {
                let mut way = Vec::new();
                if search.reaches(output.value, input.value, &mut way) {
                    links.extend(way);
                }
            }
        }
        links
    };
    let regions = partition.regions.len();
    for Link { kernel, input, output } in found {
        let region = match kernel.checked_sub(regions) {
            None => &mut partition.regions[kernel],
            Some(lone) => &mut partition.lone[lone],
        };
        let name = region.body.inputs()[input].name.clone();
        region.body = region.body.clone().with_update(output, Some(name));
    }
}

/// An output of a kernel and the input that it overwrites.
struct Link {
    kernel: usize,
    input: usize,
    output: usize,
}

struct Search<'p> {
    graph: &'p Graph,
    kernels: Vec<&'p FusedRegion>,
    /// The kernel and the output that make a value.
    makers: BTreeMap<Value, (usize, usize)>,
    /// The last step that reads a value, and the step of each kernel.
    last: BTreeMap<Value, usize>,
    steps: BTreeMap<usize, usize>,
    /// Values that have been looked at.
    seen: BTreeSet<Value>,
}

impl<'p> Search<'p> {
    fn of(graph: &'p Graph, partition: &'p Partition) -> Self {
        let kernels: Vec<&FusedRegion> = partition.kernels().collect();
        let makers = kernels.iter().enumerate();
        let makers = makers.flat_map(|(k, r)| r.outputs.iter().enumerate().map(move |(i, &v)| (v, (k, i)))).collect();
        let (mut last, mut steps) = (BTreeMap::new(), BTreeMap::new());
        for (at, step) in partition.steps.iter().enumerate() {
            let inputs = match *step {
                Step::Node(id) => &graph.node(id).operands,
                Step::Region(i) => {
                    steps.insert(i, at);
                    &partition.regions[i].inputs
                }
                Step::Lone(i) => {
                    steps.insert(partition.regions.len() + i, at);
                    &partition.lone[i].inputs
                }
            };
            last.extend(inputs.iter().map(|&v| (v, at)));
        }
        Search { graph, kernels, makers, last, steps, seen: BTreeSet::new() }
    }

    /// Whether kernels lead from `start` to `value`, each overwriting what the one before it made; their links.
    fn reaches(&mut self, value: Value, start: Value, way: &mut Vec<Link>) -> bool {
        let Some(&(kernel, output)) = self.makers.get(&value) else { return false };
        let region = self.kernels[kernel];
        let scattered = Stored::of(&region.body, region.body.outputs()[output].value).scatter;
        let fits = |input: &usize| match scattered {
            Some(scattered) => region.body.inputs()[*input].value == scattered.input,
            None => self.graph.ty(region.inputs[*input]) == self.graph.ty(value),
        };
        let mut inputs: Vec<usize> = (0..region.inputs.len()).filter(fits).collect();
        inputs.sort_by_key(|&i| region.inputs[i] != start);
        for input in inputs {
            let old = region.inputs[input];
            let ends_here = self.last.get(&old) == self.steps.get(&kernel) && !self.graph.is_output(old);
            if old == start || (ends_here && self.seen.insert(old) && self.reaches(old, start, way)) {
                // A scatter overwrites what it writes into by itself.
                way.extend(scattered.is_none().then_some(Link { kernel, input, output }));
                return true;
            }
        }
        false
    }
}
