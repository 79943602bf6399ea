//! What `explain` reports, as plain data: regions, names, reasons, passes.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_abi::ContentKey;
use fusewright_graph::{Def, Dim, Graph, NodeId, Op, Prim, TypeError, Value, dim};

use crate::key::region_key;
use crate::pass::{PassReport, Relaxation};
use crate::patterns;
use crate::region::{FusedRegion, Partition, Refusal};

/// What became of a graph.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The regions, then the ops that have a kernel each.
    pub regions: Vec<RegionReport>,
    /// How often each pattern occurs.
    pub patterns: BTreeMap<String, usize>,
    /// Every node in no region.
    pub refused: Vec<RefusalReport>,
    /// What the passes changed.
    pub passes: Vec<PassReport>,
}

/// One region.
#[derive(Clone, Debug)]
pub struct RegionReport {
    /// Public name.
    pub name: String,
    /// Kind of fusion.
    pub kind: &'static str,
    /// Its ops in order, constants left out.
    pub ops: Vec<String>,
    /// Independent rows.
    pub rows: Dim,
    /// Bytes that the kernel reads and writes.
    pub bytes_fused: Dim,
    /// Bytes that its ops read and write one by one; views are free, and so is what nobody would store.
    pub bytes_unfused: Dim,
    /// Key of its kernel's source.
    pub key: ContentKey,
    /// Neighbours that did not join.
    pub ends: Vec<RefusalReport>,
}

/// A node and why it is not where it could be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusalReport {
    /// The op.
    pub op: String,
    /// Where it came from.
    pub origin: String,
    /// Short name of the reason.
    pub code: &'static str,
    /// The reason in words; of an op of the host framework with what its import says of it.
    pub reason: String,
}

/// Explains a partition.
///
/// # Errors
/// None for a partition of a verified graph.
pub fn explain(graph: &Graph, partition: &Partition, passes: &[PassReport]) -> Result<Explanation, TypeError> {
    let regions = partition.kernels().map(|region| region_report(graph, region)).collect::<Result<_, _>>()?;
    let refused = partition.unfused.iter().map(|u| refusal_report(graph, u.node, u.refusal)).collect();
    Ok(Explanation { regions, patterns: patterns::counts(partition), refused, passes: passes.to_vec() })
}

/// The relaxations of a value that a region computes, or of one that it reads and no region computes.
pub fn relaxed_in<'r>(
    graph: &Graph,
    partition: &Partition,
    region: &FusedRegion,
    relaxations: &'r [Relaxation],
) -> Vec<&'r Relaxation> {
    let computes = |region: &FusedRegion, value: Value| match graph.def(value) {
        Def::Node(id, _) => region.nodes.contains(&id),
        Def::Input(_) => false,
    };
    let belongs = |value: Value| {
        computes(region, value)
            || region.inputs.contains(&value) && !partition.kernels().any(|other| computes(other, value))
    };
    relaxations.iter().filter(|r| belongs(r.value)).collect()
}

fn region_report(graph: &Graph, region: &FusedRegion) -> Result<RegionReport, TypeError> {
    let constant = |id: &&NodeId| matches!(graph.node(**id).op, Op::Prim(Prim::Literal(_) | Prim::SizeOf(_)));
    let ops = region.nodes.iter().filter(|id| !constant(id)).map(|&id| graph.node(id).op.name().to_owned()).collect();
    let rows = region.space().map_or(Dim::constant(1), |space| {
        dim::product(&space.rows.iter().map(|&axis| space.axes.extent(axis).clone()).collect::<Vec<_>>())
    });
    let ends = region.ends.iter().map(|end| refusal_report(graph, end.node, end.refusal)).collect();
    Ok(RegionReport {
        name: region.name.clone(),
        kind: region.kind.name(),
        ops,
        rows,
        bytes_fused: &bytes_read(&region.body) + &bytes(graph, region.outputs.iter()),
        bytes_unfused: bytes_unfused(graph, region),
        key: region_key(region)?,
        ends,
    })
}

fn refusal_report(graph: &Graph, id: NodeId, refusal: Refusal) -> RefusalReport {
    let node = graph.node(id);
    let (op, origin) = (node.op.name().to_owned(), graph.origin(node).to_string());
    RefusalReport { op, origin, code: refusal.name(), reason: said(&node.op, refusal) }
}

/// Why an op is not where it could be; of an op of the host framework with its name and the reason that it carries.
pub fn said(op: &Op, refusal: Refusal) -> String {
    match op {
        Op::Prim(Prim::Opaque { target, attrs, .. }) if refusal == Refusal::Opaque => {
            let own = attrs.iter().find(|(name, _)| name == "reason");
            let own = own.map_or_else(String::new, |(_, reason)| format!(": {reason}"));
            format!("{}: `{target}`{own}", refusal.message())
        }
        _ => refusal.message().to_owned(),
    }
}

/// Bytes of values of a graph.
fn bytes<'a>(graph: &Graph, values: impl Iterator<Item = &'a Value>) -> Dim {
    let eight = Dim::constant(8);
    values.fold(Dim::constant(0), |sum, &value| {
        let ty = graph.ty(value);
        let bits = &ty.elements() * &Dim::constant(i64::from(ty.dtype.bits()));
        &sum + &bits.ceil_div(&eight)
    })
}

/// Bytes that a body reads: all of an input, unless only parts of it are cut out or chosen.
fn bytes_read(body: &Graph) -> Dim {
    let users = body.users();
    body.inputs().iter().fold(Dim::constant(0), |sum, input| {
        let parts: Option<Vec<Value>> =
            users[input.value.0 as usize].iter().map(|&id| part_of(body, id, input.value)).collect();
        match parts {
            Some(parts) if !parts.is_empty() && !body.is_output(input.value) => &sum + &bytes(body, parts.iter()),
            _ => &sum + &bytes(body, [input.value].iter()),
        }
    })
}

/// The result of a node that reads a value in part.
fn part_of(graph: &Graph, id: NodeId, value: Value) -> Option<Value> {
    let node = graph.node(id);
    match &node.op {
        Op::Prim(Prim::Slice { .. }) => Some(node.results[0]),
        Op::Prim(Prim::Gather { .. }) if node.operands[1] != value => Some(node.results[0]),
        _ => None,
    }
}

/// Bytes that the ops of a region move one by one. Views are free, and so is what broadcasting alone makes larger than all
/// that it is made of, an outer product say: nobody would store that, so that whoever reads it reads what it is made of.
fn bytes_unfused(graph: &Graph, region: &FusedRegion) -> Dim {
    let mut made: BTreeMap<Value, BTreeSet<Value>> = BTreeMap::new();
    region.nodes.iter().fold(Dim::constant(0), |sum, &id| {
        let node = graph.node(id);
        let of = |&value: &Value| made.get(&value).cloned().unwrap_or_else(|| BTreeSet::from([value]));
        let read: BTreeSet<Value> = match &node.op {
            // Of a gather the rows that it chooses.
            Op::Prim(Prim::Gather { .. }) => node.results.iter().copied().chain(of(&node.operands[1])).collect(),
            _ => node.operands.iter().flat_map(of).collect(),
        };
        let stored = match &node.op {
            Op::Prim(Prim::Literal(_) | Prim::SizeOf(_) | Prim::Iota { .. }) => false,
            Op::Prim(Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. }) => false,
            Op::Prim(Prim::Slice { .. }) => {
                let whole = graph.ty(node.operands[0]).elements();
                // Of a view of what is stored, the part that is cut out.
                if matches!(read.first(), Some(&value) if read.len() == 1 && graph.ty(value).elements() == whole) {
                    return sum;
                }
                false
            }
            Op::Prim(Prim::Map(_) | Prim::Cast { .. }) => {
                let elements = graph.ty(node.results[0]).elements();
                region.outputs.contains(&node.results[0])
                    || read.iter().any(|&value| graph.ty(value).elements() == elements)
            }
            _ => true,
        };
        if stored {
            return &sum + &bytes(graph, read.iter().chain(&node.results));
        }
        made.insert(node.results[0], read);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::{Cx, PassManager};
    use crate::region::Limits;
    use crate::samples;

    #[test]
    fn a_region_says_which_roundings_it_dropped() {
        use fusewright_graph::DType::{BF16, F32};
        let g = samples::Sample::new(false);
        let (x, y) = (g.input("x", F32, &[-1, 64]), g.input("y", F32, &[-1, 64]));
        let rounded = |v| g.b.cast(g.b.cast(v, BF16)?, F32);
        let build = || -> samples::Built<[Value; 2]> {
            let square = rounded(g.b.mul(x, x)?)?;
            // Two regions: a product lies between them.
            let product = g.b.prim(Prim::MatMul { transpose_b: true, out: F32 }, &[y, y])?;
            Ok([g.b.add(square, square)?, g.b.add(rounded(product)?, product)?])
        };
        let outputs = build().expect("types");
        let graph = g.finish(&outputs);
        for relaxed in [false, true] {
            let mut cx = Cx { relaxed, ..Cx::default() };
            let (graph, _) = PassManager::default().run(&graph, &mut cx, &mut []).expect("runs");
            let partition = crate::region::partition(&graph, &Limits::default());
            assert_eq!(partition.regions.len(), 2);
            for region in &partition.regions {
                let found = relaxed_in(&graph, &partition, region, &cx.relaxations);
                let found: Vec<(&str, usize)> = found.iter().map(|r| (r.rewrite.as_str(), r.times)).collect();
                assert_eq!(found, if relaxed { vec![("drop_bf16", 1)] } else { Vec::new() });
            }
        }
    }

    #[test]
    fn what_is_cut_out_or_chosen_is_read_in_part() {
        let text = "graph @parts(s: 0..; %x: f32[s, 1000], %table: f32[5000, 8], %i: i64[s]) {
           %a = slice %x {axis = 1, start = 0, end = 8, step = 1}
           %b = slice %x {axis = 1, start = 8, end = 16, step = 1}
           %rows = gather %table, %i {axis = 0}
           %sum = add %a, %b
           %y = mul %sum, %rows
           return %y
         }";
        let graph: Graph = text.parse().expect("parses");
        let mut partition = crate::region::partition(&graph, &Limits::default());
        patterns::name_regions(&graph, &mut partition);
        let explanation = explain(&graph, &partition, &[]).expect("types");
        let [region] = explanation.regions.as_slice() else { panic!("{:?}", explanation.regions) };
        // Two slices, eight lanes of the table and an index per row in; eight lanes out.
        assert_eq!(region.bytes_fused.to_string(), "s*136");
    }

    /// How many bytes the one region of a graph moves, and its ops one by one.
    #[track_caller]
    fn moved(text: &str) -> [String; 2] {
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let mut partition = crate::region::partition(&graph, &Limits::default());
        patterns::name_regions(&graph, &mut partition);
        let explanation = explain(&graph, &partition, &[]).expect("types");
        let [region] = explanation.regions.as_slice() else { panic!("{:?}", explanation.regions) };
        [&region.bytes_fused, &region.bytes_unfused].map(Dim::to_string)
    }

    #[test]
    fn what_nobody_would_store_saves_nothing() {
        // A sum of each row's first lanes, as a product with a triangle that is summed.
        let sums = "graph @sums(s: 1..; %x: f32[s, 40], %t: f32[40, 40]) {
           %r = reshape %x {shape = [s, 1, 40]}
           %p = mul %r, %t
           %n = neg %p
           %y = reduce %n {op = add, axes = [2]}
           return %y
         }";
        assert_eq!(moved(sums), ["s*320 + 6400", "s*320 + 6400"]);
        // The triangle as a comparison of counters.
        let counted = "graph @counted(s: 1..; %x: f32[s, 40]) {
           %i = iota {type = i32[40, 1], axis = 0}
           %j = iota {type = i32[40], axis = 0}
           %below = ge %i, %j
           %r = reshape %x {shape = [s, 1, 40]}
           %zero = literal f32 0.0
           %p = select %below, %r, %zero
           %y = reduce %p {op = add, axes = [2]}
           return %y
         }";
        assert_eq!(moved(counted), ["s*320", "s*320"]);
        // What is as large as an operand is stored and read again, and so is an outer product that is returned.
        let chain = "graph @chain(s: 1..; %x: f32[s, 40], %w: f32[40]) {
           %a = mul %x, %w
           %y = exp %a
           return %y
         }";
        assert_eq!(moved(chain), ["s*320 + 160", "s*640 + 160"]);
        let outer = "graph @outer(s: 1..; %x: f32[s, 40], %w: f32[40]) {
           %r = reshape %x {shape = [s, 40, 1]}
           %a = mul %r, %w
           %y = exp %a
           return %a, %y
         }";
        assert_eq!(moved(outer), ["s*12960 + 160", "s*19360 + 160"]);
        // Of lanes that are cut out, those.
        let cut = "graph @cut(s: 1..; %x: f32[s, 40]) {
           %r = reshape %x {shape = [s, 4, 10]}
           %a = slice %r {axis = 1, start = 0, end = 1}
           %y = exp %a
           return %y
         }";
        assert_eq!(moved(cut)[1], "s*80");
    }

    #[test]
    fn a_region_says_what_it_saves() {
        let graph = samples::add_norm_fp8_token(4096).expect("types");
        let (graph, passes) = PassManager::default().run(&graph, &mut Cx::default(), &mut []).expect("runs");
        let mut partition = crate::region::partition(&graph, &Limits::default());
        patterns::name_regions(&graph, &mut partition);
        let explanation = explain(&graph, &partition, &passes).expect("types");
        let [region] = explanation.regions.as_slice() else { panic!("{:?}", explanation.regions) };
        assert_eq!(region.name, "add_rms_norm.fp8_token");
        assert_eq!(region.rows.to_string(), "s");
        // Two rows in, the weight; codes, sum and scale out.
        assert_eq!(region.bytes_fused.to_string(), "s*28676 + 8192");
        let at = |d: &Dim| d.eval(&|_| Some(64)).expect("known");
        assert!(at(&region.bytes_unfused) > 4 * at(&region.bytes_fused));
        assert!(explanation.refused.is_empty());
        assert!(!explanation.passes.is_empty());
    }
}
