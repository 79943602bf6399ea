//! Generated CPU code against the Kernel IR interpreter, to the bit.
//!
//! Every kernel runs on random and edge values, for several row counts and lengths, on one thread and more. NaNs of
//! floats of 16 bits and more may differ in sign and payload, everything else may not differ at all.

#[path = "cpu/fence.rs"]
mod fence;
#[path = "cpu/support.rs"]
mod support;

#[path = "cpu/abreast.rs"]
mod abreast;
#[path = "cpu/ahead.rs"]
mod ahead;
#[path = "cpu/casts.rs"]
mod casts;
#[path = "cpu/code.rs"]
mod code;
#[path = "cpu/cut.rs"]
mod cut;
#[path = "cpu/extremes.rs"]
mod extremes;
#[path = "cpu/fenced.rs"]
mod fenced;
#[path = "cpu/joined.rs"]
mod joined;
#[path = "cpu/kept.rs"]
mod kept;
#[path = "cpu/kernels.rs"]
mod kernels;
#[cfg(all(feature = "llvm", target_arch = "x86_64"))]
#[path = "cpu/levels.rs"]
mod levels;
#[path = "cpu/lookups.rs"]
mod lookups;
#[path = "cpu/maps.rs"]
mod maps;
#[path = "cpu/over.rs"]
mod over;
#[path = "cpu/runs.rs"]
mod runs;
#[path = "cpu/searches.rs"]
mod searches;
#[path = "cpu/stages.rs"]
mod stages;
#[path = "cpu/tails.rs"]
mod tails;
#[path = "cpu/tuned.rs"]
mod tuned;
#[path = "cpu/turns.rs"]
mod turns;
