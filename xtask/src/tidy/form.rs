//! The form of a Rust file: it opens with its module doc and is at most [`MAX_LINES`] long.
//!
//! Tables and generated files may be longer; they say so in the first line of their doc.

use super::{Finding, Tree};

/// The most lines of a Rust file.
const MAX_LINES: usize = 600;
/// First words of a module doc that lift the limit.
const EXEMPT: [&str; 2] = ["//! Table ", "//! Generated "];

/// Finds files without a module doc and files that are too long.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let first = text.lines().next().unwrap_or_default();
    if first.strip_prefix("//!").is_none_or(|doc| doc.trim().is_empty()) {
        findings.push(Finding {
            path: path.to_string(),
            line: 1,
            message: "a file opens with `//! ` and what it is".into(),
        });
    }
    let lines = text.lines().count();
    if lines > MAX_LINES && !EXEMPT.iter().any(|word| first.starts_with(word)) {
        let message = format!("{lines} lines, at most {MAX_LINES} (a table opens with `//! Table of`)");
        findings.push(Finding { path: path.to_string(), line: 0, message });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::{MAX_LINES, check};

    #[test]
    fn fires_on_a_missing_or_empty_doc() {
        let message = "a.rs:1: a file opens with `//! ` and what it is";
        for text in ["", "fn f() {}\n", "//!\nfn f() {}\n", "// a\n", "\n//! late\n"] {
            assert_eq!(found(check, &[("a.rs", text)]), [message], "{text:?}");
        }
        assert!(found(check, &[("a.rs", "//! Words.\n"), ("a.txt", "")]).is_empty());
    }

    #[test]
    fn fires_on_a_long_file_that_is_no_table() {
        let body = |head: &str, lines: usize| format!("{head}\n{}", "\n".repeat(lines - 1));
        let long = body("//! Words.", MAX_LINES + 1);
        assert_eq!(
            found(check, &[("a.rs", &long)]),
            ["a.rs: 601 lines, at most 600 (a table opens with `//! Table of`)"]
        );
        assert!(found(check, &[("a.rs", &body("//! Words.", MAX_LINES))]).is_empty());
        assert!(found(check, &[("a.rs", &body("//! Table of words.", MAX_LINES + 1))]).is_empty());
    }
}
