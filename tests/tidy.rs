//! The house rules hold in this checkout: layering, unsafe code, file form, forbidden words, purity.

use std::path::Path;

use xtask::results;
use xtask::tidy::{CHECKS, Tree};

#[test]
fn every_house_rule_holds() {
    let tree = Tree::load(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("the checkout is readable");
    assert!(tree.rust().count() > 20, "the checkout was not found");
    let findings: Vec<String> = CHECKS
        .iter()
        .flat_map(|check| (check.run)(&tree).into_iter().map(|finding| format!("{}: {finding}", check.name)))
        .collect();
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn tables_of_figures_are_made_from_the_files_of_measurements() {
    let stale = results::stale(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("pages and files are readable");
    assert!(stale.is_empty(), "run `cargo run -p xtask -- results`: {stale:?}");
}
