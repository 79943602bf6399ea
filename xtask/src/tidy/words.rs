//! Words that no file holds.
//!
//! In Rust code: calls that panic on bad input, tests that do not run or cannot fail. In any text file: markers of
//! unfinished work, and absolute paths, which exist on one machine only.

use super::{Finding, Tree, code};

/// Never in Rust code: the text, and what to write instead. Some words here are written in two halves, so that a plain
/// search for them finds violations only.
const CODE: [(&str, &str); 6] = [
    (".unwrap()", "return a typed error, or `expect` an invariant in words"),
    (concat!("to", "do!"), "finish it or leave it out"),
    (concat!("unimple", "mented!"), "refuse by a typed error"),
    ("dbg!", "leave it out"),
    (concat!("#[", "ignore"), "a test that does not run is no test"),
    ("#[should_panic", "bad input is an error value, not a panic"),
];
/// Never in any text file.
const MARKERS: [&str; 3] = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("TO", "DO")];
/// Never at the start of a path in any text file.
const PATHS: [&str; 5] =
    [concat!("/", "work"), concat!("/", "tmp"), concat!("/", "root"), concat!("/", "home"), concat!("/", "Users")];

/// Finds forbidden words and paths.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        for marker in MARKERS {
            findings.extend(code::words(text, marker).map(|at| finding(path, text, at, marker, "unfinished work")));
        }
        for root in PATHS {
            let starts = text.match_indices(root).map(|(at, _)| at).filter(|&at| starts_path(text, at, root));
            findings.extend(starts.map(|at| finding(path, text, at, root, "a path of one machine")));
        }
    }
    for (path, code) in tree.rust_code() {
        for (word, instead) in CODE {
            findings.extend(code::words(&code, word).map(|at| finding(path, &code, at, word, instead)));
        }
    }
    findings
}

fn finding(path: &str, text: &str, at: usize, word: &str, why: &str) -> Finding {
    Finding { path: path.to_string(), line: code::line_of(text, at), message: format!("`{word}`: {why}") }
}

/// Whether `root` at `at` begins an absolute path: no name before it, the name ends behind it.
fn starts_path(text: &str, at: usize, root: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let before = text[..at].chars().next_back();
    let after = text[at + root.len()..].chars().next();
    !before.is_some_and(|c| in_name(c) || "})/*~".contains(c)) && !after.is_some_and(in_name)
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::{CODE, MARKERS, PATHS, check};

    #[test]
    fn fires_on_every_forbidden_call() {
        for (word, instead) in CODE {
            let text = format!("//! a\nfn f() {{ {word} }}\n");
            assert_eq!(found(check, &[("a.rs", &text)]), [format!("a.rs:2: `{word}`: {instead}")]);
            assert!(found(check, &[("a.md", &text)]).is_empty(), "prose may name `{word}`");
            assert!(found(check, &[("a.rs", &format!("//! {word}\n"))]).is_empty(), "comments may name `{word}`");
        }
    }

    #[test]
    fn fires_on_markers_anywhere() {
        for marker in MARKERS {
            assert_eq!(
                found(check, &[("a.md", &format!("a\n{marker}: b"))]),
                [format!("a.md:2: `{marker}`: unfinished work")]
            );
            assert!(found(check, &[("a.md", &format!("{marker}Y"))]).is_empty());
        }
    }

    #[test]
    fn fires_on_machine_paths_and_not_on_relative_ones() {
        for root in PATHS {
            for text in [format!("\"{root}/a\""), root.to_string(), format!("see {root}/b.")] {
                assert_eq!(
                    found(check, &[("a.sh", &text)]),
                    [format!("a.sh:1: `{root}`: a path of one machine")],
                    "{text}"
                );
            }
            for text in [format!("a{root}/b"), format!("{root}able"), format!("https://x.org{root}/a")] {
                assert!(found(check, &[("a.sh", &text)]).is_empty(), "{text}");
            }
        }
    }
}
