//! Plans by rule and of candidates: which rows lie in registers, what is refused, and that no schedule changes a tree.

use std::collections::BTreeMap;

use super::plan::{Held, Plan, Plans, VECTOR, WARP};
use super::rule::{candidates, rule};
use super::{EmitError, emit, emit_as};
use crate::kernel::Kernel;
use crate::kernel::interp::{Buffer, run};
use crate::schedule::{KernelSchedule, Place, Spread};

/// A kernel that squares rows and, where `sum` says so, divides them by their sum.
fn kernel(inner: &str, lanes: &str, sum: Option<u32>) -> Kernel {
    let reduced = sum.map_or_else(
        || "%4 = neg %2".to_owned(),
        |threads| format!("%3 = reduce add %2 over row nan propagate order tree(8, {threads}, 2)\n%4 = div %2, %3"),
    );
    let text = format!(
        "kernel @k(s = extent(x, 0), n = extent(x, 2)) rows s {{
           param %x: bf16[s, {inner}, {lanes}] in
           param %y: bf16[s, {inner}, {lanes}] out
           segment @rows inner {inner} {{
             %0 = load x[inner*{lanes} + lane + row*{inner}*{lanes}] : row<bf16, {lanes}>
             %1 = cast %0 to f32 rne
             %2 = mul %1, %1
             {reduced}
             %5 = cast %4 to bf16 rne
             store y[inner*{lanes} + lane + row*{inner}*{lanes}], %5
           }}
         }}"
    );
    let text = if sum.is_none() { text.replace("%4", "%3").replace("%5", "%4") } else { text };
    text.parse::<Kernel>().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Its plan by rule, of launches of few rows, whatever follows it.
fn plan(inner: &str, lanes: &str, sum: Option<u32>) -> Plan {
    let kernel = kernel(inner, lanes, sum);
    Plan { release: 0, bound: 0, ..by_rule(&kernel).first }
}

/// Its plan by rule of launches of many rows.
fn plan_of_many(lanes: &str) -> Option<Plan> {
    by_rule(&kernel("1", lanes, None)).many.map(|(_, plan)| plan)
}

fn by_rule(kernel: &Kernel) -> Plans {
    Plans::of(kernel, &rule(kernel)).expect("the rule gives what a kernel can have")
}

/// A plan of blocks and units of so many threads.
fn dealt([threads, unit]: [u32; 2], held: Held) -> Plan {
    Plan { threads, unit, release: 0, bound: 0, at_once: None, held: vec![Some(held)] }
}

#[test]
fn rows_lie_in_registers_where_threads_deal_them_evenly() {
    let block = |vectors, parts| Held { vectors, parts, teams: 1, is_team: false, passes: 1, uneven: None };
    let team = |vectors, teams| Held { vectors, parts: 1, teams, is_team: true, passes: 1, uneven: None };
    assert_eq!(plan("1", "5120", Some(320)), dealt([320, 320], block(2, 1)));
    assert_eq!(plan("1", "12288", None), dealt([128, 128], block(1, 12)));
    assert_eq!(plan_of_many("12288"), Some(dealt([256, 256], block(1, 6))));
    // Rows of 8 threads, four of them in a warp; one load alone is in two vectors of a thread, too.
    assert_eq!(plan("200", "128", Some(8)), dealt([128, 32], team(2, 4)));
    assert_eq!(plan("200", "128", None), dealt([128, 32], team(2, 4)));
    // One row alone: half of a warp, and others share the block.
    assert_eq!(plan("1", "256", Some(16)), dealt([128, 16], team(2, 1)));
}

#[test]
fn rows_of_any_width_are_those_of_teams_or_share_blocks() {
    let block = |vectors, parts| Held { vectors, parts, teams: 1, is_team: false, passes: 1, uneven: None };
    let team = |vectors, teams| Held { vectors, parts: 1, teams, is_team: true, passes: 1, uneven: None };
    // Sums need a power of two of threads, which have as many vectors as there are.
    assert_eq!(plan("40", "96", Some(2)), dealt([128, 16], team(6, 8)));
    assert_eq!(plan("1", "192", Some(4)), dealt([128, 4], team(6, 1)));
    assert_eq!(plan("1", "80", Some(1)), dealt([128, 1], team(10, 1)));
    // Others any number; blocks are whole warps and whole rows.
    assert_eq!(plan("1", "96", None), dealt([96, 12], team(1, 1)));
    assert_eq!(plan("40", "80", None), dealt([160, 20], team(2, 4)));
    // Rows that are shorter than a block share it, and those that no block deals evenly are parts of it.
    assert_eq!(plan("1", "768", None), dealt([96, 96], block(1, 1)));
    assert_eq!(plan_of_many("768"), Some(dealt([288, 96], block(1, 1))));
    assert_eq!(plan("1", "896", None), dealt([224, 112], block(1, 1)));
    assert_eq!(plan("1", "2056", None), dealt([128, 1], block(1, 257)));
    // What threads of a block exchange in pairs of warps they cannot in other units.
    let sum = kernel("1", "5120", Some(320));
    let shared = Spread { threads: 640, unit: 320, ..rule(&sum).first };
    assert!(Plan::of(&sum, &shared).expect_err("is refused").contains("unit 320"));
}

#[test]
fn threads_may_lack_vectors_of_rows() {
    let uneven = |vectors, parts, all| Held { vectors, parts, teams: 1, is_team: false, passes: 1, uneven: Some(all) };
    assert_eq!(plan("1", "2880", Some(192)), dealt([192, 192], uneven(2, 1, 360)));
    assert_eq!(plan("1", "5120", Some(256)), dealt([256, 256], uneven(3, 1, 640)));
    // Without sums blocks share a row.
    assert_eq!(plan("1", "11008", None), dealt([128, 128], uneven(1, 11, 1376)));
    assert_eq!(plan_of_many("11008"), Some(dealt([160, 160], uneven(1, 9, 1376))));
    let held = uneven(2, 1, 360);
    assert!(held.has_all(0, 192) && !held.has_all(1, 192));
}

#[test]
fn other_rows_are_looped_over() {
    for (inner, lanes, sum) in
        [("1", "4097", Some(256)), ("1", "n", Some(512)), ("1", "65536", Some(512)), ("1", "100", None)]
    {
        assert_eq!(plan(inner, lanes, sum).held, [None], "{inner} × {lanes}");
    }
}

/// Places in short rows are counted by a thread for each lane; longer rows are searched by few warps.
#[test]
fn rows_have_threads_by_how_they_are_searched() {
    let searched = |lanes: u32| {
        let text = format!(
            "kernel @k(s = extent(x, 0)) rows s {{
               param %x: f32[s, {lanes}] in
               param %y: f32[s, 8] out
               segment @rows inner 1 {{
                 %0 = load x[lane + row*{lanes}] : row<f32, {lanes}>
                 %1, %2 = top_k %0 k 8
                 store y[lane + row*8], %1
               }}
             }}"
        );
        by_rule(&text.parse::<Kernel>().unwrap_or_else(|e| panic!("{e}"))).first.threads
    };
    assert_eq!([64, 130, 512, 600, 2048, 151_936].map(searched), [64, 160, 512, 96, 256, 256]);
}

/// Bounds of registers by rule, of launches of few rows and of many, of what reduces rows of 5120 lanes.
#[test]
fn registers_are_bounded_where_a_block_more_fits() {
    let norm = rule(&kernel("1", "5120", Some(320)));
    // It keeps squares of f32 across the reduction, and loads bf16.
    assert_eq!((norm.first.bound, norm.many.map(|(from, many)| (from, many.bound))), (0, Some((282, 40))));
    assert_eq!(rule(&kernel("200", "128", Some(8))).first.bound, 0, "teams share a block");
    let of = |bound| Plan::of(&kernel("1", "5120", Some(320)), &Spread { bound, ..norm.first });
    assert!(of(200).is_ok());
    assert!(of(248).expect_err("is refused").contains("registers"));
}

/// A kernel that sums rows of f32 as a tree says.
fn sum(inner: u32, lanes: u32, threads: u32) -> Kernel {
    let text = format!(
        "kernel @k(s = extent(x, 0)) rows s {{
           param %x: f32[s, {inner}, {lanes}] in
           param %y: f32[s, {inner}] out
           segment @rows inner {inner} {{
             %0 = load x[inner*{lanes} + lane + row*{inner}*{lanes}] : row<f32, {lanes}>
             %1 = reduce add %0 over row nan propagate order tree(8, {threads}, 2)
             store y[inner + row*{inner}], %1
           }}
         }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// What threads that have the lanes of a row as a plan deals them make of it: each folds its vectors in two ways, which are
/// combined, then lanes of warps in halves, then warps in halves.
fn dealt_sum(row: &[f32], held: Held, unit: u32) -> f32 {
    let (threads, vector) = (held.row_threads(unit) as usize, VECTOR as usize);
    assert_eq!(threads * vector * held.vectors as usize, row.len());
    let of_thread = |thread: usize| {
        let mut ways = [0.0f32; 2];
        for v in 0..held.vectors as usize {
            let first = (v * threads + thread) * vector;
            for (j, x) in row[first..first + vector].iter().enumerate() {
                ways[j % 2] += x;
            }
        }
        ways[0] + ways[1]
    };
    let halve = |mut parts: Vec<f32>| {
        while parts.len() > 1 {
            let half = parts.len().div_ceil(2);
            for i in 0..parts.len() - half {
                parts[i] += parts[i + half];
            }
            parts.truncate(half);
        }
        parts[0]
    };
    let threads: Vec<f32> = (0..threads).map(of_thread).collect();
    halve(threads.chunks(WARP as usize).map(|warp| halve(warp.to_vec())).collect())
}

/// What the interpreter of Kernel IR makes of one outer row.
fn interpreted(kernel: &Kernel, row: &[f32], inner: u32) -> Vec<u32> {
    let bytes = row.iter().flat_map(|x| x.to_bits().to_le_bytes()).collect();
    let mut buffers = [Buffer::Bytes(bytes), Buffer::Bytes(vec![0; 4 * inner as usize])];
    let dims = BTreeMap::from([("s".to_owned(), 1)]);
    run(kernel, &mut buffers, &dims, 0..1).expect("runs");
    buffers[1].bytes().as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

#[test]
fn every_candidate_sums_as_the_interpreter_does() {
    let mut in_registers = 0;
    for (inner, lanes, threads) in [
        (1, 5120, 320),
        (1, 5120, 160),
        (1, 4096, 128),
        (72, 128, 8),
        (1, 256, 16),
        (6, 64, 4),
        (40, 96, 2),
        (3, 192, 4),
        (1, 80, 1),
    ] {
        let kernel = sum(inner, lanes, threads);
        // Without a common exponent, and most digits used, so that any other order shows.
        let number = |i: u32| {
            let bits = i.wrapping_add(1).wrapping_mul(2_654_435_761);
            f32::from_bits(0x3f00_0000 + (bits >> 8)) * if bits & 1 == 0 { -1.0 } else { 1.0 }
        };
        let row: Vec<f32> = (0..inner * lanes).map(number).collect();
        let right = interpreted(&kernel, &row, inner);
        let reversed = row.chunks(lanes as usize).map(|row| row.iter().rev().sum::<f32>().to_bits());
        assert!(reversed.zip(&right).any(|(other, right)| other != *right), "an order that is not the tree's shows");
        for spread in candidates(&kernel) {
            let plan = Plan::of(&kernel, &spread).expect("candidates are what a kernel can have");
            let [Some(held)] = plan.held[..] else { continue };
            in_registers += 1;
            let sums: Vec<u32> =
                row.chunks(lanes as usize).map(|row| dealt_sum(row, held, plan.unit).to_bits()).collect();
            assert_eq!(sums, right, "{spread}");
        }
        // Fewer or more threads would be another tree.
        for other in [threads / 2, threads * 2] {
            let unit = other.max(1);
            let spread = Spread { threads: unit.max(WARP), unit, ..rule(&kernel).first };
            let held = Plan::of(&kernel, &spread).ok().and_then(|plan| plan.held[0]);
            assert!(held.is_none_or(|held| held.row_threads(unit) == threads), "{spread}: {held:?}");
        }
    }
    assert!(in_registers >= 12, "{in_registers} candidates");
}

#[test]
fn kernels_that_add_nothing_have_many_schedules_and_the_rule_is_first() {
    let found = |kernel: &Kernel| {
        let all = candidates(kernel);
        assert_eq!(all.first(), Some(&rule(kernel).first));
        let mut plans: Vec<Plan> = all.iter().filter_map(|spread| Plan::of(kernel, spread).ok()).collect();
        assert_eq!(plans.len(), all.len(), "each can be had");
        plans.dedup();
        assert_eq!(plans.len(), all.len(), "each differs");
        all.len()
    };
    let counts =
        [kernel("1", "12288", None), kernel("64", "128", Some(8)), kernel("1", "5120", Some(320))].map(|k| found(&k));
    // A tree leaves one, with a bound of registers and without.
    assert!(
        counts[0] >= 8 && counts[1] >= 8 && counts[2] == 2 && counts.iter().all(|count| *count < 100),
        "{counts:?}"
    );
    assert!(found(&kernel("1", "4097", Some(256))) > 1);
}

#[test]
fn every_candidate_has_code_and_other_schedules_are_refused_with_a_reason() {
    for kernel in [kernel("64", "128", Some(8)), kernel("1", "12288", None), kernel("1", "4097", Some(256))] {
        for spread in candidates(&kernel) {
            let schedule = KernelSchedule { first: spread, many: Some((100, rule(&kernel).first)) };
            let code = emit_as(&kernel, "sm_90", &schedule).unwrap_or_else(|e| panic!("{schedule}: {e}"));
            assert_eq!(
                (code.launch.blocks.threads, code.launch.many.map(|(from, _)| from)),
                (spread.threads, Some(100))
            );
            assert!(code.ptx.contains(&format!(".maxntid {}", spread.threads)), "{schedule}\n{}", code.ptx);
            assert!(code.ptx.contains("k__many"), "{schedule}");
        }
    }
    let heads = kernel("64", "128", Some(8));
    assert_eq!(emit(&heads, "sm_90"), emit_as(&heads, "sm_90", &rule(&heads)));
    let good = rule(&heads).first;
    for (spread, says) in [
        (Spread { threads: 48, ..good }, "a multiple of 32"),
        (Spread { threads: 2048, ..good }, "at most 1024"),
        (Spread { unit: 24, ..good }, "unit 24"),
        (Spread { unit: 64, ..good }, "unit 64"),
        (Spread { unit: 4, ..good }, "segment `rows`"),
        (Spread { passes: 5, ..good }, "5 passes"),
        (Spread { passes: 16, ..good }, "registers"),
        (Spread { place: Place::Loops, ..good }, "unit"),
        (Spread { place: Place::Loops, unit: 128, vectors: 2, ..good }, "1 vector"),
    ] {
        let error = emit_as(&heads, "sm_90", &KernelSchedule::uniform(spread)).expect_err("is refused");
        let EmitError::Schedule(error) = error else { panic!("{spread}: {error}") };
        assert!(error.contains(says), "{spread}: {error}");
    }
    let wide = kernel("1", "5120", Some(320));
    let other = Spread { threads: 256, unit: 256, ..rule(&wide).first };
    let error = Plan::of(&wide, &other).expect_err("another tree");
    assert!(error.contains("256 threads do not deal"), "{error}");
    let loops = Spread { place: Place::Loops, threads: 64, unit: 64, vectors: 1, passes: 1, release: 0, bound: 0 };
    assert!(Plan::of(&wide, &loops).expect_err("fewer threads than the tree").contains("64 threads are fewer"));
}

/// A kernel that multiplies groups of 16 by what so many roots make of their greatest magnitude, which it stores as well.
fn roots(count: usize) -> Kernel {
    let roots: String = (5..).take(count).map(|i| format!("%{i} = sqrt %{}\n", i - 1)).collect();
    let (last, scaled, rounded) = (count + 4, count + 5, count + 6);
    let text = format!(
        "kernel @k(s = extent(x, 0)) rows s {{
           param %x: bf16[s, 512] in
           param %y: bf16[s, 512] out
           param %z: f32[s, 32] out
           segment @rows inner 1 {{
             %0 = load x[lane + row*512] : row<bf16, 512>
             %1 = cast %0 to f32 rne
             %2 = abs %1
             %3 = reduce max %2 over group 16 nan ignore order tree(8, 1, 2)
             %4 = neg %3
             {roots}
             %{scaled} = mul %1, %{last}
             %{rounded} = cast %{scaled} to bf16 rne
             store y[lane + row*512], %{rounded}
             store z[lane + row*32], %{last}
           }}
         }}"
    );
    text.parse::<Kernel>().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Turns are worth it from eight operations on: a change of sign, and roots.
#[test]
fn threads_with_as_many_groups_as_share_one_take_turns_at_their_values() {
    let roots_and_exchanges = |count: usize, vectors: u32| {
        let kernel = roots(count);
        let spread = Spread { threads: 64 / vectors, unit: 64 / vectors, vectors, ..rule(&kernel).first };
        let schedule = KernelSchedule::uniform(spread);
        let code = emit_as(&kernel, "sm_90", &schedule).unwrap_or_else(|e| panic!("{schedule}: {e}"));
        ["sqrt.rn.f32", "shfl.sync.idx"].map(|of| code.ptx.matches(of).count())
    };
    assert_eq!(roots_and_exchanges(7, 1), [7, 0]);
    assert_eq!(roots_and_exchanges(7, 2), [7, 2]);
    assert_eq!(roots_and_exchanges(6, 2), [12, 0]);
}
