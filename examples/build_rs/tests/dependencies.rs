//! The program depends on no compiler.

use std::collections::BTreeSet;
use std::process::Command;

/// Names of the packages that `package` links on this machine, itself included.
fn normal_dependencies(package: &str) -> BTreeSet<String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--offline", "--locked"])
        .args(["--manifest-path", manifest, "--package", package])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo prints UTF-8");
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn no_compiler_is_among_the_normal_dependencies() {
    let own = env!("CARGO_PKG_NAME");
    let compiler = |name: &&String| {
        ["cranelift", "inkwell", "llvm", "fusewright"].iter().any(|part| name.starts_with(part)) && *name != own
    };
    let found = normal_dependencies(own);
    assert!(found.contains(own) && found.contains("half"), "{found:?}");
    assert_eq!(found.iter().filter(compiler).collect::<Vec<_>>(), Vec::<&String>::new());
    // The same question about the library that the build script uses does find a compiler.
    assert!(normal_dependencies("fusewright").iter().any(|name| name.starts_with("cranelift")));
}
