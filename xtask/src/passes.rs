//! Does a test notice when a pass does nothing?
//!
//! Each pass in turn is made a pass that returns its graph as it is, in a copy of the checkout, and the tests of the
//! crate `fusion` are run there: at least one has to fail, or the pass is not tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the list of passes stands.
const LIST: &str = "fusion/src/passes/mod.rs";
/// The folder of the passes.
const FOLDER: &str = "fusion/src/passes";
/// What a pass runs when it does nothing.
const NOTHING: &str = "run: |graph, _| Ok((graph.clone(), crate::pass::Outcome::default())) }";

/// The names of the tests that fail without each pass.
///
/// # Errors
/// Tests that fail with all passes, a copy that does not compile, a pass without which no test fails.
pub fn check(root: &Path) -> Result<(), String> {
    let copy = root.join("target/xtask-passes/tree");
    copy_tree(root, &copy)?;
    let run = |what: &str| failing(&copy, &root.join("target/xtask-passes/target")).map_err(|e| format!("{what}: {e}"));
    let broken = run("with all passes")?;
    if let Some(test) = broken.first() {
        return Err(format!("`{test}` fails with all passes"));
    }
    let mut untested = Vec::new();
    for (name, file) in passes(&copy)? {
        let text = read(&file)?;
        let idle = idle(&text, &name).ok_or_else(|| format!("{}: no pass `{name}`", file.display()))?;
        write(&file, &idle)?;
        let failed = run(&format!("without `{name}`"));
        write(&file, &text)?;
        let failed = failed?;
        println!("{name}: {} tests fail without it{}", failed.len(), first(&failed));
        if failed.is_empty() {
            untested.push(name);
        }
    }
    if untested.is_empty() { Ok(()) } else { Err(format!("no test fails without {}", untested.join(", "))) }
}

fn first(failed: &[String]) -> String {
    failed.first().map_or_else(String::new, |name| format!(", e.g. {name}"))
}

/// The passes by name, and the files that declare them.
fn passes(root: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let list = read(&root.join(LIST))?;
    let mut files: Vec<PathBuf> = Vec::new();
    collect(&root.join(FOLDER), &mut files)?;
    let mut found = Vec::new();
    for file in files {
        for name in declared(&read(&file)?) {
            found.push((name, file.clone()));
        }
    }
    let words = list.split("PIPELINE: &[&Pass] =").nth(1).and_then(|rest| rest.split(';').next()).unwrap_or_default();
    let count = words.matches("::").count();
    if found.len() == count {
        Ok(found)
    } else {
        Err(format!("{LIST} lists {count} passes, {} are declared in {FOLDER}", found.len()))
    }
}

/// The names of the passes that a text declares.
fn declared(text: &str) -> Vec<String> {
    let declarations = text.split("Pass { name: \"").skip(1);
    declarations.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

/// The text with a pass that does nothing.
fn idle(text: &str, name: &str) -> Option<String> {
    let head = format!("Pass {{ name: \"{name}\"");
    let start = text.find(&head)?;
    let from = start + text[start..].find("run")?;
    let end = from + text[from..].find(" };")? + " }".len();
    Some(format!("{}{NOTHING}{}", &text[..from], &text[end..]))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|e| e.path())).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The tests of `fusion` that fail.
fn failing(tree: &Path, target: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("cargo")
        .args(["test", "-p", "fusewright-fusion", "--no-fail-fast"])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(tree)
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let failed = printed.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    let failed: Vec<String> = failed.map(str::to_owned).collect();
    if output.status.success() || !failed.is_empty() {
        return Ok(failed);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "the tests did not run: {}",
        said.lines().filter(|l| l.starts_with("error")).collect::<Vec<_>>().join("; ")
    ))
}

/// Copies what git knows or would add; files that are the same already are left, so that they are not compiled again.
fn copy_tree(root: &Path, copy: &Path) -> Result<(), String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("git: {e}"))?;
    for name in String::from_utf8_lossy(&output.stdout).split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), copy.join(name));
        // A file that git knows may be deleted here.
        let Ok(bytes) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        fs::write(&to, bytes).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "pub const PASS: Pass = Pass { name: \"cse\", required: false, run };\n\
        pub const RELAX: Pass = Pass { name: \"relax\", required: false, run: |graph, cx| run(graph, cx) };\nfn run() {}\n";

    #[test]
    fn passes_are_made_idle_one_at_a_time() {
        assert_eq!(declared(TEXT), ["cse", "relax"]);
        let idle_cse = idle(TEXT, "cse").expect("it is declared");
        assert!(idle_cse.contains(&format!("\"cse\", required: false, {NOTHING};")), "{idle_cse}");
        assert!(idle_cse.contains("run: |graph, cx| run(graph, cx) };\nfn run() {}"), "{idle_cse}");
        let idle_relax = idle(TEXT, "relax").expect("it is declared");
        assert!(idle_relax.contains("\"cse\", required: false, run };") && !idle_relax.contains("run(graph, cx)"));
        assert_eq!(idle(TEXT, "dce"), None);
    }

    #[test]
    fn every_pass_of_the_list_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let found = passes(&root).expect("the list and the folder agree");
        assert!(found.len() >= 7, "{found:?}");
        for (name, file) in found {
            assert!(idle(&read(&file).expect("it is readable"), &name).is_some_and(|t| t.contains(NOTHING)), "{name}");
        }
    }
}
