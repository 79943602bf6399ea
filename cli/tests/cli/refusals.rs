//! Bad input exits with 2 and names the thing; what is not available exits with 3 and is named.

use std::path::Path;

use fusewright::{DType, HostTensor, read_safetensors, write_safetensors};

use crate::support::{Outcome, call, command, fixture, folder, json, refused, write};

const MODEL: &str = "aten_addrms_fp8tok_h4096_bfloat16";

fn model() -> String {
    fixture(&format!("{MODEL}.core.pt2"))
}

#[test]
fn files_that_are_no_models() {
    refused(2, &["run", "nowhere.pt2"], &["nowhere.pt2"]);
    refused(2, &["explain", "nowhere.pt2"], &["nowhere.pt2"]);
    let folder = folder();
    let whole = std::fs::read(model()).expect("the fixture is readable");
    for length in [0, 1, 100, whole.len() / 2, whole.len() - 1] {
        let cut = write(&folder, "cut.pt2", &whole[..length]);
        refused(2, &["run", &cut], &["cut.pt2"]);
    }
    let text = write(&folder, "text.pt2", "this is no archive");
    refused(2, &["run", &text], &["text.pt2", "not a readable .pt2 archive"]);
    // A path that leads through a file cannot be opened, whoever asks.
    let through = format!("{text}/inside.pt2");
    for command in ["run", "explain"] {
        refused(2, &[command, &through], &[&through, "ot a directory"]);
    }
    refused(2, &["run", &model(), "--check", &through], &[&through]);
    refused(2, &["run", &model(), "--out", &through], &[&through]);
    let directory = folder.path().display().to_string();
    refused(2, &["run", &directory], &[&directory, "is a directory"]);
    refused(2, &["opt", &directory], &[&directory, "is a directory"]);
    refused(2, &["run", &model(), "--check", &directory], &[&directory, "is a directory"]);
    let graph = write(&folder, "typo.fw", "graph @g(%x: f32[4]) {\n  %y = frob %x\n  return %y\n}\n");
    refused(2, &["run", &graph], &["typo.fw", "frob"]);
}

#[test]
fn a_file_is_not_overwritten_that_another_option_names() {
    let folder = folder();
    let graph = write(&folder, "g.fw", "graph @g(%x: f32[4]) {\n  %y = exp %x\n  return %y\n}\n");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (page, below) = (path("page"), path("./page"));
    refused(
        2,
        &["explain", &graph, "--html", &page, "--svg", &below],
        &["page", "--svg would overwrite the file of --html"],
    );
    refused(2, &["explain", &graph, "--html", &graph], &["g.fw", "--html would overwrite the file of MODEL"]);
    refused(2, &["run", &graph, "--out", &graph], &["g.fw", "--out would overwrite the file of MODEL"]);
    let patterns = write(&folder, "p.fw", "");
    refused(2, &["explain", &graph, "--patterns", &patterns, "--svg", &patterns], &["p.fw", "the file of --patterns"]);
    let figures = write(&folder, "f.json", "{}");
    let compared = ["bench", "--suite", "kernels", "--compare", &figures, "--html", &figures];
    refused(2, &compared, &["f.json", "--html would overwrite the file of --compare"]);
    assert!(!Path::new(&page).exists(), "nothing is written");
    assert_eq!(std::fs::read_to_string(&figures).expect("it is there"), "{}");
    let nowhere = call(&["explain", &graph, "--html", "/dev/null", "--svg", "/dev/null"]);
    assert_eq!(nowhere.code, Some(0), "a device is no file: {}", nowhere.stderr);
}

#[test]
fn sizes_that_do_not_fit_the_model() {
    let folder = folder();
    let text = "graph @g(s: 0.., n: 0..; %x: f32[s, n]) {\n  %v, %i = top_k %x {k = 8}\n  return %v, %i\n}\n";
    let graph = write(&folder, "g.fw", text);
    let few = ["run", &graph, "--dim", "s=3", "--dim", "n=4"];
    refused(2, &few, &["value `v`, the largest of input `x`", "takes 8 elements, but", "n = 4"]);
    refused(2, &[&few[..], &["--unfused"]].concat(), &["top_k of node %v", "8 elements", "an axis of 4"]);
}

#[test]
fn check_files_that_do_not_fit() {
    let folder = folder();
    let whole =
        read_safetensors(Path::new(&fixture(&format!("{MODEL}.safetensors")))).expect("the fixture is readable");
    let path = folder.path().join("check.safetensors");
    let check = |change: &dyn Fn(&mut std::collections::BTreeMap<String, HostTensor>), words: &[&str]| {
        let mut tensors = whole.clone();
        change(&mut tensors);
        write_safetensors(&path, &tensors).expect("the folder takes files");
        for extra in [&[][..], &["--unfused"]] {
            let arguments = ["run", &model(), "--check", &path.display().to_string()];
            refused(2, &[&arguments[..], extra].concat(), words);
        }
    };
    check(&|t| drop(t.remove("in1")), &["check.safetensors", "`in1`"]);
    check(&|t| drop(t.remove("out2")), &["check.safetensors", "`out2`"]);
    check(&|t| drop(t.remove("b_in0")), &["check.safetensors", "`b_in0`"]);
    check(&|t| t.retain(|name, _| name != "out0" && name != "out1"), &["check.safetensors", "`out0`"]);
    check(&|t| drop(t.insert("in2".to_owned(), t["in1"].clone())), &["check.safetensors", "`in2`", "2 inputs"]);
    check(&|t| drop(t.insert("b_out7".to_owned(), t["in1"].clone())), &["check.safetensors", "`b_out7`", "3 outputs"]);
    let set = |name: &'static str, dtype: DType, shape: &'static [usize]| {
        move |t: &mut std::collections::BTreeMap<String, HostTensor>| {
            t.insert(name.to_owned(), HostTensor::zeros(dtype, shape));
        }
    };
    check(&set("in0", DType::BF16, &[5, 4095]), &["check.safetensors", "`in0`", "4095"]);
    check(&set("in0", DType::BF16, &[20480]), &["check.safetensors", "`in0`"]);
    check(&set("in0", DType::F32, &[5, 4096]), &["check.safetensors", "`in0`", "f32"]);
    check(&set("b_in1", DType::BF16, &[4, 4096]), &["check.safetensors", "`b_in1`"]);
    check(&set("out1", DType::F32, &[5]), &["check.safetensors", "`out1`"]);
    check(&set("b_out0", DType::U8, &[3, 4096]), &["check.safetensors", "`b_out0`"]);
    refused(2, &["run", &model(), "--check", "nowhere.safetensors"], &["nowhere.safetensors"]);
    let text = write(&folder, "text.safetensors", "this holds no tensors");
    refused(2, &["run", &model(), "--check", &text], &["text.safetensors"]);
}

#[test]
fn arguments_that_make_no_sense() {
    refused(2, &["run", &model(), "--target", "gpu"], &["gpu", "cpu"]);
    refused(2, &["run", &model(), "--threads", "0"], &["--threads"]);
    refused(2, &["compile", &model(), "--target", "cpu,tpu", "-o", "x"], &["tpu"]);
    refused(2, &["bench", "--suite", "nosuch"], &["nosuch", "kernels"]);
    refused(2, &["frobnicate"], &["frobnicate"]);
}

/// A number that an option does not take is said together with the option.
#[test]
fn numbers_out_of_range_are_named_with_their_option() {
    let cases: [(&str, &str, &[&str], &str); 17] = [
        ("run", "--rows", &["-1", "x", "9223372036854775808"], "`x` is no whole number"),
        ("run", "--seed", &["-1", "x", "18446744073709551616"], "-1 is below 0"),
        ("run", "--threads", &["0", "-1", "1025", "x"], "1025 is above 1024"),
        ("run", "--device", &["-1", "x"], "-1 is below 0"),
        ("run", "--dim", &["s=-1", "s=x", "s=", "s", "=3"], "-1 is below 0"),
        ("run", "--group", &["x=0", "x=-1", "x=y", "x", "=2"], "0 is below 1"),
        ("explain", "--group", &["x=0"], "0 is below 1"),
        ("compile", "--group", &["x=4294967296"], "4294967296 is above 4294967295"),
        ("explain", "--expect", &["rope=-1", "rope=x", "rope"], "`-1` is no number of regions"),
        ("bench", "--rows", &["-1", "1,x"], "-1 is below 0"),
        ("bench", "--layers", &["0", "-1"], "0 is below 1"),
        ("bench", "--threads", &["0", "-1"], "0 is below 1"),
        ("bench", "--sample", &["0", "-1"], "0 is below 1"),
        ("bench", "--slice", &["3..1", "x..2", "4"], "1 is not above 3"),
        ("bench", "--deadline", &["-5"], "-5 is below 0"),
        ("bench", "--bandwidth", &["-1", "0", "inf", "x"], "-1 is no finite number above 0"),
        ("opt", "--rows", &["-1"], "-1 is below 0"),
    ];
    let model = model();
    for (command, option, values, why) in cases {
        let mut said = String::new();
        for value in values {
            let more: &[&str] = if command == "compile" { &["--target", "cpu", "-o", "nowhere"] } else { &[] };
            let arguments = [&[command, &model, option, value], more].concat();
            let part = value.rsplit(',').next().expect("there is one");
            refused(2, &arguments, &[option, part]);
            said += &call(&arguments).stderr;
        }
        assert!(said.contains(why), "{command} {option}: no `{why}` in {said}");
    }
}

/// An error that a variable of the environment is to blame for is not said of the model.
#[test]
fn a_wrong_variable_is_named_ahead_of_all_else() {
    let folder = folder();
    let text = "graph @g(s: 1..8; %x: f32[s, 4]) {\n  %y = exp %x\n  return %y\n}\n";
    let (model, file) = (write(&folder, "g.fw", text), write(&folder, "file", ""));
    for (variable, value, commands) in [
        ("FUSEWRIGHT_TIERS", "maybe", &[&["run", &model][..]][..]),
        ("FUSEWRIGHT_DUMP_DIR", &file, &[&["run", &model], &["explain", &model], &["bench", &model, "--rows", "1"]]),
    ] {
        for arguments in commands {
            let outcome: Outcome = command(arguments).env(variable, value).output().expect("the command starts").into();
            assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.stderr);
            let said = outcome.stderr.lines().find(|line| line.starts_with("error: ")).expect("an error");
            assert!(said.starts_with(&format!("error: {variable}: ")), "{arguments:?}: {said}");
            assert!(said.contains(value), "{arguments:?}: {said}");
        }
    }
    // A folder of the cache that cannot be made hinders nothing.
    for variable in ["FUSEWRIGHT_CACHE_DIR", "XDG_CACHE_HOME"] {
        let mut run = command(&["run", &model]);
        run.env_remove("FUSEWRIGHT_CACHE_DIR").env(variable, format!("{file}/below"));
        let outcome: Outcome = run.output().expect("the command starts").into();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert!(outcome.stderr.starts_with(&format!("warning: {variable}: ")), "{}", outcome.stderr);
    }
}

#[test]
fn what_is_not_available_is_named() {
    let model = model();
    if cfg!(not(feature = "cuda")) {
        refused(3, &["run", &model, "--target", "cuda"], &["cuda"]);
    } else if !json(&["devices", "--json"]).to_string().contains("\"runs\":true,\"target\":\"cuda") {
        refused(3, &["run", &model, "--target", "cuda"], &["cuda", "NVIDIA"]);
    }
    if cfg!(not(feature = "llvm")) {
        refused(3, &["run", &model, "--target", "cpu-llvm"], &["cpu-llvm", "feature `llvm`"]);
    }
    if cfg!(feature = "cuda") {
        refused(3, &["run", &model, "--target", "cuda:sm_10"], &["`sm_10`", "sm_80", "sm_120"]);
    }
    refused(3, &["run", &model, "--target", "ascend"], &["ascend"]);
}

#[test]
fn an_unknown_chip_lists_those_there_are() {
    for command in ["explain", "compile"] {
        let mut arguments = vec![command];
        let model = model();
        arguments.extend([&model, "--target", "ascend:910z9"]);
        if command == "compile" {
            arguments.extend(["-o", "nowhere"]);
        }
        refused(3, &arguments, &["910z9", "910b1", "310p3", "950"]);
    }
    assert!(!Path::new("nowhere").exists());
}

#[test]
fn wrong_flags_name_the_nearest() {
    let cases: [(&[&str], &str); 6] = [
        (&["run", "m.pt2", "--chek", "f"], "--check"),
        (&["explain", "m.pt2", "--expct", "a=1"], "--expect"),
        (&["compile", "m.pt2", "--targt", "cpu"], "--target"),
        (&["bench", "m.pt2", "--row", "1"], "--rows"),
        (&["opt", "m.fw", "--taget", "cpu"], "--target"),
        (&["devices", "--jsn"], "--json"),
    ];
    for (arguments, nearest) in cases {
        refused(2, arguments, &[arguments.iter().find(|a| a.starts_with("--")).expect("a flag"), nearest]);
    }
    refused(2, &["opt", "m.fw", "--js"], &["--js"]);
    refused(2, &["explian", "m.pt2"], &["explain"]);
}

#[test]
fn help_lists_what_is_built_with_examples_and_exit_statuses() {
    for command in ["run", "explain", "compile", "bench", "opt", "devices", "cache", "knobs"] {
        let said = call(&[command, "--help"]);
        assert_eq!(said.code, Some(0));
        assert_eq!(said.stdout.contains("ascend-sim"), command == "run", "{command}: {}", said.stdout);
        assert_eq!(
            said.stdout.contains("--html"),
            ["explain", "bench"].contains(&command),
            "{command}: {}",
            said.stdout
        );
        assert!(said.stdout.contains("Exit status: 0"), "{command}: {}", said.stdout);
        let listing = ["devices", "knobs"].contains(&command);
        assert!(listing || said.stdout.contains(&format!("  fusewright {command} ")), "{command}: {}", said.stdout);
    }
    assert!(call(&["--help"]).stdout.contains("Exit status: 0 done, 1 a check or an expectation failed, 2 bad input"));
}
