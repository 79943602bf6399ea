//! Options of a compilation, from the words that Python has for them.

use std::path::PathBuf;

use fusewright::model::read_text;
use fusewright::{Error, Options, Pipeline};

/// The options of a mode and a file of passes, for the device of a number.
///
/// # Errors
/// Another mode than `exact` and `relaxed`; a file that cannot be read or is no pipeline.
pub fn options(mode: &str, pipeline: Option<PathBuf>, device: usize) -> Result<Options, Error> {
    let relaxed = match mode {
        "exact" => false,
        "relaxed" => true,
        other => return Err(Error::Input(format!("mode `{other}` is none of `exact`, `relaxed`"))),
    };
    let pipeline = match pipeline {
        None => Pipeline::default(),
        Some(path) => {
            let text = read_text(&path)?;
            Pipeline::from_toml(&text).map_err(|e| Error::Input(format!("{}: {e}", path.display())))?
        }
    };
    Ok(Options { relaxed, pipeline, device, ..Options::default() })
}
