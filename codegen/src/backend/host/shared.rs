//! Row values that are the same for all inner rows of a row: a row of a table, the sines of a position.
//!
//! They are computed once, by a loop before the inner rows, where that costs less than computing them in each.

use std::collections::{BTreeMap, BTreeSet};

use super::cost::{LOAD, MOST_BYTES, STORE_AND_LOAD, Values};
use crate::kernel::{InstOp, Level, Segment, Shape, Val};

/// How many inner rows are expected where their number is not known.
const INNER_ROWS: u32 = 4;

/// By value, whether it is the same for all inner rows, of which there are others than one.
pub(super) fn outer(segment: &Segment) -> Vec<bool> {
    let single = segment.inner.as_const() == Some(1);
    segment.levels().into_iter().map(|level| !single && level <= Level::Outer).collect()
}

/// The values that are computed before the inner rows, and the bytes of their lanes.
pub(super) fn values(segment: &Segment, stashed: &[bool]) -> BTreeMap<Val, i64> {
    let mut kept = BTreeMap::new();
    if segment.inner.as_const() == Some(1) {
        return kept;
    }
    let (outer, definitions) = (outer(segment), segment.definitions());
    let values = Values { segment, definitions: &definitions };
    let found = |v: Val| matches!(values.inst(v).op, InstOp::TopK { .. }) || stashed[definitions[v.0 as usize]];
    let of_inner_rows = segment.insts.iter().filter(|inst| inst.results.iter().all(|v| !outer[v.0 as usize]));
    let mut open: Vec<Val> = of_inner_rows.flat_map(|inst| &inst.args).copied().collect();
    let mut seen = BTreeSet::new();
    let mut room = MOST_BYTES;
    while let Some(v) = open.pop() {
        if !outer[v.0 as usize] || !values.is_row(v) || found(v) || !seen.insert(v) {
            continue;
        }
        let v = values.narrowest(v);
        if kept.contains_key(&v) {
            continue;
        }
        let lanes = segment.ty(v).shape.elements().as_const();
        match lanes.and_then(|lanes| values.bytes(v, lanes)).filter(|bytes| *bytes <= room) {
            Some(bytes)
                if pays(segment, values.cost(v, STORE_AND_LOAD + 1, &found)) && is_plain(&values, v, &found) =>
            {
                room -= bytes;
                kept.insert(v, bytes);
            }
            _ => open.extend(&values.inst(v).args),
        }
    }
    kept
}

/// Whether every inner row computing a value of that cost is more than computing it once and loading it in each.
fn pays(segment: &Segment, cost: u32) -> bool {
    let rows = segment.inner.as_const().map_or(INNER_ROWS, |n| u32::try_from(n).unwrap_or(u32::MAX));
    rows.saturating_sub(1).saturating_mul(cost) > (STORE_AND_LOAD - LOAD).saturating_add(rows.saturating_mul(LOAD))
}

/// Whether one loop over all lanes computes a value: no parts of other lengths are joined, and no groups run.
fn is_plain(values: &Values<'_>, v: Val, found: &dyn Fn(Val) -> bool) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![v];
    while let Some(v) = open.pop() {
        let shape = &values.segment.ty(v).shape;
        if *shape == Shape::Scalar || found(v) || !seen.insert(v) {
            continue;
        }
        let inst = values.inst(v);
        if inst.op == InstOp::Cat || !values.is_row(v) {
            return false;
        }
        open.extend(&inst.args);
    }
    true
}
