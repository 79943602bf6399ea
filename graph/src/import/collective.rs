//! Collectives: PyTorch's functional ones and vLLM's.
//!
//! Those that combine element by element are an `all_reduce` of the graph. Those that move parts of tensors between ranks
//! have no meaning here unless the group has one rank, and stay opaque under their names. How many ranks a group has is
//! an argument of some collectives and holds for all of the file.

use std::collections::BTreeMap;

use super::call::{Call, Imported, Refusal};
use super::schema::{Argument, NodeJson, SymIntArg};
use super::table::{Row, short_target};
use crate::diag::Diagnostic;
use crate::graph::Value;
use crate::prim::{AllReduce, Prim, ReduceOp};

const fn row(target: &'static str, schema: &'static str, import: fn(&Call<'_>) -> Imported) -> Row {
    Row { target, schema, import }
}

const TABLE: &[Row] = &[
    row("_c10d_functional.all_reduce", "input, reduce_op, group_name", all_reduce),
    row("_c10d_functional.all_reduce_coalesced", "inputs, reduce_op, group_name", all_reduce_coalesced),
    row("_c10d_functional.wait_tensor", "tensor", wait_tensor),
    row("_c10d_functional.all_gather_into_tensor", "input, group_size, group_name", moved),
    row("_c10d_functional.reduce_scatter_tensor", "input, reduce_op, group_size, group_name", moved),
    row("_c10d_functional.broadcast", "input, src, group_name", moved),
    row("_c10d_functional.all_to_all_single", "input, output_split_sizes, input_split_sizes, group_name", moved),
    row("vllm.all_reduce", "tensor, group_name", vllm_all_reduce),
    row("vllm.all_gather", "tensor, dim, world_size, group_name", moved),
    row("vllm.reduce_scatter", "tensor, dim, world_size, group_name", moved),
];

/// The row of a collective by its short target.
pub(super) fn find(target: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.target == target)
}

/// The number of ranks of every group of which a node states it.
///
/// # Errors
/// Two numbers for one group.
pub(super) fn ranks(nodes: &[NodeJson]) -> Result<BTreeMap<String, u32>, Diagnostic> {
    let mut ranks = BTreeMap::new();
    for node in nodes.iter().filter(|node| find(short_target(&node.target)).is_some()) {
        let given = |name: &str| node.inputs.iter().find(|input| input.name == name).map(|input| &input.arg);
        let size = match given("group_size").or_else(|| given("world_size")) {
            Some(Argument::Int(size) | Argument::SymInt(SymIntArg::Int(size))) => u32::try_from(*size).ok(),
            _ => None,
        };
        let (Some(size), Some(Argument::Str(group))) = (size.filter(|&n| n > 0), given("group_name")) else { continue };
        let stated = *ranks.entry(group.clone()).or_insert(size);
        if stated != size {
            let message = format!("the group `{group}` has {stated} ranks and {size} ranks");
            return Err(Diagnostic::new("import.collective", message));
        }
    }
    Ok(ranks)
}

fn group<'a>(call: &Call<'a>) -> Result<(&'a str, Option<u32>), Refusal> {
    let name = call.word("group_name")?;
    Ok((name, call.names.ranks(name)))
}

/// The tensors of all ranks, combined.
fn combined(call: &Call<'_>, x: Value, op: &str) -> Result<Value, Refusal> {
    let (name, ranks) = group(call)?;
    let op = match op {
        "sum" => ReduceOp::Add,
        "product" => ReduceOp::Mul,
        "max" => ReduceOp::Max,
        "min" => ReduceOp::Min,
        // Of one rank every combination is its tensor.
        _ if ranks == Some(1) => return Ok(x),
        other => return Err(format!("the combination `{other}` of ranks").into()),
    };
    Ok(call.b.prim(Prim::AllReduce(AllReduce { op, group: name.to_owned(), ranks }), &[x])?)
}

fn all_reduce(call: &Call<'_>) -> Imported {
    Ok(vec![combined(call, call.tensor("input")?, call.word("reduce_op")?)?])
}

fn all_reduce_coalesced(call: &Call<'_>) -> Imported {
    let op = call.word("reduce_op")?;
    call.tensors("inputs")?.into_iter().map(|x| combined(call, x, op)).collect()
}

fn vllm_all_reduce(call: &Call<'_>) -> Imported {
    Ok(vec![combined(call, call.tensor("tensor")?, "sum")?])
}

/// What a collective gave, once it is there: values of a graph always are.
fn wait_tensor(call: &Call<'_>) -> Imported {
    Ok(vec![call.tensor("tensor")?])
}

/// What moves parts of tensors between ranks: with one rank the tensor itself.
fn moved(call: &Call<'_>) -> Imported {
    let (name, ranks) = group(call)?;
    if ranks == Some(1) {
        let x = call.tensor("input").or_else(|_| call.tensor("tensor"))?;
        return Ok(vec![call.b.reshape(x, call.out()?.shape.clone())?]);
    }
    let count = ranks.map_or_else(|| "an unknown number of".to_owned(), |n| n.to_string());
    Err(format!("it moves tensors between {count} ranks of the group `{name}`, and there is one device").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_unique() {
        let mut targets: Vec<&str> = TABLE.iter().map(|row| row.target).collect();
        targets.sort_unstable();
        targets.dedup();
        assert_eq!(targets.len(), TABLE.len());
    }
}
