//! Opening models: `.pt2` files and the text form.

use std::path::Path;

use fusewright_graph::{Graph, import, verify};

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
