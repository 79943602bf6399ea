//! Conversions that a version of PyTorch does otherwise than the newest.
//!
//! Conversions to e4m3 saturate since torch 2.13 (pull request 178817); before, what rounds beyond 448 becomes NaN. A
//! file says which torch exported it, and a graph means what it meant there.

use fusewright_abi::DType;

use crate::builder::Builder;
use crate::graph::{Graph, Node, Op, Value};
use crate::infer::TypeError;
use crate::prim::{Literal, Prim};
use crate::scalar::ScalarFn;

/// The first version whose conversions to e4m3 saturate.
const SATURATES: (u32, u32) = (2, 13);

/// Whether conversions to e4m3 saturate in a version such as `2.10.0+cu128`; a version that is not told is the newest.
fn saturates(version: Option<&str>) -> bool {
    let number = |part: Option<&str>| part?.parse::<u32>().ok();
    let parsed = version.and_then(|text| {
        let mut parts = text.split('.');
        Some((number(parts.next())?, number(parts.next())?))
    });
    parsed.is_none_or(|version| version >= SATURATES)
}

/// The graph with the conversions of the version that exported it. Those of ops of other projects stay as they are, and
/// so do those of clamped values, to which saturation does nothing.
pub(super) fn of_version(graph: Graph, version: Option<&str>) -> Result<Graph, TypeError> {
    if saturates(version) {
        return Ok(graph);
    }
    graph.rebuild(|b, _, node, operands| {
        let op = match &node.op {
            Op::Prim(Prim::Cast { to: DType::F8E4M3, round, saturate: true })
                if is_of_pytorch(node) && !is_clamped(b, operands[0]) =>
            {
                Op::Prim(Prim::Cast { to: DType::F8E4M3, round: *round, saturate: false })
            }
            op => op.clone(),
        };
        b.op(op, operands)
    })
}

fn is_of_pytorch(node: &Node) -> bool {
    node.origin.op.as_deref().is_none_or(|op| op.starts_with("aten."))
}

/// Whether a value is clamped by constants to what e4m3 holds.
fn is_clamped(b: &Builder, value: Value) -> bool {
    let clamps = [(ScalarFn::Max, ScalarFn::Min), (ScalarFn::Min, ScalarFn::Max)];
    clamps.into_iter().any(|(inner, outer)| bounded(b, value, outer).is_some_and(|x| bounded(b, x, inner).is_some()))
}

/// The other operand, if the value is `f` of it and a constant that e4m3 holds.
fn bounded(b: &Builder, value: Value, f: ScalarFn) -> Option<Value> {
    let (Op::Prim(Prim::Map(found)), operands) = b.definition(value)? else { return None };
    let &[x, bound] = operands.as_slice() else { return None };
    let held = |value| match b.definition(value) {
        Some((Op::Prim(Prim::Literal(Literal::Float(_, bound))), _)) => bound.abs() <= 448.0,
        _ => false,
    };
    (found == f && held(bound)).then_some(x)
}
