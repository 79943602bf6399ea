//! Indices and ranges whose bounds are symbols, by the slices that they become.

use fusewright_abi::DType;

use super::attention::{argument, call, tensor};
use super::{model_json, packed};
use crate::graph::{Graph, Op};
use crate::import::pt2;
use crate::interp::{Symbols, run};
use crate::prim::Prim;
use crate::tensor::Tensor;

/// A size as the file writes it: a number, or an expression of `@s` and `@t`.
fn size(extent: &str) -> String {
    match extent.parse::<i64>() {
        Ok(n) => format!(r#"{{"as_int":{n}}}"#),
        Err(_) => format!(r#"{{"as_expr":{{"expr_str":"{}"}}}}"#, expression(extent)),
    }
}

fn expression(text: &str) -> String {
    text.replace("@s", "Symbol('s')").replace("@t", "Symbol('t')")
}

/// A model of one node on `x: f32[s]` and `y: f32[t]`; the symbolic integer `n` is `index`.
pub(super) fn on_lines(node: &str, index: &str, result: &str) -> Result<Graph, String> {
    let ty = |extent: &str| {
        let sizes = if extent.is_empty() { String::new() } else { size(extent) };
        format!(r#"{{"dtype":7,"sizes":[{sizes}]}}"#)
    };
    let value = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
    let specs = ["x", "y"].map(|name| format!(r#"{{"user_input":{{"arg":{}}}}}"#, value(name)));
    let types = [("x", "@s"), ("y", "@t"), ("z", result)].map(|(name, extent)| format!(r#""{name}":{}"#, ty(extent)));
    let node = format!(r#"{{{node},"outputs":[{}],"name":"n"}}"#, value("z"));
    let output = format!(r#"{{"user_output":{{"arg":{}}}}}"#, value("z"));
    let json = model_json(&specs.join(","), &node, &types.join(","), &output);
    let sizes = format!(r#""sym_int_values":{{"n":{}}}"#, size(index));
    let ranges = r#""range_constraints":{"s":{"min_val":3},"t":{"min_val":3}}"#;
    let json = json.replacen(r#""sym_int_values":{}"#, &sizes, 1).replacen(r#""range_constraints":{}"#, ranges, 1);
    pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).map_err(|e| e.to_string())
}

fn named(name: &str) -> String {
    argument(name, r#"{"as_sym_int":{"as_name":"n"}}"#)
}

fn int(name: &str, value: i64) -> String {
    argument(name, &format!(r#"{{"as_int":{value}}}"#))
}

#[track_caller]
fn slice_of(graph: Result<Graph, String>) -> String {
    let graph = graph.unwrap_or_else(|e| panic!("{e}"));
    let found = graph.nodes().iter().find_map(|node| match &node.op {
        Op::Prim(Prim::Slice { start, end, .. }) => Some(format!("{start}..{end}")),
        _ => None,
    });
    found.expect("a slice")
}

#[test]
fn indices_below_zero_count_from_the_end() {
    let select = |index: &str| {
        let node = call("aten.select.int", &[tensor("self", "x"), int("dim", 0), named("index")]);
        slice_of(on_lines(&node, index, ""))
    };
    assert_eq!(select("Mul(Integer(-1), @t)"), "s - t..s - t + 1");
    assert_eq!(select("Mul(Integer(-1), FloorDiv(@s, Integer(2)))"), "s - floordiv(s, 2)..s - floordiv(s, 2) + 1");
    assert_eq!(select("@t"), "t..t + 1");
    // Only a call can tell.
    let either = select("Add(@t, Integer(-5))");
    assert!(either.starts_with("s*max(0, min(1, -t + 5)) + t - 5.."), "{either}");
    let narrow = call("aten.narrow.default", &[tensor("self", "x"), int("dim", 0), named("start"), int("length", 2)]);
    assert_eq!(slice_of(on_lines(&narrow, "Mul(Integer(-1), @t)", "2")), "s - t..s - t + 2");
}

#[test]
fn ranges_are_those_of_which_the_file_states_the_extent() {
    let slice = |bounds: &[String], index: &str, result: &str| {
        let arguments = [&[tensor("self", "x"), int("dim", 0)], bounds].concat();
        slice_of(on_lines(&call("aten.slice.Tensor", &arguments), index, result))
    };
    let none = || argument("start", r#"{"as_none":true}"#);
    assert_eq!(slice(&[named("start")], "Mul(Integer(-1), @t)", "@t"), "s - t..s");
    assert_eq!(slice(&[none(), named("end")], "Mul(Integer(-1), @t)", "Add(@s, Mul(Integer(-1), @t))"), "0..s - t");
    assert_eq!(slice(&[none(), named("end")], "@t", "@t"), "0..t");
    assert_eq!(slice(&[named("start")], "@t", "Add(@s, Mul(Integer(-1), @t))"), "t..s");
    assert_eq!(slice(&[named("start")], "Add(@s, Mul(Integer(-1), @t))", "@t"), "s - t..s");
    assert_eq!(slice(&[int("start", -16)], "@t", "16"), "s - 16..s");
    let longest = "Add(Max(@s, @t), Integer(-4))";
    assert_eq!(slice(&[none(), named("end")], longest, longest), "0..max(s, t) - 4");
    // Where the file states the clamped extent, it is clamped.
    assert_eq!(slice(&[none(), named("end")], "@t", "Min(@s, @t)"), "0..min(t, s)");
}

/// A model of one node on `x` and `y: f32`, and `i: i64`, of some sizes, with what stands before it.
fn on_tensors(sizes: [&[i64]; 4], nodes: &[(String, &str, &[i64])]) -> Graph {
    let value = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
    let ty = |name: &str, dtype: i64, sizes: &[i64]| {
        let sizes: Vec<String> = sizes.iter().map(|n| format!(r#"{{"as_int":{n}}}"#)).collect();
        format!(r#""{name}":{{"dtype":{dtype},"sizes":[{}]}}"#, sizes.join(","))
    };
    let [x, y, i, z] = sizes;
    let mut types = vec![ty("x", 7, x), ty("y", 7, y), ty("i", 5, i), ty("z", 7, z)];
    types.extend(nodes.iter().filter(|(_, name, _)| *name != "z").map(|(_, name, sizes)| match *name {
        name if name.starts_with('j') => ty(name, 5, sizes),
        name => ty(name, 7, sizes),
    }));
    let node =
        |(call, name, _): &(String, &str, &[i64])| format!(r#"{{{call},"outputs":[{}],"name":"{name}"}}"#, value(name));
    let nodes: Vec<String> = nodes.iter().map(node).collect();
    let specs = ["x", "y", "i"].map(|name| format!(r#"{{"user_input":{{"arg":{}}}}}"#, value(name)));
    let output = format!(r#"{{"user_output":{{"arg":{}}}}}"#, value("z"));
    let json = model_json(&specs.join(","), &nodes.join(","), &types.join(","), &output);
    pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).unwrap_or_else(|e| panic!("{e}"))
}

/// What a graph computes of `x` counted up from 0, `y` down from −1, and an index.
fn counted(graph: &Graph, sizes: [&[usize]; 2], index: (&[usize], &[i64])) -> Vec<f64> {
    let line = |sizes: &[usize], sign: f64| {
        let elements: usize = sizes.iter().product();
        let from = if sign < 0.0 { 1.0 } else { 0.0 };
        Tensor::from_f64(DType::F32, sizes, (0..elements).map(|n| sign * (from + n as f64)).collect()).expect("fits")
    };
    let index = Tensor::from_i64(DType::I64, index.0, index.1.to_vec()).expect("fits");
    let found = run(graph, &[line(sizes[0], 1.0), line(sizes[1], -1.0), index], &Symbols::new()).expect("runs");
    found[0].floats().expect("floats").to_vec()
}

#[test]
fn an_index_that_is_repeated_along_the_other_axes_chooses_slices() {
    let list = |sizes: &[i64]| {
        format!(r#"{{"as_ints":[{}]}}"#, sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
    };
    let expand = |sizes: &[i64]| call("aten.expand.default", &[tensor("self", "i"), argument("size", &list(sizes))]);
    let written = [tensor("self", "x"), int("dim", 0), tensor("index", "j"), tensor("src", "y")];
    let scatter = (call("aten.scatter.src", &written), "z", &[4, 2][..]);
    let axis = |graph: &Graph| {
        graph.nodes().iter().find_map(|node| match &node.op {
            Op::Prim(Prim::Scatter { axis } | Prim::Gather { axis }) => {
                Some((*axis, graph.ty(node.operands[0]).rank()))
            }
            _ => None,
        })
    };
    let rows = on_tensors([&[4, 2], &[3, 2], &[3, 1], &[4, 2]], &[(expand(&[3, 2]), "j", &[3, 2]), scatter.clone()]);
    assert_eq!(axis(&rows), Some((0, 2)), "{rows}");
    let found = counted(&rows, [&[4, 2], &[3, 2]], (&[3, 1], &[-1, 0, -1]));
    assert_eq!(found, [-3.0, -4.0, 2.0, 3.0, 4.0, 5.0, -5.0, -6.0]);
    // Fewer lanes than there are.
    let part =
        on_tensors([&[4, 3], &[3, 2], &[3, 1], &[4, 3]], &[(expand(&[3, 2]), "j", &[3, 2]), (scatter.0, "z", &[4, 3])]);
    assert_eq!(axis(&part), Some((0, 1)), "{part}");
    let taken = call("aten.gather.default", &[tensor("self", "x"), int("dim", 1), tensor("index", "j")]);
    let lanes =
        on_tensors([&[2, 3], &[1], &[1, 4], &[2, 4]], &[(expand(&[2, 4]), "j", &[2, 4]), (taken, "z", &[2, 4])]);
    assert_eq!(axis(&lanes), Some((1, 2)), "{lanes}");
    assert_eq!(counted(&lanes, [&[2, 3], &[1]], (&[1, 4], &[2, -3, 0, 1])), [2.0, 0.0, 0.0, 1.0, 5.0, 3.0, 3.0, 4.0]);
}

#[test]
fn functions_of_counters_are_the_same_in_every_row() {
    let list = |name: &str, sizes: &[i64]| {
        let sizes = sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        argument(name, &format!(r#"{{"as_ints":[{sizes}]}}"#))
    };
    let counter = (call("aten.arange.default", &[int("end", 3)]), "j0", &[3][..]);
    let row = (call("aten.unsqueeze.default", &[tensor("self", "j0"), int("dim", 0)]), "j1", &[1, 3][..]);
    let taken = |of: &str, axis: i64| {
        let node = call("aten.gather.default", &[tensor("self", "x"), int("dim", axis), tensor("index", of)]);
        (node, "z", &[2, 3][..])
    };
    // Places brought into range, as `take_along_dim` does it.
    let in_range =
        |of: &str| (call("aten.remainder.Scalar", &[tensor("self", of), int("other", 4)]), "j3", &[2, 3][..]);
    let expanded = (call("aten.expand.default", &[tensor("self", "j1"), list("size", &[2, 3])]), "j2", &[2, 3][..]);
    let repeated = (call("aten.repeat.default", &[tensor("self", "j1"), list("repeats", &[2, 1])]), "j2", &[2, 3][..]);
    let gathered = |graph: &Graph| {
        let gathers = graph.nodes().iter().filter(|node| matches!(node.op, Op::Prim(Prim::Gather { .. })));
        gathers.map(|node| graph.ty(node.operands[0]).rank()).collect::<Vec<_>>()
    };
    for made in [&expanded, &repeated] {
        let nodes = [counter.clone(), row.clone(), made.clone(), in_range("j2"), taken("j3", 1)];
        let graph = on_tensors([&[2, 4], &[1], &[1], &[2, 3]], &nodes);
        assert_eq!(gathered(&graph), [2], "{graph}");
        assert_eq!(counted(&graph, [&[2, 4], &[1]], (&[1], &[0])), [0.0, 1.0, 2.0, 4.0, 5.0, 6.0]);
    }
    // Along the axis that is counted, and of places that are given.
    let nodes = [counter, row, expanded, taken("j2", 0)];
    let rows = on_tensors([&[3, 3], &[1], &[1], &[2, 3]], &nodes);
    assert_eq!(gathered(&rows), [1], "{rows}");
    assert_eq!(counted(&rows, [&[3, 3], &[1]], (&[1], &[0])), [0.0, 4.0, 8.0, 0.0, 4.0, 8.0]);
    let given = on_tensors([&[2, 4], &[1], &[2, 3], &[2, 3]], &[in_range("i"), taken("j3", 1)]);
    assert_eq!(gathered(&given), [1], "{given}");
    assert_eq!(counted(&given, [&[2, 4], &[1]], (&[2, 3], &[0, 5, 2, -1, 0, 0])), [0.0, 1.0, 2.0, 7.0, 4.0, 4.0]);
}

#[test]
fn a_few_elements_of_rows_that_are_computed_are_searched() {
    let taken = |of: &str| call("aten.gather.default", &[tensor("self", of), int("dim", 1), tensor("index", "i")]);
    let model = |of: &str, count: i64| {
        let negative = (call("aten.neg.default", &[tensor("self", "x")]), "c", &[2, 5][..]);
        on_tensors([&[2, 5], &[1], &[2, count], &[2, count]], &[negative, (taken(of), "z", &[2, count])])
    };
    let gathers = |graph: &Graph| graph.nodes().iter().any(|node| matches!(node.op, Op::Prim(Prim::Gather { .. })));
    assert!(!gathers(&model("c", 1)) && !gathers(&model("c", 4)));
    assert!(gathers(&model("c", 5)), "many");
    assert!(gathers(&model("x", 1)), "an input");
    assert_eq!(counted(&model("c", 1), [&[2, 5], &[1]], (&[2, 1], &[3, -1])), [-3.0, -9.0]);
}

/// Single elements of rows, at places that a search of the rows finds: no scatter along lanes.
#[test]
fn elements_written_where_a_search_finds_are_selected() {
    let value = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
    let node = |target: &str, arguments: &[String], result: &str| {
        format!(r#"{{{},"outputs":[{}],"name":"{result}"}}"#, call(target, arguments), value(result))
    };
    let places = [tensor("self", "x"), int("dim", 1), argument("keepdim", r#"{"as_bool":true}"#)];
    let written = [tensor("self", "c"), int("dim", 1), tensor("index", "i"), tensor("src", "y")];
    let nodes = [
        node("aten.neg.default", &[tensor("self", "x")], "c"),
        node("aten.argmax.default", &places, "i"),
        node("aten.scatter.src", &written, "z"),
    ];
    let ty = |dtype: i64, sizes: [i64; 2]| {
        format!(r#"{{"dtype":{dtype},"sizes":[{{"as_int":{}}},{{"as_int":{}}}]}}"#, sizes[0], sizes[1])
    };
    let types = [("x", 7, [3, 4]), ("y", 7, [3, 1]), ("c", 7, [3, 4]), ("i", 5, [3, 1]), ("z", 7, [3, 4])];
    let types = types.map(|(name, dtype, sizes)| format!(r#""{name}":{}"#, ty(dtype, sizes)));
    let specs = ["x", "y"].map(|name| format!(r#"{{"user_input":{{"arg":{}}}}}"#, value(name)));
    let output = format!(r#"{{"user_output":{{"arg":{}}}}}"#, value("z"));
    let json = model_json(&specs.join(","), &nodes.join(","), &types.join(","), &output);
    let graph = pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).expect("a graph");
    assert!(!graph.nodes().iter().any(|node| matches!(node.op, Op::Prim(Prim::Scatter { .. }))), "{graph}");
    let tensor = |sizes: &[usize], values: &[f64]| Tensor::from_f64(DType::F32, sizes, values.to_vec()).expect("fits");
    let x = tensor(&[3, 4], &[1.0, 5.0, 2.0, 3.0, -1.0, -2.0, -3.0, -4.0, 0.0, 0.0, 7.0, 7.0]);
    let y = tensor(&[3, 1], &[-0.0, f64::NAN, f64::NEG_INFINITY]);
    let found = run(&graph, &[x, y], &Symbols::new()).expect("runs");
    let expected = [-1.0, -0.0, -2.0, -3.0, f64::NAN, 2.0, 3.0, 4.0, -0.0, -0.0, f64::NEG_INFINITY, -7.0];
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<u64>>();
    assert_eq!(bits(found[0].floats().expect("floats")), bits(&expected));
}

#[test]
fn splits_by_direction_are_along_their_axis() {
    let list = |sizes: &[i64]| sizes.iter().map(|n| format!(r#"{{"as_int":{n}}}"#)).collect::<Vec<_>>().join(",");
    let split = |target: &str, shape: &[i64], part: &[i64]| -> Result<String, String> {
        let value = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
        let call = call(&format!("aten.{target}"), &[tensor("self", "x"), int("sections", 2)]);
        let node = format!(r#"{{{call},"outputs":[{{"as_tensors":[{{"name":"a"}},{{"name":"b"}}]}}],"name":"n"}}"#);
        let types = [("x", shape), ("a", part), ("b", part)]
            .map(|(name, sizes)| format!(r#""{name}":{{"dtype":7,"sizes":[{}]}}"#, list(sizes)));
        let spec = format!(r#"{{"user_input":{{"arg":{}}}}}"#, value("x"));
        let output = format!(r#"{{"user_output":{{"arg":{}}}}}"#, value("b"));
        let json = model_json(&spec, &node, &types.join(","), &output);
        let graph = pt2(&packed(&[("models/model.json", json.as_bytes())]).into());
        let graph = graph.map_err(|e| e.to_string())?;
        match &graph.nodes().last().expect("a node").op {
            Op::Prim(Prim::Slice { axis, start, end, .. }) => Ok(format!("{axis}: {start}..{end}")),
            other => Err(format!("{other:?}")),
        }
    };
    assert_eq!(split("hsplit.int", &[3, 4], &[3, 2]).as_deref(), Ok("1: 2..4"));
    assert_eq!(split("hsplit.int", &[4], &[2]).as_deref(), Ok("0: 2..4"));
    assert_eq!(split("vsplit.int", &[4, 3], &[2, 3]).as_deref(), Ok("0: 2..4"));
    assert_eq!(split("dsplit.int", &[2, 3, 6], &[2, 3, 3]).as_deref(), Ok("2: 3..6"));
    assert!(split("dsplit.int", &[2, 4], &[2, 2]).is_err_and(|e| e.contains("too few axes")));
}
