//! Rows that are stored once because a loop of their own takes lanes in vectors, and the loop that reads them does not.
//!
//! A loop runs lane by lane if one of its ops has no vector form (an integer of 64 bits, a join of pairs under a packing of
//! pairs), if it takes groups of two sizes, if it takes groups of a row that is joined of parts, or if it reduces a row and
//! takes groups. Dear values below such a loop get a loop of their own ahead of it, in vectors. The loop itself loads them.
//!
//! So do dear values of whole rows below a loop over groups: it computes them for one group, waits for their extreme, and has
//! too few lanes to do something else meanwhile.

use std::collections::HashSet;

use super::Forms;
use super::cost::Values;
use super::plan::{self, pieces, single_group};
use super::stash::{Stored, bytes};
use super::walk::Walk;
use crate::kernel::{InstOp, Segment, Shape, Val};

/// A value that costs so many instructions for four lanes is worth a store and a load: lane by lane it takes four times as
/// many.
const DEAR: u32 = 4;
/// The same for a value that vectors are computed of either way, group by group or for the row at once.
const DEAR_IN_GROUPS: u32 = 16;

/// Adds such rows to those that are stored, as far as there is memory for them. `short` says that no row is longer than
/// [`SHORT`](super::keep::SHORT).
pub(super) fn add(segment: &Segment, found: &mut Stored, forms: &dyn Forms, short: bool, mut room: i64) {
    let mut open: Vec<usize> = (0..segment.insts.len()).filter(|&at| has_loop(segment, found, at)).collect();
    while let Some(from) = open.pop() {
        let least = if !takes_vectors(segment, found, from, forms) {
            DEAR
        } else if takes_groups(segment, found, from, forms) {
            DEAR_IN_GROUPS
        } else {
            continue;
        };
        for at in vectors_below(segment, found, from, forms, (short, least)) {
            let taken = bytes(segment, at, short).filter(|bytes| *bytes <= room);
            if let Some(bytes) = taken {
                room -= bytes;
                found.stash(segment, at);
                open.push(at);
            }
        }
    }
}

/// Says whether an instruction has a loop over lanes: a store, a reduction of a row, or a row that is stored.
fn has_loop(segment: &Segment, found: &Stored, at: usize) -> bool {
    let inst = &segment.insts[at];
    match inst.op {
        InstOp::Store { .. } => matches!(segment.ty(inst.args[0]).shape, Shape::Row(_)),
        InstOp::Reduce { over: crate::kernel::Over::Row, .. } => true,
        InstOp::AsRow => false,
        _ => found.stashed[at],
    }
}

/// Says whether the loops of an instruction run group by group.
fn takes_groups(segment: &Segment, found: &Stored, at: usize, forms: &dyn Forms) -> bool {
    !Walk::of(segment, found, at, None, forms).groups.is_empty()
}

/// Says whether the loops of an instruction take lanes in vectors.
fn takes_vectors(segment: &Segment, found: &Stored, at: usize, forms: &dyn Forms) -> bool {
    let walk = Walk::of(segment, found, at, None, forms);
    let lanes = segment.ty(plan::sink_value(segment, at)).shape.elements();
    let reduces = matches!(segment.insts[at].op, InstOp::Reduce { .. });
    let in_groups = || walk.cuts.is_empty() && single_group(&walk.groups, &lanes).is_some();
    // A reduction of a row takes the lanes of a group one by one.
    let grouped = walk.groups.is_empty() || !reduces && in_groups();
    let parted = walk.cuts.is_empty() || pieces(&walk.cuts, &lanes).is_some();
    walk.vector && grouped && parted
}

/// The rows nearest to a loop, each with a loop in vectors, that cost at least so much.
fn vectors_below(
    segment: &Segment,
    found: &Stored,
    from: usize,
    forms: &dyn Forms,
    (short, least): (bool, u32),
) -> Vec<usize> {
    let values = Values { segment, definitions: &found.definitions };
    let stored = |v: Val| found.is_stashed(v);
    let (mut chosen, mut seen) = (Vec::new(), HashSet::new());
    let mut open: Vec<Val> = plan::roots(segment, from).to_vec();
    if found.stashed[from] {
        open.clone_from(&segment.insts[from].args);
    }
    while let Some(v) = open.pop() {
        if segment.ty(v).shape == Shape::Scalar || stored(v) || !seen.insert(v) {
            continue;
        }
        let at = found.definitions[v.0 as usize];
        let inst = &segment.insts[at];
        // What is behind a reduction has a loop of its own.
        if matches!(inst.op, InstOp::Reduce { .. } | InstOp::TopK(_) | InstOp::ArgReduce(_)) {
            continue;
        }
        if values.is_row(v) && values.cost(v, least, &stored) >= least {
            let v = values.lowest(v);
            let at = found.definitions[v.0 as usize];
            let fits = bytes(segment, at, short).is_some() && !matches!(segment.insts[at].op, InstOp::Load { .. });
            let whole = || least != DEAR_IN_GROUPS || !takes_groups(segment, found, at, forms);
            if fits && !stored(v) && takes_vectors(segment, found, at, forms) && whole() {
                chosen.push(at);
                seen.insert(v);
                continue;
            }
        }
        open.extend(&inst.args);
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;

    /// All in vectors, but integers of 64 bits.
    struct Narrow;

    impl Forms for Narrow {
        fn wide_lanes(&self) -> bool {
            false
        }
    }

    fn kernel(body: &str, lanes: &str) -> Kernel {
        let text = format!(
            "kernel @k(n = extent(y, 1), s = extent(x, 0)) rows s {{ param %x: f32[s, {lanes}] in \
             param %a: f32[s, 4] in param %y: f32[s, n] out param %c: i64[s, {lanes}] out param %d: f32[s, {lanes}] out \
             segment @m inner 1 {{ {body} }} }}"
        );
        text.parse().unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    /// Counts the rows that have loops of their own, and the loops that take lanes one by one.
    fn stored(body: &str, lanes: &str, short: bool) -> (usize, usize) {
        let kernel = kernel(body, lanes);
        let segment = &kernel.segments[0];
        let found = Stored::of(segment, &Narrow, short);
        let loops = (0..segment.insts.len()).filter(|&at| has_loop(segment, &found, at));
        let by_lanes = loops.filter(|&at| !takes_vectors(segment, &found, at, &Narrow)).count();
        (found.rows(segment).count(), by_lanes)
    }

    const DEAR_VALUE: &str = "%v = load x[lane + row*LANES] : row<f32, LANES> %r = sqrt %v %q = div %v, %r";

    #[test]
    fn what_is_dear_below_a_wide_integer_is_stored() {
        let body = |lanes: &str| {
            format!("{DEAR_VALUE} %i = cast %q to i64 rne sat store c[lane + row*LANES], %i").replace("LANES", lanes)
        };
        // The loop over integers stays as it is, and has nothing but a load to do.
        assert_eq!(stored(&body("256"), "256", false), (1, 1));
        // Of any number of lanes nothing is stored, of few it is.
        assert_eq!([false, true].map(|short| stored(&body("n"), "n", short)), [(0, 1), (1, 1)]);
    }

    #[test]
    fn a_sum_of_a_row_of_scaled_groups_takes_vectors() {
        let body = "%v = load x[lane + row*256] : row<f32, 256> %g = load a[lane + row*4] : group<f32, 256, 64> \
                    %q = div %v, %g %t = reduce add %q over row nan propagate order tree(16) \
                    %w = mul %q, %t store d[lane + row*256], %w";
        assert_eq!(stored(body, "256", false), (1, 0));
    }
}
