//! Finds steps that repeat, such as the layers of a model, so that drawings show them once.

/// Where a step takes an operand from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Read {
    /// The result of so many steps after the first.
    Step(usize),
    /// An input of the caller, by number, with the number of its type.
    Given(usize, usize),
    /// A weight or a constant.
    Weight,
}

/// A step as far as repeats are concerned: steps of one label compute alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Unit {
    pub label: usize,
    pub reads: Vec<Read>,
}

/// Steps that come several times in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Repeat {
    /// The first of its steps.
    pub start: usize,
    /// Steps of one round.
    pub period: usize,
    pub rounds: usize,
    /// Rounds read what the round before computes.
    pub carried: bool,
}

impl Repeat {
    /// The step behind the last.
    pub fn end(&self) -> usize {
        self.start + self.period * self.rounds
    }

    /// The step of the first round that a step is like; `None` for steps outside.
    pub fn first(&self, step: usize) -> Option<usize> {
        (self.start..self.end()).contains(&step).then(|| self.start + (step - self.start) % self.period)
    }

    /// Says that a step is in another round than the first.
    pub fn hides(&self, step: usize) -> bool {
        self.first(step).is_some_and(|first| first != step)
    }
}

/// Two rounds are drawn as they are: a bracket would not be shorter to read.
const FEWEST_ROUNDS: usize = 3;
/// Steps that a bracket must save.
const FEWEST_HIDDEN: usize = 12;

/// Repeats in order, which do not overlap; those come first that hide the most steps.
pub(super) fn repeats(units: &[Unit]) -> Vec<Repeat> {
    let mut found = Vec::new();
    within(units, 0, units.len(), &mut found);
    found
}

fn within(units: &[Unit], from: usize, to: usize, found: &mut Vec<Repeat>) {
    let periods = 1..=(to - from) / FEWEST_ROUNDS;
    let all = periods.filter_map(|period| longest(units, from, to, period));
    // Of equals the one of the shortest round.
    let Some(best) = all.rev().max_by_key(hidden).filter(|repeat| hidden(repeat) >= FEWEST_HIDDEN) else { return };
    within(units, from, best.start, found);
    found.push(best);
    within(units, best.end(), to, found);
}

fn hidden(repeat: &Repeat) -> usize {
    repeat.period * (repeat.rounds - 1)
}

/// The longest repeat of a period.
fn longest(units: &[Unit], from: usize, to: usize, period: usize) -> Option<Repeat> {
    let mut best: Option<Repeat> = None;
    let mut start = from;
    while start + FEWEST_ROUNDS * period <= to {
        let mut at = start;
        while at + period < to && same(units, start, period, at) {
            at += 1;
        }
        let rounds = (at - start) / period + 1;
        if rounds >= FEWEST_ROUNDS && best.is_none_or(|best| rounds > best.rounds) {
            let carried = units[start + period..start + 2 * period]
                .iter()
                .flat_map(|unit| &unit.reads)
                .any(|read| matches!(read, Read::Step(of) if (start..start + period).contains(of)));
            best = Some(Repeat { start, period, rounds, carried });
        }
        start = at.max(start + 1);
    }
    best
}

/// Says that the step a round later is like a step of a repeat that begins at `start`.
fn same(units: &[Unit], start: usize, period: usize, step: usize) -> bool {
    let (now, next) = (&units[step], &units[step + period]);
    let alike = |(now, next): (&Read, &Read)| match (*now, *next) {
        (Read::Step(now), Read::Step(next)) => {
            let outside = now < start && next == now;
            // The first round takes from before what later ones take from the round before.
            let first = now < start && step < start + period && (start..start + period).contains(&next);
            next == now + period || outside || first
        }
        (Read::Given(_, now), Read::Given(_, next)) => now == next,
        // The first round may read an input where later ones read the round before.
        (Read::Given(..), Read::Step(next)) => step < start + period && (start..start + period).contains(&next),
        (Read::Weight, Read::Weight) => true,
        _ => false,
    };
    now.label == next.label && now.reads.len() == next.reads.len() && now.reads.iter().zip(&next.reads).all(alike)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(label: usize, reads: &[Read]) -> Unit {
        Unit { label, reads: reads.to_vec() }
    }

    /// A head, then layers of three steps that read what the layer before gives, the head and a weight, then a tail.
    fn model(layers: usize) -> Vec<Unit> {
        let mut units = vec![unit(9, &[Read::Given(0, 0)])];
        for layer in 0..layers {
            let before = 3 * layer;
            units.push(unit(1, &[Read::Step(before), Read::Weight]));
            units.push(unit(2, &[Read::Step(before + 1), Read::Given(layer + 1, 5)]));
            units.push(unit(3, &[Read::Step(before + 2), Read::Step(0)]));
        }
        units.push(unit(8, &[Read::Step(3 * layers)]));
        units
    }

    #[test]
    fn layers_are_one_repeat() {
        assert_eq!(repeats(&model(64)), [Repeat { start: 1, period: 3, rounds: 64, carried: true }]);
        assert_eq!(repeats(&model(2)), []);
        assert_eq!(repeats(&[]), []);
    }

    #[test]
    fn another_wiring_is_no_repeat() {
        let mut units = model(10);
        // The sixth layer reads the second, not the one before.
        units[16].reads[0] = Read::Step(6);
        let found = repeats(&units);
        assert_eq!(found.iter().map(|r| (r.start, r.rounds)).collect::<Vec<_>>(), [(1, 5), (16, 5)], "{found:?}");
        let mut units = model(64);
        units[100].label = 77;
        let found = repeats(&units);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|r| !(r.start..r.end()).contains(&100)) && found[0].end() <= found[1].start);
    }

    #[test]
    fn rounds_beside_each_other_carry_nothing() {
        let mut units = vec![unit(0, &[])];
        for _ in 0..8 {
            let at = units.len();
            units.extend([unit(1, &[Read::Step(0), Read::Weight]), unit(2, &[Read::Step(at)])]);
        }
        assert_eq!(repeats(&units), [Repeat { start: 1, period: 2, rounds: 8, carried: false }]);
    }

    #[test]
    fn steps_of_a_repeat_are_those_of_its_first_round() {
        let repeat = Repeat { start: 4, period: 3, rounds: 5, carried: true };
        assert_eq!([3, 4, 8, 18, 19].map(|step| repeat.first(step)), [None, Some(4), Some(5), Some(6), None]);
        assert_eq!([4, 6, 7, 18, 19].map(|step| repeat.hides(step)), [false, false, true, true, false]);
    }
}
