//! How often each value of a segment changes. What is the same for more rows than it is stored for is stored as a value of
//! its own, which every one of those rows has: instructions other than elementwise ones have a result as often as their
//! operand.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::Dim;

use super::passes::Pass;
use crate::kernel::{INNER, Inst, InstOp, Level, ROW, Segment, Shape, Val};

/// The segment with a broadcast before every store of what is there less often than its place.
pub(super) fn spread_stores(segment: &Segment, pass: Option<&Pass>) -> Segment {
    let levels = levels(segment, pass);
    let mut spread = Segment { insts: Vec::with_capacity(segment.insts.len()), ..segment.clone() };
    let mut copies: BTreeMap<(Val, Level), Val> = BTreeMap::new();
    for inst in &segment.insts {
        let mut inst = inst.clone();
        if let InstOp::Store { index, .. } = &inst.op {
            let stored = inst.args[0];
            let place = levels_of(index, &levels).max(Level::Outer);
            if levels[stored.0 as usize] < place {
                inst.args[0] = *copies.entry((stored, place)).or_insert_with(|| {
                    let ty = segment.ty(stored).clone();
                    let copy = Val(spread.types.len() as u32);
                    let op = InstOp::Broadcast(ty.shape.clone());
                    spread.types.push(ty);
                    spread.insts.push(Inst { op, args: vec![stored], results: vec![copy] });
                    copy
                });
            }
        }
        spread.insts.push(inst);
    }
    spread
}

/// Whether an instruction can have its result more often than its operands.
fn spreads(op: &InstOp) -> bool {
    matches!(op, InstOp::Load { .. } | InstOp::Map(_) | InstOp::Broadcast(_))
}

/// How often each value changes; what is stored changes as often as its place, where its instruction can do that.
pub(super) fn levels(segment: &Segment, pass: Option<&Pass>) -> Vec<Level> {
    let mut levels = segment.levels();
    // A lane of a row is an inner row of a pass, whatever it is computed from.
    if pass.is_some() {
        let rows = segment.types.iter().zip(&mut levels).filter(|(ty, _)| matches!(ty.shape, Shape::Row(_)));
        rows.for_each(|(_, level)| *level = Level::Inner);
    }
    // Results of passes are of their row; reductions of this one end with it.
    for (value, _) in pass.into_iter().flat_map(|p| p.given.iter().chain(&p.wanted)) {
        levels[value.0 as usize] = Level::Outer;
    }
    let spreading: BTreeSet<Val> =
        segment.insts.iter().filter(|inst| spreads(&inst.op)).flat_map(|inst| inst.results.iter().copied()).collect();
    for inst in &segment.insts {
        let InstOp::Store { index, .. } = &inst.op else { continue };
        if !spreading.contains(&inst.args[0]) {
            continue;
        }
        let place = levels_of(index, &levels).max(Level::Outer);
        let stored = &mut levels[inst.args[0].0 as usize];
        *stored = place.max(*stored);
    }
    for inst in &segment.insts {
        let of_args = inst.args.iter().map(|v| levels[v.0 as usize]).max().unwrap_or(Level::Kernel);
        let folded = |v: &&Val| !pass.is_some_and(|p| p.wanted.iter().any(|(wanted, _)| wanted == *v));
        for result in inst.results.iter().filter(folded) {
            let level = &mut levels[result.0 as usize];
            *level = of_args.max(*level);
        }
    }
    levels
}

/// How often an index changes.
fn levels_of(index: &Dim, levels: &[Level]) -> Level {
    let mut names = BTreeSet::new();
    index.collect_symbols(&mut names);
    let level = |name: &String| match (name.as_str(), Val::from_symbol(name)) {
        (INNER, _) => Level::Inner,
        (ROW, _) => Level::Outer,
        (_, Some(value)) => levels[value.0 as usize],
        _ => Level::Kernel,
    };
    names.iter().map(level).max().unwrap_or(Level::Kernel)
}
