//! Symbolic extents: integer polynomials over named symbols and a few closed functions.
//!
//! Two dims are equal as values exactly when their normal forms are equal, so `s*96*128 == s*12288` holds by
//! construction. The normal form is a sum of terms, each a coefficient times a sorted product of atoms; quotients and
//! remainders by known numbers have normal forms of their own (`dim/quotient.rs`).
//! Coefficient arithmetic saturates: a saturated extent fails later against real memory, it never wraps.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::ops::{Add, Mul, Sub};
use std::sync::Arc;

mod quotient;
mod terms;

pub(crate) use quotient::without_quotients;
use terms::Terms;

/// An extent, stride or offset: an integer polynomial over symbols.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim(Terms);

/// `coefficient · Π factors`; `factors` is sorted and has no duplicates.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Term {
    factors: Vec<(Atom, u32)>,
    coefficient: i64,
}

/// What cannot be taken apart further.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Atom {
    Symbol(Arc<str>),
    Function(DimFn, Dim, Dim),
}

impl Atom {
    fn mentions(&self, symbol: &str) -> bool {
        match self {
            Atom::Symbol(name) => &**name == symbol,
            Atom::Function(_, a, b) => a.mentions(symbol) || b.mentions(symbol),
        }
    }
}

/// Functions of two dims that polynomials do not cover.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DimFn {
    /// Quotient rounded toward minus infinity.
    FloorDiv,
    /// Remainder with the sign of the divisor.
    Mod,
    /// The larger.
    Max,
    /// The smaller.
    Min,
}

impl DimFn {
    /// Every function, in declaration order.
    pub const ALL: [DimFn; 4] = [DimFn::FloorDiv, DimFn::Mod, DimFn::Max, DimFn::Min];

    /// The name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            DimFn::FloorDiv => "floordiv",
            DimFn::Mod => "mod",
            DimFn::Max => "max",
            DimFn::Min => "min",
        }
    }

    /// The value, or `None` for a zero divisor or an overflow.
    pub fn eval(self, a: i64, b: i64) -> Option<i64> {
        match self {
            DimFn::FloorDiv => {
                let q = a.checked_div(b)?;
                Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
            }
            DimFn::Mod => {
                let r = a.checked_rem(b)?;
                Some(if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
            }
            DimFn::Max => Some(a.max(b)),
            DimFn::Min => Some(a.min(b)),
        }
    }
}

/// An arithmetic that a dim can be computed in: numbers, machine code, text.
pub trait DimFold {
    /// A computed value.
    type Value: Clone;
    /// Why something has no value.
    type Error;

    /// A known integer.
    fn constant(&mut self, value: i64) -> Result<Self::Value, Self::Error>;
    /// A symbol.
    fn symbol(&mut self, name: &str) -> Result<Self::Value, Self::Error>;
    /// `a + b`.
    fn add(&mut self, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
    /// `a * b`.
    fn mul(&mut self, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
    /// A closed function.
    fn function(&mut self, f: DimFn, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
}

/// Dims themselves, with other values for functions.
struct Rebuild<F>(F);

impl<F: FnMut(DimFn, Dim, Dim) -> Dim> DimFold for Rebuild<F> {
    type Value = Dim;
    type Error = Infallible;

    fn constant(&mut self, value: i64) -> Result<Dim, Infallible> {
        Ok(Dim::constant(value))
    }

    fn symbol(&mut self, name: &str) -> Result<Dim, Infallible> {
        Ok(Dim::symbol(name))
    }

    fn add(&mut self, a: Dim, b: Dim) -> Result<Dim, Infallible> {
        Ok(&a + &b)
    }

    fn mul(&mut self, a: Dim, b: Dim) -> Result<Dim, Infallible> {
        Ok(&a * &b)
    }

    fn function(&mut self, f: DimFn, a: Dim, b: Dim) -> Result<Dim, Infallible> {
        Ok((self.0)(f, a, b))
    }
}

/// Why a dim has no value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DimError {
    /// A symbol has no binding.
    #[error("symbol `{0}` has no value")]
    Unbound(String),
    /// The value does not fit 64 bits, or a divisor is zero.
    #[error("`{0}` has no 64-bit value")]
    Undefined(String),
}

impl Dim {
    /// The dim with what `function` makes of each function of its arguments, innermost first.
    pub(crate) fn rebuild(&self, function: impl FnMut(DimFn, Dim, Dim) -> Dim) -> Dim {
        let Ok(rebuilt) = self.fold(&mut Rebuild(function));
        rebuilt
    }

    /// A known extent.
    pub fn constant(value: i64) -> Self {
        Dim(Terms::known(value))
    }

    /// A named extent.
    pub fn symbol(name: &str) -> Self {
        Dim::atom(Atom::Symbol(name.into()))
    }

    /// `function(a, b)`, folded where the value is known.
    pub fn function(function: DimFn, a: &Dim, b: &Dim) -> Self {
        if let (Some(x), Some(y)) = (a.as_const(), b.as_const())
            && let Some(value) = function.eval(x, y)
        {
            return Dim::constant(value);
        }
        let known = b.as_const().filter(|divisor| *divisor > 0);
        match (function, known) {
            (DimFn::FloorDiv, _) if let Some(exact) = a.exact_div(b) => return exact,
            (DimFn::Mod, _) if a.exact_div(b).is_some() => return Dim::constant(0),
            (DimFn::FloorDiv, Some(divisor)) => return quotient::floor_div(a, divisor),
            (DimFn::Mod, Some(divisor)) => return quotient::remainder(a, divisor),
            (DimFn::Max | DimFn::Min, _) if a == b => return a.clone(),
            _ => {}
        }
        Dim::atom(Atom::Function(function, a.clone(), b.clone()))
    }

    /// `⌈a / b⌉`.
    pub fn ceil_div(&self, divisor: &Dim) -> Self {
        let up = &(self + divisor) - &Dim::constant(1);
        match self.exact_div(divisor) {
            Some(exact) => exact,
            None => Dim::function(DimFn::FloorDiv, &up, divisor),
        }
    }

    /// The value if no symbol is left.
    pub fn as_const(&self) -> Option<i64> {
        match &*self.0 {
            [] => Some(0),
            [term] if term.factors.is_empty() => Some(term.coefficient),
            _ => None,
        }
    }

    /// The term without symbols; zero if there is none.
    pub fn constant_term(&self) -> i64 {
        self.0.iter().find(|term| term.factors.is_empty()).map_or(0, |term| term.coefficient)
    }

    /// The symbol's name, if the dim is a lone symbol.
    pub fn as_symbol(&self) -> Option<&str> {
        match &*self.0 {
            [Term { factors, coefficient: 1 }] => match factors.as_slice() {
                [(Atom::Symbol(name), 1)] => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// The polynomial `q` with `q · divisor == self` for every value of the symbols, if there is one and the divisor
    /// is a single non-zero term.
    pub fn exact_div(&self, divisor: &Dim) -> Option<Dim> {
        if self == divisor && self.as_const() != Some(0) {
            return Some(Dim::constant(1));
        }
        let [by] = &*divisor.0 else { return None };
        if let (Some(value), true) = (self.as_const(), by.factors.is_empty()) {
            let exact = value.checked_rem(by.coefficient) == Some(0);
            return exact.then(|| Dim::constant(value / by.coefficient));
        }
        let mut terms = Vec::with_capacity(self.0.len());
        for term in self.0.iter() {
            if by.coefficient == 0 || term.coefficient % by.coefficient != 0 {
                return None;
            }
            let mut factors = term.factors.clone();
            for (atom, power) in &by.factors {
                let slot = factors.iter_mut().find(|(a, _)| a == atom)?;
                slot.1 = slot.1.checked_sub(*power)?;
            }
            factors.retain(|(_, power)| *power > 0);
            terms.push(Term { factors, coefficient: term.coefficient / by.coefficient });
        }
        Some(Dim::from_terms(terms))
    }

    /// The value under a binding of symbols.
    ///
    /// # Errors
    /// An unbound symbol, a zero divisor, or a value beyond 64 bits.
    pub fn eval(&self, binding: &dyn Fn(&str) -> Option<i64>) -> Result<i64, DimError> {
        let undefined = || DimError::Undefined(self.to_string());
        let mut sum = 0i64;
        for term in self.0.iter() {
            let mut product = term.coefficient;
            for (atom, power) in &term.factors {
                let value = match atom {
                    Atom::Symbol(name) => binding(name).ok_or_else(|| DimError::Unbound(name.to_string()))?,
                    Atom::Function(f, a, b) => f.eval(a.eval(binding)?, b.eval(binding)?).ok_or_else(undefined)?,
                };
                for _ in 0..*power {
                    product = product.checked_mul(value).ok_or_else(undefined)?;
                }
            }
            sum = sum.checked_add(product).ok_or_else(undefined)?;
        }
        Ok(sum)
    }

    /// The dim computed in another arithmetic, terms in the order of the text form. A coefficient of one is not
    /// multiplied.
    ///
    /// # Errors
    /// The first error of the arithmetic.
    pub fn fold<F: DimFold>(&self, arithmetic: &mut F) -> Result<F::Value, F::Error> {
        let mut sum: Option<F::Value> = None;
        for term in self.0.iter() {
            let mut product: Option<F::Value> = None;
            for (atom, power) in &term.factors {
                let value = match atom {
                    Atom::Symbol(name) => arithmetic.symbol(name)?,
                    Atom::Function(f, a, b) => {
                        let (a, b) = (a.fold(arithmetic)?, b.fold(arithmetic)?);
                        arithmetic.function(*f, a, b)?
                    }
                };
                for _ in 0..*power {
                    product = Some(match product {
                        Some(so_far) => arithmetic.mul(so_far, value.clone())?,
                        None => value.clone(),
                    });
                }
            }
            let product = match (product, term.coefficient) {
                (Some(product), 1) => product,
                (Some(product), c) => {
                    let c = arithmetic.constant(c)?;
                    arithmetic.mul(product, c)?
                }
                (None, c) => arithmetic.constant(c)?,
            };
            sum = Some(match sum {
                Some(so_far) => arithmetic.add(so_far, product)?,
                None => product,
            });
        }
        match sum {
            Some(sum) => Ok(sum),
            None => arithmetic.constant(0),
        }
    }

    /// The dim with symbols replaced.
    pub fn substitute(&self, replace: &dyn Fn(&str) -> Option<Dim>) -> Dim {
        let mut sum = Dim::constant(0);
        for term in self.0.iter() {
            let mut product = Dim::constant(term.coefficient);
            for (atom, power) in &term.factors {
                let value = match atom {
                    Atom::Symbol(name) => replace(name).unwrap_or_else(|| Dim::symbol(name)),
                    Atom::Function(f, a, b) => Dim::function(*f, &a.substitute(replace), &b.substitute(replace)),
                };
                for _ in 0..*power {
                    product = &product * &value;
                }
            }
            sum = &sum + &product;
        }
        sum
    }

    /// `(a, b)` with `self == a · symbol + b` and neither containing the symbol, if the dim is linear in it.
    pub fn split_linear(&self, symbol: &str) -> Option<(Dim, Dim)> {
        let (mut slope, mut rest) = (Vec::new(), Vec::new());
        for term in self.0.iter() {
            let is_symbol = |atom: &Atom| matches!(atom, Atom::Symbol(name) if &**name == symbol);
            let mut factors = term.factors.clone();
            let found = factors.iter().position(|(atom, _)| is_symbol(atom)).map(|i| factors.remove(i));
            let hidden = factors.iter().any(|(atom, _)| atom.mentions(symbol));
            match found {
                _ if hidden => return None,
                Some((_, 1)) => slope.push(Term { factors, coefficient: term.coefficient }),
                Some(_) => return None,
                None => rest.push(term.clone()),
            }
        }
        Some((Dim::from_terms(slope), Dim::from_terms(rest)))
    }

    /// Largest sum of powers in a term; functions count as one.
    pub fn degree(&self) -> u32 {
        let degree = |term: &Term| term.factors.iter().fold(0u32, |sum, (_, power)| sum.saturating_add(*power));
        self.0.iter().map(degree).max().unwrap_or(0)
    }

    /// Whether a symbol occurs in the dim.
    pub fn mentions(&self, symbol: &str) -> bool {
        self.0.iter().flat_map(|t| &t.factors).any(|(atom, _)| atom.mentions(symbol))
    }

    /// Adds the names of all symbols in the dim to `names`.
    pub fn collect_symbols(&self, names: &mut BTreeSet<String>) {
        for (atom, _) in self.0.iter().flat_map(|t| &t.factors) {
            match atom {
                Atom::Symbol(name) => {
                    names.insert(name.to_string());
                }
                Atom::Function(_, a, b) => {
                    a.collect_symbols(names);
                    b.collect_symbols(names);
                }
            }
        }
    }

    /// The sum of `coefficient · Π symbols` that the dim is, if no function occurs in it.
    pub fn as_polynomial(&self) -> Option<Vec<(i64, Vec<&str>)>> {
        self.0
            .iter()
            .map(|term| {
                let mut names = Vec::new();
                for (atom, power) in &term.factors {
                    let Atom::Symbol(name) = atom else { return None };
                    names.extend(std::iter::repeat_n(&**name, *power as usize));
                }
                Some((term.coefficient, names))
            })
            .collect()
    }

    /// Number of terms of the normal form.
    pub fn term_count(&self) -> usize {
        self.0.len()
    }

    fn atom(atom: Atom) -> Self {
        Dim::from_terms(vec![Term { factors: vec![(atom, 1)], coefficient: 1 }])
    }

    fn from_terms(mut terms: Vec<Term>) -> Self {
        // Higher degree first, the constant last: `s*2 + 1`.
        terms.sort_by(|a, b| b.factors.len().cmp(&a.factors.len()).then_with(|| a.factors.cmp(&b.factors)));
        let mut merged: Vec<Term> = Vec::with_capacity(terms.len());
        for term in terms {
            match merged.last_mut() {
                Some(last) if last.factors == term.factors => {
                    last.coefficient = last.coefficient.saturating_add(term.coefficient);
                }
                _ => merged.push(term),
            }
        }
        merged.retain(|term| term.coefficient != 0);
        quotient::rejoined(Dim(merged.into()))
    }

    /// The dim times a number that is not zero.
    fn scaled(&self, by: i64) -> Dim {
        let scale = |term: &Term| Term { coefficient: term.coefficient.saturating_mul(by), ..term.clone() };
        match &*self.0 {
            _ if by == 1 => self.clone(),
            // The factors of one term are in order.
            [term] => Dim(Terms::from(vec![scale(term)])),
            terms => Dim::from_terms(terms.iter().map(scale).collect()),
        }
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Self {
        Dim::constant(value)
    }
}

impl Add for &Dim {
    type Output = Dim;

    fn add(self, other: &Dim) -> Dim {
        match (self.as_const(), other.as_const()) {
            (Some(a), Some(b)) => return Dim::constant(a.saturating_add(b)),
            (Some(0), None) => return other.clone(),
            (None, Some(0)) => return self.clone(),
            _ => {}
        }
        Dim::from_terms(self.0.iter().chain(other.0.iter()).cloned().collect())
    }
}

impl Sub for &Dim {
    type Output = Dim;

    fn sub(self, other: &Dim) -> Dim {
        self + &(&Dim::constant(-1) * other)
    }
}

impl Mul for &Dim {
    type Output = Dim;

    fn mul(self, other: &Dim) -> Dim {
        match (self.as_const(), other.as_const()) {
            (Some(a), Some(b)) => return Dim::constant(a.saturating_mul(b)),
            (Some(0), None) | (None, Some(0)) => return Dim::constant(0),
            (Some(by), None) => return other.scaled(by),
            (None, Some(by)) => return self.scaled(by),
            (None, None) => {}
        }
        let mut terms = Vec::with_capacity(self.0.len() * other.0.len());
        for a in self.0.iter() {
            for b in other.0.iter() {
                let mut factors = a.factors.clone();
                for (atom, power) in &b.factors {
                    match factors.iter_mut().find(|(x, _)| x == atom) {
                        Some(slot) => slot.1 += power,
                        None => factors.push((atom.clone(), *power)),
                    }
                }
                factors.sort();
                terms.push(Term { factors, coefficient: a.coefficient.saturating_mul(b.coefficient) });
            }
        }
        Dim::from_terms(terms)
    }
}

/// The product of all extents; one for no extents.
pub fn product<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Dim {
    dims.into_iter().fold(Dim::constant(1), |acc, d| &acc * d)
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("0");
        }
        for (i, term) in self.0.iter().enumerate() {
            let magnitude = term.coefficient.unsigned_abs();
            match (i, term.coefficient < 0) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            let mut first = true;
            for (atom, power) in &term.factors {
                for _ in 0..*power {
                    if !first {
                        f.write_str("*")?;
                    }
                    first = false;
                    match atom {
                        Atom::Symbol(name) => f.write_str(name)?,
                        Atom::Function(function, a, b) => write!(f, "{}({a}, {b})", function.name())?,
                    }
                }
            }
            match (first, magnitude) {
                (true, _) => write!(f, "{magnitude}")?,
                (false, 1) => {}
                (false, _) => write!(f, "*{magnitude}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s() -> Dim {
        Dim::symbol("s")
    }

    #[test]
    fn equal_polynomials_are_equal_values() {
        let a = &(&s() * &Dim::constant(96)) * &Dim::constant(128);
        assert_eq!(a, &s() * &Dim::constant(12288));
        assert_eq!(&(&s() + &Dim::constant(1)) - &s(), Dim::constant(1));
    }

    #[test]
    fn exact_division_needs_a_divisor_for_every_value() {
        let a = &s() * &Dim::constant(12);
        assert_eq!(a.exact_div(&Dim::constant(4)), Some(&s() * &Dim::constant(3)));
        assert_eq!(a.exact_div(&s()), Some(Dim::constant(12)));
        assert_eq!(a.exact_div(&Dim::constant(5)), None);
        assert_eq!((&a + &Dim::constant(1)).exact_div(&Dim::constant(4)), None);
        assert_eq!(a.exact_div(&Dim::constant(0)), None);
    }

    #[test]
    fn functions_fold_and_evaluate() {
        let half = Dim::function(DimFn::FloorDiv, &s(), &Dim::constant(2));
        assert_eq!(half.to_string(), "floordiv(s, 2)");
        assert_eq!(half.eval(&|_| Some(7)), Ok(3));
        assert_eq!(half.eval(&|_| None), Err(DimError::Unbound("s".into())));
        assert_eq!(DimFn::FloorDiv.eval(-7, 2), Some(-4));
        assert_eq!(DimFn::Mod.eval(-7, 2), Some(1));
        assert_eq!(DimFn::FloorDiv.eval(i64::MIN, -1), None);
        assert_eq!(Dim::constant(130).ceil_div(&Dim::constant(128)), Dim::constant(2));
    }

    #[test]
    fn linear_parts() {
        let index = &(&(&s() * &Dim::constant(4096)) + &Dim::symbol("lane")) + &Dim::constant(3);
        let (slope, rest) = index.split_linear("s").expect("linear in s");
        assert_eq!((slope.to_string(), rest.to_string()), ("4096".into(), "lane + 3".into()));
        assert_eq!((&s() * &s()).split_linear("s"), None);
        assert_eq!(Dim::function(DimFn::Mod, &s(), &Dim::constant(2)).split_linear("s"), None);
    }

    #[test]
    fn text_is_readable() {
        let d = &(&s() * &(&s() * &Dim::constant(-2))) + &Dim::constant(5);
        assert_eq!(d.to_string(), "-s*s*2 + 5");
        assert_eq!(Dim::constant(0).to_string(), "0");
    }
}
