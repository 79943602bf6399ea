//! What fused, what did not, and why: the figures behind `fusewright explain`.

mod kernels;

use std::collections::BTreeMap;

use fusewright_fusion::explain as partition_report;
use fusewright_fusion::pass::{PatternReport, Relaxation};
use fusewright_graph::{Dim, Symbol};

pub use fusewright_fusion::explain::RefusalReport;
pub use fusewright_fusion::pass::{NearMiss, Unmatched};
pub use fusewright_fusion::patterns::{all_names, is_name};

use crate::{Error, Fused};

pub use kernels::{Instead, KernelFigures, KernelReport, Kernels, OverwriteReport, kernels};

/// Value that every symbol takes where bytes are counted, unless its range ends below.
const TYPICAL_EXTENT: i64 = 512;

/// One fused region, or one op that has a kernel of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionReport {
    /// Name of the pattern, or of the kind of fusion.
    pub name: String,
    /// Kind of fusion.
    pub kind: &'static str,
    /// Names of its ops, in order.
    pub ops: Vec<String>,
    /// Bytes that the fused kernel moves; `None` stands for 2⁶³ and more, which are not counted.
    pub bytes_fused: Option<u64>,
    /// Bytes that its ops would move one by one; `None` as above.
    pub bytes_unfused: Option<u64>,
    /// Key of the region's content; equal regions share one kernel.
    pub key: String,
    /// Neighbours that did not join it, and why.
    pub ends: Vec<RefusalReport>,
    /// The roundings that relaxed mode changed in it.
    pub relaxed: Vec<RelaxationReport>,
}

/// A place where relaxed mode changed roundings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelaxationReport {
    /// Name of the rewrite.
    pub rewrite: String,
    /// How often it applied there.
    pub times: usize,
    /// Where the rewritten op came from.
    pub origin: String,
}

/// The whole report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// What has a kernel: regions in order, then single ops in order.
    pub regions: Vec<RegionReport>,
    /// How many regions compute each named pattern, each counted once under its most specific name.
    pub patterns: BTreeMap<String, usize>,
    /// What became of the patterns of the user, in their order.
    pub user_patterns: Vec<PatternReport>,
    /// Ops that are in no region.
    pub refused: Vec<RefusalReport>,
    /// The values of the symbols at which bytes are counted.
    pub bytes_at: BTreeMap<String, i64>,
    /// The roundings that relaxed mode changed in no region.
    pub relaxed_outside: Vec<RelaxationReport>,
    /// What names the passes and the mode.
    pub pipeline: String,
}

impl Explanation {
    /// How often a pattern was found: a user's by how often it was replaced, a named one by its regions. Where both have the
    /// name, the user's counts.
    pub fn count(&self, name: &str) -> usize {
        let own = self.user_patterns.iter().find(|r| r.name == name).map(|r| r.times);
        own.or_else(|| self.patterns.get(name).copied()).unwrap_or(0)
    }
}

/// Explains a fused graph.
///
/// # Errors
/// None for a graph that verifies.
pub fn explain(fused: &Fused) -> Result<Explanation, Error> {
    let typical = |s: &Symbol| s.max.unwrap_or(TYPICAL_EXTENT).min(TYPICAL_EXTENT).max(s.min);
    let bytes_at: BTreeMap<String, i64> = fused.graph.symbols().iter().map(|s| (s.name.clone(), typical(s))).collect();
    let report =
        partition_report::explain(&fused.graph, &fused.partition, &[]).map_err(|e| Error::Internal(e.to_string()))?;
    let bytes = |dim: &Dim| dim.eval(&|s| bytes_at.get(s).copied()).ok().and_then(|n| u64::try_from(n).ok());
    let relaxation =
        |r: &Relaxation| RelaxationReport { rewrite: r.rewrite.clone(), times: r.times, origin: r.origin.to_string() };
    let mut outside: Vec<&Relaxation> = fused.relaxations.iter().collect();
    let relaxed: Vec<Vec<RelaxationReport>> = fused
        .partition
        .kernels()
        .map(|region| {
            let found = partition_report::relaxed_in(&fused.graph, &fused.partition, region, &fused.relaxations);
            outside.retain(|r| !found.contains(r));
            found.into_iter().map(relaxation).collect()
        })
        .collect();
    let regions = report.regions.iter().zip(relaxed).map(|(r, relaxed)| RegionReport {
        relaxed,
        name: r.name.clone(),
        kind: r.kind,
        ops: r.ops.clone(),
        ends: r.ends.clone(),
        bytes_fused: bytes(&r.bytes_fused),
        bytes_unfused: bytes(&r.bytes_unfused),
        key: r.key.to_string(),
    });
    Ok(Explanation {
        regions: regions.collect(),
        patterns: report.patterns,
        user_patterns: fused.user_patterns.clone(),
        refused: report.refused,
        bytes_at,
        relaxed_outside: outside.into_iter().map(relaxation).collect(),
        pipeline: fused.pipeline.to_string(),
    })
}
