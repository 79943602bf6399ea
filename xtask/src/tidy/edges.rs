//! Which crate of the workspace may use which: data goes one way, and so do dependencies.
//!
//! The table holds the direct left neighbours; a crate may also use what is left of those. Test dependencies are free,
//! as is this crate, which nothing but tests may use.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Tree};

/// Crate folder (`.` is the facade at the root) and the folders it builds on.
const LEFT: [(&str, &[&str]); 19] = [
    ("ascend-model", &[]),
    ("abi", &[]),
    ("graph", &["abi"]),
    ("fusion", &["graph"]),
    ("templates", &[]),
    ("codegen", &["fusion", "templates"]),
    ("ffi/cublaslt-sys", &[]),
    ("ffi/cuda-sys", &[]),
    ("ffi/acl-sys", &[]),
    ("runtime", &["abi", "ffi/cublaslt-sys", "ffi/cuda-sys", "ffi/acl-sys"]),
    (".", &["codegen", "runtime", "ascend-model"]),
    ("cli", &["."]),
    ("ffi/c", &["abi", "runtime"]),
    ("ffi/python", &["."]),
    ("benches", &["."]),
    ("examples/build_rs", &["."]),
    ("examples/first_build_rs", &["."]),
    ("examples/candle", &["."]),
    ("examples/mistralrs", &["."]),
];
/// Folders whose dependencies are their own affair.
const FREE: [&str; 2] = ["xtask", "fuzz"];
/// Where a manifest names what the built crate uses.
const SECTIONS: [&str; 2] = ["dependencies", "build-dependencies"];

/// Finds dependency edges that [`LEFT`] does not allow, and crates that it does not know.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut manifests = BTreeMap::new();
    for (path, text) in tree.files().filter(|(path, _)| path.rsplit('/').next() == Some("Cargo.toml")) {
        match text.parse::<toml::Table>() {
            Ok(manifest) => drop(manifests.insert(path, manifest)),
            Err(error) => findings.push(finding(path, format!("not TOML: {}", error.message()))),
        }
    }
    let folders: BTreeMap<&str, &str> =
        manifests.iter().filter_map(|(path, manifest)| Some((package(manifest)?, folder_of(path)))).collect();
    for (path, manifest) in &manifests {
        let folder = folder_of(path);
        if FREE.contains(&folder) || package(manifest).is_none() {
            continue;
        }
        let Some(allowed) = left_of(folder) else {
            findings.push(finding(path, format!("crate `{folder}` has no place in the layering")));
            continue;
        };
        for name in dependencies(manifest) {
            if let Some(used) = folders.get(name)
                && !allowed.contains(used)
            {
                findings.push(finding(path, format!("`{folder}` may not use `{used}`")));
            }
        }
    }
    findings
}

fn finding(path: &str, message: String) -> Finding {
    Finding { path: path.to_string(), line: 0, message }
}

fn folder_of(manifest: &str) -> &str {
    manifest.strip_suffix("/Cargo.toml").unwrap_or(".")
}

fn package(manifest: &toml::Table) -> Option<&str> {
    manifest.get("package")?.get("name")?.as_str()
}

/// Everything left of `folder`; `None` if the table does not know it.
fn left_of(folder: &str) -> Option<BTreeSet<&'static str>> {
    let direct = |name: &str| LEFT.iter().find(|(crate_folder, _)| *crate_folder == name).map(|(_, left)| *left);
    let mut reached = BTreeSet::new();
    let mut open = direct(folder)?.to_vec();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(direct(next).unwrap_or_default());
        }
    }
    Some(reached)
}

/// Package names in the dependency sections of a manifest, target-specific ones included, renames resolved.
fn dependencies(manifest: &toml::Table) -> BTreeSet<&str> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables = targets.into_iter().flat_map(|targets| targets.values()).filter_map(toml::Value::as_table);
    std::iter::once(manifest)
        .chain(tables)
        .flat_map(|table| SECTIONS.iter().filter_map(|section| table.get(*section)?.as_table()))
        .flatten()
        .map(|(name, entry)| entry.get("package").and_then(toml::Value::as_str).unwrap_or(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::{LEFT, check, left_of};

    fn manifest(name: &str, body: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{body}\n")
    }

    #[track_caller]
    fn check_user(folder: &str, body: &str, expected: &[&str]) {
        let files = [
            ("Cargo.toml".to_string(), manifest("fw", "")),
            ("graph/Cargo.toml".to_string(), manifest("fw-graph", "")),
            ("codegen/Cargo.toml".to_string(), manifest("fw-codegen", "")),
            ("xtask/Cargo.toml".to_string(), manifest("xtask", "")),
            (format!("{folder}/Cargo.toml"), manifest("fw-user", body)),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        assert_eq!(found(check, &files), expected);
    }

    #[test]
    fn fires_on_an_edge_to_the_right() {
        let wrong = ["fusion/Cargo.toml: `fusion` may not use `codegen`"];
        check_user("fusion", "[dependencies]\nfw-codegen.workspace = true", &wrong);
        check_user("fusion", "[build-dependencies]\nfw-codegen = { path = \"../codegen\" }", &wrong);
        check_user("fusion", "[target.'cfg(unix)'.dependencies]\nfw-codegen = \"1\"", &wrong);
        check_user("fusion", "[dependencies]\nother = { package = \"fw-codegen\", path = \"../codegen\" }", &wrong);
        check_user(
            "runtime",
            "[dependencies]\nfw-codegen = \"1\"",
            &["runtime/Cargo.toml: `runtime` may not use `codegen`"],
        );
        check_user("fusion", "[dependencies]\nxtask = \"1\"", &["fusion/Cargo.toml: `fusion` may not use `xtask`"]);
    }

    #[test]
    fn allows_edges_to_the_left_and_test_dependencies() {
        check_user("fusion", "[dependencies]\nfw-graph = \"1\"\nserde = \"1\"", &[]);
        check_user("cli", "[dependencies]\nfw-graph = \"1\"", &[]);
        check_user("fusion", "[dev-dependencies]\nfw-codegen = \"1\"\nxtask = \"1\"", &[]);
        check_user("fuzz", "[dependencies]\nfw-codegen = \"1\"", &[]);
    }

    #[test]
    fn fires_on_an_unknown_crate_and_on_a_broken_manifest() {
        check_user("extra", "", &["extra/Cargo.toml: crate `extra` has no place in the layering"]);
        assert!(found(check, &[("abi/Cargo.toml", "[package")])[0].starts_with("abi/Cargo.toml: not TOML: "));
    }

    #[test]
    fn the_table_is_one_way() {
        for (folder, direct) in LEFT {
            let left = left_of(folder).expect("the folder is in the table");
            assert!(!left.contains(folder), "{folder} is left of itself");
            assert!(direct.iter().all(|name| left_of(name).is_some()), "{folder} builds on an unknown folder");
        }
    }
}
