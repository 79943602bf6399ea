//! How long compiling takes: one layer, stacked as often as a model has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use fusewright_abi::Target;
use fusewright_fusion::region_key;
use fusewright_graph::{Builder, Graph, Origin, TypeError, Value};

use crate::compiler::content;
use crate::program::outline;
use crate::{Compilation, Compiler, Error, Fused, Options, fuse_graph_for, model};

/// Figures of one stack of layers. Times are microseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileReport {
    /// How often the layer is stacked.
    pub layers: usize,
    /// Nodes of the whole graph as imported.
    pub nodes: usize,
    /// Fused regions.
    pub regions: usize,
    /// Regions that differ in content.
    pub distinct: usize,
    /// Kernels that were compiled.
    pub compiled: usize,
    /// Reading the layer's file, once per layer.
    pub import_us: u64,
    /// All passes.
    pub passes_us: u64,
    /// Dividing the graph into regions.
    pub regions_us: u64,
    /// From regions to code, as the options say: kernels beside each other, assembled where there is an assembler, and
    /// those taken from the cache on disk that are there.
    pub kernels_us: u64,
    /// How many of the kernels were there.
    pub from_disk: usize,
    /// The same again, now that all kernels are in the cache on disk; none where they are not kept.
    pub kept_us: Option<u64>,
    /// The median of a kernel, from Kernel IR to what the compiler itself makes: one after the other, not assembled and
    /// not kept.
    pub emit_us: Option<u64>,
    /// Most memory that the process ever held, where the system says so.
    pub peak_bytes: Option<u64>,
    /// What is wrong with the cache on disk or a table of schedules.
    pub warning: Option<String>,
}

/// Compiles `layers` copies of a model, each fed by the one before.
///
/// # Errors
/// A model that cannot be read or fused, or a target that is not available.
pub fn compile_suite(path: &Path, layers: usize, target: &Target, options: &Options) -> Result<CompileReport, Error> {
    let start = Instant::now();
    let mut layer = model::open(path)?;
    for _ in 1..layers {
        layer = model::open(path)?;
    }
    let import_us = elapsed(start);
    let graph = stacked(&layer, layers).map_err(|e| Error::Internal(format!("stacking layers: {e}")))?;
    let compiler = Compiler::of(target, options)?;
    let start = Instant::now();
    let fused = fuse_graph_for(&graph, options, &compiler)?;
    let fusing_us = elapsed(start);
    let passes_us = fused.passes.iter().map(|p| p.us).sum();
    let (compilations, kernels_us) = timed(&fused, &compiler)?;
    let from_disk = compilations.iter().filter(|kernel| kernel.from_disk).count();
    let (again, kept_us) = timed(&fused, &Compiler::of(target, options)?)?;
    let kept_us = again.iter().all(|kernel| kernel.from_disk).then_some(kept_us);
    let emitted = one_by_one(&fused, &Compiler::new(compiler.target())?)?;
    let keys = fused.partition.regions.iter().map(region_key).collect::<Result<BTreeSet<_>, _>>();
    Ok(CompileReport {
        layers,
        nodes: graph.nodes().len(),
        regions: fused.partition.regions.len(),
        distinct: keys.map_err(|e| Error::Internal(e.to_string()))?.len(),
        compiled: compilations.len() - from_disk,
        import_us,
        passes_us,
        regions_us: fusing_us.saturating_sub(passes_us),
        kernels_us,
        from_disk,
        kept_us: kept_us.filter(|_| !again.is_empty()),
        emit_us: emitted.get(emitted.len() / 2).copied(),
        peak_bytes: peak_bytes(),
        warning: compiler.warning(),
    })
}

/// What is compiled for all regions, and how long that takes.
fn timed(fused: &Fused, compiler: &Compiler) -> Result<(Vec<Compilation>, u64), Error> {
    let start = Instant::now();
    outline(&fused.graph, &fused.partition, compiler)?;
    Ok((compiler.log(), elapsed(start)))
}

/// How long the compiler itself takes for each kernel, ascending.
fn one_by_one(fused: &Fused, compiler: &Compiler) -> Result<Vec<u64>, Error> {
    let mut seen = BTreeSet::new();
    for region in fused.partition.kernels() {
        let body = region.expand_body().map_err(|e| Error::Internal(e.to_string()))?;
        if seen.insert(content(&region.name, &body)) {
            // What has no kernel is no figure either.
            let _ = compiler.make(&region.name, &body);
        }
    }
    let mut times: Vec<u64> = compiler.log().iter().map(|kernel| kernel.emit_us).collect();
    times.sort_unstable();
    Ok(times)
}

fn elapsed(start: Instant) -> u64 {
    start.elapsed().as_micros() as u64
}

/// `layers` copies of a graph. An output feeds the first free user input of its type of the next copy; all other user
/// inputs, such as positions, are shared, and weights are every copy's own.
fn stacked(layer: &Graph, layers: usize) -> Result<Graph, TypeError> {
    let b = Builder::new(layer.name());
    for symbol in layer.symbols() {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
    let mut users: BTreeMap<Value, Value> = BTreeMap::new();
    for input in layer.inputs().iter().filter(|i| i.kind.is_given()) {
        users.insert(input.value, b.add_input(&input.name, layer.ty(input.value).clone(), input.kind.clone()));
    }
    let mut outputs: Vec<Value> = Vec::new();
    for copy in 0..layers {
        let mut map = users.clone();
        let mut free: Vec<Value> = users.keys().copied().collect();
        for &output in &outputs {
            if let Some(at) = free.iter().position(|&input| *layer.ty(input) == b.ty(output)) {
                map.insert(free.remove(at), output);
            }
        }
        for input in layer.inputs().iter().filter(|i| !i.kind.is_given()) {
            let name = format!("{}.{copy}", input.name);
            map.insert(input.value, b.add_input(&name, layer.ty(input.value).clone(), input.kind.clone()));
        }
        for node in layer.nodes() {
            let name = node.origin.node.as_ref().map(|node| format!("{node}.{copy}").into());
            b.set_origin(Origin { node: name, ..node.origin.clone() });
            let operands: Vec<Value> = node.operands.iter().map(|v| map[v]).collect();
            map.extend(node.results.iter().copied().zip(b.op(node.op.clone(), &operands)?));
        }
        outputs = layer.outputs().iter().map(|o| map[&o.value]).collect();
    }
    outputs.into_iter().for_each(|value| b.output(value));
    Ok(b.finish())
}

/// The high-water mark of resident memory.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_a_chain_whose_layers_share_positions() {
        let text = "graph @layer(s: 0..; %x: f32[s, 8], %p: f32[8], %w: weight f32[8]) {
           %a = mul %x, %w
           %y = add %a, %p
           return %y
         }";
        let layer: Graph = text.parse().expect("parses");
        let graph = stacked(&layer, 3).expect("types");
        let users = graph.inputs().iter().filter(|i| i.kind.is_given()).count();
        assert_eq!((graph.inputs().len(), users, graph.nodes().len()), (5, 2, 6), "{graph}");
        // Each copy reads the one before.
        for (i, node) in graph.nodes().iter().enumerate().step_by(2).skip(1) {
            assert_eq!(node.operands[0], graph.nodes()[i - 1].results[0], "{graph}");
        }
    }
}
