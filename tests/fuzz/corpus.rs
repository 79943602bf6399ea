//! The inputs in `fuzz/corpus/`, each tried again.

use std::path::Path;

use crate::READERS;

#[test]
fn kept_inputs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for reader in READERS {
        let folder = root.join(reader.name);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("the folder is readable").path()).collect();
        paths.sort();
        assert!(!paths.is_empty(), "{} holds inputs", folder.display());
        for path in paths {
            assert!(path.extension().is_some_and(|e| e == reader.ending), "{}", path.display());
            let input = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let name = path.file_stem().expect("it has an ending").to_string_lossy().into_owned();
            reader.case(&input, &name, &std::env::temp_dir());
        }
    }
}
