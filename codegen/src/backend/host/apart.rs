//! Rows that are stored once so that two loops run faster than one.
//!
//! - A loop runs lane by lane if it searches, if one of its ops has no vector form (an integer of 64 bits, a join of pairs
//!   under a packing of pairs), if it takes groups of two sizes, if it takes groups of a row that is joined of parts, or if it reduces a row and
//!   takes groups. Dear values below such a loop get a loop of their own ahead of it, in vectors. The loop itself loads them.
//! - A loop over groups computes dear values for one group, waits for the group's extreme, and has too few lanes to do
//!   something else meanwhile. They get a loop over the whole row.
//! - A dear value that slices take parts of and something else takes as it stands: both loops would compute it.
//! - A loop whose values are more than the registers hold (`Forms::most_cost`) is cut in two of about the same length.

use std::collections::HashSet;

use fusewright_graph::Dim;

use super::cost::{LOAD, STORE_AND_LOAD, Values, weight};
use super::plan::{self, pieces, single_group};
use super::stash::{Stored, bytes};
use super::walk::Walk;
use super::{CHUNK, Forms};
use crate::kernel::{InstOp, Segment, Shape, Val};

/// A value that costs so many instructions for four lanes is worth a store and a load: lane by lane it takes four times as
/// many.
const DEAR: u32 = 4;
/// The same for a value that vectors are computed of either way, group by group or for the row at once.
const DEAR_IN_GROUPS: u32 = 5;
/// Instructions of the longest loop that is looked at for a place to cut it, which takes time with their square.
const LONGEST: usize = 512;
/// Looking four lanes up in a table costs this much.
const LOOK_UP: u32 = 12;

/// Adds such rows to those that are stored, as far as there is memory for them. `short` says that no row is longer than
/// [`SHORT`](super::keep::SHORT).
pub(super) fn add(segment: &Segment, found: &mut Stored, forms: &dyn Forms, short: bool, mut room: i64) {
    for at in in_parts_too(segment, found, forms, short) {
        if let Some(bytes) = bytes(segment, at, short).filter(|bytes| *bytes <= room) {
            room -= bytes;
            found.stash(segment, at);
        }
    }
    let mut open: Vec<usize> = (0..segment.insts.len()).filter(|&at| has_loop(segment, found, at)).collect();
    while let Some(from) = open.pop() {
        let wanted = if !takes_vectors(segment, found, from, forms) {
            Wanted { least: DEAR, for_whole_rows: false }
        } else if takes_groups(segment, found, from, forms) {
            Wanted { least: DEAR_IN_GROUPS, for_whole_rows: true }
        } else {
            let taken = forms.most_cost().and_then(|most| halving(segment, found, from, forms, (short, most)));
            let taken = taken.and_then(|at| Some((at, bytes(segment, at, short).filter(|bytes| *bytes <= room)?)));
            if let Some((at, bytes)) = taken {
                room -= bytes;
                found.stash(segment, at);
                open.extend([from, at]);
            }
            continue;
        };
        for at in vectors_below(segment, found, from, forms, (short, &wanted)) {
            let taken = bytes(segment, at, short).filter(|bytes| *bytes <= room);
            if let Some(bytes) = taken {
                room -= bytes;
                found.stash(segment, at);
                open.push(at);
            }
        }
    }
}

/// The dear rows that are read in parts and as they stand, each with a loop in vectors.
fn in_parts_too(segment: &Segment, found: &Stored, forms: &dyn Forms, short: bool) -> Vec<usize> {
    let values = Values { segment, definitions: &found.definitions };
    let (mut parts, mut whole) = (vec![false; segment.types.len()], vec![false; segment.types.len()]);
    for inst in &segment.insts {
        let read = if matches!(inst.op, InstOp::Slice { .. }) { &mut parts } else { &mut whole };
        inst.args.iter().for_each(|v| read[v.0 as usize] = true);
    }
    let both = (0..segment.insts.len()).filter(|&at| {
        let result = segment.insts[at].results.first().map(|v| v.0 as usize);
        result.is_some_and(|v| parts[v] && whole[v])
    });
    let wanted = both.filter(|&at| {
        let v = segment.insts[at].results[0];
        let is_dear = values.is_row(v) && values.cost(v, DEAR_IN_GROUPS, &|v| found.is_stashed(v)) >= DEAR_IN_GROUPS;
        is_dear && !found.stashed[at] && bytes(segment, at, short).is_some() && takes_vectors(segment, found, at, forms)
    });
    wanted.collect()
}

/// Says whether an instruction has a loop over lanes: a store, a reduction or a search of a row, or a row that is stored.
fn has_loop(segment: &Segment, found: &Stored, at: usize) -> bool {
    let inst = &segment.insts[at];
    match inst.op {
        InstOp::Store { .. } => matches!(segment.ty(inst.args[0]).shape, Shape::Row(_)),
        InstOp::Reduce { over: crate::kernel::Over::Row, .. } => true,
        _ if inst.op.is_search() => true,
        InstOp::AsRow => false,
        _ => found.stashed[at],
    }
}

/// The row of which a loop of its own leaves two of about the same cost, if a loop costs more than `most`. What else the first
/// loop computes, the second does not need, or has at little cost.
fn halving(
    segment: &Segment,
    found: &Stored,
    from: usize,
    forms: &dyn Forms,
    (short, most): (bool, u32),
) -> Option<usize> {
    let values = Values { segment, definitions: &found.definitions };
    let mut roots: Vec<Val> = plan::roots(segment, from).to_vec();
    if found.stashed[from] {
        roots.clone_from(&segment.insts[from].args);
    }
    // A loop over one chunk is none.
    let is_chunk = |lanes: &Dim| lanes.as_const().is_some_and(|n| n <= CHUNK);
    if matches!(&segment.ty(plan::sink_value(segment, from)).shape, Shape::Row(lanes) if is_chunk(lanes)) {
        return None;
    }
    let whole = Cone::of(&values, (found, forms), &roots);
    if whole.cost <= most || whole.insts.len() > LONGEST {
        return None;
    }
    let mut best = None;
    for &at in &whole.insts {
        let v = segment.insts[at].results[0];
        let below = Cone::of(&values, (found, forms), &[v]);
        let behind = whole.cost.saturating_sub((below.cost - LOAD.min(below.cost)) * whole.times[at]);
        let longer = below.cost.max(behind);
        let is_better = longer + STORE_AND_LOAD < whole.cost && best.is_none_or(|(least, _)| longer < least);
        if !is_better || !values.is_row(v) {
            continue;
        }
        let kept = found.definitions[values.narrowest(v).0 as usize];
        let fits = bytes(segment, kept, short).is_some() && !matches!(segment.insts[kept].op, InstOp::Load { .. });
        let is_needed_behind = |w: usize| {
            let result = segment.insts[w].results[0];
            let users = whole.insts.iter().filter(|user| !below.has[**user]);
            w != at
                && users.into_iter().any(|user| segment.insts[*user].args.contains(&result))
                && Cone::of(&values, (found, forms), &[result]).cost > STORE_AND_LOAD
        };
        if fits
            && kept != from
            && !found.stashed[kept]
            && !below.insts.iter().any(|w| is_needed_behind(*w))
            && takes_vectors(segment, found, kept, forms)
        {
            best = Some((longer, kept));
        }
    }
    best.map(|(_, at)| at)
}

/// The instructions that a loop runs for rows, down to stored values and reductions.
struct Cone {
    /// The instructions, and whether each of the segment is one of them.
    insts: Vec<usize>,
    has: Vec<bool>,
    /// By instruction of the segment, of how many lanes one lane of the loop has it: of two below a packing of pairs.
    times: Vec<u32>,
    /// Four lanes of the loop cost this much.
    cost: u32,
}

impl Cone {
    fn of(values: &Values<'_>, (found, forms): (&Stored, &dyn Forms), roots: &[Val]) -> Cone {
        let insts = values.segment.insts.len();
        let mut cone = Cone { insts: Vec::new(), has: vec![false; insts], times: vec![1; insts], cost: 0 };
        let mut open: Vec<(Val, u32)> = roots.iter().map(|v| (*v, 1)).collect();
        while let Some((v, times)) = open.pop() {
            let at = found.definitions[v.0 as usize];
            if values.segment.ty(v).shape == Shape::Scalar || cone.has[at] {
                continue;
            }
            if found.stashed[at] || !values.is_row(v) {
                cone.cost += times;
                continue;
            }
            cone.has[at] = true;
            cone.times[at] = times;
            cone.insts.push(at);
            if let Some(argument) = forms.looked_up(v) {
                cone.cost += LOOK_UP * times;
                open.push((argument, times));
                continue;
            }
            let inst = values.inst(v);
            cone.cost += weight(values.segment, inst) * times;
            let below = if let InstOp::Pack { ways, .. } = inst.op { times * ways } else { times };
            open.extend(inst.args.iter().map(|arg| (*arg, below)));
        }
        cone
    }
}

/// Says whether the loops of an instruction run group by group.
fn takes_groups(segment: &Segment, found: &Stored, at: usize, forms: &dyn Forms) -> bool {
    !Walk::of(segment, found, at, None, forms).groups.is_empty()
}

/// Says whether the loops of an instruction take lanes in vectors.
fn takes_vectors(segment: &Segment, found: &Stored, at: usize, forms: &dyn Forms) -> bool {
    // Lanes are compared with the best so far one by one.
    if segment.insts[at].op.is_search() {
        return false;
    }
    let walk = Walk::of(segment, found, at, None, forms);
    let lanes = segment.ty(plan::sink_value(segment, at)).shape.elements();
    let reduces = matches!(segment.insts[at].op, InstOp::Reduce { .. });
    let in_groups = || walk.cuts.is_empty() && single_group(&walk.groups, &lanes).is_some();
    // A reduction of a row takes the lanes of a group one by one.
    let grouped = walk.groups.is_empty() || !reduces && in_groups();
    let parted = walk.cuts.is_empty() || pieces(&walk.cuts, &lanes).is_some();
    walk.vector && grouped && parted
}

/// A value gets a loop of its own if it is like this.
struct Wanted {
    /// It costs at least so much.
    least: u32,
    /// Its loop does not run group by group.
    for_whole_rows: bool,
}

/// The rows nearest to a loop, each with a loop in vectors, that are wanted.
fn vectors_below(
    segment: &Segment,
    found: &Stored,
    from: usize,
    forms: &dyn Forms,
    (short, wanted): (bool, &Wanted),
) -> Vec<usize> {
    let values = Values { segment, definitions: &found.definitions };
    let stored = |v: Val| found.is_stashed(v);
    let (mut chosen, mut seen) = (Vec::new(), HashSet::new());
    let mut open: Vec<Val> = plan::roots(segment, from).to_vec();
    if found.stashed[from] {
        open.clone_from(&segment.insts[from].args);
    }
    if matches!(segment.insts[from].op, InstOp::TopK { .. }) && open.len() > 1 {
        // Of the elements only those are read that are found.
        open.remove(0);
    }
    while let Some(v) = open.pop() {
        if segment.ty(v).shape == Shape::Scalar || stored(v) || !seen.insert(v) {
            continue;
        }
        let at = found.definitions[v.0 as usize];
        let inst = &segment.insts[at];
        // What is behind a reduction has a loop of its own.
        if inst.op.combines_lanes() {
            continue;
        }
        if values.is_row(v) && values.cost(v, wanted.least, &stored) >= wanted.least {
            let v = values.lowest(v);
            let at = found.definitions[v.0 as usize];
            let fits = bytes(segment, at, short).is_some() && !matches!(segment.insts[at].op, InstOp::Load { .. });
            let is_whole = || !wanted.for_whole_rows || !takes_groups(segment, found, at, forms);
            if fits && !stored(v) && takes_vectors(segment, found, at, forms) && is_whole() {
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

    /// The dear value stands below an extreme of groups, and below the codes that the extreme scales.
    #[test]
    fn what_is_dear_below_groups_is_stored_for_the_row() {
        let of = |first: &str, quotients: usize| {
            let dear: String = (0..quotients).map(|i| format!("%d{} = div %v, %d{i} ", i + 1)).collect();
            let body = format!(
                "%v = load x[lane + row*256] : row<f32, 256> %d0 = {first} %v {dear} %a = abs %d{quotients} \
                 %m = reduce max %a over group 16 nan propagate order tree(16) %q = div %d{quotients}, %m \
                 store d[lane + row*256], %q"
            );
            stored(&body, "256", false).0
        };
        assert_eq!([of("neg", 0), of("sqrt", 0), of("sqrt", 5)], [0, 1, 1]);
    }

    #[test]
    fn long_loops_are_cut_where_nothing_else_dear_is_needed_behind() {
        /// As [`Narrow`], with few registers.
        struct Few;
        impl Forms for Few {
            fn wide_lanes(&self) -> bool {
                false
            }
            fn most_cost(&self) -> Option<u32> {
                Some(20)
            }
        }
        let of = |body: &str| {
            let kernel = kernel(&body.replace("LOAD", "%v = load x[lane + row*256] : row<f32, 256>"), "256");
            let segment = &kernel.segments[0];
            let found = Stored::of(segment, &Few, false);
            found.rows(segment).map(|(_, v)| v).collect::<Vec<Val>>()
        };
        let chain = |n: usize| (0..n).map(|i| format!("%d{} = div %v, %d{i} ", i + 1)).collect::<String>();
        let store = |n: usize| format!("store d[lane + row*256], %d{n}");
        // The load and four quotients are within the limit; of eight, about four are on each side.
        assert_eq!(of(&format!("LOAD %d0 = sqrt %v {} {}", chain(3), store(3))), []);
        assert_eq!(of(&format!("LOAD %d0 = sqrt %v {} {}", chain(8), store(8))), [Val(5)]);
        // Behind every cut another dear value would be needed.
        let crossing = "LOAD %p = sqrt %v %o = add %p, %v %q = add %o, %p %r = div %v, %q %s = div %r, %q %t = div %s, %q \
                        %u = div %t, %q store d[lane + row*256], %u";
        assert_eq!(of(crossing), []);
    }

    #[test]
    fn a_sum_of_a_row_of_scaled_groups_takes_vectors() {
        let body = "%v = load x[lane + row*256] : row<f32, 256> %g = load a[lane + row*4] : group<f32, 256, 64> \
                    %q = div %v, %g %t = reduce add %q over row nan propagate order tree(16) \
                    %w = mul %q, %t store d[lane + row*256], %w";
        assert_eq!(stored(body, "256", false), (1, 0));
    }
}
