//! `compile`: bundles of objects and their manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::support::{MODELS, call, check_keys, files, fixture, folder, refused, write};

fn compile(model: &str, targets: &str, out: &Path) -> BTreeMap<String, Vec<u8>> {
    let outcome = call(&["compile", &fixture(model), "--target", targets, "-o", &out.display().to_string()]);
    assert_eq!(outcome.code, Some(0), "{model}: {}", outcome.stderr);
    files(out)
}

/// The error leaves out the folder to the side that files are written in first.
#[test]
fn a_folder_that_cannot_be_written_is_named_as_it_was_given() {
    let folder = folder();
    let file = write(&folder, "taken", "a file");
    let model = fixture("aten_addrms_fp8tok_h4096_bfloat16.core.pt2");
    for out in [file.clone(), format!("{file}/below"), "/proc/none".to_owned()] {
        let outcome = call(&["compile", &model, "--target", "cpu", "-o", &out]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        let said = outcome.stderr.lines().find(|line| line.starts_with("error: ")).expect("an error");
        assert!(said.starts_with(&format!("error: {out}: ")), "{said}");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "a file");
}

#[test]
fn a_bundle_is_the_same_twice_and_its_manifest_names_every_file() {
    for model in MODELS {
        let folder = folder();
        let [first, second] =
            ["a", "b"].map(|name| compile(&format!("{model}.core.pt2"), "cpu", &folder.path().join(name)));
        assert!(first == second, "{model}");
        let manifest: Value = serde_json::from_slice(&first["manifest.json"]).expect("the manifest is JSON");
        check_keys(&manifest, &["abi", "model", "kernels", "refused"]);
        let kernels = manifest["kernels"].as_array().expect("a list");
        assert!(!kernels.is_empty());
        let mut named = BTreeSet::from(["manifest.json".to_owned()]);
        let mut symbols = BTreeSet::new();
        for kernel in kernels {
            let known = ["name", "symbol", "pattern", "target", "file", "code", "key", "params", "dims", "rows"];
            check_keys(kernel, &known);
            let file = kernel["file"].as_str().expect("a name");
            assert!(first[file].starts_with(b"\x7fELF") || !cfg!(target_os = "linux"), "{file}");
            let symbol = kernel["symbol"].as_str().expect("a name");
            assert!(symbols.insert(symbol), "{symbol} is exported twice");
            assert!(first[file].windows(symbol.len()).any(|w| w == symbol.as_bytes()), "{symbol} is not in {file}");
            for param in kernel["params"].as_array().expect("a list") {
                check_keys(param, &["name", "dtype", "access", "rank", "shape", "read"]);
                assert_eq!(param["shape"].as_array().map(|s| s.len() as u64), param["rank"].as_u64());
            }
            named.insert(file.to_owned());
            named.insert(kernel["code"]["file"].as_str().expect("a name").to_owned());
            // The number of rows speaks of the integer arguments by their names.
            let dims = kernel["dims"].as_array().expect("a list").iter();
            let dims: Vec<&str> = dims.map(|dim| dim["name"].as_str().expect("a name")).collect();
            let rows = kernel["rows"].as_str().expect("an expression");
            let words =
                rows.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| w.starts_with(char::is_alphabetic));
            let ops = ["add", "mul", "floordiv", "mod", "max", "min"];
            let unknown: Vec<&str> = words.filter(|word| !dims.contains(word) && !ops.contains(word)).collect();
            assert!(unknown.is_empty(), "{rows} speaks of {unknown:?}, not of {dims:?}");
        }
        assert_eq!(named, first.keys().cloned().collect::<BTreeSet<_>>());
    }
}

#[test]
fn a_target_that_is_named_twice_is_compiled_for_once() {
    let folder = folder();
    let [once, twice] = ["cpu", "cpu,cpu"]
        .map(|targets| compile("qwen3_tiny_layer_bf16.core.pt2", targets, &folder.path().join(targets)));
    assert!(once == twice);
}

#[test]
fn one_bundle_holds_several_targets() {
    let folder = folder();
    let found = compile("qwen3_tiny_layer_bf16.train.pt2", "cpu,ascend", folder.path());
    let manifest: Value = serde_json::from_slice(&found["manifest.json"]).expect("the manifest is JSON");
    let targets = |key: &str| -> BTreeSet<String> {
        let items = manifest[key].as_array().expect("a list");
        items.iter().map(|k| k["target"].as_str().expect("a name").to_owned()).collect()
    };
    let all: BTreeSet<String> = targets("kernels").union(&targets("refused")).cloned().collect();
    assert_eq!(all.iter().map(String::as_str).collect::<Vec<_>>(), ["ascend:910b1", "cpu"]);
}

/// Sums over columns and rows in turn, of which a kernel that keeps none would have code for each path between them.
#[test]
fn every_target_has_regions_within_its_own_limits() {
    let turns: String = (0..12)
        .map(|i| {
            let (x, s, y) = (format!("x{i}"), format!("s{i}"), format!("x{}", i + 1));
            format!("  %{s} = reduce %{x} {{op = add, axes = [{}]}}\n  %{y} = div %{x}, %{s}\n", 1 + i % 2)
        })
        .collect();
    let text = format!("graph @sinkhorn(s: 0..; %x: f32[s, 4, 4]) {{\n  %x0 = exp %x\n{turns}  return %x12\n}}\n");
    let folder = folder();
    let (model, out) = (write(&folder, "sinkhorn.fw", &text), folder.path().join("out"));
    let targets = if cfg!(feature = "cuda") { "cpu,cuda:sm_90" } else { "cpu" };
    let outcome = call(&["compile", &model, "--target", targets, "-o", &out.display().to_string()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let files = files(&out);
    let ptx: Vec<usize> =
        files.iter().filter(|(name, _)| name.ends_with(".ptx")).map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(!ptx.is_empty(), cfg!(feature = "cuda"));
    assert!(ptx.iter().sum::<usize>() < 3_000_000, "{ptx:?}");
}

#[test]
fn sources_come_with_the_headers_that_they_include() {
    let folder = folder();
    let found = compile("qwen3_tiny_layer_bf16.train.pt2", "ascend,ascend:950", folder.path());
    let manifest: Value = serde_json::from_slice(&found["manifest.json"]).expect("the manifest is JSON");
    let listed = |key: &str| -> BTreeSet<String> {
        let items = manifest[key].as_array().expect("a list").iter();
        items.map(|k| k["file"].as_str().expect("a name").to_owned()).collect()
    };
    let (kernels, headers) = (listed("kernels"), listed("headers"));
    // Whatever a source or a header of ours includes lies beside it. Names in angle brackets and of the vendor are found
    // elsewhere.
    for file in kernels.union(&headers) {
        let source = String::from_utf8(found[file].clone()).expect("sources are text");
        let (folder, _) = file.split_once('/').expect("kernels lie in the folder of their target");
        let own = source.lines().filter_map(|l| l.strip_prefix("#include \"")?.strip_suffix('"'));
        let own: Vec<String> =
            own.filter(|name| *name != "kernel_operator.h").map(|name| format!("{folder}/{name}")).collect();
        assert!(own.iter().all(|name| headers.contains(name)), "{file}: {own:?}");
        assert!(headers.contains(file) || !own.is_empty(), "{file}");
    }
    // What builds and launches them is named as well.
    let project = listed("project");
    let both = ["ascend-910b1", "ascend-950"].map(|folder| format!("{folder}/CMakeLists.txt"));
    assert!(both.iter().all(|file| project.contains(file)), "{project:?}");
    let named = kernels.union(&headers).chain(&project).cloned().chain(["manifest.json".to_owned()]);
    assert_eq!(named.collect::<BTreeSet<_>>(), found.into_keys().collect());
}

#[test]
fn a_target_that_lacks_a_dtype_is_refused_by_name() {
    let folder = folder();
    let out = folder.path().join("out").display().to_string();
    let model = fixture("aten_addrms_fp8tok_h4096_bfloat16.train.pt2");
    for targets in ["ascend:310p3", "cpu,ascend:310p3"] {
        let words = ["target `ascend:310p3`", "bf16 on Ascend 310P3", "`add`", "aten.add.Tensor", "input `x`"];
        refused(2, &["compile", &model, "--target", targets, "-o", &out], &words);
        assert!(files(folder.path()).is_empty());
    }
}

#[test]
fn a_target_without_any_kernel_is_refused_with_the_reasons() {
    let folder = folder();
    let out = folder.path().join("out").display().to_string();
    let model = folder.path().join("wide.fw");
    let text = "graph @wide(s: 1..; %x: f64[s, 64]) {\n  %y = mul %x, %x\n  return %y\n}\n";
    std::fs::write(&model, text).expect("the folder takes files");
    for targets in ["ascend:910b1", "cpu,ascend:910b1"] {
        let words = ["ascend:910b1 has no kernel for any region", "row: ", "f64"];
        refused(2, &["compile", &model.display().to_string(), "--target", targets, "-o", &out], &words);
        assert_eq!(files(folder.path()).len(), 1);
    }
}

#[test]
fn a_bundle_replaces_the_one_before_it_and_nothing_else() {
    let parent = folder();
    let out = parent.path().join("out");
    let first = compile("qwen3_tiny_layer_bf16.train.pt2", "cpu,ascend", &out);
    let [kept, outside] = ["cpu/notes.txt", "../outside.txt"].map(|name| out.join(name));
    std::fs::write(&kept, "mine").expect("the folder takes files");
    std::fs::write(&outside, "mine").expect("the folder takes files");
    // A manifest may name anything.
    let manifest = out.join("manifest.json");
    let text = String::from_utf8(first["manifest.json"].clone()).expect("it is text");
    std::fs::write(&manifest, text.replace("ascend-910b1/row_program.h", "../outside.txt")).expect("it can be written");
    let second = compile("aten_addrms_fp8tok_h4096_bfloat16.train.pt2", "cpu", &out);
    assert!(kept.exists() && outside.exists());
    std::fs::remove_file(&outside).expect("it was written above");
    let left: Vec<&String> = second.keys().filter(|name| first.contains_key(*name)).collect();
    assert_eq!(left, ["ascend-910b1/row_program.h", "manifest.json"]);
    // Those two, what was kept, and one kernel as an object and as code.
    assert_eq!(second.len(), 5, "{:?}", second.keys());
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing_new_and_the_old_bundle_whole() {
    let folder = folder();
    let limited = |out: &Path| {
        // Files may take one block of 512 bytes, as on a disk with no more room.
        let script = "trap '' XFSZ; ulimit -f 1; exec \"$@\"";
        let model = fixture("aten_addrms_fp8tok_h4096_bfloat16.train.pt2");
        std::process::Command::new("sh")
            .args(["-c", script, "sh", env!("CARGO_BIN_EXE_fusewright"), "compile", &model, "--target", "cpu", "-o"])
            .arg(out)
            .output()
            .expect("there is a shell")
    };
    let new = folder.path().join("new");
    assert_eq!(limited(&new).status.code(), Some(2));
    assert!(!new.exists());
    let old = folder.path().join("old");
    let before = compile("qwen3_tiny_layer_bf16.train.pt2", "cpu", &old);
    assert_eq!(limited(&old).status.code(), Some(2));
    assert!(files(&old) == before);
}

#[test]
fn a_write_that_fails_leaves_no_partial_file() {
    let folder = folder();
    // A folder stands where the manifest must go, so that the last write fails.
    std::fs::create_dir_all(folder.path().join("manifest.json/taken")).expect("the folder takes folders");
    let path = fixture("aten_addrms_fp8tok_h4096_bfloat16.core.pt2");
    let outcome = call(&["compile", &path, "--target", "cpu", "-o", &folder.path().display().to_string()]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("manifest.json"), "{}", outcome.stderr);
    assert!(files(folder.path()).is_empty(), "{:?}", files(folder.path()).keys());
}

#[test]
fn the_manifest_says_which_parameters_a_kernel_reads() {
    let folder = folder();
    let cached = "graph @g(s: 1..; %x: f32[s, 8], %cache: f32[16, 8], %slots: i64[s]) {\n  %y = exp %x\n  \
                  %new = scatter %cache, %slots, %y {axis = 0}\n  return %new updates %cache\n}\n";
    let summed = "graph @g(s: 1..; %x: f32[s, 8], %cache: f32[s, 8]) {\n  %new = add %cache, %x\n  \
                  return %new updates %cache\n}\n";
    // Elements of a cache that are not written stay where they are: the kernel needs none of them.
    for (name, text, cache) in [("cached.fw", cached, false), ("summed.fw", summed, true)] {
        let path = write(&folder, name, text);
        let out = folder.path().join(name.trim_end_matches(".fw"));
        let outcome = call(&["compile", &path, "--target", "cpu", "-o", &out.display().to_string()]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let manifest: Value = serde_json::from_slice(&files(&out)["manifest.json"]).expect("the manifest is JSON");
        let params = manifest["kernels"][0]["params"].as_array().expect("a list");
        let read: Vec<Option<bool>> = params.iter().map(|p| p["read"].as_bool()).collect();
        // Inputs in their order, the cache second; then the result.
        assert_eq!(read[..2], [Some(true), Some(cache)], "{name}");
        assert_eq!(read.last(), Some(&Some(false)), "{name}");
    }
}

#[test]
fn regions_are_left_to_ops_of_the_vendor_that_are_switched_on() {
    let folder = folder();
    let text = "graph @g(s: 1..; %x: f16[s, 64], %r: f16[s, 64], %w: f16[64], %a: f32[s, 32]) {\n  %h = add %x, %r\n  \
                %y = rms_norm %h, %w {eps = 1e-5, round = before_weight, mean = parts, root = inverse}\n  %e = exp %a\n  \
                return %y, %h, %e\n}\n";
    let path = write(&folder, "norm.fw", text);
    let manifest = |name: &str, more: &[&str]| -> Value {
        let out = folder.path().join(name).display().to_string();
        let outcome = call(&[&["compile", &path, "--target", "ascend,cpu", "-o", &out], more].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        serde_json::from_slice(&files(Path::new(&out))["manifest.json"]).expect("the manifest is JSON")
    };
    let kernels = |manifest: &Value, target: &str| {
        manifest["kernels"].as_array().expect("a list").iter().filter(|k| k["target"] == target).count()
    };
    let plain = manifest("plain", &[]);
    assert_eq!((kernels(&plain, "ascend:910b1"), kernels(&plain, "cpu")), (2, 2));
    assert_eq!(plain["vendor"].as_array().map(Vec::len), Some(0));
    let on = manifest("on", &["--vendor-ops", "npu_add_rms_norm,npu_swiglu"]);
    assert_eq!((kernels(&on, "ascend:910b1"), kernels(&on, "cpu")), (1, 2), "other targets have their kernels");
    let [replaced] = on["vendor"].as_array().expect("a list").as_slice() else { panic!("{on}") };
    check_keys(replaced, &["pattern", "target", "op", "call", "tensors", "plain", "results", "inputs", "outputs"]);
    assert_eq!(
        (replaced["op"].as_str(), replaced["plain"]["epsilon"].as_f64()),
        (Some("npu_add_rms_norm"), Some(1e-5))
    );
    assert_ne!(plain["pipeline"], on["pipeline"]);
    let explain = |more: &[&str]| call(&[&["explain", &path], more].concat());
    let found = explain(&["--vendor-ops", "all", "--expect", "npu_add_rms_norm=1"]);
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    assert!(found.stdout.contains("torch_npu.npu_add_rms_norm(x1="), "{}", found.stdout);
    assert!(!explain(&[]).stdout.contains("vendor"), "nothing is said of what is off");
    let page = folder.path().join("page.html").display().to_string();
    for (round, said) in [("before_weight", "torch_npu.npu_add_rms_norm(x1="), ("once", "if roundings do not count")] {
        let path = write(&folder, "other.fw", text.replace("before_weight", round));
        let outcome = call(&["explain", &path, "--vendor-ops", "npu_add_rms_norm,npu_swiglu", "--html", &page]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let page = std::fs::read_to_string(&page).expect("the page");
        for part in ["Ops of the vendor", said, "npu_swiglu", "no region comes near"] {
            assert!(page.contains(part), "{round}: no `{part}`");
        }
    }
    let near = call(&[
        "explain",
        &write(&folder, "near.fw", text.replace("before_weight", "once")),
        "--vendor-ops",
        "npu_add_rms_norm",
        "--json",
    ]);
    let near: Value = serde_json::from_str(&near.stdout).expect("JSON");
    let near = &near["vendor_ops"][0];
    check_keys(near, &["name", "regions", "calls", "but_for_rounding", "near"]);
    check_keys(&near["near"][0], &["region", "gives", "lacks", "but_for_rounding", "rounds_at", "words"]);
    refused(2, &["explain", &path, "--vendor-ops", "npu_norm"], &["--vendor-ops", "npu_norm", "npu_rotary_mul"]);
}
