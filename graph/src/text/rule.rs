//! Fragments: one side of a rewrite rule, a small graph over operands of any type.
//!
//! ```text
//! fragment  = "(" [param {"," param}] ")" {node} "yield" name {"," name}
//! param     = name [":" class {"|" class}]
//! class     = dtype | "float" | "int"
//! node      = name {"," name} "=" (number | op [operand {"," operand}] ["{" attributes "}"]) ";"
//! operand   = name | number
//! attribute = key ["=" (text | "$" variable)] | ".." ["$" variable] | "$" variable
//! ```
//! A parameter with classes stands for values of these dtypes only; `float` is every float dtype with a sign, `int` every
//! integer dtype, `bool` not among them.
//!
//! `(x) s = 0.5; y = mul x, s; z = reshape y {shape = $t}; yield z`. Names stand without `%`. A number is a constant of
//! whatever dtype its users have. `$t` stands for an attribute's value, `..` for all attributes not named, and `{$a}`
//! or `{.., $a}` gives those a name; a variable that occurs twice must stand for the same text. Attributes that are
//! neither named nor covered by `..` have their defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use fusewright_abi::DType;

use crate::graph::Op;
use crate::ops::{self, OpSpec};
use crate::prim::{Literal, Prim};

use super::cursor::Cursor;
use super::error::TextError;
use super::lexer::{Kind, Token};
use super::literal::{parse_dtype, parse_literal, parse_value};
use super::op::{OpTextError, check_keys, is_op_name, op_attrs, op_from_text, unknown_op};
use super::parse::skip_value;
use super::print::print_op;

/// One side of a rewrite rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Operands from outside.
    pub params: Vec<RuleParam>,
    /// Nodes in order; operands are parameters or results of earlier nodes.
    pub nodes: Vec<RuleNode>,
    /// Names of the values that it stands for.
    pub yields: Vec<String>,
}

/// An operand from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleParam {
    /// Name.
    pub name: String,
    /// Element types it may have, in the order of [`DType::ALL`]; any if empty.
    pub dtypes: Vec<DType>,
}

impl RuleParam {
    /// Whether the parameter may stand for a value of that dtype.
    pub fn admits(&self, dtype: DType) -> bool {
        self.dtypes.is_empty() || self.dtypes.contains(&dtype)
    }
}

/// A named set of dtypes.
type Class = (&'static str, fn(DType) -> bool);

const CLASSES: [Class; 2] = [("float", |d| d.is_float() && !matches!(d, DType::F8E8M0)), ("int", DType::is_int)];

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleNode {
    /// Names of its results.
    pub results: Vec<String>,
    /// What it computes.
    pub op: RuleOp,
    /// Names of its operands.
    pub operands: Vec<String>,
}

/// What a node computes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleOp {
    /// A number, at the dtype of its users; [`RuleOp::constant`] gives the literal.
    Constant(String),
    /// An op without variables.
    Exact(Op),
    /// An op with variables among its attributes.
    Pattern {
        /// Name of the op.
        name: String,
        /// Attributes by key.
        attrs: Vec<(String, AttrPattern)>,
        /// The other attributes.
        rest: Rest,
    },
}

/// What an attribute must be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AttrPattern {
    /// That value.
    Text(String),
    /// Anything; the variable stands for it.
    Variable(String),
}

/// What the attributes that are not named must be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Their defaults.
    Default,
    /// Anything.
    Any,
    /// Anything; the variable stands for all of them.
    Variable(String),
}

/// What the variables of a match stand for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bindings {
    /// Values of single attributes.
    pub texts: BTreeMap<String, String>,
    /// Attributes covered by `..`.
    pub lists: BTreeMap<String, Vec<(String, String)>>,
}

impl RuleOp {
    /// The literal that a constant is at a dtype; `None` if the dtype has no such value or this is no constant.
    pub fn constant(&self, dtype: DType) -> Option<Literal> {
        let RuleOp::Constant(text) = self else { return None };
        let mut cursor = Cursor::new(text).ok()?;
        let literal = parse_value(&mut cursor, dtype).ok()?;
        cursor.at_end().then_some(literal)
    }

    /// Whether an op is of this form. On success the variables are bound; on failure `bindings` is as before.
    pub fn matches(&self, op: &Op, bindings: &mut Bindings) -> bool {
        match (self, op) {
            (RuleOp::Constant(_), Op::Prim(Prim::Literal(literal))) => {
                self.constant(literal.dtype()).as_ref() == Some(literal)
            }
            (RuleOp::Constant(_), _) => false,
            (RuleOp::Exact(exact), _) => exact == op,
            (RuleOp::Pattern { name, attrs, rest }, _) => {
                let found = (op.name() == name).then(|| bind(attrs, rest, op_attrs(op), bindings)).flatten();
                // Building the op from what was bound settles defaults and spellings.
                let matched = found.filter(|bound| match rest {
                    Rest::Any => covers(name, attrs, op, bound),
                    Rest::Default | Rest::Variable(_) => self.instantiate(bound).as_ref() == Ok(op),
                });
                let Some(bound) = matched else { return false };
                *bindings = bound;
                true
            }
        }
    }

    /// The op with its variables replaced.
    ///
    /// # Errors
    /// A constant (its dtype is not known here), a variable without a value, `..` without a variable, or attributes
    /// that do not make an op.
    pub fn instantiate(&self, bindings: &Bindings) -> Result<Op, OpTextError> {
        let fail = |message: String| OpTextError { attribute: None, message };
        match self {
            RuleOp::Constant(text) => Err(fail(format!("the constant {text} has no dtype of its own"))),
            RuleOp::Exact(op) => Ok(op.clone()),
            RuleOp::Pattern { name, attrs, rest } => {
                let mut texts = Vec::new();
                for (key, pattern) in attrs {
                    let text = match pattern {
                        AttrPattern::Text(text) => text,
                        AttrPattern::Variable(v) => {
                            bindings.texts.get(v).ok_or_else(|| fail(format!("`${v}` has no value")))?
                        }
                    };
                    texts.push((key.clone(), text.clone()));
                }
                match rest {
                    Rest::Default => {}
                    Rest::Any => return Err(fail("`..` stands for no attributes in particular".to_owned())),
                    Rest::Variable(v) => {
                        let list = bindings.lists.get(v).ok_or_else(|| fail(format!("`${v}` has no value")))?;
                        texts.extend(list.iter().cloned());
                    }
                }
                op_from_text(name, &texts)
            }
        }
    }
}

/// The bindings extended so that the named attributes are those of the op; `None` if a variable stands for something
/// else already or an attribute is not there.
fn bind(
    attrs: &[(String, AttrPattern)],
    rest: &Rest,
    mut actual: Vec<(String, String)>,
    bindings: &Bindings,
) -> Option<Bindings> {
    let mut bound = bindings.clone();
    for (key, pattern) in attrs {
        let at = actual.iter().position(|(k, _)| k == key);
        let text = at.map(|i| actual.remove(i).1);
        if let AttrPattern::Variable(variable) = pattern {
            let text = text?;
            if *bound.texts.entry(variable.clone()).or_insert_with(|| text.clone()) != text {
                return None;
            }
        }
    }
    if let Rest::Variable(variable) = rest
        && *bound.lists.entry(variable.clone()).or_insert_with(|| actual.clone()) != actual
    {
        return None;
    }
    Some(bound)
}

/// Whether the op stays the same when the named attributes are replaced by what the pattern says.
fn covers(name: &str, attrs: &[(String, AttrPattern)], op: &Op, bound: &Bindings) -> bool {
    let named: BTreeSet<&String> = attrs.iter().map(|(key, _)| key).collect();
    let others = op_attrs(op).into_iter().filter(|(key, _)| !named.contains(key));
    let replaced = attrs.iter().filter_map(|(key, pattern)| match pattern {
        AttrPattern::Text(text) => Some((key.clone(), text.clone())),
        AttrPattern::Variable(v) => bound.texts.get(v).map(|text| (key.clone(), text.clone())),
    });
    let texts: Vec<(String, String)> = others.chain(replaced).collect();
    op_from_text(name, &texts).as_ref() == Ok(op)
}

impl FromStr for Rule {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut cursor = Cursor::new(text)?;
        let rule = parse_fragment_at(&mut cursor)?;
        cursor.expect_end()?;
        Ok(rule)
    }
}

/// Reads one fragment, from `(` to the last name after `yield`.
///
/// # Errors
/// The text is not in the form, a name is unknown or defined twice, or attributes do not make an op.
pub fn parse_fragment_at(cursor: &mut Cursor<'_>) -> Result<Rule, TextError> {
    let rule = Rule { params: Vec::new(), nodes: Vec::new(), yields: Vec::new() };
    let mut parser = Parser { cursor, rule, names: BTreeSet::new() };
    parser.params()?;
    while !parser.cursor.eat_word("yield") {
        parser.node()?;
        if !parser.cursor.eat(";") && parser.cursor.peek().line == parser.cursor.previous().line {
            return Err(parser.cursor.expected("`;`"));
        }
    }
    loop {
        let name = parser.known("a value")?;
        parser.rule.yields.push(name);
        if !parser.cursor.eat(",") {
            return Ok(parser.rule);
        }
    }
}

struct Parser<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    rule: Rule,
    names: BTreeSet<String>,
}

impl<'a> Parser<'_, 'a> {
    fn params(&mut self) -> Result<(), TextError> {
        self.cursor.expect("(")?;
        while !self.cursor.eat(")") {
            if !self.rule.params.is_empty() && !self.cursor.eat(",") {
                return Err(self.cursor.expected("`,` or `)`"));
            }
            let name = self.cursor.ident("a parameter")?;
            let dtypes = if self.cursor.eat(":") { self.dtypes()? } else { Vec::new() };
            let name = self.define(&name)?;
            self.rule.params.push(RuleParam { name, dtypes });
        }
        Ok(())
    }

    fn dtypes(&mut self) -> Result<Vec<DType>, TextError> {
        let mut dtypes: BTreeSet<DType> = BTreeSet::new();
        loop {
            match CLASSES.iter().find(|(name, _)| self.cursor.eat_word(name)) {
                Some((_, holds)) => dtypes.extend(DType::ALL.into_iter().filter(|d| holds(*d))),
                None => drop(dtypes.insert(parse_dtype(self.cursor)?)),
            }
            if !self.cursor.eat("|") {
                return Ok(dtypes.into_iter().collect());
            }
        }
    }

    fn define(&mut self, token: &Token<'_>) -> Result<String, TextError> {
        if !self.names.insert(token.text.to_owned()) {
            return Err(self.cursor.error_at(token, format!("{} is defined already", token.describe())));
        }
        Ok(token.text.to_owned())
    }

    fn known(&mut self, what: &str) -> Result<String, TextError> {
        let token = self.cursor.ident(what)?;
        match self.names.contains(token.text) {
            true => Ok(token.text.to_owned()),
            false => Err(self.cursor.error_at(&token, format!("unknown value {}", token.describe()))),
        }
    }

    fn node(&mut self) -> Result<(), TextError> {
        let mut results = Vec::new();
        loop {
            results.push(self.cursor.ident("a value or `yield`")?);
            if self.cursor.eat("=") {
                break;
            }
            if !self.cursor.eat(",") {
                return Err(self.cursor.expected("`=` or `,`"));
            }
        }
        let (op, operands) = self.op()?;
        let results = results.iter().map(|r| self.define(r)).collect::<Result<_, _>>()?;
        self.rule.nodes.push(RuleNode { results, op, operands });
        Ok(())
    }

    fn op(&mut self) -> Result<(RuleOp, Vec<String>), TextError> {
        let name = self.cursor.peek();
        if self.at_number() {
            return Ok((RuleOp::Constant(self.cursor.number()?), Vec::new()));
        }
        self.cursor.ident("an op or a number")?;
        if name.text == "literal" && !self.cursor.peek().is_punct("{") {
            let literal = parse_literal(self.cursor)?;
            return Ok((RuleOp::Exact(Op::Prim(Prim::Literal(literal))), Vec::new()));
        }
        if !is_op_name(name.text) {
            return Err(self.cursor.error_at(&name, unknown_op(name.text)));
        }
        let operands = self.operands()?;
        let op = self.attributes(&name)?;
        let refused = match &op {
            RuleOp::Exact(Op::Prim(Prim::Map(f))) if f.arity() != operands.len() => {
                Some(format!("{} operands", f.arity()))
            }
            _ => ops::by_name(name.text).filter(|spec| !spec.takes(operands.len())).map(OpSpec::arity_text),
        };
        if let Some(taken) = refused {
            let message = format!("`{}` takes {taken}, got {}", name.text, operands.len());
            return Err(self.cursor.error_at(&name, message));
        }
        Ok((op, operands))
    }

    fn at_number(&self) -> bool {
        let token = self.cursor.peek();
        let named = (token.is_word("inf") || token.is_word("nan")) && !self.names.contains(token.text);
        named || token.is_punct("-") || matches!(token.kind, Kind::Int | Kind::Float)
    }

    fn operands(&mut self) -> Result<Vec<String>, TextError> {
        let mut operands = Vec::new();
        if !(self.at_number() || self.cursor.peek().kind == Kind::Ident) {
            return Ok(operands);
        }
        loop {
            operands.push(if self.at_number() {
                let text = self.cursor.number()?;
                let name = format!("#{}", self.rule.nodes.len());
                let op = RuleOp::Constant(text);
                self.rule.nodes.push(RuleNode { results: vec![name.clone()], op, operands: Vec::new() });
                name
            } else {
                self.known("an operand")?
            });
            if !self.cursor.eat(",") {
                return Ok(operands);
            }
        }
    }

    fn attributes(&mut self, name: &Token<'_>) -> Result<RuleOp, TextError> {
        let (mut keys, mut attrs): (Vec<Token<'_>>, Vec<(String, AttrPattern)>) = Default::default();
        let mut rest = Rest::Default;
        if self.cursor.eat("{") {
            let mut first = true;
            while !self.cursor.eat("}") {
                if !first && !self.cursor.eat(",") {
                    return Err(self.cursor.expected("`,` or `}`"));
                }
                first = false;
                if self.cursor.eat("..") {
                    rest = Rest::Any;
                } else if self.cursor.eat("$") {
                    rest = Rest::Variable(self.cursor.ident("a variable")?.text.to_owned());
                } else {
                    keys.push(self.cursor.peek());
                    attrs.push(self.attribute()?);
                }
            }
        }
        let wrong = |e: OpTextError, cursor: &Cursor<'_>| {
            let at = e.attribute.as_ref().and_then(|key| keys.iter().rfind(|token| token.text == key));
            cursor.error_at(at.unwrap_or(name), e.message)
        };
        check_keys(name.text, keys.iter().map(|key| key.text)).map_err(|e| wrong(e, self.cursor))?;
        let fixed = attrs.iter().map(|(key, pattern)| match pattern {
            AttrPattern::Text(text) => Some((key.clone(), text.clone())),
            AttrPattern::Variable(_) => None,
        });
        match fixed.collect::<Option<Vec<_>>>() {
            Some(texts) if rest == Rest::Default => {
                let op = op_from_text(name.text, &texts).map_err(|e| wrong(e, self.cursor))?;
                Ok(RuleOp::Exact(op))
            }
            _ => Ok(RuleOp::Pattern { name: name.text.to_owned(), attrs, rest }),
        }
    }

    fn attribute(&mut self) -> Result<(String, AttrPattern), TextError> {
        let key = self.cursor.ident("an attribute, `..` or `$`")?.text.to_owned();
        if !self.cursor.eat("=") {
            return Ok((key, AttrPattern::Text("true".to_owned())));
        }
        if self.cursor.eat("$") {
            return Ok((key, AttrPattern::Variable(self.cursor.ident("a variable")?.text.to_owned())));
        }
        let value = skip_value(self.cursor)?;
        Ok((key, AttrPattern::Text(self.cursor.source()[value.start..value.end].to_owned())))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params = self.params.iter().map(|p| match &p.dtypes[..] {
            [] => p.name.clone(),
            dtypes => format!("{}: {}", p.name, print_dtypes(dtypes)),
        });
        write!(f, "({}) ", params.collect::<Vec<_>>().join(", "))?;
        let inline: BTreeMap<&str, &str> = self
            .nodes
            .iter()
            .filter_map(|n| match (&n.op, n.results.first()) {
                (RuleOp::Constant(text), Some(name)) if name.starts_with('#') => Some((name.as_str(), text.as_str())),
                _ => None,
            })
            .collect();
        for node in self.nodes.iter().filter(|n| n.results.iter().all(|r| !inline.contains_key(r.as_str()))) {
            let operands: Vec<&str> =
                node.operands.iter().map(|o| inline.get(o.as_str()).copied().unwrap_or(o)).collect();
            let op = match &node.op {
                RuleOp::Constant(text) => text.clone(),
                RuleOp::Exact(op) => print_op(op, &operands),
                RuleOp::Pattern { name, attrs, rest } => {
                    let operands =
                        if operands.is_empty() { String::new() } else { format!(" {}", operands.join(", ")) };
                    format!("{name}{operands} {{{}}}", print_patterns(attrs, rest))
                }
            };
            write!(f, "{} = {op}; ", node.results.join(", "))?;
        }
        write!(f, "yield {}", self.yields.join(", "))
    }
}

/// Classes that are there as a whole, then single dtypes.
fn print_dtypes(dtypes: &[DType]) -> String {
    let mut left = dtypes.to_vec();
    let mut words = Vec::new();
    for (name, holds) in CLASSES {
        if DType::ALL.iter().all(|d| !holds(*d) || left.contains(d)) {
            words.push(name.to_owned());
            left.retain(|d| !holds(*d));
        }
    }
    words.extend(left.iter().map(DType::to_string));
    words.join(" | ")
}

fn print_patterns(attrs: &[(String, AttrPattern)], rest: &Rest) -> String {
    let named = attrs.iter().map(|(key, pattern)| match pattern {
        AttrPattern::Text(text) => format!("{key} = {text}"),
        AttrPattern::Variable(variable) => format!("{key} = ${variable}"),
    });
    let rest = match rest {
        Rest::Default => None,
        Rest::Any => Some("..".to_owned()),
        Rest::Variable(variable) => Some(format!("${variable}")),
    };
    named.chain(rest).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
