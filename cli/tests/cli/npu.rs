//! Targets `ascend` and `ascend-sim`: what is SIMULATED says so, and what is missing is named.

use std::path::Path;

use serde_json::Value;

use super::support::{Outcome, command, fixture, refused};

/// The command with what it builds kept for the next test run.
fn call(arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("npu");
    let mut command = command(arguments);
    command.env("FUSEWRIGHT_CACHE_DIR", cache).envs(environment.iter().copied());
    command.output().expect("the command starts").into()
}

#[test]
fn results_of_the_host_model_are_simulated() {
    let (model, stored) = (fixture("decode_state.train.pt2"), fixture("decode_state.safetensors"));
    let arguments = ["run", &model, "--target", "ascend-sim:910b1", "--check", &stored];
    let said = call(&arguments, &[]);
    if said.stderr.contains("compiler of C++") {
        return println!("skipped: results_of_the_host_model_are_simulated ({})", said.stderr.trim());
    }
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stdout.starts_with("SIMULATED") && said.stderr.starts_with("SIMULATED"), "{}", said.stdout);
    assert!(!said.stdout.contains("µs"), "no time is that of a device: {}", said.stdout);
    let said = call(&[&arguments[..], &["--json"]].concat(), &[]);
    let report: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert!(report["simulated"].as_str().is_some_and(|word| word.contains("SIMULATED")), "{report}");
    assert_eq!(report["fused_us"], Value::Null);
    refused(2, &["bench", "--suite", "kernels", "--target", "ascend-sim"], &["says nothing of a device"]);
}

#[test]
fn a_missing_compiler_of_the_host_is_named() {
    let model = fixture("decode_state.train.pt2");
    let nowhere = [("CXX", "no-such-compiler"), ("FUSEWRIGHT_CACHE_DIR", "off")];
    let said = call(&["run", &model, "--target", "ascend-sim"], &nowhere);
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    for word in ["`ascend-sim:910b1`", "compiler of C++", "`no-such-compiler`", "CXX"] {
        assert!(said.stderr.contains(word), "no `{word}` in: {}", said.stderr);
    }
    // Other targets need none.
    assert_eq!(call(&["run", &model], &nowhere).code, Some(0));
}

#[cfg(unix)]
#[test]
fn a_compiler_of_the_host_that_hangs_is_ended_at_the_limit() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let hanging = folder.path().join("hanging");
    std::fs::write(&hanging, "#!/bin/sh\n[ \"$1\" = --version ] && exec echo hanging\nsleep 100\n").expect("a script");
    std::fs::set_permissions(&hanging, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let (model, hanging) = (fixture("decode_state.train.pt2"), hanging.to_str().expect("text").to_owned());
    let run = |seconds: &str| {
        let environment = [("CXX", &*hanging), ("FUSEWRIGHT_CACHE_DIR", "off"), ("FUSEWRIGHT_TOOL_SECONDS", seconds)];
        call(&["run", &model, "--target", "ascend-sim"], &environment)
    };
    for (seconds, words) in [("1", ["was ended after 1 s", "-std=c++17"]), ("soon", ["`soon`", "no number of seconds"])]
    {
        let said = run(seconds);
        assert_eq!(said.code, Some(3), "{}", said.stderr);
        for word in words.into_iter().chain(["`ascend-sim:910b1`", "FUSEWRIGHT_TOOL_SECONDS"]) {
            assert!(said.stderr.contains(word), "no `{word}` in: {}", said.stderr);
        }
        assert!(!said.stderr.contains("does not start"), "{}", said.stderr);
    }
}

#[test]
fn what_the_host_model_needs_is_removed_with_the_process() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let place = folder.path().to_str().expect("text").to_owned();
    // A compiler that refuses leaves the sources of the model, which are named.
    let environment = [("CXX", "false"), ("FUSEWRIGHT_CACHE_DIR", "off"), ("TMPDIR", &place)];
    let said = call(&["run", &fixture("decode_state.train.pt2"), "--target", "ascend-sim"], &environment);
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    assert!(said.stderr.contains(&place), "{}", said.stderr);
    assert_eq!(std::fs::read_dir(&place).expect("the folder").count(), 0, "{}", said.stderr);
}

#[test]
fn a_missing_runtime_is_named_with_where_it_was_looked_for() {
    let model = fixture("decode_state.train.pt2");
    let said = call(&["run", &model, "--target", "ascend"], &[("ASCEND_HOME_PATH", "no/such/home")]);
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    for word in ["`ascend:910b1`", "no Ascend runtime", "libascendcl.so", "no/such/home/lib64"] {
        assert!(said.stderr.contains(word), "no `{word}` in: {}", said.stderr);
    }
    let said = call(&["run", &model, "--target", "ascend"], &[("FUSEWRIGHT_ACL", "no/such/file.so")]);
    assert!(said.stderr.contains("looked for no/such/file.so"), "{}", said.stderr);
    let listed = call(&["devices"], &[]).stdout;
    assert!(listed.contains("ascend:910b1") && listed.contains("ascend-sim:910b1"), "{listed}");
}
