//! Hostile input: whatever bytes come in, an answer goes out, never a panic, and in bounded time.
//!
//! Valid inputs are broken by a generator with a fixed seed, so a run repeats to the bit. `FUSEWRIGHT_FUZZ_SEED` and
//! `FUSEWRIGHT_FUZZ_CASES` ask for other and for more cases. An input that fails is kept in the folder
//! `FUSEWRIGHT_FUZZ_KEEP`, by default the system's for temporary files; one that ends the process lies there as
//! `running-…`. Inputs that failed once are in `fuzz/corpus/` and are tried again by every run.

mod corpus;
mod files;
mod mutate;
mod pipeline;
mod texts;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mutate::Random;

/// Far above what any case takes; a case beyond it grows faster than its input.
const LIMIT: Duration = Duration::from_secs(20);

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A reader under test.
struct Reader {
    /// Its folder in the corpus.
    name: &'static str,
    /// Ending of its files.
    ending: &'static str,
    /// Reads an input and does with it what can be done; whether it was accepted.
    read: fn(&[u8]) -> bool,
}

/// Every reader.
const READERS: [&Reader; 3] = [&files::MODELS, &texts::GRAPHS, &texts::KERNELS];

impl Reader {
    /// Reads an input. Fails, and keeps the input, if that panics or takes too long.
    fn case(&self, input: &[u8], name: &str, kept: &Path) -> bool {
        let start = Instant::now();
        let answer = catch_unwind(AssertUnwindSafe(|| (self.read)(input)));
        let took = start.elapsed();
        match answer {
            Ok(accepted) if took < LIMIT => accepted,
            Ok(_) => panic!("{name} takes {took:?}; {}", self.keep(input, name, kept)),
            Err(_) => panic!("{name} panics; {}", self.keep(input, name, kept)),
        }
    }

    fn keep(&self, input: &[u8], name: &str, kept: &Path) -> String {
        let path = kept.join(format!("{name}.{}", self.ending));
        match std::fs::write(&path, input) {
            Ok(()) => format!("the input is kept as {}", path.display()),
            Err(error) => format!("{}: {error}", path.display()),
        }
    }

    /// Reads `cases` inputs made by `make`. Some must be accepted and some refused, so that neither the mutations nor
    /// the reader are idle.
    fn run<T: AsRef<[u8]>>(&self, cases: u64, make: impl Fn(&mut Random) -> T) {
        let seed = variable("FUSEWRIGHT_FUZZ_SEED", 1);
        let cases = variable("FUSEWRIGHT_FUZZ_CASES", cases);
        let asked = std::env::var_os("FUSEWRIGHT_FUZZ_KEEP").map(PathBuf::from);
        let kept = asked.clone().unwrap_or_else(std::env::temp_dir);
        let running = asked.map(|folder| folder.join(format!("running-{}.{}", self.name, self.ending)));
        let mut accepted = 0;
        for number in 0..cases {
            let input = make(&mut Random::new(seed, number));
            if let Some(path) = &running {
                std::fs::write(path, &input).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            }
            let name = format!("{}-seed-{seed}-case-{number}", self.name);
            accepted += u64::from(self.case(input.as_ref(), &name, &kept));
        }
        if let Some(path) = &running {
            std::fs::remove_file(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
        println!("{}: {accepted} of {cases} cases accepted", self.name);
        assert!(accepted > 0 && accepted < cases, "{accepted} of {cases} cases accepted");
    }
}
