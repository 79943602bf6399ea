//! `opt` on text graphs, and the listings.

use std::io::Read;
use std::process::Stdio;

use crate::support::{call, check_keys, command, fixture, folder, json, refused, write};

const GRAPH: &str = "graph @norm(s: 1..; %x: bf16[s, 256], %r: bf16[s, 256], %w: bf16[256]) {
  %h = add %x, %r
  %unused = mul %h, %h
  %y = rms_norm %h, %w {eps = 1e-5, round = once}
  return %y, %h
}
";

/// The targets that `diff` compares.
const HOST_TARGETS: &str = if cfg!(feature = "llvm") { "cpu, cpu-llvm" } else { "cpu" };

#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let folder = folder();
    let file = write(&folder, "norm.fw", GRAPH);
    let outcome = call(&[&["opt", &file], arguments].concat());
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.stderr);
    outcome.stdout
}

#[test]
fn each_verb_prints_its_stage() {
    assert_eq!(printed(&[]), GRAPH);
    assert_eq!(printed(&["verify"]), GRAPH);
    assert!(!printed(&["pass", "dce"]).contains("%unused"));
    let regions = printed(&["regions"]);
    assert!(regions.starts_with("; region 0 add_rms_norm\n") && regions.contains("rms_norm"), "{regions}");
    let lowered = printed(&["lower"]);
    assert!(lowered.contains("; as lowered\nkernel") && lowered.contains("; expanded for cpu\nkernel"), "{lowered}");
    assert!(printed(&["emit"]).contains("function "));
    assert!(printed(&["emit", "--target", "ascend"]).contains("__global__"));
}

#[test]
fn what_verify_prints_is_read_again() {
    let folder = folder();
    let file = write(&folder, "kernel.fw", printed(&["lower"]));
    let outcome = call(&["opt", &file, "verify"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with("kernel"), "{}", outcome.stdout);
    refused(2, &["opt", &file, "regions"], &["kernel.fw", "takes graphs"]);
}

#[test]
fn wrong_text_and_wrong_verbs_are_named() {
    let folder = folder();
    let good = write(&folder, "good.fw", GRAPH);
    let bad = write(&folder, "bad.fw", GRAPH.replace("add %x, %r", "add %x, %missing"));
    refused(2, &["opt", &bad], &["bad.fw", "missing"]);
    refused(2, &["opt", &good, "frobnicate"], &["frobnicate"]);
    refused(2, &["opt", &good, "pass"], &["pass"]);
    refused(2, &["opt", &good, "pass", "nosuch"], &["nosuch", "dce"]);
    refused(2, &["opt", &good, "verify", "extra"], &["extra"]);
    let binary = write(&folder, "binary.fw", [0xFFu8, 0xFE, 0x00]);
    refused(2, &["opt", &binary], &["binary.fw", "is not text"]);
    let model = fixture("qwen3_tiny_layer_bf16.core.pt2");
    refused(2, &["opt", &model], &["qwen3_tiny_layer_bf16.core.pt2", "is an archive", "`explain`"]);
    let renamed = write(&folder, "renamed.fw", std::fs::read(&model).expect("the fixture is there"));
    refused(2, &["explain", &renamed], &["renamed.fw", "is an archive", "`.pt2`"]);
    refused(2, &["opt", &good, "run", "--dim", "s=3", "--dim", "s=4"], &["`--dim` gives `s` twice: 3 and 4"]);
}

const KERNEL: &str = "kernel @double(s = extent(x, 0)) rows s {
  param %x: bf16[s, 4] in
  param %y: bf16[s, 4] out
  segment @rows inner 1 {
    %0 = load x[row*4 + lane] : row<bf16, 4>
    %1 = add %0, %0
    store y[row*4 + lane], %1
  }
}
";

#[test]
fn run_interprets_graphs_and_kernels_on_made_inputs() {
    let text = printed(&["run", "--dim", "s=2"]);
    assert!(text.starts_with("@norm, inputs made from seed 1 at s = 2\n  out0: bf16[2, 256]\n    "), "{text}");
    assert!(text.contains(" … 240 more\n") && text.contains("  out1: bf16[2, 256]\n"), "{text}");
    assert_eq!(text, printed(&["run", "--rows", "2", "--seed", "1"]));
    assert_ne!(text, printed(&["run", "--rows", "2", "--seed", "2"]));
    let folder = folder();
    let file = write(&folder, "double.fw", KERNEL);
    let report = json(&["opt", &file, "run", "--json", "--rows", "5"]);
    check_keys(&report, &["seed", "items"]);
    let item = &report["items"][0];
    check_keys(item, &["name", "sizes", "outputs"]);
    assert_eq!((&item["name"], &item["sizes"]["s"]), (&"double".into(), &5.into()));
    let output = &item["outputs"][0];
    assert_eq!((&output["name"], &output["dtype"]), (&"%y".into(), &"bf16".into()));
    assert_eq!(output["shape"], serde_json::json!([5, 4]));
    assert_eq!(output["values"].as_array().map(Vec::len), Some(20));
    refused(2, &["opt", &file, "run", "--dim", "t=1"], &["no dim `t`", "`s`"]);
}

#[test]
fn diff_runs_every_way_and_says_equal() {
    let text = printed(&["diff"]);
    let equal = format!("@norm: equal, 44032 elements of {HOST_TARGETS} compared with the definition at 4 sizes\n");
    assert_eq!(text, equal);
    let folder = folder();
    let file = write(&folder, "double.fw", KERNEL);
    let outcome = call(&["opt", &file, "diff"]);
    let equal = format!("@double: equal, 88 elements of {HOST_TARGETS} compared with the definition at 3 sizes\n");
    assert_eq!((outcome.code, outcome.stdout), (Some(0), equal));
    let report = json(&["opt", &file, "diff", "--json", "--rows", "2", "--seed", "9"]);
    let item = &report["items"][0];
    assert_eq!((&item["result"], &item["cases"]), (&"equal".into(), &serde_json::json!([{ "s": 2 }])));
    assert_eq!(item["targets"], serde_json::json!(HOST_TARGETS.split(", ").collect::<Vec<_>>()));
    assert_eq!((&report["seed"], &item["elements"]), (&9.into(), &16.into()));
    // Sizes with which the slice would leave its axis are left out.
    let cut = "graph @cut(s: 1..; %x: f32[s, 4]) {\n  %y = slice %x {axis = 0, start = 5, end = s}\n  return %y\n}\n";
    let report = json(&["opt", &write(&folder, "cut.fw", cut), "diff", "--json"]);
    let item = &report["items"][0];
    assert_eq!(item["result"], "equal", "{report}");
    assert_eq!(item["cases"], serde_json::json!([{ "s": 33 }, { "s": 5 }, { "s": 7 }]), "{report}");
    // The row of one writes what the next one reads.
    let shift = KERNEL
        .replace("in\n  param %y: bf16[s, 4] out", "inout")
        .replace("x[row*4 + lane] :", "x[mod(row + 1, s)*4 + lane] :");
    let shift = write(&folder, "shift.fw", shift.replace("store y", "store x"));
    refused(2, &["opt", &shift, "run"], &["kernel `double`", "has written element"]);
    refused(2, &["opt", &shift, "diff"], &["kernel `double`", "has written element"]);
    refused(2, &["opt", &shift, "diff", "--target", "ascend-sim"], &["`ascend-sim:910b1`", "holds kernels", "graphs"]);
}

#[test]
#[cfg(unix)]
fn reduce_shrinks_to_what_still_fails_alike() {
    let folder = folder();
    let file = write(&folder, "norm.fw", GRAPH);
    // Fails with 3 while there is a norm, with 4 if there is no multiplication: only the first is the file's failure.
    let script = "if grep -q rms_norm \"$1\"; then exit 3; fi; if grep -q mul \"$1\"; then exit 0; fi; exit 4\n";
    let script = write(&folder, "fails.sh", script);
    let outcome = call(&["opt", &file, "reduce", "--test", &format!("sh {script}")]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let nodes: Vec<&str> = outcome.stdout.lines().filter(|l| l.contains(" = ") && l.starts_with("  %")).collect();
    assert!(nodes.len() == 1 && nodes[0].contains("rms_norm"), "{}", outcome.stdout);
    assert!(outcome.stdout.starts_with("; exit status: 3\ngraph @norm("), "{}", outcome.stdout);
    let again = write(&folder, "small.fw", &outcome.stdout);
    assert_eq!(call(&["opt", &again]).code, Some(0));
    refused(2, &["opt", &file, "reduce", "--test", "true"], &["nothing to reduce", "`true`"]);
    refused(2, &["opt", &file, "reduce"], &["nothing to reduce", "agrees"]);
    refused(2, &["opt", &write(&folder, "k.fw", KERNEL), "reduce"], &["takes graphs"]);
}

#[test]
fn options_of_other_verbs_are_refused() {
    let folder = folder();
    let file = write(&folder, "norm.fw", GRAPH);
    refused(2, &["opt", &file, "lower", "--seed", "1"], &["`--seed`", "`opt run`", "`lower`"]);
    refused(2, &["opt", &file, "verify", "--json"], &["`--json`"]);
    refused(2, &["opt", &file, "diff", "--test", "true"], &["`--test`", "`opt reduce`"]);
    refused(2, &["opt", &file, "run", "--target", "ascend"], &["`--target`", "`opt emit`"]);
    refused(3, &["opt", &file, "diff", "--target", "ascend"], &["`ascend:910b1`", "no Ascend runtime"]);
    refused(2, &["opt", &file, "dif"], &["`dif`", "diff"]);
}

#[test]
#[cfg(unix)]
fn bisection_calls_a_command() {
    let folder = folder();
    let graph = write(&folder, "norm.fw", GRAPH);
    // The unused product goes with `dce`.
    let outcome = call(&["opt", &graph, "bisect", "--test", "grep -q unused"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("after change 1 of 1 of pass `dce`"), "{}", outcome.stdout);
    let (before, after) = outcome.stdout.split_once("; after").expect("both graphs are printed");
    assert!(before.contains("%unused = mul") && !after.contains("unused"), "{}", outcome.stdout);
    for (test, said, code) in [("false", "fails before the first pass", 1), ("true", "passes after every pass", 0)] {
        let outcome = call(&["opt", &graph, "bisect", "--test", test]);
        assert_eq!(outcome.code, Some(code), "{test}: {}", outcome.stderr);
        assert!(outcome.stdout.contains(said), "{test}: {}", outcome.stdout);
    }
    refused(2, &["opt", &graph, "bisect"], &["--test"]);
}

#[test]
#[cfg(unix)]
fn a_command_that_cannot_be_run_is_an_error_and_no_answer() {
    let folder = folder();
    let graph = write(&folder, "norm.fw", GRAPH);
    let script = write(&folder, "plain.txt", "exit 1\n");
    for verb in ["reduce", "bisect"] {
        refused(
            2,
            &["opt", &graph, verb, "--test", "./no-such-command"],
            &["./no-such-command", "cannot be run", "127"],
        );
        refused(2, &["opt", &graph, verb, "--test", &script], &[&script, "cannot be run", "126"]);
    }
    // Also where it goes away on the way.
    let once = write(
        &folder,
        "once.sh",
        format!("[ -e {0}/again ] && exit 127; touch {0}/again; exit 3\n", folder.path().display()),
    );
    refused(2, &["opt", &graph, "reduce", "--test", &format!("sh {once}")], &["cannot be run", "127"]);
}

#[test]
fn devices_and_knobs_are_listed() {
    let report = json(&["devices", "--json"]);
    let devices = report["devices"].as_array().expect("a list");
    assert!(devices.iter().any(|d| d["target"] == "cpu" && d["compiles"] == true && d["runs"] == true));
    devices.iter().for_each(|d| check_keys(d, &["target", "compiles", "runs", "detail"]));
    assert!(devices.iter().all(|d| d["runs"] == true || d["detail"] != ""), "{report}");
    let report = json(&["knobs", "--json"]);
    let knobs = report["knobs"].as_array().expect("a list");
    assert!(knobs.iter().any(|k| k["name"] == "FUSEWRIGHT_DUMP_DIR"));
    let table = call(&["knobs"]).stdout;
    assert!(knobs.iter().all(|k| table.contains(k["name"].as_str().unwrap_or("?"))), "{table}");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let path = fixture("qwen3_tiny_layer_bf16.core.pt2");
    let mut child =
        command(&["explain", &path]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("the command prints UTF-8");
    assert_eq!(child.wait().expect("the command ends").code(), Some(0), "{said}");
    assert_eq!(said, "");
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has a full device");
    let output = command(&["knobs"]).stdout(full).output().expect("the command starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output"));
}
