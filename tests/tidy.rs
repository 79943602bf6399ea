//! The house rules hold in this checkout: layering, unsafe code, file form, forbidden words, purity.

use std::path::Path;

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
