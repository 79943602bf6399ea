//! Doc comments begin with a subject and a verb, or with a noun; older ones that begin with a question word become fewer.

use super::{Finding, Tree};

/// Words that no doc comment begins with.
const QUESTIONS: [&str; 2] = ["What", "Whether"];
/// So many of older times are left. Whoever rewrites some lowers the number.
const LEFT: usize = 1431;
/// The file of that number.
const HERE: &str = "xtask/src/tidy/comments.rs";

/// Finds that more doc comments begin with a question word than are left, or fewer.
pub fn check(tree: &Tree) -> Vec<Finding> {
    compared(tree, LEFT)
}

fn compared(tree: &Tree, left: usize) -> Vec<Finding> {
    let found: usize = tree.rust().map(|(_, text)| starts(text)).sum();
    let message = match found {
        _ if found > left => "begin with `What` or `Whether`, more than before: say it with a subject and a verb",
        _ if found < left => "begin with `What` or `Whether`, fewer than before: lower the number in this file",
        _ => return Vec::new(),
    };
    vec![Finding { path: HERE.to_string(), line: 0, message: format!("{found} doc comments {message}, {left}") }]
}

/// Counts the doc comments of a file that begin with a question word.
fn starts(text: &str) -> usize {
    let mut inside = false;
    let begins = |line: &str| {
        let words = ["///", "//!"].iter().find_map(|mark| line.trim_start().strip_prefix(mark));
        let first = words.is_some() && !inside;
        inside = words.is_some();
        first && QUESTIONS.contains(&words.and_then(|words| words.split_whitespace().next()).unwrap_or_default())
    };
    text.lines().map(begins).filter(|begins| *begins).count()
}

#[cfg(test)]
mod tests {
    use super::super::Tree;
    use super::{compared, starts};

    #[test]
    fn the_first_word_of_a_comment_counts() {
        assert_eq!(
            starts("//! What it is.\n\n    /// Whether it is,\n    /// What it is.\nfn f() {}\n/// Says what.\n"),
            2
        );
    }

    #[test]
    fn more_and_fewer_are_found() {
        let tree = Tree::of(&[("a.rs", "/// What it is.\n"), ("a.md", "/// What it is.\n")]);
        assert_eq!([0, 1, 2].map(|left| compared(&tree, left).len()), [1, 0, 1]);
    }
}
