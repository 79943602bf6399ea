//! Bad `.pt2` files.

use serde_json::{Value, json};
use zip::CompressionMethod;

use super::archive::{GRAPH, Model, WEIGHTS, data_start, directory_entry, zip};
use super::{Cases, complaint};
use crate::support::folder;

/// Reading alone, and reading and running.
const READ: [&[&str]; 2] = [&["explain", "FILE"], &["run", "FILE"]];
/// What only shows when weights are used.
const RUN: [&[&str]; 1] = [&["run", "FILE"]];

const NODES: &str = "/graph_module/graph/nodes";
const VALUES: &str = "/graph_module/graph/tensor_values";
const INPUTS: &str = "/graph_module/signature/input_specs";
const OUTPUTS: &str = "/graph_module/signature/output_specs";

#[test]
fn containers_that_are_broken() {
    let mut cases = Cases::new("pt2");
    let whole = Model::open().zip();
    cases.misread("empty", b"", &READ, &["not a readable .pt2 archive"]);
    for length in [1, 4, 30, whole.len() / 2, whole.len() - 23, whole.len() - 1] {
        cases.misread(&format!("cut to {length}"), &whole[..length], &READ, &["not a readable .pt2 archive"]);
    }
    let patched = |at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let end = whole.len() - 22;
    let entry = directory_entry(&whole, GRAPH);
    cases.misread("wrong magic of all", &vec![0x55; whole.len()], &READ, &["not a readable .pt2 archive"]);
    cases.misread("wrong magic at the end", &patched(end, b"PK\x05\x07"), &READ, &["not a readable .pt2 archive"]);
    cases.misread("wrong magic of an entry", &patched(entry, b"PK\x01\x03"), &READ, &["not a readable .pt2 archive"]);
    cases.misread("65535 entries", &patched(end + 8, &[0xff; 4]), &READ, &["not a readable .pt2 archive"]);
    cases.misread("directory beyond the end", &patched(end + 16, &[0xf0; 4]), &READ, &["not a readable .pt2 archive"]);
    let size = [0xf0, 0xff, 0xff, 0x7f];
    cases.misread("record of 2 GiB", &patched(entry + 20, &[size, size].concat()), &READ, &[GRAPH, "beyond the end"]);
    cases.misread("record at 2 GiB", &patched(entry + 42, &size), &READ, &[GRAPH]);
    cases.misread("encrypted", &patched(entry + 8, &[1, 0]), &READ, &[GRAPH, "encrypted"]);
    cases.misread("compressed", &patched(entry + 10, &[8, 0]), &READ, &[GRAPH, "compressed"]);
    cases.misread(
        "bomb",
        &patched(entry + 10, &[8, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0xf0, 0xff, 0xff, 0xff]),
        &READ,
        &[GRAPH],
    );
    let model = Model::open();
    let json = data_start(&whole, &model.records[GRAPH]);
    for bit in [0, 1, 77, 4000] {
        let at = json + bit * 4;
        cases.misread("bit of the graph", &patched(at, &[whole[at] ^ 4]), &READ, &[GRAPH, "checksum"]);
    }
    let weight = data_start(&whole, &model.records["data/weights/weight_0"]);
    cases.misread("bit of a weight", &patched(weight, &[whole[weight] ^ 1]), &RUN, &["weight_0", "checksum"]);
    cases.finish(40);
}

#[test]
fn a_folder_is_no_model() {
    let folder = folder();
    let path = folder.path().display().to_string();
    for command in ["run", "explain", "opt"] {
        assert_eq!(complaint(&[command, &path], &[&path, "is a directory"]), None);
    }
}

#[test]
fn records_that_are_missing_or_double() {
    let mut cases = Cases::new("pt2");
    let model = Model::open;
    cases.misread("no format", &model().without("archive_format").zip(), &READ, &["no `archive_format` entry"]);
    cases.misread("other format", &model().with("archive_format", "pt3").zip(), &READ, &["archive_format", "pt3"]);
    cases.misread("version", &model().with("archive_version", "99").zip(), &READ, &["archive_version", "99"]);
    cases.misread("big-endian", &model().with("byteorder", "big").zip(), &READ, &["byteorder", "big"]);
    for entry in ["archive_version", "byteorder"] {
        cases.misread(entry, &model().without(entry).zip(), &READ, &[entry]);
    }
    cases.misread("no graph", &model().without(GRAPH).zip(), &READ, &["models/*.json"]);
    let two = model().with("models/a.json", "{}").with("models/b.json", "{}").without(GRAPH);
    cases.misread("two graphs", &two.zip(), &READ, &["a, b"]);
    cases.misread("no table", &model().without(WEIGHTS).zip(), &READ, &["`cache`", "no table"]);
    cases.misread("no weight", &model().without("data/weights/weight_0").zip(), &READ, &["`cache`", "weight_0"]);
    cases.misread("no entries", &zip(&[], CompressionMethod::Stored), &READ, &["no `archive_format` entry"]);
    let format: &[u8] = b"pt2";
    let roots = [("a/archive_format".to_owned(), format), ("b/archive_format".to_owned(), format)];
    cases.misread("two roots", &zip(&roots, CompressionMethod::Stored), &READ, &["several `archive_format`"]);
    let mut double = model().with("models/modem.json", "{}").zip();
    while let Some(at) = double.windows(10).position(|w| w == b"modem.json") {
        double[at + 4] = b'l';
    }
    cases.misread("two entries of one name", &double, &READ, &["two entries have one name"]);
    cases.finish(18);
}

#[test]
fn json_that_is_no_program() {
    let mut cases = Cases::new("pt2");
    let model = Model::open;
    let deep = |open: &str, close: &str| open.repeat(100_000) + &close.repeat(100_000);
    for (what, text) in [
        ("deep lists", deep("[", "]")),
        ("deep lists without an end", "[".repeat(100_000)),
        ("deep objects", deep("{\"graph_module\":", "}")),
        ("not JSON", "graph".to_owned()),
        ("nothing", String::new()),
        ("another thing", "[1, 2]".to_owned()),
        ("half", String::from_utf8_lossy(&model().records[GRAPH][..9000]).into_owned()),
    ] {
        cases.misread(what, &model().with(GRAPH, text).zip(), &READ, &[GRAPH, "schema"]);
    }
    cases.misread("no UTF-8", &model().with(GRAPH, vec![b'"', 0xff, b'"']).zip(), &READ, &[GRAPH]);
    cases.misread("deep table", &model().with(WEIGHTS, deep("[", "]")).zip(), &READ, &[WEIGHTS]);
    for (version, words) in [(json!(7), "7."), (json!(9), "9."), (json!(-1), "-1."), (json!("8"), GRAPH)] {
        cases.misread("version", &model().graph("/schema_version/major", version).zip(), &READ, &["schema", words]);
    }
    let long = |n: usize| Value::String("Add(".repeat(n));
    let size = format!("{VALUES}/x/sizes/0/as_expr/expr_str");
    cases.misread("deep size", &model().graph(&size, long(100_000)).zip(), &READ, &["`x`"]);
    cases.misread("odd size", &model().graph(&size, json!("s * 2")).zip(), &READ, &["`x`", "s * 2"]);
    cases.finish(30);
}

#[test]
fn sizes_that_overflow_or_are_negative() {
    let mut cases = Cases::new("pt2");
    let model = Model::open;
    let size = |value: Value| model().graph(&format!("{VALUES}/x/sizes"), value);
    let int = |n: i64| json!({"as_int": n});
    cases.misread("negative", &size(json!([int(-4), int(8)])).zip(), &READ, &["`x`", "-4"]);
    cases.misread(
        "beyond 64 bits",
        &size(json!([{"as_int": u64::MAX}, int(8)])).zip(),
        &READ,
        &[GRAPH, "18446744073709551615"],
    );
    cases.misread(
        "product",
        &size(json!([int(1 << 40), int(1 << 40)])).zip(),
        &READ,
        &["`mul`", "f32[1099511627776, 1099511627776]"],
    );
    cases.misread("largest", &size(json!([int(i64::MAX), int(8)])).zip(), &READ, &["`mul`", "9223372036854775807"]);
    let both = |value: Value| {
        let pointer = format!("{VALUES}/b_cache/sizes");
        model().weight("/tensor_meta/sizes", value.clone()).graph(&pointer, value)
    };
    cases.misread("short", &both(json!([int(7), int(8)])).zip(), &READ, &["`cache`", "beyond its 192 bytes"]);
    cases.misread("huge", &both(json!([int(1 << 40), int(8)])).zip(), &READ, &["`cache`", "192 bytes"]);
    cases.misread("overflow", &both(json!([int(1 << 62), int(1 << 62)])).zip(), &READ, &["`cache`", "192 bytes"]);
    cases.misread("negative rows", &both(json!([int(-6), int(8)])).zip(), &READ, &["-6"]);
    let meta = |field: &str, value: Value| model().weight(&format!("/tensor_meta/{field}"), value);
    cases.misread(
        "other",
        &meta("sizes", json!([int(3), int(8)])).zip(),
        &READ,
        &["`cache`", "f32[3, 8]", "f32[6, 8]"],
    );
    cases.misread("strides", &meta("strides", json!([int(i64::MAX), int(1)])).zip(), &READ, &["`cache`", "192 bytes"]);
    cases.misread(
        "negative stride",
        &meta("strides", json!([int(-8), int(1)])).zip(),
        &READ,
        &["`cache`", "stride -8"],
    );
    cases.misread("few strides", &meta("strides", json!([int(1)])).zip(), &READ, &["`cache`", "1 strides"]);
    cases.misread("offset", &meta("storage_offset", int(1)).zip(), &READ, &["`cache`", "192 bytes"]);
    cases.misread("far offset", &meta("storage_offset", int(i64::MAX)).zip(), &READ, &["`cache`", "192 bytes"]);
    cases.misread("negative offset", &meta("storage_offset", int(-1)).zip(), &READ, &["`cache`", "offset -1"]);
    let less = model().with("data/weights/weight_0", vec![0; 188]);
    cases.misread("short record", &less.zip(), &READ, &["`cache`", "188 bytes"]);
    let range =
        |min: Value, max: Value| model().graph("/range_constraints/s55", json!({"min_val": min, "max_val": max}));
    cases.misread("empty range", &range(json!(9), json!(3)).zip(), &READ, &["`s55`", "9"]);
    let node = |pointer: &str, value: Value| model().graph(&format!("{NODES}/{pointer}"), value);
    cases.misread("dim", &node("3/inputs/1/arg/as_int", json!(i64::MIN)).zip(), &RUN, &["slice"]);
    cases.misread("step", &node("5/inputs/4/arg/as_int", json!(0)).zip(), &RUN, &["slice"]);
    cases.finish(34);
}

#[test]
fn names_that_do_not_add_up() {
    let mut cases = Cases::new("pt2");
    let model = Model::open;
    let operand = |name: &str| model().graph(&format!("{NODES}/0/inputs/0/arg/as_tensor/name"), json!(name));
    cases.misread("cyclic", &operand("mul").zip(), &READ, &["`mul`", "mul"]);
    cases.misread("later", &operand("slice_1").zip(), &READ, &["`slice_1`", "mul"]);
    cases.misread("dangling", &operand("nobody").zip(), &READ, &["`nobody`", "mul"]);
    let result = |name: &str| model().graph(&format!("{NODES}/0/outputs/0/as_tensor/name"), json!(name));
    cases.misread("double", &result("x").zip(), &READ, &["`x`"]);
    cases.misread("without a type", &result("nobody").zip(), &READ, &["`nobody`"]);
    let inputs = |name: &str| model().graph(&format!("{INPUTS}/3/user_input/arg/as_tensor/name"), json!(name));
    cases.misread("double input", &inputs("x").zip(), &READ, &["signature says `x`"]);
    cases.misread("dangling input", &inputs("nobody").zip(), &READ, &["`nobody`"]);
    let output = model().graph(&format!("{OUTPUTS}/0/user_output/arg/as_tensor/name"), json!("nobody"));
    cases.misread("dangling output", &output.zip(), &READ, &["`add`", "signature says `nobody`"]);
    let listed = "/graph_module/graph/outputs";
    let output = output.graph(&format!("{listed}/0/as_tensor/name"), json!("nobody"));
    cases.misread("dangling output in both", &output.zip(), &READ, &["`nobody`", "not defined"]);
    let other = model().graph(&format!("{listed}/0/as_tensor/name"), json!("mul"));
    cases.misread("another output", &other.zip(), &READ, &["`mul`", "signature says `add`"]);
    cases.misread("no output", &model().graph(OUTPUTS, json!([])).zip(), &READ, &["outputs, its signature 0"]);
    for list in ["inputs", "outputs"] {
        let none = model().graph(&format!("/graph_module/graph/{list}"), json!([]));
        cases.misread(&format!("no {list} of the graph"), &none.zip(), &READ, &["the graph has 0", "its signature"]);
    }
    let twice = model().changed(GRAPH, &format!("{NODES}/0/inputs"), |list| {
        let list = list.as_array_mut().expect("a list");
        list.push(list[1].clone());
    });
    cases.misread("double argument", &twice.zip(), &READ, &["mul", "has the argument `other` twice"]);
    for (table, name) in [("tensor_values", "x"), ("range_constraints", "s55")] {
        let json = String::from_utf8(model().records[GRAPH].clone()).expect("JSON is text");
        let open = format!("\"{table}\": {{");
        let twice = json.replacen(&open, &format!("{open}\"{name}\": {{\"dtype\": 7, \"sizes\": []}}, "), 1);
        let said = format!("`{name}` is listed twice");
        cases.misread(&format!("double in {table}"), &model().with(GRAPH, twice).zip(), &READ, &[GRAPH, &said]);
    }
    let long = "n".repeat(70_000);
    cases.misread("long name", &operand(&long).zip(), &READ, &[GRAPH, "a name of 70000 bytes"]);
    cases.misread("long op", &model().graph(&format!("{NODES}/0/target"), json!(long)).zip(), &READ, &["70000"]);
    cases.misread("name that a terminal obeys", &operand("a\u{1b}[31m").zip(), &READ, &["a\\u{1b}[31m"]);
    let both = model().graph(&format!("{NODES}/0/inputs/0/arg/as_int"), json!(3));
    cases.misread("two kinds of argument", &both.zip(), &READ, &["is both `as_"]);
    let kind = |pointer: &str, kind: &str| {
        model().changed(GRAPH, pointer, |spec| *spec = json!({kind: spec.as_object().and_then(|o| o.values().next())}))
    };
    cases.misread("input kind", &kind(&format!("{INPUTS}/2"), "mystery").zip(), &READ, &["`x`", "mystery"]);
    cases.misread("output kind", &kind(&format!("{OUTPUTS}/0"), "mystery").zip(), &READ, &["`add`", "mystery"]);
    let mutation = json!({"buffer_mutation": {"arg": {"name": "add"}, "buffer_name": "nobody"}});
    cases.misread(
        "mutation",
        &model().graph(&format!("{OUTPUTS}/0"), mutation).zip(),
        &READ,
        &["`add`", "does not exist"],
    );
    cases.finish(27);
}

#[test]
fn dtypes_and_ops_that_are_unknown() {
    let mut cases = Cases::new("pt2");
    let model = Model::open;
    for (code, name) in
        [(99, "number 99"), (9, "complex32"), (-1, "number -1"), (i64::MAX, "number 9223372036854775807")]
    {
        let bad = model().graph(&format!("{VALUES}/x/dtype"), json!(code));
        cases.misread("dtype", &bad.zip(), &READ, &["`x`", name]);
    }
    cases.misread(
        "dtype of a weight",
        &model().weight("/tensor_meta/dtype", json!(99)).zip(),
        &READ,
        &["`cache`", "number 99"],
    );
    cases.misread(
        "sparse weight",
        &model().weight("/tensor_meta/layout", json!(1)).zip(),
        &READ,
        &["`cache`", "memory layout 1"],
    );
    cases.misread(
        "no number",
        &model().graph(&format!("{VALUES}/x/dtype"), json!("f32")).zip(),
        &READ,
        &[GRAPH, "f32"],
    );
    let op = |name: &str| model().graph(&format!("{NODES}/0/target"), json!(name));
    cases.misread("op", &op("torch.ops.aten.frobnicate.default").zip(), &RUN, &["aten.frobnicate"]);
    cases.misread(
        "in-place op",
        &model().graph(&format!("{NODES}/2/target"), json!("torch.ops.aten.frob_.default")).zip(),
        &RUN,
        &["frob_"],
    );
    cases.misread("empty op", &op("").zip(), &RUN, &["mul"]);
    let argument = json!({"as_mystery": {"x": [1, 2, 3]}});
    cases.misread("argument", &model().graph(&format!("{NODES}/0/inputs/1/arg"), argument).zip(), &RUN, &["aten.mul"]);
    cases.finish(16);
}

#[test]
fn ten_thousand_inputs_are_read_in_proportion() {
    let many = |i| format!("more{i}");
    let unlisted = Model::open().changed(GRAPH, "/graph_module/graph", |graph| {
        graph.as_object_mut().expect("an object").remove("inputs");
    });
    let model = unlisted.changed(GRAPH, INPUTS, |list| {
        let spec = |i| json!({"user_input": {"arg": {"as_tensor": {"name": many(i)}}}});
        list.as_array_mut().expect("a list").extend((0..10_000).map(spec));
    });
    let mut cases = Cases::new("pt2");
    cases.misread("no types", &model.zip(), &READ, &["`more0`", "no entry"]);
    let typed = model.changed(GRAPH, VALUES, |values| {
        let meta = values["x"].clone();
        let values = values.as_object_mut().expect("an object");
        values.extend((0..10_000).map(|i| (many(i), meta.clone())));
    });
    let folder = folder();
    let path = crate::support::write(&folder, "many.pt2", typed.zip());
    let said = super::limited(&["explain", &path]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    cases.finish(2);
}
