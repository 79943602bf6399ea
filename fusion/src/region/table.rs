//! Short tables read at computed places, as selections: what each code of four bits means, say.
//!
//! A kernel reads memory at places that a whole row has in common. A table of few elements is held as numbers instead,
//! and each lane takes the one of its place: by halves of the table, the nearest element for places outside.

use fusewright_graph::{Builder, Dim, Graph, Op, Prim, ScalarFn, TypeError, Value};

use crate::passes;

/// Most elements of a table: those of codes of four bits.
const MOST: i64 = 16;

/// A body of primitives with selections for its reads of short tables; `None` if there are none.
pub(super) fn selected(body: &Graph) -> Option<Graph> {
    let mut found = false;
    let graph = body.rebuild(|b, _, node, operands| {
        if let Op::Prim(Prim::Gather { .. }) = &node.op
            && let Some(length) = length(b, operands[0])
        {
            found = true;
            return Ok(vec![element(b, operands, 0, length)?]);
        }
        b.op(node.op.clone(), operands)
    });
    let graph = graph.ok().filter(|_| found)?;
    let merged = passes::cse(&graph).map_or(graph, |(merged, _)| merged);
    Some(passes::dce(&merged).0)
}

/// The number of elements of a short table.
fn length(b: &Builder, table: Value) -> Option<i64> {
    match b.ty(table).shape.as_slice() {
        [length] => length.as_const().filter(|n| (2..=MOST).contains(n)),
        _ => None,
    }
}

/// The element at each place, of those between two.
fn element(b: &Builder, operands: &[Value], from: i64, to: i64) -> Result<Value, TypeError> {
    let (table, places) = (operands[0], operands[1]);
    if to - from == 1 {
        let element = b.slice(table, 0, Dim::constant(from), Dim::constant(to))?;
        return b.reshape(element, Vec::new());
    }
    let middle = from + (to - from) / 2;
    let behind = b.map(ScalarFn::Ge, &[places, b.int(b.dtype(places), middle)?])?;
    let (before, after) = (element(b, operands, from, middle)?, element(b, operands, middle, to)?);
    b.map(ScalarFn::Select, &[behind, after, before])
}
