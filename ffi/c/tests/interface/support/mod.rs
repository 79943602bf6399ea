//! The bundle of the example.

use std::path::Path;

use fusewright::aot::write_bundle;
use fusewright::diff::options;
use fusewright::graph::Graph;
use fusewright_abi::Target;
use tempfile::TempDir;

/// Elements of a row of the example.
pub const WIDTH: usize = 96;

/// The example's graph, compiled for these targets.
pub fn bundle_of(targets: &[&str]) -> TempDir {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/add_norm.fw");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let targets: Vec<Target> = targets.iter().map(|target| target.parse().expect("a target")).collect();
    let folder = tempfile::tempdir().expect("a folder");
    write_bundle(&graph, &targets, folder.path(), &options()).unwrap_or_else(|e| panic!("{e}"));
    folder
}
