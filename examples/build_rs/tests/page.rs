//! The program prints what a page shows.

use std::path::{Path, PathBuf};

use xtask::book::{Built, Start, blocks};

const NAME: &str = env!("CARGO_PKG_NAME");

#[test]
fn the_program_prints_what_a_page_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_fusewright-example-build-rs"));
    let built = Built { package: Some((NAME.to_owned(), program)), ..Built::default() };
    let blocks = blocks(&root).unwrap_or_else(|e| panic!("{e}"));
    let shown: Vec<_> = blocks.iter().filter(|block| block.starts().contains(&Start::Package(NAME))).collect();
    assert!(!shown.is_empty(), "no page shows {NAME}");
    for block in shown {
        let folder = tempfile::tempdir().expect("the system has a place for temporary files");
        block.run(folder.path(), &root, &built).unwrap_or_else(|e| panic!("{e}"));
        assert!(block.output.is_some(), "{}:{}: the page shows no output", block.page, block.line);
    }
}
