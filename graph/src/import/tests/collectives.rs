//! Collectives by their names and schemas.

use super::attention::{argument, call, one_node, tensor};
use crate::graph::Graph;
use crate::{Op, Prim};

fn string(name: &str, value: &str) -> String {
    argument(name, &format!(r#"{{"as_string":"{value}"}}"#))
}

fn int(name: &str, value: i64) -> String {
    argument(name, &format!(r#"{{"as_int":{value}}}"#))
}

fn import(target: &str, arguments: &[String], result: &[i64]) -> Graph {
    let graph = one_node(&[("x", 7, &[4, 6])], &call(target, arguments), &[("y", 7, result)]).expect("a graph");
    crate::verify::verify(&graph).expect("a valid graph");
    graph
}

/// The only op in text form, or the reason why it is opaque.
fn imported(graph: &Graph) -> String {
    match graph.nodes() {
        [] => "the operand".to_owned(),
        [node] => match &node.op {
            Op::Prim(Prim::Opaque { target, attrs, .. }) => {
                let reason = attrs.iter().find(|(name, _)| name == "reason").map_or("", |(_, reason)| reason.as_str());
                format!("opaque {target}: {reason}")
            }
            Op::Prim(Prim::AllReduce(all)) => format!("{} over {}", all.op.name(), all.described()),
            other => other.name().to_owned(),
        },
        nodes => format!("{} nodes", nodes.len()),
    }
}

#[test]
fn combinations_of_ranks_are_one_op() {
    let unknown = "group `tp` of an unknown number of ranks";
    for (op, name) in [("sum", "add"), ("product", "mul"), ("max", "max"), ("min", "min")] {
        let arguments = [tensor("input", "x"), string("reduce_op", op), string("group_name", "tp")];
        let graph = import("_c10d_functional.all_reduce.default", &arguments, &[4, 6]);
        assert_eq!(imported(&graph), format!("{name} over {unknown}"));
    }
    let arguments = [tensor("input", "x"), string("reduce_op", "avg"), string("group_name", "tp")];
    let graph = import("_c10d_functional.all_reduce.default", &arguments, &[4, 6]);
    assert_eq!(imported(&graph), "opaque _c10d_functional.all_reduce: the combination `avg` of ranks");
    let arguments = [tensor("tensor", "x"), string("group_name", "tp")];
    assert_eq!(imported(&import("vllm.all_reduce.default", &arguments, &[4, 6])), format!("add over {unknown}"));
    assert_eq!(imported(&import("_c10d_functional.wait_tensor.default", &arguments[..1], &[4, 6])), "the operand");
}

#[test]
fn what_moves_between_ranks_is_named_unless_there_is_one() {
    let torch = |target: &str, ranks: i64, extra: &[String], result: &[i64]| {
        let mut arguments = vec![tensor("input", "x")];
        arguments.extend_from_slice(extra);
        arguments.extend([int("group_size", ranks), string("group_name", "0")]);
        imported(&import(&format!("_c10d_functional.{target}.default"), &arguments, result))
    };
    let sum = [string("reduce_op", "sum")];
    assert_eq!(torch("all_gather_into_tensor", 1, &[], &[4, 6]), "the operand");
    assert_eq!(torch("reduce_scatter_tensor", 1, &sum, &[4, 6]), "the operand");
    let moves = "it moves tensors between 2 ranks of the group `0`, and there is one device";
    let gathered = torch("all_gather_into_tensor", 2, &[], &[8, 6]);
    assert_eq!(gathered, format!("opaque _c10d_functional.all_gather_into_tensor: {moves}"));
    let scattered = torch("reduce_scatter_tensor", 2, &sum, &[2, 6]);
    assert_eq!(scattered, format!("opaque _c10d_functional.reduce_scatter_tensor: {moves}"));
    let vllm = |target: &str, ranks: i64, result: &[i64]| {
        let arguments = [tensor("tensor", "x"), int("dim", 0), int("world_size", ranks), string("group_name", "0")];
        imported(&import(&format!("vllm.{target}.default"), &arguments, result))
    };
    assert_eq!(vllm("all_gather", 1, &[4, 6]), "the operand");
    assert_eq!(vllm("all_gather", 2, &[8, 6]), format!("opaque vllm.all_gather: {moves}"));
    assert_eq!(vllm("reduce_scatter", 2, &[2, 6]), format!("opaque vllm.reduce_scatter: {moves}"));
    let arguments = [tensor("input", "x"), int("src", 0), string("group_name", "0")];
    let unknown = "it moves tensors between an unknown number of ranks of the group `0`, and there is one device";
    let broadcast = imported(&import("_c10d_functional.broadcast.default", &arguments, &[4, 6]));
    assert_eq!(broadcast, format!("opaque _c10d_functional.broadcast: {unknown}"));
}

/// The gather says how many ranks the group of both has.
#[test]
fn one_collective_states_the_ranks_of_its_group_for_all() {
    let model = |sizes: [i64; 2]| {
        let gather = |x: &str, y: &str, ranks: i64| {
            let arguments = [tensor("input", x), int("group_size", ranks), string("group_name", "0")];
            let node = call("_c10d_functional.all_gather_into_tensor.default", &arguments);
            format!(r#"{{{node},"outputs":[{{"as_tensor":{{"name":"{y}"}}}}],"name":"{y}"}}"#)
        };
        let arguments = [tensor("input", "x"), string("reduce_op", "sum"), string("group_name", "0")];
        let sum = call("_c10d_functional.all_reduce.default", &arguments);
        let sum = format!(r#"{{{sum},"outputs":[{{"as_tensor":{{"name":"a"}}}}],"name":"a"}}"#);
        let nodes = [sum, gather("x", "b", sizes[0]), gather("x", "c", sizes[1])].join(",");
        let ty = |rows: i64| super::meta(7, &[rows, 6], &[6, 1], 0);
        let values = format!(r#""x":{},"a":{},"b":{},"c":{}"#, ty(4), ty(4), ty(4 * sizes[0]), ty(4 * sizes[1]));
        let value = |name: &str| format!(r#"{{"arg":{{"as_tensor":{{"name":"{name}"}}}}}}"#);
        let input = format!(r#"{{"user_input":{}}}"#, value("x"));
        let outputs = ["a", "b", "c"].map(|name| format!(r#"{{"user_output":{}}}"#, value(name))).join(",");
        let json = super::model_json(&input, &nodes, &values, &outputs);
        crate::import::pt2(&super::packed(&[("models/model.json", json.as_bytes())]).into())
    };
    let graph = model([2, 2]).expect("a graph");
    let Op::Prim(Prim::AllReduce(all)) = &graph.nodes()[0].op else { panic!("{graph}") };
    assert_eq!(all.ranks, Some(2));
    let error = model([2, 3]).expect_err("two numbers").to_string();
    assert!(error.contains("the group `0` has 2 ranks and 3 ranks"), "{error}");
}
