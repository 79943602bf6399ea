//! `run`: checks, files of results, variants.

use std::collections::BTreeMap;
use std::path::Path;

use fusewright::{DType, HostTensor, read_safetensors, write_safetensors};
use serde_json::Value;

use crate::support::{MODELS, call, check_keys, fixture, folder, json, refused, write};

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn check_report(report: &Value) {
    check_report_of(report, &["", "b_"]);
    let numbers = |o: &Value| o["mismatched"].is_u64() && o["max_abs"].is_f64();
    let mut outputs = list(&report["cases"]).iter().flat_map(|c| list(&c["outputs"]));
    assert!(report["compared"].is_null() || outputs.all(numbers), "{report}");
}

fn check_report_of(report: &Value, expected: &[&str]) {
    check_keys(report, &["cases", "kernels", "fused_ops", "unfused_ops", "time_us"]);
    check_keys(&report["time_us"], &["fused", "unfused"]);
    let prefixes: Vec<&Value> = list(&report["cases"]).iter().map(|c| &c["prefix"]).collect();
    assert_eq!(prefixes, expected);
    for output in list(&report["cases"]).iter().flat_map(|c| list(&c["outputs"])) {
        check_keys(output, &["dtype", "elements", "mismatched", "max_ulp", "max_abs"]);
        assert!(output["elements"].as_u64() > Some(0), "{report}");
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
    let wrong = &output["first_wrong"];
    assert_eq!(wrong["index"], serde_json::json!([0, 1]), "{report}");
    let words = ["got", "expected", "interval", "outside"].map(|key| wrong[key].as_str());
    assert_eq!(words, [Some("0.0"), Some("7.0"), Some("0.0"), Some("expected")], "{report}");
}

#[test]
fn a_nan_has_no_distance_and_the_first_wrong_element_is_named() {
    let (code, report) = run_relu(2, &[1.0; 6], &[1.0, 0.0, 0.5, 1.0, f32::NAN, 0.5]);
    let output = &report["cases"][0]["outputs"][0];
    assert_eq!((code, &output["mismatched"]), (Some(1), &Value::from(1)));
    assert!(output["max_ulp"].is_null() && output["max_abs"].is_null(), "{report}");
    let folder = folder();
    let model = write(&folder, "neg.fw", "graph @neg(%x: f32[2, 2]) {\n  %y = neg %x\n  return %y\n}\n");
    let check = folder.path().join("check.safetensors");
    let tensors = BTreeMap::from([
        ("in0".to_owned(), tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0])),
        ("out0".to_owned(), tensor(&[2, 2], &[-1.0, -2.0, f32::NAN, -4.0])),
    ]);
    write_safetensors(&check, &tensors).expect("the folder takes files");
    let said = call(&["run", &model, "--check", &check.display().to_string()]);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    let row = said.stdout.lines().find(|line| line.starts_with("out0 ")).expect("a line for the output");
    assert_eq!(row.split_whitespace().collect::<Vec<_>>()[..6], ["out0", "f32", "4", "1", "-", "-"]);
    let named = "out0[1, 0] is -3.0, expected NaN; the expected value is outside of what the graph allows: -3.0\n";
    assert!(said.stdout.contains(named), "{}", said.stdout);
}

#[test]
fn ops_of_the_host_framework_are_listed_once_each() {
    let folder = folder();
    let opaque = |x: &str, target: &str, at: &str| {
        format!("opaque %{x} {{target = \"{target}\", attrs = {{}}, results = [f32[4]]}}  @\"{at}\"")
    };
    let text = format!(
        "graph @g(%x: f32[4]) {{\n  %a = {}\n  %b = {}\n  %c = {}\n  return %c\n}}\n",
        opaque("x", "lib.draw", "layer.0"),
        opaque("a", "lib.fold", "layer.1"),
        opaque("b", "lib.draw", "layer.2")
    );
    let model = write(&folder, "host.fw", text);
    for extra in [&[][..], &["--unfused"]] {
        let said = call(&[&["run", &model][..], extra].concat());
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{}", said.stderr);
        assert!(
            said.stderr.contains("host.fw: ") && said.stderr.contains("only their framework can run them"),
            "{}",
            said.stderr
        );
        assert!(
            said.stderr.contains("\n  2 × `lib.draw`, first at layer.0\n  1 × `lib.fold`, at layer.1\n"),
            "{}",
            said.stderr
        );
    }
}

#[test]
fn without_a_check_inputs_are_made_and_compared_with_the_reference() {
    for model in MODELS {
        let path = fixture(&format!("{model}.core.pt2"));
        let report = json(&["run", &path, "--json"]);
        check_report_of(&report, &[""]);
        assert_eq!((&report["compared"], &report["seed"]), (&Value::from("reference"), &Value::from(1)));
        assert!(report["symbols"].as_object().is_some_and(|s| s.values().all(Value::is_u64)), "{report}");
        assert!(report["time_us"]["fused"].as_f64() > Some(0.0));
        let said = call(&["run", &path, "--rows", "3", "--seed", "9"]);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(said.stdout.contains("inputs made from seed 9 at ") && said.stdout.contains(" = 3"), "{}", said.stdout);
        assert!(said.stdout.contains("one kernel per op gives the same bits"), "{}", said.stdout);
    }
}

#[test]
fn made_inputs_depend_on_the_seed_alone() {
    let folder = folder();
    let path = fixture("aten_addrms_fp8tok_h4096_bfloat16.core.pt2");
    let out = |name: &str, extra: &[&str]| {
        let file = folder.path().join(name);
        let report = json(&[&["run", &path, "--json", "--out", &file.display().to_string()], extra].concat());
        (read_safetensors(&file).expect("the file is readable"), report)
    };
    let (first, report) = out("first", &[]);
    assert_eq!(first.keys().collect::<Vec<_>>(), ["out0", "out1", "out2"]);
    assert!(first == out("again", &["--seed", "1", "--threads", "3"]).0);
    assert!(first != out("other", &["--seed", "2"]).0);
    let (reference, unfused) = out("reference", &["--unfused"]);
    assert_eq!((&unfused["compared"], &unfused["kernels"]), (&Value::Null, &Value::from(0)));
    let differ: u64 =
        list(&report["cases"][0]["outputs"]).iter().map(|o| o["mismatched"].as_u64().expect("a number")).sum();
    assert_eq!(first == reference, differ == 0, "{report}");
}

#[test]
fn weights_that_a_text_lacks_are_made_too() {
    let folder = folder();
    let text = "graph @g(n: 2..5; %x: f32[n, 3], %w: weight f32[3]) {\n  %y = mul %x, %w\n  return %y\n}\n";
    let model = write(&folder, "weight.fw", text);
    let report = json(&["run", &model, "--json"]);
    assert_eq!((&report["symbols"]["n"], &report["compared"]), (&Value::from(5), &Value::from("reference")));
    assert_eq!(json(&["run", &model, "--json", "--dim", "n=2"])["cases"][0]["outputs"][0]["elements"], 6);
    refused(2, &["run", &model, "--rows", "6"], &["`n` is 6, outside 2 to 5"]);
    refused(2, &["run", &model, "--dim", "m=2"], &["no symbol `m`", "`n`"]);
    refused(2, &["run", &model, "--dim", "n"], &["--dim", "NAME=N"]);
    refused(2, &["run", &model, "--check", "x.safetensors", "--rows", "2"], &["`--rows`", "`--check`"]);
}

/// Sizes that no shape of an input says are said by `--dim`, wherever a graph is run.
#[test]
fn a_symbol_that_no_input_has_is_told() {
    let folder = folder();
    let text = "graph @g(s: 0..9, t: 1..9; %x: f32[s, 1]) {\n  %i = iota {type = f32[1, t], axis = 1}\n  \
                %y = add %x, %i\n  %n = neg %x\n  return %y, %n updates %x\n}\n";
    let model = write(&folder, "told.fw", text);
    let out = folder.path().join("out.safetensors").display().to_string();
    let sizes = ["--dim", "s=2", "--dim", "t=3"];
    for extra in [&[][..], &["--unfused"]] {
        let report = json(&[&["run", &model, "--json", "--out", &out], &sizes[..], extra].concat());
        assert_eq!(report["symbols"], serde_json::json!({ "s": 2, "t": 3 }));
        assert_eq!(report["cases"][0]["outputs"][0]["elements"], 6, "{report}");
    }
    let stored = read_safetensors(Path::new(&out)).expect("the file is readable");
    let item = &json(&["opt", &model, "run", "--json", "--dim", "s=2", "--dim", "t=3"])["items"][0];
    let values: Vec<u8> = list(&item["outputs"][0]["values"])
        .iter()
        .flat_map(|value| (value.as_f64().expect("a number") as f32).to_le_bytes())
        .collect();
    assert_eq!(stored["out0"].bytes, values);
    // The least sizes that a command chooses by itself are told as well.
    assert_eq!(call(&["run", &model]).code, Some(0));
    assert_eq!(call(&["opt", &model, "diff"]).code, Some(0));
    assert_eq!(call(&["bench", &model, "--rows", "4", "--json"]).code, Some(0));
    // Stored inputs say what s is, and nothing of t.
    let mut given = stored.clone();
    given.insert("in0".to_owned(), HostTensor::zeros(DType::F32, &[2, 1]));
    given.retain(|name, _| name == "in0");
    let check = folder.path().join("given.safetensors");
    write_safetensors(&check, &given).expect("the folder takes files");
    let check = ["run", &model, "--check", &check.display().to_string()];
    refused(2, &check, &["told.fw", "no input says what symbol `t` is", "`--dim t=N`"]);
    for extra in [&["--dim", "t=4"][..], &["--dim", "t=4", "--unfused"]] {
        let report = json(&[&check[..], &["--json"], extra].concat());
        assert_eq!(report["cases"][0]["outputs"][0]["elements"], 8, "{report}");
    }
    refused(2, &[&check[..], &["--dim", "t=4", "--dim", "s=2"]].concat(), &["`--dim s`", "`--check`", "s = 2"]);
    refused(2, &[&check[..], &["--dim", "t=0"]].concat(), &["symbol `t` is 0, outside 1 to 9"]);
}

#[test]
fn inputs_without_results_are_run_and_nothing_is_compared() {
    let folder = folder();
    for model in MODELS {
        let mut tensors =
            read_safetensors(Path::new(&fixture(&format!("{model}.safetensors")))).expect("the fixture is readable");
        let stored = tensors.clone();
        tensors.retain(|name, _| !name.contains("out"));
        let (given, out) = (folder.path().join("given.safetensors"), folder.path().join("out.safetensors"));
        write_safetensors(&given, &tensors).expect("the folder takes files");
        let [given, path] = [given.display().to_string(), fixture(&format!("{model}.train.pt2"))];
        let arguments = ["run", &path, "--check", &given, "--out", &out.display().to_string()];
        let report = json(&[&arguments[..], &["--json"]].concat());
        check_report(&report);
        assert!(report["compared"].is_null() && report["cases"][0]["outputs"][0]["mismatched"].is_null());
        let said = call(&arguments);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(said.stdout.contains("nothing was compared"), "{}", said.stdout);
        let written = read_safetensors(&out).expect("the file is readable");
        let expected: Vec<&String> = stored.keys().filter(|name| name.contains("out")).collect();
        assert_eq!(written.keys().collect::<Vec<_>>(), expected);
        assert!(written.iter().all(|(name, t)| (t.dtype, &t.shape) == (stored[name].dtype, &stored[name].shape)));
    }
}

#[test]
fn lone_kernels_count_as_fused() {
    let folder = folder();
    let text = "graph @norm(n: 1..; %x: bf16[n, 64], %w: bf16[64], %m: bf16[64, 8]) {\n  \
                %y = rms_norm %x, %w {eps = 1e-5, round = once}\n  %z = matmul %y, %m {out = bf16}\n  return %z\n}\n";
    let report = json(&["run", &write(&folder, "norm.fw", text), "--json"]);
    let counts = ["kernels", "fused_ops", "unfused_ops"].map(|key| report[key].as_u64());
    assert_eq!(counts, [Some(1), Some(1), Some(1)], "{report}");
    let report = json(&["run", &write(&folder, "norm.fw", text), "--json", "--unfused"]);
    let counts = ["kernels", "fused_ops", "unfused_ops"].map(|key| report[key].as_u64());
    assert_eq!(counts, [Some(0), Some(0), Some(2)], "{report}");
}

#[test]
fn what_no_kernel_computes_is_listed_with_its_reason() {
    let folder = folder();
    let text =
        "graph @wide(n: 1..; %x: f64[n, 8], %z: f32[n, 8]) {\n  %y = exp %x\n  %a = exp %z\n  return %y, %a\n}\n";
    let model = write(&folder, "wide.fw", text);
    let report = json(&["run", &model, "--json"]);
    let [listed] = list(&report["fallbacks"]).as_slice() else { panic!("{report}") };
    let [op, reason] = ["op", "reason"].map(|key| listed[key].as_str().expect("words"));
    assert!(op.starts_with("exp [") && reason.contains("f64"), "{listed}");
    assert_eq!((report["kernels"].as_u64(), report["fused_ops"].as_u64()), (Some(1), Some(1)), "{report}");
    let said = call(&["run", &model]).stdout;
    assert!(said.contains(&format!("by the interpreter: {op}: {reason}")), "{said}");
}

#[test]
fn relaxed_results_lie_in_the_intervals_of_the_relaxed_graph() {
    let [model, check] = ["core.pt2", "safetensors"].map(|end| fixture(&format!("qwen3_tiny_layer_bf16.{end}")));
    let exact = json(&["run", &model, "--check", &check, "--json"]);
    let relaxed = json(&["run", &model, "--check", &check, "--json", "--relaxed"]);
    let mismatched = |report: &serde_json::Value| report["cases"][0]["outputs"][0]["mismatched"].clone();
    assert_eq!(relaxed["cases"][0]["outputs"][0]["outside_interval"], 0, "{relaxed}");
    assert_ne!(mismatched(&exact), mismatched(&relaxed), "roundings are dropped");
    assert_eq!(relaxed["fallbacks"], exact["fallbacks"]);
}

/// A kernel that LLVM takes long for, at a number of rows for which it is asked: it is not done when the command is.
#[cfg(feature = "llvm")]
#[test]
fn the_command_ends_well_while_llvm_compiles() {
    let folder = folder();
    let bound = |i: usize| {
        let bound = 448 + i;
        format!(
            "%l{i} = literal f32 -{bound}\n%h{i} = literal f32 {bound}\n%a{i} = max %x, %l{i}\n%b{i} = min %a{i}, %h{i}\n%y{i} = cast %b{i} {{to = f8e4m3}}\n"
        )
    };
    let (body, results): (String, Vec<String>) =
        ((0..48).map(bound).collect(), (0..48).map(|i| format!("%y{i}")).collect());
    let text = format!("graph @g(s: 1..; %x: f32[s, 131]) {{\n{body}return {}\n}}\n", results.join(", "));
    let model = write(&folder, "g.fw", text);
    for round in 0..6 {
        let said = call(&["run", &model, "--rows", "250"]);
        assert_eq!(said.code, Some(0), "round {round}: {}", said.stderr);
    }
}
