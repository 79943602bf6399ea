//! Content keys of regions: equal for regions that compute the same, wherever they stand.
//!
//! The key is the SHA-256 of the canonical text of the region's body in primitives, with symbols renamed in the order in
//! which the inputs mention them; the names of nodes, inputs and symbols and the origins of nodes do not enter it. Eighty
//! identical layers have one key.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_abi::ContentKey;
use fusewright_graph::text::{PrintOptions, print_graph};
use fusewright_graph::{Builder, Dim, Graph, Op, Prim, Symbol, TensorType, TypeError, Value};
use sha2::{Digest, Sha256};

use crate::region::FusedRegion;

/// Enters every key; changes when the meaning of a body does.
const VERSION: &str = "fusewright region 1\n";

/// The key of a region.
///
/// # Errors
/// None for a region of a verified graph.
pub fn region_key(region: &FusedRegion) -> Result<ContentKey, TypeError> {
    body_key(&region.expand_body()?)
}

/// The key of a body of primitives.
///
/// # Errors
/// None for a verified graph.
pub fn body_key(body: &Graph) -> Result<ContentKey, TypeError> {
    let text = canonical_text(body)?;
    let digest = Sha256::new().chain_update(VERSION).chain_update(text).finalize();
    Ok(ContentKey(digest.into()))
}

/// The text that a key is the hash of.
///
/// # Errors
/// None for a verified graph.
pub fn canonical_text(body: &Graph) -> Result<String, TypeError> {
    let options = PrintOptions { types: true, hide_origins: true };
    Ok(print_graph(&renamed(body)?, options))
}

/// The graph with all names replaced by numbers.
fn renamed(graph: &Graph) -> Result<Graph, TypeError> {
    let names = symbol_names(graph);
    let rename = |symbol: &str| names.get(symbol).map(|name| Dim::symbol(name));
    let dim = |d: &Dim| d.substitute(&rename);
    let ty = |t: &TensorType| TensorType::new(t.dtype, t.shape.iter().map(dim));
    let b = Builder::new("region");
    let mut symbols: Vec<(&String, &Symbol)> =
        graph.symbols().iter().filter_map(|s| names.get(&s.name).map(|name| (name, s))).collect();
    symbols.sort_by_key(|(name, _)| (name.len(), (*name).clone()));
    for (name, symbol) in symbols {
        b.symbol(name, symbol.min, symbol.max);
    }
    let mut map: BTreeMap<Value, Value> = BTreeMap::new();
    for (i, input) in graph.inputs().iter().enumerate() {
        map.insert(input.value, b.add_input(&format!("x{i}"), ty(graph.ty(input.value)), input.kind.clone()));
    }
    for node in graph.nodes() {
        let operands: Vec<Value> = node.operands.iter().map(|v| map[v]).collect();
        let op = match &node.op {
            Op::Prim(prim) => Op::Prim(with_dims(prim, &dim, &ty)),
            Op::Composite(_) => node.op.clone(),
        };
        map.extend(node.results.iter().copied().zip(b.op(op, &operands)?));
    }
    for output in graph.outputs() {
        let updated = output.updates.as_ref().and_then(|name| graph.inputs().iter().position(|i| i.name == *name));
        b.add_output(map[&output.value], updated.map(|i| format!("x{i}")));
    }
    Ok(b.finish())
}

/// New names in the order in which inputs, then nodes mention the symbols.
fn symbol_names(graph: &Graph) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let inputs = graph.inputs().iter().map(|i| i.value);
    let results = graph.nodes().iter().flat_map(|n| n.results.iter().copied());
    for value in inputs.chain(results) {
        for extent in &graph.ty(value).shape {
            let mut found = BTreeSet::new();
            extent.collect_symbols(&mut found);
            for symbol in found {
                let next = format!("d{}", names.len());
                names.entry(symbol).or_insert(next);
            }
        }
    }
    names
}

/// A primitive with every dim it holds replaced.
fn with_dims(prim: &Prim, dim: &impl Fn(&Dim) -> Dim, ty: &impl Fn(&TensorType) -> TensorType) -> Prim {
    let mut prim = prim.clone();
    match &mut prim {
        Prim::Iota { shape, .. } | Prim::Reshape { shape } | Prim::Expand { shape } => {
            shape.iter_mut().for_each(|extent| *extent = dim(extent));
        }
        Prim::SizeOf(extent) | Prim::TopK { k: extent } => *extent = dim(extent),
        Prim::Slice { start, end, .. } => (*start, *end) = (dim(start), dim(end)),
        Prim::Opaque { results, .. } => results.iter_mut().for_each(|t| *t = ty(t)),
        _ => {}
    }
    prim
}

#[cfg(test)]
mod tests {
    use fusewright_graph::DType::BF16;

    use super::*;
    use crate::region::{Limits, partition};
    use crate::samples::Sample;

    /// Key of `silu(x) · (x + r)` over a named symbol, with or without a different constant.
    fn key(symbol: &str, scaled: f64) -> ContentKey {
        let g = Sample::new(false);
        let s = g.b.symbol(symbol, 1, Some(64));
        let ty = TensorType::new(BF16, [s, Dim::constant(64)]);
        let (x, r) = (g.b.input(&format!("{symbol}_x"), ty.clone()), g.b.input("r", ty));
        let sum = g.b.add(x, r).expect("add");
        let factor = g.b.float(BF16, scaled).expect("literal");
        let y = g.b.mul(g.b.mul(g.silu(x).expect("silu"), sum).expect("mul"), factor).expect("mul");
        let partition = partition(&g.finish(&[y]), &Limits::default());
        region_key(&partition.regions[0]).expect("types")
    }

    #[test]
    fn names_do_not_enter_a_key_and_constants_do() {
        assert_eq!(key("tokens", 2.0), key("a", 2.0));
        assert_ne!(key("tokens", 2.0), key("tokens", 4.0));
    }
}
