//! Facts about variables, and conclusions from them.
//!
//! A *fact* is a polynomial that is not negative. A search shows the same of another polynomial by elimination: it replaces the
//! highest variable by a bound that some fact states, a lower one where the polynomial grows with the variable and an upper one
//! where it falls, until no term is negative. A search that takes too many steps shows nothing.

use std::cell::Cell;

use smallvec::{SmallVec, smallvec};

use super::poly::{Poly, Var};

/// Most steps of one search.
const MAX_STEPS: u32 = 4000;

/// A variable is one of these.
#[derive(Clone, Debug)]
enum Kind {
    /// Any integer, of at least so much.
    Plain(Option<i128>),
    /// One of two: the larger, or the smaller.
    Either { a: Box<Poly>, b: Box<Poly>, larger: bool },
}

/// Variables and facts.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    vars: Vec<Kind>,
    facts: Vec<Poly>,
    /// Something that is known cannot be.
    absurd: bool,
}

impl Facts {
    /// A new variable, of which a least value may be known.
    pub fn fresh(&mut self, least: Option<i128>) -> Var {
        self.vars.push(Kind::Plain(least));
        self.vars.len() as Var - 1
    }

    /// Counts the variables.
    pub fn count(&self) -> Var {
        self.vars.len() as Var
    }

    /// A new variable: the larger or the smaller of two.
    pub fn either(&mut self, a: Poly, b: Poly, larger: bool) -> Var {
        self.vars.push(Kind::Either { a: Box::new(a), b: Box::new(b), larger });
        self.vars.len() as Var - 1
    }

    /// Notes that a polynomial is not negative. One without a value says nothing.
    pub fn know(&mut self, fact: Option<Poly>) {
        let Some(fact) = fact else { return };
        match fact.as_constant() {
            Some(value) => self.absurd |= value < 0,
            None => {
                for fact in self.of_integers(&fact).into_iter().chain([fact]) {
                    self.raise(&fact);
                    if !self.facts.contains(&fact) {
                        self.facts.push(fact);
                    }
                }
            }
        }
    }

    /// Gives what a fact says of integers, and not of all numbers: of `80 ≥ 2·x + 1` that `39 ≥ x`, and of `4·z ≥ 4·x + y + 1` with
    /// `y` from zero on that `z ≥ x + 1`.
    fn of_integers(&self, fact: &Poly) -> SmallVec<[Poly; 2]> {
        if let Some(rounded) = fact.rounded() {
            return smallvec![rounded];
        }
        let without = |var: Var| {
            let slope = fact.split(var)?.0.as_constant()?;
            let bound = if slope < 0 { self.least(var) } else { self.most(var) };
            fact.replaced(var, &Poly::constant(bound?))?.rounded()
        };
        fact.vars().into_iter().filter_map(without).collect()
    }

    /// The number that a fact says a variable never exceeds.
    fn most(&self, var: Var) -> Option<i128> {
        let below = |fact: &Poly| {
            let (slope, rest) = fact.split(var)?;
            (slope == Poly::constant(-1)).then(|| rest.as_constant())?
        };
        self.facts.iter().filter_map(below).min()
    }

    /// Raises least values by a fact. `c·x·y − d` with a positive `d` says of integers that are not negative that none is zero.
    fn raise(&mut self, fact: &Poly) {
        let terms: Vec<(Vec<Var>, i128)> = fact.terms().map(|(product, by)| (product.to_vec(), by)).collect();
        let (product, by, least) = match terms.as_slice() {
            [(product, by)] if product.len() == 1 && *by > 0 => (product, *by, 0),
            [(constant, d), (product, by)] if constant.is_empty() && *d < 0 && *by > 0 => (product, *by, -*d),
            _ => return,
        };
        if product.iter().any(|&v| self.least(v).is_none_or(|least| least < 0)) && product.len() > 1 {
            return;
        }
        let known = if let [_] = product.as_slice() { least.div_euclid(by) + i128::from(least % by != 0) } else { 1 };
        for &var in product {
            if let Some(Kind::Plain(least)) = self.vars.get_mut(var as usize) {
                *least = Some(least.map_or(known, |least| least.max(known)));
            }
        }
    }

    fn least(&self, var: Var) -> Option<i128> {
        match self.vars.get(var as usize) {
            Some(Kind::Plain(least)) => *least,
            _ => None,
        }
    }

    /// Says whether the facts show that a polynomial is not negative.
    pub fn shows(&self, goal: &Poly) -> bool {
        self.absurd || self.search(goal, &mut Vec::new(), &Cell::new(MAX_STEPS))
    }

    /// A polynomial in lower variables that another never exceeds, found by replacing variables from a first one on.
    pub fn ceiling(&self, poly: &Poly, from: Var) -> Option<Poly> {
        let mut above = poly.clone();
        while let Some(var) = above.highest().filter(|v| *v >= from) {
            let (slope, rest) = above.split(var)?;
            if let Some(Kind::Either { a, b, larger: false }) = self.vars.get(var as usize) {
                // The smaller of two is not above either.
                let bound = [b, a].into_iter().find_map(|side| self.ceiling(side, from));
                self.has_no_negative_term(&slope).then_some(())?;
                above = rest.plus(&slope.times(&bound?)?, 1)?;
            } else if self.has_no_negative_term(&slope) {
                let bound = self.facts.iter().rev().find_map(|fact| {
                    let (by, other) = (fact.highest() == Some(var)).then(|| fact.split(var))??;
                    (by == Poly::constant(-1)).then_some(other)
                });
                above = rest.plus(&slope.times(&bound?)?, 1)?;
            } else {
                let negative = Poly::default().plus(&slope, -1)?;
                let least = self.least(var).filter(|_| self.has_no_negative_term(&negative))?;
                above = rest.plus(&slope, least)?;
            }
        }
        Some(above)
    }

    fn search(&self, goal: &Poly, local: &mut Vec<Poly>, steps: &Cell<u32>) -> bool {
        let Some(left) = steps.get().checked_sub(1) else { return false };
        steps.set(left);
        if self.has_no_negative_term(goal) {
            return true;
        }
        let follows = |fact: &Poly| goal.plus(fact, -1).is_some_and(|rest| self.has_no_negative_term(&rest));
        if self.facts.iter().chain(local.iter()).any(follows) {
            return true;
        }
        for var in goal.vars() {
            if let Some(Kind::Either { a, b, larger }) = self.vars.get(var as usize) {
                return self.each(goal, var, (&**a, &**b, *larger), local, steps);
            }
            if let Some((slope, rest)) = goal.split(var) {
                return self.by_bounds(var, &slope, &rest, local, steps);
            }
        }
        false
    }

    /// Both cases of a variable that is one of two.
    fn each(
        &self,
        goal: &Poly,
        var: Var,
        (a, b, larger): (&Poly, &Poly, bool),
        local: &mut Vec<Poly>,
        steps: &Cell<u32>,
    ) -> bool {
        [(a, b), (b, a)].into_iter().all(|(this, other)| {
            let over = if larger { this.plus(other, -1) } else { other.plus(this, -1) };
            let Some((over, goal)) = over.zip(goal.replaced(var, this)) else { return false };
            // The case cannot be if the other one always is.
            let opposite = Poly::constant(-1).plus(&over, -1);
            let before = local.len();
            // What is known of the variable is known of what it is.
            let known: Vec<Poly> =
                self.facts.iter().chain(local.iter()).filter(|f| f.highest() == Some(var)).cloned().collect();
            local.extend(known.iter().filter_map(|fact| fact.replaced(var, this)));
            local.push(over);
            let weaker: Vec<Poly> = local[before..].iter().filter_map(|fact| self.without_highest(fact)).collect();
            local.extend(weaker);
            // What is known of the variable may be false of what it would be here.
            let absurd = local[before..].iter().any(|fact| fact.as_constant().is_some_and(|value| value < 0));
            let shown = absurd || self.search(&goal, local, steps);
            local.truncate(before);
            shown || opposite.is_some_and(|opposite| self.search(&opposite, local, steps))
        })
    }

    /// Gives a weaker fact without the highest variable, if the fact falls with that: the variable has its least value there.
    fn without_highest(&self, fact: &Poly) -> Option<Poly> {
        let var = fact.highest()?;
        let (least, (slope, _)) = self.least(var).zip(fact.split(var))?;
        slope.as_constant().filter(|slope| *slope < 0)?;
        fact.replaced(var, &Poly::constant(least))
    }

    /// `slope · var + rest` by what facts state of the variable.
    fn by_bounds(&self, var: Var, slope: &Poly, rest: &Poly, local: &mut Vec<Poly>, steps: &Cell<u32>) -> bool {
        let negated = |poly: &Poly| Poly::default().plus(poly, -1);
        let Some(minus) = negated(slope) else { return false };
        let is_rising = |poly: &Poly, local: &mut Vec<Poly>| {
            self.has_no_negative_term(poly) || (poly.as_constant().is_none() && self.search(poly, local, steps))
        };
        let (rises, falls) = (is_rising(slope, local), is_rising(&minus, local));
        if rises
            && let Some(least) = self.least(var)
            && rest.plus(slope, least).is_some_and(|goal| self.search(&goal, local, steps))
        {
            return true;
        }
        let bounds: Vec<(Poly, Poly)> = self
            .facts
            .iter()
            .chain(local.iter())
            .filter(|fact| fact.highest() == Some(var))
            .filter_map(|fact| fact.split(var))
            .collect();
        bounds.iter().any(|(by, other)| {
            let size = if rises { Some(by.clone()) } else { negated(by) };
            let Some((size, slope)) = size.zip(if rises { Some(slope.clone()) } else { Some(minus.clone()) }) else {
                return false;
            };
            let positive = size.plus(&Poly::constant(1), -1).is_some_and(|less| self.has_no_negative_term(&less));
            if !(rises || falls) || !positive {
                return false;
            }
            let goal = || size.times(rest)?.plus(&slope.times(other)?, -1);
            goal().is_some_and(|goal| self.search(&goal, local, steps))
        })
    }

    /// Says whether no term is negative once every variable is counted from its least value.
    fn has_no_negative_term(&self, poly: &Poly) -> bool {
        let mut moved: SmallVec<[(Var, i128); 4]> = SmallVec::new();
        for var in poly.vars() {
            match self.least(var) {
                Some(0) => {}
                Some(least) => moved.push((var, least)),
                None => return false,
            }
        }
        let (is_negative, lowers) = (poly.terms().any(|(_, by)| by < 0), moved.iter().any(|(_, least)| *least < 0));
        if !is_negative && !lowers {
            return true;
        }
        // What is counted from elsewhere makes terms of fewer factors alone: another term of more factors must be there.
        let is_made_up = |product: &[Var]| poly.terms().any(|(other, _)| other.len() > product.len());
        if moved.is_empty() || poly.terms().any(|(product, by)| by < 0 && !is_made_up(product)) {
            return false;
        }
        let mut shifted = poly.clone();
        for (var, least) in moved {
            let Some(from) = Poly::var(var).plus(&Poly::constant(least), 1) else { return false };
            let Some(next) = shifted.replaced(var, &from) else { return false };
            shifted = next;
        }
        shifted.terms().all(|(_, by)| by >= 0)
    }
}
