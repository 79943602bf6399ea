//! Environment variables that change behaviour: the only place that reads them.

/// One environment variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Knob {
    /// Name.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
}

impl Knob {
    /// The value, if it is set and valid Unicode.
    pub fn read(&self) -> Option<String> {
        std::env::var(self.name).ok()
    }
}

/// Folder where every kernel's stages are written as it is compiled.
pub const DUMP_DIR: Knob =
    Knob { name: "FUSEWRIGHT_DUMP_DIR", doc: "folder for the text and code of every kernel that is compiled" };

/// Every knob, in alphabetical order.
pub const ALL: &[Knob] = &[DUMP_DIR];
