//! `run`: checks, files of results, variants.

use std::collections::BTreeMap;
use std::path::Path;

use fusewright::{DType, HostTensor, read_safetensors, write_safetensors};
use serde_json::Value;

use crate::support::{MODELS, call, check_keys, fixture, folder, json, write};

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn check_report(report: &Value) {
    check_keys(report, &["cases", "kernels", "fused_ops", "unfused_ops", "time_us"]);
    check_keys(&report["time_us"], &["fused", "unfused"]);
    let prefixes: Vec<&Value> = list(&report["cases"]).iter().map(|c| &c["prefix"]).collect();
    assert_eq!(prefixes, ["", "b_"]);
    for output in list(&report["cases"]).iter().flat_map(|c| list(&c["outputs"])) {
        check_keys(output, &["dtype", "elements", "mismatched", "max_ulp", "max_abs"]);
        assert!(output["elements"].as_u64() > Some(0) && output["mismatched"].is_u64() && output["max_abs"].is_f64());
    }
}

#[test]
fn every_model_passes_its_check_in_both_forms() {
    for (model, form) in MODELS.iter().flat_map(|m| ["train", "core"].map(|f| (m, f))) {
        let (path, check) = (fixture(&format!("{model}.{form}.pt2")), fixture(&format!("{model}.safetensors")));
        let report = json(&["run", &path, "--check", &check, "--json"]);
        check_report(&report);
        assert!(report["kernels"].as_u64() > Some(0) && report["fused_ops"].as_u64() > Some(1), "{model}.{form}");
        assert!(report["time_us"]["fused"].as_f64() > Some(0.0) && report["time_us"]["unfused"].as_f64() > Some(0.0));
    }
}

#[test]
fn results_are_those_of_the_exporter_to_the_bit() {
    let folder = folder();
    for model in &MODELS[..2] {
        let check = fixture(&format!("{model}.safetensors"));
        let mut expected = read_safetensors(Path::new(&check)).expect("the fixture is readable");
        expected.retain(|name, _| name.trim_start_matches("b_").starts_with("out"));
        for (form, extra) in [("core", &["--threads", "3"][..]), ("train", &["--unfused"][..])] {
            let out = folder.path().join(format!("{model}.{form}.safetensors")).display().to_string();
            let path = fixture(&format!("{model}.{form}.pt2"));
            let report = json(&[&["run", &path, "--check", &check, "--out", &out, "--json"], extra].concat());
            let mismatched = list(&report["cases"]).iter().flat_map(|c| list(&c["outputs"])).map(|o| &o["mismatched"]);
            assert_eq!(mismatched.filter(|m| **m != 0).count(), 0, "{model}.{form}");
            assert!(read_safetensors(Path::new(&out)).expect("the file is readable") == expected, "{model}.{form}");
            assert_eq!(report["kernels"] == 0, extra.contains(&"--unfused"));
        }
    }
}

fn tensor(shape: &[usize], values: &[f32]) -> HostTensor {
    HostTensor {
        dtype: DType::F32,
        shape: shape.to_vec(),
        bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    }
}

/// Runs `max(x · w, 0)` on a case and returns the exit code and the report.
fn run_relu(rows: usize, x: &[f32], expected: &[f32]) -> (Option<i32>, Value) {
    let folder = folder();
    let text = "graph @relu(n: 0..; %x: f32[n, 3], %w: f32[3]) {\n  %p = mul %x, %w\n  %z = literal f32 0.0\n  \
                %y = max %p, %z\n  return %y\n}\n";
    let (model, check) = (write(&folder, "relu.fw", text), folder.path().join("check.safetensors"));
    let tensors = BTreeMap::from([
        ("in0".to_owned(), tensor(&[rows, 3], x)),
        ("in1".to_owned(), tensor(&[3], &[1.0, -2.0, 0.5])),
        ("out0".to_owned(), tensor(&[rows, 3], expected)),
    ]);
    write_safetensors(&check, &tensors).expect("the folder takes files");
    let outcome = call(&["run", &model, "--check", &check.display().to_string(), "--json"]);
    (outcome.code, serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {}", outcome.stderr)))
}

#[test]
fn a_text_graph_runs_on_no_rows_on_odd_ones_and_on_special_values() {
    let (code, report) = run_relu(0, &[], &[]);
    assert_eq!((code, &report["cases"][0]["outputs"][0]["elements"]), (Some(0), &Value::from(0)));
    let x = [1.0, 2.0, f32::NAN, f32::INFINITY, f32::INFINITY, f32::MIN_POSITIVE];
    let (code, report) = run_relu(2, &x, &[1.0, 0.0, f32::NAN, f32::INFINITY, 0.0, f32::MIN_POSITIVE / 2.0]);
    assert_eq!((code, &report["cases"][0]["outputs"][0]["mismatched"]), (Some(0), &Value::from(0)));
}

#[test]
fn outputs_that_differ_are_counted_and_fail() {
    let (code, report) = run_relu(1, &[1.0, 1.0, 1.0], &[1.0, 7.0, 0.5]);
    assert_eq!(code, Some(1));
    let output = &report["cases"][0]["outputs"][0];
    assert_eq!((&output["mismatched"], &output["max_abs"]), (&Value::from(1), &Value::from(7.0)));
    assert_eq!(output["dtype"], "f32");
}

#[test]
fn without_a_check_the_command_tells_what_it_compiled() {
    let report = json(&["run", &fixture("aten_addrms_fp8tok_h4096_bfloat16.core.pt2"), "--json"]);
    assert_eq!((list(&report["cases"]).len(), &report["kernels"]), (0, &Value::from(1)));
    assert!(report["time_us"]["fused"].is_null());
}
