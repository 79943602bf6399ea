//! Ops that change the shape of a tensor where it stands, or write into views of it.

use super::mutation::{F32, Model};

const TEN: &str = r#"other={"as_int":10}"#;

fn cloned() -> Model {
    Model::default().input("x", F32, &[2, 3]).node("c", &[2, 3], "aten.clone.default", &["self=@x"])
}

fn first_row(model: Model) -> Model {
    let first = ["self=@c", r#"dim={"as_int":0}"#, r#"index={"as_int":0}"#];
    model.node("r", &[3], "aten.select.int", &first)
}

#[test]
fn the_memory_is_that_of_the_operand() {
    let model = first_row(cloned())
        .node("u", &[1, 2, 3], "aten.unsqueeze_.default", &["self=@c", r#"dim={"as_int":0}"#])
        .node("a", &[1, 2, 3], "aten.add_.Tensor", &["self=@u", TEN])
        .node("s", &[2, 3], "aten.squeeze_.dim", &["self=@a", r#"dim={"as_int":0}"#])
        .typed("t", (F32, &[3, 2], &[1, 3]), "aten.t_.default", &["self=@s"])
        .typed("m", (F32, &[3, 2], &[1, 3]), "aten.neg_.default", &["self=@t"])
        .output("m")
        .output("r");
    assert_eq!(model.run(), [vec![-11.0, -14.0, -12.0, -15.0, -13.0, -16.0], vec![-11.0, -12.0, -13.0]]);
}

#[test]
fn the_name_of_the_operand_stands_for_the_view() {
    let model = cloned()
        .typed(
            "t",
            (F32, &[3, 2], &[1, 3]),
            "aten.transpose_.default",
            &["self=@c", r#"dim0={"as_int":0}"#, r#"dim1={"as_int":1}"#],
        )
        .typed("u", (F32, &[3, 1, 2], &[1, 1, 3]), "aten.unsqueeze_.default", &["self=@c", r#"dim={"as_int":1}"#])
        .typed("a", (F32, &[3, 1, 2], &[1, 1, 3]), "aten.add_.Tensor", &["self=@t", TEN])
        .node("y", &[3, 1, 2], "aten.neg.default", &["self=@c"])
        .output("y")
        .output("c");
    let seen = [11.0, 14.0, 12.0, 15.0, 13.0, 16.0];
    assert_eq!(model.run(), [seen.map(|x: f64| -x), seen]);
}

#[test]
fn an_input_is_updated_in_the_shape_that_it_has() {
    let model = Model::default()
        .buffer("b", &[2, 3])
        .typed("t", (F32, &[3, 2], &[1, 3]), "aten.t_.default", &["self=@b"])
        .typed("a", (F32, &[3, 2], &[1, 3]), "aten.add_.Tensor", &["self=@t", "other=@t"])
        .output("a");
    let graph = model.import().expect("a graph");
    assert_eq!(graph.outputs()[0].updates.as_deref(), Some("b"));
    assert_eq!(graph.ty(graph.outputs()[0].value).to_string(), "f32[2, 3]");
    let [lines, columns] = [[2.0, 4.0, 6.0, 8.0, 10.0, 12.0], [2.0, 8.0, 4.0, 10.0, 6.0, 12.0]];
    assert_eq!(model.run(), [lines, columns]);
}

#[test]
fn axes_are_swapped_under_either_name() {
    let model = cloned()
        .typed(
            "t",
            (F32, &[3, 2], &[1, 3]),
            "aten.swapdims_.default",
            &["self=@c", r#"dim0={"as_int":0}"#, r#"dim1={"as_int":1}"#],
        )
        .typed(
            "u",
            (F32, &[3, 2], &[1, 3]),
            "aten.swapaxes.default",
            &["self=@x", r#"axis0={"as_int":1}"#, r#"axis1={"as_int":0}"#],
        )
        .output("t")
        .output("u");
    assert_eq!(model.run(), [[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]; 2]);
}

#[test]
fn what_is_written_at_places_of_a_view_is_read_from_the_buffer() {
    let at = r#"indices={"as_optional_tensors":[{"as_tensor":{"name":"i"}}]}"#;
    let part =
        |n: i64| ["self=@cache".to_owned(), r#"dim={"as_int":0}"#.to_owned(), format!(r#"index={{"as_int":{n}}}"#)];
    let mut model = Model::default().buffer("cache", &[2, 3, 2]).input("i", 5, &[1]).input("new", F32, &[1, 2]);
    for (n, name) in [(0, "k"), (1, "v")] {
        let [own, dim, index] = part(n);
        model = model.node(name, &[3, 2], "aten.select.int", &[&own, &dim, &index]);
    }
    for (name, result) in [("k", "k1"), ("v", "v1")] {
        model = model.node(result, &[3, 2], "aten.index_put_.default", &[&format!("self=@{name}"), at, "values=@new"]);
    }
    let model = model
        .node("a", &[3, 2], "aten.neg.default", &["self=@k1"])
        .node("b", &[3, 2], "aten.neg.default", &["self=@v1"])
        .output("a")
        .output("b");
    let graph = model.import().expect("a graph");
    // Each write once, and both parts are slices of what the last one leaves.
    let negated = graph.nodes().iter().filter(|node| node.op.name() == "neg");
    for node in negated {
        let mut from = graph.def_node(node.operands[0]).expect("a view");
        while from.op.name() == "reshape" {
            from = graph.def_node(from.operands[0]).expect("a view");
        }
        assert_eq!(from.op.name(), "slice", "{graph}");
    }
    let results = model.run();
    assert_eq!(results[1], results[0][..6].iter().map(|x| -x).collect::<Vec<f64>>());
    assert_eq!(results[2], results[0][6..].iter().map(|x| -x).collect::<Vec<f64>>());
}
