//! Checks of the house rules that neither the compiler nor clippy knows.
//!
//! A check is a function from the text of the tree to findings; it touches no disk, so its tests plant a violation in a
//! tree of two lines. Rust text is looked at through `code::mask`, which blanks comments and literals: a rule about
//! code does not trip over prose.

mod code;
mod comments;
mod edges;
mod form;
mod pages;
mod purity;
mod tree;
mod unsafety;
mod words;

pub use tree::{LoadError, Tree};

/// One violation of a house rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, relative to the root, with `/` between names.
    pub path: String,
    /// The line, from 1; 0 where the finding is about the whole file.
    pub line: usize,
    /// What is wrong, and what the rule is.
    pub message: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// A named check.
pub struct Check {
    /// Its name, as findings are grouped under.
    pub name: &'static str,
    /// The check itself.
    pub run: fn(&Tree) -> Vec<Finding>,
}

/// Every check, in the order they run.
pub const CHECKS: [Check; 7] = [
    Check { name: "edges", run: edges::check },
    Check { name: "unsafety", run: unsafety::check },
    Check { name: "form", run: form::check },
    Check { name: "words", run: words::check },
    Check { name: "comments", run: comments::check },
    Check { name: "purity", run: purity::check },
    Check { name: "pages", run: pages::check },
];

/// All findings of all checks, in the order of [`CHECKS`] and of paths.
pub fn check(tree: &Tree) -> Vec<Finding> {
    CHECKS.iter().flat_map(|check| (check.run)(tree)).collect()
}

/// Findings of `check` on a tree of the given files, as text; the tests' one way in.
#[cfg(test)]
fn found(check: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
    check(&Tree::of(files)).iter().map(ToString::to_string).collect()
}
