//! Places that are computed: in which stretch of a tensor they lie, in every period if there is one, and of which value
//! they are a function that is nowhere the same.
//!
//! Two writes into one tensor are in no order where no place of one is a place of the other, and the rows of one write
//! are in none where no two have the same place. A place that is negative is not written, so that
//! `inside ? place : −1` is known by what holds inside. Whoever computes the places, a graph or a kernel, says how.

use fusewright_graph::{Builder, DType, Dim, Graph, Literal, Op, Prim, ScalarFn, Value};

/// Values of which it is known how they are computed.
pub trait Scalars {
    /// What stands for a value.
    type Value: Copy + PartialEq;

    /// The function of 64-bit integers and conditions that makes a value, and its operands.
    fn function(&self, value: Self::Value) -> Option<(ScalarFn, Vec<Self::Value>)>;

    /// An integer that is known, or a size.
    fn number(&self, value: Self::Value) -> Option<Dim>;
}

/// A stretch of places, in every period if there is one, from `begin` to before `end`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The distance from a stretch to the next.
    pub period: Option<Dim>,
    /// The first place.
    pub begin: Dim,
    /// The place behind the last.
    pub end: Dim,
}

/// Places as a sum; those that are written are not negative.
#[derive(Clone, Debug)]
pub struct Places<V> {
    terms: Vec<Term<V>>,
}

/// A multiple of a value.
#[derive(Clone, Debug)]
struct Term<V> {
    factor: Dim,
    of: Part<V>,
    /// The least and the greatest value, where both are known.
    range: Option<(Dim, Dim)>,
}

/// What a term is a multiple of.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Part<V> {
    One,
    Whole(V),
    Quotient(V, Dim),
    Remainder(V, Dim),
}

/// A function of one value of which no two values, negative ones apart, give the same place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distinct<V> {
    /// The value.
    pub of: V,
    /// What it is multiplied by, or the quotient of it by a length, to which the remainder is added.
    factor: Dim,
    length: Option<Dim>,
    offset: Dim,
}

impl<V: Copy + PartialEq> Places<V> {
    /// The places that a value is, by what is known of it.
    pub fn of(scalars: &impl Scalars<Value = V>, value: V) -> Places<V> {
        let mut facts = Vec::new();
        let moved = match written(scalars, value) {
            Some((inside, moved)) => {
                state(scalars, inside, &mut facts);
                moved
            }
            None => value,
        };
        let mut terms = Vec::new();
        add(scalars, &facts, (moved, Dim::constant(1)), &mut terms);
        Places { terms }
    }

    /// Whether none of the places lies in a stretch.
    pub fn avoid(&self, stretch: &Stretch) -> bool {
        self.within(stretch.period.as_ref()).is_some_and(|own| are_apart(&own, stretch))
    }

    /// Whether none of the places is one of others.
    pub fn are_apart<W: Copy + PartialEq>(&self, others: &Places<W>) -> bool {
        let factors = self.terms.iter().filter(|term| term.of != Part::One).map(|term| Some(&term.factor));
        [None].into_iter().chain(factors).any(|period| {
            let both = self.within(period).zip(others.within(period));
            both.is_some_and(|(own, other)| are_apart(&own, &other))
        })
    }

    /// The stretch of all places, within each period.
    fn within(&self, period: Option<&Dim>) -> Option<Stretch> {
        let repeats = |term: &&Term<V>| period.is_none_or(|period| term.factor.exact_div(period).is_none());
        let (mut least, mut most) = (Dim::constant(0), Dim::constant(0));
        for Term { factor, range, .. } in self.terms.iter().filter(repeats) {
            let (low, high) = range.as_ref()?;
            is_never_negative(factor).then_some(())?;
            (least, most) = (&least + &(factor * low), &most + &(factor * high));
        }
        let end = &most + &Dim::constant(1);
        let fits = period.is_none_or(|period| is_never_negative(&least) && is_never_negative(&(period - &end)));
        fits.then(|| Stretch { period: period.cloned(), begin: least, end })
    }

    /// The value of which the places are a function that is nowhere the same, if they are.
    pub fn distinct(&self) -> Option<Distinct<V>> {
        let mut offset = Dim::constant(0);
        let mut parts: Vec<&Term<V>> = Vec::new();
        for term in &self.terms {
            match (&term.of, &term.range) {
                (Part::One, _) => offset = &offset + &term.factor,
                _ => parts.push(term),
            }
        }
        let (of, factor, length) = match parts.as_slice() {
            [Term { factor, of: Part::Whole(value), range }] if factor.as_const().is_some_and(|n| n > 0) => {
                // A negative value must not be moved to a place.
                let stays = offset.as_const().is_some_and(|n| n <= 0);
                let none = || range.as_ref().is_some_and(|(least, _)| is_never_negative(least));
                (stays || none()).then_some(())?;
                (*value, factor.clone(), None)
            }
            [a, b] => {
                let (outer, inner) = if matches!(a.of, Part::Quotient(..)) { (*a, *b) } else { (*b, *a) };
                let (Part::Quotient(value, length), Part::Remainder(same, other)) = (&outer.of, &inner.of) else {
                    return None;
                };
                let alike = value == same && length == other && outer.range.is_some() && inner.range.is_some();
                let fits = inner.factor.as_const() == Some(1) && is_never_negative(&(&outer.factor - length));
                (alike && fits).then_some(())?;
                (*value, outer.factor.clone(), Some(length.clone()))
            }
            _ => return None,
        };
        Some(Distinct { of, factor, length, offset })
    }
}

impl<V> Distinct<V> {
    /// The same function of what another name stands for.
    pub fn named<W>(self, of: W) -> Distinct<W> {
        let Distinct { factor, length, offset, .. } = self;
        Distinct { of, factor, length, offset }
    }
}

/// Whether two stretches of the same period share no place.
fn are_apart(a: &Stretch, b: &Stretch) -> bool {
    a.period == b.period && (is_never_negative(&(&b.begin - &a.end)) || is_never_negative(&(&a.begin - &b.end)))
}

/// Whether a number of elements is at least 0 whatever the sizes are that it is a sum of products of.
fn is_never_negative(dim: &Dim) -> bool {
    dim.as_polynomial().is_some_and(|terms| terms.iter().all(|(factor, _)| *factor >= 0))
}

/// Of places that are negative unless something holds, that, and what they are then.
fn written<S: Scalars>(scalars: &S, places: S::Value) -> Option<(S::Value, S::Value)> {
    let (ScalarFn::Select, operands) = scalars.function(places)? else { return None };
    let &[inside, moved, other] = operands.as_slice() else { return None };
    scalars.number(other)?.as_const().is_some_and(|n| n < 0).then_some((inside, moved))
}

/// What a condition states: the least value, or the greatest one.
#[derive(Clone)]
struct Fact<V> {
    of: V,
    least: Option<Dim>,
    most: Option<Dim>,
}

fn state<S: Scalars>(scalars: &S, condition: S::Value, facts: &mut Vec<Fact<S::Value>>) {
    let Some((f, operands)) = scalars.function(condition) else { return };
    let &[a, b] = operands.as_slice() else { return };
    let (of, number, f) = match (f, scalars.number(a), scalars.number(b)) {
        (ScalarFn::And, ..) => {
            state(scalars, a, facts);
            return state(scalars, b, facts);
        }
        (f, None, Some(number)) => (a, number, f),
        (ScalarFn::Ge, Some(number), None) => (b, number, ScalarFn::Le),
        (ScalarFn::Le, Some(number), None) => (b, number, ScalarFn::Ge),
        (ScalarFn::Gt, Some(number), None) => (b, number, ScalarFn::Lt),
        (ScalarFn::Lt, Some(number), None) => (b, number, ScalarFn::Gt),
        _ => return,
    };
    let one = Dim::constant(1);
    let (least, most) = match f {
        ScalarFn::Ge => (Some(number), None),
        ScalarFn::Gt => (Some(&number + &one), None),
        ScalarFn::Le => (None, Some(number)),
        ScalarFn::Lt => (None, Some(&number - &one)),
        _ => return,
    };
    facts.push(Fact { of, least, most });
}

fn least<V: Copy + PartialEq>(facts: &[Fact<V>], of: V) -> Option<&Dim> {
    facts.iter().filter(|fact| fact.of == of).find_map(|fact| fact.least.as_ref())
}

fn most<V: Copy + PartialEq>(facts: &[Fact<V>], of: V) -> Option<&Dim> {
    facts.iter().filter(|fact| fact.of == of).find_map(|fact| fact.most.as_ref())
}

/// Adds the terms of a multiple of a value.
fn add<S: Scalars>(
    scalars: &S,
    facts: &[Fact<S::Value>],
    (value, factor): (S::Value, Dim),
    terms: &mut Vec<Term<S::Value>>,
) {
    let one = Dim::constant(1);
    if let Some(number) = scalars.number(value) {
        let range = Some((one.clone(), one));
        return terms.push(Term { factor: &factor * &number, of: Part::One, range });
    }
    if let Some((inside, moved)) = written(scalars, value)
        && least(facts, value).is_some_and(is_never_negative)
    {
        // What is stated last is narrower, and looked at first.
        let mut known = Vec::new();
        state(scalars, inside, &mut known);
        let own = facts.iter().filter(|fact| fact.of == value).cloned();
        known.extend(own.map(|fact| Fact { of: moved, ..fact }));
        known.extend_from_slice(facts);
        return add(scalars, &known, (moved, factor), terms);
    }
    let whole_range = || least(facts, value).cloned().zip(most(facts, value).cloned());
    let whole = || Term { factor: factor.clone(), of: Part::Whole(value), range: whole_range() };
    let made = scalars.function(value).and_then(|(f, operands)| Some((f, <[S::Value; 2]>::try_from(operands).ok()?)));
    let known = |v: S::Value| scalars.number(v);
    match made {
        // What is bounded itself is known better than what it is computed of.
        _ if whole_range().is_some() => terms.push(whole()),
        Some((ScalarFn::Add, [a, b])) => {
            add(scalars, facts, (a, factor.clone()), terms);
            add(scalars, facts, (b, factor), terms);
        }
        Some((ScalarFn::Mul, [a, b])) => match (known(a), known(b)) {
            (_, Some(number)) => add(scalars, facts, (a, &factor * &number), terms),
            (Some(number), _) => add(scalars, facts, (b, &factor * &number), terms),
            _ => terms.push(whole()),
        },
        Some((f @ (ScalarFn::Div | ScalarFn::Rem), [a, b])) => {
            let from_zero = least(facts, a).is_some_and(is_never_negative);
            match known(b).filter(|_| from_zero) {
                Some(length) => terms.push(divided(facts, (f, a, length), factor)),
                None => terms.push(whole()),
            }
        }
        _ => terms.push(whole()),
    }
}

/// A quotient or a remainder of what is not negative.
fn divided<V: Copy + PartialEq>(facts: &[Fact<V>], (f, of, length): (ScalarFn, V, Dim), factor: Dim) -> Term<V> {
    let (zero, one) = (Dim::constant(0), Dim::constant(1));
    if f == ScalarFn::Rem {
        let range = Some((zero, &length - &one));
        return Term { factor, of: Part::Remainder(of, length), range };
    }
    let count = most(facts, of).and_then(|most| (most + &one).exact_div(&length));
    let range = count.map(|count| (zero, &count - &one));
    Term { factor, of: Part::Quotient(of, length), range }
}

/// What an op is as a function of integers and conditions.
fn function(op: &Op, dtype: DType) -> Option<ScalarFn> {
    match op {
        Op::Prim(Prim::Map(f)) if [DType::I64, DType::Bool].contains(&dtype) => Some(*f),
        _ => None,
    }
}

/// The number that an op is.
fn number(op: &Op) -> Option<Dim> {
    match op {
        Op::Prim(Prim::Literal(Literal::Int(_, n))) => Some(Dim::constant(*n)),
        Op::Prim(Prim::SizeOf(dim)) => Some(dim.clone()),
        _ => None,
    }
}

/// Whether an op repeats its operand in another shape.
fn repeats(op: &Op) -> bool {
    matches!(op, Op::Prim(Prim::Reshape { .. } | Prim::Expand { .. }))
}

impl Scalars for Graph {
    type Value = Value;

    fn function(&self, value: Value) -> Option<(ScalarFn, Vec<Value>)> {
        let node = self.def_node(value)?;
        Some((function(&node.op, self.ty(value).dtype)?, node.operands.clone()))
    }

    fn number(&self, mut value: Value) -> Option<Dim> {
        loop {
            let node = self.def_node(value)?;
            if !repeats(&node.op) {
                return number(&node.op);
            }
            value = node.operands[0];
        }
    }
}

impl Scalars for Builder {
    type Value = Value;

    fn function(&self, value: Value) -> Option<(ScalarFn, Vec<Value>)> {
        let (op, operands) = self.definition(value)?;
        Some((function(&op, self.dtype(value))?, operands))
    }

    fn number(&self, mut value: Value) -> Option<Dim> {
        loop {
            let (op, operands) = self.definition(value)?;
            if !repeats(&op) {
                return number(&op);
            }
            value = operands[0];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places `p` of a graph of places `i` and `j`, and of conditions on `i`.
    fn places(text: &str) -> Places<Value> {
        let text = format!(
            "graph @g(s: 1..64, b: 1..8; %i: i64[s], %j: i64[s]) {{
               %zero = literal i64 0
               %four = literal i64 4
               %eight = literal i64 8
               %n = size_of {{dim = 4*b}}
               %none = literal i64 -1
               %least = ge %i, %zero
               %below = lt %i, %n
               %in = and %least, %below
               {text}
               return %p
             }}"
        );
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        Places::of(&graph, graph.outputs()[0].value)
    }

    fn stretch(text: &str, period: Option<Dim>) -> Option<(Dim, Dim)> {
        places(text).within(period.as_ref()).map(|found| (found.begin, found.end))
    }

    #[test]
    fn places_are_bounded_by_what_holds_where_they_are_written() {
        let [zero, four, eight] = [0, 4, 8].map(Dim::constant);
        let sized = &four * &Dim::symbol("b");
        let plain = "%p = select %in, %i, %none";
        assert_eq!(stretch(plain, None), Some((zero.clone(), sized.clone())));
        assert_eq!(
            stretch("%m = add %n, %i\n %p = select %in, %m, %none", None),
            Some((sized.clone(), &sized + &sized))
        );
        // Conditions the other way round, and bounds that are included.
        let turned = "%a = le %zero, %i\n %c = le %i, %four\n %d = and %a, %c\n %p = select %d, %i, %none";
        assert_eq!(stretch(turned, None), Some((zero.clone(), Dim::constant(5))));
        let beside = "%a = lt %zero, %i\n %c = gt %four, %i\n %d = and %c, %a\n %p = select %d, %i, %none";
        assert_eq!(stretch(beside, None), Some((Dim::constant(1), four.clone())));
        for unknown in [
            "%p = select %in, %i, %zero",
            "%p = select %in, %j, %none",
            "%p = select %below, %i, %none",
            "%p = select %least, %i, %none",
            "%d = or %least, %below\n %p = select %d, %i, %none",
            "%p = add %i, %four",
        ] {
            assert_eq!(stretch(unknown, None), None, "{unknown}");
        }
        // What is moved is itself negative unless something holds.
        let again = "%q = select %least, %i, %none\n %a = ge %q, %zero\n %c = lt %q, %four\n %d = and %a, %c\n
                     %m = add %q, %four\n %p = select %d, %m, %none";
        assert_eq!(stretch(again, None), Some((four.clone(), eight.clone())));
        assert_eq!(places(again).distinct(), places("%m = add %i, %four\n %p = select %in, %m, %none").distinct());
        let narrower = "%e = lt %i, %four\n %f = and %least, %e\n %q = select %f, %i, %none\n %a = ge %q, %zero\n
                        %c = lt %q, %eight\n %d = and %a, %c\n %m = add %q, %four\n %p = select %d, %m, %none";
        assert_eq!(stretch(narrower, None), Some((four.clone(), eight.clone())));
        // In every period of eight, the first or the last four.
        let halves = "%d = div %i, %four\n %r = rem %i, %four\n %e = mul %d, %eight\n %f = add %e, %r";
        let first = format!("{halves}\n %p = select %in, %f, %none");
        let last = format!("{halves}\n %m = add %f, %four\n %p = select %in, %m, %none");
        let behind = format!("{halves}\n %m = add %f, %eight\n %p = select %in, %m, %none");
        assert_eq!(stretch(&first, Some(eight.clone())), Some((zero.clone(), four.clone())));
        assert_eq!(stretch(&last, Some(eight.clone())), Some((four.clone(), eight.clone())));
        assert_eq!(stretch(&behind, Some(eight.clone())), Some((zero.clone(), four.clone())), "a whole period");
        assert_eq!(stretch(&last, Some(four.clone())), Some((zero.clone(), four.clone())), "all of a smaller period");
        assert_eq!(stretch(plain, Some(four.clone())), None, "as many as there are");
        assert!(places(&first).are_apart(&places(&last)) && !places(&first).are_apart(&places(&behind)));
        let part = |begin: i64, end: i64| Stretch { period: Some(eight.clone()), begin: begin.into(), end: end.into() };
        assert!(places(&first).avoid(&part(4, 8)) && !places(&first).avoid(&part(3, 8)));
    }

    #[test]
    fn places_differ_where_what_they_are_computed_of_does() {
        let distinct = |text: &str| places(text).distinct();
        let inside = |moved: &str| format!("{moved}\n %p = select %in, %m, %none");
        assert!(distinct("%p = select %in, %i, %none").is_some());
        assert!(distinct(&inside("%m = add %i, %n")).is_some());
        assert!(distinct(&inside("%m = mul %i, %four")).is_some());
        let divided = |by: &str, times: &str| {
            format!("%d = div %i, %{by}\n %r = rem %i, %{by}\n %e = mul %d, %{times}\n %m = add %r, %e")
        };
        assert!(distinct(&inside(&divided("four", "eight"))).is_some());
        assert!(distinct(&inside(&divided("four", "four"))).is_some());
        assert_eq!(distinct(&inside(&divided("eight", "four"))), None, "stretches that overlap");
        assert_eq!(distinct(&inside("%m = rem %i, %four")), None);
        assert_eq!(distinct(&inside("%m = add %i, %j")), None);
        assert_eq!(distinct(&inside("%m = add %i, %i")), None);
        assert_eq!(distinct(&inside("%m = mul %i, %zero")), None);
        // Of what is negative, a place.
        assert_eq!(distinct("%p = add %i, %four"), None);
        assert!(distinct("%p = add %i, %none").is_some());
    }
}
