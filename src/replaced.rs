//! Stages of kernels that a person changed: files of the folder that [`knobs::OVERRIDE_DIR`] names, under the paths at which
//! a dump writes them (`dump.rs`).
//!
//! Of a kernel's files that differ from what is generated the last is taken, and what follows it is made of it, so that a
//! whole dump may be copied and any one file of it changed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fusewright_abi::Target;
use fusewright_codegen::backend::Stage;
use fusewright_codegen::kernel::Kernel;
use fusewright_graph::Graph;

use crate::compiler::CompileError;
use crate::dump::{BODY, EXPANDED, LOWERED, folder_of, stage_name};
use crate::toolchain::Toolchain;
use crate::{Error, knobs};

/// A folder of changed stages.
#[derive(Clone, Debug)]
pub(crate) struct Replacements(PathBuf);

/// A stage in the place of a generated one.
pub(crate) struct Replaced {
    pub path: PathBuf,
    pub stage: Stage,
}

impl Replacements {
    /// The folder that the environment names, if it does.
    pub fn from_environment() -> Option<Replacements> {
        knobs::OVERRIDE_DIR.path().map(Replacements)
    }

    /// The changed stage of a kernel, if there is one.
    ///
    /// # Errors
    /// What is named is no folder; a file that cannot be read, or a changed one that is no code; what the backend does not
    /// take.
    pub fn of(
        &self,
        name: &str,
        body: &Graph,
        (lowered, expanded): (&Kernel, &Kernel),
        toolchain: &Toolchain,
        target: &Target,
    ) -> Result<Option<Replaced>, CompileError> {
        let wrong = |error| CompileError::Replaced(Box::new(error));
        if !self.0.is_dir() {
            return Err(wrong(Error::Input(said(&self.0, "it is no folder"))));
        }
        let folder = folder_of(&self.0, name, body, target).map_err(wrong)?;
        if !folder.is_dir() {
            return Ok(None);
        }
        for (file, text) in [(BODY, body.to_string()), (LOWERED, lowered.to_string()), (EXPANDED, expanded.to_string())]
        {
            let path = folder.join(file);
            if read(&path).map_err(wrong)?.is_some_and(|bytes| bytes != text.as_bytes()) {
                let reason =
                    "it is not what is generated, and only code may be changed (`opt` compiles a changed text)";
                return Err(wrong(Error::Input(said(&path, reason))));
            }
        }
        for (i, generated) in toolchain.stages(expanded, target)?.into_iter().enumerate().rev() {
            let path = folder.join(stage_name(i, expanded, generated.extension));
            match read(&path).map_err(wrong)? {
                Some(bytes) if bytes != generated.bytes => {
                    let stage = Stage { extension: generated.extension, bytes };
                    return Ok(Some(Replaced { path, stage }));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

impl Replaced {
    /// What is said of a kernel that is made of it.
    pub fn note(&self) -> String {
        said(&self.path, "it stands for what is generated")
    }
}

/// A file, if it is there.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::Input(said(path, &error.to_string()))),
    }
}

fn said(path: &Path, what: &str) -> String {
    format!("{}: {}: {what}", knobs::OVERRIDE_DIR.name, path.display())
}
