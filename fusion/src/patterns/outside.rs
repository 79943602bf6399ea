//! What lies in front of a region: the steps from an extreme that a kernel before it finds to a scale that it reads.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::axes::AxisMap;
use fusewright_graph::{Builder, Def, Graph, Node, NodeId, Op, Prim, ReduceOp, ScalarFn, TypeError, Value};

use super::scale::crosses;
use super::skeleton::{Skeleton, is_transparent};
use crate::passes;
use crate::region::{FusedRegion, expand};

/// Most steps from a region back to the extremes that its scales are made of.
const STEPS: usize = 64;

/// What lies in front of a region.
pub(super) struct Front<'g> {
    graph: &'g Graph,
    /// What the inputs of the region are.
    inputs: BTreeMap<&'g str, Value>,
    nodes: BTreeSet<NodeId>,
    /// Whether extremes are among the nodes.
    extremes: bool,
    /// What functions of several elements other than extremes yield.
    computed: BTreeSet<Value>,
}

impl<'g> Front<'g> {
    /// What lies between the inputs of a region that its scales are made of and the extremes that they come from.
    pub fn of(graph: &'g Graph, region: &'g FusedRegion, scales: &BTreeSet<String>) -> Front<'g> {
        let names = region.body.inputs().iter().map(|input| input.name.as_str());
        let inputs: BTreeMap<&str, Value> = names.zip(region.inputs.iter().copied()).collect();
        let mut front = Front { graph, inputs, nodes: BTreeSet::new(), extremes: false, computed: BTreeSet::new() };
        for (name, value) in front.inputs.clone() {
            front.follow(value, scales.contains(name));
        }
        front
    }

    /// Whether all scales are inputs of the model or functions of them alone.
    pub fn is_given(&self) -> bool {
        !self.extremes && self.computed.is_empty()
    }

    /// Follows a value back: a scale to the extremes that it is made of, and what they are of, or what is scaled, through
    /// roundings and layout.
    fn follow(&mut self, value: Value, scale: bool) {
        let mut open = vec![(value, scale)];
        let mut seen = BTreeSet::new();
        while let Some((value, scale)) = open.pop() {
            let Def::Node(id, _) = self.graph.def(value) else { continue };
            if !seen.insert((value, scale)) || seen.len() > STEPS {
                continue;
            }
            let node = self.graph.node(id);
            let still_scale = match Step::of(self.graph, node) {
                Step::Extreme => {
                    self.extremes |= scale;
                    false
                }
                Step::Found if scale => {
                    self.extremes = true;
                    false
                }
                Step::Layout | Step::Magnitude => scale,
                Step::Map if scale => true,
                Step::Computed if scale => {
                    self.computed.insert(value);
                    continue;
                }
                Step::Map | Step::Computed | Step::Found => continue,
            };
            self.nodes.insert(id);
            open.extend(node.operands.iter().map(|&operand| (operand, still_scale)));
        }
    }

    /// A region's body of primitives with what lies in front of it.
    pub fn with(&self, body: &Graph) -> Option<Outside> {
        self.join(body).ok()
    }

    fn join(&self, body: &Graph) -> Result<Outside, TypeError> {
        let (front, given) = self.outline()?;
        let b = Builder::new("outside");
        declare_symbols(self.graph, &b);
        let mut known: BTreeMap<Value, Value> = BTreeMap::new();
        let read = |value: Value, known: &mut BTreeMap<Value, Value>| {
            let name = format!("x{}", known.len());
            *known.entry(value).or_insert_with(|| b.input(&name, self.graph.ty(value).clone()))
        };
        // Equal nodes are one, so that what is scaled is seen to be what the extreme is of.
        let mut met = passes::Met::default();
        let mut inline = |of: &Graph, mut map: BTreeMap<Value, Value>| {
            let mut added = 0;
            for node in of.nodes() {
                let operands: Vec<Value> = node.operands.iter().map(|v| map[v]).collect();
                let (results, merged) = met.merged(&node.op, &operands, true, || b.op(node.op.clone(), &operands))?;
                added += usize::from(!merged);
                map.extend(node.results.iter().copied().zip(results));
            }
            Ok::<_, TypeError>((map, added))
        };
        let map = front.inputs().iter().map(|i| (i.value, read(given[&i.name], &mut known))).collect();
        let (map, nodes) = inline(&front, map)?;
        known.extend(self.ends().into_iter().zip(front.outputs()).map(|(value, output)| (value, map[&output.value])));
        let map = body.inputs().iter().map(|i| (i.value, read(self.inputs[i.name.as_str()], &mut known))).collect();
        let (values, _) = inline(body, map)?;
        body.outputs().iter().for_each(|output| b.output(values[&output.value]));
        let computed = self.computed.iter().filter_map(|value| known.get(value).copied()).collect();
        Ok(Outside { graph: b.finish(), front: nodes, values, computed })
    }

    /// The inputs of the region that the nodes yield.
    fn ends(&self) -> BTreeSet<Value> {
        let inside = |v: &Value| matches!(self.graph.def(*v), Def::Node(id, _) if self.nodes.contains(&id));
        self.inputs.values().copied().filter(inside).collect()
    }

    /// The nodes as a graph of primitives, and what its inputs are.
    fn outline(&self) -> Result<(Graph, BTreeMap<String, Value>), TypeError> {
        let b = Builder::new("front");
        declare_symbols(self.graph, &b);
        let (mut map, mut inputs) = (BTreeMap::new(), BTreeMap::new());
        for &id in &self.nodes {
            let node = self.graph.node(id);
            let operands = node.operands.iter().map(|&operand| {
                *map.entry(operand).or_insert_with(|| {
                    let name = format!("x{}", inputs.len());
                    inputs.insert(name.clone(), operand);
                    b.input(&name, self.graph.ty(operand).clone())
                })
            });
            let operands: Vec<Value> = operands.collect();
            map.extend(node.results.iter().copied().zip(b.op(node.op.clone(), &operands)?));
        }
        self.ends().iter().for_each(|value| b.output(map[value]));
        Ok((expand(&b.finish())?, inputs))
    }
}

fn declare_symbols(graph: &Graph, b: &Builder) {
    for symbol in graph.symbols() {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
}

/// A region with what lies in front of it.
pub(super) struct Outside {
    graph: Graph,
    /// How many nodes lie in front.
    front: usize,
    /// The values of the graph by those of the region's body.
    values: BTreeMap<Value, Value>,
    computed: BTreeSet<Value>,
}

impl Outside {
    /// The region with what lies in front of it, under query.
    pub fn skeleton(&self) -> Option<Skeleton<'_>> {
        let axes = AxisMap::of(&self.graph).ok()?;
        Some(Skeleton { body: &self.graph, axes, front: self.front, computed: self.computed.clone() })
    }

    /// The value of the graph that a value of the region's body is.
    pub fn value(&self, value: Value) -> Value {
        self.values[&value]
    }
}

/// What a node is on the way back from a scale.
enum Step {
    /// A rounding or another layout.
    Layout,
    /// The magnitude of each element.
    Magnitude,
    /// A function of single elements, or a choice of them.
    Map,
    /// The largest or the smallest of several elements.
    Extreme,
    /// A composite that finds an extreme.
    Found,
    /// Any other function of several elements.
    Computed,
}

impl Step {
    fn of(graph: &Graph, node: &Node) -> Step {
        let dtype = |v: &Value| graph.ty(*v).dtype;
        match &node.op {
            Op::Prim(prim) if node.operands.first().is_some_and(|v| is_transparent(prim, dtype(v))) => Step::Layout,
            Op::Prim(Prim::Map(ScalarFn::Abs)) => Step::Magnitude,
            Op::Prim(Prim::Reduce { op: ReduceOp::Max | ReduceOp::Min, .. }) => Step::Extreme,
            Op::Prim(prim) if crosses(prim) => Step::Computed,
            Op::Prim(_) => Step::Map,
            Op::Composite(composite) => {
                let b = Builder::new("step");
                let inputs = node.operands.iter().enumerate();
                let inputs: Vec<Value> = inputs.map(|(i, &v)| b.input(&format!("x{i}"), graph.ty(v).clone())).collect();
                let expanded = b.composite(composite.clone(), &inputs).and_then(|_| b.finish().expanded());
                let has = |wanted: &dyn Fn(&Prim) -> bool| {
                    let mut nodes = expanded.iter().flat_map(|graph| graph.nodes());
                    nodes.any(|node| matches!(&node.op, Op::Prim(prim) if wanted(prim)))
                };
                match has(&|prim| matches!(prim, Prim::Reduce { op: ReduceOp::Max, .. })) {
                    true => Step::Found,
                    false if has(&crosses) => Step::Computed,
                    false => Step::Map,
                }
            }
        }
    }
}
