//! `doctor`: what is found is said as text and as JSON, and what a variable asks for and is missing fails.

use std::path::Path;

use serde_json::Value;

use super::support::{Outcome, check_keys, command, folder};

/// The command with these variables and without any other of ours, so that the machine of the test has no say.
fn doctor(arguments: &[&str], variables: &[(&str, &Path)]) -> Outcome {
    let mut command = command(&[&["doctor"], arguments].concat());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FUSEWRIGHT_")) {
        command.env_remove(name);
    }
    command.env("FUSEWRIGHT_CACHE_DIR", "off").envs(variables.iter().copied());
    command.output().expect("the command starts").into()
}

fn report(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).expect("the command prints JSON")
}

/// The finding of a subject.
#[track_caller]
fn finding(report: &Value, subject: &str) -> Value {
    let findings = report["findings"].as_array().expect("a list");
    let found = findings.iter().find(|finding| finding["subject"] == subject);
    found.unwrap_or_else(|| panic!("no `{subject}` in {report}")).clone()
}

#[test]
fn a_machine_that_compiles_and_runs_kernels_is_well() {
    let outcome = doctor(&["--json"], &[]);
    let said = report(&outcome);
    assert_eq!((outcome.code, said["well"].as_bool()), (Some(0), Some(true)), "{said}");
    check_keys(&said, &["version", "well", "findings"]);
    for finding in said["findings"].as_array().expect("a list") {
        check_keys(finding, &["section", "subject", "found", "used", "problem"]);
    }
    for subject in
        ["fusewright", "system", "processor", "level", "threads", "Cranelift", "LLVM", "driver", "ptxas", "folder"]
    {
        finding(&said, subject);
    }
    assert!(finding(&said, "Cranelift")["used"].as_str().is_some_and(|used| used.contains("is right")), "{said}");
    let setting = finding(&said, "FUSEWRIGHT_CACHE_DIR");
    assert_eq!((setting["section"].as_str(), setting["found"].as_str()), (Some("settings"), Some("`off`")));
}

#[test]
fn people_see_a_line_for_each_subject() {
    let outcome = doctor(&[], &[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stdout);
    for line in ["machine\n", "\n  processor  ", "\n  ptxas  ", "\ncache\n", "settings\n  FUSEWRIGHT_CACHE_DIR  "] {
        let unpadded = line.trim_end();
        assert!(outcome.stdout.contains(unpadded), "no `{unpadded}` in:\n{}", outcome.stdout);
    }
}

#[test]
fn a_cache_folder_that_cannot_be_used_fails() {
    let root = folder();
    let file = root.path().join("file");
    std::fs::write(&file, "").expect("there is room");
    let outcome = doctor(&["--json"], &[("FUSEWRIGHT_CACHE_DIR", &file)]);
    let found = finding(&report(&outcome), "folder");
    assert_eq!((outcome.code, found["problem"]["fails"].as_bool()), (Some(1), Some(true)), "{found}");
    assert!(found["found"].as_str().is_some_and(|found| found.contains("by FUSEWRIGHT_CACHE_DIR")), "{found}");
    assert!(
        found["problem"]["remedy"].as_str().is_some_and(|remedy| remedy.contains("FUSEWRIGHT_CACHE_DIR")),
        "{found}"
    );
    let text = doctor(&[], &[("FUSEWRIGHT_CACHE_DIR", &file)]).stdout;
    assert!(text.contains("\n! folder ") && text.contains("remedy: "), "{text}");
    let fine = doctor(&["--json"], &[("FUSEWRIGHT_CACHE_DIR", &root.path().join("new"))]);
    assert_eq!(fine.code, Some(0), "{}", fine.stdout);
    assert!(!root.path().join("new").exists(), "looking makes no folder");
}

#[test]
fn values_that_are_none_fail_with_a_remedy_each() {
    let nowhere = Path::new("/nowhere/at/all");
    for (name, value, subject) in [
        ("FUSEWRIGHT_TIERS", Path::new("fast"), "FUSEWRIGHT_TIERS"),
        ("FUSEWRIGHT_CACHE_MB", Path::new("much"), "FUSEWRIGHT_CACHE_MB"),
        ("FUSEWRIGHT_TOOL_SECONDS", Path::new("0"), "FUSEWRIGHT_TOOL_SECONDS"),
        ("FUSEWRIGHT_SCHEDULES", nowhere, "FUSEWRIGHT_SCHEDULES"),
        ("FUSEWRIGHT_OVERRIDE_DIR", nowhere, "FUSEWRIGHT_OVERRIDE_DIR"),
        ("FUSEWRIGHT_PTXAS", nowhere, "ptxas"),
        ("FUSEWRIGHT_CUBLASLT_DIR", nowhere, "cuBLASLt"),
        ("FUSEWRIGHT_ACL", nowhere, "NPU"),
        ("FUSEWRIGHT_ASCEND_TOOLKIT", nowhere, "compiler"),
    ] {
        let outcome = doctor(&["--json"], &[(name, value)]);
        let said = report(&outcome);
        let found = finding(&said, subject);
        // The system may have cuBLASLt, which a folder without it does not hide.
        if subject == "cuBLASLt" && found["problem"].is_null() {
            continue;
        }
        assert_eq!((outcome.code, found["problem"]["fails"].as_bool()), (Some(1), Some(true)), "{name}: {said}");
        let remedy = found["problem"]["remedy"].as_str().expect("a text");
        assert!(remedy.contains(name), "{name}: {remedy}");
        assert_eq!(finding(&said, name)["section"], "settings");
        let findings = said["findings"].as_array().expect("a list");
        let of_another = findings.iter().filter_map(|finding| finding["problem"]["remedy"].as_str());
        let of_another: Vec<&str> = of_another.filter(|remedy| !remedy.contains("FUSEWRIGHT_CACHE")).collect();
        assert!(of_another.iter().all(|remedy| remedy.contains(name)), "one fault, one remedy: {of_another:?}");
    }
}

#[test]
fn a_name_that_is_no_knob_is_said_and_fails_nothing() {
    let outcome = doctor(&["--json"], &[("FUSEWRIGHT_CACHEDIR", Path::new("off"))]);
    let found = finding(&report(&outcome), "FUSEWRIGHT_CACHEDIR");
    assert_eq!((outcome.code, found["problem"]["fails"].as_bool()), (Some(0), Some(false)), "{found}");
}
