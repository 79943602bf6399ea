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
    refused(2, &["opt", &binary], &["binary.fw"]);
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
