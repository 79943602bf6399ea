//! The ops that are measured on GPUs, as graphs in the text form (`benches/gpu/`), each at the row lengths that figures of
//! others are known of.

use fusewright_graph::Graph;

use crate::Error;
use crate::bench::kernel_suite;

/// A graph to measure, of one symbol `s`, its number of rows.
#[derive(Clone, Debug)]
pub struct GpuCase {
    /// Name in tables.
    pub name: String,
    /// Row length that sets its shapes.
    pub dim: usize,
    /// What is measured.
    pub graph: Graph,
}

/// Row lengths of norms, of gates, and of heads, the main one first.
const NORMS: &[usize] = &[5120, 4096, 7168];
const GATES: &[usize] = &[25600, 12288];
const HEADS: &[usize] = &[10240];

/// Letters, texts with `$D` for the row length, `$2D` for twice and `$G` for a 128th of it, and row lengths.
const OPS: [(&str, &str, &[usize]); 12] = [
    ("A", include_str!("../../../benches/gpu/a.fw"), NORMS),
    ("B", include_str!("../../../benches/gpu/b.fw"), NORMS),
    ("C", include_str!("../../../benches/gpu/c.fw"), NORMS),
    ("D", include_str!("../../../benches/gpu/d.fw"), NORMS),
    ("E", include_str!("../../../benches/gpu/e.fw"), NORMS),
    ("F", include_str!("../../../benches/gpu/f.fw"), NORMS),
    ("G", include_str!("../../../benches/gpu/g.fw"), GATES),
    ("H", include_str!("../../../benches/gpu/h.fw"), GATES),
    ("I", include_str!("../../../benches/gpu/i.fw"), GATES),
    ("K", include_str!("../../../benches/gpu/k.fw"), HEADS),
    ("KC", include_str!("../../../benches/gpu/kc.fw"), HEADS),
    ("L", include_str!("../../../benches/gpu/l.fw"), HEADS),
];

/// The lettered ops at all their row lengths, then the kernel suite.
///
/// # Errors
/// None; the texts are well typed.
pub fn gpu_suite() -> Result<Vec<GpuCase>, Error> {
    let mut cases = Vec::new();
    for (letter, text, lengths) in OPS {
        for &dim in lengths {
            let text = text.replace("$2D", &(2 * dim).to_string()).replace("$D", &dim.to_string());
            let text = text.replace("$G", &(dim / 128).to_string());
            let name = if dim == lengths[0] { letter.to_owned() } else { format!("{letter}.{dim}") };
            cases.push(GpuCase { graph: parsed(&name, &text)?, name, dim });
        }
    }
    let row = |graph: &Graph| graph.ty(graph.inputs()[0].value).shape.last().and_then(|n| n.as_const()).unwrap_or(0);
    let breadth = kernel_suite()?.into_iter();
    cases.extend(breadth.map(|case| GpuCase { dim: row(&case.graph) as usize, name: case.name, graph: case.graph }));
    Ok(cases)
}

/// A graph that reads so many bytes and writes few.
pub(super) fn sweep(bytes: usize) -> Result<Graph, Error> {
    let rows = bytes / (4 * 4096);
    parsed(
        "sweep",
        &format!(
            "graph @sweep(%x: f32[{rows}, 4096]) {{\n  %y = reduce %x {{op = max, axes = [1]}}\n  return %y\n}}\n"
        ),
    )
}

/// A graph that reads half of so many bytes and writes as many.
pub(super) fn copy(bytes: usize) -> Result<Graph, Error> {
    let lanes = (bytes / 4).next_multiple_of(2560).max(2560);
    parsed("copy", &format!("graph @copy(%x: bf16[1, {lanes}]) {{\n  %y = neg %x\n  return %y\n}}\n"))
}

fn parsed(name: &str, text: &str) -> Result<Graph, Error> {
    text.parse().map_err(|e| Error::Internal(format!("GPU case `{name}`: {e}")))
}

#[cfg(test)]
mod tests {
    use fusewright_graph::verify::verify;

    use super::*;
    use crate::bench::options;
    use crate::fuse_graph;

    #[test]
    fn every_case_is_one_kernel() {
        let suite = gpu_suite().expect("the suite is well typed");
        let extra = [("sweep", sweep(1 << 20)), ("copy", copy(1 << 20))];
        let extra = extra.map(|(name, graph)| (name.to_owned(), graph.expect("it is well typed")));
        for (name, graph) in suite.into_iter().map(|case| (case.name, case.graph)).chain(extra) {
            verify(&graph).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            let fused = fuse_graph(&graph, &options(true)).expect("it fuses");
            assert_eq!(fused.partition.regions.len(), 1, "{name}");
        }
    }
}
