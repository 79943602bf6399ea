//! Random graphs through the whole chain: the program on the CPU, fused and op by op, the Kernel IR interpreter on
//! lowered and on expanded kernels, and the graph interpreter's intervals must tell one story.
//!
//! `regressions.rs` has graphs that others got wrong, which run the same ways.
//!
//! `FUSEWRIGHT_SEED` and `FUSEWRIGHT_CASES` ask for other and for more cases; a failure prints the seed, the case and
//! the smallest graph found that fails in the same way. `FUSEWRIGHT_TARGET` asks for a device instead of the host.

mod bounds;
mod graphs;
mod judge;
mod lookups;
mod regressions;
mod shifted;

use fusewright::diff::reduce;
use fusewright::graph::Graph;
use graphs::Profile;
use judge::{Seen, judge, target};

/// Failures that are reported before a run ends.
const REPORTED: usize = 3;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn run(profile: Profile, default_cases: u64) {
    let (seed, cases) = (variable("FUSEWRIGHT_SEED", 1), variable("FUSEWRIGHT_CASES", default_cases));
    let mut total = Seen::default();
    let (mut unfused, mut fell_back) = (0, 0);
    let mut failures = Vec::new();
    for case in 0..cases {
        let graph = graphs::random(profile, seed, case);
        let operands_seed = seed.wrapping_mul(1_000_003).wrapping_add(case);
        match judge(&graph, operands_seed) {
            Ok(seen) => {
                unfused += u64::from(seen.fused == 0);
                fell_back += u64::from(seen.fell_back);
                total.fused += seen.fused;
                total.elements += seen.elements;
                total.single_valued += seen.single_valued;
            }
            Err(failure) => {
                let kind = failure.kind;
                let fails = |g: &Graph| judge(g, operands_seed).err().filter(|f| f.kind == kind);
                let (smallest, failure) = reduce(&graph, failure, fails);
                let (kind, message) = (failure.kind, failure.message);
                failures.push(format!("{profile:?}, seed {seed}, case {case}: {kind}: {message}\n{smallest}"));
                if failures.len() == REPORTED {
                    break;
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    println!(
        "{cases} graphs on {}, {unfused} without a fused kernel, {fell_back} with an op that has none: {total:?}",
        target()
    );
    assert!(total.fused as u64 >= cases && unfused * 10 <= cases, "{unfused} of {cases} unfused; {total:?}");
    assert!(total.single_valued * 2 >= total.elements, "{total:?}");
}

#[test]
fn every_way_to_run_plain_rows_agrees() {
    run(Profile::Rows, 80);
}

#[test]
fn every_way_to_run_heads_and_groups_agrees() {
    run(Profile::Heads, 80);
}

#[test]
fn every_way_to_run_what_is_filled_up_and_cut_agrees() {
    run(Profile::Padded, 80);
}

#[test]
fn every_way_to_read_and_write_at_places_agrees() {
    run(Profile::Places, 80);
}

#[test]
fn every_way_to_shift_what_stands_beside_itself_agrees() {
    run(Profile::Shifted, 80);
}

/// One value seen as two shapes, of which one is returned and the other ends before: one buffer.
#[test]
fn a_returned_view_keeps_its_buffer() {
    let text = "graph @views(s: 0..8192; %w: f16[128], %c: f16[s, 128, 1], %x: f16[s, 128]) {
       %0 = maxnum %w, %x
       %1 = reshape %0 {shape = [s, 2, 64]}
       %2 = reshape %0 {shape = [s, 128, 1]}
       %3 = cat %2, %c {axis = 2}
       %4 = reshape %3 {shape = [s, 256]}
       %5 = abs %4
       return %1, %5
     }";
    let graph = text.parse().expect("the graph is well formed");
    judge(&graph, 1).unwrap_or_else(|failure| panic!("{failure:?}"));
}

/// Routing of a mixture of experts, in the orders that models have: one kernel each.
#[test]
fn the_largest_lanes_of_a_row_share_its_kernel() {
    let renormalised = "%p = softmax %wide
       %v, %i = top_k %p {k = K}
       %sum = reduce %v {op = add, axes = [1]}
       %n = div %v, %sum";
    let of_groups = "%p = softmax %wide
       %g = reshape %p {shape = [s, GROUPS, 4]}
       %m = reduce %g {op = max, axes = [2]}
       %best = reshape %m {shape = [s, GROUPS]}
       %n, %i = top_k %best {k = 2}";
    let chosen_first = "%v, %i = top_k %wide {k = K}
       %n = softmax %v";
    for routing in [renormalised, chosen_first, of_groups] {
        for (experts, k) in [(8, 1), (8, 2), (60, 4), (128, 8), (256, 256)] {
            let routing = routing.replace('K', &k.to_string()).replace("GROUPS", &(experts / 4).to_string());
            let text = format!(
                "graph @routing(s: 0..8192; %logits: bf16[s, {experts}]) {{
                   %wide = cast %logits {{to = f32}}
                   {routing}
                   %y = cast %n {{to = bf16}}
                   return %y, %i
                 }}"
            );
            let graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
            let seen = judge(&graph, k).unwrap_or_else(|failure| panic!("{failure:?}\n{text}"));
            assert_eq!(seen.fused, 1, "{text}");
        }
    }
}
