//! The kernel cache as users meet it: the command `cache`, and what `run` says and does not suffer from.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Outcome, check_keys, command, fixture, folder};

/// Calls the command with its kernels in a folder.
fn with_cache(cache: &Path, arguments: &[&str]) -> Outcome {
    let mut command = command(arguments);
    command.env("FUSEWRIGHT_CACHE_DIR", cache).output().expect("the command starts").into()
}

#[track_caller]
fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", outcome.stdout, outcome.stderr))
}

fn model() -> String {
    fixture("aten_addrms_fp8tok_h4096_bfloat16.train.pt2")
}

/// Runs the model, which must give the right results, and returns how many kernels were compiled, how many were read, and
/// what was said on standard error.
#[track_caller]
fn run(cache: &Path) -> (u64, u64, String) {
    let ran = with_cache(cache, &["run", &model(), "--rows", "3", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let counters = &json(&ran)["counters"];
    let count = |key: &str| counters[key].as_u64().unwrap_or_else(|| panic!("no `{key}` in {counters}"));
    (count("compiled"), count("from_disk"), ran.stderr)
}

fn entries(cache: &Path) -> Vec<PathBuf> {
    let listed = json(&with_cache(cache, &["cache", "list", "--json"]));
    let files = listed["entries"].as_array().expect("a list").iter();
    files.map(|entry| entry["file"].as_str().expect("a path").into()).collect()
}

#[test]
fn a_second_process_compiles_nothing() {
    let root = folder();
    let cache = root.path().join("kernels");
    let path = with_cache(&cache, &["cache", "path"]);
    assert_eq!((path.code, path.stdout.trim()), (Some(0), cache.display().to_string().as_str()));
    assert!(!cache.exists(), "to ask for the folder does not make it");
    let (compiled, read, said) = run(&cache);
    assert!(compiled > 0 && read == 0 && said.is_empty(), "{compiled} {read} {said}");
    assert_eq!(run(&cache), (0, compiled, String::new()));
    let verbose = with_cache(&cache, &["run", &model(), "--rows", "3", "-v"]);
    let counted = format!("kernels: 0 compiled, {compiled} read from the cache; second tier: 0 asked for");
    assert!(verbose.stderr.contains(&counted), "no `{counted}` in: {}", verbose.stderr);
    assert!(verbose.stderr.contains("µs, read from the cache "), "{}", verbose.stderr);

    let listed = json(&with_cache(&cache, &["cache", "list", "--json"]));
    check_keys(&listed, &["folder", "limit", "bytes", "entries"]);
    let first = &listed["entries"][0];
    check_keys(first, &["key", "file", "bytes", "used", "kernel", "target", "wrong"]);
    assert_eq!((first["target"].as_str(), first["wrong"].is_null()), (Some("cpu"), true));
    let said = with_cache(&cache, &["cache"]).stdout;
    assert!(said.contains(&first["key"].as_str().expect("text")[..12]), "{said}");
    let verified = json(&with_cache(&cache, &["cache", "verify", "--json"]));
    assert_eq!(verified["entries"].as_u64(), Some(entries(&cache).len() as u64));
    let cleared = json(&with_cache(&cache, &["cache", "clear", "--json"]));
    assert_eq!((cleared["removed"].as_u64(), entries(&cache)), (verified["entries"].as_u64(), Vec::new()));
    assert_eq!(run(&cache), (compiled, 0, String::new()));
}

#[test]
fn bad_entries_are_compiled_anew_with_one_warning() {
    let root = folder();
    let (compiled, _, _) = run(root.path());
    let files = entries(root.path());
    for file in &files {
        let mut bytes = std::fs::read(file).expect("it is there");
        let at = bytes.len() - 40;
        bytes[at] ^= 1;
        std::fs::write(file, bytes).expect("it is ours");
    }
    let verified = with_cache(root.path(), &["cache", "verify"]);
    assert_eq!(verified.code, Some(1));
    assert!(verified.stdout.contains("its checksum does not fit"), "{}", verified.stdout);
    let (again, read, said) = run(root.path());
    assert_eq!((again, read, said.matches("warning:").count()), (compiled, 0, 1), "{said}");
    assert!(said.contains("kernel cache") && said.contains("is damaged") && said.contains("compiled anew"), "{said}");
    assert_eq!(run(root.path()), (0, compiled, String::new()), "the entries were written again");
}

#[test]
fn what_only_single_ops_meet_is_said_and_clearing_goes_on_behind_it() {
    let root = folder();
    run(root.path());
    let name = |file: &Path| file.file_name().expect("a name").to_string_lossy().into_owned();
    // Explaining compiles the fused kernels alone.
    let explained = folder();
    assert_eq!(with_cache(explained.path(), &["explain", &model()]).code, Some(0));
    let fused: Vec<String> = entries(explained.path()).iter().map(|file| name(file)).collect();
    let files = entries(root.path());
    let other = files.iter().find(|file| !fused.contains(&name(file))).expect("an op alone has a kernel");
    std::fs::remove_file(other).expect("it is ours");
    std::fs::create_dir_all(other.join("full")).expect("it is ours");
    let (_, _, said) = run(root.path());
    assert_eq!(said.matches("warning:").count(), 1, "{said}");
    let cleared = with_cache(root.path(), &["cache", "clear"]);
    assert_eq!(cleared.code, Some(3));
    assert!(cleared.stderr.contains(&name(other)), "{}", cleared.stderr);
    assert_eq!(entries(root.path()), std::slice::from_ref(other), "all others are gone");
}

#[test]
fn a_folder_that_cannot_be_used_is_said_and_the_run_is_right() {
    let root = folder();
    let file = root.path().join("file");
    std::fs::write(&file, "").expect("there is room");
    let (compiled, read, said) = run(&file);
    assert!(compiled > 0 && read == 0, "{compiled} {read}");
    assert_eq!(said.matches("warning:").count(), 1, "{said}");
    assert!(said.contains("file") && said.contains("kernels are not kept"), "{said}");
    let measured = with_cache(&file, &["bench", "--suite", "compile", &model()]);
    assert_eq!((measured.code, measured.stderr), (Some(0), said), "{}", measured.stdout);
    let listed = with_cache(&file, &["cache"]);
    assert_eq!(listed.code, Some(3), "{}", listed.stderr);
}

#[test]
fn off_is_off() {
    let ran = run(Path::new("off"));
    assert!(ran.0 > 0 && ran.1 == 0 && ran.2.is_empty() && !Path::new("off").exists(), "{ran:?}");
    for verb in ["path", "list", "verify", "clear"] {
        let said = with_cache(Path::new("off"), &["cache", verb]);
        assert_eq!((said.code, said.stdout.starts_with("off ")), (Some(0), true), "{verb}: {}", said.stdout);
    }
    let mut sized = command(&["cache", "list"]);
    sized.env("FUSEWRIGHT_CACHE_DIR", folder().path()).env("FUSEWRIGHT_CACHE_MB", "much");
    let sized: Outcome = sized.output().expect("the command starts").into();
    assert_eq!(sized.code, Some(3));
    assert!(sized.stderr.contains("`much` is no number"), "{}", sized.stderr);
}
