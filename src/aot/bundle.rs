//! Bundles: artifacts and a manifest in a folder.

use std::collections::BTreeMap;
use std::path::Path;

use fusewright_abi::{ABI_VERSION, DimSource, KernelArtifact, ParamAccess, Target};
use fusewright_graph::Graph;
use serde_json::{Value, json};

use crate::compiler::Compiler;
use crate::{Error, Options, fuse_graph, write_whole};

/// One kernel of a bundle.
#[derive(Clone, Debug)]
pub struct BundleEntry {
    /// Name of the fused pattern.
    pub pattern: String,
    /// The kernel.
    pub artifact: KernelArtifact,
    /// Name of the file that holds its code.
    pub file: String,
}

/// A region that a target has no kernel for.
#[derive(Clone, Debug)]
pub struct BundleRefusal {
    /// Name of the fused pattern.
    pub pattern: String,
    /// The target.
    pub target: Target,
    /// Why there is no kernel.
    pub reason: String,
}

/// What a bundle holds.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    /// Kernels, by file name.
    pub entries: Vec<BundleEntry>,
    /// Regions without a kernel.
    pub refused: Vec<BundleRefusal>,
}

/// Compiles every fused region of a graph for each target and writes `DIR/<target>/…` and `DIR/manifest.json`.
/// Regions that a target has no kernel for are listed in the manifest with the reason. Files appear whole or not at
/// all, the manifest last.
///
/// # Errors
/// A target that is not available, a folder that cannot be written.
pub fn write_bundle(graph: &Graph, targets: &[Target], folder: &Path) -> Result<Bundle, Error> {
    let fused = fuse_graph(graph, &Options::default())?;
    let mut entries: BTreeMap<String, BundleEntry> = BTreeMap::new();
    let mut refused = Vec::new();
    for target in targets {
        let compiler = Compiler::new(target)?;
        let subfolder = target.to_string().replace(':', "-");
        let path = folder.join(&subfolder);
        std::fs::create_dir_all(&path).map_err(|source| Error::File { path: path.clone(), source })?;
        for region in &fused.partition.regions {
            let body = region.expand_body().map_err(|e| Error::Internal(e.to_string()))?;
            match compiler.object(&region.name, &body) {
                Ok(artifact) => {
                    let extension = artifact.payload.kind.extension();
                    let file = format!("{subfolder}/{}_{}.{extension}", artifact.name, artifact.key.short());
                    if entries.contains_key(&file) {
                        continue;
                    }
                    write_whole(&folder.join(&file), &artifact.payload.bytes)?;
                    entries.insert(file.clone(), BundleEntry { pattern: region.name.clone(), artifact, file });
                }
                Err(error) => refused.push(BundleRefusal {
                    pattern: region.name.clone(),
                    target: target.clone(),
                    reason: error.to_string(),
                }),
            }
        }
    }
    let entries: Vec<BundleEntry> = entries.into_values().collect();
    let refusal =
        |r: &BundleRefusal| json!({ "pattern": r.pattern, "target": r.target.to_string(), "reason": r.reason });
    let manifest = json!({
        "abi": ABI_VERSION,
        "model": graph.name(),
        "kernels": entries.iter().map(entry).collect::<Vec<_>>(),
        "refused": refused.iter().map(refusal).collect::<Vec<_>>(),
    });
    let text = format!("{manifest:#}\n");
    write_whole(&folder.join("manifest.json"), text.as_bytes())?;
    Ok(Bundle { entries, refused })
}

fn entry(entry: &BundleEntry) -> Value {
    let artifact = &entry.artifact;
    let access = |a: ParamAccess| match a {
        ParamAccess::In => "in",
        ParamAccess::Out => "out",
        ParamAccess::InOut => "inout",
    };
    let params = artifact.params.iter();
    let params =
        params.map(|p| json!({ "name": p.name, "dtype": p.dtype.name(), "access": access(p.access), "rank": p.rank }));
    let source = |s: &DimSource| match *s {
        DimSource::Extent { param, axis } => json!({ "extent": [param, axis] }),
        DimSource::Stride { param, axis } => json!({ "stride": [param, axis] }),
        DimSource::Symbol => json!("symbol"),
    };
    let dims = artifact.dims.iter().map(|d| json!({ "name": d.name, "source": source(&d.source) }));
    json!({
        "name": artifact.name,
        "pattern": entry.pattern,
        "target": artifact.target.to_string(),
        "key": artifact.key.to_string(),
        "file": entry.file,
        "symbol": artifact.name,
        "params": params.collect::<Vec<_>>(),
        "dims": dims.collect::<Vec<_>>(),
        "rows": artifact.launch.rows.to_string(),
        "blocks_per_row": artifact.launch.blocks_per_row.to_string(),
        "threads": artifact.launch.threads,
    })
}
