//! Ops that overwrite tensors: who reads what afterwards, by the numbers that the graph computes.

use super::{meta, model_json, packed, refused};
use crate::diag::Diagnostic;
use crate::graph::{Graph, InputKind};
use crate::import::pt2;
use crate::interp::{self, Symbols};
use crate::tensor::{Data, Tensor};
use crate::{DType, Op, Prim};

pub(super) const F32: i64 = 7;

/// A model written node by node; every tensor is f32 unless a dtype is given.
#[derive(Default)]
pub(super) struct Model {
    inputs: Vec<String>,
    nodes: Vec<String>,
    values: Vec<String>,
    outputs: Vec<String>,
    /// Names and numbers of the buffers.
    data: Vec<(String, usize)>,
    table: Vec<String>,
}

fn tensor(name: &str) -> String {
    format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#)
}

fn contiguous(sizes: &[i64]) -> Vec<i64> {
    (0..sizes.len()).map(|i| sizes[i + 1..].iter().product()).collect()
}

impl Model {
    fn value(mut self, name: &str, dtype: i64, sizes: &[i64], strides: &[i64]) -> Self {
        self.values.push(format!(r#""{name}":{}"#, meta(dtype, sizes, strides, 0)));
        self
    }

    pub(super) fn input(mut self, name: &str, dtype: i64, sizes: &[i64]) -> Self {
        self.inputs.push(format!(r#"{{"user_input":{{"arg":{}}}}}"#, tensor(name)));
        self.value(name, dtype, sizes, &contiguous(sizes))
    }

    pub(super) fn buffer(self, name: &str, sizes: &[i64]) -> Self {
        self.stored("buffer", name, sizes)
    }

    /// A tensor of the file, of a kind, that holds 1, 2, ….
    pub(super) fn stored(mut self, kind: &str, name: &str, sizes: &[i64]) -> Self {
        self.inputs.push(format!(r#"{{"{kind}":{{"arg":{{"name":"{name}"}},"{kind}_name":"{name}"}}}}"#));
        let ty = meta(F32, sizes, &contiguous(sizes), 0);
        self.table.push(format!(r#""{name}":{{"path_name":"{name}","tensor_meta":{ty}}}"#));
        self.data.push((name.to_owned(), usize::try_from(sizes.iter().product::<i64>()).expect("small")));
        self.value(name, F32, sizes, &contiguous(sizes))
    }

    /// A node; arguments are `name=JSON`, where `name=@x` is the tensor `x`; the result has the given type.
    pub(super) fn node(self, result: &str, sizes: &[i64], target: &str, arguments: &[&str]) -> Self {
        let strides = contiguous(sizes);
        self.typed(result, (F32, sizes, &strides), target, arguments)
    }

    pub(super) fn typed(mut self, result: &str, ty: (i64, &[i64], &[i64]), target: &str, arguments: &[&str]) -> Self {
        let argument = |text: &&str| {
            let (name, value) = text.split_once('=').expect("name=value");
            let value = value.strip_prefix('@').map_or_else(|| value.to_owned(), tensor);
            format!(r#"{{"name":"{name}","arg":{value},"kind":1}}"#)
        };
        let arguments: Vec<String> = arguments.iter().map(argument).collect();
        self.nodes.push(format!(
            r#"{{"target":"torch.ops.{target}","inputs":[{}],"outputs":[{}],"name":"{result}",
            "metadata":{{"stack_trace":"File \"model.py\", line {}, in forward"}}}}"#,
            arguments.join(","),
            tensor(result),
            self.nodes.len() + 1,
        ));
        self.value(result, ty.0, ty.1, ty.2)
    }

    /// The value made last begins at this element of its memory.
    fn from(mut self, offset: i64) -> Self {
        let stated = self.values.pop().expect("a value");
        let at = |offset: i64| format!(r#""storage_offset":{{"as_int":{offset}}}"#);
        self.values.push(stated.replace(&at(0), &at(offset)));
        self
    }

    pub(super) fn output(mut self, name: &str) -> Self {
        self.outputs.push(format!(r#"{{"user_output":{{"arg":{}}}}}"#, tensor(name)));
        self
    }

    pub(super) fn import(&self) -> Result<Graph, Diagnostic> {
        let (inputs, nodes) = (self.inputs.join(","), self.nodes.join(","));
        let json = model_json(&inputs, &nodes, &self.values.join(","), &self.outputs.join(","));
        let table = format!(r#"{{"config":{{{}}}}}"#, self.table.join(","));
        let data: Vec<(String, Vec<u8>)> = (self.data.iter())
            .map(|(name, n)| {
                (format!("data/weights/{name}"), (1..=*n).flat_map(|i| (i as f32).to_le_bytes()).collect())
            })
            .collect();
        let mut records = vec![("models/model.json", json.as_bytes())];
        records.push(("data/weights/model_weights_config.json", table.as_bytes()));
        records.extend(data.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
        pt2(&packed(&records).into())
    }

    /// The results on the numbers 1, 2, … in every input.
    #[track_caller]
    pub(super) fn run(&self) -> Vec<Vec<f64>> {
        let graph = self.import().expect("a graph");
        crate::verify::verify(&graph).expect("a valid graph");
        run(&graph)
    }
}

#[track_caller]
fn run(graph: &Graph) -> Vec<Vec<f64>> {
    let count = |ty: &crate::TensorType| -> Vec<usize> {
        ty.shape.iter().map(|d| usize::try_from(d.as_const().expect("known")).expect("small")).collect()
    };
    let inputs: Vec<Tensor> = graph
        .inputs()
        .iter()
        .filter(|input| matches!(input.kind, InputKind::User))
        .map(|input| {
            let ty = graph.ty(input.value);
            let (shape, dtype) = (count(ty), ty.dtype);
            let n: usize = shape.iter().product();
            let data = match dtype {
                DType::I64 => Data::Int((0..n as i64).collect()),
                DType::Bool => Data::Int((0..n as i64).map(|i| i % 2).collect()),
                _ => Data::Float((1..=n).map(|i| i as f64).collect()),
            };
            Tensor::new(dtype, shape, data).expect("a tensor")
        })
        .collect();
    let results = interp::run(graph, &inputs, &Symbols::new()).expect("has a value");
    results.iter().map(|t| t.floats().expect("floats").to_vec()).collect()
}

const ONE: &str = r#"{"as_int":1}"#;
const TEN: &str = r#"{"as_float":10.0}"#;

/// `x: f32[2, 3]` cloned to `c`.
fn cloned() -> Model {
    Model::default().input("x", F32, &[2, 3]).node("c", &[2, 3], "aten.clone.default", &["self=@x"])
}

#[test]
fn later_readers_of_an_overwritten_tensor_see_the_new_value() {
    let model = cloned()
        .node("a", &[2, 3], "aten.add_.Tensor", &["self=@c", &format!("other={TEN}")])
        .node("y", &[2, 3], "aten.neg.default", &["self=@c"])
        .output("y")
        .output("a")
        .output("c");
    let sum: Vec<f64> = (11..=16).map(f64::from).collect();
    assert_eq!(model.run(), [sum.iter().map(|v| -v).collect(), sum.clone(), sum]);
}

#[test]
fn readers_before_an_overwrite_keep_the_old_value() {
    let model = cloned()
        .node("before", &[2, 3], "aten.neg.default", &["self=@c"])
        .node("a", &[2, 3], "aten.zero_.default", &["self=@c"])
        .node("y", &[2, 3], "aten.sub.Tensor", &["self=@c", "other=@before"])
        .output("y");
    assert_eq!(model.run(), [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]);
}

#[test]
fn an_overwrite_of_a_view_reaches_its_base_and_other_views() {
    let dim = |n: i64| format!(r#"dim={{"as_int":{n}}}"#);
    let int = |name: &str, n: i64| format!(r#"{name}={{"as_int":{n}}}"#);
    let model = cloned()
        .node("flat", &[6], "aten.view.default", &["self=@c", r#"size={"as_ints":[6]}"#])
        .typed("turned", (F32, &[3, 2], &[1, 3]), "aten.t.default", &["self=@c"])
        .typed("column", (F32, &[3, 1], &[1, 1]), "aten.slice.Tensor", &["self=@turned", &dim(1), &int("start", 1)])
        .typed("m", (F32, &[3, 1], &[1, 1]), "aten.mul_.Tensor", &["self=@column", &format!("other={TEN}")])
        .node("z", &[3], "aten.select.int", &["self=@c", &dim(0), &int("index", 0)])
        .node("w", &[3], "aten.add_.Tensor", &["self=@z", &format!("other={ONE}")])
        .output("c")
        .output("flat")
        .output("turned")
        .output("m");
    let rows = vec![2.0, 3.0, 4.0, 40.0, 50.0, 60.0];
    let columns = vec![2.0, 40.0, 3.0, 50.0, 4.0, 60.0];
    assert_eq!(model.run(), [rows.clone(), rows, columns, vec![40.0, 50.0, 60.0]]);
}

#[test]
fn every_second_element_of_a_buffer_is_overwritten() {
    let step = [r#"dim={"as_int":1}"#, r#"start={"as_int":1}"#, r#"step={"as_int":2}"#];
    let arguments: Vec<&str> = ["self=@c"].into_iter().chain(step).collect();
    let model = Model::default()
        .input("x", F32, &[2, 5])
        .node("c", &[2, 5], "aten.clone.default", &["self=@x"])
        .typed("odd", (F32, &[2, 2], &[5, 2]), "aten.slice.Tensor", &arguments)
        .typed("n", (F32, &[2, 2], &[5, 2]), "aten.neg_.default", &["self=@odd"])
        .output("c");
    assert_eq!(model.run(), [[1.0, -2.0, 3.0, -4.0, 5.0, 6.0, -7.0, 8.0, -9.0, 10.0]]);
}

#[test]
fn copies_share_nothing() {
    let to = |target: &'static str, extra: &'static str| {
        let model = cloned().node("d", &[2, 3], target, &["self=@c", extra]);
        model.node("a", &[2, 3], "aten.zero_.default", &["self=@c"]).output("d").run()
    };
    let (old, new) = (vec![(1..=6).map(f64::from).collect::<Vec<_>>()], vec![vec![0.0; 6]]);
    assert_eq!(to("aten.clone.default", r#"memory_format={"as_none":true}"#), old);
    let copy = r#"dtype={"as_scalar_type":7}"#;
    assert_eq!(to("aten._to_copy.default", copy), old);
    assert_eq!(to("aten.to.dtype", copy), new);
    assert_eq!(to("aten.contiguous.default", r#"memory_format={"as_none":true}"#), new);
    let rounded = cloned()
        .typed("d", (13, &[2, 3], &[3, 1]), "aten.to.dtype", &["self=@c", r#"dtype={"as_scalar_type":13}"#])
        .node("a", &[2, 3], "aten.zero_.default", &["self=@c"])
        .output("d");
    assert_eq!(rounded.run(), old);
}

#[test]
fn a_reshape_shares_the_buffer_where_strides_allow_it() {
    let zero = |model: Model| model.node("a", &[2, 3], "aten.zero_.default", &["self=@c"]).output("d").run();
    // Of a transposed matrix, these are copies.
    let turned = || cloned().typed("t", (F32, &[3, 2], &[1, 3]), "aten.t.default", &["self=@c"]);
    let old = [[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]];
    assert_eq!(zero(turned().node("d", &[3, 2], "aten.contiguous.default", &["self=@t"])), old);
    let size = r#"shape={"as_ints":[6]}"#;
    assert_eq!(zero(turned().node("d", &[6], "aten.reshape.default", &["self=@t", size])), old);
    // Each column of it lies as before.
    let size = r#"shape={"as_ints":[3,2,1]}"#;
    assert_eq!(zero(turned().node("d", &[3, 2, 1], "aten.reshape.default", &["self=@t", size])), [[0.0; 6]]);
}

#[test]
fn a_stretched_view_cannot_be_overwritten() {
    let size = r#"size={"as_ints":[4,3]}"#;
    let model = Model::default()
        .input("x", F32, &[1, 3])
        .node("c", &[1, 3], "aten.clone.default", &["self=@x"])
        .typed("e", (F32, &[4, 3], &[0, 1]), "aten.expand.default", &["self=@c", size])
        .node("r", &[4, 3], "aten.relu_.default", &["self=@e"])
        .output("c");
    let error = model.import().expect_err("an overlap");
    assert_eq!(error.origin.to_string(), "r (aten.relu_) at model.py:3 (forward)");
    refused(Err::<(), _>(error), "import.alias", "stands at several places of the view");
}

#[test]
fn a_view_that_is_not_followed_must_not_be_read_after_an_overwrite() {
    let model = |read: &str, sizes: &[i64], strides: &[i64]| {
        let list = |name: &str, of: &[i64]| format!(r#"{name}={{"as_ints":{of:?}}}"#);
        let arguments = ["self=@c", &list("size", sizes), &list("stride", strides)];
        cloned()
            .typed("d", (F32, sizes, strides), "aten.as_strided.default", &arguments)
            .node("a", &[2, 3], "aten.neg_.default", &["self=@c"])
            .output(read)
    };
    // Places beyond the buffer are in no view of it.
    let outside = |read: &str| model(read, &[2, 2], &[1, 5]);
    let error = outside("d").import().expect_err("an unknown view");
    assert_eq!(error.origin.to_string(), "a (aten.neg_) at model.py:3 (forward)");
    refused(Err::<(), _>(error), "import.alias", "`c` is overwritten while `d`, which may share its buffer");
    assert!(outside("c").import().is_ok());
    assert_eq!(model("d", &[2], &[4]).run(), [[-1.0, -5.0]]);
}

#[test]
fn views_that_no_layout_cuts_out_are_followed_by_their_places() {
    let list = |name: &str, of: &[i64]| format!(r#"{name}={{"as_ints":{of:?}}}"#);
    let int = |name: &str, n: i64| format!(r#"{name}={{"as_int":{n}}}"#);
    // Windows that overlap are read again, and no place of them is one to write to.
    let overlapping = |written: &str, read: &str| {
        let arguments = ["self=@c", &list("size", &[2, 2]), &list("stride", &[1, 1])];
        let model = cloned().typed("d", (F32, &[2, 2], &[1, 1]), "aten.as_strided.default", &arguments);
        model.node("a", &[2, 3], "aten.neg_.default", &[&format!("self=@{written}")]).output(read)
    };
    assert_eq!(overlapping("c", "d").run(), [[-1.0, -2.0, -2.0, -3.0]]);
    let several = "`d` is overwritten while `c`, which may share its buffer, is still read: one element of the buffer \
                   stands at several places of the view";
    refused(overlapping("d", "c").import(), "import.alias", several);
    // Windows of two elements with one between them, of which no whole number fits.
    let windows = Model::default()
        .input("x", F32, &[2, 5])
        .node("c", &[2, 5], "aten.clone.default", &["self=@x"])
        .typed(
            "u",
            (F32, &[2, 2, 2], &[5, 3, 1]),
            "aten.unfold.default",
            &["self=@c", &int("dimension", 1), &int("size", 2), &int("step", 3)],
        )
        .typed("n", (F32, &[2, 2, 2], &[5, 3, 1]), "aten.neg_.default", &["self=@u"])
        .output("c")
        .output("u");
    let whole = vec![-1.0, -2.0, 3.0, -4.0, -5.0, -6.0, -7.0, 8.0, -9.0, -10.0];
    let parts = whole.iter().copied().filter(|v| *v < 0.0).collect();
    assert_eq!(windows.run(), [whole, parts]);
}

/// `x: f32[2, 2]` cloned to `c`, as complex numbers `z`.
fn complex() -> Model {
    let model = Model::default().input("x", F32, &[2, 2]).node("c", &[2, 2], "aten.clone.default", &["self=@x"]);
    model.typed("z", (10, &[2], &[1]), "aten.view_as_complex.default", &["self=@c"])
}

#[test]
fn parts_of_tensors_by_every_name_are_views_of_them() {
    let ten = format!("other={TEN}");
    let part = |target: &str, part: &str| {
        let argument = format!("{}=@{part}", if target.contains("linalg") { "A" } else { "self" });
        let model = if part == "z" { complex() } else { cloned() };
        let stride = if part == "z" { 2 } else { 4 };
        model
            .typed("p", (F32, &[2], &[stride]), target, &[&argument])
            .typed("m", (F32, &[2], &[stride]), "aten.mul_.Tensor", &["self=@p", &ten])
            .output("c")
            .run()
    };
    assert_eq!(part("aten.imag.default", "z"), [[1.0, 20.0, 3.0, 40.0]]);
    assert_eq!(part("aten.real.default", "z"), [[10.0, 2.0, 30.0, 4.0]]);
    assert_eq!(part("aten.linalg_diagonal.default", "c"), [[10.0, 2.0, 3.0, 4.0, 50.0, 6.0]]);
    let conjugate = complex().typed("p", (10, &[2], &[1]), "aten._conj.default", &["self=@z"]);
    let conjugate = conjugate.typed("m", (10, &[2], &[1]), "aten.mul_.Tensor", &["self=@p", &ten]).output("c");
    refused(conjugate.import(), "import.alias", "`p` is overwritten while `c`, which may share its buffer");
}

#[test]
fn pieces_and_grids_are_views() {
    let several = |mut model: Model, target: &str, arguments: &str, results: [(&str, &[i64], &[i64]); 2]| {
        let names: Vec<String> = results.iter().map(|(name, ..)| format!(r#"{{"name":"{name}"}}"#)).collect();
        let outputs = names.join(",");
        model.nodes.push(format!(
            r#"{{"target":"torch.ops.{target}","inputs":[{arguments}],"outputs":[{{"as_tensors":[{outputs}]}}],"name":"p"}}"#
        ));
        let [(a, a_sizes, a_strides), (b, b_sizes, b_strides)] = results;
        model.value(a, F32, a_sizes, a_strides).value(b, F32, b_sizes, b_strides)
    };
    let model = Model::default().input("x", F32, &[2, 4]).node("c", &[2, 4], "aten.clone.default", &["self=@x"]);
    let halves = r#"{"name":"self","arg":{"as_tensor":{"name":"c"}}},{"name":"sections","arg":{"as_int":2}}"#;
    let halves = several(model, "aten.hsplit.int", halves, [("p", &[2, 2], &[4, 1]), ("q", &[2, 2], &[4, 1])]);
    let halves = halves.typed("n", (F32, &[2, 2], &[4, 1]), "aten.neg_.default", &["self=@q"]).output("c");
    assert_eq!(halves.run(), [[1.0, 2.0, -3.0, -4.0, 5.0, 6.0, -7.0, -8.0]]);
    let model = Model::default().input("x", F32, &[2]).input("y", F32, &[3]);
    let model = model.node("c", &[2], "aten.clone.default", &["self=@x"]);
    let model = model.node("d", &[3], "aten.clone.default", &["self=@y"]);
    let both = r#"{"name":"tensors","arg":{"as_tensors":[{"name":"c"},{"name":"d"}]}}"#;
    let grid = several(model, "aten.meshgrid.default", both, [("p", &[2, 3], &[1, 0]), ("q", &[2, 3], &[0, 1])]);
    let grid = grid.node("n", &[3], "aten.neg_.default", &["self=@d"]).output("p").output("q");
    assert_eq!(grid.run(), [[1.0, 1.0, 1.0, 2.0, 2.0, 2.0], [-1.0, -2.0, -3.0, -1.0, -2.0, -3.0]]);
}

#[test]
fn bits_that_are_overwritten_are_those_of_the_buffer() {
    let model = cloned()
        .typed("i", (4, &[2, 3], &[3, 1]), "aten.view.dtype", &["self=@c", r#"dtype={"as_scalar_type":4}"#])
        .typed("r", (4, &[3], &[1]), "aten.select.int", &["self=@i", r#"dim={"as_int":0}"#, r#"index={"as_int":1}"#])
        .typed("z", (4, &[3], &[1]), "aten.zero_.default", &["self=@r"])
        .output("c");
    assert_eq!(model.run(), [[1.0, 2.0, 3.0, 0.0, 0.0, 0.0]]);
}

#[test]
fn what_a_functional_write_left_is_read_again_as_it_was() {
    let int = |name: &str, n: i64| format!(r#"{name}={{"as_int":{n}}}"#);
    let (size, stride) = (r#"size={"as_ints":[1,3]}"#, r#"stride={"as_ints":[1,4]}"#);
    let write = |model: Model, to: &str, [from, src]: [&str; 2], offset: i64| {
        let arguments =
            [&format!("self=@{from}"), &format!("src=@{src}"), size, stride, &int("storage_offset", offset)];
        model.node(to, &[12], "aten.as_strided_scatter.default", &arguments)
    };
    let read = |model: Model, to: &str, from: &str, offset: i64| {
        let arguments = [&format!("self=@{from}"), size, stride, &int("storage_offset", offset)];
        model.typed(to, (F32, &[1, 3], &[1, 4]), "aten.as_strided.default", &arguments).from(offset).output(to)
    };
    let model = Model::default().input("x", F32, &[12]).input("y", F32, &[1, 3]);
    let model = model.node("n", &[1, 3], "aten.neg.default", &["self=@y"]);
    let model = write(write(model, "one", ["x", "y"], 0), "two", ["one", "n"], 2);
    let graph = read(read(model, "a", "two", 0), "b", "two", 2).import().expect("a graph");
    let made = |value| graph.nodes().iter().find(|node| node.results.contains(&value)).map(|node| node.op.name());
    let outputs: Vec<Option<&str>> = graph.outputs().iter().map(|output| made(output.value)).collect();
    assert_eq!(outputs, [None, Some("neg")], "{graph}");
    // A write to the same places takes the first one's.
    let model = Model::default().input("x", F32, &[12]).input("y", F32, &[1, 3]);
    let model = model.node("n", &[1, 3], "aten.neg.default", &["self=@y"]);
    let model = write(write(model, "one", ["x", "y"], 0), "two", ["one", "n"], 0);
    assert_eq!(read(model, "a", "two", 0).run(), [[-1.0, -2.0, -3.0]]);
    // By ranges and places of axes, too.
    let model = Model::default().input("x", F32, &[4, 6]).input("y", F32, &[4, 2]).input("z", F32, &[6]);
    let range = [int("dim", 1), int("start", 1), int("end", 3)];
    let [dim, start, end] = range.each_ref().map(String::as_str);
    let model = model.node("one", &[4, 6], "aten.slice_scatter.default", &["self=@x", "src=@y", dim, start, end]);
    let model = model.typed("a", (F32, &[4, 2], &[6, 1]), "aten.slice.Tensor", &["self=@one", dim, start, end]).from(1);
    let [dim, index] = [int("dim", 0), int("index", 2)];
    let model = model.node("two", &[4, 6], "aten.select_scatter.default", &["self=@x", "src=@z", &dim, &index]);
    let model = model.node("b", &[6], "aten.select.int", &["self=@two", &dim, &index]).from(12);
    let graph = model.output("a").output("b").import().expect("a graph");
    let inputs: Vec<_> = graph.inputs().iter().map(|input| input.value).collect();
    assert_eq!(graph.outputs().iter().map(|output| output.value).collect::<Vec<_>>(), inputs[1..], "{graph}");
}

#[test]
fn views_by_strides_are_written_back_to_their_buffer() {
    let strided = [r#"size={"as_ints":[2,2]}"#, r#"stride={"as_ints":[1,3]}"#, r#"storage_offset={"as_int":1}"#];
    let arguments: Vec<&str> = ["self=@c"].into_iter().chain(strided).collect();
    let model = cloned()
        .typed("d", (F32, &[2, 2], &[1, 3]), "aten.as_strided.default", &arguments)
        .typed("n", (F32, &[2, 2], &[1, 3]), "aten.neg_.default", &["self=@d"])
        .output("c")
        .output("d");
    let (whole, part) = (vec![1.0, -2.0, -3.0, 4.0, -5.0, -6.0], vec![-2.0, -5.0, -3.0, -6.0]);
    assert_eq!(model.run(), [whole.clone(), part.clone()]);
    let arguments = ["self=@x", "src=@n", strided[0], strided[1], strided[2]];
    let core = Model::default()
        .input("x", F32, &[2, 3])
        .typed(
            "d",
            (F32, &[2, 2], &[1, 3]),
            "aten.as_strided.default",
            &["self=@x", strided[0], strided[1], strided[2]],
        )
        .typed("n", (F32, &[2, 2], &[1, 3]), "aten.neg.default", &["self=@d"])
        .node("y", &[2, 3], "aten.as_strided_scatter.default", &arguments)
        .output("y")
        .output("n");
    assert_eq!(core.run(), [whole, part]);
}

#[test]
fn inputs_that_are_overwritten_come_out_first() {
    let model = Model::default()
        .input("x", F32, &[4])
        .buffer("cache", &[3, 2])
        .input("i", 5, &[1])
        .input("new", F32, &[1, 2])
        .node(
            "p",
            &[3, 2],
            "aten.index_put_.default",
            &["self=@cache", r#"indices={"as_optional_tensors":[{"as_tensor":{"name":"i"}}]}"#, "values=@new"],
        )
        .node("half", &[2], "aten.slice.Tensor", &["self=@x", r#"end={"as_int":2}"#])
        .node("f", &[2], "aten.fill_.Scalar", &["self=@half", &format!("value={TEN}")])
        .node("y", &[3, 2], "aten.neg.default", &["self=@p"])
        .output("y");
    let graph = model.import().expect("a graph");
    let updates: Vec<Option<&str>> = graph.outputs().iter().map(|o| o.updates.as_deref()).collect();
    assert_eq!(updates, [Some("x"), Some("cache"), None]);
    let results = run(&graph);
    assert_eq!(results[0], [10.0, 10.0, 3.0, 4.0]);
    assert_eq!(results[1], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(results[2], [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
}

#[test]
fn a_sum_in_place_is_rounded_to_the_dtype_that_holds_it() {
    // 1 + 2^-9 lies between two bf16 values.
    let model = Model::default()
        .input("x", 13, &[1])
        .typed("c", (13, &[1], &[1]), "aten.clone.default", &["self=@x"])
        .node("d", &[1], "aten.full.default", &[r#"size={"as_ints":[1]}"#, r#"fill_value={"as_float":0.001953125}"#])
        .typed("a", (13, &[1], &[1]), "aten.add_.Tensor", &["self=@c", "other=@d"])
        .output("c");
    assert_eq!(model.run(), [[1.0]]);
}

#[test]
fn masks_choose_what_is_overwritten() {
    let fill = |target: &str, mask: &str, value: &str| {
        let arguments = ["self=@c", mask, value];
        Model::default()
            .input("x", F32, &[2, 2])
            .input("m", 12, &[2])
            .node("c", &[2, 2], "aten.clone.default", &["self=@x"])
            .node("one", &[], "aten.full.default", &[r#"size={"as_ints":[]}"#, r#"fill_value={"as_float":9.0}"#])
            .node("a", &[2, 2], target, &arguments)
            .output("c")
            .run()
    };
    let masks = r#"indices={"as_optional_tensors":[{"as_tensor":{"name":"m"}}]}"#;
    assert_eq!(fill("aten.index_put_.default", masks, "values=@one"), [[1.0, 2.0, 9.0, 9.0]]);
    let nine = r#"value={"as_float":9.0}"#;
    assert_eq!(fill("aten.masked_fill_.Scalar", "mask=@m", nine), [[1.0, 9.0, 3.0, 9.0]]);
}

#[test]
fn masks_of_some_axes_take_values_of_the_others() {
    let put = |indices: &str, sizes: &[i64], sum: bool| {
        let indices = format!(r#"indices={{"as_optional_tensors":[{indices}]}}"#);
        let sum = format!(r#"accumulate={{"as_bool":{sum}}}"#);
        let model = Model::default().input("x", F32, &[2, 2]).input("m", 12, &[2]).input("y", F32, sizes);
        let model = model.node("v", sizes, "aten.neg.default", &["self=@y"]);
        let model = model.node("c", &[2, 2], "aten.clone.default", &["self=@x"]);
        model.node("a", &[2, 2], "aten.index_put_.default", &["self=@c", &indices, "values=@v", &sum]).output("c")
    };
    let (mask, none) = (r#"{"as_tensor":{"name":"m"}}"#, r#"{"as_none":true}"#);
    let column = format!("{none},{mask}");
    assert_eq!(put(mask, &[2], false).run(), [[1.0, 2.0, -1.0, -2.0]]);
    assert_eq!(put(mask, &[1, 2], true).run(), [[1.0, 2.0, 2.0, 2.0]]);
    assert_eq!(put(&column, &[2, 1], false).run(), [[1.0, -1.0, 3.0, -2.0]]);
    let refused = |model: Model, why: &str| {
        let text = model.import().expect("a graph").to_string();
        assert!(text.contains(why), "{text}");
    };
    refused(put(mask, &[2, 2], false), "`values` is f32[2, 2]: one for each place where a mask is set");
    refused(put(&format!("{mask},{mask}"), &[1], false), "`indices` is the tensors m, m: a mask beside other indices");
}

#[test]
fn a_diagonal_has_as_many_axes_as_the_tensor_and_may_start_again() {
    let filled = |sizes: &[i64], wrap: bool| {
        let arguments = ["self=@c", r#"fill_value={"as_float":0.0}"#, &format!(r#"wrap={{"as_bool":{wrap}}}"#)];
        let model = Model::default().input("x", F32, sizes).node("c", sizes, "aten.clone.default", &["self=@x"]);
        let results = model.node("a", sizes, "aten.fill_diagonal_.default", &arguments).output("c").run();
        (0..results[0].len()).filter(|&i| results[0][i] == 0.0).collect::<Vec<usize>>()
    };
    assert_eq!(filled(&[6, 2], true), [0, 3, 6, 9]);
    assert_eq!(filled(&[6, 2], false), [0, 3]);
    assert_eq!(filled(&[2, 3], true), [0, 4]);
    assert_eq!(filled(&[3, 3, 3], false), [0, 13, 26]);
}

#[test]
fn calls_with_out_overwrite_it() {
    let model = cloned()
        .node("s", &[2, 3], "aten.add.out", &["self=@x", "other=@x", "out=@c"])
        .node("y", &[2, 3], "aten.neg.default", &["self=@c"])
        .output("y");
    assert_eq!(model.run(), [[-2.0, -4.0, -6.0, -8.0, -10.0, -12.0]]);
}

#[test]
fn in_place_ops_without_a_row_stay_opaque_and_their_operand_has_the_result() {
    let model = cloned()
        .node("a", &[2, 3], "aten.digamma_.default", &["self=@c"])
        .node("y", &[2, 3], "aten.neg.default", &["self=@c"])
        .output("y");
    let graph = model.import().expect("a graph");
    let nodes = graph.nodes();
    assert!(matches!(&nodes[0].op, Op::Prim(Prim::Opaque { target, .. }) if target == "aten.digamma_"));
    assert_eq!(nodes[1].operands, nodes[0].results);
}

#[test]
fn other_memory_in_place_is_refused() {
    let model = cloned().node("u", &[2, 2], "aten.resize_.default", &["self=@c", r#"size={"as_ints":[2,2]}"#]);
    refused(model.output("u").import(), "import.alias", "`aten.resize_` may give a tensor other memory");
}

#[test]
fn core_forms_of_partial_writes() {
    let dims = [r#"dim={"as_int":1}"#, r#"start={"as_int":1}"#, r#"end={"as_int":2}"#];
    let model = cloned()
        .node("s", &[2, 1], "aten.slice.Tensor", &["self=@x", dims[0], dims[1], dims[2]])
        .node("n", &[2, 1], "aten.neg.default", &["self=@s"])
        .node("y", &[2, 3], "aten.slice_scatter.default", &["self=@c", "src=@n", dims[0], dims[1], dims[2]])
        .node("r", &[3], "aten.select.int", &["self=@x", r#"dim={"as_int":0}"#, r#"index={"as_int":0}"#])
        .node(
            "z",
            &[2, 3],
            "aten.select_scatter.default",
            &["self=@y", "src=@r", r#"dim={"as_int":0}"#, r#"index={"as_int":-1}"#],
        )
        .output("y")
        .output("z");
    assert_eq!(model.run(), [[1.0, -2.0, 3.0, 4.0, -5.0, 6.0], [1.0, -2.0, 3.0, 1.0, 2.0, 3.0]]);
}
