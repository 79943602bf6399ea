//! Combinations of the matrix, fused against one kernel per op: which of them fusing makes slower.
//!
//! A machine that does other things as well disturbs single figures. So the two take turns within a repeat, of each its
//! least time counts, and a combination is slower only if it is so in every repeat.

use std::collections::BTreeMap;
use std::time::Instant;

use fusewright_abi::Target;

use super::{geometric_mean, options};
use crate::inputs::{Values, tensors};
use crate::matrix::Combination;
use crate::program::Program;
use crate::{Error, HostTensor, compile};

/// Repeats of one figure, all of which have to agree.
pub const REPEATS: usize = 3;
/// Below this ratio of a repeat, what is fused is slower there.
pub const SLOWER: f64 = 0.97;
/// Rows that are measured unless others are asked for.
pub const AGAINST_ROWS: [u32; 3] = [1, 32, 512];
/// Turns of a repeat, and the least seconds of calls in each.
const TURNS: usize = 12;
const TURN_SECONDS: f64 = 5e-4;

/// Figures of a combination at a number of rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Against {
    /// The combination.
    pub name: String,
    /// Its op and its quantiser.
    pub family: String,
    /// A call has so many rows.
    pub rows: u32,
    /// Least time of a call with one kernel per region, in microseconds.
    pub fused_us: f64,
    /// The same with one kernel per op.
    pub unfused_us: f64,
    /// Each repeat gives the least time with one kernel per op, divided by the least time with one per region.
    pub ratios: [f64; REPEATS],
}

impl Against {
    /// Says whether it is slower fused in every repeat.
    pub fn is_slower(&self) -> bool {
        self.ratios.iter().all(|ratio| *ratio < SLOWER)
    }

    /// The best that is known: the ratio of the least times of all repeats.
    pub fn ratio(&self) -> f64 {
        self.unfused_us / self.fused_us
    }
}

/// Measures a combination at a number of rows on one thread.
///
/// # Errors
/// A target that is not available, and internal errors.
pub fn against(combination: &Combination, target: &Target, rows: u32, seed: u64) -> Result<Against, Error> {
    let graph = combination.graph().map_err(|e| Error::Internal(format!("{combination}: {e}")))?;
    let programs =
        [compile(&graph, target, &options(true))?.program, compile(&graph, target, &options(false))?.program];
    let symbols = combination.symbols_at(rows.into());
    let made = tensors(&graph, &symbols, seed, Values::Ordinary)?;
    let inputs = made.iter().map(HostTensor::of).collect::<Result<Vec<_>, _>>()?;
    let inputs: Vec<&HostTensor> = inputs.iter().collect();
    let (mut ratios, mut least) = ([0.0; REPEATS], [f64::INFINITY; 2]);
    for ratio in &mut ratios {
        let [fused, unfused] = repeat(&programs, &inputs)?;
        *ratio = unfused / fused;
        least = [least[0].min(fused), least[1].min(unfused)];
    }
    let [fused_us, unfused_us] = least;
    let (name, family) = (combination.to_string(), combination.family());
    Ok(Against { name, family, rows, fused_us, unfused_us, ratios })
}

/// The least microseconds of a call of each program, which take turns.
fn repeat(programs: &[Program; 2], inputs: &[&HostTensor]) -> Result<[f64; 2], Error> {
    let mut least = [f64::INFINITY; 2];
    for _ in 0..TURNS {
        for (program, least) in programs.iter().zip(&mut least) {
            let turn = Instant::now();
            while turn.elapsed().as_secs_f64() < TURN_SECONDS {
                let start = Instant::now();
                program.run_discarding(inputs, 1)?;
                *least = least.min(start.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    Ok(least)
}

/// The geometric mean of the ratios of each family at each number of rows.
pub fn by_family(measured: &[Against]) -> BTreeMap<(String, u32), f64> {
    let mut ratios: BTreeMap<(String, u32), Vec<f64>> = BTreeMap::new();
    for one in measured {
        ratios.entry((one.family.clone(), one.rows)).or_default().push(one.ratio());
    }
    ratios.into_iter().map(|(key, ratios)| (key, geometric_mean(&ratios))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::sample;

    #[test]
    fn a_combination_is_measured_at_the_rows_asked_for() {
        let one = &sample(1, 5)[0];
        let measured = against(one, &Target::Cpu, 3, 1).expect("it runs");
        assert!(measured.fused_us > 0.0 && measured.unfused_us.is_finite() && measured.rows == 3, "{measured:?}");
        assert!(
            measured.name == one.to_string()
                && one.to_string().contains(measured.family.split('.').next().expect("a word"))
        );
    }

    #[test]
    fn slower_is_what_every_repeat_says() {
        let of = |family: &str, rows, ratios, unfused_us| Against {
            name: "n".to_owned(),
            family: family.to_owned(),
            rows,
            fused_us: 1.0,
            unfused_us,
            ratios,
        };
        assert!(of("a", 1, [0.9, 0.96, 0.5], 0.9).is_slower());
        assert!(!of("a", 1, [0.9, 0.98, 0.5], 0.9).is_slower());
        let means = by_family(&[of("a", 1, [1.0; 3], 4.0), of("a", 1, [1.0; 3], 1.0), of("b", 1, [1.0; 3], 3.0)]);
        assert_eq!(means.len(), 2);
        assert!((means[&("a".to_owned(), 1)] - 2.0).abs() < 1e-12);
    }
}
