//! The definitions of `docs/numerics.md`, row by row: each against an oracle written from the definition, in the graph
//! interpreter, in the interpreter of Kernel IR and as machine code.
//!
//! Rows of the page and tests are tied: a row without a test fails, and so does a test of no row.

#[path = "numerics/oracle.rs"]
mod oracle;
#[path = "numerics/ways.rs"]
mod ways;

/// Ids of rows, each with the test that runs for it.
macro_rules! rows {
    ($( $($id:literal),+ => $name:ident; )*) => {
        /// The rows that are tested here.
        pub const TESTED: &[&str] = &[$( $($id),+ ),*];

        /// One test for every row.
        mod row {
            $( #[test] fn $name() { super::$name(); } )*
        }
    };
}

#[path = "numerics/activations.rs"]
mod activations;
#[path = "numerics/ascend.rs"]
mod ascend;
#[path = "numerics/blocks.rs"]
mod blocks;
#[path = "numerics/casts.rs"]
mod casts;
#[path = "numerics/edges.rs"]
mod edges;
#[path = "numerics/fp8.rs"]
mod fp8;
#[path = "numerics/gates.rs"]
mod gates;
#[path = "numerics/int8.rs"]
mod int8;
#[path = "numerics/norms.rs"]
mod norms;
#[path = "numerics/rope.rs"]
mod rope;

/// The first cells of the page's tables: ids in back quotes, with a dot in them.
fn ids(page: &str) -> Vec<&str> {
    let first = |line: &'_ str| line.strip_prefix("| `")?.split_once('`').map(|(id, _)| id.len());
    page.lines().filter_map(|line| first(line).map(|n| &line[3..3 + n])).filter(|id| id.contains('.')).collect()
}

#[test]
fn every_row_has_a_test_and_every_test_a_row() {
    let page = ids(include_str!("../docs/numerics.md"));
    let tests: Vec<&str> = [
        activations::TESTED,
        ascend::TESTED,
        blocks::TESTED,
        edges::TESTED,
        fp8::TESTED,
        gates::TESTED,
        int8::TESTED,
        norms::TESTED,
        rope::TESTED,
    ]
    .concat();
    for (name, list, other) in [("test", &page, &tests), ("row", &tests, &page)] {
        let missing: Vec<&&str> = list.iter().filter(|id| !other.contains(id)).collect();
        assert!(missing.is_empty(), "no {name} for {missing:?}");
        let again: Vec<&&str> = list.iter().filter(|id| list.iter().filter(|other| other == id).count() > 1).collect();
        assert!(again.is_empty(), "twice: {again:?}");
    }
    assert!(page.len() >= 90, "{} rows", page.len());
}
