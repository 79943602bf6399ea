//! Bounds of dims under the declared ranges of their symbols.
//!
//! Bounds are conservative: every value that the dim can take lies inside. Values beyond ±2^100 count as unbounded.

use std::collections::BTreeMap;

use crate::dim::{Dim, DimFn, DimFold, without_quotients};
use crate::graph::Symbol;

const FAR: i128 = 1 << 100;

/// Least and greatest value; at [`FAR`] unbounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    pub(crate) min: i128,
    pub(crate) max: i128,
}

impl Bounds {
    fn new(min: i128, max: i128) -> Self {
        Bounds { min: min.clamp(-FAR, FAR), max: max.clamp(-FAR, FAR) }
    }

    /// Whether every value is below zero.
    pub(crate) fn is_negative(self) -> bool {
        self.max < 0
    }
}

/// The dim divides by zero whatever its symbols are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ZeroDivisor;

/// The declared ranges of symbols; an undeclared symbol is unbounded.
#[derive(Debug)]
pub(crate) struct Ranges<'g>(BTreeMap<&'g str, Bounds>);

impl<'g> Ranges<'g> {
    pub(crate) fn new(symbols: &'g [Symbol]) -> Self {
        let bounds = |s: &Symbol| Bounds::new(s.min.into(), s.max.map_or(FAR, i128::from));
        Ranges(symbols.iter().map(|s| (s.name.as_str(), bounds(s))).collect())
    }

    pub(crate) fn bounds(&mut self, dim: &Dim) -> Result<Bounds, ZeroDivisor> {
        let plain = dim.fold(self)?;
        let Some((larger, least, greatest)) = without_quotients(dim) else { return Ok(plain) };
        let larger = larger.fold(self)?;
        // What is unbounded stays so, whatever is taken from it.
        let min = if larger.min == -FAR { -FAR } else { larger.min - greatest };
        let max = if larger.max == FAR { FAR } else { larger.max - least };
        Ok(Bounds::new(plain.min.max(min), plain.max.min(max)))
    }
}

/// A dim in which functions that have one value under the declared ranges are that value, and of two extents of which
/// one is never the larger the other is left.
pub(crate) fn simplified(dim: &Dim, symbols: &[Symbol]) -> Dim {
    let mut ranges = Ranges::new(symbols);
    dim.rebuild(|f, a, b| {
        let mut never_negative = |dim: &Dim| ranges.bounds(dim).is_ok_and(|bounds| bounds.min >= 0);
        let (over, under) = (never_negative(&(&a - &b)), never_negative(&(&b - &a)));
        let value = Dim::function(f, &a, &b);
        match f {
            DimFn::Max if over => a,
            DimFn::Max if under => b,
            DimFn::Min if under => a,
            DimFn::Min if over => b,
            _ => match ranges.bounds(&value) {
                Ok(Bounds { min, max }) if min == max => i64::try_from(min).map_or(value, Dim::constant),
                _ => value,
            },
        }
    })
}

/// As [`simplified`], with a value where a divisor is 0: what a framework divides by an extent it computes only for
/// tensors that have elements. There the divisor is 1, and nothing reads what is divided.
pub(crate) fn defined(dim: &Dim, symbols: &[Symbol]) -> Dim {
    let mut ranges = Ranges::new(symbols);
    simplified(dim, symbols).rebuild(|f, a, b| {
        let divides = matches!(f, DimFn::FloorDiv | DimFn::Mod) && b.as_const().is_none();
        if !divides || ranges.bounds(&b).is_ok_and(|bounds| bounds.min > 0) {
            return Dim::function(f, &a, &b);
        }
        Dim::function(f, &a, &Dim::function(DimFn::Max, &b, &Dim::constant(1)))
    })
}

/// Least and greatest value that a dim can take under the declared ranges of its symbols; a bound that is not known is
/// beyond every `i64`. `None` if it divides by zero.
pub fn range(dim: &Dim, symbols: &[Symbol]) -> Option<(i128, i128)> {
    Ranges::new(symbols).bounds(dim).ok().map(|b| (b.min, b.max))
}

impl DimFold for Ranges<'_> {
    type Value = Bounds;
    type Error = ZeroDivisor;

    fn constant(&mut self, value: i64) -> Result<Bounds, ZeroDivisor> {
        Ok(Bounds::new(value.into(), value.into()))
    }

    fn symbol(&mut self, name: &str) -> Result<Bounds, ZeroDivisor> {
        Ok(self.0.get(name).copied().unwrap_or(Bounds { min: -FAR, max: FAR }))
    }

    fn add(&mut self, a: Bounds, b: Bounds) -> Result<Bounds, ZeroDivisor> {
        Ok(Bounds::new(a.min + b.min, a.max + b.max))
    }

    fn mul(&mut self, a: Bounds, b: Bounds) -> Result<Bounds, ZeroDivisor> {
        let corners = [(a.min, b.min), (a.min, b.max), (a.max, b.min), (a.max, b.max)];
        let products = corners.map(|(x, y)| x.saturating_mul(y));
        let least = products.into_iter().fold(i128::MAX, i128::min);
        Ok(Bounds::new(least, products.into_iter().fold(i128::MIN, i128::max)))
    }

    fn function(&mut self, f: DimFn, a: Bounds, b: Bounds) -> Result<Bounds, ZeroDivisor> {
        let divides = matches!(f, DimFn::FloorDiv | DimFn::Mod);
        if divides && b.min == 0 && b.max == 0 {
            return Err(ZeroDivisor);
        }
        Ok(match f {
            DimFn::Max => Bounds::new(a.min.max(b.min), a.max.max(b.max)),
            DimFn::Min => Bounds::new(a.min.min(b.min), a.max.min(b.max)),
            DimFn::FloorDiv | DimFn::Mod if b.min < 1 => Bounds::new(-FAR, FAR),
            DimFn::FloorDiv => {
                let least = a.min.div_euclid(if a.min < 0 { b.min } else { b.max });
                Bounds::new(least, a.max.div_euclid(if a.max < 0 { b.max } else { b.min }))
            }
            DimFn::Mod if a.min >= 0 && a.max < b.min => a,
            DimFn::Mod => Bounds::new(0, b.max - 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_inside_the_bounds() {
        let symbols = [("a", -3, 4), ("b", 0, 3), ("c", 1, 3)].map(|(name, min, max)| Symbol {
            name: name.into(),
            min,
            max: Some(max),
        });
        let texts = [
            "floordiv(a*3 + b, 4)*8 - a*6 + c",
            "a - floordiv(a, 2)*2",
            "a*b - c",
            "floordiv(a, c)",
            "mod(a*2, c) + b",
            "max(a, b)*min(b, c)",
            "floordiv(7 - a*a, c + b)",
        ];
        for text in texts {
            let dim: Dim = text.parse().unwrap_or_else(|e| panic!("{e}"));
            let bounds = Ranges::new(&symbols).bounds(&dim).unwrap_or_else(|e| panic!("{e:?}"));
            let mut seen = Bounds { min: FAR, max: -FAR };
            for (a, b, c) in (-3..=4).flat_map(|a| (0..=3).flat_map(move |b| (1..=3).map(move |c| (a, b, c)))) {
                let value = dim.eval(&|name| {
                    Some(if name == "a" {
                        a
                    } else if name == "b" {
                        b
                    } else {
                        c
                    })
                });
                let value = i128::from(value.unwrap_or_else(|e| panic!("{e}")));
                seen = Bounds { min: seen.min.min(value), max: seen.max.max(value) };
            }
            assert!(bounds.min <= seen.min && seen.max <= bounds.max, "{text}: {bounds:?} {seen:?}");
        }
        let padding: Dim = "floordiv(a + 7, 8)*8 - a".parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(Ranges::new(&[]).bounds(&padding), Ok(Bounds { min: 0, max: 7 }));
        let zero = Dim::function(DimFn::Mod, &Dim::symbol("a"), &Dim::constant(0));
        assert_eq!(Ranges::new(&symbols).bounds(&zero), Err(ZeroDivisor));
        assert!(Ranges::new(&[]).bounds(&Dim::symbol("x")).is_ok_and(|b| b.max == FAR));
    }

    #[test]
    fn ranges_decide_functions() {
        let symbols = [Symbol { name: "s".into(), min: 2, max: Some(64) }];
        for (text, simple) in [
            ("floordiv(s + 63, 64)*64", "64"),
            ("max(1, s)*3", "s*3"),
            ("min(s, 65) + max(s, 5)", "s + max(s, 5)"),
            ("mod(s, 65)", "mod(s, 65)"),
            ("max(floordiv(s + 63, 64), t)", "max(1, t)"),
        ] {
            let dim: Dim = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(simplified(&dim, &symbols).to_string(), simple, "{text}");
        }
    }
}
