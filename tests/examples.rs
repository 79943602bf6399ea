//! Every example runs, and prints what the pages show. `cargo test` builds examples beside the tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::book::{Block, Built, Start, blocks};
use xtask::skipped::skipped;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of built examples: tests lie in `deps` beside it.
fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let deps = test.parent().expect("a file lies in a folder");
    deps.parent().expect("a build folder lies in another").join("examples")
}

/// The names of the examples of this package.
fn names() -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join("examples")).expect("the folder is there");
    let files = entries.map(|entry| entry.expect("the folder is readable").path());
    let sources = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    sources.map(|path| path.file_stem().expect("it has a name").to_string_lossy().into_owned()).collect()
}

/// A built example, which must not be older than its source: a run of this test alone builds no examples.
fn built(name: &str) -> PathBuf {
    let (built, source) = (folder().join(name), root().join("examples").join(format!("{name}.rs")));
    let modified = |path: &Path| path.metadata().and_then(|m| m.modified());
    let made =
        modified(&built).unwrap_or_else(|e| panic!("{}: {e}: `cargo build --examples` makes it", built.display()));
    assert!(made >= modified(&source).expect("the source is there"), "{name}: built before it was changed");
    built
}

/// The examples of this package that a block starts.
fn started(block: &Block) -> impl Iterator<Item = String> {
    block.starts().into_iter().filter_map(|start| match start {
        Start::Example(name) => Some(name.to_owned()),
        Start::Cli | Start::Package(_) => None,
    })
}

#[test]
fn examples_print_what_pages_show() {
    let blocks = blocks(root()).unwrap_or_else(|e| panic!("{e}"));
    let built_examples = Built { examples: Some(folder()), ..Built::default() };
    let mut shown = BTreeSet::new();
    for block in blocks.iter().filter(|block| started(block).next().is_some()) {
        shown.extend(started(block));
        // What a page shows of a GPU is not what every machine prints.
        if block.unrun.is_some() {
            continue;
        }
        started(block).for_each(|name| drop(built(&name)));
        let folder = tempfile::tempdir().expect("the system has a place for temporary files");
        block.run(folder.path(), root(), &built_examples).unwrap_or_else(|e| panic!("{e}"));
        assert!(block.output.is_some(), "{}:{}: the page shows no output", block.page, block.line);
    }
    assert_eq!(names(), shown, "every example is on a page");
}

#[test]
fn gpu_runs_or_says_why_not() {
    let output = Command::new(built("gpu")).env("FUSEWRIGHT_CACHE_DIR", "off").output().expect("it starts");
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.is_empty(), "{printed}{said}");
    match printed.trim_end().strip_prefix("skipped: gpu (").and_then(|rest| rest.strip_suffix(')')) {
        Some(why) => skipped("gpu_runs_or_says_why_not", why),
        None => assert!(
            printed.contains("within the bounds of the interpreter") && printed.contains("replayed"),
            "{printed}"
        ),
    }
}
