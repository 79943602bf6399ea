//! Text files that test themselves: `tests/filetests/**/*.fw`.
//!
//! A file begins with `test COMMAND [ARGUMENT…]` lines, which apply to all its cases. A case begins at a line that
//! starts with `graph`, `kernel` or `rule`; its comments say what is expected:
//!
//! - `; error: TEXT` at the end of a line: a command reports an error there whose message contains TEXT;
//! - `; check: TEXT`: the lines of the commands' outputs contain these texts in this order;
//! - `; COMMAND:` and lines that start with `;` and three blanks: the command's whole output;
//! - `; run: …`: what a command that runs something needs, in its own words.
//!
//! `UPDATE_EXPECT=1` rewrites whole outputs and errors. A command is one file in `tests/support` and one entry of its
//! list.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use support::TestFile;
use xtask::pieces;

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("a readable folder entry").path())
        .collect();
    entries.sort();
    for path in entries {
        // Kernels that run, in order and on named buffers, have a runner of their own: codegen/tests/filetests.rs.
        if path.is_dir() && !path.ends_with("filetests/kernel") {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "fw") {
            files.push(path);
        }
    }
}

#[test]
fn every_file_is_as_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let bless = std::env::var_os("UPDATE_EXPECT").is_some_and(|v| v == "1");
    let (mut files, cases) = (Vec::new(), AtomicUsize::new(0));
    collect(&root, &mut files);
    let found = pieces::each(&files, |path| {
        let name = path.strip_prefix(&root).unwrap_or(path).display().to_string();
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let result = TestFile::parse(&name, &text).map(|file| {
            cases.fetch_add(file.cases.len(), Ordering::Relaxed);
            let report = file.run();
            if bless && report.blessed != text {
                fs::write(path, &report.blessed).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
            report
        });
        match result {
            Ok(report) if bless => report.unblessable,
            // What is right but spelled otherwise would change with the next blessing.
            Ok(report) if report.failures.is_empty() && report.blessed != text => {
                vec![format!("{name}: right, and not as UPDATE_EXPECT=1 writes it")]
            }
            Ok(report) => report.failures,
            Err(error) => vec![error],
        }
    });
    let (failures, cases) = (found.concat(), cases.into_inner());
    assert!(files.len() >= 12 && cases >= 30, "{} files with {cases} cases were found", files.len());
    let count = failures.len();
    let hint = "UPDATE_EXPECT=1 rewrites expected outputs and errors";
    assert!(failures.is_empty(), "{}\n\n{count} failures; {hint}", failures.join("\n\n"));
}

/// What is wrong with a file of one text.
fn failures(text: &str) -> Vec<String> {
    TestFile::parse("inline", text).map_or_else(|e| vec![e], |file| file.run().failures)
}

const GOOD: &str = "test print\ntest verify\n\ngraph @g(s: 1..8; %x: f32[s]) {\n  %y = neg %x\n  return %y\n}\n\
    ; check: neg %x\n; check: return\n";

#[test]
fn a_right_file_has_no_failures() {
    assert_eq!(failures(GOOD), Vec::<String>::new());
}

#[test]
fn a_wrong_expectation_is_a_failure() {
    for (from, to, part) in [
        ("; check: neg", "; check: abs", "`abs %x`"),
        ("; check: neg %x\n; check: return", "; check: return\n; check: neg", "`neg`"),
        ("neg %x\n", "neg %x  ; error: bad\n", "no such error"),
        ("= neg", "= negate", "unknown op `negate`"),
        ("test print", "test polish", "`polish`"),
        ("test print\ntest verify\n", "", "no `test` line"),
        ("; check: neg %x\n; check: return", "", "no expected output"),
        ("; check: neg %x\n; check: return", "; print:\n;   graph @g() {", "-graph @g() {"),
    ] {
        let text = GOOD.replace(from, to);
        let found = failures(&text);
        assert!(found.iter().any(|f| f.contains(part)), "{text}\n{found:?}");
    }
    assert!(failures("test print\n").iter().any(|f| f.contains("no case")));
}

#[test]
fn blessing_makes_a_file_right() {
    let bare = GOOD.replace("; check: neg %x\n; check: return\n", "; print:\n;   old\n").replace("= neg", "= negate");
    let two = format!("{bare}\n{}", GOOD.split_once("\n\n").map_or("", |(_, case)| case).replace("; check", "; note"));
    let blessed = TestFile::parse("inline", &two).map(|file| file.run().blessed).unwrap_or_else(|e| panic!("{e}"));
    assert!(blessed.contains("%y = negate %x  ; error: unknown op `negate`"), "{blessed}");
    assert!(blessed.contains("; print:\n;   graph @g(s: 1..8; %x: f32[s]) {\n"), "{blessed}");
    assert_eq!(failures(&blessed), Vec::<String>::new(), "{blessed}");
    let again = TestFile::parse("inline", &blessed).map(|file| file.run().blessed);
    assert_eq!(again.as_ref(), Ok(&blessed));
}
