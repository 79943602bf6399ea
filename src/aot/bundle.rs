//! Bundles: artifacts and a manifest in a folder.
//!
//! `DIR/manifest.json` holds `abi` (version of the calling convention), `model` (name of the graph), `pipeline` (key of
//! the passes), `relaxed` (whether roundings may be dropped), `kernels` and `refused`, both in the order of their files
//! and regions. A kernel is
//!
//! * `name` and `symbol`: what its code is called, unique in the bundle; `pattern`: the fused pattern;
//! * `target`, `file` (relative to the manifest) and `key` (hash of everything that changes the code);
//! * `params`: buffers in the order of arguments: `name`, `dtype`, `access` (`in`, `out`, `inout`), `rank` and `shape`,
//!   one expression over the symbols per axis;
//! * `dims`: integer arguments in order: `name`, and `source`, which is `{"extent": [param, axis]}`,
//!   `{"stride": [param, axis]}` in elements, or `"symbol"`, given by the caller;
//! * `rows`: the number of rows as a sum of products, each `coefficient` times the `dims` of those numbers.
//!
//! Objects of CPUs export `void symbol(uint8_t *const *buffers, const int64_t *dims, int64_t begin, int64_t end)`,
//! which computes rows `begin..end` and may run on many threads at once for ranges that do not meet. A refusal has
//! `pattern`, `target` and `reason`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fusewright_abi::{ABI_VERSION, DimSource, KernelArtifact, ParamAccess, Target};
use fusewright_codegen::kernel::Kernel;
use fusewright_fusion::key::body_key;
use fusewright_graph::Graph;
use serde_json::{Value, json};

use crate::compiler::{Compilation, Compiler};
use crate::{Error, Options, PassTime, fuse_graph, write_whole};

/// One kernel of a bundle.
#[derive(Clone, Debug)]
pub struct BundleEntry {
    /// Name of the fused pattern.
    pub pattern: String,
    /// The kernel.
    pub artifact: KernelArtifact,
    /// Extents of its buffers in order, as expressions over its integer arguments.
    pub shapes: Vec<Vec<String>>,
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
    /// What the passes did.
    pub passes: Vec<PassTime>,
    /// The kernels that were compiled, in order.
    pub compilations: Vec<Compilation>,
}

/// Compiles every fused region of a graph for each target and writes `DIR/<target>/…` and `DIR/manifest.json`.
/// Regions that a target has no kernel for are listed in the manifest with the reason. Files appear whole or not at
/// all, the manifest last.
///
/// # Errors
/// A target that is not available, a folder that cannot be written.
pub fn write_bundle(graph: &Graph, targets: &[Target], folder: &Path, options: &Options) -> Result<Bundle, Error> {
    let fused = fuse_graph(graph, options)?;
    let mut entries: BTreeMap<String, BundleEntry> = BTreeMap::new();
    let (mut refused, mut compilations) = (Vec::new(), Vec::new());
    for target in targets {
        let compiler = Compiler::new(target)?;
        let subfolder = target.to_string().replace(':', "-");
        let mut seen = BTreeSet::new();
        for region in &fused.partition.regions {
            let body = region.expand_body().map_err(|e| Error::Internal(e.to_string()))?;
            let key = body_key(&body).map_err(|e| Error::Internal(e.to_string()))?;
            // Regions of one pattern differ in their bodies, and their objects may be linked together.
            let name = format!("{}_{}", region.name, key.short());
            if !seen.insert(name.clone()) {
                continue;
            }
            match compiler.object(&name, &body) {
                Ok(artifact) => {
                    let file = format!("{subfolder}/{}.{}", artifact.name, artifact.payload.kind.extension());
                    let (kernel, _) = compiler.kernel(&name, &body)?;
                    let (pattern, shapes) = (region.name.clone(), shapes(&kernel));
                    entries.insert(file.clone(), BundleEntry { pattern, artifact, shapes, file });
                }
                Err(error) => match Error::from(error) {
                    Error::Input(reason) => {
                        refused.push(BundleRefusal { pattern: region.name.clone(), target: target.clone(), reason });
                    }
                    other => return Err(other),
                },
            }
        }
        compilations.extend(compiler.log());
    }
    let entries: Vec<BundleEntry> = entries.into_values().collect();
    // Everything is compiled before anything is written, so that a target that is not there leaves nothing behind.
    for entry in &entries {
        let path = folder.join(&entry.file);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|source| Error::File { path: parent.to_owned(), source })?;
        }
        write_whole(&path, &entry.artifact.payload.bytes)?;
    }
    std::fs::create_dir_all(folder).map_err(|source| Error::File { path: folder.to_owned(), source })?;
    let refusal =
        |r: &BundleRefusal| json!({ "pattern": r.pattern, "target": r.target.to_string(), "reason": r.reason });
    let manifest = json!({
        "abi": ABI_VERSION,
        "model": graph.name(),
        "pipeline": fused.pipeline.to_string(),
        "relaxed": options.relaxed,
        "kernels": entries.iter().map(entry).collect::<Vec<_>>(),
        "refused": refused.iter().map(refusal).collect::<Vec<_>>(),
    });
    let text = format!("{manifest:#}\n");
    write_whole(&folder.join("manifest.json"), text.as_bytes())?;
    Ok(Bundle { entries, refused, passes: fused.passes, compilations })
}

fn shapes(kernel: &Kernel) -> Vec<Vec<String>> {
    kernel.params.iter().map(|p| p.shape.iter().map(ToString::to_string).collect()).collect()
}

fn entry(entry: &BundleEntry) -> Value {
    let artifact = &entry.artifact;
    let access = |a: ParamAccess| match a {
        ParamAccess::In => "in",
        ParamAccess::Out => "out",
        ParamAccess::InOut => "inout",
    };
    let params = artifact.params.iter().zip(&entry.shapes);
    let params = params.map(|(p, shape)| {
        json!({ "name": p.name, "dtype": p.dtype.name(), "access": access(p.access), "rank": p.rank, "shape": shape })
    });
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
