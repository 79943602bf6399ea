//! `compile`: bundles of objects and their manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::support::{MODELS, call, check_keys, files, fixture, folder};

fn compile(model: &str, targets: &str, out: &Path) -> BTreeMap<String, Vec<u8>> {
    let outcome = call(&["compile", &fixture(model), "--target", targets, "-o", &out.display().to_string()]);
    assert_eq!(outcome.code, Some(0), "{model}: {}", outcome.stderr);
    files(out)
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
            let known = ["name", "symbol", "pattern", "target", "file", "key", "params", "dims", "rows"];
            check_keys(kernel, &known);
            let file = kernel["file"].as_str().expect("a name");
            assert!(first[file].starts_with(b"\x7fELF") || !cfg!(target_os = "linux"), "{file}");
            let symbol = kernel["symbol"].as_str().expect("a name");
            assert!(symbols.insert(symbol), "{symbol} is exported twice");
            assert!(first[file].windows(symbol.len()).any(|w| w == symbol.as_bytes()), "{symbol} is not in {file}");
            for param in kernel["params"].as_array().expect("a list") {
                check_keys(param, &["name", "dtype", "access", "rank", "shape"]);
                assert_eq!(param["shape"].as_array().map(|s| s.len() as u64), param["rank"].as_u64());
            }
            named.insert(file.to_owned());
        }
        assert_eq!(named, first.keys().cloned().collect::<BTreeSet<_>>());
    }
}

#[test]
fn one_bundle_holds_several_targets() {
    let folder = folder();
    let found = compile("aten_silu_grp128_h12288_bfloat16.train.pt2", "cpu,ascend", folder.path());
    let manifest: Value = serde_json::from_slice(&found["manifest.json"]).expect("the manifest is JSON");
    let targets = |key: &str| -> BTreeSet<String> {
        let items = manifest[key].as_array().expect("a list");
        items.iter().map(|k| k["target"].as_str().expect("a name").to_owned()).collect()
    };
    let all: BTreeSet<String> = targets("kernels").union(&targets("refused")).cloned().collect();
    assert_eq!(all.iter().map(String::as_str).collect::<Vec<_>>(), ["ascend:910b1", "cpu"]);
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
    assert!(files(folder.path()).keys().all(|name| name.ends_with(".o")), "{:?}", files(folder.path()).keys());
}
