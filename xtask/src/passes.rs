//! Does a test notice when a pass does nothing?
//!
//! In a copy of the checkout each pass gets a switch, an environment variable by which it returns its graph as it is.
//! The tests of the crate `fusion` are built there once and run with each pass switched off: at least one has to fail,
//! or the pass is not tested. A pass that a test binary has noticed is not tried on the next one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the list of passes stands.
const LIST: &str = "fusion/src/passes/mod.rs";
/// The folder of the passes.
const FOLDER: &str = "fusion/src/passes";
/// The variable that names the pass that does nothing.
const SWITCH: &str = "XTASK_IDLE_PASS";

/// The names of the tests that fail without each pass.
///
/// # Errors
/// Tests that fail with all passes, a copy that does not compile, a pass without which no test fails.
pub fn check(root: &Path) -> Result<(), String> {
    let copy = root.join("target/xtask-passes/tree");
    copy_tree(root, &copy)?;
    let mut untested: Vec<String> = Vec::new();
    let mut texts: BTreeMap<PathBuf, String> = BTreeMap::new();
    for (name, file) in passes(&copy)? {
        let text = texts.get(&file).map_or_else(|| read(&file), |text| Ok(text.clone()))?;
        let text = switchable(&text, &name).ok_or_else(|| format!("{}: no pass `{name}`", file.display()))?;
        texts.insert(file, text);
        untested.push(name);
    }
    texts.iter().try_for_each(|(file, text)| write(file, text))?;
    for binary in built(&copy, &root.join("target/xtask-passes/target"))? {
        if let Some(test) = failing(&copy, &binary, "")?.first() {
            return Err(format!("`{test}` fails with all passes"));
        }
        let mut still = Vec::new();
        for name in untested {
            match failing(&copy, &binary, &name)?.as_slice() {
                [] => still.push(name),
                failed @ [first, ..] => println!("{name}: {} tests fail without it, e.g. {first}", failed.len()),
            }
        }
        untested = still;
        if untested.is_empty() {
            return Ok(());
        }
    }
    Err(format!("no test fails without {}", untested.join(", ")))
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

/// The text with a pass that the variable makes idle.
fn switchable(text: &str, name: &str) -> Option<String> {
    let head = format!("Pass {{ name: \"{name}\"");
    let start = text.find(&head)?;
    let from = start + text[start..].find("run")?;
    let end = from + text[from..].find(" };")?;
    let body = text[from..end].strip_prefix("run: ").unwrap_or("run");
    let switch = format!(
        "run: |graph, cx| {{ \
         if std::env::var_os(\"{SWITCH}\").is_some_and(|idle| idle == \"{name}\") {{ \
         return Ok((graph.clone(), crate::pass::Outcome::default())); }} \
         let pass: fn(&fusewright_graph::Graph, &mut crate::pass::Cx) -> crate::pass::PassResult = {body}; \
         pass(graph, cx) }}"
    );
    Some(format!("{}{switch}{}", &text[..from], &text[end..]))
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

/// Builds the tests of `fusion`, and gives their binaries in the order of cargo, the unit tests first.
fn built(tree: &Path, target: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("cargo")
        .args(["test", "-p", "fusewright-fusion", "--no-run", "--lib", "--tests"])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(tree)
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error")).collect();
        return Err(format!("the tests cannot be built: {}", errors.join("; ")));
    }
    let binaries: Vec<PathBuf> = said.lines().filter_map(binary).map(|path| tree.join(path)).collect();
    if binaries.is_empty() { Err("cargo names no tests".to_owned()) } else { Ok(binaries) }
}

/// The path in a line of cargo, which says `Executable unittests src/lib.rs (PATH)`.
fn binary(line: &str) -> Option<&str> {
    line.trim().strip_prefix("Executable ")?.split_once('(')?.1.strip_suffix(')')
}

/// The tests of a binary that fail when a pass does nothing; with no name, no pass is switched off.
fn failing(tree: &Path, binary: &Path, idle: &str) -> Result<Vec<String>, String> {
    let output = Command::new(binary)
        .env(SWITCH, idle)
        .env("CARGO_MANIFEST_DIR", tree.join("fusion"))
        .current_dir(tree.join("fusion"))
        .output()
        .map_err(|e| format!("{}: {e}", binary.display()))?;
    let failed = failed(&String::from_utf8_lossy(&output.stdout));
    if output.status.success() == failed.is_empty() {
        return Ok(failed);
    }
    Err(format!("{} ended with {} and names {} failed tests", binary.display(), output.status, failed.len()))
}

/// The tests that a report says have failed.
fn failed(printed: &str) -> Vec<String> {
    let failed = printed.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    failed.map(str::to_owned).collect()
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
    fn passes_get_a_switch_each() {
        assert_eq!(declared(TEXT), ["cse", "relax"]);
        let cse = switchable(TEXT, "cse").expect("it is declared");
        assert!(cse.contains("idle == \"cse\"") && cse.contains("PassResult = run; pass(graph, cx) } };"), "{cse}");
        assert!(cse.contains("run: |graph, cx| run(graph, cx) };\nfn run() {}"), "{cse}");
        let both = switchable(&cse, "relax").expect("it is declared");
        assert!(both.contains("idle == \"cse\"") && both.contains("idle == \"relax\""), "{both}");
        assert!(both.contains("PassResult = |graph, cx| run(graph, cx); pass(graph, cx) } };\nfn run() {}"), "{both}");
        assert_eq!(switchable(TEXT, "dce"), None);
    }

    #[test]
    fn every_pass_of_the_list_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let found = passes(&root).expect("the list and the folder agree");
        assert!(found.len() >= 7, "{found:?}");
        for (name, file) in found {
            let text = read(&file).expect("it is readable");
            assert!(switchable(&text, &name).is_some_and(|t| t.contains(&format!("idle == \"{name}\""))), "{name}");
        }
    }

    #[test]
    fn reports_are_read() {
        let line = "  Executable unittests src/lib.rs (target/debug/deps/fusion-0a1b)";
        assert_eq!(binary(line), Some("target/debug/deps/fusion-0a1b"));
        assert_eq!(binary("   Compiling fusewright-fusion v0.1.0 (/src)"), None);
        assert_eq!(failed("test a::b ... FAILED\ntest c ... ok\n\ntest result: FAILED. 1 passed"), ["a::b"]);
    }
}
