//! The text of a checkout: every text file below the root by its path.
//!
//! Build output and tool folders (`target`, names with a leading dot other than `.ci`) and files that are not UTF-8 are
//! left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::code;

/// Why a checkout could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}: {cause}")]
pub struct LoadError {
    /// The folder or file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub cause: std::io::Error,
}

/// Text files by path relative to the root, `/` between names.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// A tree of given files.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect() }
    }

    /// Reads the checkout at `root`.
    pub fn load(root: &Path) -> Result<Tree, LoadError> {
        let mut tree = Tree::default();
        tree.load_folder(root, "")?;
        Ok(tree)
    }

    fn load_folder(&mut self, folder: &Path, prefix: &str) -> Result<(), LoadError> {
        let fail = |path: &Path| {
            let path = path.to_path_buf();
            move |cause| LoadError { path, cause }
        };
        for entry in std::fs::read_dir(folder).map_err(fail(folder))? {
            let entry = entry.map_err(fail(folder))?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(fail(&entry.path()))?);
            let Some(name) = entry.file_name().to_str().map(str::to_string) else { continue };
            if kind.is_dir() && name != "target" && (!name.starts_with('.') || name == ".ci") {
                self.load_folder(&path, &format!("{prefix}{name}/"))?;
            } else if kind.is_file()
                && name != ".git"
                && let Ok(text) = String::from_utf8(std::fs::read(&path).map_err(fail(&path))?)
            {
                self.files.insert(format!("{prefix}{name}"), text);
            }
        }
        Ok(())
    }

    /// Every file: path and text.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Every Rust file: path and text.
    pub fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Every Rust file with comments and literals blanked.
    pub fn rust_code(&self) -> impl Iterator<Item = (&str, String)> {
        self.rust().map(|(path, text)| (path, code::mask(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_this_checkout() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root");
        let tree = Tree::load(root).expect("the checkout is readable");
        let paths: Vec<&str> = tree.files().map(|(path, _)| path).collect();
        assert!(paths.contains(&"Cargo.toml") && paths.contains(&"xtask/src/tidy/tree.rs"), "{paths:?}");
        assert!(!paths.iter().any(|path| path.contains("target/") || path.starts_with(".git/")), "{paths:?}");
    }

    #[test]
    fn a_missing_folder_is_an_error_that_names_it() {
        let error = Tree::load(Path::new("no/such/folder")).expect_err("it does not exist");
        assert!(error.to_string().starts_with("cannot read no/such/folder: "), "{error}");
    }
}
