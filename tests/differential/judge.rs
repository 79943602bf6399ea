//! One graph run every way there is at several numbers of rows, panics included.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fusewright::Target;
use fusewright::diff::{self, Difference, Verdict};
use fusewright::graph::interp::Symbols;
use fusewright::graph::verify::verify;
use fusewright::graph::{Graph, Node};

/// Row counts of every case.
const ROWS: [i64; 5] = [33, 1, 0, 2, 7];

/// What a graph that passed was like.
#[allow(dead_code, reason = "single tests look at less of it")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Kernels of more than one op.
    pub fused: usize,
    /// Elements compared with their ranges.
    pub elements: usize,
    /// Those whose range is a single value.
    pub single_valued: usize,
    /// An op or a region ran by reference if this is set: the target has no code for it.
    pub fell_back: bool,
}

/// The target that graphs run on: the host, or what `FUSEWRIGHT_TARGET` names (`cuda`, `ascend-sim:910B`).
///
/// # Panics
/// On a name of no target.
pub fn target() -> Target {
    let named = |text: String| text.parse().unwrap_or_else(|e| panic!("FUSEWRIGHT_TARGET: {e}"));
    std::env::var("FUSEWRIGHT_TARGET").map_or(Target::Cpu, named)
}

/// Runs a graph every way and compares. An op that has no kernel on the host is a disagreement, unless it chooses places.
///
/// # Errors
/// The first disagreement; a panic is one.
pub fn judge(graph: &Graph, seed: u64) -> Result<Seen, Difference> {
    let text = |panic: Box<dyn std::any::Any + Send>| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or_else(|_| "a panic".to_owned(), |text| (*text).to_owned()),
    };
    let caught = catch_unwind(AssertUnwindSafe(|| agree(graph, seed)));
    caught.unwrap_or_else(|p| Err(Difference { kind: "panic", message: text(p) }))
}

fn agree(graph: &Graph, seed: u64) -> Result<Seen, Difference> {
    let failed = |kind, message: String| Difference { kind, message };
    verify(graph).map_err(|e| failed("verify", e[0].to_string()))?;
    let cases: Vec<Symbols> = ROWS.iter().enumerate().map(|(i, &rows)| sizes(graph, rows, i)).collect();
    let target = target();
    let agreement = match diff::graph(graph, &target, &cases, seed).map_err(|e| failed("interpreter", e.to_string()))? {
        Verdict::Equal(agreement) => agreement,
        Verdict::Differ(difference) => return Err(difference),
    };
    let fell_back = !agreement.fallbacks.is_empty();
    // Not every read or write at chosen places has a kernel yet.
    let chooses = |node: &Node| ["gather", "scatter"].iter().any(|op| node.op.name().starts_with(op));
    let may_fall_back = target != Target::Cpu || graph.nodes().iter().any(chooses);
    let unknown = |said: &&String| !may_fall_back || said.contains("internal error");
    if let Some(said) = agreement.fallbacks.iter().find(unknown) {
        return Err(failed("fallback", said.clone()));
    }
    Ok(Seen { fused: agreement.fused, elements: agreement.elements, single_valued: agreement.single_valued, fell_back })
}

/// The sizes of a call: so many rows, and of other lengths the shortest, the longest, and some between.
fn sizes(graph: &Graph, rows: i64, call: usize) -> Symbols {
    let size = |symbol: &fusewright::graph::Symbol| match (symbol.name.as_str(), symbol.max) {
        ("s", _) | (_, None) => rows,
        (_, Some(most)) => symbol.min + (most - symbol.min) * (call as i64 % 4) / 3,
    };
    graph.symbols().iter().map(|symbol| (symbol.name.clone(), size(symbol))).collect()
}
