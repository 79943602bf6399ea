//! Polynomials with integer coefficients over numbered variables.
//!
//! Arithmetic is exact: what does not fit 128 bits, or has too many terms, has no value, and nothing is proven with it.

use smallvec::{SmallVec, smallvec};

/// A variable. One that is defined by others has a higher number than these.
pub(super) type Var = u32;

/// Variables in order, a power being a repetition. Most products are short enough to need no memory of their own.
type Product = SmallVec<[Var; 4]>;

/// Most terms; longer sums are not worked with.
const MAX_TERMS: usize = 48;

/// Products and their coefficients.
type Terms = SmallVec<[(Product, i128); 2]>;

/// A sum of products of variables, in order of the products; no coefficient is zero.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Poly(Terms);

impl Poly {
    /// A number.
    pub fn constant(value: i128) -> Poly {
        Poly(if value == 0 { Terms::new() } else { smallvec![(Product::new(), value)] })
    }

    /// A variable.
    pub fn var(var: Var) -> Poly {
        Poly(smallvec![(smallvec![var], 1)])
    }

    /// The sum of terms in any order.
    fn of(mut terms: Terms) -> Option<Poly> {
        terms.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut sum = Terms::with_capacity(terms.len());
        for (product, by) in terms {
            match sum.last_mut().filter(|last| last.0 == product) {
                Some(last) => last.1 = last.1.checked_add(by)?,
                None => sum.push((product, by)),
            }
        }
        sum.retain(|term| term.1 != 0);
        (sum.len() <= MAX_TERMS).then_some(Poly(sum))
    }

    /// The value if no variable is left.
    pub fn as_constant(&self) -> Option<i128> {
        match self.0.as_slice() {
            [] => Some(0),
            [(product, value)] if product.is_empty() => Some(*value),
            _ => None,
        }
    }

    /// The terms: products and their coefficients.
    pub fn terms(&self) -> impl Iterator<Item = (&[Var], i128)> {
        self.0.iter().map(|(product, by)| (product.as_slice(), *by))
    }

    /// `self + other · by`.
    pub fn plus(&self, other: &Poly, by: i128) -> Option<Poly> {
        let mut terms = Terms::with_capacity(self.0.len() + other.0.len());
        terms.extend(self.0.iter().cloned());
        for (product, coefficient) in &other.0 {
            terms.push((product.clone(), coefficient.checked_mul(by)?));
        }
        Poly::of(terms)
    }

    /// `self · other`.
    pub fn times(&self, other: &Poly) -> Option<Poly> {
        let mut terms = Terms::with_capacity(self.0.len() * other.0.len());
        for (a, x) in &self.0 {
            for (b, y) in &other.0 {
                let mut product = a.clone();
                product.extend_from_slice(b);
                product.sort_unstable();
                terms.push((product, x.checked_mul(*y)?));
            }
        }
        Poly::of(terms)
    }

    /// The polynomial without the common factor of its coefficients, rounded down: of integers, it is negative where `self`
    /// is. `None` if there is no such factor.
    pub fn rounded(&self) -> Option<Poly> {
        let factor =
            self.0.iter().filter(|(product, _)| !product.is_empty()).fold(0, |all, (_, by)| gcd(all, by.abs()));
        let parts = self.0.iter().map(|(product, by)| (product.clone(), by.div_euclid(factor.max(1))));
        (factor > 1).then(|| Poly(parts.filter(|(_, by)| *by != 0).collect()))
    }

    /// The variables, highest first.
    pub fn vars(&self) -> SmallVec<[Var; 8]> {
        let mut vars: SmallVec<[Var; 8]> = self.0.iter().flat_map(|(product, _)| product).copied().collect();
        vars.sort_unstable_by(|a, b| b.cmp(a));
        vars.dedup();
        vars
    }

    /// The highest variable.
    pub fn highest(&self) -> Option<Var> {
        self.0.iter().filter_map(|(product, _)| product.last()).copied().max()
    }

    /// `(a, b)` with `self == a · var + b` and neither holding the variable, if there are such.
    pub fn split(&self, var: Var) -> Option<(Poly, Poly)> {
        let (mut slope, mut rest) = (Terms::new(), Terms::new());
        for (product, by) in &self.0 {
            match product.iter().filter(|v| **v == var).count() {
                0 => rest.push((product.clone(), *by)),
                1 => slope.push((others(product, var), *by)),
                _ => return None,
            };
        }
        Some((Poly::of(slope)?, Poly(rest)))
    }

    /// The polynomial with another in the place of a variable.
    pub fn replaced(&self, var: Var, by: &Poly) -> Option<Poly> {
        let mut terms = Terms::with_capacity(self.0.len());
        for (product, coefficient) in &self.0 {
            let others = others(product, var);
            let power = product.len() - others.len();
            let mut part = Poly(smallvec![(others, *coefficient)]);
            for _ in 0..power {
                part = part.times(by)?;
            }
            terms.extend(part.0);
        }
        Poly::of(terms)
    }

    /// `q` and the terms left over, so that `self == q · divisor + rest`. Each term goes where it can; of a divisor of several
    /// terms the last one, which has the most or the highest variables, decides.
    pub fn divided(&self, divisor: &Poly) -> Option<(Poly, Poly)> {
        let (by, factor) = divisor.0.last()?;
        let (mut quotient, mut rest) = (Poly::default(), self.clone());
        for _ in 0..=MAX_TERMS {
            let found = rest.0.iter().rev().find_map(|(product, coefficient)| {
                let left = without(product, by).filter(|_| coefficient % factor == 0)?;
                Some(Poly(smallvec![(left, coefficient / factor)]))
            });
            let Some(term) = found else { return Some((quotient, rest)) };
            quotient = quotient.plus(&term, 1)?;
            rest = rest.plus(&term.times(divisor)?, -1)?;
        }
        None
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A product without a variable.
fn others(product: &Product, var: Var) -> Product {
    product.iter().copied().filter(|v| *v != var).collect()
}

/// A product without the factors of another, if it has them all.
fn without(product: &Product, factors: &Product) -> Option<Product> {
    let mut left = product.clone();
    for factor in factors {
        left.remove(left.iter().position(|v| v == factor)?);
    }
    Some(left)
}
