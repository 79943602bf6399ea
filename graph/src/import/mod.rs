//! Importers: files of other frameworks to graphs.
//!
//! [`pt2`] reads what `torch.export.save` writes (torch 2.9 and later), [`live`] a graph that is still in memory. Bytes in,
//! graph out: no file is opened here, and weights are slices of the given bytes. Ops with a row in the op tables become
//! primitives and composites with every rounding written as a cast; any other op becomes an opaque node with its arguments
//! and result types. Every value's type is checked against the type that the file states for it.

mod alias;
mod archive;
mod assume;
mod aten;
mod call;
mod casts;
mod collective;
mod constants;
mod convert;
mod custom;
mod define;
mod dims;
mod inline;
mod inplace;
mod live;
mod name;
mod opaque;
mod origin;
mod overwrite;
mod reshaped;
mod schema;
mod sharing;
mod signature;
mod sized;
mod steps;
mod strided;
mod table;
mod types;
mod vendor;
mod weights;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde::de::DeserializeOwned;

pub use archive::Archive;
pub use define::{CustomCall, Plain};
pub use live::{is_known, live};

use crate::diag::Diagnostic;
use crate::graph::Graph;
use schema::{Program, VersionOnly};
use weights::Weights;

/// Major version of the export schema that is read; minor versions only add fields.
const SCHEMA_MAJOR: i64 = 8;

/// The graph of a `.pt2` file: its only model, or the one named `model`.
///
/// # Errors
/// A file that is not an archive of `torch.export.save`, an unsupported version, records that do not fit together, or
/// a node whose result types cannot be represented; the message names the record or node.
pub fn pt2(bytes: &Bytes) -> Result<Graph, Diagnostic> {
    let archive = Archive::open(bytes)?;
    let models = pt2_models(&archive);
    let model = match models.as_slice() {
        [only] => only,
        [] => return Err(Diagnostic::new("import.record", "the archive holds no `models/*.json`")),
        several => several.iter().find(|name| *name == "model").ok_or_else(|| {
            Diagnostic::new("import.record", format!("the archive holds several models: {}", several.join(", ")))
                .with_help("name one of them")
        })?,
    };
    pt2_model(&archive, model)
}

/// Names of the models in an archive.
pub fn pt2_models(archive: &Archive) -> Vec<String> {
    let name = |record: &str| Some(record.strip_prefix("models/")?.strip_suffix(".json")?.to_owned());
    archive.names().filter_map(name).collect()
}

/// The graph of one model of an archive.
///
/// # Errors
/// As [`pt2`].
pub fn pt2_model(archive: &Archive, model: &str) -> Result<Graph, Diagnostic> {
    let record = format!("models/{model}.json");
    let bytes = archive.require(&record)?;
    let version = parse_json::<VersionOnly>(&record, &bytes)?.schema_version;
    if version.major != SCHEMA_MAJOR {
        let message = format!("`{record}` has schema {}.{}, expected {SCHEMA_MAJOR}.x", version.major, version.minor);
        return Err(Diagnostic::new("import.version", message).with_help("re-save the model with torch 2.9 or later"));
    }
    let mut program: Program = parse_json(&record, &bytes)?;
    inline::regions(&mut program.graph_module.graph);
    reshaped::as_views(&mut program);
    let weights = Weights::open(archive, model)?;
    let graph = convert::convert(model, &program, &weights)?;
    casts::of_version(graph, program.torch_version.as_deref())
        .map_err(|error| Diagnostic::new("import.version", error.to_string()))
}

fn parse_json<T: DeserializeOwned>(record: &str, bytes: &[u8]) -> Result<T, Diagnostic> {
    serde_json::from_slice(bytes).map_err(|error| {
        Diagnostic::new("import.schema", format!("record `{record}` does not follow the export schema: {error}"))
    })
}
