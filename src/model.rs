//! Opening models: `.pt2` files and the text form.

use std::collections::BTreeMap;
use std::path::Path;

use fusewright_graph::{Graph, Op, Origin, Prim, import, verify};

use crate::{Error, map_file};

/// The graph in a file: an archive of `torch.export.save`, or the project's text form (`.fw`).
///
/// # Errors
/// A file that cannot be read, or what it holds is no graph; the message names the file and the thing in it.
pub fn open(path: &Path) -> Result<Graph, Error> {
    let bytes = map_file(path)?;
    let archive = bytes.starts_with(b"PK");
    let bad = |message: String| Error::Input(format!("{}: {message}", path.display()));
    let graph = if path.extension().is_some_and(|e| e == "fw") {
        let text = std::str::from_utf8(&bytes).map_err(|e| bad(e.to_string()))?;
        text.parse::<Graph>().map_err(|e| bad(e.to_string()))?
    } else {
        import::pt2(&bytes).map_err(|e| match std::str::from_utf8(&bytes) {
            Ok(text) if !archive && text.parse::<Graph>().is_ok() => {
                bad("holds the text form of a graph; give the file the ending `.fw`".to_owned())
            }
            _ => bad(e.to_string()),
        })?
    };
    verify::verify(&graph).map_err(|e| bad(Error::of_diagnostics(&e).to_string()))?;
    Ok(graph)
}

/// Refuses a graph with ops of the host framework, which have no meaning here and so cannot be run.
///
/// # Errors
/// Every such op once, with how often it stands in the graph, where first, and why it was not taken apart.
pub fn check_runnable(graph: &Graph) -> Result<(), Error> {
    let mut found: BTreeMap<&str, (usize, &Origin, Option<&str>)> = BTreeMap::new();
    for node in graph.nodes() {
        if let Op::Prim(Prim::Opaque { target, attrs, .. }) = &node.op {
            let reason = attrs.iter().find(|(name, _)| name == "reason").map(|(_, reason)| reason.as_str());
            found.entry(target).or_insert((0, &node.origin, reason)).0 += 1;
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let said = found.iter().map(|(target, (count, origin, reason))| {
        let first = if *count > 1 { "first at" } else { "at" };
        let place = origin.node.as_deref().unwrap_or("<built>");
        let source = origin.source.as_ref().map_or_else(String::new, |source| format!(" ({source})"));
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        format!("\n  {count} × `{target}`, {first} {place}{source}{reason}")
    });
    let said: String = said.collect();
    Err(Error::Input(format!("cannot be run: these ops belong to the host framework and have no meaning here{said}")))
}
