//! Normal forms of quotients and remainders by known positive numbers.
//!
//! - `floordiv(a, c)`: whole multiples of `c` stand outside, common factors of `a` and `c` are gone, a quotient of a
//!   quotient is one quotient, and `a` is not the negative of something: `floordiv(-s, 8)` is `-floordiv(s + 7, 8)`.
//! - `mod(a, c)`: `a` holds no multiple of `c`, and no remainder that says the same: `mod(8 - mod(s, 8), 8)` is
//!   `mod(-s, 8)`.
//! - A remainder beside what it is a remainder of is a quotient: `s + mod(-s, 8)` is `floordiv(s + 7, 8)*8`.

use super::{Atom, Dim, DimFn, Term};

/// Sums of more terms are not searched for remainders.
const MAX_TERMS: usize = 16;

/// A dim without and with its constant.
fn parts(a: &Dim) -> (Vec<Term>, i64) {
    let (constants, terms): (Vec<Term>, Vec<Term>) = a.0.iter().cloned().partition(|term| term.factors.is_empty());
    (terms, constants.first().map_or(0, |term| term.coefficient))
}

fn atom(function: DimFn, a: &Dim, divisor: i64) -> Dim {
    Dim::atom(Atom::Function(function, a.clone(), Dim::constant(divisor)))
}

/// `⌊a / divisor⌋` of a positive divisor.
pub(super) fn floor_div(a: &Dim, divisor: i64) -> Dim {
    let (mut rest, constant) = parts(a);
    let mut whole = vec![Term { factors: Vec::new(), coefficient: constant.div_euclid(divisor) }];
    for term in &mut rest {
        whole.push(Term { factors: term.factors.clone(), coefficient: term.coefficient / divisor });
        term.coefficient %= divisor;
    }
    rest.retain(|term| term.coefficient != 0);
    let whole = Dim::from_terms(whole);
    let constant = constant.rem_euclid(divisor);
    if rest.is_empty() {
        return whole;
    }
    // ⌊a / c⌋ = −⌊(c − 1 − a) / c⌋
    if rest.iter().all(|term| term.coefficient < 0) {
        let positive = &(&Dim::constant(divisor - 1 - constant) - &Dim::from_terms(rest));
        return &whole - &floor_div(positive, divisor);
    }
    let shared = rest.iter().fold(divisor, |g, term| gcd(g, term.coefficient));
    for term in &mut rest {
        term.coefficient /= shared;
    }
    let (constant, divisor) = (constant.div_euclid(shared), divisor / shared);
    let (raw, rest) = (rest.clone(), Dim::from_terms(rest));
    // Remainders that are quotients now have coefficients of their own.
    if *rest.0 != raw[..] {
        return &whole + &floor_div(&(&rest + &Dim::constant(constant)), divisor);
    }
    if divisor == 1 {
        return &whole + &(&rest + &Dim::constant(constant));
    }
    if let Some((inner, by)) = known(&rest, DimFn::FloorDiv)
        && let Some((offset, product)) = constant.checked_mul(by).zip(divisor.checked_mul(by))
    {
        return &whole + &floor_div(&(inner + &Dim::constant(offset)), product);
    }
    &whole + &atom(DimFn::FloorDiv, &(&rest + &Dim::constant(constant)), divisor)
}

/// `a − divisor · ⌊a / divisor⌋` of a positive divisor.
pub(super) fn remainder(a: &Dim, divisor: i64) -> Dim {
    let (terms, constant) = parts(a);
    let mut sum = Dim::constant(constant.rem_euclid(divisor));
    let mut opened = false;
    for term in terms {
        let single = Dim::from_terms(vec![Term { factors: term.factors.clone(), coefficient: 1 }]);
        let same = known(&single, DimFn::Mod)
            .filter(|(_, by)| i128::from(*by) * i128::from(term.coefficient) % i128::from(divisor) == 0);
        let coefficient = Dim::constant(term.coefficient % divisor);
        opened |= same.is_some();
        sum = &sum + &(&coefficient * same.map_or(&single, |(inner, _)| inner));
    }
    if opened || sum.0.iter().any(|term| term.coefficient.unsigned_abs() >= divisor.unsigned_abs()) {
        return remainder(&sum, divisor);
    }
    match sum.as_const() {
        Some(value) => Dim::constant(value.rem_euclid(divisor)),
        None => atom(DimFn::Mod, &sum, divisor),
    }
}

/// `(a, c)` of a dim that is nothing but `function(a, c)` with a known positive `c`.
fn known(dim: &Dim, function: DimFn) -> Option<(&Dim, i64)> {
    let [Term { factors, coefficient: 1 }] = &*dim.0 else { return None };
    match factors.as_slice() {
        [(atom, 1)] => by_number(atom, function),
        _ => None,
    }
}

fn by_number(atom: &Atom, function: DimFn) -> Option<(&Dim, i64)> {
    match atom {
        Atom::Function(f, a, by) if *f == function => Some((a, by.as_const().filter(|by| *by > 0)?)),
        _ => None,
    }
}

/// A sum in which every remainder is written as `a − c · ⌊a / c⌋` that makes the sum shorter.
pub(super) fn rejoined(sum: Dim) -> Dim {
    if sum.0.len() < 2 || sum.0.len() > MAX_TERMS {
        return sum;
    }
    let shorter = sum.0.iter().enumerate().find_map(|(i, term)| {
        let (at, (a, by)) = term.factors.iter().enumerate().find_map(|(at, (atom, power))| {
            if *power == 1 { by_number(atom, DimFn::Mod).map(|found| (at, found)) } else { None }
        })?;
        let mut factors = term.factors.clone();
        factors.remove(at);
        let factor = Dim(vec![Term { factors, coefficient: term.coefficient }].into());
        let others = Dim(sum.0.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, t)| t.clone()).collect());
        let quotient = &Dim::constant(by) * &floor_div(a, by);
        let written = &others + &(&factor * &(a - &quotient));
        (written.0.len() < sum.0.len()).then_some(written)
    });
    shorter.unwrap_or(sum)
}

/// What is known of a sum by its quotients: `sum − k·c·⌊a / c⌋ + k·a`, which is larger by `k` times a remainder of `c`.
/// Yields that dim and the least and greatest value of what it is larger by.
pub(crate) fn without_quotients(sum: &Dim) -> Option<(Dim, i128, i128)> {
    let (mut dim, mut least, mut greatest, mut found) = (sum.clone(), 0i128, 0i128, false);
    for term in sum.0.iter() {
        let [(atom, 1)] = term.factors.as_slice() else { continue };
        let Some((a, by)) = by_number(atom, DimFn::FloorDiv) else { continue };
        if term.coefficient % by != 0 {
            continue;
        }
        let times = term.coefficient / by;
        dim = &(&dim - &Dim(vec![term.clone()].into())) + &(&Dim::constant(times) * a);
        let most = i128::from(times) * i128::from(by - 1);
        (least, greatest, found) = (least + most.min(0), greatest + most.max(0), true);
    }
    found.then_some((dim, least, greatest))
}

impl Dim {
    /// `(q, r)` with `self == q · divisor + r` by long division: a term of `r` that has the factors of the divisor's first
    /// one has a coefficient of at least 0 and below that one's. Nothing is divided by 0.
    pub(crate) fn divided(&self, divisor: &Dim) -> (Dim, Dim) {
        let (mut quotient, mut rest) = (Dim::constant(0), self.clone());
        let Some(first) = divisor.0.first() else { return (quotient, rest) };
        let single = |term: &Term| Dim(vec![Term { coefficient: 1, ..term.clone() }].into());
        let by = single(first);
        for _ in 0..MAX_TERMS {
            let part = rest.0.iter().find_map(|term| {
                let times = term.coefficient.checked_div_euclid(first.coefficient).filter(|times| *times != 0)?;
                Some(&single(term).exact_div(&by)? * &Dim::constant(times))
            });
            let Some(part) = part else { break };
            rest = &rest - &(&part * divisor);
            quotient = &quotient + &part;
        }
        (quotient, rest)
    }

    /// The symbol of a dim `k·⌊(p·symbol + q) / c⌋ + n`, and its least and greatest value for which the dim is `value`.
    pub(crate) fn solve_quotient(&self, value: i64) -> Option<(String, i64, i64)> {
        let (terms, constant) = parts(self);
        let [Term { factors, coefficient }] = terms.as_slice() else { return None };
        let [(atom, 1)] = factors.as_slice() else { return None };
        let (a, by) = by_number(atom, DimFn::FloorDiv)?;
        let mut names = std::collections::BTreeSet::new();
        a.collect_symbols(&mut names);
        let name = names.pop_first().filter(|_| names.is_empty())?;
        let (slope, offset) = a.split_linear(&name)?;
        let (slope, offset) = (slope.as_const().filter(|slope| *slope > 0)?, offset.as_const()?);
        let left = value.checked_sub(constant)?;
        let least = by.checked_mul(left.checked_rem(*coefficient).filter(|r| *r == 0).map(|_| left / coefficient)?)?;
        let greatest = least.checked_add(by - 1)?.checked_sub(offset)?.div_euclid(slope);
        // ⌈a / b⌉ = −⌊−a / b⌋
        let least = offset.checked_sub(least)?.div_euclid(slope).checked_neg()?;
        Some((name, least, greatest))
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    // A divisor of the first, which is an i64.
    i64::try_from(a).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dim(text: &str) -> Dim {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn paddings_to_whole_chunks_have_one_form() {
        for text in ["s + mod(-mod(s, 8) + 8, 8)", "s + mod(-s, 8)", "floordiv(s + 7, 8)*8", "-floordiv(-s, 8)*8"] {
            assert_eq!(dim(text).to_string(), "floordiv(s + 7, 8)*8", "{text}");
        }
        let padded = dim("s + mod(-s, 8)");
        let chunks = Dim::function(DimFn::FloorDiv, &padded, &Dim::constant(8));
        assert_eq!(chunks.to_string(), "floordiv(s + 7, 8)");
        assert_eq!(Dim::function(DimFn::FloorDiv, &padded, &chunks), Dim::constant(8));
        assert_eq!(dim("mod(-mod(s, 8) + 8, 8)").to_string(), "mod(-s, 8)");
        assert_eq!(dim("floordiv(s, 8)*8 + mod(s, 8)"), dim("s"));
        assert_eq!(dim("t*s - t*mod(s, 4)"), dim("t*floordiv(s, 4)*4"));
        assert_eq!(dim("mod(s, 8)").to_string(), "mod(s, 8)");
    }

    #[test]
    fn quotients_have_no_common_factors_and_no_whole_parts() {
        for (text, form) in [
            ("floordiv(s*6 + 3, 4)", "s + floordiv(s + 1, 2)"),
            ("floordiv(s*9 - 1, 8)", "s + floordiv(s + 7, 8) - 1"),
            ("floordiv(floordiv(s - 1, 2) + 1, 2)", "floordiv(s + 1, 4)"),
            ("floordiv(-s*3 + t, 1)", "-s*3 + t"),
            ("mod(s*9 + 17, 8)", "mod(s + 1, 8)"),
            ("mod(mod(s, 24)*3 + t, 8)", "mod(s*3 + t, 8)"),
        ] {
            assert_eq!(dim(text), dim(form), "{text} is {}", dim(text));
        }
    }

    #[test]
    fn division_leaves_what_no_whole_divisor_is_in() {
        for (a, by, whole, rest) in [
            ("s*6 + 20", "s*5 + 15", "1", "s + 5"),
            ("s*3 + 9", "s + 3", "3", "0"),
            ("t*s*2 + s*4 + t*7 - 3", "s", "t*2 + 4", "t*7 - 3"),
            ("s*8 - 1", "8", "s - 1", "7"),
            ("floordiv(s + 3, 4)*12 + 5", "floordiv(s + 3, 4)*4", "3", "5"),
            ("s", "0", "0", "s"),
            ("7", "s", "0", "7"),
        ] {
            assert_eq!(dim(a).divided(&dim(by)), (dim(whole), dim(rest)), "{a} by {by}");
        }
    }

    /// All small expressions, against the definition of the functions.
    #[test]
    fn normal_forms_keep_every_value() {
        for (a, b, k, inner, by) in (0..4000).map(|i: i64| {
            let pick = |n: i64, of: i64| (i * 7919 / of) % n;
            (pick(19, 1) - 9, pick(11, 3) - 5, pick(41, 5) - 20, pick(9, 7) + 1, pick(12, 11) + 1)
        }) {
            let text = format!("mod(s, {inner})*({b}) + s*({a}) + floordiv(s*({b}), {inner}) + ({k})");
            let value = |s: i64| {
                let f = |f: DimFn, a, b| f.eval(a, b).expect("no zero divisor");
                f(DimFn::Mod, s, inner) * b + s * a + f(DimFn::FloorDiv, s * b, inner) + k
            };
            let operand = dim(&text);
            for function in [DimFn::FloorDiv, DimFn::Mod] {
                let made = Dim::function(function, &operand, &Dim::constant(by));
                assert_eq!(dim(&made.to_string()), made, "{text}");
                for s in -30..30 {
                    assert_eq!(
                        made.eval(&|_| Some(s)).ok(),
                        function.eval(value(s), by),
                        "{function:?} {text} by {by} is {made}"
                    );
                }
            }
        }
    }

    #[test]
    fn quotients_are_solved_for_their_symbol() {
        for (text, value, found) in [
            ("floordiv(s + 63, 64)", 1, Some((1, 64))),
            ("floordiv(s*3 + 1, 4)*2 + 5", 9, Some((3, 3))),
            ("floordiv(s, 2)*2", 3, None),
            ("floordiv(s*t, 2)", 3, None),
            ("s*2", 4, None),
        ] {
            let found = found.map(|(least, greatest)| ("s".to_owned(), least, greatest));
            assert_eq!(dim(text).solve_quotient(value), found, "{text}");
        }
    }

    #[test]
    fn extreme_coefficients_stay_numbers() {
        for text in [
            "floordiv(-s*9223372036854775808, 3)",
            "mod(-s*9223372036854775808, 9223372036854775807)",
            "floordiv(-s - 9223372036854775808, 9223372036854775807)",
        ] {
            assert!(!dim(text).to_string().is_empty());
        }
    }
}
