//! Smaller graphs that fail in the same way: outputs are dropped, values become inputs, and what nothing reads goes.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::{Builder, Graph, NodeId, Op, Value};

/// The smallest graph found that still fails, and how: steps are taken as long as `fails` says how a smaller graph
/// fails in the same way. Weights of the smaller graphs are inputs.
pub fn reduce<F>(graph: &Graph, failure: F, mut fails: impl FnMut(&Graph) -> Option<F>) -> (Graph, F) {
    let (mut graph, mut failure) = (graph.clone(), failure);
    loop {
        let smaller = candidates(&graph).into_iter().find_map(|smaller| fails(&smaller).map(|found| (smaller, found)));
        match smaller {
            Some(found) => (graph, failure) = found,
            None => return (graph, failure),
        }
    }
}

/// Graphs one step smaller, those that drop most first.
fn candidates(graph: &Graph) -> Vec<Graph> {
    let outputs: Vec<Value> = graph.outputs().iter().map(|o| o.value).collect();
    let mut found = vec![part(graph, &outputs, &BTreeSet::new())];
    if outputs.len() > 1 {
        found.extend(outputs.iter().map(|&only| part(graph, &[only], &BTreeSet::new())));
        found.extend((0..outputs.len()).map(|i| {
            let rest: Vec<Value> =
                outputs.iter().copied().enumerate().filter(|(j, _)| *j != i).map(|(_, v)| v).collect();
            part(graph, &rest, &BTreeSet::new())
        }));
    }
    let computed: Vec<Value> = graph.nodes().iter().flat_map(|n| n.results.iter().copied()).collect();
    // An earlier value as the only output drops what comes after it, a value as an input what comes before it.
    found.extend(computed.iter().filter(|v| !outputs.contains(v)).map(|&v| part(graph, &[v], &BTreeSet::new())));
    let inner = computed.iter().rev().filter(|v| !outputs.contains(v) && graph.ty(**v).rank() > 0);
    found.extend(inner.map(|&v| part(graph, &outputs, &BTreeSet::from([v]))));
    let size = |g: &Graph| (g.nodes().len(), g.outputs().len(), g.inputs().len(), g.symbols().len());
    found.retain(|g| size(g) < size(graph) && !g.nodes().is_empty());
    found
}

/// The part of a graph that `outputs` need, with `cut` values given as inputs.
fn part(graph: &Graph, outputs: &[Value], cut: &BTreeSet<Value>) -> Graph {
    let mut wanted: BTreeSet<Value> = outputs.iter().copied().collect();
    let mut kept = Vec::new();
    for id in graph.node_ids().rev() {
        let node = graph.node(id);
        if node.results.iter().any(|r| wanted.contains(r) && !cut.contains(r)) {
            wanted.extend(&node.operands);
            kept.push(id);
        }
    }
    let b = Builder::new(graph.name());
    let symbols = symbols(graph, &kept, &wanted);
    for symbol in graph.symbols().iter().filter(|symbol| symbols.contains(&symbol.name)) {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
    let mut map: BTreeMap<Value, Value> = BTreeMap::new();
    for input in graph.inputs().iter().filter(|i| wanted.contains(&i.value)) {
        map.insert(input.value, b.input(&input.name, graph.ty(input.value).clone()));
    }
    for &value in cut {
        map.insert(value, b.input(&format!("cut{}x{}", graph.nodes().len(), value.0), graph.ty(value).clone()));
    }
    for id in kept.into_iter().rev() {
        let node = graph.node(id);
        let operands: Vec<Value> = node.operands.iter().map(|v| map[v]).collect();
        let results = b.op(node.op.clone(), &operands).expect("a node of a verified graph has types");
        for (&old, new) in node.results.iter().zip(results) {
            if let std::collections::btree_map::Entry::Vacant(place) = map.entry(old) {
                place.insert(new);
                graph.value_name(old).into_iter().for_each(|name| b.name(new, name));
            }
        }
    }
    let mut updated = BTreeSet::new();
    for value in outputs {
        let is_kept = |name: &String| graph.inputs().iter().any(|i| i.name == *name && wanted.contains(&i.value));
        let over = graph.outputs().iter().filter(|o| o.value == *value).filter_map(|o| o.updates.clone());
        let over = over.filter(is_kept).find(|name| updated.insert(name.clone()));
        b.add_output(map[value], over);
    }
    b.finish()
}

/// The symbols that nodes and values speak of.
fn symbols(graph: &Graph, nodes: &[NodeId], values: &BTreeSet<Value>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for &id in nodes {
        let node = graph.node(id);
        if let Op::Prim(prim) = &node.op {
            prim.dims().into_iter().for_each(|dim| dim.collect_symbols(&mut names));
        }
        node.results.iter().for_each(|v| graph.ty(*v).shape.iter().for_each(|dim| dim.collect_symbols(&mut names)));
    }
    values.iter().for_each(|v| graph.ty(*v).shape.iter().for_each(|dim| dim.collect_symbols(&mut names)));
    names
}
