//! Options that would change nothing, and texts and variables that say nothing.

use fusewright::{DType, HostTensor, write_safetensors};

use crate::support::{call, command, folder, refused, write};

const GRAPH: &str = "graph @g(%x: f32[4]) {\n  %y = exp %x\n  return %y\n}\n";

#[test]
fn options_of_other_suites_are_refused() {
    let cases: [(&[&str], &[&str]); 9] = [
        (&["--suite", "kernels", "--layers", "3"], &["--layers", "`compile`"]),
        (&["--suite", "launch", "--layers", "3"], &["--layers", "`compile`"]),
        (&["--suite", "kernels", "--relaxed"], &["`kernels`", "--relaxed"]),
        (&["--suite", "launch", "--relaxed"], &["`launch`", "--relaxed"]),
        (&["--suite", "compile", "--rows", "3"], &["`compile`", "--rows"]),
        (&["--suite", "compile", "--threads", "3"], &["`compile`", "--threads"]),
        (&["--suite", "compile", "--list"], &["`compile`", "--list"]),
        (&["--suite", "kinds", "--estimate"], &["--estimate", "`kinds`"]),
        (&["--suite", "matrix", "--estimate", "--list"], &["--estimate", "`matrix`"]),
    ];
    for (arguments, words) in cases {
        let arguments: Vec<&str> = ["bench"].iter().chain(arguments).copied().collect();
        refused(2, &arguments, words);
    }
}

#[test]
fn a_device_is_of_kernels_and_of_targets_that_have_several() {
    let folder = folder();
    let graph = write(&folder, "g.fw", GRAPH);
    refused(2, &["run", &graph, "--unfused", "--device", "1"], &["--unfused", "--device"]);
    refused(3, &["run", &graph, "--device", "1"], &["no device of number 1", "there is one"]);
    assert_eq!(call(&["run", &graph, "--device", "0"]).code, Some(0));
}

#[test]
fn stored_results_need_the_weights_that_they_are_of() {
    let folder = folder();
    let text = "graph @g(%x: f32[4], %w: weight f32[4], %v: weight f32[4]) {\n  %y = mul %x, %w\n  %z = add %y, %v\n  return %z\n}\n";
    let graph = write(&folder, "weights.fw", text);
    let check = folder.path().join("check.safetensors");
    let tensor = HostTensor::zeros(DType::F32, &[4]);
    let tensors = ["in0", "out0"].map(|name| (name.to_owned(), tensor.clone()));
    write_safetensors(&check, &tensors.into_iter().collect()).expect("it is written");
    let check = check.display().to_string();
    for more in [&[][..], &["--unfused"]] {
        let arguments: Vec<&str> = ["run", &graph, "--check", &check].iter().chain(more).copied().collect();
        refused(2, &arguments, &["weights.fw", "no data for 2 of 2", "`w`", "--check"]);
    }
    assert_eq!(call(&["run", &graph]).code, Some(0), "weights are made too");
}

#[test]
fn an_empty_variable_is_as_none() {
    let folder = folder();
    let graph = write(&folder, "g.fw", GRAPH);
    for name in ["FUSEWRIGHT_TIERS", "FUSEWRIGHT_CACHE_MB", "FUSEWRIGHT_SCHEDULES"] {
        let ran = command(&["run", &graph]).env(name, "").output().expect("the command starts");
        assert!(ran.status.success() && ran.stderr.is_empty(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
    }
    let ran = command(&["run", &graph]).env("FUSEWRIGHT_TIERS", "none").output().expect("the command starts");
    assert_eq!(ran.status.code(), Some(2));
}

#[test]
fn a_mark_of_the_byte_order_is_no_part_of_a_text() {
    let folder = folder();
    let marked = |name, text: &str| write(&folder, name, format!("\u{feff}{text}"));
    let graph = marked("g.fw", GRAPH);
    for command in [&["run", &graph][..], &["opt", &graph], &["explain", &graph]] {
        let said = call(command);
        assert_eq!(said.code, Some(0), "{command:?}: {}", said.stderr);
    }
    let pipeline = marked("p.toml", "# all passes\n");
    let said = call(&["run", &graph, "--pipeline", &pipeline]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    refused(2, &["opt", &marked("twice.fw", &format!("\u{feff}{GRAPH}"))], &["twice.fw"]);
}
