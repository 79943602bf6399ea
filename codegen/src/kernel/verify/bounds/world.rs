//! The setting of an access as polynomials: dims of the kernel, counters, gathered integers, quotients and remainders.

use std::collections::BTreeMap;
use std::convert::Infallible;

use fusewright_abi::DType;
use fusewright_graph::dim::{DimFn, DimFold};
use fusewright_graph::{Dim, Literal, ScalarFn};

use super::facts::Facts;
use super::poly::{Poly, Var};
use crate::kernel::{INNER, Inst, InstOp, Kernel, LANE, ROW, Segment, Shape, Val};

/// An integer expression, or `None` where arithmetic gave up.
type Term = Option<Poly>;

/// The setting of one access.
pub(super) struct World<'k> {
    segment: &'k Segment,
    /// The instruction that defines each value.
    definitions: &'k [usize],
    pub facts: Facts,
    names: BTreeMap<String, Poly>,
    functions: Vec<(DimFn, Poly, Poly, Poly)>,
    values: BTreeMap<Val, Poly>,
    /// Variables from here on are counters, or made of them.
    first_counter: Var,
}

/// A setting decides the facts that hold before an access is looked at.
#[derive(PartialEq)]
pub(super) struct Setting {
    /// The instruction touches elements of this shape.
    shape: Shape,
    /// Expressions of dims alone, which the access asks for.
    sizes: Vec<Dim>,
    /// The access divides counters by these: digits of counters stand between divisors.
    cuts: Cuts,
}

impl Setting {
    /// The setting of an instruction that touches elements of a shape. It asks for `sizes`, which hold no counters, and for
    /// `mentioned`.
    pub fn new(shape: &Shape, sizes: &[&Dim], mentioned: &[&Dim]) -> Setting {
        let sizes = sizes.iter().map(|size| (*size).clone()).collect();
        Setting { shape: shape.clone(), sizes, cuts: cuts(mentioned) }
    }
}

/// Every symbol that counts, in the order in which their facts are noted.
const COUNTERS: [&str; 3] = [ROW, INNER, LANE];

impl<'k> World<'k> {
    /// Collects the facts that hold in a setting.
    pub fn new(kernel: &'k Kernel, segment: &'k Segment, definitions: &'k [usize], setting: &Setting) -> World<'k> {
        let mut world = World {
            segment,
            definitions,
            facts: Facts::default(),
            names: BTreeMap::new(),
            functions: Vec::new(),
            values: BTreeMap::new(),
            first_counter: 0,
        };
        // The driver refuses arguments below zero, and launches that break a claim.
        for dim in &kernel.dims {
            let var = world.facts.fresh(Some(0));
            world.names.insert(dim.name.clone(), Poly::var(var));
        }
        for claim in &kernel.claims {
            let (least, most) = (world.dim(&claim.least), world.dim(&claim.most));
            world.know_order(least, most);
        }
        // Whatever is made of dims alone comes before counters, which are bounded by it.
        setting.sizes.iter().for_each(|size| drop(world.dim(size)));
        let lanes = (setting.shape != Shape::Scalar).then(|| setting.shape.elements());
        let counts = [Some(&kernel.rows), Some(&segment.inner), lanes.as_ref()];
        let mut counters = Vec::new();
        for ((name, count), divisors) in COUNTERS.iter().zip(counts).zip(&setting.cuts) {
            let Some(count) = count else { continue };
            let count = world.dim(count);
            world.know(minus(&count, &one()));
            counters.push((*name, count, divisors));
        }
        let steps: Vec<Vec<Poly>> = counters.iter().map(|(_, _, divisors)| world.steps(divisors)).collect();
        world.first_counter = world.facts.count();
        for ((name, count, _), steps) in counters.into_iter().zip(steps) {
            let counter = world.counter(count, &steps);
            world.names.insert(name.to_owned(), counter);
        }
        world
    }

    /// The value of a dim.
    pub fn dim(&mut self, dim: &Dim) -> Term {
        match dim.fold(&mut Translation(self)) {
            Ok(term) => term,
        }
    }

    /// Notes what a predicate says where it is true.
    pub fn assume(&mut self, predicate: Val) {
        let Some(inst) = self.definition(predicate) else { return };
        match (&inst.op, inst.args.as_slice()) {
            (InstOp::Map(ScalarFn::And), &[a, b]) => {
                self.assume(a);
                self.assume(b);
            }
            (InstOp::Map(f), &[a, b]) => {
                let integers = [a, b].iter().all(|v| self.segment.ty(*v).dtype.is_int());
                let alike = [a, b].iter().all(|v| !matches!(self.segment.ty(*v).shape, Shape::Group { .. }));
                if !integers || !alike {
                    return;
                }
                let (a, b) = (self.integer(a), self.integer(b));
                let below = |a: &Term, b: &Term| (a.clone(), minus(b, &one()));
                let orders = match f {
                    ScalarFn::Lt => vec![below(&a, &b)],
                    ScalarFn::Gt => vec![below(&b, &a)],
                    ScalarFn::Le => vec![(a, b)],
                    ScalarFn::Ge => vec![(b, a)],
                    ScalarFn::Eq => vec![(a.clone(), b.clone()), (b, a)],
                    _ => Vec::new(),
                };
                orders.into_iter().for_each(|(low, high)| self.know_order(low, high));
            }
            (InstOp::Literal(Literal::Int(DType::Bool, 0)), _) => self.facts.know(Some(Poly::constant(-1))),
            (InstOp::Broadcast(_), &[a]) => self.assume(a),
            _ => {}
        }
    }

    /// Says whether the facts show that one value never exceeds another.
    pub fn is_order(&self, low: &Term, high: &Term) -> bool {
        minus(high, low).is_some_and(|difference| self.facts.shows(&difference))
    }

    fn know(&mut self, fact: Term) {
        self.facts.know(fact);
    }

    fn know_order(&mut self, low: Term, high: Term) {
        self.know(minus(&high, &low));
    }

    fn definition(&self, value: Val) -> Option<&'k Inst> {
        self.segment.insts.get(*self.definitions.get(value.0 as usize)?)
    }

    /// An integer value, of a row the element at this lane.
    fn integer(&mut self, value: Val) -> Term {
        if let Some(known) = self.values.get(&value) {
            return Some(known.clone());
        }
        let dtype = self.segment.ty(value).dtype;
        let made = self.computed(value, dtype).unwrap_or_else(|| {
            let unsigned = matches!(dtype, DType::U8 | DType::U16 | DType::U32);
            Poly::var(self.facts.fresh(unsigned.then_some(0)))
        });
        self.values.insert(value, made.clone());
        Some(made)
    }

    /// An integer as an expression of what it is computed from, where that cannot wrap.
    fn computed(&mut self, value: Val, dtype: DType) -> Term {
        let inst = self.definition(value)?;
        match (&inst.op, inst.args.as_slice()) {
            (InstOp::Literal(Literal::Int(_, value)), _) if dtype != DType::U64 => {
                Some(Poly::constant((*value).into()))
            }
            (InstOp::Index(index), _) => self.dim(index),
            (InstOp::Iota(_), _) => self.names.get(LANE).cloned(),
            (InstOp::Broadcast(_), &[x]) if self.segment.ty(x).shape == Shape::Scalar => self.integer(x),
            (InstOp::Cast { to: DType::I64, .. }, &[x]) => {
                let from = self.segment.ty(x).dtype;
                if from.is_int() && from != DType::U64 { self.integer(x) } else { None }
            }
            (InstOp::Map(ScalarFn::And), &[a, b]) if dtype.is_int() => self.masked(a).or_else(|| self.masked(b)),
            (InstOp::Map(f @ (ScalarFn::Max | ScalarFn::Min)), &[a, b]) if dtype.is_signed_int() => {
                let (a, b) = (self.integer(a)?, self.integer(b)?);
                Some(Poly::var(self.facts.either(a, b, *f == ScalarFn::Max)))
            }
            _ => None,
        }
    }

    /// Some bits of a number that is not negative: between zero and that number.
    fn masked(&mut self, mask: Val) -> Term {
        let InstOp::Literal(Literal::Int(_, mask @ 0..)) = self.definition(mask)?.op else { return None };
        let bits = Poly::var(self.facts.fresh(Some(0)));
        self.know(minus(&Some(Poly::constant(mask.into())), &Some(bits.clone())));
        Some(bits)
    }

    /// One, and the divisors of a counter of which each is a multiple of the one before.
    fn steps(&mut self, divisors: &[Dim]) -> Vec<Poly> {
        let mut steps: Vec<Poly> = vec![Poly::constant(1)];
        let mut cuts: Vec<Poly> = divisors.iter().filter_map(|d| self.dim(d)).collect();
        cuts.sort_by_key(|cut| (cut.vars().len(), cut.as_constant()));
        for cut in cuts {
            let last = &steps[steps.len() - 1];
            let is_multiple = cut.divided(last).is_some_and(|(_, rest)| rest == Poly::default());
            if cut != *last && is_multiple && self.is_order(&one(), &Some(cut.clone())) {
                steps.push(cut);
            }
        }
        steps
    }

    /// A counter of `count` things in digits: what stands between two steps. Digits are independent of each other, so that
    /// quotients and remainders by the steps are sums of digits.
    fn counter(&mut self, count: Term, steps: &[Poly]) -> Poly {
        let last = minus(&count, &one());
        let mut counter = Poly::default();
        for (i, step) in steps.iter().enumerate().rev() {
            let digit = Poly::var(self.facts.fresh(Some(0)));
            let most = match steps.get(i + 1) {
                Some(next) => next.divided(step).and_then(|(times, _)| times.plus(&Poly::constant(1), -1)),
                None => last.as_ref().and_then(|last| {
                    let above = || self.facts.ceiling(last, 0).and_then(|above| floor(&above, step));
                    floor(last, step).or_else(above)
                }),
            };
            self.know(minus(&most, &Some(digit.clone())));
            let Some(sum) = digit.times(step).and_then(|part| counter.plus(&part, 1)) else { return digit };
            counter = sum;
        }
        self.know(minus(&last, &Some(counter.clone())));
        self.note_digits(&counter, steps);
        counter
    }

    /// Quotients and remainders of a counter by its steps.
    fn note_digits(&mut self, counter: &Poly, steps: &[Poly]) {
        for step in steps.iter().skip(1) {
            if let Some((quotient, rest)) = counter.divided(step) {
                self.functions.push((DimFn::FloorDiv, counter.clone(), step.clone(), quotient));
                self.functions.push((DimFn::Mod, counter.clone(), step.clone(), rest));
            }
        }
    }

    fn function(&mut self, f: DimFn, a: Poly, b: Poly) -> Term {
        let known = self.functions.iter().find(|(g, x, y, _)| (*g, x, y) == (f, &a, &b));
        if let Some((.., value)) = known {
            return Some(value.clone());
        }
        let value = match f {
            DimFn::Max | DimFn::Min => Poly::var(self.facts.either(a.clone(), b.clone(), f == DimFn::Max)),
            DimFn::FloorDiv => self.quotient(&a, &b)?,
            DimFn::Mod => self.remainder(&a, &b)?,
        };
        self.functions.push((f, a, b, value.clone()));
        Some(value)
    }

    /// `⌊a / b⌋`: exactly where the terms of `a` say it, else a variable.
    fn quotient(&mut self, a: &Poly, b: &Poly) -> Term {
        self.is_order(&one(), &Some(b.clone())).then_some(())?;
        if let Some((whole, rest)) = a.divided(b)
            && self.lies_below(&rest, b)
        {
            return Some(whole);
        }
        let not_negative = self.facts.shows(a);
        let quotient = Poly::var(self.facts.fresh(not_negative.then_some(0)));
        let remainder = Poly::var(self.facts.fresh(Some(0)));
        self.know(minus(&b.plus(&Poly::constant(1), -1), &Some(remainder.clone())));
        let above = self.facts.ceiling(a, self.first_counter).and_then(|above| floor(&above, b));
        self.know(minus(&above, &Some(quotient.clone())));
        // Both are known of by themselves, and together they are what is divided.
        let sum = quotient.times(b)?.plus(&remainder, 1)?;
        self.know(a.plus(&sum, -1));
        self.know(sum.plus(a, -1));
        let below = a.plus(&quotient.times(b)?, -1)?;
        self.know(b.plus(&Poly::constant(1), -1).and_then(|most| most.plus(&below, -1)));
        self.know(Some(below));
        self.functions.push((DimFn::Mod, a.clone(), b.clone(), remainder));
        Some(quotient)
    }

    fn remainder(&mut self, a: &Poly, b: &Poly) -> Term {
        if let Some((_, rest)) = a.divided(b)
            && self.is_order(&one(), &Some(b.clone()))
            && self.lies_below(&rest, b)
        {
            return Some(rest);
        }
        let quotient = self.function(DimFn::FloorDiv, a.clone(), b.clone())?;
        let made = self.functions.iter().find(|(f, x, y, _)| (*f, x, y) == (DimFn::Mod, a, b));
        made.map(|(.., remainder)| remainder.clone()).or_else(|| a.plus(&quotient.times(b)?, -1))
    }

    /// Says whether the facts show `0 ≤ rest < b`.
    fn lies_below(&self, rest: &Poly, b: &Poly) -> bool {
        self.facts.shows(rest) && self.is_order(&Some(rest.clone()), &b.plus(&Poly::constant(1), -1))
    }
}

/// `a − b`.
fn minus(a: &Term, b: &Term) -> Term {
    a.as_ref()?.plus(b.as_ref()?, -1)
}

fn one() -> Term {
    Some(Poly::constant(1))
}

/// A number that `⌊a / b⌋` never exceeds, for a positive `b`: exact where all of `a` but a number is a multiple.
fn floor(a: &Poly, b: &Poly) -> Term {
    let (whole, rest) = a.divided(b)?;
    let left = match (rest.as_constant()?, b.as_constant()) {
        (rest, Some(b)) => rest.div_euclid(b),
        (rest, None) if rest < 0 => -1,
        (0, None) => 0,
        _ => return None,
    };
    whole.plus(&Poly::constant(left), 1)
}

/// Collects the divisors by which index expressions divide each counter.
fn cuts(mentioned: &[&Dim]) -> Cuts {
    let mut found = Found::default();
    // Only functions divide.
    for dim in mentioned.iter().filter(|dim| dim.as_polynomial().is_none()) {
        let Ok(_) = dim.fold(&mut found);
    }
    found.0
}

/// Divisors, by [`COUNTERS`].
type Cuts = [Vec<Dim>; COUNTERS.len()];

#[derive(Default)]
struct Found(Cuts);

/// A sub-expression; if it is a quotient of a counter, which one and by what.
#[derive(Clone)]
struct Part {
    dim: Dim,
    below: Option<(usize, Dim)>,
}

impl DimFold for Found {
    type Value = Part;
    type Error = Infallible;

    fn constant(&mut self, value: i64) -> Result<Part, Infallible> {
        Ok(Part { dim: Dim::constant(value), below: None })
    }

    fn symbol(&mut self, name: &str) -> Result<Part, Infallible> {
        let counter = COUNTERS.iter().position(|counter| *counter == name);
        Ok(Part { dim: Dim::symbol(name), below: counter.map(|counter| (counter, Dim::constant(1))) })
    }

    fn add(&mut self, a: Part, b: Part) -> Result<Part, Infallible> {
        Ok(Part { dim: &a.dim + &b.dim, below: None })
    }

    fn mul(&mut self, a: Part, b: Part) -> Result<Part, Infallible> {
        Ok(Part { dim: &a.dim * &b.dim, below: None })
    }

    fn function(&mut self, f: DimFn, a: Part, b: Part) -> Result<Part, Infallible> {
        let dim = Dim::function(f, &a.dim, &b.dim);
        let Some((counter, below)) = a.below.filter(|_| matches!(f, DimFn::FloorDiv | DimFn::Mod)) else {
            return Ok(Part { dim, below: None });
        };
        let divisor = &below * &b.dim;
        if !self.0[counter].contains(&divisor) {
            self.0[counter].push(divisor.clone());
        }
        Ok(Part { dim, below: (f == DimFn::FloorDiv).then_some((counter, divisor)) })
    }
}

struct Translation<'w, 'k>(&'w mut World<'k>);

impl DimFold for Translation<'_, '_> {
    type Value = Term;
    type Error = Infallible;

    fn constant(&mut self, value: i64) -> Result<Term, Infallible> {
        Ok(Some(Poly::constant(value.into())))
    }

    fn symbol(&mut self, name: &str) -> Result<Term, Infallible> {
        Ok(match Val::from_symbol(name) {
            Some(value) => self.0.integer(value),
            None => self.0.names.get(name).cloned(),
        })
    }

    fn add(&mut self, a: Term, b: Term) -> Result<Term, Infallible> {
        Ok(a.zip(b).and_then(|(a, b)| a.plus(&b, 1)))
    }

    fn mul(&mut self, a: Term, b: Term) -> Result<Term, Infallible> {
        Ok(a.zip(b).and_then(|(a, b)| a.times(&b)))
    }

    fn function(&mut self, f: DimFn, a: Term, b: Term) -> Result<Term, Infallible> {
        Ok(a.zip(b).and_then(|(a, b)| self.0.function(f, a, b)))
    }
}
