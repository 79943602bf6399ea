//! Folders that are there as a whole or not at all.
//!
//! Everything is made in another folder beside it and renamed, with a list of its files: a folder of which a file is gone
//! or of another length since, such as behind a full disk or a hand that cleaned up, is made anew. What is put into a folder
//! later is not in the list.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// The list of a folder's files: length and path of each, a line.
const LIST: &str = "files";
/// Extension of a folder that is about to go.
pub(crate) const REMOVED: &str = "removed";

/// Numbers folders of this process.
static TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// What no other folder of any process has in its name.
pub(crate) fn unique() -> String {
    format!("{}-{}", std::process::id(), TEMPORARY.fetch_add(1, Ordering::Relaxed))
}

/// Makes `folder`, where it is not there or not whole, from what `fill` writes into another one.
pub(crate) fn complete(folder: &Path, fill: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    if is_whole(folder) {
        return Ok(());
    }
    put_aside(folder)?;
    let making = folder.with_extension(unique());
    let failed = |source| Error::File { path: making.clone(), source };
    fs::create_dir_all(&making).map_err(failed)?;
    fill(&making)?;
    list(&making).and_then(|text| fs::write(making.join(LIST), text)).map_err(failed)?;
    match fs::rename(&making, folder) {
        Err(_) if folder.exists() => fs::remove_dir_all(&making).map_err(failed),
        result => result.map_err(failed),
    }
}

/// Whether all files of a folder are as long as they were when it was made.
fn is_whole(folder: &Path) -> bool {
    let Ok(list) = fs::read_to_string(folder.join(LIST)) else { return false };
    list.lines().all(|line| {
        let length = |path: &str| fs::metadata(folder.join(path)).ok().map(|file| file.len().to_string());
        line.split_once(' ').is_some_and(|(expected, path)| length(path).as_deref() == Some(expected))
    })
}

/// Takes a folder's name away. Who has its files open or loaded keeps them.
fn put_aside(folder: &Path) -> Result<(), Error> {
    let going = folder.with_extension(format!("{}.{REMOVED}", unique()));
    match fs::rename(folder, &going) {
        Ok(()) => {
            // What cannot be removed now goes with what is removed when there is too much.
            let _ = fs::remove_dir_all(&going);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::File { path: folder.to_owned(), source }),
    }
}

fn list(folder: &Path) -> std::io::Result<String> {
    let mut files = Vec::new();
    walk(folder, &mut files)?;
    let lines = files.iter().map(|(path, length)| {
        let path = path.strip_prefix(folder).unwrap_or(path);
        format!("{length} {}\n", path.display())
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    Ok(lines.concat())
}

fn walk(folder: &Path, files: &mut Vec<(PathBuf, u64)>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if found.is_dir() {
            walk(&entry.path(), files)?;
        } else {
            files.push((entry.path(), found.len()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(folder: &Path) -> Result<(), Error> {
        let inner = folder.join("include");
        fs::create_dir_all(&inner).expect("a folder");
        fs::write(inner.join("a.h"), "text").expect("room");
        fs::write(folder.join("lib.so"), "code").expect("room");
        Ok(())
    }

    #[test]
    fn a_folder_that_lost_something_is_made_anew() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("model");
        let never = |_: &Path| -> Result<(), Error> { panic!("it is whole") };
        complete(&folder, fill).expect("made");
        fs::write(folder.join("later"), "of others").expect("room");
        complete(&folder, never).expect("it is there");
        let damages: [&dyn Fn(); 4] = [
            &|| fs::remove_file(folder.join("include/a.h")).expect("it is there"),
            &|| fs::write(folder.join("lib.so"), "").expect("room"),
            &|| fs::remove_file(folder.join(LIST)).expect("it is there"),
            &|| fs::remove_dir_all(&folder).expect("it is there"),
        ];
        for damage in damages {
            damage();
            complete(&folder, fill).expect("made again");
            assert_eq!(fs::read(folder.join("include/a.h")).expect("it is there"), b"text");
            assert_eq!(fs::read(folder.join("lib.so")).expect("it is there"), b"code");
            complete(&folder, never).expect("it is there");
        }
        let left = fs::read_dir(root.path()).expect("a folder").count();
        assert_eq!(left, 1, "nothing else is left");
    }
}
