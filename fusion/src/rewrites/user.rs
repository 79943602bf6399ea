//! Patterns of users: rewrites from a text, checked before they are used.
//!
//! ```text
//! patterns = {pattern}
//! pattern  = ("exact" | "fast") name ":" fragment "=>" fragment ["where" guard {"," guard}] {"sample" given} [";"]
//! given    = name ":" type {"," name ":" type} {"," "$" variable "=" text}
//! ```
//! Fragments are those of the tables, but may yield several values. Guards are in `guard.rs`. A pattern is evaluated on
//! operands of many types; where none of them fit its left side, `sample` gives some that do.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use fusewright_graph::text::lexer::Kind;
use fusewright_graph::text::{
    AttrPattern, Cursor, Rest, Rule, RuleNode, RuleOp, TextError, parse_fragment_at, parse_shape, parse_type,
};
use fusewright_graph::{Graph, TypeError};

use super::guard::{Found, Guard};
use super::theorem::{Effort, Sample, check, lefts, why_untried};
use super::{Class, Rewrite, sides};
use crate::passes::patterns;

/// Most nodes of a left side.
const MOST_NODES: usize = 64;
/// How much of a pattern is evaluated.
const EFFORT: Effort = Effort { choices: 512, instances: 4096 };

/// A pattern of a user and its replacement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserPattern {
    pub(crate) rewrite: Rewrite,
    pub(crate) guards: Vec<Guard>,
    samples: Vec<Sample>,
    /// Where its name stands; the message is empty.
    place: TextError,
}

/// Patterns in the order in which they apply. A copy shares them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct UserPatterns(Arc<Vec<UserPattern>>);

impl UserPattern {
    /// Reads one pattern; it is checked when it is added to [`UserPatterns`].
    ///
    /// # Errors
    /// The text is not one pattern, or its sides do not fit each other.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let mut cursor = Cursor::new(text)?;
        let pattern = pattern(&mut cursor)?;
        cursor.expect_end()?;
        Ok(pattern)
    }

    /// The pattern with one more guard: a test in Rust. The name stands for the test in reports and in keys, so another
    /// test needs another name.
    #[must_use]
    pub fn guard(mut self, name: &str, test: impl Fn(&Found<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.guards.push(Guard::Code(name.to_owned(), Arc::new(test)));
        self
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.rewrite.name
    }

    /// What it keeps.
    pub fn class(&self) -> Class {
        self.rewrite.class
    }

    fn error(&self, message: impl fmt::Display) -> TextError {
        TextError { message: format!("pattern `{}`: {message}", self.name()), ..self.place.clone() }
    }

    /// Why it applies to no operands that are tried: the types of its right side, one of its guards, or all of them.
    fn kept_from_operands(&self) -> String {
        let tried = lefts(&self.rewrite, &self.samples, EFFORT);
        let with = |guards: &[Guard]| UserPattern { guards: guards.to_vec(), ..self.clone() };
        let applies = |guards: &[Guard]| {
            let pattern = with(guards);
            tried.iter().any(|graph| matches!(patterns::once(graph, &pattern), Ok(Some(_))))
        };
        if !applies(&[]) {
            let bare = with(&[]);
            let miss = tried.first().map(|graph| patterns::nearest_miss(graph, &bare));
            let miss =
                miss.map_or_else(String::new, |near| format!(": expected {}, found {}", near.expected, near.found));
            return format!("its sides fit each other on no operands that are tried{miss}");
        }
        match self.guards.iter().find(|guard| !applies(std::slice::from_ref(guard))) {
            Some(guard) if guard.is_of_one_value() => format!(
                "`{guard}` makes one value of two, and what is tried has a value for each; use one name for both"
            ),
            Some(guard) => format!("`{guard}` holds of no operands that are tried"),
            None => "its guards hold together of no operands that are tried".to_owned(),
        }
    }

    /// Whether both sides are equal wherever the pattern applies, as far as evaluating them shows.
    fn check(&self) -> Result<(), TextError> {
        let open = |node: &&RuleNode| matches!(&node.op, RuleOp::Pattern { rest: Rest::Any, .. });
        if let Some(node) = self.rewrite.rhs.nodes.iter().find(open) {
            let results = node.results.join(", ");
            let why = "stands for no attributes in particular; name them, or all of them on both sides as in `{$rest}`";
            return Err(self.error(format!("`..` in what makes `{results}` on the right side {why}")));
        }
        let apply = |graph: &Graph| -> Result<Option<Graph>, TypeError> { patterns::once(graph, self) };
        let verdict = check(&self.rewrite, &self.samples, EFFORT, &apply);
        if let Some(failure) = verdict.failure {
            let kept = if self.class() == Class::Exact { "the sides are not equal" } else { "the sides are not close" };
            return Err(self.error(format!("{kept}: {}", failure.trim_end())));
        }
        if let Some(why) = verdict.uncompared() {
            let hint = match verdict.dtypes.as_slice() {
                [_] => "",
                _ => "\nit may hold at other dtypes alone, as in `(x: f32)`",
            };
            return Err(self.error(format!("it cannot be checked, since {}{hint}", why.trim_end())));
        }
        if verdict.evaluated > 0 {
            return Ok(());
        }
        let hint = "give types of its parameters with `sample x: f32[4, 64], …`";
        Err(self.error(if verdict.built.is_empty() {
            format!("it cannot be checked, since no types that are tried fit its left side; {hint}")
        } else if verdict.instances == 0 {
            format!(
                "it cannot be checked, since {}; {hint}, and values of attributes that guards test, as in `$e = 1e-6`",
                self.kept_from_operands()
            )
        } else {
            format!("it cannot be checked, since its left side has no value on operands that are tried; {hint}")
        }))
    }
}

impl fmt::Display for UserPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {} => {}", self.class(), self.name(), self.rewrite.lhs, self.rewrite.rhs)?;
        for (i, guard) in self.guards.iter().enumerate() {
            write!(f, "{}{guard}", if i == 0 { " where " } else { ", " })?;
        }
        Ok(())
    }
}

impl UserPatterns {
    /// The patterns of a text.
    ///
    /// # Errors
    /// A pattern that is not in the form, or does not hold; line, column and what was expected.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let mut cursor = Cursor::new(text)?;
        let mut patterns = UserPatterns::default();
        while !cursor.at_end() {
            patterns.add(pattern(&mut cursor)?)?;
        }
        Ok(patterns)
    }

    /// Adds a pattern, once both of its sides give the same on operands of many types.
    ///
    /// # Errors
    /// A name that is there already, or a pattern that does not hold; the message has the operands that show it.
    pub fn add(&mut self, pattern: UserPattern) -> Result<(), TextError> {
        if self.iter().any(|other| other.name() == pattern.name()) {
            return Err(pattern.error("the name is taken"));
        }
        pattern.check()?;
        Arc::make_mut(&mut self.0).push(pattern);
        Ok(())
    }

    /// The patterns in order.
    pub fn iter(&self) -> std::slice::Iter<'_, UserPattern> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> IntoIterator for &'a UserPatterns {
    type Item = &'a UserPattern;
    type IntoIter = std::slice::Iter<'a, UserPattern>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

fn pattern(cursor: &mut Cursor<'_>) -> Result<UserPattern, TextError> {
    let class = match (cursor.eat_word("exact"), cursor.peek().is_word("fast")) {
        (true, _) => Class::Exact,
        (false, true) => {
            cursor.take();
            Class::Fast
        }
        (false, false) => return Err(cursor.expected("`exact` or `fast`")),
    };
    let name = cursor.ident("the name of the pattern")?;
    cursor.expect(":")?;
    let lhs = parse_fragment_at(cursor)?;
    cursor.expect("=>")?;
    let rhs = parse_fragment_at(cursor)?;
    let rewrite = Rewrite { name: name.text.to_owned(), class, doc: String::new(), lhs, rhs };
    let place = cursor.error_at(&name, "");
    let mut made = UserPattern { rewrite, guards: Vec::new(), samples: Vec::new(), place };
    if let Some(message) = wrong(&made.rewrite.lhs, &made.rewrite.rhs) {
        return Err(made.error(message));
    }
    if cursor.eat_word("where") {
        made.guards = guards(cursor, &made.rewrite.lhs)?;
    }
    while cursor.eat_word("sample") {
        let sample = sample(cursor, &made.rewrite.lhs)?;
        made.samples.push(sample);
    }
    if !cursor.eat(";") && !cursor.at_end() && !cursor.peek().is_word("exact") && !cursor.peek().is_word("fast") {
        return Err(cursor.expected("`where`, `sample`, `;`, `exact`, `fast` or the end of the text"));
    }
    Ok(made)
}

fn guards(cursor: &mut Cursor<'_>, lhs: &Rule) -> Result<Vec<Guard>, TextError> {
    let results = lhs.nodes.iter().filter(|n| !matches!(n.op, RuleOp::Constant(_))).flat_map(|n| &n.results);
    let names: BTreeSet<&str> = lhs.params.iter().map(|p| &p.name).chain(results).map(String::as_str).collect();
    let bound: BTreeSet<&str> = lhs.nodes.iter().flat_map(|n| single(&n.op)).collect();
    let mut all = Vec::new();
    loop {
        all.push(Guard::parse(cursor, &names, &bound)?);
        if !cursor.eat(",") {
            return Ok(all);
        }
    }
}

fn sample(cursor: &mut Cursor<'_>, lhs: &Rule) -> Result<Sample, TextError> {
    let mut sample = Sample::default();
    for (i, param) in lhs.params.iter().enumerate() {
        if i > 0 {
            cursor.expect(",")?;
        }
        cursor.expect_word(&param.name)?;
        cursor.expect(":")?;
        let token = cursor.peek();
        let ty = parse_type(cursor)?;
        if !param.admits(ty.dtype) {
            return Err(cursor.error_at(&token, format!("`{}` does not admit {}", param.name, ty.dtype)));
        }
        if let Some(why) = why_untried(&ty) {
            return Err(cursor.error_at(&token, format!("no sample of `{}`: {why}", param.name)));
        }
        sample.types.push(ty);
    }
    while cursor.eat(",") {
        cursor.expect("$")?;
        let name = cursor.ident("a variable")?;
        if !lhs.nodes.iter().flat_map(|n| single(&n.op)).any(|v| v == name.text) {
            return Err(cursor.error_at(&name, format!("the left side does not bind `${}` to one value", name.text)));
        }
        cursor.expect("=")?;
        sample.texts.insert(name.text.to_owned(), attribute(cursor)?);
    }
    Ok(sample)
}

/// The text of an attribute: a list, a number or a word.
fn attribute(cursor: &mut Cursor<'_>) -> Result<String, TextError> {
    let start = cursor.peek();
    if start.is_punct("[") {
        parse_shape(cursor)?;
    } else if start.kind == Kind::Ident {
        cursor.take();
    } else {
        cursor.number()?;
    }
    Ok(cursor.source()[start.start..cursor.previous().end].to_owned())
}

/// The variables that stand for the value of one attribute.
fn single(op: &RuleOp) -> impl Iterator<Item = &str> {
    let attrs = if let RuleOp::Pattern { attrs, .. } = op { attrs.as_slice() } else { &[] };
    attrs.iter().filter_map(|(_, pattern)| match pattern {
        AttrPattern::Variable(v) => Some(v.as_str()),
        AttrPattern::Text(_) => None,
    })
}

/// What is wrong with a pair of sides, if anything.
fn wrong(lhs: &Rule, rhs: &Rule) -> Option<String> {
    if let Some(message) = sides(lhs, rhs) {
        return Some(message);
    }
    if lhs.yields.len() != rhs.yields.len() {
        return Some(format!("the left side yields {} values, the right one {}", lhs.yields.len(), rhs.yields.len()));
    }
    if lhs.nodes.len() > MOST_NODES {
        return Some(format!("the left side has {} nodes, more than {MOST_NODES}", lhs.nodes.len()));
    }
    let computed =
        |name: &String| lhs.nodes.iter().any(|n| n.results.contains(name) && !matches!(n.op, RuleOp::Constant(_)));
    if let Some(name) = lhs.yields.iter().find(|name| !computed(name)) {
        return Some(format!("the left side yields `{name}`, which it does not compute"));
    }
    let yields: BTreeSet<&String> = lhs.yields.iter().collect();
    if yields.len() != lhs.yields.len() {
        return Some("the left side yields one value twice".to_owned());
    }
    let cones: Vec<BTreeSet<&str>> = patterns::roots(lhs).into_iter().map(|root| cone(lhs, root)).collect();
    let mut joined = cones.first().cloned().unwrap_or_default();
    let mut rest: Vec<_> = cones.into_iter().skip(1).collect();
    while let Some(i) = rest.iter().position(|cone| !cone.is_disjoint(&joined)) {
        joined.extend(rest.remove(i));
    }
    (!rest.is_empty()).then(|| "the left side is several parts that share no value".to_owned())
}

/// The names that a value is computed from, its own among them.
fn cone<'r>(rule: &'r Rule, root: &'r str) -> BTreeSet<&'r str> {
    let mut names = BTreeSet::from([root]);
    for node in rule.nodes.iter().rev() {
        if node.results.iter().any(|r| names.contains(r.as_str())) {
            names.extend(node.results.iter().chain(&node.operands).map(String::as_str));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_samples_are_not_evaluated() {
        let text = "exact p: (x: f32) y = expand x {shape = [4096, 4096, 4096]}; z = neg y; yield z \
             => (x) n = neg x; z = expand n {shape = [4096, 4096, 4096]}; yield z";
        let error = UserPatterns::parse(text).expect_err(text);
        assert!(error.message.contains("has no value on operands that are tried"), "{error}");
    }

    #[test]
    fn a_sample_that_cannot_be_tried_is_an_error_where_it_stands() {
        let parse = |ty: &str| {
            let text = format!(
                "exact p: (x: f32, w: f32) y = neg x; z = neg y; a = add z, w; yield a => (x, w) a = add x, w; yield a\n\
                 sample x: f32[4], w: {ty}"
            );
            UserPatterns::parse(&text)
        };
        for (ty, message) in [
            ("f32[-1]", "no sample of `w`: an extent of -1"),
            ("f32[s - 4]", "no sample of `w`: an extent of s - 4"),
            (
                "f32[99999999999]",
                "no sample of `w`: f32[99999999999] has more elements than the 4194304 that are tried",
            ),
            ("f32[1099511627776, 1099511627776]", "has more elements than the 4194304 that are tried"),
            ("f32[4194305]", "has more elements than the 4194304 that are tried"),
        ] {
            let error = parse(ty).expect_err(ty);
            assert!(error.message.contains(message), "{ty}: {error}");
            assert_eq!((error.line, error.column), (2, 22), "{ty}: {error}");
        }
        for ty in ["f32[4]", "f32[]", "f32[1]"] {
            parse(ty).expect(ty);
        }
    }

    #[test]
    fn what_differs_at_a_constant_alone_is_found() {
        for (params, left, right) in [
            ("x: f32", "y = eq x, 12345.678; yield y", "y = lt x, x; yield y"),
            ("x: bf16 | f16", "y = eq x, 12345.678; yield y", "y = lt x, x; yield y"),
            (
                "x: bf16",
                "a = cast x {to = f32}; y = ge a, 776; yield y",
                "a = cast x {to = f32}; y = gt a, 776; yield y",
            ),
            ("x: f32", "y = lt x, x; yield y", "y = eq x, 4321; yield y"),
        ] {
            let text = format!("exact p: ({params}) {left} => (x) {right}");
            let error = UserPatterns::parse(&text).expect_err(&text);
            assert!(error.message.contains("the sides are not equal"), "{text}: {error}");
        }
        let text = "exact p: (x: i32) y = eq x, 1234567; yield y => (x) y = lt x, x; yield y";
        assert!(UserPatterns::parse(text).expect_err(text).message.contains("x = 1234567 (i32)"));
    }

    #[test]
    fn constants_that_differ_by_less_than_a_rounding_are_told_apart() {
        let scaled = |left: &str, right: &str| {
            let side = |k: &str| format!("w = cast x {{to = f32}}; p = mul w, {k}; y = cast p {{to = bf16}}; yield y");
            UserPatterns::parse(&format!("exact p: (x: bf16) {} => (x) {}", side(left), side(right)))
        };
        assert!(scaled("0.1", "0.1").is_ok());
        let error = scaled("0.1", "0.10000002").expect_err("another factor");
        assert!(error.message.contains("the sides are not equal"), "{error}");
        let eps = |left: &str, right: &str| {
            let side = |eps: &str| format!("y = rms_norm x {{eps = {eps}, round = once}}; yield y");
            UserPatterns::parse(&format!("exact p: (x: bf16) {} => (x) {}", side(left), side(right)))
        };
        assert!(eps("1e-6", "1e-6").is_ok());
        assert!(eps("1e-6", "1.1e-6").is_err());
    }

    #[test]
    fn what_is_never_of_the_normal_range_is_not_compared() {
        let fast = |param: &str, left: &str, right: &str| {
            UserPatterns::parse(&format!("fast p: ({param}) {left}; yield y => (x) {right}"))
        };
        let refused = |param: &str, left: &str, right: &str| {
            let error = fast(param, left, right).expect_err(left);
            assert!(error.message.contains("one side is zero, infinite, NaN"), "{left}: {error}");
        };
        for left in [
            "y = mul x, 0",
            "y = div x, 0",
            "y = mul x, nan",
            "y = mul x, inf",
            "a = mul x, 1e-30; y = mul a, 1e-30",
            "a = mul x, 1e30; y = mul a, 1e30",
            "a = mul x, 0; y = max a, 0",
        ] {
            refused("x: f32", left, "yield x");
        }
        refused("x: f16", "a = mul x, 60000; y = mul a, 60000", "yield x");
        // One of the dtypes, the right side, and half of the elements.
        let back = "a = mul x, 0.0001; b = mul a, 0.0001; c = mul b, 10000; y = mul c, 10000";
        refused("x: f32 | f16", back, "yield x");
        assert!(fast("x: f32", back, "yield x").is_ok());
        refused("x: f32", "y = mul x, 2", "y = mul x, 0; yield y");
        refused("x: f32", "a = mul x, 0; y = cat a, x {axis = 0}", "y = cat x, x {axis = 0}; yield y");
        for (left, right) in [
            ("y = mul x, 0", "a = mul x, 2; y = mul a, 0; yield y"),
            ("a = mul x, 1e30; y = mul a, 1e30", "y = div x, 0; yield y"),
            ("a = mul x, 60000; y = mul a, 60000", "y = mul x, 3600000000; yield y"),
            ("a = mul x, 1e-30; y = mul a, 1e30", "yield x"),
        ] {
            fast("x: f32", left, right).unwrap_or_else(|e| panic!("{e}"));
        }
    }

    #[test]
    fn many_parameters_and_choices_end() {
        let names: Vec<String> = (0..20).map(|i| format!("x{i}")).collect();
        let sums: Vec<String> = (1..20)
            .map(|i| format!("y{i} = add {}, x{i};", if i == 1 { "x0".into() } else { format!("y{}", i - 1) }))
            .collect();
        let (params, sums) = (names.join(", "), sums.join(" "));
        let text = format!("exact p: ({params}) {sums} yield y19 => ({params}) {sums} yield y19");
        UserPatterns::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let casts: Vec<String> = (1..40).map(|i| format!("y{i} = cast y{} {{..}};", i - 1)).collect();
        let text = format!("exact p: (y0: f32) {} yield y39 => (y0) yield y0", casts.join(" "));
        assert!(UserPatterns::parse(&text).is_err());
    }

    #[test]
    fn cut_and_doubled_texts_never_panic() {
        let text = "exact p: (x: f32, w) y = rms_norm x, w {eps = $e, $r}; z = mul y, 2; yield z, y => (x, w) yield x, w \
                    where x != w, dim(x, -1) % 8 == 0, $e <= 1e-5, dtype(y) == f32 sample x: f32[4, 8], w: f32[8], $e = 1";
        let marks = ["", "$", "{", "}", ";", "%", "=> ", "where ", "sample ", "(", "[", "-", "9e999 "];
        for (start, _) in text.char_indices() {
            for end in (start..=text.len()).step_by(3) {
                let mark = marks[(start * 7 + end) % marks.len()];
                if let Ok(pattern) = UserPattern::parse(&format!("{}{mark}{}", &text[..start], &text[end..])) {
                    let printed = pattern.to_string();
                    assert_eq!(UserPattern::parse(&printed).map(|p| p.to_string()), Ok(printed));
                }
            }
        }
    }
}
