//! What files take for granted of their symbols and do not say, and regions that are graphs of their own.

use super::attention::{argument, call, tensor};
use super::{model_json, packed};
use crate::DType;
use crate::graph::{Graph, Op};
use crate::import::pt2;
use crate::interp::{self, Symbols};
use crate::prim::Prim;
use crate::tensor::Tensor;

fn meta(extents: &str) -> String {
    let size = |extent: &str| match extent.parse::<i64>() {
        Ok(n) => format!(r#"{{"as_int":{n}}}"#),
        Err(_) => format!(r#"{{"as_expr":{{"expr_str":"{extent}"}}}}"#),
    };
    let sizes: Vec<String> = extents.split(' ').filter(|e| !e.is_empty()).map(size).collect();
    format!(r#""sizes":[{}]"#, sizes.join(","))
}

fn value(name: &str) -> String {
    format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#)
}

/// A model of nodes on inputs, given with their dtype and extents; the last value is returned.
fn model(inputs: &[(&str, i64, &str)], made: &[(&str, i64, &str)], nodes: &[String]) -> Result<Graph, String> {
    model_with("Integer(0)", inputs, made, nodes)
}

/// The same with a symbolic integer `n`.
fn model_with(
    n: &str,
    inputs: &[(&str, i64, &str)],
    made: &[(&str, i64, &str)],
    nodes: &[String],
) -> Result<Graph, String> {
    let specs: Vec<String> = inputs.iter().map(|i| format!(r#"{{"user_input":{{"arg":{}}}}}"#, value(i.0))).collect();
    let all = inputs.iter().chain(made);
    let types: Vec<String> = all.map(|(n, d, e)| format!(r#""{n}":{{"dtype":{d},{}}}"#, meta(e))).collect();
    let output = format!(r#"{{"user_output":{{"arg":{}}}}}"#, value(made.last().map_or("", |m| m.0)));
    let json = model_json(&specs.join(","), &nodes.join(","), &types.join(","), &output);
    let ranges = r#""range_constraints":{"s":{"min_val":2,"max_val":90},"t":{"min_val":3}}"#;
    let sizes = format!(r#""sym_int_values":{{"n":{{"as_expr":{{"expr_str":"{n}"}}}}}}"#);
    let json = json.replacen(r#""sym_int_values":{}"#, &sizes, 1).replacen(r#""range_constraints":{}"#, ranges, 1);
    pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).map_err(|e| e.to_string())
}

fn node(target: &str, arguments: &[String], result: &str) -> String {
    format!(r#"{{{},"outputs":[{}],"name":"{result}"}}"#, call(target, arguments), value(result))
}

fn header(graph: Result<Graph, String>) -> String {
    let text = graph.unwrap_or_else(|e| panic!("{e}")).to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

fn opaque(graph: &Graph) -> Vec<String> {
    let of = |op: &Op| match op {
        Op::Prim(Prim::Opaque { target, attrs, .. }) => Some(format!("{target} {attrs:?}")),
        _ => None,
    };
    graph.nodes().iter().filter_map(|node| of(&node.op)).collect()
}

const S: &str = "Symbol('s')";
const T: &str = "Symbol('t')";

#[test]
fn extents_that_an_op_needs_to_be_equal_are_one_symbol() {
    let at = argument("indices", r#"{"as_tensors":[{"name":"slot"}]}"#);
    let write = node("aten.index_put.default", &[tensor("self", "k"), at, tensor("values", "x")], "y");
    let inputs = [("k", 7, "16 4"), ("x", 7, &format!("{S} 4") as &str), ("slot", 5, T)];
    let written = model(&inputs, &[("y", 7, "16 4")], &[write]);
    assert_eq!(header(written), "graph @model(s: 3..90; %k: f32[16, 4], %x: f32[s, 4], %slot: i64[s]) {");
    let inputs = ["q", "k", "v"].map(|name| (name, 7, format!("1 2 {} 8", if name == "v" { T } else { S })));
    let inputs = inputs.each_ref().map(|(name, dtype, extents)| (*name, *dtype, extents.as_str()));
    let arguments = [tensor("query", "q"), tensor("key", "k"), tensor("value", "v")];
    let attend = node("aten.scaled_dot_product_attention.default", &arguments, "y");
    let made = model(&inputs, &[("y", 7, &format!("1 2 {S} 8"))], &[attend]);
    assert!(header(made).ends_with("%k: f32[1, 2, s, 8], %v: f32[1, 2, s, 8]) {"));
    // What no symbol makes equal stays an op of the framework.
    let add = node("aten.add.Tensor", &[tensor("self", "x"), tensor("other", "y")], "z");
    let made = model(&[("x", 7, "3"), ("y", 7, "4")], &[("z", 7, "4")], &[add]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(opaque(&made).len(), 1);
}

#[test]
fn a_symbol_that_must_be_divisible_is_a_multiple() {
    let half = format!("FloorDiv({S},Integer(2))");
    let view = |size: &str, result: &str| {
        let size = argument("size", &format!(r#"{{"as_ints":{size}}}"#));
        let view = node("aten.view.default", &[tensor("self", "x"), size], "y");
        model(&[("x", 7, &format!("{S} 24"))], &[("y", 7, result)], &[view])
    };
    let expected = "graph @model(s_2: 0..45; %x: f32[s_2*2, 24]) {";
    assert_eq!(header(view("[2,-1]", &format!("2 Mul(Integer(24),{half})"))), expected);
    assert_eq!(header(view("[-1,2,24]", &format!("{half} FloorDiv({S},{half}) 24"))), expected);
    // Two thirds of rows are not the half of them.
    let wrong = view("[3,-1]", &format!("3 Mul(Integer(24),{half})"));
    assert!(wrong.is_err_and(|e| e.contains("import.size")));
}

/// Rows filled up with zeros to a length.
fn filled(behind: &str, result: &str) -> Result<Graph, String> {
    let pads = r#"{"as_sym_ints":[{"as_int":0},{"as_int":0},{"as_int":0},{"as_name":"n"}]}"#;
    let arguments = [tensor("self", "x"), argument("pad", pads), argument("value", r#"{"as_float":0.0}"#)];
    let pad = node("aten.constant_pad_nd.default", &arguments, "y");
    let inputs = [("x", 7, &format!("{S} 4") as &str), ("t", 7, T)];
    model_with(behind, &inputs, &[("y", 7, &format!("{result} 4"))], &[pad])
}

#[test]
fn what_is_filled_up_to_a_length_is_no_longer_than_that() {
    let up_to = |length: &str, result: &str, expected: &str| {
        let made = filled(&format!("Add({length},Mul(Integer(-1),{S}))"), result).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((opaque(&made).len(), header(Ok(made)).as_str()), (0, expected));
    };
    up_to("Integer(64)", "64", "graph @model(s: 0..64, t: 3..; %x: f32[s, 4], %t: f32[t]) {");
    // The file's own bound is the narrower one.
    up_to("Integer(128)", "128", "graph @model(s: 0..90, t: 3..; %x: f32[s, 4], %t: f32[t]) {");
    // Of two symbols a call tells.
    up_to(T, T, "graph @model(s: 0..90, t: 3..; %x: f32[s, 4], %t: f32[t]) {");
    let least = filled(&format!("Add({S},Integer(-7))"), &format!("Add({S},{S},Integer(-7))"));
    assert_eq!(header(least), "graph @model(s: 7..90, t: 3..; %x: f32[s, 4], %t: f32[t]) {");
}

#[test]
fn what_is_divided_by_an_extent_has_a_value_without_elements() {
    let from = format!("Mod(Add({S},Integer(-1)),{S})");
    let start = argument("start", r#"{"as_sym_int":{"as_name":"n"}}"#);
    let arguments = [tensor("self", "x"), argument("dim", r#"{"as_int":0}"#), start];
    let last = node("aten.slice.Tensor", &arguments, "y");
    let left = format!("Add({S},Mul(Integer(-1),{from})) 4");
    let graph = model_with(&from, &[("x", 7, &format!("{S} 4"))], &[("y", 7, &left)], &[last]);
    let graph = graph.unwrap_or_else(|e| panic!("{e}"));
    for rows in [0usize, 1, 5] {
        let x = Tensor::from_f64(DType::F32, &[rows, 4], (0..rows * 4).map(|i| i as f64).collect()).expect("fits");
        let found = interp::run(&graph, &[x], &Symbols::new()).unwrap_or_else(|e| panic!("{rows}: {e}\n{graph}"));
        assert_eq!(found[0].shape(), [rows.min(1), 4]);
    }
}

/// A call of a region that doubles its operand and the result.
fn region(target: &str, flags: &str) -> String {
    let ty = format!(r#"{{"dtype":7,{}}}"#, meta(S));
    let double = |of: &str, to: &str| node("aten.add.Tensor", &[tensor("self", of), tensor("other", of)], to);
    let body = format!(
        r#"{{"inputs":[{}],"outputs":[{},{}],"nodes":[{},{}],"tensor_values":{{"a":{ty},"x":{ty},"c":{ty}}},"sym_int_values":{{}}}}"#,
        value("a"),
        value("x"),
        value("a"),
        double("a", "c"),
        double("c", "x"),
    );
    let graph = format!(r#"{{"name":"","arg":{{"as_graph":{{"name":"sub","graph":{body}}}}}}}"#);
    let operand = format!(r#"{{"name":"","arg":{}}}"#, value("x"));
    let outputs = format!("{},{}", value("y"), value("z"));
    format!(r#"{{"target":"torch.ops.{target}","inputs":[{flags}{graph},{operand}],"outputs":[{outputs}],"name":"n"}}"#)
}

#[test]
fn regions_are_their_nodes() {
    let flag = |on: bool| format!(r#"{{"name":"","arg":{{"as_bool":{on}}}}},"#);
    let made = |target: &str, flags: &str| {
        let nodes = [region(target, flags), region(target, flags).replace("\"y\"", "\"v\"").replace("\"z\"", "\"w\"")];
        let made = [("y", 7, S), ("z", 7, S), ("v", 7, S), ("w", 7, S), ("sum", 7, S)];
        let sum = node("aten.add.Tensor", &[tensor("self", "v"), tensor("other", "z")], "sum");
        let nodes = [&nodes[..], &[sum]].concat();
        model(&[("x", 7, S)], &made, &nodes).unwrap_or_else(|e| panic!("{e}"))
    };
    for (target, flags) in [
        ("higher_order.wrap_with_set_grad_enabled", flag(false)),
        ("higher_order.wrap_with_set_grad_enabled", flag(true)),
        ("higher_order.wrap_with_autocast", format!("{}{}", flag(false), flag(false))),
    ] {
        let graph = made(target, &flags);
        assert_eq!(opaque(&graph), Vec::<String>::new());
        let x = crate::Tensor::from_f64(crate::DType::F32, &[2], vec![1.0, -3.0]).expect("a tensor");
        let results = crate::interp::run(&graph, &[x], &crate::interp::Symbols::new()).expect("results");
        assert_eq!(results[0].floats().map(|v| v.to_vec()), Some(vec![5.0, -15.0]));
    }
    let kept = opaque(&made("higher_order.wrap_with_autocast", &flag(true)));
    assert_eq!(kept.len(), 2);
    assert!(
        kept[0].starts_with("higher_order.wrap_with_autocast") && kept[0].contains("what autocast casts"),
        "{kept:?}"
    );
}

#[test]
fn an_op_that_another_calls_has_its_own_name() {
    let operator = r#"{"name":"","arg":{"as_operator":"torch.ops.mine.scale_.default"}},"#;
    let node = format!(
        r#"{{"target":"torch.ops.higher_order.auto_functionalized_v2","inputs":[{operator}{},{}],"outputs":[{{"as_none":true}},{}],"name":"n"}}"#,
        argument("_x_base_index", r#"{"as_int":0}"#),
        argument("_all_bases", r#"{"as_tensors":[{"name":"x"}]}"#),
        value("y"),
    );
    let graph = model(&[("x", 7, S)], &[("y", 7, S)], &[node]).unwrap_or_else(|e| panic!("{e}"));
    let found = opaque(&graph);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("mine.scale_ ["), "{found:?}");
    assert!(found[0].contains(r#"("form", "higher_order.auto_functionalized_v2")"#), "{found:?}");
}

/// Two scales for each row are equal to one of no rows only: that is assumed of no symbol.
#[test]
fn extents_that_are_equal_for_no_rows_are_not_made_equal() {
    let operator = r#"{"name":"","arg":{"as_operator":"torch.ops._C.dynamic_per_token_scaled_fp8_quant.default"}}"#;
    let arguments = [operator.to_owned(), tensor("result", "q"), tensor("input", "x"), tensor("scale", "w")];
    let called = call("higher_order.auto_functionalized", &arguments);
    let write =
        format!(r#"{{{called},"outputs":[{{"as_none":true}},{},{}],"name":"n"}}"#, value("codes"), value("scales"));
    let (row, pair) = (format!("{S} 4"), format!("{S} 2"));
    let inputs = [("x", 7, &row as &str), ("q", 29, &row), ("w", 7, &pair)];
    let graph =
        model(&inputs, &[("codes", 29, &row), ("scales", 7, &pair)], &[write]).unwrap_or_else(|e| panic!("{e}"));
    let found = opaque(&graph);
    assert!(found[0].contains("`scale` is f32[s, 2]: the op writes f32[s, 1]"), "{found:?}");
}

/// The forms of `_C.silu_and_mul` on `o` and `x`, and the name of what it wrote.
fn silu_and_mul() -> [(String, &'static str); 3] {
    let operator = r#"{"name":"","arg":{"as_operator":"torch.ops._C.silu_and_mul.default"}}"#.to_owned();
    let functional = |target: &str, arguments: &[String]| {
        let called = call(target, &[std::slice::from_ref(&operator), arguments].concat());
        format!(r#"{{{called},"outputs":[{{"as_none":true}},{}],"name":"n"}}"#, value("new"))
    };
    let (result, input) = (tensor("result", "o"), tensor("input", "x"));
    let base = [
        input.clone(),
        argument("_result_base_index", r#"{"as_int":0}"#),
        argument("_all_bases", r#"{"as_tensors":[{"name":"o"}]}"#),
    ];
    let overwriting = call("_C.silu_and_mul.default", &[result.clone(), input.clone()]);
    [
        (format!(r#"{{{overwriting},"outputs":[],"name":"n"}}"#), "o"),
        (functional("higher_order.auto_functionalized", &[result, input]), "new"),
        (functional("higher_order.auto_functionalized_v2", &base), "new"),
    ]
}

#[test]
fn an_argument_that_is_overwritten_has_the_extents_of_what_is_written() {
    for (write, written) in silu_and_mul() {
        let made = |rows: &str, dtype: i64| {
            let (x, o) = (format!("{S} 4"), format!("{rows} 2"));
            let negated = node("aten.neg.default", &[tensor("self", written)], "y");
            let made = [("new", dtype, &o as &str), ("y", dtype, &o)];
            let made = if written == "o" { &made[1..] } else { &made[..] };
            model(&[("x", 7, &x), ("o", dtype, &o)], made, &[write.clone(), negated]).unwrap_or_else(|e| panic!("{e}"))
        };
        let graph = made(T, 7);
        assert_eq!(opaque(&graph), Vec::<String>::new(), "{written}");
        assert_eq!(header(Ok(graph)), "graph @model(s: 3..90; %x: f32[s, 4], %o: f32[s, 2]) {");
        // What no symbol makes equal, and what does not fit otherwise, is said as it is, and nothing is assumed.
        let more = made(&format!("Add({S},Integer(1))"), 7);
        let why = "`result`: f32[s + 1, 2], where the op writes f32[s, 2]";
        assert!(opaque(&more)[0].contains(why), "{:?}", opaque(&more));
        let other = made(T, 13);
        assert!(opaque(&other)[0].contains("`result`: bf16[t, 2], where the op writes f32[s, 2]"));
        assert!(header(Ok(other)).starts_with("graph @model(s: 0..90, t: 3..;"));
    }
}

/// A tensor with its strides, each a list of sizes.
fn lying(extents: &str, strides: &str) -> String {
    let list = |of: &str| meta(of).replacen(r#""sizes":"#, "", 1);
    format!(r#"{{"dtype":7,"sizes":{},"strides":{}}}"#, list(extents), list(strides))
}

/// A model of nodes on `x`, every tensor with its extents and strides; the last one is returned.
fn stated(tensors: &[(&str, &str, &str)], nodes: &[String], returned: &str) -> Result<Graph, String> {
    let types: Vec<String> = tensors.iter().map(|(n, e, s)| format!(r#""{n}":{}"#, lying(e, s))).collect();
    let spec = |kind: &str, name: &str| format!(r#"{{"{kind}":{{"arg":{}}}}}"#, value(name));
    let inputs: Vec<String> =
        tensors.iter().filter(|t| ["x", "v"].contains(&t.0)).map(|t| spec("user_input", t.0)).collect();
    let json = model_json(&inputs.join(","), &nodes.join(","), &types.join(","), &spec("user_output", returned));
    pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).map_err(|e| e.to_string())
}

const U: &str = "Symbol('u')";

#[test]
fn a_copy_that_is_a_view_of_one_row_only_has_more_rows() {
    let turned = format!("3 {U}");
    let tensors = [
        ("x", &format!("{U} 3") as &str, "3 1"),
        ("c", &format!("{U} 3"), "3 1"),
        ("t", &turned, "1 3"),
        ("d", &turned, &format!("{U} 1")),
        ("m", &turned, &format!("{U} 1")),
    ];
    let nodes = |read: &str| {
        let written = [
            node("aten.clone.default", &[tensor("self", "x")], "c"),
            node("aten.t.default", &[tensor("self", "c")], "t"),
            node("aten.contiguous.default", &[tensor("self", "t")], "d"),
            node("aten.neg_.default", &[tensor("self", "d")], "m"),
        ];
        stated(&tensors, &written, read)
    };
    assert_eq!(header(nodes("c")), "graph @model(u: 2..; %x: f32[u, 3]) {");
    assert_eq!(header(nodes("m")), "graph @model(u: 0..; %x: f32[u, 3]) {");
}

#[test]
fn diagonals_of_matrices_of_any_size_are_written() {
    let square = format!("{U} {U}");
    let (rows, step) = (format!("{U} 1"), format!("Add({U},Integer(1))"));
    let tensors = [
        ("x", &square as &str, &rows as &str),
        ("v", U, "1"),
        ("c", &square, &rows),
        ("d", U, &step),
        ("m", U, &step),
        ("y", &square, &rows),
    ];
    let written = |nodes: &[String], returned: &str| {
        let graph = stated(&tensors, nodes, returned).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(opaque(&graph), Vec::<String>::new());
        let count = |from: f64, n: i32| (0..n).map(|i| from + f64::from(i)).collect::<Vec<f64>>();
        let tensor = |shape: &[usize], v| crate::Tensor::from_f64(crate::DType::F32, shape, v).expect("a tensor");
        let inputs = [tensor(&[3, 3], count(1.0, 9)), tensor(&[3], count(-3.0, 3))];
        let symbols = crate::interp::Symbols::from([("u".to_owned(), 3)]);
        let results = crate::interp::run(&graph, &inputs, &symbols).expect("results");
        results[0].floats().map(|v| v.to_vec()).expect("floats")
    };
    let clone = node("aten.clone.default", &[tensor("self", "x")], "c");
    let taken = node("aten.diagonal.default", &[tensor("self", "c")], "d");
    let copied = node("aten.copy_.default", &[tensor("self", "d"), tensor("src", "v")], "m");
    let expected = [-3.0, 2.0, 3.0, 4.0, -2.0, 6.0, 7.0, 8.0, -1.0];
    assert_eq!(written(&[clone, taken, copied], "c"), expected);
    let scattered = node("aten.diagonal_scatter.default", &[tensor("self", "x"), tensor("src", "v")], "y");
    assert_eq!(written(&[scattered], "y"), expected);
}

/// The lesser side of a matrix is the length of its diagonal, whichever that is.
#[test]
fn diagonals_as_long_as_the_lesser_side_are_written() {
    let nodes = [
        node("aten.clone.default", &[tensor("self", "x")], "c"),
        node("aten.diagonal.default", &[tensor("self", "c")], "d"),
        node("aten.neg_.default", &[tensor("self", "d")], "m"),
    ];
    let (rows, least) = (format!("{U} 2"), format!("Min(Integer(2),{U})"));
    let tall =
        [("x", &rows as &str, "2 1"), ("c", &rows, "2 1"), ("d", &least as &str, "3"), ("m", &least as &str, "3")];
    let graph = stated(&tall, &nodes, "c").unwrap_or_else(|e| panic!("{e}"));
    for (count, negative) in [(1usize, &[0usize] as &[usize]), (4, &[0, 3])] {
        let x = (1..=2 * count).map(|i| i as f64).collect::<Vec<f64>>();
        let expected: Vec<f64> =
            x.iter().enumerate().map(|(i, v)| if negative.contains(&i) { -v } else { *v }).collect();
        let given = crate::Tensor::from_f64(crate::DType::F32, &[count, 2], x).expect("a tensor");
        let symbols = crate::interp::Symbols::from([("u".to_owned(), count as i64)]);
        let results = crate::interp::run(&graph, &[given], &symbols).expect("results");
        assert_eq!(results[0].floats().map(|v| v.to_vec()), Some(expected));
    }
}

#[test]
fn least_sizes_that_a_graph_was_traced_with_hold_no_call() {
    // The framework runs a graph that declares 2 as the least size of `s` with one row and with none.
    let relu = node("aten.relu.default", &[tensor("self", "x")], "y");
    let graph = model(&[("x", 7, &format!("{S} 24"))], &[("y", 7, &format!("{S} 24"))], &[relu]);
    assert_eq!(header(graph), "graph @model(s: 0..90; %x: f32[s, 24]) {");
}
