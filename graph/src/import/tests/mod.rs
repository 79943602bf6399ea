//! The importer on whole files: exported models, damaged ones, and archives made by hand.

mod activation;
mod ascend;
mod assumed;
mod attention;
mod collectives;
mod combined;
mod composites;
mod constants;
mod fused;
mod losses;
mod mutation;
mod numbers;
mod operators;
mod outside;
mod places;
mod prefixes;
mod presets;
mod reshaped;
mod sizes;
mod sums;
mod views;
mod vllm;
mod windows;

use std::io::{Cursor, Write};

use bytes::Bytes;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::pt2;
use crate::diag::Diagnostic;
use crate::graph::{Graph, InputKind, Op};
use crate::prim::Prim;

const MODELS: [&str; 6] = [
    "qwen3_tiny_layer_bf16.train",
    "qwen3_tiny_layer_bf16.core",
    "aten_addrms_fp8tok_h4096_bfloat16.train",
    "aten_addrms_fp8tok_h4096_bfloat16.core",
    "aten_silu_grp128_h12288_bfloat16.train",
    "aten_silu_grp128_h12288_bfloat16.core",
];

fn fixture(name: &str) -> Bytes {
    let path = format!("{}/../fixtures/{name}.pt2", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}")).into()
}

fn opaque_targets(graph: &Graph) -> Vec<&str> {
    graph
        .nodes()
        .iter()
        .filter_map(|node| match &node.op {
            Op::Prim(Prim::Opaque { target, .. }) => Some(target.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn models_import_whole() {
    for name in MODELS {
        let bytes = fixture(name);
        let graph = pt2(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(opaque_targets(&graph), Vec::<&str>::new(), "{name}");
        assert_eq!(graph.symbols().len(), 1, "{name}");
        assert!(!graph.outputs().is_empty() && graph.outputs().iter().all(|o| o.updates.is_none()), "{name}");
        for node in graph.nodes() {
            assert!(node.origin.node.is_some() && node.origin.op.is_some(), "{name}: {:?}", node.op);
        }
    }
}

#[test]
fn weights_are_slices_of_the_file() {
    let bytes = fixture("qwen3_tiny_layer_bf16.core");
    let file = bytes.as_ptr_range();
    let graph = pt2(&bytes).expect("a model");
    let mut weights = 0;
    for input in graph.inputs() {
        let InputKind::Weight(weight) = &input.kind else { continue };
        let weight = weight.as_ref().unwrap_or_else(|| panic!("{} has data", input.name));
        assert!(file.contains(&weight.storage.as_ptr()), "{}", input.name);
        assert_eq!(weight.strides.len(), graph.ty(input.value).rank());
        weights += 1;
    }
    assert_eq!(weights, 13);
}

#[test]
fn origins_name_the_models_source() {
    let graph = pt2(&fixture("qwen3_tiny_layer_bf16.train")).expect("a model");
    let rsqrt = graph.nodes().iter().find(|n| n.op.name() == "rsqrt").expect("a norm");
    let source = rsqrt.origin.source.as_deref().expect("a source line");
    assert!(source.starts_with("transformers/models/qwen3/modeling_qwen3.py:"), "{source}");
    assert_eq!(rsqrt.origin.op.as_deref(), Some("aten.rsqrt"));
}

#[test]
fn truncated_files_are_errors() {
    let bytes = fixture("aten_addrms_fp8tok_h4096_bfloat16.core");
    for end in (0..bytes.len()).step_by(97) {
        assert!(pt2(&bytes.slice(..end)).is_err(), "cut at {end}");
    }
}

#[test]
fn damaged_files_do_not_panic() {
    let whole = fixture("aten_addrms_fp8tok_h4096_bfloat16.core");
    let mut errors = 0;
    for at in (0..whole.len()).step_by(613).chain(whole.len() - 2400..whole.len()) {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 1 << (at % 8);
        errors += usize::from(pt2(&bytes.into()).is_err());
    }
    assert!(errors > 100, "{errors}");
}

/// An archive of stored records below `m/`.
fn archive(records: &[(&str, &[u8])]) -> Vec<u8> {
    archive_below("m", records)
}

fn archive_below(root: &str, records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, data) in records {
        zip.start_file(format!("{root}/{name}"), stored).expect("a record");
        zip.write_all(data).expect("its data");
    }
    zip.finish().expect("an archive").into_inner()
}

/// An archive with the entries that say what it is, and those records.
fn packed(records: &[(&str, &[u8])]) -> Vec<u8> {
    archive(&[&[FORMAT, VERSION, ORDER], records].concat())
}

const FORMAT: (&str, &[u8]) = ("archive_format", b"pt2");
const VERSION: (&str, &[u8]) = ("archive_version", b"0");
const ORDER: (&str, &[u8]) = ("byteorder", b"little");

fn model_json(inputs: &str, nodes: &str, values: &str, outputs: &str) -> String {
    format!(
        r#"{{"graph_module":{{"graph":{{"nodes":[{nodes}],"tensor_values":{{{values}}},
        "sym_int_values":{{}}}},"signature":{{"input_specs":[{inputs}],"output_specs":[{outputs}]}}}},
        "range_constraints":{{}},"schema_version":{{"major":8,"minor":20}}}}"#
    )
}

fn meta(dtype: i64, sizes: &[i64], strides: &[i64], offset: i64) -> String {
    let list = |v: &[i64]| v.iter().map(|n| format!(r#"{{"as_int":{n}}}"#)).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"dtype":{dtype},"sizes":[{}],"strides":[{}],"storage_offset":{{"as_int":{offset}}},"layout":7}}"#,
        list(sizes),
        list(strides)
    )
}

/// A model that returns a weight `w` of type f32[4, 2].
fn weight_model() -> String {
    model_json(
        r#"{"parameter":{"arg":{"name":"p_w"},"parameter_name":"w"}}"#,
        "",
        &format!(r#""p_w":{}"#, meta(7, &[4, 2], &[2, 1], 0)),
        r#"{"user_output":{"arg":{"as_tensor":{"name":"p_w"}}}}"#,
    )
}

const WEIGHT_TABLE: &str = r#"{"config":{"w":{"path_name":"weight_0","tensor_meta":{"dtype":7,
    "sizes":[{"as_int":4},{"as_int":2}],"strides":[{"as_int":2},{"as_int":1}]}}}}"#;

/// The model with a weight; the table says `table` about it.
fn with_weight(table: &str, data: &[u8]) -> Result<Graph, Diagnostic> {
    let json = weight_model();
    let config = format!(r#"{{"config":{{"w":{{"path_name":"weight_0","is_param":true,{table}}}}}}}"#);
    let bytes = packed(&[
        ("models/model.json", json.as_bytes()),
        ("data/weights/model_weights_config.json", config.as_bytes()),
        ("data/weights/weight_0", data),
    ]);
    pt2(&bytes.into())
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Diagnostic>, code: &str, words: &str) {
    let error = result.expect_err("an error");
    assert_eq!(error.code, code, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

/// An archive with the 64-bit records at its end that torch writes.
fn with_zip64(archive: Vec<u8>) -> Vec<u8> {
    let (body, end) = archive.split_at(archive.len() - 22);
    let field = |at: usize| u64::from(u32::from_le_bytes(end[at..at + 4].try_into().expect("four bytes")));
    let entries = u64::from(u16::from_le_bytes([end[10], end[11]]));
    let mut out = body.to_vec();
    out.extend(b"PK\x06\x06");
    out.extend(44u64.to_le_bytes());
    out.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    [entries, entries, field(12), field(16)].iter().for_each(|n| out.extend(n.to_le_bytes()));
    out.extend(b"PK\x06\x07\0\0\0\0");
    out.extend((body.len() as u64).to_le_bytes());
    out.extend([1, 0, 0, 0]);
    out.extend(end);
    out
}

#[test]
fn archives_hold_archives() {
    let json = weight_model();
    let inner = with_zip64(archive(&[("data.pkl", &[0; 40]), ("version", b"3"), ("byteorder", b"little")]));
    // The lengths of names and padding move the records of the inner archive and of this one.
    for (root, padding) in (1..60).flat_map(|root| [0, 1, 7, 20, 33].map(|padding| (root, padding))) {
        let padding = vec![0; padding];
        let records: &[(&str, &[u8])] = &[
            FORMAT,
            VERSION,
            ORDER,
            ("models/model.json", json.as_bytes()),
            ("data/weights/model_weights_config.json", WEIGHT_TABLE.as_bytes()),
            ("data/weights/weight_0", &[0; 32]),
            ("data/sample_inputs/model.pt", &inner),
            (".data/serialization_id", &padding),
        ];
        let read = pt2(&with_zip64(archive_below(&"m".repeat(root), records)).into());
        assert!(read.is_ok(), "{root}, {}: {}", padding.len(), read.expect_err("an error"));
    }
}

#[test]
fn archives_that_are_not_models() {
    refused(pt2(&Bytes::new()), "import.archive", "not a readable .pt2 archive");
    refused(pt2(&Bytes::from_static(b"PK\x05\x06 and so on")), "import.archive", "not a readable .pt2 archive");
    refused(pt2(&archive(&[ORDER]).into()), "import.archive", "archive_format");
    refused(pt2(&archive(&[("archive_format", b"pt3")]).into()), "import.version", "`pt3`");
    refused(pt2(&archive(&[FORMAT, VERSION, ("byteorder", b"big")]).into()), "import.version", "`big`");
    refused(pt2(&archive(&[FORMAT, VERSION]).into()), "import.record", "byteorder");
    refused(pt2(&archive(&[FORMAT, ORDER]).into()), "import.record", "archive_version");
    refused(pt2(&packed(&[]).into()), "import.record", "no `models/*.json`");
    let twice = packed(&[("sub/archive_format", b"pt2")]);
    refused(pt2(&twice.into()), "import.archive", "several");
    let two = packed(&[("models/a.json", b"{}"), ("models/b.json", b"{}")]);
    refused(pt2(&two.into()), "import.record", "a, b");
}

#[test]
fn models_that_do_not_follow_the_schema() {
    let model = |json: &str| pt2(&packed(&[("models/model.json", json.as_bytes())]).into());
    refused(model("{"), "import.schema", "models/model.json");
    refused(model(r#"{"schema_version":{"major":9,"minor":0}}"#), "import.version", "schema 9.0");
    refused(model(&"[".repeat(100_000)), "import.schema", "models/model.json");
    let unknown = model_json("", "", "", r#"{"user_output":{"arg":{"as_tensor":{"name":"ghost"}}}}"#);
    refused(model(&unknown), "import.value", "`ghost`");
}

#[test]
fn pickled_weights_say_what_to_do() {
    let json = model_json("", "", "", "");
    let bytes = packed(&[("models/model.json", json.as_bytes()), ("data/weights/model.pt", b"x")]);
    refused(pt2(&bytes.into()), "import.weight", "re-save the model with torch 2.9 or later");
}

#[test]
fn weights_outside_their_storage() {
    let data = [0u8; 32];
    let table =
        |sizes: &[i64], strides: &[i64], offset| format!(r#""tensor_meta":{}"#, meta(7, sizes, strides, offset));
    assert!(with_weight(&table(&[4, 2], &[2, 1], 0), &data).is_ok());
    assert!(with_weight(&table(&[4, 2], &[0, 1], 6), &data).is_ok());
    let huge = i64::MAX;
    for (strides, offset) in [([2, 1], 1), ([3, 1], 0), ([huge, huge], 0), ([2, 1], huge), ([-1, 1], 0), ([2, 1], -8)] {
        refused(with_weight(&table(&[4, 2], &strides, offset), &data), "import.weight", "weight `w`");
    }
    refused(with_weight(&table(&[4, 3], &[3, 1], 0), &[0; 48]), "import.weight", "f32[4, 3]");
}

#[test]
fn weights_without_data() {
    let table = format!(r#""tensor_meta":{}"#, meta(7, &[4, 2], &[2, 1], 0));
    for graph in [with_weight(&table, &[]), with_weight(&format!(r#""use_pickle":true,{table}"#), &[1, 2])] {
        let graph = graph.expect("a graph without data");
        assert!(matches!(graph.inputs()[0].kind, InputKind::Weight(None)));
    }
}

#[test]
fn weights_may_share_a_storage() {
    let json = model_json(
        r#"{"parameter":{"arg":{"name":"p_a"},"parameter_name":"a"}},{"parameter":{"arg":{"name":"p_b"},"parameter_name":"b"}}"#,
        "",
        &format!(r#""p_a":{},"p_b":{}"#, meta(7, &[6, 4], &[4, 1], 0), meta(7, &[2, 4], &[4, 1], 8)),
        "",
    );
    let config = format!(
        r#"{{"config":{{"a":{{"path_name":"weight_0","tensor_meta":{}}},"b":{{"path_name":"weight_0","tensor_meta":{}}}}}}}"#,
        meta(7, &[6, 4], &[4, 1], 0),
        meta(7, &[2, 4], &[4, 1], 8)
    );
    let bytes = packed(&[
        ("models/model.json", json.as_bytes()),
        ("data/weights/model_weights_config.json", config.as_bytes()),
        ("data/weights/weight_0", &[0; 96]),
    ]);
    let graph = pt2(&bytes.into()).expect("a model");
    let storage = |i: usize| match &graph.inputs()[i].kind {
        InputKind::Weight(Some(weight)) => (weight.storage.as_ptr(), weight.offset),
        other => panic!("{other:?}"),
    };
    assert_eq!(storage(0).0, storage(1).0);
    assert_eq!((storage(0).1, storage(1).1), (0, 8));
}

#[test]
fn damaged_records_are_named() {
    let flipped = |needle: &[u8], json: &str, data: &[u8]| {
        let records = [
            FORMAT,
            VERSION,
            ORDER,
            ("models/model.json", json.as_bytes()),
            ("data/weights/model_weights_config.json", WEIGHT_TABLE.as_bytes()),
            ("data/weights/weight_0", data),
        ];
        let mut bytes = archive(&records);
        let at = bytes.windows(needle.len()).position(|w| w == needle).expect("the bytes");
        bytes[at] ^= 1;
        pt2(&bytes.into())
    };
    let json = weight_model();
    refused(flipped(b"parameter_name", &json, &[7; 32]), "import.record", "entry `models/model.json` is damaged");
    // The bytes of a weight are read when they are used.
    let graph = flipped(&[7; 32], &json, &[7; 32]).expect("a graph");
    let InputKind::Weight(Some(weight)) = &graph.inputs()[0].kind else { panic!("a weight") };
    assert_eq!(weight.checked(), Err("entry `data/weights/weight_0` is damaged: its checksum does not match".into()));
    let error = crate::interp::run(&graph, &[], &crate::interp::Symbols::new()).expect_err("damage").to_string();
    assert!(error.contains("`p_w`") && error.contains("data/weights/weight_0"), "{error}");
}

#[test]
fn a_weight_whose_record_is_missing_is_named() {
    let json = weight_model();
    let config = ("data/weights/model_weights_config.json", WEIGHT_TABLE.as_bytes());
    let bytes = packed(&[("models/model.json", json.as_bytes()), config]);
    refused(pt2(&bytes.into()), "import.weight", "weight `w` lies in record `data/weights/weight_0`");
}

#[test]
fn compressed_records_are_refused() {
    let mut bytes = packed(&[("models/model.json", b"{}")]);
    let name = b"m/models/model.json";
    let at = bytes.windows(name.len()).rposition(|w| w == name).expect("the directory entry");
    bytes[at - 46 + 10] = 8;
    refused(pt2(&bytes.into()), "import.record", "is compressed");
}

#[test]
fn records_beyond_the_file_are_refused() {
    let mut bytes = packed(&[("models/model.json", b"{}")]);
    let name = b"m/models/model.json";
    let at = bytes.windows(name.len()).rposition(|w| w == name).expect("the directory entry");
    for field in [20, 24] {
        bytes[at - 46 + field..at - 46 + field + 4].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    }
    refused(pt2(&bytes.into()), "import.record", "reaches beyond the end of the file");
}

/// A model of one node on `x`, which has type f32[4, 2].
fn with_node(node: &str, result: &str) -> Result<Graph, Diagnostic> {
    let json = model_json(
        r#"{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}"#,
        node,
        &format!(r#""x":{},"y":{result}"#, meta(7, &[4, 2], &[2, 1], 0)),
        r#"{"user_output":{"arg":{"as_tensor":{"name":"y"}}}}"#,
    );
    pt2(&packed(&[("models/model.json", json.as_bytes())]).into())
}

const X: &str = r#"{"name":"self","arg":{"as_tensor":{"name":"x"}},"kind":1}"#;
const Y: &str = r#"[{"as_tensor":{"name":"y"}}]"#;

#[test]
fn a_wrong_result_type_is_an_error_that_names_both() {
    let node = format!(r#"{{"target":"torch.ops.aten.abs.default","inputs":[{X}],"outputs":{Y},"metadata":{{}}}}"#);
    assert!(with_node(&node, &meta(7, &[4, 2], &[2, 1], 0)).is_ok());
    let error = with_node(&node, &meta(7, &[4, 3], &[3, 1], 0));
    refused(error, "import.type", "`y` is f32[4, 3] in the file, but the op yields f32[4, 2]");
    refused(with_node(&node, &meta(13, &[4, 2], &[2, 1], 0)), "import.type", "bf16[4, 2]");
    refused(with_node(&node, &meta(9, &[4, 2], &[2, 1], 0)), "import.value", "complex32");
}

#[test]
fn unknown_ops_and_arguments_stay_opaque() {
    let (ty, cases) = (
        meta(7, &[4, 2], &[2, 1], 0),
        [
            ("torch.ops.mine.op.default", r#"{"name":"k","arg":{"as_int":3}}"#, vec![("k", "3"), ("operands", "self")]),
            (
                "torch.ops.aten.abs.default",
                r#"{"name":"mode","arg":{"as_new_thing":[1]}}"#,
                vec![("mode", "<as_new_thing>"), ("operands", "self"), ("reason", "the argument `mode` is not known")],
            ),
        ],
    );
    for (target, extra, expected) in cases {
        let node = format!(r#"{{"target":"{target}","inputs":[{X},{extra}],"outputs":{Y}}}"#);
        let graph = with_node(&node, &ty).expect("an opaque node");
        let Op::Prim(Prim::Opaque { attrs, results, .. }) = &graph.nodes()[0].op else { panic!("{target}") };
        let attrs: Vec<(&str, &str)> = attrs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(attrs, expected, "{target}");
        assert_eq!((results.len(), graph.nodes().len()), (1, 1));
    }
}

#[test]
fn a_refused_op_leaves_nothing_behind() {
    let dim = r#"{"name":"dim","arg":{"as_ints":[0,0]}}"#;
    let node = format!(r#"{{"target":"torch.ops.aten.mean.dim","inputs":[{X},{dim}],"outputs":{Y}}}"#);
    let graph = with_node(&node, &meta(7, &[2], &[1], 0)).expect("an opaque node");
    assert_eq!((graph.nodes().len(), opaque_targets(&graph)), (1, vec!["aten.mean.dim"]));
}

/// A model on `x: f32[4, 2]` that clones it to `c`, takes a view `v` of `c`, has an unknown op overwrite `v`, and returns
/// `abs(c)`.
fn overwritten(view: &str, view_type: &str) -> Result<Graph, Diagnostic> {
    let tensor =
        |parameter: &str, name: &str| format!(r#"{{"name":"{parameter}","arg":{{"as_tensor":{{"name":"{name}"}}}}}}"#);
    let node = |target: &str, inputs: &str, outputs: &str| {
        format!(r#"{{"target":"torch.ops.{target}","inputs":[{inputs}],"outputs":[{outputs}],"name":"{target}"}}"#)
    };
    let result = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
    let nodes = [
        node("aten.clone.default", &tensor("self", "x"), &result("c")),
        node(
            view.split(' ').next().expect("an op"),
            &format!("{},{}", tensor("self", "c"), view.split_once(' ').expect("arguments").1),
            &result("v"),
        ),
        node("mine.scale_.default", &tensor("buffer", "v"), ""),
        node("aten.abs.default", &tensor("self", "c"), &result("y")),
    ];
    let whole = meta(7, &[4, 2], &[2, 1], 0);
    let json = model_json(
        r#"{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}"#,
        &nodes.join(","),
        &format!(r#""x":{whole},"c":{whole},"v":{view_type},"y":{whole}"#),
        r#"{"user_output":{"arg":{"as_tensor":{"name":"y"}}}}"#,
    );
    pt2(&packed(&[("models/model.json", json.as_bytes())]).into())
}

#[test]
fn readers_of_an_overwritten_buffer_see_the_new_contents() {
    let graph = overwritten(r#"aten.view.default {"name":"size","arg":{"as_ints":[-1]}}"#, &meta(7, &[8], &[1], 0));
    let graph = graph.expect("a graph");
    let names: Vec<&str> = graph.nodes().iter().map(|n| n.op.name()).collect();
    assert_eq!(names, ["reshape", "opaque", "reshape", "abs"]);
    let nodes = graph.nodes();
    assert_eq!((&nodes[2].operands, &nodes[3].operands), (&nodes[1].results, &nodes[2].results));
}

#[test]
fn a_buffer_gets_the_new_contents_of_its_part() {
    let dim = r#"aten.slice.Tensor {"name":"dim","arg":{"as_int":0}},{"name":"end","arg":{"as_int":2}}"#;
    let graph = overwritten(dim, &meta(7, &[2, 2], &[2, 1], 0)).expect("a graph");
    let names: Vec<&str> = graph.nodes().iter().map(|n| n.op.name()).collect();
    assert_eq!(names, ["slice", "opaque", "slice", "cat", "abs"]);
    assert_eq!(graph.nodes()[3].operands[0], graph.nodes()[1].results[0]);
}

#[test]
fn what_an_unknown_op_may_overwrite_is_refused_by_its_name() {
    let size = r#"aten.expand.default {"name":"size","arg":{"as_ints":[3,4,2]}}"#;
    let error = overwritten(size, &meta(7, &[3, 4, 2], &[0, 2, 1], 0)).expect_err("elements at several places");
    let said = "`mine.scale_` is not known, so that it may overwrite all it is given: `v` is overwritten while";
    assert!(error.message.starts_with(said), "{}", error.message);
    assert_eq!(error.code, "import.alias");
}

#[test]
fn functionalised_calls_return_the_new_contents() {
    let whole = meta(7, &[4, 2], &[2, 1], 0);
    let per_base = r#"{"target":"torch.ops.higher_order.auto_functionalized_v2","inputs":[
        {"name":"","arg":{"as_operator":"torch.ops._C.fused_add_rms_norm.default"}},
        {"name":"weight","arg":{"as_tensor":{"name":"w"}}},{"name":"epsilon","arg":{"as_float":1e-06}},
        {"name":"_input_base_index","arg":{"as_int":1}},{"name":"_residual_base_index","arg":{"as_int":0}},
        {"name":"_all_bases","arg":{"as_tensors":[{"name":"r"},{"name":"x"}]}}],
        "outputs":[{"as_none":true},{"as_tensor":{"name":"sum"}},{"as_tensor":{"name":"y"}}],"name":"f"}"#;
    let input = |name: &str| format!(r#"{{"user_input":{{"arg":{{"as_tensor":{{"name":"{name}"}}}}}}}}"#);
    let json = model_json(
        &["x", "r", "w"].map(input).join(","),
        per_base,
        &format!(r#""x":{whole},"r":{whole},"w":{},"sum":{whole},"y":{whole}"#, meta(7, &[2], &[1], 0)),
        r#"{"user_output":{"arg":{"as_tensor":{"name":"sum"}}}},{"user_output":{"arg":{"as_tensor":{"name":"y"}}}}"#,
    );
    let graph = pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).expect("a graph");
    let defined_by = |i: usize| graph.def_node(graph.outputs()[i].value).map(|n| n.op.name().to_owned());
    assert_eq!([defined_by(0), defined_by(1)], [Some("add".to_owned()), Some("rms_norm".to_owned())]);
}

/// What exported files of a torch make of values about the largest of e4m3, and beyond.
#[track_caller]
fn e4m3_codes(version: &str, node: &str) -> Vec<u64> {
    let (x, y) = (r#"{"as_tensor":{"name":"x"}}"#, r#"{"as_tensor":{"name":"y"}}"#);
    let json = model_json(
        &format!(r#"{{"user_input":{{"arg":{x}}}}}"#),
        &format!(r#"{{{node},"outputs":[{y}],"name":"n"}}"#),
        &format!(r#""x":{},"y":{}"#, meta(7, &[6], &[1], 0), meta(29, &[6], &[1], 0)),
        &format!(r#"{{"user_output":{{"arg":{y}}}}}"#),
    );
    let json = json.replacen(r#""schema_version""#, &format!(r#"{version}"schema_version""#), 1);
    let graph = pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).expect("a graph");
    assert!(opaque_targets(&graph).is_empty(), "{graph}");
    let x = vec![463.9, 464.0, 464.1, 1e30, f64::NEG_INFINITY, -480.0];
    let x = x.into_iter().map(|x| crate::num::round_to(crate::DType::F32, x, crate::Rounding::NearestEven, false));
    let x = crate::Tensor::from_f64(crate::DType::F32, &[6], x.collect()).expect("six elements");
    let y = crate::interp::run(&graph, &[x], &crate::interp::Symbols::new()).expect("has a value").swap_remove(0);
    (0..6).map(|i| y.code(i).expect("six elements")).collect()
}

#[test]
fn e4m3_saturates_as_the_torch_that_exported() {
    let to = attention::argument("dtype", r#"{"as_scalar_type":29}"#);
    let node = attention::call("aten._to_copy.default", &[attention::tensor("self", "x"), to]);
    for version in ["2.9.1+cu128", "2.10.0", "2.12.1"] {
        let version = format!(r#""torch_version":"{version}","#);
        assert_eq!(e4m3_codes(&version, &node), [0x7e, 0x7e, 0x7f, 0x7f, 0xff, 0xff].map(nan_as_read), "{version}");
    }
    for version in ["", r#""torch_version":"2.13.0","#, r#""torch_version":"2.15.0+cu132","#] {
        assert_eq!(e4m3_codes(version, &node), [0x7e, 0x7e, 0x7e, 0x7e, 0xfe, 0xfe], "{version}");
    }
}

/// NaNs carry no sign in the reference.
fn nan_as_read(code: u64) -> u64 {
    if code == 0xff { 0x7f } else { code }
}
