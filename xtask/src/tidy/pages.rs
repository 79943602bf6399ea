//! Pages for people: links lead somewhere, cells of tables can be read at a glance, and the book has every page of its folder.

use super::{Finding, Tree};

/// The most words of a cell of a table.
const MAX_WORDS: usize = 40;
/// The folder of the book, and the list of its pages.
const BOOK: &str = "docs/";
const LIST: &str = "docs/SUMMARY.md";
/// Pages whose text has holes: what fills them is not known here.
const TEMPLATES: &str = "templates/";

/// Finds links to nothing, links out of the book, long cells, and pages that the book's list lacks.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let list = tree.files().find(|(path, _)| *path == LIST).map(|(_, text)| text);
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md") && !path.starts_with(TEMPLATES)) {
        let folder = path.rfind('/').map_or("", |at| &path[..=at]);
        let mut fenced = false;
        for (number, line) in text.lines().enumerate() {
            let mut found =
                |message: String| findings.push(Finding { path: path.to_string(), line: number + 1, message });
            fenced ^= line.trim_start().starts_with("```");
            if fenced {
                continue;
            }
            for target in links(line) {
                let full = resolved(folder, target);
                if !exists(tree, &full) {
                    found(format!("`{target}` is no file"));
                } else if path.starts_with(BOOK) && !full.starts_with(BOOK) {
                    found(format!("`{target}` is not in the book: name the file without a link"));
                }
            }
            if line.starts_with('|') {
                let longest = line.split('|').map(|cell| cell.split_whitespace().count()).max().unwrap_or(0);
                if longest > MAX_WORDS {
                    found(format!("a cell of {longest} words, at most {MAX_WORDS}"));
                }
            }
        }
        let page = path.strip_prefix(BOOK).filter(|page| !page.contains('/') && path != LIST);
        if let (Some(page), Some(list)) = (page, list)
            && !list.contains(&format!("({page})"))
        {
            findings.push(Finding { path: path.to_string(), line: 0, message: format!("{LIST} does not list it") });
        }
    }
    findings
}

/// The targets of links and pictures that are files, without what is behind `#`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.contains(' '));
    files.map(|target| target.split('#').next().unwrap_or_default()).filter(|target| !target.is_empty())
}

fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn exists(tree: &Tree, path: &str) -> bool {
    tree.files().any(|(file, _)| file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::check;

    #[test]
    fn fires_on_links_to_nothing_and_out_of_the_book() {
        let files = [
            ("README.md", "[a](docs/a.md#part) [b](docs/b.md) [c](https://x.org/c) [d](docs) `x[i](j, k)`\n"),
            ("docs/SUMMARY.md", "- [A](a.md)\n"),
            ("docs/a.md", "[up](../README.md)\n```\n[no](link.md)\n```\n"),
            ("docs/c.md", "c\n"),
        ];
        assert_eq!(
            found(check, &files),
            [
                "README.md:1: `docs/b.md` is no file",
                "docs/a.md:1: `../README.md` is not in the book: name the file without a link",
                "docs/c.md: docs/SUMMARY.md does not list it",
            ]
        );
    }

    #[test]
    fn fires_on_long_cells() {
        let (short, long) = ("word ".repeat(40), "word ".repeat(41));
        assert_eq!(
            found(check, &[("a.md", &format!("| {short} | {long} |\n"))]),
            ["a.md:1: a cell of 41 words, at most 40"]
        );
        assert!(found(check, &[("a.md", &format!("| {short} |\n{long}\n"))]).is_empty());
    }
}
