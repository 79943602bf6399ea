//! Commands that the front page and the book show work, and print what is shown.

use std::path::{Path, PathBuf};

use xtask::book::{Built, Start, blocks};

use crate::support::folder;

#[test]
fn commands_of_pages_work_and_print_what_is_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let built = Built { cli: Some(PathBuf::from(env!("CARGO_BIN_EXE_fusewright"))), ..Built::default() };
    let blocks = blocks(&root).unwrap_or_else(|e| panic!("{e}"));
    // Those that start examples are run where these are built: `tests/examples.rs`, `examples/build_rs/tests/page.rs`.
    let own = |start: &Start<'_>| *start == Start::Cli;
    let (mut run, mut wrong) = (0, Vec::new());
    for block in blocks.iter().filter(|block| block.unrun.is_none() && block.starts().iter().all(own)) {
        let folder = folder();
        wrong.extend(block.run(folder.path(), &root, &built).err());
        run += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run >= 2, "{run} blocks of commands");
}
