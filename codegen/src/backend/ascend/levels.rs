//! How often each value of a segment changes.

use std::collections::BTreeSet;

use fusewright_graph::Dim;

use super::passes::Pass;
use crate::kernel::{INNER, InstOp, Level, ROW, Segment, Shape, Val};

/// How often each value changes; what is stored changes as often as its place.
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
    for inst in &segment.insts {
        let InstOp::Store { index, .. } = &inst.op else { continue };
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
