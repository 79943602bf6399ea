//! Polynomials with integer coefficients over numbered variables.
//!
//! Arithmetic is exact: what does not fit 128 bits, or has too many terms, has no value, and nothing is proven with it.

use std::collections::BTreeMap;

/// A variable. One that is defined by others has a higher number than these.
pub(super) type Var = u32;

/// Most terms; longer sums are not worked with.
const MAX_TERMS: usize = 48;

/// A sum of products of variables. Each product is sorted, a power being a repetition; no coefficient is zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Poly(BTreeMap<Vec<Var>, i128>);

impl Poly {
    /// A number.
    pub fn constant(value: i128) -> Poly {
        let mut terms = BTreeMap::new();
        if value != 0 {
            terms.insert(Vec::new(), value);
        }
        Poly(terms)
    }

    /// A variable.
    pub fn var(var: Var) -> Poly {
        Poly(BTreeMap::from([(vec![var], 1)]))
    }

    /// The value if no variable is left.
    pub fn as_constant(&self) -> Option<i128> {
        match self.0.len() {
            0 => Some(0),
            1 => self.0.get(&Vec::new()[..]).copied(),
            _ => None,
        }
    }

    /// The terms: products and their coefficients.
    pub fn terms(&self) -> impl Iterator<Item = (&[Var], i128)> {
        self.0.iter().map(|(product, by)| (product.as_slice(), *by))
    }

    /// `self + other · by`.
    pub fn plus(&self, other: &Poly, by: i128) -> Option<Poly> {
        let mut sum = self.0.clone();
        for (product, coefficient) in &other.0 {
            let scaled = coefficient.checked_mul(by)?;
            let slot = sum.entry(product.clone()).or_insert(0);
            *slot = slot.checked_add(scaled)?;
            if *slot == 0 {
                sum.remove(product);
            }
        }
        (sum.len() <= MAX_TERMS).then_some(Poly(sum))
    }

    /// `self · other`.
    pub fn times(&self, other: &Poly) -> Option<Poly> {
        let mut sum = Poly::default();
        for (a, x) in &self.0 {
            for (b, y) in &other.0 {
                let mut product = [a.as_slice(), b].concat();
                product.sort_unstable();
                sum = sum.plus(&Poly(BTreeMap::from([(product, x.checked_mul(*y)?)])), 1)?;
            }
        }
        Some(sum)
    }

    /// The variables, highest first.
    pub fn vars(&self) -> Vec<Var> {
        let mut vars: Vec<Var> = self.0.keys().flatten().copied().collect();
        vars.sort_unstable_by(|a, b| b.cmp(a));
        vars.dedup();
        vars
    }

    /// The highest variable.
    pub fn highest(&self) -> Option<Var> {
        self.0.keys().filter_map(|product| product.last()).copied().max()
    }

    /// `(a, b)` with `self == a · var + b` and neither holding the variable, if there are such.
    pub fn split(&self, var: Var) -> Option<(Poly, Poly)> {
        let (mut slope, mut rest) = (BTreeMap::new(), BTreeMap::new());
        for (product, by) in &self.0 {
            match product.iter().filter(|v| **v == var).count() {
                0 => rest.insert(product.clone(), *by),
                1 => slope.insert(product.iter().copied().filter(|v| *v != var).collect(), *by),
                _ => return None,
            };
        }
        Some((Poly(slope), Poly(rest)))
    }

    /// The polynomial with another in the place of a variable.
    pub fn replaced(&self, var: Var, by: &Poly) -> Option<Poly> {
        let mut sum = Poly::default();
        for (product, coefficient) in &self.0 {
            let others: Vec<Var> = product.iter().copied().filter(|v| *v != var).collect();
            let mut part = Poly(BTreeMap::from([(others.clone(), *coefficient)]));
            for _ in others.len()..product.len() {
                part = part.times(by)?;
            }
            sum = sum.plus(&part, 1)?;
        }
        Some(sum)
    }

    /// `q` and the terms left over, so that `self == q · divisor + rest`. Each term goes where it can; of a divisor of several
    /// terms the last one, which has the most or the highest variables, decides.
    pub fn divided(&self, divisor: &Poly) -> Option<(Poly, Poly)> {
        let (by, factor) = divisor.0.last_key_value()?;
        let (mut quotient, mut rest) = (Poly::default(), self.clone());
        for _ in 0..=MAX_TERMS {
            let found = rest.0.iter().rev().find_map(|(product, coefficient)| {
                let left = without(product, by).filter(|_| coefficient % factor == 0)?;
                Some(Poly(BTreeMap::from([(left, coefficient / factor)])))
            });
            let Some(term) = found else { return Some((quotient, rest)) };
            quotient = quotient.plus(&term, 1)?;
            rest = rest.plus(&term.times(divisor)?, -1)?;
        }
        None
    }
}

/// A product without the factors of another, if it has them all.
fn without(product: &[Var], factors: &[Var]) -> Option<Vec<Var>> {
    let mut left = product.to_vec();
    for factor in factors {
        left.remove(left.iter().position(|v| v == factor)?);
    }
    Some(left)
}
