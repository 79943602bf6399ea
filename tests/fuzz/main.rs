//! Hostile input: whatever bytes come in, an answer goes out, never a panic, and in bounded time.
//!
//! Valid inputs are broken by a generator with a fixed seed, so a run repeats to the bit. `FUSEWRIGHT_FUZZ_SEED` and
//! `FUSEWRIGHT_FUZZ_CASES` ask for other and for more cases; a failure prints the seed, the case and the input.

mod files;
mod mutate;
mod pipeline;
mod texts;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use mutate::Random;

/// Far above what any case takes; a case beyond it grows faster than its input.
const LIMIT: Duration = Duration::from_secs(20);

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs `case` on `cases` inputs made by `make`; it answers whether the input was accepted. Both answers must occur,
/// so that neither the mutations nor the reader under test are idle.
fn run<T>(cases: u64, make: impl Fn(&mut Random) -> T, show: impl Fn(&T) -> String, case: impl Fn(&T) -> bool) {
    let seed = variable("FUSEWRIGHT_FUZZ_SEED", 1);
    let mut accepted = 0;
    let cases = variable("FUSEWRIGHT_FUZZ_CASES", cases);
    for number in 0..cases {
        let input = make(&mut Random::new(seed, number));
        let start = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| case(&input))) {
            Ok(answer) => accepted += u64::from(answer),
            Err(_) => panic!("seed {seed}, case {number} panics on this input:\n{}", show(&input)),
        }
        let took = start.elapsed();
        assert!(took < LIMIT, "seed {seed}, case {number} takes {took:?}:\n{}", show(&input));
    }
    println!("{accepted} of {cases} cases accepted");
    assert!(accepted > 0 && accepted < cases, "{accepted} of {cases} cases accepted");
}
