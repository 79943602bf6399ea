//! `unsafe` lives in drivers, file mapping, one test helper, `ffi/` and one example, nowhere else.

use super::{Finding, Tree, code};

/// Where unsafe code may stand: folders (with a trailing `/`) and single files.
const PLACES: [&str; 6] = [
    "runtime/src/driver/",
    "src/map.rs",
    "tests/cpu/fence.rs",
    "ffi/",
    "ascend-model/src/kernel.rs",
    "examples/candle/src/cuda.rs",
];

/// Finds the keyword, and the attribute that would allow it, outside [`PLACES`].
pub fn check(tree: &Tree) -> Vec<Finding> {
    let outside = tree.rust_code().filter(|(path, _)| !PLACES.iter().any(|place| path.starts_with(place)));
    outside
        .flat_map(|(path, code)| {
            ["unsafe", "unsafe_code"]
                .iter()
                .flat_map(|word| code::words(&code, word).map(|at| code::line_of(&code, at)).collect::<Vec<_>>())
                .map(|line| Finding {
                    path: path.to_string(),
                    line,
                    message: format!("unsafe code outside {}", PLACES.join(", ")),
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::check;

    #[test]
    fn fires_outside_and_not_inside() {
        let text = "//! a\n#![allow(unsafe_code)]\nfn f() { unsafe {} }\n";
        let found =
            found(check, &[("graph/src/a.rs", text), ("runtime/src/driver/a.rs", text), ("ffi/c/src/a.rs", text)]);
        let lines: Vec<&str> = found.iter().map(|line| &line[..16]).collect();
        assert_eq!(lines, ["graph/src/a.rs:3", "graph/src/a.rs:2"]);
    }

    #[test]
    fn prose_is_not_code() {
        assert!(found(check, &[("graph/src/a.rs", "//! unsafe\nconst A: &str = \"unsafe\";\n")]).is_empty());
    }
}
