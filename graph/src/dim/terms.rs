//! The terms of a dim. Most extents are known numbers: these are held without memory of their own.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use super::Term;

/// Terms in normal form, seen as a slice; equal, ordered and hashed as one.
#[derive(Clone)]
pub(super) enum Terms {
    /// The term of a number; none for zero.
    Known(Option<Term>),
    /// Any others.
    Shared(Arc<[Term]>),
}

impl Terms {
    /// Those of a number.
    pub fn known(value: i64) -> Terms {
        Terms::Known((value != 0).then_some(Term { factors: Vec::new(), coefficient: value }))
    }
}

impl From<Vec<Term>> for Terms {
    fn from(mut terms: Vec<Term>) -> Terms {
        match terms.as_slice() {
            [] => Terms::Known(None),
            [term] if term.factors.is_empty() => Terms::Known(terms.pop()),
            _ => Terms::Shared(terms.into()),
        }
    }
}

impl FromIterator<Term> for Terms {
    fn from_iter<I: IntoIterator<Item = Term>>(terms: I) -> Terms {
        Terms::from(terms.into_iter().collect::<Vec<Term>>())
    }
}

impl Deref for Terms {
    type Target = [Term];

    fn deref(&self) -> &[Term] {
        match self {
            Terms::Known(term) => term.as_slice(),
            Terms::Shared(terms) => terms,
        }
    }
}

impl PartialEq for Terms {
    fn eq(&self, other: &Terms) -> bool {
        let shared = |a: &Arc<[Term]>, b: &Arc<[Term]>| Arc::ptr_eq(a, b);
        matches!((self, other), (Terms::Shared(a), Terms::Shared(b)) if shared(a, b)) || **self == **other
    }
}

impl Eq for Terms {}

impl PartialOrd for Terms {
    fn partial_cmp(&self, other: &Terms) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Terms {
    fn cmp(&self, other: &Terms) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Terms {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dim;
    use super::*;

    fn form(dim: &str) -> Dim {
        dim.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn numbers_hold_no_memory_however_they_are_computed() {
        for text in ["0", "7", "-3", "s - s", "s + 4 - s", "floordiv(9, 2)", "mod(s, 1)", "s*0", "s*2 - s - s + 1"] {
            assert!(matches!(form(text).0, Terms::Known(_)), "{text}");
        }
        assert!(matches!(form("s").0, Terms::Shared(_)));
    }

    #[test]
    fn arithmetic_with_numbers_is_that_of_polynomials() {
        let texts = ["0", "1", "-1", "6", "s", "s*6", "s + 1", "s*6 - t*4 + 2", "mod(s, 4)*2 + 1", "floordiv(s, 4)*4"];
        let s_and_t = |name: &str| Some(if name == "s" { 11 } else { -5 });
        let value = |dim: &Dim| dim.eval(&s_and_t).expect("bound");
        for (a, b) in texts.iter().flat_map(|a| texts.iter().map(move |b| (form(a), form(b)))) {
            let (sum, product) = (&a + &b, &a * &b);
            assert_eq!((value(&sum), value(&product)), (value(&a) + value(&b), value(&a) * value(&b)), "{a}, {b}");
            assert_eq!((form(&sum.to_string()), form(&product.to_string())), (sum, product), "{a}, {b}");
            match a.exact_div(&b) {
                Some(quotient) => assert_eq!(&quotient * &b, a, "{a}, {b}"),
                None => assert!(a.as_const().zip(b.as_const()).is_none_or(|(a, b)| b == 0 || a % b != 0), "{a}, {b}"),
            }
        }
        assert_eq!(&Dim::constant(i64::MAX) * &Dim::constant(2), Dim::constant(i64::MAX));
        assert_eq!(Dim::constant(i64::MIN).exact_div(&Dim::constant(-1)), None);
    }

    #[test]
    fn zero_is_the_least_and_numbers_come_before_symbols() {
        let mut dims = ["s", "s + 1", "3", "0", "-2", "t"].map(form);
        dims.sort();
        assert_eq!(dims.map(|dim| dim.to_string()), ["0", "-2", "3", "s", "s + 1", "t"]);
    }
}
