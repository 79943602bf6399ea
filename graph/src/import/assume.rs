//! What a file takes for granted of its symbols and does not say: found where a node makes no sense without.
//!
//! The import then starts again with it, so that every type says it and every call is checked against it:
//!
//! - a symbol has values for which an extent is the number that the file states, or for which none is negative that is
//!   made: a padding up to a length, say;
//! - two extents that an op needs to be equal are: an exporter that is left to choose symbols gives each input its own;
//! - a symbol is a multiple, `s = 2·h`, where the file states extents that are quotients of it and no others.

use std::collections::BTreeSet;

use super::schema::Program;
use crate::dim::{Dim, DimFn, product};
use crate::graph::Symbol;
use crate::ty::TensorType;

/// Divisors beyond which no multiple is looked for.
const MAX_DIVISOR: i64 = 1 << 16;

/// What the import needs and does not know yet.
#[derive(Clone, Debug)]
pub(super) enum Needed {
    /// A range inside the declared one.
    Range(Symbol),
    /// Extents that are equal.
    Equal(Dim, Dim),
    /// `slope · symbol + offset` that is divisible.
    Multiple { symbol: String, slope: i64, offset: i64, divisor: i64 },
}

/// What is assumed of the symbols of a file.
#[derive(Clone, Default, Debug)]
pub(super) struct Assumptions {
    /// Symbols with other ranges than the file declares, and symbols that it does not have; of one name the last counts.
    ranges: Vec<Symbol>,
    /// Symbols that others stand for, in the order in which to replace them.
    replaced: Vec<(String, Dim)>,
}

/// Least sizes up to this one are those that a graph was traced with: the framework runs it with one row and with none.
const UNCHECKED: i64 = 2;

impl Assumptions {
    /// A dim of the file in the symbols that are left.
    pub(super) fn apply(&self, dim: Dim) -> Dim {
        self.replaced.iter().fold(dim, |dim, (name, by)| {
            if dim.mentions(name) { dim.substitute(&|symbol| (symbol == name).then(|| by.clone())) } else { dim }
        })
    }

    /// The range of a symbol; as the file declares it, or narrower.
    pub(super) fn range(&self, name: &str, program: &Program) -> Symbol {
        if let Some(assumed) = self.ranges.iter().rev().find(|s| s.name == name) {
            return assumed.clone();
        }
        let declared = program.range_constraints.get(name);
        let min = declared.and_then(|r| r.min_val).filter(|min| *min > UNCHECKED).unwrap_or(0);
        Symbol { name: name.to_owned(), min, max: declared.and_then(|r| r.max_val) }
    }

    /// Takes over what an import needed; whether anything is new.
    pub(super) fn adopt(&mut self, needed: Vec<Needed>, symbols: &[Symbol], program: &Program) -> bool {
        let mut changed = false;
        for need in needed {
            changed |= match need {
                Needed::Range(symbol) => {
                    let narrower = self.range(&symbol.name, program) != symbol;
                    self.ranges.push(symbol);
                    narrower
                }
                Needed::Equal(a, b) => self.equate(&(&self.apply(a) - &self.apply(b)), symbols, program),
                Needed::Multiple { symbol, slope, offset, divisor } => {
                    self.divide(&symbol, (slope, offset, divisor), symbols, program)
                }
            };
        }
        changed
    }

    /// Makes a dim zero by replacing a symbol of it, the last declared one that it can be solved for.
    fn equate(&mut self, zero: &Dim, symbols: &[Symbol], program: &Program) -> bool {
        let solved = symbols.iter().rev().find_map(|symbol| {
            let (slope, rest) = zero.split_linear(&symbol.name)?;
            slope.as_const().filter(|slope| *slope != 0)?;
            Some((symbol.name.clone(), (&Dim::constant(0) - &rest).exact_div(&slope)?))
        });
        let Some((name, by)) = solved else { return false };
        if let Some(value) = by.as_const() {
            // What holds for no rows only, or for none that there are, is no assumption but a mistake.
            let Symbol { min, max, .. } = self.range(&name, program);
            if value == 0 || value < min || max.is_some_and(|max| value > max) {
                return false;
            }
        }
        if let Some(other) = by.as_symbol() {
            let (a, b) = (self.range(&name, program), self.range(other, program));
            let max = match (a.max, b.max) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            self.ranges.push(Symbol { name: b.name, min: a.min.max(b.min), max });
        }
        self.replaced.push((name, by));
        true
    }

    /// Replaces a symbol by `m · h + o` for a new symbol `h`, so that `slope · symbol + offset` is divisible.
    fn divide(
        &mut self,
        name: &str,
        (slope, offset, divisor): (i64, i64, i64),
        symbols: &[Symbol],
        program: &Program,
    ) -> bool {
        let fits = |o: &i64| (i128::from(slope) * i128::from(*o) + i128::from(offset)) % i128::from(divisor) == 0;
        let mut remainders = (0..divisor).filter(fits);
        let Some(first) = remainders.next() else { return false };
        // Remainders that fit are as far apart as the multiples are.
        let multiple = remainders.next().map_or(divisor, |second| second - first);
        let made = format!("{name}_{multiple}");
        let taken = symbols.iter().any(|s| s.name == made) || program.range_constraints.contains_key(&made);
        if multiple == 1 || taken {
            return false;
        }
        let old = self.range(name, program);
        let min = old.min.saturating_sub(first).div_euclid(multiple);
        let min = if (old.min.saturating_sub(first)).rem_euclid(multiple) == 0 { min } else { min + 1 };
        let max = old.max.map(|max| max.saturating_sub(first).div_euclid(multiple));
        self.ranges.push(Symbol { name: made.clone(), min: min.max(0), max });
        let by = &(&Dim::constant(multiple) * &Dim::symbol(&made)) + &Dim::constant(first);
        self.replaced.push((name.to_owned(), by));
        true
    }
}

/// The range of the only symbol of a dim within which that is not negative. Of several symbols, a call tells.
pub(super) fn not_negative(dim: &Dim, symbols: &[Symbol]) -> Option<Needed> {
    let mut names = BTreeSet::new();
    dim.collect_symbols(&mut names);
    let name = names.pop_first().filter(|_| names.is_empty())?;
    let (slope, offset) = dim.split_linear(&name)?;
    let (slope, offset) = (slope.as_const()?, offset.as_const()?);
    let known = symbols.iter().find(|symbol| symbol.name == name)?;
    let range = match slope {
        0 => return None,
        1.. => Symbol { min: known.min.max(-offset.div_euclid(slope)), ..known.clone() },
        _ => {
            let most = offset.div_euclid(slope.checked_neg()?);
            Symbol { max: Some(known.max.map_or(most, |max| max.min(most))), ..known.clone() }
        }
    };
    // What holds of no size is no assumption but a mistake.
    (range != *known && range.max.is_none_or(|max| max >= range.min)).then_some(Needed::Range(range))
}

/// What must be divisible for a tensor to have as many elements as the file states for a view of it.
pub(super) fn divisible(from: &TensorType, to: &TensorType) -> Option<Needed> {
    let mut quotients: Vec<(Dim, i64)> = Vec::new();
    for dim in [product(&from.shape)].iter().chain(&to.shape) {
        dim.rebuild(|f, a, b| {
            let divisor = b.as_const().filter(|divisor| (2..=MAX_DIVISOR).contains(divisor));
            quotients.extend(divisor.filter(|_| f == DimFn::FloorDiv).map(|divisor| (a.clone(), divisor)));
            Dim::function(f, &a, &b)
        });
    }
    quotients.into_iter().find_map(|(a, divisor)| {
        let mut names = BTreeSet::new();
        a.collect_symbols(&mut names);
        let symbol = names.pop_first().filter(|_| names.is_empty())?;
        let (slope, offset) = a.split_linear(&symbol)?;
        Some(Needed::Multiple { symbol, slope: slope.as_const()?, offset: offset.as_const()?, divisor })
    })
}
