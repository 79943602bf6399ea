//! A folder that measures kernels on a machine with a GPU and nothing else: the command with LLVM in it, figures to compare
//! with, and a script that goes on where it was stopped.
//!
//! Which kind of LLVM is linked is a feature of `llvm-sys`, of which there can be one in a build, so that it is no feature of
//! this workspace: the command is built from a copy of the tracked files in which that one word is exchanged.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The word of the manifest, and what it becomes.
const SHARED: &str = "llvm22-1-force-dynamic";
const STATIC: &str = "llvm22-1-force-static";
/// Most bytes of the archive.
const MOST: u64 = 50 << 20;
/// Libraries that the command may want of a machine: those of every Linux with the GNU C library.
const COMMON: [&str; 8] =
    ["linux-vdso", "ld-linux", "libc.so", "libm.so", "libgcc_s", "libstdc++", "libdl.so", "libpthread.so"];
/// Files that scripts use.
const FILES: [&str; 5] = [
    "benches/gpu/peers.json",
    "benches/gpu/layer.py",
    "benches/gpu/layer_torch.py",
    "benches/gpu/layer.sh",
    "benches/gpu/sanitize.sh",
];

/// The scripts of the pack: name, what it does, what it writes, and its arguments of `fusewright bench`.
const SCRIPTS: [(&str, &str, &str, &str); 2] = [
    ("run.sh", "Measures the kernel suite", "gpu.json", "--compare \"$here/peers.json\""),
    ("tune.sh", "Searches schedules", "gpu.schedules", "--tune"),
];

/// A script for the machine, which may be stopped at any time and started again.
fn script((name, what, out, arguments): (&str, &str, &str, &str)) -> String {
    format!(
        r#"#!/bin/sh
# {what} on the first NVIDIA GPU, as far as it gets within SECONDS; run it again to go on.
# usage: {name} [OUT [SECONDS [arguments of `fusewright bench`, such as --case D,K --rows 1,32]]]
here=$(cd "$(dirname "$0")" && pwd)
out=${{1:-{out}}}
seconds=${{2:-540}}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] && shift
LD_LIBRARY_PATH="$here/lib" FUSEWRIGHT_CACHE_DIR=off exec "$here/fusewright" bench --suite kernels --target cuda \
    --out "$out" --deadline "$seconds" {arguments} -v "$@"
"#
    )
}

/// Makes the folder anew, and an archive of it, whose path is the result.
///
/// # Errors
/// Files that cannot be copied; a build that fails; a command that needs a library that is to be part of it, or an archive
/// that is too large.
pub fn pack(root: &Path) -> Result<PathBuf, String> {
    let work = root.join("target/gpu-pack");
    let source = work.join("source");
    copy_tracked(root, &source)?;
    exchange(&source.join("codegen/Cargo.toml"))?;
    let build = work.join("build");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--release", "--locked", "-p", "fusewright-cli", "--features", "cuda,llvm"])
        .current_dir(&source)
        .env("CARGO_TARGET_DIR", &build)
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    succeed(&mut cargo, "building the command")?;
    let folder = work.join("pack");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let command = folder.join("fusewright");
    copy(&build.join("release/fusewright"), &command)?;
    for file in FILES.map(Path::new) {
        copy(&root.join(file), &folder.join(file.file_name().unwrap_or_default()))?;
    }
    for (name, text) in SCRIPTS.map(|entry| (entry.0, script(entry))) {
        let script = folder.join(name);
        std::fs::write(&script, text).map_err(|e| format!("{}: {e}", script.display()))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let all = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&script, all).map_err(|e| format!("{}: {e}", script.display()))?;
        }
    }
    let libraries = folder.join("lib");
    complete(&command, &libraries)?;
    let archive = work.join("gpu-pack.tar.gz");
    succeed(Command::new("tar").arg("-C").arg(&work).arg("-czf").arg(&archive).arg("pack"), "packing the folder")?;
    let bytes = std::fs::metadata(&archive).map_err(|e| format!("{}: {e}", archive.display()))?.len();
    if bytes > MOST {
        return Err(format!("{} has {bytes} bytes, more than {MOST}", archive.display()));
    }
    Ok(archive)
}

/// Takes along the libraries that a bare machine may lack, and starts the command without an environment.
fn complete(command: &Path, libraries: &Path) -> Result<(), String> {
    let said = Command::new("ldd").arg(command).output().map_err(|e| format!("ldd: {e}"))?;
    let list = String::from_utf8_lossy(&said.stdout);
    std::fs::create_dir_all(libraries).map_err(|e| format!("{}: {e}", libraries.display()))?;
    for (name, path) in foreign(&list) {
        if name.starts_with("libLLVM") {
            return Err(format!("the command needs {name}, which is to be linked into it"));
        }
        copy(Path::new(path), &libraries.join(name))?;
    }
    let mut start = Command::new(command);
    succeed(start.arg("--version").env_clear().env("LD_LIBRARY_PATH", libraries), "starting the command")
}

/// The libraries of a list by `ldd` that not every machine has, and where they are.
fn foreign(list: &str) -> Vec<(&str, &str)> {
    let entries = list.lines().map(str::trim).filter_map(|line| {
        let (arrow, end) = (line.find("=> ")?, line.find(" (")?);
        Some((line[..arrow].trim(), line.get(arrow + 3..end)?.trim()))
    });
    entries.filter(|(name, _)| !COMMON.iter().any(|common| name.contains(common))).collect()
}

/// Exchanges the kind of LLVM in a manifest.
fn exchange(manifest: &Path) -> Result<(), String> {
    let said = |e: std::io::Error| format!("{}: {e}", manifest.display());
    let text = std::fs::read_to_string(manifest).map_err(said)?;
    if !text.contains(SHARED) {
        return Err(format!("{} has no `{SHARED}`", manifest.display()));
    }
    std::fs::write(manifest, text.replace(SHARED, STATIC)).map_err(said)
}

/// Copies what git tracks. Files that are as they were keep their times, so that little is built again.
fn copy_tracked(root: &Path, to: &Path) -> Result<(), String> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let listed = listed.map_err(|e| format!("git: {e}"))?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), to.join(name));
        let same =
            |a: std::io::Result<Vec<u8>>, b: std::io::Result<Vec<u8>>| matches!((a, b), (Ok(a), Ok(b)) if a == b);
        if !from.is_file() || same(std::fs::read(&from), std::fs::read(&to)) {
            continue;
        }
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        copy(&from, &to)?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(|_| ()).map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))
}

fn succeed(command: &mut Command, what: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what}: {status}")),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    const SANITIZE: &str = include_str!("../../benches/gpu/sanitize.sh");

    #[test]
    fn libraries_of_every_machine_are_no_matter() {
        let list = "\tlinux-vdso.so.1 (0x1)\n\tlibz.so.1 => /lib/libz.so.1 (0x2)\n\tlibc.so.6 => /lib/libc.so.6 (0x4)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        assert_eq!(foreign(list), [("libz.so.1", "/lib/libz.so.1")]);
    }

    /// Runs the script beside a sanitizer that says so much and ends with the status that it finds in `status`.
    #[cfg(unix)]
    fn sanitized(folder: &Path, status: u8) -> (Option<i32>, String) {
        let stub = format!(
            "#!/bin/sh\necho \"$2 of $(basename \"$5\") $6 $8\"\necho ERROR SUMMARY: {status} errors\nexit {status}\n"
        );
        let (script, tool) = (folder.join("sanitize.sh"), folder.join("compute-sanitizer"));
        for (path, text) in [(&script, SANITIZE), (&tool, stub.as_str())] {
            std::fs::write(path, text).expect("the folder is ours");
        }
        succeed(Command::new("chmod").arg("+x").arg(&tool), "chmod").expect("the file is ours");
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let mut run = Command::new("sh");
        let said = run.arg(&script).args(["9", "memcheck", "racecheck"]).current_dir(folder).env("PATH", path).output();
        let said = said.expect("there is a shell");
        (said.status.code(), String::from_utf8_lossy(&said.stdout).into_owned())
    }

    #[test]
    #[cfg(unix)]
    fn sanitizers_that_find_something_are_said_and_fail_the_script() {
        let folder = std::env::temp_dir().join(format!("fusewright-sanitize-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is room for files");
        let (clean, said) = sanitized(&folder, 0);
        assert_eq!((clean, said.lines().count()), (Some(0), 2), "{said}");
        assert!(said.contains("memcheck: exit 0: ERROR SUMMARY: 0 errors"), "{said}");
        let log = std::fs::read_to_string(folder.join("sanitize-racecheck.txt")).expect("each tool has a log");
        assert!(log.contains("racecheck of fusewright bench kinds"), "{log}");
        let (found, said) = sanitized(&folder, 9);
        assert!(found == Some(1) && said.contains("racecheck: exit 9: ERROR SUMMARY: 9 errors"), "{said}");
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
    }
}
