//! Chooses places along the innermost axis as single elements of memory, which kernels do for rows.
//!
//! A row of a kernel knows one place of its own, and no place per lane. `x[:, i]` of `x[n, L]` is the elements `r·L + i`
//! of the line `x[n·L]`, and so are writes there; places outside the axis stay what they are for the op: the nearest of
//! the row where one reads, and nothing where one writes.

use fusewright_graph::dim::product;
use fusewright_graph::{Builder, DType, Dim, Graph, NodeId, Op, Prim, ScalarFn, TypeError, Value};

use super::at_place::is_one;
use crate::pass::{Cx, Diagnostic, Outcome, Pass, PassResult};

/// The pass.
pub const PASS: Pass = Pass { name: "elements", required: false, run };

fn run(graph: &Graph, cx: &mut Cx) -> PassResult {
    let users = graph.users();
    let mut changed = 0;
    let rebuilt = graph.rebuild(|b, _, node, operands| {
        let failed = |e| Diagnostic::rebuilt(PASS.name, &node.origin, &e);
        let turned = || users[node.results[0].0 as usize].iter().any(|&id| moves_the_last_axis(graph, id));
        if chooses_lanes(b, &node.op, operands) && !turned() && !cx.is_spent() {
            cx.spend();
            changed += 1;
            return Ok(vec![of_elements(b, &node.op, operands).map_err(failed)?]);
        }
        b.op(node.op.clone(), operands).map_err(failed)
    });
    Ok((rebuilt?, Outcome { changed }))
}

/// Whether an op chooses along the innermost of several axes.
fn chooses_lanes(b: &Builder, op: &Op, operands: &[Value]) -> bool {
    let Op::Prim(Prim::Gather { axis } | Prim::Scatter { axis } | Prim::ScatterReduce { axis, .. }) = op else {
        return false;
    };
    let shape = b.ty(operands[0]).shape;
    axis + 1 == shape.len() && !shape[..*axis].iter().all(is_one)
}

/// Whether a node permutes the last axis to another place: what is chosen along it are rows there.
fn moves_the_last_axis(graph: &Graph, id: NodeId) -> bool {
    matches!(&graph.node(id).op, Op::Prim(Prim::Permute { perm }) if perm.last() != Some(&(perm.len() - 1)))
}

fn of_elements(b: &Builder, op: &Op, operands: &[Value]) -> Result<Value, TypeError> {
    let shape = b.ty(operands[0]).shape;
    let (lanes, outer) = (shape[shape.len() - 1].clone(), &shape[..shape.len() - 1]);
    let (rows, chosen) = (product(outer), b.ty(operands[1]).shape[0].clone());
    let extent = match lanes.as_const() {
        Some(lanes) => b.int(DType::I64, lanes)?,
        None => b.prim(Prim::SizeOf(lanes.clone()), &[])?,
    };
    let (zero, one) = (b.int(DType::I64, 0)?, b.int(DType::I64, 1)?);
    let place = b.cast(operands[1], DType::I64)?;
    let nearest = b.map(ScalarFn::Min, &[b.map(ScalarFn::Max, &[place, zero])?, b.sub(extent, one)?])?;
    let row = b.prim(Prim::Iota { dtype: DType::I64, shape: vec![rows.clone(), Dim::constant(1)], axis: 0 }, &[])?;
    let mut at = b.add(b.mul(row, extent)?, nearest)?;
    if !matches!(op, Op::Prim(Prim::Gather { .. })) {
        let outside = b.int(DType::I64, -1)?;
        at = b.map(ScalarFn::Select, &[b.map(ScalarFn::Eq, &[place, nearest])?, at, outside])?;
    }
    let at = b.reshape(at, vec![&rows * &chosen])?;
    let line = b.reshape(operands[0], vec![&rows * &lanes])?;
    let of_line = |value| b.reshape(value, vec![&rows * &chosen]);
    let (made, last) = match op {
        Op::Prim(Prim::Scatter { .. }) => {
            (b.prim(Prim::Scatter { axis: 0 }, &[line, at, of_line(operands[2])?])?, lanes)
        }
        Op::Prim(Prim::ScatterReduce { op, .. }) => {
            (b.prim(Prim::ScatterReduce { op: *op, axis: 0 }, &[line, at, of_line(operands[2])?])?, lanes)
        }
        _ => (b.prim(Prim::Gather { axis: 0 }, &[line, at])?, chosen),
    };
    b.reshape(made, [outer, &[last]].concat())
}
