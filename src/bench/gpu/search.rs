//! Which schedule of a kernel is the fastest, from measurements: of all spreads at every number of rows, then of how early the
//! kernel behind may begin, then of the schedule that comes of it beside the rule's.

use fusewright_codegen::schedule::{KernelSchedule, Place, Spread, Timed};

use crate::Error;
use crate::bench::geometric_mean;

/// What another schedule must save to be taken: less is noise.
const LEAST_GAIN: f64 = 0.01;

/// Microseconds of a launch of so many rows as a schedule says, if it can be measured.
pub(super) type Measure<'a> = &'a mut dyn FnMut(&KernelSchedule, usize) -> Result<Option<f64>, Error>;

/// The outcome of a search.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Found {
    /// The fastest schedule; the rule's if none is faster.
    pub schedule: KernelSchedule,
    /// Its times and those of the rule's.
    pub times: Vec<Timed>,
}

impl Found {
    /// How many times as fast it is as the rule's, in the geometric mean.
    pub fn gain(&self) -> f64 {
        geometric_mean(&self.times.iter().map(|time| time.rule_us / time.us).collect::<Vec<_>>())
    }
}

/// Finds the fastest schedule over numbers of rows, which ascend. The first candidate is the rule's spread.
///
/// # Errors
/// Those of `measure`, which end the search.
pub(super) fn search(
    rule: &KernelSchedule,
    candidates: &[Spread],
    rows: &[usize],
    measure: Measure<'_>,
) -> Result<Found, Error> {
    let mut times = vec![vec![None; rows.len()]; candidates.len()];
    for (at, &rows) in rows.iter().enumerate() {
        for (candidate, times) in candidates.iter().zip(&mut times) {
            // Whether the next kernel begins at once is as the rule has it until spreads are chosen.
            let release = if candidate.place == Place::Registers { rule.at(rows).release } else { 0 };
            times[at] = measure(&KernelSchedule::uniform(Spread { release, ..*candidate }), rows)?;
        }
    }
    let mut schedule = pick(candidates, &times, rows).unwrap_or_else(|| rule.clone());
    if schedule.first.place == Place::Registers {
        schedule.first.release = release(&schedule, rows, measure)?;
    }
    let mut found = Found { schedule: rule.clone(), times: Vec::new() };
    for &rows in rows {
        let (Some(rule_us), Some(us)) = (measure(rule, rows)?, measure(&schedule, rows)?) else { continue };
        found.times.push(Timed { rows, us, rule_us });
    }
    if found.gain() > 1.0 + LEAST_GAIN {
        found.schedule = schedule;
    } else {
        found.times.iter_mut().for_each(|time| time.us = time.rule_us);
    }
    Ok(found)
}

/// The best one spread for all rows, or the best two with the number of rows between where that saves more than noise.
/// A candidate that failed somewhere is not taken there.
fn pick(candidates: &[Spread], times: &[Vec<Option<f64>>], rows: &[usize]) -> Option<KernelSchedule> {
    // Logarithms, since ratios count.
    let cost = |candidate: usize, range: std::ops::Range<usize>| -> Option<f64> {
        times[candidate][range].iter().map(|time| time.map(f64::ln)).sum()
    };
    let best = |range: std::ops::Range<usize>| {
        let costs = (0..candidates.len()).filter_map(|candidate| Some((candidate, cost(candidate, range.clone())?)));
        costs.min_by(|a, b| a.1.total_cmp(&b.1))
    };
    let one = best(0..rows.len());
    let two = (1..rows.len()).filter_map(|at| {
        let (few, many) = (best(0..at)?, best(at..rows.len())?);
        Some((at, few.0, many.0, few.1 + many.1))
    });
    let two = two.min_by(|a, b| a.3.total_cmp(&b.3));
    let least = LEAST_GAIN * rows.len() as f64;
    match (one, two) {
        (one, Some((at, few, many, cost))) if few != many && one.is_none_or(|(_, one)| cost < one - least) => {
            Some(KernelSchedule { first: candidates[few], many: Some((rows[at], candidates[many])) })
        }
        (Some((one, _)), _) => Some(KernelSchedule::uniform(candidates[one])),
        _ => None,
    }
}

/// Up to how many rows the kernel behind should begin at once: as far as that is faster than when blocks have their rows.
fn release(schedule: &KernelSchedule, rows: &[usize], measure: Measure<'_>) -> Result<u64, Error> {
    let with = |release| KernelSchedule { first: Spread { release, ..schedule.first }, many: schedule.many };
    let mut most = 0;
    for &rows in rows.iter().filter(|rows| schedule.many.as_ref().is_none_or(|(from, _)| *rows < from)) {
        let (Some(early), Some(late)) = (measure(&with(rows as u64), rows)?, measure(&with(0), rows)?) else { break };
        if early >= late {
            break;
        }
        most = rows as u64;
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(threads: u32) -> Spread {
        Spread { place: Place::Registers, threads, unit: threads, vectors: 1, passes: 1, release: 0, bound: 0 }
    }

    const ROWS: [usize; 4] = [1, 32, 512, 8192];

    #[test]
    fn few_and_many_rows_have_what_is_fastest_for_them() {
        let rule = KernelSchedule::uniform(spread(320));
        let candidates = [320, 128, 256].map(spread);
        let mut measure = |schedule: &KernelSchedule, rows: usize| {
            let spread = schedule.at(rows);
            let us = match (spread.threads, rows) {
                (128, ..100) => 1.5,
                (256, 100..) => 8.0,
                (_, ..100) => 2.0,
                _ => 10.0,
            };
            // The kernel behind may begin at once up to one row.
            let early = (rows as u64) <= spread.release;
            Ok(Some(if early == (rows <= 1) { us * 0.9 } else { us }))
        };
        let found = search(&rule, &candidates, &ROWS, &mut measure).expect("measures");
        let first = Spread { release: 1, ..spread(128) };
        assert_eq!(found.schedule, KernelSchedule { first, many: Some((512, spread(256))) });
        assert_eq!(found.times[0], Timed { rows: 1, us: 1.35, rule_us: 2.0 });
        assert!(found.gain() > 1.25, "{found:?}");
    }

    #[test]
    fn the_rule_stays_where_nothing_is_faster_than_noise() {
        let rule = KernelSchedule::uniform(spread(320));
        let candidates = [320, 128].map(spread);
        let mut measure = |schedule: &KernelSchedule, rows: usize| {
            Ok(Some(rows as f64 + if schedule.first.threads == 128 { 0.995 } else { 1.0 }))
        };
        let found = search(&rule, &candidates, &ROWS, &mut measure).expect("measures");
        assert_eq!((found.schedule, found.times.len()), (rule, 4));
    }

    #[test]
    fn what_fails_is_not_taken_and_a_lost_device_ends_the_search() {
        let rule = KernelSchedule::uniform(spread(320));
        let candidates = [320, 64].map(spread);
        let mut measure = |schedule: &KernelSchedule, rows: usize| {
            let fails = schedule.first.threads == 64 && rows > 100;
            Ok(if fails { None } else { Some(320.0 / f64::from(schedule.first.threads)) })
        };
        let found = search(&rule, &candidates[..1], &ROWS, &mut measure).expect("measures");
        assert_eq!(found.schedule, rule);
        let picked = search(&rule, &[candidates[1]], &ROWS, &mut measure).expect("measures");
        assert_eq!(picked.schedule, rule);
        let mut lost = |_: &KernelSchedule, _: usize| Err(Error::Device("lost".to_owned()));
        assert!(search(&rule, &candidates, &ROWS, &mut lost).is_err());
    }
}
