//! The pure crates take bytes and give bytes: no files, environment, clock, network, processes or threads outside tests.

use super::{Finding, Tree, code};

/// Folders of the pure crates.
const PURE: [&str; 4] = ["graph/src/", "fusion/src/", "codegen/src/", "templates/src/"];
/// Modules of `std` through which the world comes in.
const MODULES: [&str; 5] = ["env", "fs", "net", "process", "time"];

/// Finds uses of [`MODULES`] in [`PURE`] crates, spelled as a path or inside `use std::{…}`.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let pure = |path: &str| PURE.iter().any(|folder| path.starts_with(folder)) && !code::is_test_file(path);
    let mut findings = Vec::new();
    for (path, code) in tree.rust_code().filter(|(path, _)| pure(path)) {
        let code = code::without_tests(&code);
        for at in code::words(&code, "std::") {
            for name in names_behind(&code[at + "std::".len()..]) {
                if MODULES.contains(&name) {
                    let message = format!("`std::{name}` in a pure crate: the caller brings bytes");
                    findings.push(Finding { path: path.to_string(), line: code::line_of(&code, at), message });
                }
            }
        }
    }
    findings
}

/// The first names of the paths that `rest` opens with: one, or those of a brace list.
fn names_behind(rest: &str) -> Vec<&str> {
    let Some(list) = rest.strip_prefix('{') else { return vec![first_name(rest)] };
    let mut names = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(first_name(list[start..at].trim_start()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

fn first_name(path: &str) -> &str {
    path.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::{MODULES, check};

    #[test]
    fn fires_on_each_module_in_each_spelling() {
        for name in MODULES {
            for text in [
                format!("use std::{name}::A;"),
                format!("use std::{{fmt::{{self, B}}, {name}}};"),
                format!("std::{name}::f()"),
            ] {
                let message = format!("graph/src/a.rs:1: `std::{name}` in a pure crate: the caller brings bytes");
                assert_eq!(found(check, &[("graph/src/a.rs", &text)]), [message], "{text}");
                assert!(found(check, &[("runtime/src/a.rs", &text)]).is_empty(), "the runtime is not pure");
                assert!(found(check, &[("graph/src/ops/tests.rs", &text)]).is_empty(), "tests are not the crate");
                let test = format!("#[cfg(test)]\nmod tests {{ {text} }}");
                assert!(found(check, &[("graph/src/a.rs", &test)]).is_empty(), "{test}");
            }
        }
    }

    #[test]
    fn other_modules_and_compile_time_variables_pass() {
        let text = "use std::{fmt, collections::{BTreeMap, btree_map}};\nconst V: &str = env!(\"CARGO_PKG_VERSION\");\nuse other::fs;";
        assert!(found(check, &[("graph/src/a.rs", text)]).is_empty());
    }
}
