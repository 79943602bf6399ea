//! `FUSEWRIGHT_DUMP_DIR`: every stage as a file.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Outcome, command, files, fixture, folder, write};

const MODEL: &str = "aten_addrms_fp8tok_h4096_bfloat16.core.pt2";

fn explain(dump: &Path) -> Outcome {
    let output = command(&["explain", &fixture(MODEL)]).env("FUSEWRIGHT_DUMP_DIR", dump).output();
    output.expect("the command starts").into()
}

fn dumped(dump: &Path) -> BTreeMap<String, Vec<u8>> {
    let outcome = explain(dump);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    files(dump)
}

#[test]
fn every_stage_is_a_file_and_names_sort_in_their_order() {
    let folder = folder();
    let [first, second] = ["a", "b"].map(|name| dumped(&folder.path().join(name)));
    assert!(first == second, "{:?} {:?}", first.keys(), second.keys());
    let below =
        |part: &str| -> Vec<(&String, &Vec<u8>)> { first.iter().filter(|(name, _)| name.contains(part)).collect() };
    let kernel: Vec<&str> =
        below("kernels/cpu/").iter().map(|(name, _)| name.rsplit('/').next().expect("a file name")).collect();
    let name = "add_rms_norm_fp8_token";
    let stages = ["0-body.fw", "1-lowered.fw", "2-expanded.fw"].map(str::to_owned);
    let code = ["3", "4", "5"].iter().zip(["clif", "bin", "o"]).map(|(n, ext)| format!("{n}-{name}.{ext}"));
    assert_eq!(kernel, stages.into_iter().chain(code).collect::<Vec<_>>());
    let passes: Vec<&String> =
        first.keys().filter(|name| !name.contains("kernels/") && !name.contains("/fused/")).collect();
    assert!(passes[0].ends_with("/00-input.fw") && passes[1].ends_with("/01-matmul.fw"), "{passes:?}");
    assert!(passes.last().is_some_and(|name| name.ends_with("-dce.fw")) && passes.len() >= 6, "{passes:?}");
    assert_eq!(below("/fused/000-add_rms_norm.fp8_token.fw").len(), 1, "{:?}", first.keys());
    assert!(first.keys().all(|name| !name.contains("partial")));
}

#[test]
fn graphs_and_kernels_that_are_dumped_are_read_back() {
    let folder = folder();
    let mut read = 0;
    for (name, text) in dumped(folder.path()).iter().filter(|(name, _)| name.ends_with(".fw")) {
        let file = write(&folder, "stage.fw", text);
        let outcome: Outcome = command(&["opt", &file, "verify"]).output().expect("the command starts").into();
        assert_eq!(outcome.code, Some(0), "{name}: {}", outcome.stderr);
        assert!(outcome.stdout.trim_end() == String::from_utf8_lossy(text).trim_end(), "{name}");
        read += 1;
    }
    assert!(read >= 10, "{read} texts");
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_and_leaves_no_partial_file() {
    let folder = folder();
    // A file where the folder must be, and a folder where a file must be.
    let taken = write(&folder, "taken", "");
    let outcome = explain(Path::new(&taken));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("taken"), "{}", outcome.stderr);
    let whole = dumped(&folder.path().join("whole"));
    let code = whole.keys().find(|name| name.ends_with(".o")).expect("there is code");
    let blocked = folder.path().join("blocked");
    std::fs::create_dir_all(blocked.join(code).join("inside")).expect("the folder takes folders");
    let outcome = explain(&blocked);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
    assert!(outcome.stderr.contains(".o"), "{}", outcome.stderr);
    assert!(files(&blocked).iter().all(|(name, bytes)| whole.get(name) == Some(bytes)), "{:?}", files(&blocked).keys());
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_and_leaves_no_partial_file() {
    let folder = folder();
    let whole = dumped(&folder.path().join("whole"));
    let full = folder.path().join("full");
    // A limit on the size of files stands for a disk without room. Shells count it in blocks of 512 or 1024 bytes.
    let largest = whole.values().map(Vec::len).max().expect("there are files");
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" explain \"$1\"", largest / 1024 - 1);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", &script, env!("CARGO_BIN_EXE_fusewright"), &fixture(MODEL)]).env("FUSEWRIGHT_DUMP_DIR", &full);
    let outcome: Outcome = limited.output().expect("there is a shell").into();
    assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("full"), "{}", outcome.stderr);
    let left = files(&full);
    assert!(!left.is_empty() && left.len() < whole.len(), "{:?}", left.keys());
    assert!(left.iter().all(|(name, bytes)| whole.get(name) == Some(bytes)), "{:?}", left.keys());
}
