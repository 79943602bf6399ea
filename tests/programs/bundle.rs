//! A bundle is read back and computes the bits of its graph; what is not as it was written is refused.

use std::path::Path;

use fusewright::aot::write_bundle;
use fusewright::diff::options;
use fusewright::graph::Graph;
use fusewright::{DType, HostTensor, compile};
use fusewright_abi::Target;
use fusewright_runtime::bundle::{Bundle, BundleError, MANIFEST};
use fusewright_runtime::{Arg, Module, device_for};
use serde_json::{Value, json};
use tempfile::TempDir;

const LANES: usize = 5;
const MODEL: &str = "graph @m(s: 0..; %x: f32[s, 5], %r: f32[s, 5], %w: f32[5]) {
  %h = add %x, %r
  %y = mul %h, %w
  return %y
}
";

fn written() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let graph: Graph = MODEL.parse().unwrap_or_else(|e| panic!("{e}"));
    write_bundle(&graph, &[Target::Cpu], folder.path(), &options()).unwrap_or_else(|e| panic!("{e}"));
    folder
}

fn manifest(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join(MANIFEST)).expect("it is there")).expect("it is JSON")
}

fn load(folder: &Path) -> Result<std::sync::Arc<dyn Module>, BundleError> {
    Bundle::open(folder)?.load(0, &*device_for(&Target::Cpu).expect("the host"))
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

#[test]
fn kernels_that_are_read_back_compute_the_bits_of_the_graph() {
    let folder = written();
    let bundle = Bundle::open(folder.path()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((bundle.model(), bundle.kernels().len()), ("m", 1));
    let kernel = &bundle.kernels()[0];
    let module = load(folder.path()).unwrap_or_else(|e| panic!("{e}"));
    for rows in [0, 1, 7, 33] {
        let edges = [1.5, -0.0, f32::MAX, f32::MIN_POSITIVE / 2.0, 0.1, f32::INFINITY, -3.25];
        let value = |i: usize| edges[i % edges.len()];
        let x: Vec<f32> = (0..rows * LANES).map(value).collect();
        let r: Vec<f32> = (0..rows * LANES).map(|i| value(i * 3 + 1).min(f32::MAX)).collect();
        let w: Vec<f32> = (0..LANES).map(|i| i as f32 - 1.75).collect();
        let expected: Vec<f32> = (0..rows * LANES).map(|i| (x[i] + r[i]) * w[i % LANES]).collect();
        let shape = |param: usize| {
            if kernel.params[param].rank == 1 { vec![LANES as i64] } else { vec![rows as i64, LANES as i64] }
        };
        let shapes: Vec<Vec<i64>> = (0..kernel.params.len()).map(shape).collect();
        let shapes: Vec<&[i64]> = shapes.iter().map(Vec::as_slice).collect();
        let fitted = kernel.fit(&shapes).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(fitted.rows, rows);
        let dims = fitted.dims;
        let (x, r, w, mut y) = (bytes(&x), bytes(&r), bytes(&w), vec![0xA5; 4 * rows * LANES]);
        let mut args = [Arg::In(&x), Arg::In(&r), Arg::In(&w), Arg::Out(&mut y)];
        module.launch(&mut args, &dims, rows, 1).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(y, bytes(&expected), "{rows} rows");
        if rows > 0 {
            let mut short = [Arg::In(&x[4..]), Arg::In(&r), Arg::In(&w), Arg::Out(&mut y)];
            assert!(module.launch(&mut short, &dims, rows, 1).is_err());
        }
        assert!(module.launch(&mut [Arg::In(&x)], &dims, rows, 1).is_err());
    }
    let missing = bundle.load(1, &*device_for(&Target::Cpu).expect("the host"));
    assert!(matches!(missing, Err(BundleError::Missing { index: 1, kernels: 1 })));
}

/// Its gate is a function of 16 bits, which code for CPUs looks up.
#[test]
fn code_that_is_read_back_has_its_tables() {
    let lanes = 1024;
    let text =
        format!("graph @gate(s: 0..; %x: bf16[s, {lanes}]) {{\n  %y = silu %x {{form = quotient}}\n  return %y\n}}\n");
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let folder = tempfile::tempdir().expect("a folder");
    write_bundle(&graph, &[Target::Cpu], folder.path(), &options()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(manifest(folder.path())["kernels"][0]["code"]["tables"], json!(1));
    let mut x = HostTensor::zeros(DType::BF16, &[64, lanes]);
    for (code, element) in x.bytes.chunks_exact_mut(2).enumerate() {
        element.copy_from_slice(&(code as u16).to_le_bytes());
    }
    let compiled = compile(&graph, &Target::Cpu, &options()).unwrap_or_else(|e| panic!("{e}"));
    let expected = compiled.program.run(&[&x], 1).unwrap_or_else(|e| panic!("{e}"));
    let bundle = Bundle::open(folder.path()).unwrap_or_else(|e| panic!("{e}"));
    let fitted = bundle.kernels()[0].fit(&[&[64, lanes as i64][..]; 2]).unwrap_or_else(|e| panic!("{e}"));
    let mut y = vec![0xA5; x.bytes.len()];
    let mut args = [Arg::In(&x.bytes), Arg::Out(&mut y)];
    let module = load(folder.path()).unwrap_or_else(|e| panic!("{e}"));
    module.launch(&mut args, &fitted.dims, fitted.rows, 1).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(y, expected[0].bytes);
}

#[cfg(feature = "ascend")]
#[test]
fn kernels_of_several_targets_are_listed_and_only_the_devices_own_are_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph: Graph = MODEL.parse().unwrap_or_else(|e| panic!("{e}"));
    let targets: Vec<Target> = ["cpu", "ascend", "ascend:950"].map(|t| t.parse().expect("a target")).into();
    write_bundle(&graph, &targets, folder.path(), &options()).unwrap_or_else(|e| panic!("{e}"));
    let bundle = Bundle::open(folder.path()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(bundle.kernels().len(), targets.len());
    let host = device_for(&Target::Cpu).expect("the host");
    for (i, kernel) in bundle.kernels().iter().enumerate() {
        let loaded = bundle.load(i, &*host);
        match kernel.target {
            Target::Cpu => assert!(loaded.is_ok()),
            _ => assert!(matches!(loaded, Err(BundleError::Payload { .. })), "{}", kernel.target),
        }
    }
}

#[test]
fn a_manifest_that_is_cut_short_anywhere_is_refused() {
    let folder = written();
    let path = folder.path().join(MANIFEST);
    let whole = std::fs::read(&path).expect("it is there");
    let text = whole.trim_ascii_end();
    for end in 0..text.len() {
        std::fs::write(&path, &text[..end]).expect("it is written");
        assert!(matches!(Bundle::open(folder.path()), Err(BundleError::Manifest { .. })), "{end} bytes");
    }
    std::fs::write(&path, text).expect("it is written");
    assert!(Bundle::open(folder.path()).is_ok());
    std::fs::remove_file(&path).expect("it is there");
    assert!(matches!(Bundle::open(folder.path()), Err(BundleError::Io { .. })));
}

#[test]
fn what_contradicts_itself_is_named_by_its_place() {
    let folder = written();
    let right = manifest(folder.path());
    let open = |pointer: &str, value: Value| {
        let mut wrong = right.clone();
        *wrong.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
        std::fs::write(folder.path().join(MANIFEST), wrong.to_string()).expect("it is written");
        Bundle::open(folder.path())
    };
    assert!(open("/model", json!("m")).is_ok());
    let next = u64::from(fusewright_abi::ABI_VERSION) + 1;
    assert!(matches!(open("/abi", json!(next)), Err(BundleError::Version { found }) if found == next));
    let twice = json!([right["kernels"][0], right["kernels"][0]]);
    let cases = [
        ("/kernels", twice, "kernels[1]"),
        ("/kernels/0/name", json!("9 lives"), "kernels[0].name"),
        ("/kernels/0/code/file", json!("../a.bin"), "kernels[0].code.file"),
        ("/kernels/0/code/file", json!("/a.bin"), "kernels[0].code.file"),
        ("/kernels/0/code/file", json!(""), "kernels[0].code.file"),
        ("/kernels/0/code/kind", json!("exe"), "kernels[0].code.kind"),
        ("/kernels/0/code/bytes", json!(-1), "kernels[0].code.bytes"),
        ("/kernels/0/code/sha256", json!("00"), "kernels[0].code.sha256"),
        ("/kernels/0/params/0/dtype", json!("f33"), "kernels[0].params[0].dtype"),
        ("/kernels/0/params/0/access", json!("inn"), "kernels[0].params[0].access"),
        ("/kernels/0/params/0/rank", json!(7), "kernels[0].params"),
        ("/kernels/0/params/0/elements", json!("nobody"), "kernels[0].params[0].elements"),
        ("/kernels/0/dims/0/source", json!({ "extent": [99, 0] }), "kernels[0].dims"),
        ("/kernels/0/rows", json!("add(1, "), "kernels[0].rows"),
        ("/kernels/0/row_order", json!({ "chosen": 0 }), "kernels[0].row_order.chosen"),
        ("/kernels/0/threads", json!(0), "kernels[0].threads"),
        ("/kernels/0/code/tables", json!(3), "kernels[0].code.tables"),
    ];
    for (pointer, value, expected) in cases {
        match open(pointer, value) {
            Err(BundleError::Manifest { place, .. }) => assert_eq!(place, expected),
            other => panic!("{pointer}: {other:?}"),
        }
    }
}

#[test]
fn code_that_is_not_what_was_compiled_is_not_loaded() {
    let folder = written();
    let file = manifest(folder.path())["kernels"][0]["code"]["file"].as_str().expect("a name").to_owned();
    let path = folder.path().join(file);
    let right = std::fs::read(&path).expect("it is there");
    assert!(load(folder.path()).is_ok());
    let refused = |what: &str| assert!(matches!(load(folder.path()), Err(BundleError::Payload { .. })), "{what}");
    let mut flipped = right.clone();
    flipped[right.len() / 2] ^= 1;
    std::fs::write(&path, flipped).expect("it is written");
    refused("one bit");
    std::fs::write(&path, &right[..right.len() - 1]).expect("it is written");
    refused("torn");
    #[cfg(unix)]
    {
        let elsewhere = tempfile::tempdir().expect("a folder");
        std::fs::write(elsewhere.path().join("code"), &right).expect("it is written");
        std::fs::remove_file(&path).expect("it is there");
        std::os::unix::fs::symlink(elsewhere.path().join("code"), &path).expect("a link");
        refused("a link that leaves the bundle");
    }
    std::fs::remove_file(&path).expect("it is there");
    assert!(matches!(load(folder.path()), Err(BundleError::Io { .. })));
    std::fs::write(&path, [&right[..], b"x"].concat()).expect("it is written");
    assert!(matches!(load(folder.path()), Err(BundleError::Io { .. })), "longer than it says");
}
