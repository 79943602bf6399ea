//! The files of this crate are those that a page of the book says to save, and its program prints what the page shows.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use xtask::book::{blocks, difference};

#[test]
fn a_page_makes_this_crate() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let blocks = blocks(&own.join("../..")).unwrap_or_else(|e| panic!("{e}"));
    let saved = |name: &str, block: &xtask::book::Block| block.files.iter().any(|(saved, _)| saved == name);
    let shown = blocks.iter().find(|block| saved("build.rs", block)).expect("a page says to save a build script");
    let files: BTreeMap<&str, &str> = shown.files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    for path in ["build.rs", "src/main.rs"] {
        let text = std::fs::read_to_string(own.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(files.get(path).copied(), Some(text.as_str()), "{}: {path}", shown.page);
    }
    let output = Command::new(env!("CARGO_BIN_EXE_fusewright-example-first-build-rs")).output().expect("it is built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = shown.output.as_deref().expect("the page shows what is printed");
    assert_eq!(difference(expected, &String::from_utf8_lossy(&output.stdout)), None, "{}", shown.page);
}
