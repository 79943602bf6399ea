//! Kernels for Ascend NPUs from Ascend C to objects, by scripts in the place of the vendor's compiler: what is called, what
//! is kept, and what an error says.
#![cfg(all(feature = "ascend", unix))]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use fusewright::ascend::{Toolkit, ToolkitChoice};
use fusewright::diff::options;
use fusewright::graph::Graph;
use fusewright::{CacheChoice, Compiler, Options, Target, fuse_graph};
use fusewright_abi::PayloadKind;
use fusewright_ascend_model::{Chip, Device, Model, Version};
use fusewright_codegen::backend::ascend::CHIPS;

fn target() -> Target {
    "ascend:910b1".parse().expect("a target")
}

fn body() -> Graph {
    let text = "graph @g(s: 1..; %x: bf16[s, 64]) {\n  %a = cast %x {to = f32}\n  %b = exp %a\n  %y = cast %b {to = bf16}\n  return %y\n}\n";
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let fused = fuse_graph(&graph, &options()).unwrap_or_else(|e| panic!("{e}"));
    fused.partition.regions[0].expand_body().expect("a region's body is typed")
}

/// Copies a file to where it can be started. Another process writes it: what this one has open for writing, a process
/// that another test starts right now has open too, and then the system starts it for nobody.
fn program(folder: &Path, name: &str, script: &str) {
    std::fs::create_dir_all(folder).expect("a temporary folder can be written");
    let text = folder.join(format!("{name}.text"));
    std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).expect("a temporary folder can be written");
    let status = Command::new("install").args(["-m", "755"]).arg(&text).arg(folder.join(name)).status();
    assert!(status.expect("install can be started").success(), "{name}");
}

/// The word behind `-o`, in a script.
const OUTPUT: &str = "while [ \"$1\" != -o ]; do shift; done; out=$2";

/// A folder like a toolkit of that version. Its compiler notes how it was called and copies the source, after `first`; its
/// linker puts the mark of such files before that.
fn toolkit(folder: &Path, version: &str, first: &str) -> PathBuf {
    let home = folder.join(format!("cann-{version}"));
    let bin = home.join("compiler/ccec_compiler/bin");
    let calls = home.join("calls");
    let ccec = format!(
        "echo \"$*\" >> {}\n{first}\nfor word; do case $word in *.cpp) source=$word;; esac; done\n{OUTPUT}; cat $source > $out",
        calls.display()
    );
    program(&bin, "ccec", &ccec);
    program(
        &bin,
        "ld.lld",
        &format!(
            "for word; do case $word in *.part) part=$word;; esac; done\n{OUTPUT}; (printf '\\177ELF'; cat $part) > $out"
        ),
    );
    std::fs::create_dir_all(home.join("x86_64-linux")).expect("a folder");
    let info = format!("package_name=Ascend-cann-toolkit\nversion={version}\n");
    std::fs::write(home.join("x86_64-linux/ascend_toolkit_install.info"), info).expect("a file");
    home
}

fn calls(home: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(home.join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn choice(home: &Path, cache: &Path) -> Options {
    let toolkit = ToolkitChoice::At(home.to_owned());
    Options { toolkit, cache: CacheChoice::Folder(cache.to_owned()), ..options() }
}

fn compiler(options: &Options) -> Compiler {
    Compiler::of(&target(), options).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn what_the_toolkit_makes_is_kept_under_its_version() {
    let (folder, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let [old, new] = ["8.1.RC1", "9.0.0"].map(|version| toolkit(folder.path(), version, ""));
    let body = body();
    let made = compiler(&choice(&old, cache.path())).artifact("g", &body).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(made.payload.kind, PayloadKind::AscendObject);
    assert!(made.payload.bytes.starts_with(b"\x7fELF"));
    assert!(String::from_utf8_lossy(&made.payload.bytes).contains("#include \"kernel_operator.h\""));
    let [call] = calls(&old).try_into().unwrap_or_else(|calls| panic!("{calls:?}"));
    for word in [
        "-xcce",
        "--cce-aicore-arch=dav-c220-vec",
        "--cce-aicore-only",
        &format!("-I{}", old.join("include").display()),
    ] {
        assert!(call.split(' ').any(|given| given == word), "{word}: {call}");
    }
    let again = compiler(&choice(&old, cache.path()));
    assert_eq!(again.artifact("g", &body).unwrap_or_else(|e| panic!("{e}")), made);
    assert!(again.log()[0].from_disk && calls(&old).len() == 1, "it is not called again");
    // Another version makes other code, and without a toolkit the source is the payload.
    let other = compiler(&choice(&new, cache.path()));
    let key = other.artifact("g", &body).unwrap_or_else(|e| panic!("{e}")).key;
    assert!(!other.log()[0].from_disk && key != made.key && calls(&new).len() == 1);
    let plain = Options { toolkit: ToolkitChoice::Off, ..choice(&old, cache.path()) };
    let plain = compiler(&plain).artifact("g", &body).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((plain.payload.kind, plain.key == made.key), (PayloadKind::AscendC, false));
}

#[test]
fn headers_lie_where_the_compiler_finds_them() {
    let (folder, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    // It fails unless all that the source includes beside the vendor's header lies beside the source.
    let look = "for word; do case $word in *.cpp) source=$word;; esac; done\n\
                for header in $(sed -n 's/^#include \"\\(.*\\)\"$/\\1/p' $source | grep -v kernel_operator.h); do\n\
                test -s $(dirname $source)/$header || { echo \"no $header\" >&2; exit 1; }; echo $header >> $(dirname $0)/found; done";
    let home = toolkit(folder.path(), "9.0.0", look);
    compiler(&choice(&home, cache.path())).artifact("g", &body()).unwrap_or_else(|e| panic!("{e}"));
    let found = std::fs::read_to_string(home.join("compiler/ccec_compiler/bin/found")).expect("it looked");
    assert!(found.lines().any(|header| header == "row_program.h"), "{found}");
}

#[test]
fn a_compiler_that_fails_says_why_and_how_to_repeat_it() {
    let (folder, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let home = toolkit(folder.path(), "9.0.0", "echo 'k.cpp:7:3: error: no such intrinsic' >&2; exit 3");
    let failed = compiler(&choice(&home, cache.path())).artifact("g", &body()).expect_err("it fails");
    let failed = failed.into_error();
    assert_eq!(failed.exit_code(), 3, "{failed}");
    let error = failed.to_string();
    assert!(error.contains("`g`") && error.contains("error: no such intrinsic"), "{error}");
    assert!(!error.contains("internal") && error.contains("ccec failed"), "{error}");
    let command = error.rsplit("to repeat it: ").next().expect("a command").trim();
    let again = Command::new("sh").args(["-c", command]).output().expect("there is a shell");
    assert_eq!(again.status.code(), Some(3), "the very command fails alike: {command}");
    assert_eq!(calls(&home).len(), 2);
    let source = command.split(' ').find(|word| word.ends_with(".cpp")).expect("it names a source");
    assert!(std::fs::read_to_string(source).expect("the source is still there").contains("GM_ADDR"));
    std::fs::remove_dir_all(Path::new(source).parent().expect("a folder")).expect("it is ours");
}

#[test]
fn a_compiler_that_ends_well_without_its_file_is_named() {
    let (folder, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let home = toolkit(folder.path(), "9.0.0", "exit 0");
    let error = compiler(&choice(&home, cache.path())).artifact("g", &body()).expect_err("no file").to_string();
    let command = error.rsplit("to repeat it: ").next().expect("a command").trim();
    assert!(error.contains("ccec failed") && error.contains(".part is not there"), "{error}");
    let part = command.split(' ').find(|word| word.ends_with(".part")).expect("it names what it makes");
    std::fs::remove_dir_all(Path::new(part).parent().expect("a folder")).expect("it is ours");
}

#[test]
fn a_toolkit_that_was_asked_for_and_is_not_there_is_an_error_value() {
    let (folder, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let nowhere = folder.path().join("nowhere");
    let error = Compiler::of(&target(), &choice(&nowhere, cache.path())).expect_err("there is none");
    assert!(error.exit_code() == 3 && error.to_string().contains("nowhere"), "{error}");
    // What needs no toolkit looks for none.
    Compiler::of(&Target::Cpu, &choice(&nowhere, cache.path())).expect("the CPU is always there");
    // A linker that is not there is said by name.
    let home = toolkit(folder.path(), "9.0.0", "");
    std::fs::remove_file(home.join("compiler/ccec_compiler/bin/ld.lld")).expect("it is there");
    Toolkit::at(&home).unwrap_or_else(|e| panic!("{e}"));
    let error = compiler(&choice(&home, cache.path())).artifact("g", &body()).expect_err("no linker").to_string();
    assert!(error.contains("ld.lld") && error.contains("9.0.0"), "{error}");
}

/// By the stand-in of CANN's compiler within the process, which makes code for the host model of an NPU. SIMULATED.
#[test]
fn the_compiler_within_the_process_is_asked_where_there_is_no_toolkit() {
    if Command::new("c++").arg("--version").output().is_err() {
        let test = "the_compiler_within_the_process_is_asked_where_there_is_no_toolkit";
        return xtask::skipped::skipped(test, "no compiler of C++ is called c++");
    }
    let cache = tempfile::tempdir().expect("a folder");
    let chip = CHIPS.iter().find(|chip| chip.name == "910b1").expect("it is in the table");
    let numbers = Chip::of(chip.arch, chip.buffer_bytes).expect("it is modelled");
    let model = Model::build(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap_or_else(|e| panic!("{e}"));
    let device = Device { soc: chip.vendor.replace(' ', ""), chip: numbers, vector_cores: chip.vector_cores };
    let stand_in = model.stand_in(&device, Version::V9_1).unwrap_or_else(|e| panic!("{e}"));
    let with = |file: PathBuf| Options {
        toolkit: ToolkitChoice::RunTime(file),
        cache: CacheChoice::Folder(cache.path().to_owned()),
        ..options()
    };
    let made = compiler(&with(stand_in.rtc())).artifact("g", &body()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(made.payload.kind, PayloadKind::AscendObject);
    assert!(made.payload.bytes.starts_with(b"\x7fELF"));
    let again = compiler(&with(stand_in.rtc()));
    assert_eq!(again.artifact("g", &body()).unwrap_or_else(|e| panic!("{e}")), made);
    assert!(again.log()[0].from_disk, "it is kept");
    // A chip that it does not compile for is refused by name, and so is a file that is none.
    let other: Target = "ascend:310p3".parse().expect("a target");
    let plain = "graph @g(s: 1..; %x: f32[s, 64]) {\n  %y = exp %x\n  return %y\n}\n";
    let graph: Graph = plain.parse().unwrap_or_else(|e| panic!("{e}"));
    let fused = fuse_graph(&graph, &options()).unwrap_or_else(|e| panic!("{e}"));
    let body = fused.partition.regions[0].expand_body().expect("a region's body is typed");
    let old = Compiler::of(&other, &with(stand_in.rtc())).unwrap_or_else(|e| panic!("{e}"));
    let error = old.artifact("g", &body).expect_err("not on this chip").to_string();
    assert!(error.contains("dav-2002") && error.contains("ahead of time"), "{error}");
    let error = Compiler::of(&target(), &with(cache.path().join("nowhere.so"))).expect_err("there is none");
    assert!(error.exit_code() == 3 && error.to_string().contains("nowhere.so"), "{error}");
}

/// The libraries name their folder, which is not there any more.
#[test]
fn a_model_that_was_moved_is_made_again() {
    if Command::new("c++").arg("--version").output().is_err() {
        let test = "a_model_that_was_moved_is_made_again";
        return xtask::skipped::skipped(test, "no compiler of C++ is called c++");
    }
    let cache = tempfile::tempdir().expect("a folder");
    let chip = CHIPS.iter().find(|chip| chip.name == "910b1").expect("it is in the table");
    let numbers = Chip::of(chip.arch, chip.buffer_bytes).expect("it is modelled");
    let device = Device { soc: chip.vendor.replace(' ', ""), chip: numbers, vector_cores: chip.vector_cores };
    // The model that tests share, with this stand-in and without the kernels that they compiled.
    let shared = Model::build(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap_or_else(|e| panic!("{e}"));
    let made = shared.stand_in(&device, Version::V9_1).unwrap_or_else(|e| panic!("{e}")).runtime();
    let below = made.strip_prefix(shared.folder()).expect("it lies in the model's folder");
    let copy = cache.path().join(shared.folder().file_name().expect("it lies in a cache"));
    std::fs::create_dir_all(&copy).expect("a temporary folder can be written");
    let stand_in = below.components().next().expect("it has a folder").as_os_str();
    let parts = ["files", "include", "libascend_model.so", "runtime"].map(OsStr::new).into_iter().chain([stand_in]);
    let copied = Command::new("cp").arg("-r").args(parts.map(|part| shared.folder().join(part))).arg(&copy).status();
    assert!(copied.expect("cp can be started").success(), "{}", shared.folder().display());
    let moved = Model::build(cache.path()).unwrap_or_else(|e| panic!("{e}"));
    let again = moved.stand_in(&device, Version::V9_1).unwrap_or_else(|e| panic!("{e}")).runtime();
    assert_ne!(again.strip_prefix(moved.folder()), Ok(below));
    let bytes = std::fs::read(&again).expect("it was made");
    let names = |folder: &Path| has_within(&bytes, folder.as_os_str().as_encoded_bytes());
    assert!(names(moved.folder()) && !names(shared.folder()), "{}", again.display());
}

/// Says if bytes have others within.
fn has_within(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_compiler_that_hangs_is_ended_at_the_limit() {
    const INSIDE: &str = "FUSEWRIGHT_TEST_OF_THE_LIMIT";
    let name = "toolkit::a_compiler_that_hangs_is_ended_at_the_limit";
    if std::env::var_os(INSIDE).is_none() {
        // The limit is of the whole process, so it is that of another one.
        let this = std::env::current_exe().expect("this process has a file");
        let limited = Command::new(this)
            .args(["--exact", name])
            .env(INSIDE, "1")
            .env("FUSEWRIGHT_TOOL_SECONDS", "1")
            .output()
            .expect("this file can be started");
        assert!(limited.status.success(), "{}", String::from_utf8_lossy(&limited.stdout));
        return;
    }
    let [folder, cache] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let home = toolkit(folder.path(), "8.5.0", "sleep 100 & sleep 100");
    let error = compiler(&choice(&home, cache.path())).artifact("g", &body()).expect_err("it hangs").to_string();
    assert!(error.contains("ccec was ended after 1 s") && error.contains("FUSEWRIGHT_TOOL_SECONDS"), "{error}");
    assert!(error.contains("-o "), "the command is named: {error}");
    let source =
        error.split_whitespace().map(std::path::Path::new).find(|word| word.extension() == Some("cpp".as_ref()));
    let source = source.unwrap_or_else(|| panic!("the source is named: {error}"));
    assert!(source.is_file(), "the source is left to repeat the command: {error}");
    std::fs::remove_dir_all(source.parent().expect("a folder")).expect("it is this process's");
}
