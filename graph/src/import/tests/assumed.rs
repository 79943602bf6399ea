//! What files take for granted of their symbols and do not say, and regions that are graphs of their own.

use super::attention::{argument, call, tensor};
use super::{FORMAT, ORDER, archive, model_json};
use crate::graph::{Graph, Op};
use crate::import::pt2;
use crate::prim::Prim;

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
    let specs: Vec<String> = inputs.iter().map(|i| format!(r#"{{"user_input":{{"arg":{}}}}}"#, value(i.0))).collect();
    let all = inputs.iter().chain(made);
    let types: Vec<String> = all.map(|(n, d, e)| format!(r#""{n}":{{"dtype":{d},{}}}"#, meta(e))).collect();
    let output = format!(r#"{{"user_output":{{"arg":{}}}}}"#, value(made.last().map_or("", |m| m.0)));
    let json = model_json(&specs.join(","), &nodes.join(","), &types.join(","), &output);
    let ranges = r#""range_constraints":{"s":{"min_val":2,"max_val":90},"t":{"min_val":3}}"#;
    let json = json.replacen(r#""range_constraints":{}"#, ranges, 1);
    pt2(&archive(&[FORMAT, ORDER, ("models/model.json", json.as_bytes())]).into()).map_err(|e| e.to_string())
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
    let expected = "graph @model(s_2: 1..45; %x: f32[s_2*2, 24]) {";
    assert_eq!(header(view("[2,-1]", &format!("2 Mul(Integer(24),{half})"))), expected);
    assert_eq!(header(view("[-1,2,24]", &format!("{half} FloorDiv({S},{half}) 24"))), expected);
    // Two thirds of rows are not the half of them.
    let wrong = view("[3,-1]", &format!("3 Mul(Integer(24),{half})"));
    assert!(wrong.is_err_and(|e| e.contains("import.size")));
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
