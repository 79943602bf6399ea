//! Files of a bundle into its folder: all of them or none, and nothing left of the bundle that was there before.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fusewright_runtime::bundle::{MANIFEST, is_below};
use serde_json::Value;

use crate::Error;

/// Writes files, given by their paths below `folder`, and the manifest last. They are written in a folder beside their
/// places first, so that a full disk is met before any place is touched. Files that the manifest there names and these
/// do not contain are removed.
///
/// # Errors
/// A file or folder that cannot be written; nothing that this call made is left.
pub(super) fn place(folder: &Path, files: &[(String, &[u8])]) -> Result<(), Error> {
    let mut made = Made::default();
    let old = named(&folder.join(MANIFEST));
    // In the bundle's folder, because files move only within one file system.
    let staging = folder.join(format!(".bundle.{}.partial", std::process::id()));
    // The caller knows the folder that was asked for, and not the one within.
    let asked = |error: Error| match error {
        Error::File { source, .. } => Error::File { path: folder.to_owned(), source },
        other => other,
    };
    let staged = made.folder(&staging).map_err(asked).and_then(|()| stage(&staging, folder, files, &mut made));
    if let Err(error) = staged {
        made.undo();
        return Err(error);
    }
    // The bundle is whole; an empty folder or a file of the last bundle that stays does not make it wrong.
    let _ = std::fs::remove_dir(&staging);
    let kept: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    for stale in old.iter().filter(|name| !kept.contains(name.as_str())) {
        let path = folder.join(stale);
        let _ = std::fs::remove_file(&path);
        let _ = path.parent().filter(|parent| *parent != folder).map(std::fs::remove_dir);
    }
    Ok(())
}

fn stage(staging: &Path, folder: &Path, files: &[(String, &[u8])], made: &mut Made) -> Result<(), Error> {
    let mut moves = Vec::with_capacity(files.len());
    for (i, (name, bytes)) in files.iter().enumerate() {
        let partial = staging.join(i.to_string());
        made.files.push(partial.clone());
        std::fs::write(&partial, bytes).map_err(|source| Error::File { path: folder.join(name), source })?;
        moves.push((partial, folder.join(name)));
    }
    for (partial, path) in moves {
        path.parent().map_or(Ok(()), |parent| made.folder(parent))?;
        let is_new = !path.exists();
        std::fs::rename(&partial, &path).map_err(|source| Error::File { path: path.clone(), source })?;
        made.files.extend(is_new.then_some(path));
    }
    Ok(())
}

/// The files that a manifest names, if there is one; only paths that stay below its folder.
fn named(manifest: &Path) -> Vec<String> {
    let Some(old) = std::fs::read(manifest).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok()) else {
        return Vec::new();
    };
    let items = ["kernels", "headers", "project"].into_iter().filter_map(|key| old[key].as_array()).flatten();
    let files = items.flat_map(|item| [&item["file"], &item["code"]["file"]]).filter_map(Value::as_str);
    files.filter(|name| is_below(name)).map(str::to_owned).collect()
}

/// What was made, to be taken back.
#[derive(Default)]
struct Made {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Made {
    /// Makes a folder and those above it.
    fn folder(&mut self, path: &Path) -> Result<(), Error> {
        let missing: Vec<PathBuf> =
            path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).map(Path::to_owned).collect();
        self.folders.extend(missing.into_iter().rev());
        std::fs::create_dir_all(path).map_err(|source| Error::File { path: path.to_owned(), source })
    }

    fn undo(self) {
        // The error being reported is the write's; what cannot be removed adds nothing to it.
        for file in self.files {
            let _ = std::fs::remove_file(file);
        }
        for folder in self.folders.into_iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}
