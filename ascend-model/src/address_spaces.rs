//! Casts that drop `__gm__` or `__ubuf__`, which the device's compiler rejects and compilers of the host accept: clang
//! rejects them where the two are address spaces. Casts in the style of C may drop them even so, and are rejected as a
//! whole.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::compiler::{Chip, Model, Source};
use crate::error::Error;

/// Versions that may be part of clang's name, the newest first.
const VERSIONS: std::ops::RangeInclusive<u32> = 12..=40;

/// The name of a clang that this system has: `clang++`, or with a version.
pub fn clang() -> Option<OsString> {
    let names = std::iter::once("clang++".to_owned()).chain(VERSIONS.rev().map(|v| format!("clang++-{v}")));
    names.map(OsString::from).find(|name| {
        let tried = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    })
}

/// The folder of the folders of what was checked.
pub(crate) const SPACES: &str = "spaces";

impl Model {
    /// Checks types of sources and headers with `clang`, address spaces on; makes no code.
    ///
    /// # Errors
    /// What the compiler refuses, with the command to repeat.
    pub fn check_address_spaces(
        &self,
        clang: &std::ffi::OsStr,
        sources: &[Source<'_>],
        headers: &[Source<'_>],
        chip: Chip,
    ) -> Result<(), Error> {
        self.once(SPACES, sources, headers, |folder: &Path, unit: &Path| {
            let mut command = self.command(clang, folder, chip);
            command.args(["-fsyntax-only", "-Werror=old-style-cast", "-DASCEND_MODEL_ADDRESS_SPACES"]).arg(unit);
            command
        })?;
        Ok(())
    }
}
