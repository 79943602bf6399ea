//! Guards: what a match must satisfy besides its form.
//!
//! ```text
//! guard = term ("==" | "!=" | "<" | "<=" | ">" | ">=") term
//! term  = name | "$" variable | number | word | "[" dims "]"
//!       | "dtype(" name ")" | "rank(" name ")" | "shape(" name ")" | "dim(" name "," axis ")" ["%" number]
//! ```
//! A name is a value of the left side: `x != y` says that they are two. A word is a dtype or the text of an attribute.
//! Axes count from the end if they are negative. What is said of extents must hold for every value of their symbols.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use fusewright_graph::dim::DimFn;
use fusewright_graph::text::lexer::{Kind, Token};
use fusewright_graph::text::{Bindings, Cursor, TextError, parse_shape};
use fusewright_graph::{Dim, Graph, TensorType, Value, dim_range};

/// A match, as guards see it.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    graph: &'a Graph,
    values: &'a BTreeMap<&'a str, Value>,
    attrs: &'a Bindings,
}

impl<'a> Found<'a> {
    pub(crate) fn new(graph: &'a Graph, values: &'a BTreeMap<&'a str, Value>, attrs: &'a Bindings) -> Self {
        Found { graph, values, attrs }
    }

    /// The graph in which the pattern was found.
    pub fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// The value that a name of the left side stands for.
    pub fn value(&self, name: &str) -> Option<Value> {
        self.values.get(name).copied()
    }

    /// Type of the value that a name of the left side stands for.
    pub fn ty(&self, name: &str) -> Option<&'a TensorType> {
        self.value(name).map(|value| self.graph.ty(value))
    }

    /// Text of the attribute that `$name` stands for.
    pub fn attr(&self, name: &str) -> Option<&'a str> {
        self.attrs.texts.get(name).map(String::as_str)
    }
}

/// A test in Rust.
pub type Test = dyn Fn(&Found<'_>) -> bool + Send + Sync;

/// One condition.
#[derive(Clone)]
pub enum Guard {
    /// Two terms compared.
    Compare(Term, Relation, Term),
    /// A test in Rust. The name stands for it in reports and keys.
    Code(String, Arc<Test>),
}

/// How two terms must compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// `==`
    Equal,
    /// `!=`
    Different,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

const RELATIONS: [(&str, Relation); 6] = [
    ("==", Relation::Equal),
    ("!=", Relation::Different),
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("<", Relation::Less),
    (">", Relation::Greater),
];

/// One side of a comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Term {
    /// A value of the left side.
    Value(String),
    /// Its element type.
    Dtype(String),
    /// Its number of axes.
    Rank(String),
    /// Its extents.
    Shape(String),
    /// Its extent along an axis, or the remainder of that.
    Extent(String, i64, Option<i64>),
    /// What a variable stands for.
    Attr(String),
    /// A number.
    Number(String),
    /// A dtype, or the text of an attribute.
    Word(String),
    /// Extents.
    Dims(Vec<Dim>),
}

/// What terms may be compared by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Value,
    Text,
    Number,
    Dims,
    /// An attribute is what the other side is.
    Any,
}

impl Term {
    fn sort(&self) -> Sort {
        match self {
            Term::Value(_) => Sort::Value,
            Term::Dtype(_) | Term::Word(_) => Sort::Text,
            Term::Rank(_) | Term::Extent(..) | Term::Number(_) => Sort::Number,
            Term::Shape(_) | Term::Dims(_) => Sort::Dims,
            Term::Attr(_) => Sort::Any,
        }
    }
}

/// What a term is in a match.
enum Quantity {
    Value(Value),
    Text(String),
    Dim(Dim),
    Real(f64),
    Dims(Vec<Dim>),
    Attr(String),
}

impl Guard {
    /// Reads one guard over the names and variables of a left side.
    ///
    /// # Errors
    /// The text is no guard, a name is unknown, or the terms cannot be compared so.
    pub fn parse(
        cursor: &mut Cursor<'_>,
        names: &BTreeSet<&str>,
        variables: &BTreeSet<&str>,
    ) -> Result<Guard, TextError> {
        let start = cursor.peek();
        let left = term(cursor, names, variables)?;
        let found = RELATIONS.into_iter().find(|(text, _)| cursor.eat(text));
        let Some((text, relation)) = found else {
            return Err(cursor.expected("`==`, `!=`, `<`, `<=`, `>` or `>=`"));
        };
        let right = term(cursor, names, variables)?;
        let (a, b) = (left.sort(), right.sort());
        let ordered = !matches!(relation, Relation::Equal | Relation::Different);
        let fits = match (a, b) {
            (Sort::Any, other) | (other, Sort::Any) => other != Sort::Value && !(ordered && other == Sort::Dims),
            _ => a == b,
        };
        if !fits || ordered && (a != Sort::Number && a != Sort::Any || b != Sort::Number && b != Sort::Any) {
            return Err(cursor.error_at(&start, format!("`{left} {text} {right}` compares what has no such order")));
        }
        Ok(Guard::Compare(left, relation, right))
    }

    /// Whether a match satisfies it.
    pub fn holds(&self, found: &Found<'_>) -> bool {
        match self {
            Guard::Code(_, test) => test(found),
            Guard::Compare(left, relation, right) => {
                let (Some(left), Some(right)) = (quantity(left, found), quantity(right, found)) else { return false };
                compare(*relation, left, right, found.graph)
            }
        }
    }
}

impl Guard {
    /// Whether it says that two names are one value.
    pub(crate) fn is_of_one_value(&self) -> bool {
        matches!(self, Guard::Compare(Term::Value(a), Relation::Equal, Term::Value(b)) if a != b)
    }

    /// What it looks at in a match, in words.
    pub(crate) fn seen(&self, found: &Found<'_>) -> String {
        let Guard::Compare(left, _, right) = self else { return "what fails it".to_owned() };
        let mut said: Vec<String> = Vec::new();
        for term in [left, right] {
            let words = match term {
                Term::Value(name)
                | Term::Dtype(name)
                | Term::Rank(name)
                | Term::Shape(name)
                | Term::Extent(name, ..) => found.ty(name).map(|ty| format!("`{name}` of {ty}")),
                Term::Attr(name) => found.attr(name).map(|text| format!("${name} = {text}")),
                Term::Number(_) | Term::Word(_) | Term::Dims(_) => None,
            };
            said.extend(words.filter(|words| !said.contains(words)));
        }
        said.join(" and ")
    }
}

impl PartialEq for Guard {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Guard::Compare(a, r, b), Guard::Compare(c, s, d)) => (a, r, b) == (c, s, d),
            (Guard::Code(a, f), Guard::Code(b, g)) => a == b && Arc::ptr_eq(f, g),
            _ => false,
        }
    }
}

impl Eq for Guard {}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Guard::Code(name, _) => f.write_str(name),
            Guard::Compare(left, relation, right) => {
                let text = RELATIONS.into_iter().find(|(_, r)| r == relation).map_or("", |(text, _)| text);
                write!(f, "{left} {text} {right}")
            }
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Value(text) | Term::Number(text) | Term::Word(text) => f.write_str(text),
            Term::Dtype(name) => write!(f, "dtype({name})"),
            Term::Rank(name) => write!(f, "rank({name})"),
            Term::Shape(name) => write!(f, "shape({name})"),
            Term::Extent(name, axis, None) => write!(f, "dim({name}, {axis})"),
            Term::Extent(name, axis, Some(n)) => write!(f, "dim({name}, {axis}) % {n}"),
            Term::Attr(name) => write!(f, "${name}"),
            Term::Dims(dims) => {
                write!(f, "[{}]", dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn term(cursor: &mut Cursor<'_>, names: &BTreeSet<&str>, variables: &BTreeSet<&str>) -> Result<Term, TextError> {
    let token = cursor.peek();
    if cursor.eat("$") {
        let name = cursor.ident("a variable")?;
        return match variables.contains(name.text) {
            true => Ok(Term::Attr(name.text.to_owned())),
            false => Err(cursor.error_at(&name, format!("the left side does not bind `${}` to one value", name.text))),
        };
    }
    if token.is_punct("[") {
        return Ok(Term::Dims(parse_shape(cursor)?));
    }
    if token.is_punct("-") || matches!(token.kind, Kind::Int | Kind::Float) {
        return Ok(Term::Number(cursor.number()?));
    }
    if token.kind != Kind::Ident {
        return Err(cursor.expected("a value, a function of one, `$`, a number, a dtype or `[`"));
    }
    cursor.take();
    if !cursor.eat("(") {
        let text = token.text.to_owned();
        return Ok(if names.contains(token.text) { Term::Value(text) } else { Term::Word(text) });
    }
    let made = function(cursor, &token, names)?;
    cursor.expect(")")?;
    match made {
        Term::Extent(name, axis, _) if cursor.eat("%") => {
            let token = cursor.peek();
            let divisor = cursor.int()?;
            if divisor < 1 {
                return Err(cursor.error_at(&token, "a divisor is at least 1"));
            }
            Ok(Term::Extent(name, axis, Some(divisor)))
        }
        made => Ok(made),
    }
}

/// A function of a value, from behind `(` to before `)`.
fn function(cursor: &mut Cursor<'_>, word: &Token<'_>, names: &BTreeSet<&str>) -> Result<Term, TextError> {
    if !["dtype", "rank", "shape", "dim"].contains(&word.text) {
        let message = format!("unknown function `{}`; there are dtype, rank, shape and dim", word.text);
        return Err(cursor.error_at(word, message));
    }
    let name = cursor.ident("a value of the left side")?;
    if !names.contains(name.text) {
        return Err(cursor.error_at(&name, format!("the left side has no value `{}`", name.text)));
    }
    let value = name.text.to_owned();
    Ok(match word.text {
        "dtype" => Term::Dtype(value),
        "rank" => Term::Rank(value),
        "shape" => Term::Shape(value),
        _ => {
            cursor.expect(",")?;
            Term::Extent(value, cursor.int()?, None)
        }
    })
}

fn quantity(term: &Term, found: &Found<'_>) -> Option<Quantity> {
    Some(match term {
        Term::Value(name) => Quantity::Value(found.value(name)?),
        Term::Dtype(name) => Quantity::Text(found.ty(name)?.dtype.to_string()),
        Term::Rank(name) => Quantity::Dim(Dim::constant(found.ty(name)?.rank() as i64)),
        Term::Shape(name) => Quantity::Dims(found.ty(name)?.shape.clone()),
        Term::Extent(name, axis, modulus) => {
            let shape = &found.ty(name)?.shape;
            let place = if *axis < 0 { axis.checked_add(shape.len() as i64)? } else { *axis };
            let extent = shape.get(usize::try_from(place).ok()?)?;
            Quantity::Dim(match modulus.map(Dim::constant) {
                None => extent.clone(),
                Some(n) if extent.exact_div(&n).is_some() => Dim::constant(0),
                Some(n) => Dim::function(DimFn::Mod, extent, &n),
            })
        }
        Term::Attr(name) => Quantity::Attr(found.attr(name)?.to_owned()),
        Term::Number(text) => number(text)?,
        Term::Word(text) => Quantity::Text(text.clone()),
        Term::Dims(dims) => Quantity::Dims(dims.clone()),
    })
}

fn number(text: &str) -> Option<Quantity> {
    match text.parse::<i64>() {
        Ok(value) => Some(Quantity::Dim(Dim::constant(value))),
        Err(_) => text.parse::<f64>().ok().map(Quantity::Real).or_else(|| text.parse().ok().map(Quantity::Dim)),
    }
}

fn dims(text: &str) -> Option<Vec<Dim>> {
    parse_shape(&mut Cursor::new(text).ok()?).ok()
}

fn compare(relation: Relation, left: Quantity, right: Quantity, graph: &Graph) -> bool {
    use Quantity::{Attr, Dim as Extent, Dims, Real, Text, Value};
    let same = |equal: bool| match relation {
        Relation::Equal => equal,
        Relation::Different => !equal,
        _ => false,
    };
    match (left, right) {
        (Value(a), Value(b)) => same(a == b),
        (Text(a), Text(b) | Attr(b)) | (Attr(a), Text(b)) => same(a == b),
        (Dims(a), Dims(b)) => same(a == b),
        (Attr(a), Dims(b)) | (Dims(b), Attr(a)) => dims(&a).is_some_and(|a| same(a == b)),
        (Attr(a), Attr(b)) => match (number(&a), number(&b)) {
            (Some(a), Some(b)) => compare(relation, a, b, graph),
            _ => same(a == b),
        },
        (Attr(a), other) => number(&a).is_some_and(|a| compare(relation, a, other, graph)),
        (other, Attr(b)) => number(&b).is_some_and(|b| compare(relation, other, b, graph)),
        (Extent(a), Extent(b)) => extents(relation, &a, &b, graph),
        (Real(a), Real(b)) => reals(relation, a, b),
        (Extent(a), Real(b)) => a.as_const().is_some_and(|a| reals(relation, a as f64, b)),
        (Real(a), Extent(b)) => b.as_const().is_some_and(|b| reals(relation, a, b as f64)),
        _ => false,
    }
}

fn reals(relation: Relation, a: f64, b: f64) -> bool {
    match relation {
        Relation::Equal => a == b,
        Relation::Different => a != b,
        Relation::Less => a < b,
        Relation::AtMost => a <= b,
        Relation::Greater => a > b,
        Relation::AtLeast => a >= b,
    }
}

/// Whether the relation holds for every value of the symbols.
fn extents(relation: Relation, a: &Dim, b: &Dim, graph: &Graph) -> bool {
    let difference = a - b;
    let Some((least, most)) = dim_range(&difference, graph.symbols()) else { return false };
    match relation {
        Relation::Equal => least == 0 && most == 0,
        Relation::Different => least > 0 || most < 0,
        Relation::Less => most < 0,
        Relation::AtMost => most <= 0,
        Relation::Greater => least > 0,
        Relation::AtLeast => least >= 0,
    }
}
