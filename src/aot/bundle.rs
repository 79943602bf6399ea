//! Bundles: artifacts and a manifest in a folder.
//!
//! `DIR/manifest.json` holds `abi` (version of the calling convention), `model` (name of the graph), `pipeline` (key of
//! the passes), `relaxed` (whether roundings may be dropped), `kernels` and `refused`, both in the order of their files
//! and regions, `headers`: `target` and `file` of each source that the kernels of a target include, and `project`: the same of
//! each file that builds and launches them where they are sources. `vendor` lists the
//! regions that an op of the vendor computes instead, where such are switched on: `pattern`, `target`, the `op`, its `call` as
//! Python writes it, `tensors` and `plain`, its arguments by their parameters, `results`, its results in order and which output
//! of the region each is, and `inputs` and `outputs` of the region. A kernel is
//!
//! * `name` and `symbol`: what its code is called, unique among kernels of one target; `pattern`: the fused pattern;
//! * `target`, `file` (relative to the manifest) and `key` (hash of everything that changes the code);
//! * `params`: buffers in the order of arguments: `name`, `dtype`, `access` (`in`, `out`, `inout`), `rank`, `shape` with
//!   one expression over the symbols per axis, `read`, whether the kernel loads from it, and, of an output that may be
//!   given the address of an input, that one's index as `alias`; `early` is of one that a dependent launch reads before
//!   the launch ahead of it is done, so that it has to be complete before that begins. One that is `inout` holds the input's elements at the
//!   launch; where the input is not `read`, any address will do for it;
//!   Its `elements` are how many the code may touch, as an expression over the names of `dims`;
//! * `code`: what a driver loads: `file`, `kind` (`bin` is machine code without relocations, with its entry at offset 0; `ptx`,
//!   `cubin`, `cpp`, `npu`), its length in `bytes`, and `sha256` of them. Of CPUs it is a file of its own beside the object,
//!   and has so many `tables` of 256 KiB, whose addresses stand behind those of the buffers: called for rows from -1 on, it fills
//!   them. Objects have none and compute instead;
//! * `uses`: of each region of the graph that the kernel computes, the values that its parameters are, in order, as the text
//!   of the graph after all passes names them (`fusewright opt` prints it); none where the kernel computes what its rows come from;
//! * `dims`: integer arguments in order: `name`, and `source`, which is `{"extent": [param, axis]}`,
//!   `{"stride": [param, axis]}` in elements, or `"symbol"`, given by the caller;
//! * `claims`: what has to hold of them where a launch has rows: `least` is not above `most`, both expressions over their names.
//!   None of them is negative;
//! * `row_order`: `"any"`; `"ascending"`, if of two rows that write the same element the later one is what stays; or
//!   `{"chosen": param}`, if rows write where the elements of that buffer say, one for each row: any if no two are equal
//!   of those that are not negative, else ascending;
//! * `rows`: the number of rows, `blocks_per_row`, of which `shares` share a block of threads, `threads` and the bytes of
//!   `shared` memory of a launch; rows, blocks and bytes are expressions over the names of `dims`; `many`, if launches of
//!   at least `from` rows do better by other code of the same results: its `symbol` and its `blocks_per_row`; `dependent`,
//!   whether the code waits for what is ahead of it by itself, so that it may be launched to begin before that ends; and
//!   `alignment`, of which every buffer's address is a multiple, in bytes.
//!
//! Objects of CPUs export `void symbol(uint8_t *const *buffers, const int64_t *dims, int64_t begin, int64_t end)`,
//! which computes rows `begin..end` and may run on many threads at once for ranges that do not meet, as far as `row_order`
//! allows it. A refusal has
//! `pattern`, `target` and `reason`.

use std::collections::BTreeMap;
use std::path::Path;

use fusewright_abi::{ABI_VERSION, Claim, DimSource, KernelArtifact, ManyRows, Payload, PayloadKind, RowOrder, Target};
use fusewright_codegen::backend::for_target;
use fusewright_codegen::kernel::{InstOp, Kernel};
use fusewright_fusion::key::body_key;
use fusewright_graph::Graph;
use fusewright_graph::import::Plain;
use fusewright_graph::text::value_names;
use fusewright_runtime::bundle::{MANIFEST, digest};
use serde_json::{Map, Value, json};

use super::place::place;
use crate::compile::regions_for;
use crate::compiler::{Compilation, CompileError, Compiler};
use crate::{Error, Fused, Options, PassTime, VendorCall, dtypes, fuse_graph};

/// One kernel of a bundle.
#[derive(Clone, Debug)]
pub struct BundleEntry {
    /// Name of the fused pattern.
    pub pattern: String,
    /// The kernel.
    pub artifact: KernelArtifact,
    /// Extents of its buffers in order, as expressions over its integer arguments.
    pub shapes: Vec<Vec<String>>,
    /// Whether each buffer is loaded from, in order.
    pub read: Vec<bool>,
    /// Of each region that it computes, the graph's values that its buffers are, in order, by their names.
    pub uses: Vec<Vec<String>>,
    /// Name of the file that holds its code.
    pub file: String,
    /// What a driver loads, where that is another file than what a linker takes: machine code of a CPU.
    pub code: Option<Payload>,
}

impl BundleEntry {
    /// Name of the file that a driver loads, and what is in it.
    fn loaded(&self) -> (String, &Payload) {
        match &self.code {
            Some(code) => {
                (format!("{}/{}.{}", subfolder(&self.artifact.target), self.artifact.name, code.kind.extension()), code)
            }
            None => (self.file.clone(), &self.artifact.payload),
        }
    }
}

/// A source that the kernels of a target include.
#[derive(Clone, Debug)]
pub struct BundleHeader {
    /// The target.
    pub target: Target,
    /// Name of the file, beside those of the kernels.
    pub file: String,
    /// Its text.
    pub text: &'static str,
}

/// A file that builds or launches the kernels of a target, where these are sources.
#[derive(Clone, Debug)]
pub struct BundleFile {
    /// The target.
    pub target: Target,
    /// Name of the file, beside those of the kernels.
    pub file: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// A region that an op of the vendor computes.
#[derive(Clone, Debug)]
pub struct BundleCall {
    /// Name of the fused pattern.
    pub pattern: String,
    /// The target.
    pub target: Target,
    /// The call.
    pub call: VendorCall,
    /// The region.
    pub body: Graph,
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
    /// What the kernels include.
    pub headers: Vec<BundleHeader>,
    /// What builds and launches the kernels.
    pub project: Vec<BundleFile>,
    /// Regions that an op of the vendor computes.
    pub vendor: Vec<BundleCall>,
    /// Regions without a kernel.
    pub refused: Vec<BundleRefusal>,
    /// What the passes did.
    pub passes: Vec<PassTime>,
    /// The kernels that were compiled, in order.
    pub compilations: Vec<Compilation>,
    /// What is wrong with the environment's table of schedules; kernels do without it.
    pub warnings: Vec<String>,
}

/// Compiles every fused region of a graph for each target and writes `DIR/<target>/…` and `DIR/manifest.json`.
/// Regions that a target has no kernel for are listed in the manifest with the reason. All files appear or none does,
/// and files that the manifest of an earlier bundle there names are removed.
///
/// # Errors
/// A target that is not available, lacks a dtype of the graph or has no kernel for any region, schedules that are for none of the targets, a folder that
/// cannot be written.
pub fn write_bundle(graph: &Graph, targets: &[Target], folder: &Path, options: &Options) -> Result<Bundle, Error> {
    options.schedules.fits(targets)?;
    let fused = fuse_graph(graph, options)?;
    let mut bundle = Bundle::default();
    // A target that is named twice is compiled for once.
    let named = |i: &usize| !targets[..*i].contains(&targets[*i]);
    let targets: Vec<&Target> = (0..targets.len()).filter(named).map(|i| &targets[i]).collect();
    for &target in &targets {
        add_target(&mut bundle, &fused, target, options)?;
    }
    bundle.entries.sort_by(|a, b| a.file.cmp(&b.file));
    for target in targets {
        add_project(&mut bundle, graph.name(), target)?;
    }
    let refusal =
        |r: &BundleRefusal| json!({ "pattern": r.pattern, "target": r.target.to_string(), "reason": r.reason });
    let header = |h: &BundleHeader| json!({ "target": h.target.to_string(), "file": h.file });
    let built_by = |f: &BundleFile| json!({ "target": f.target.to_string(), "file": f.file });
    let manifest = json!({
        "abi": ABI_VERSION,
        "model": graph.name(),
        "pipeline": fused.pipeline.to_string(),
        "relaxed": options.relaxed,
        "kernels": bundle.entries.iter().map(entry).collect::<Vec<_>>(),
        "headers": bundle.headers.iter().map(header).collect::<Vec<_>>(),
        "project": bundle.project.iter().map(built_by).collect::<Vec<_>>(),
        "vendor": bundle.vendor.iter().map(call).collect::<Vec<_>>(),
        "refused": bundle.refused.iter().map(refusal).collect::<Vec<_>>(),
    });
    let text = format!("{manifest:#}\n");
    let kernels = bundle.entries.iter().map(|e| (e.file.clone(), e.artifact.payload.bytes.as_slice()));
    let headers = bundle.headers.iter().map(|h| (h.file.clone(), h.text.as_bytes()));
    let project = bundle.project.iter().map(|f| (f.file.clone(), f.bytes.as_slice()));
    let manifest = [(MANIFEST.to_owned(), text.as_bytes())];
    let code = bundle.entries.iter().filter(|e| e.code.is_some()).map(|e| {
        let (file, payload) = e.loaded();
        (file, payload.bytes.as_slice())
    });
    let files: Vec<(String, &[u8])> = kernels.chain(code).chain(headers).chain(project).chain(manifest).collect();
    place(folder, &files)?;
    Ok(Bundle { passes: fused.passes, ..bundle })
}

/// Compiles the regions for one target.
fn add_target(bundle: &mut Bundle, fused: &Fused, target: &Target, options: &Options) -> Result<(), Error> {
    let compiler = Compiler::new(target)?.with_schedules(&options.schedules)?;
    dtypes::all_taken(&fused.graph, compiler.backend(), target)?;
    let (partition, vendor) = regions_for(fused, options, target);
    let subfolder = subfolder(target);
    let (mut entries, mut refused) = (Vec::new(), Vec::new());
    let values = value_names(&fused.graph);
    let mut uses: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for (place, region) in partition.regions.iter().enumerate() {
        let body = region.expand_body().map_err(|e| Error::Internal(e.to_string()))?;
        let key = body_key(&body).map_err(|e| Error::Internal(e.to_string()))?;
        // Regions of one pattern differ in their bodies, and their objects may be linked together.
        let name = format!("{}_{}{}", region.name, key.short(), target.symbol_suffix());
        let named = region.inputs.iter().chain(&region.outputs).map(|value| values[value.0 as usize].clone());
        let known = uses.entry(name.clone()).or_default();
        known.push(named.collect());
        if known.len() > 1 {
            continue;
        }
        if let (Target::Ascend { .. }, Some(call)) = (target, vendor.calls.get(&place)) {
            let (pattern, target, call) = (region.name.clone(), target.clone(), call.clone());
            bundle.vendor.push(BundleCall { pattern, target, call, body });
            continue;
        }
        match compiler.object_and_code(&name, &body) {
            Ok((artifact, code)) => {
                let file = format!("{subfolder}/{}.{}", artifact.name, artifact.payload.kind.extension());
                let (kernel, _) = compiler.kernel(&name, &body)?;
                let (shapes, read) = (shapes(&kernel), read(&kernel));
                let code = (artifact.payload.kind == PayloadKind::HostObject).then_some(code);
                let pattern = region.name.clone();
                entries.push(BundleEntry { pattern, artifact, shapes, read, uses: Vec::new(), file, code });
            }
            Err(CompileError::Replaced(error)) => return Err(*error),
            Err(error) => match Error::from(error) {
                Error::Input(reason) => {
                    refused.push(BundleRefusal { pattern: region.name.clone(), target: target.clone(), reason });
                }
                other => return Err(other),
            },
        }
    }
    for entry in &mut entries {
        let params = entry.artifact.params.len();
        let known = uses.remove(&entry.artifact.name).unwrap_or_default();
        entry.uses = known.into_iter().filter(|values| values.len() == params).collect();
    }
    if entries.is_empty() && !refused.is_empty() {
        let reasons = refused.iter().map(|r| format!("\n  {}: {}", r.pattern, r.reason)).collect::<String>();
        return Err(Error::Input(format!("{target} has no kernel for any region:{reasons}")));
    }
    if !entries.is_empty() {
        let headers = for_target(target).map_err(|e| Error::Unavailable(e.to_string()))?.about().headers.iter();
        bundle.headers.extend(headers.map(|(name, text)| BundleHeader {
            target: target.clone(),
            file: format!("{subfolder}/{name}"),
            text,
        }));
    }
    bundle.entries.extend(entries);
    bundle.refused.extend(refused);
    bundle.compilations.extend(compiler.log());
    bundle.warnings.extend(compiler.warning());
    Ok(())
}

/// The folder of a target's files.
fn subfolder(target: &Target) -> String {
    target.to_string().replace(':', "-")
}

/// Adds what builds and launches the kernels of a target, if these are Ascend C.
#[cfg(feature = "ascend")]
fn add_project(bundle: &mut Bundle, model: &str, target: &Target) -> Result<(), Error> {
    let Target::Ascend { chip } = target else { return Ok(()) };
    let chips = fusewright_codegen::backend::ascend::CHIPS;
    let known = chips.iter().find(|known| known.name == chip);
    let known = known.ok_or_else(|| Error::Internal(format!("kernels for a chip `{chip}` that is not known")))?;
    let entries: Vec<&BundleEntry> = bundle.entries.iter().filter(|e| e.artifact.target == *target).collect();
    if entries.is_empty() {
        return Ok(());
    }
    let refused: Vec<&BundleRefusal> = bundle.refused.iter().filter(|r| r.target == *target).collect();
    let files = super::project::files(model, known, &entries, &refused)?;
    let subfolder = subfolder(target);
    let file = |(name, bytes): (String, Vec<u8>)| BundleFile {
        target: target.clone(),
        file: format!("{subfolder}/{name}"),
        bytes,
    };
    bundle.project.extend(files.into_iter().map(file));
    Ok(())
}

/// A build without the backend has no such kernels.
#[cfg(not(feature = "ascend"))]
fn add_project(_: &mut Bundle, _: &str, _: &Target) -> Result<(), Error> {
    Ok(())
}

fn call(replaced: &BundleCall) -> Value {
    let plain = |value: &Plain| match *value {
        Plain::Bool(is) => json!(is),
        Plain::Int(n) => json!(n),
        Plain::Float(x) => json!(x),
        Plain::Word(word) => json!(word),
    };
    let (call, body) = (&replaced.call, &replaced.body);
    let ty = |value| body.ty(value).to_string();
    json!({
        "pattern": replaced.pattern,
        "target": replaced.target.to_string(),
        "op": call.op,
        "call": call.to_string(),
        "tensors": call.tensors.iter().map(|(name, input)| ((*name).to_owned(), json!(input))).collect::<Map<_, _>>(),
        "plain": call.plain.iter().map(|(name, value)| ((*name).to_owned(), plain(value))).collect::<Map<_, _>>(),
        "results": call.results.iter().map(|(name, output)| json!({ "name": name, "output": output })).collect::<Vec<_>>(),
        "inputs": body.inputs().iter().map(|i| json!({ "name": i.name, "type": ty(i.value) })).collect::<Vec<_>>(),
        "outputs": body.outputs().iter().map(|o| json!({ "type": ty(o.value) })).collect::<Vec<_>>(),
    })
}

fn shapes(kernel: &Kernel) -> Vec<Vec<String>> {
    kernel.params.iter().map(|p| p.shape.iter().map(ToString::to_string).collect()).collect()
}

fn read(kernel: &Kernel) -> Vec<bool> {
    let insts = || kernel.segments.iter().flat_map(|s| &s.insts);
    let loads = |i: usize| insts().any(|inst| matches!(inst.op, InstOp::Load { param, .. } if param.0 as usize == i));
    (0..kernel.params.len()).map(loads).collect()
}

/// Writes the claims of a kernel over the names of its integer arguments.
pub(super) fn claims(artifact: &KernelArtifact, names: &[&str]) -> Vec<Value> {
    let written =
        |claim: &Claim| json!({ "least": claim.least.with_names(names), "most": claim.most.with_names(names) });
    artifact.claims.iter().map(written).collect()
}

fn entry(entry: &BundleEntry) -> Value {
    let artifact = &entry.artifact;
    let names: Vec<&str> = artifact.dims.iter().map(|d| d.name.as_str()).collect();
    let params = artifact.params.iter().zip(entry.shapes.iter().zip(&entry.read));
    let params = params.map(|(p, (shape, read))| {
        let mut entry = json!({
            "name": p.name, "dtype": p.dtype.name(), "access": p.access.name(), "rank": p.rank, "shape": shape,
            "read": read, "elements": p.elements.with_names(&names),
        });
        if let Some(alias) = p.alias {
            entry["alias"] = json!(alias);
        }
        if p.early {
            entry["early"] = json!(true);
        }
        entry
    });
    let source = |s: &DimSource| match *s {
        DimSource::Extent { param, axis } => json!({ "extent": [param, axis] }),
        DimSource::Stride { param, axis } => json!({ "stride": [param, axis] }),
        DimSource::Symbol => json!("symbol"),
    };
    let order = match artifact.launch.order {
        RowOrder::Any => json!("any"),
        RowOrder::Chosen { param } => json!({ "chosen": param }),
        RowOrder::Ascending => json!("ascending"),
    };
    let many = artifact.launch.many.as_ref().map(|many| {
        let symbol = format!("{}{}", artifact.name, ManyRows::SUFFIX);
        let blocks_per_row = many.blocks_per_row.with_names(&names);
        json!({
            "from": many.from, "symbol": symbol, "blocks_per_row": blocks_per_row, "shares": many.shares,
            "threads": many.threads,
        })
    });
    let dims = artifact.dims.iter().map(|d| json!({ "name": d.name, "source": source(&d.source) }));
    let (file, code) = entry.loaded();
    let code = json!({
        "file": file, "kind": code.kind.extension(), "bytes": code.bytes.len(),
        "sha256": digest(&code.bytes).to_string(), "tables": artifact.launch.tables,
    });
    json!({
        "name": artifact.name,
        "code": code,
        "pattern": entry.pattern,
        "target": artifact.target.to_string(),
        "key": artifact.key.to_string(),
        "file": entry.file,
        "symbol": artifact.name,
        "params": params.collect::<Vec<_>>(),
        "uses": entry.uses,
        "dims": dims.collect::<Vec<_>>(),
        "claims": claims(artifact, &names),
        "rows": artifact.launch.rows.with_names(&names),
        "row_order": order,
        "blocks_per_row": artifact.launch.blocks_per_row.with_names(&names),
        "shares": artifact.launch.shares,
        "many": many,
        "dependent": artifact.launch.dependent,
        "threads": artifact.launch.threads,
        "shared": artifact.launch.shared.with_names(&names),
        "alignment": artifact.launch.alignment,
    })
}
