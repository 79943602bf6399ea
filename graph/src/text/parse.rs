//! Parsing graphs.
//!
//! ```text
//! graph     = "graph" "@" name "(" {symbol | input} ")" "{" {node} "return" [output {"," output}] "}"
//! symbol    = name ":" integer ".." [integer]
//! input     = "%" name ":" ["weight" | "settled"] type
//! node      = [result {"," result} "="] op [operand {"," operand}] ["{" attribute {"," attribute} "}"] [origin]
//! result    = "%" name [":" type]
//! attribute = name ["=" text without "," and "}" outside of brackets]
//! origin    = "@" string ["op" string] ["at" string]
//! output    = "%" name ["updates" "%" name]
//! ```
//! Symbols and inputs are separated by `,` or `;`. Each node ends its line. A literal is written `literal f32 1e-5`. A name of digits alone stands
//! for a value without a name. Every node is typed as it is read, so a parsed graph is well-typed; [`crate::verify`]
//! checks the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::{Graph, InputKind, Op, Origin, Value};
use crate::prim::Prim;
use crate::ty::TensorType;

use super::cursor::Cursor;
use super::error::TextError;
use super::lexer::{Kind, Token, is_bare};
use super::literal::parse_literal;
use super::op::{OpTextError, op_from_text};
use super::ty::{MAX_ELEMENT_TERMS, element_terms, parse_type};

/// Most symbols of one graph.
pub const MAX_SYMBOLS: usize = 1024;

/// A graph and the lines of the text that it came from.
#[derive(Clone, Debug)]
pub struct ParsedGraph {
    /// The graph.
    pub graph: Graph,
    /// Line of `graph`.
    pub header: usize,
    /// Line of each input.
    pub inputs: Vec<usize>,
    /// Line of each node.
    pub nodes: Vec<usize>,
    /// Line of `return`.
    pub outputs: usize,
}

/// Reads the graphs of a text.
///
/// # Errors
/// The first place that is not in the form, or a node that is ill-typed.
pub fn parse_graphs(text: &str) -> Result<Vec<ParsedGraph>, TextError> {
    let mut cursor = Cursor::new(text)?;
    let mut graphs = Vec::new();
    while !cursor.at_end() {
        graphs.push(parse_graph_at(&mut cursor)?);
    }
    Ok(graphs)
}

impl FromStr for Graph {
    type Err = TextError;

    /// Reads a text of exactly one graph.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut cursor = Cursor::new(text)?;
        let parsed = parse_graph_at(&mut cursor)?;
        if !cursor.peek().quoted && cursor.peek().text == "graph" {
            return Err(cursor.error_at(&cursor.peek(), "a second graph, where the text should hold one"));
        }
        cursor.expect_end()?;
        Ok(parsed.graph)
    }
}

/// Reads one graph among other things.
///
/// # Errors
/// As [`parse_graphs`].
pub fn parse_graph_at(cursor: &mut Cursor<'_>) -> Result<ParsedGraph, TextError> {
    let header = cursor.expect_word("graph")?.line;
    let name = cursor.expect_kind(Kind::Global, "`@` and a name")?.content();
    let mut parser = Parser {
        cursor,
        builder: Builder::new(&name),
        values: BTreeMap::new(),
        symbols: BTreeSet::new(),
        inputs: Vec::new(),
        nodes: Vec::new(),
    };
    parser.parameters()?;
    parser.cursor.expect("{")?;
    while !parser.cursor.peek().is_word("return") {
        parser.node()?;
    }
    let outputs = parser.outputs()?;
    parser.cursor.expect("}")?;
    let Parser { builder, inputs, nodes, .. } = parser;
    Ok(ParsedGraph { graph: builder.finish(), header, inputs, nodes, outputs })
}

/// An attribute as written.
struct Attribute<'a> {
    key: Token<'a>,
    value: Token<'a>,
}

struct Parser<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    builder: Builder,
    /// Values by name, and the line of their definition.
    values: BTreeMap<String, (Value, usize)>,
    symbols: BTreeSet<String>,
    inputs: Vec<usize>,
    nodes: Vec<usize>,
}

impl<'a> Parser<'_, 'a> {
    fn parameters(&mut self) -> Result<(), TextError> {
        self.cursor.expect("(")?;
        while !self.cursor.eat(")") {
            match self.cursor.peek().kind {
                Kind::Ident => self.symbol()?,
                Kind::Value => self.input()?,
                _ => return Err(self.cursor.expected("a symbol, an input or `)`")),
            }
            if !(self.cursor.eat(",") || self.cursor.eat(";") || self.cursor.peek().is_punct(")")) {
                return Err(self.cursor.expected("`,`, `;` or `)`"));
            }
        }
        Ok(())
    }

    fn symbol(&mut self) -> Result<(), TextError> {
        let name = self.cursor.take();
        if self.symbols.len() == MAX_SYMBOLS {
            return Err(self.cursor.error_at(&name, format!("more than {MAX_SYMBOLS} symbols")));
        }
        if !self.symbols.insert(name.text.to_owned()) {
            return Err(self.cursor.error_at(&name, format!("symbol `{}` is declared already", name.text)));
        }
        self.cursor.expect(":")?;
        let min = self.cursor.int()?;
        self.cursor.expect("..")?;
        let bounded = self.cursor.peek().is_punct("-") || self.cursor.peek().kind == Kind::Int;
        let max = if bounded { Some(self.cursor.int()?) } else { None };
        self.builder.symbol(name.text, min, max);
        Ok(())
    }

    fn input(&mut self) -> Result<(), TextError> {
        let token = self.cursor.take();
        self.cursor.expect(":")?;
        let kind = if self.cursor.eat_word("weight") {
            InputKind::Weight(None)
        } else if self.cursor.eat_word("settled") {
            InputKind::Settled
        } else {
            InputKind::User
        };
        let ty = self.ty()?;
        let value = self.builder.add_input(&token.content(), ty, kind);
        self.inputs.push(token.line);
        self.define(&token, value)
    }

    fn ty(&mut self) -> Result<TensorType, TextError> {
        let start = self.cursor.peek();
        let ty = parse_type(self.cursor)?;
        self.declared(&start, ty.shape.iter())?;
        Ok(ty)
    }

    fn declared<'d>(&self, at: &Token<'_>, dims: impl Iterator<Item = &'d Dim>) -> Result<(), TextError> {
        let mut names = BTreeSet::new();
        dims.for_each(|dim| dim.collect_symbols(&mut names));
        match names.iter().find(|name| !self.symbols.contains(*name)) {
            Some(name) => {
                let message = format!("symbol `{name}` is not declared; write `{name}: 0..` among the parameters");
                Err(self.cursor.error_at(at, message))
            }
            None => Ok(()),
        }
    }

    fn define(&mut self, token: &Token<'_>, value: Value) -> Result<(), TextError> {
        if let Some((_, line)) = self.values.insert(key(token), (value, token.line)) {
            let message = format!("{} is defined already on line {line}", token.describe());
            return Err(self.cursor.error_at(token, message));
        }
        Ok(())
    }

    fn value(&mut self, what: &str) -> Result<Value, TextError> {
        let token = self.cursor.expect_kind(Kind::Value, what)?;
        let found = self.values.get(&key(&token)).map(|(value, _)| *value);
        found.ok_or_else(|| self.cursor.error_at(&token, format!("unknown value {}", token.describe())))
    }

    fn node(&mut self) -> Result<(), TextError> {
        let results = self.results()?;
        let begins = "an op, `%` and a name, or `return`";
        let name = self.cursor.ident(begins)?;
        // A text that was cut off ends like this.
        if results.is_empty() && "return".starts_with(name.text) {
            return Err(self.cursor.error_at(&name, format!("expected {begins}, found {}", name.describe())));
        }
        let (op, operands) = if name.text == "literal" {
            (Op::Prim(Prim::Literal(parse_literal(self.cursor)?)), Vec::new())
        } else {
            let operands = self.operands(&name)?;
            (self.op(&name)?, operands)
        };
        self.check_size(&name, &operands)?;
        let origin = self.origin()?;
        let next = self.cursor.peek();
        if next.line == self.cursor.previous().line && !next.is_word("return") {
            return Err(self.cursor.expected("`,`, attributes, an origin or the end of the line"));
        }
        self.builder.set_origin(origin);
        let values = self.builder.op(op, &operands).map_err(|e| self.cursor.error_at(&name, e.to_string()))?;
        self.check_size(&name, &values)?;
        if values.len() != results.len() {
            let message = format!("`{}` has {} results, {} are named", name.text, values.len(), results.len());
            return Err(self.cursor.error_at(&name, message));
        }
        self.nodes.push(name.line);
        for ((token, written), value) in results.into_iter().zip(values) {
            let inferred = self.builder.ty(value);
            if let Some(written) = written.filter(|ty| *ty != inferred) {
                let message = format!("{} is {inferred}, not {written}", token.describe());
                return Err(self.cursor.error_at(&token, message));
            }
            if token.quoted || !token.text.bytes().all(|b| b.is_ascii_digit()) {
                self.builder.name(value, &token.content());
            }
            self.define(&token, value)?;
        }
        Ok(())
    }

    fn results(&mut self) -> Result<Vec<(Token<'a>, Option<TensorType>)>, TextError> {
        let mut results = Vec::new();
        if self.cursor.peek().kind != Kind::Value {
            return Ok(results);
        }
        loop {
            let token = self.cursor.expect_kind(Kind::Value, "`%` and a name")?;
            let ty = if self.cursor.eat(":") { Some(self.ty()?) } else { None };
            results.push((token, ty));
            if self.cursor.eat("=") {
                return Ok(results);
            }
            if !self.cursor.eat(",") {
                return Err(self.cursor.expected("`=` or `,`"));
            }
        }
    }

    /// Operands start on the op's line, so that a node without any does not take the next node's results.
    fn operands(&mut self, op: &Token<'_>) -> Result<Vec<Value>, TextError> {
        let mut operands = Vec::new();
        let next = self.cursor.peek();
        if next.kind != Kind::Value || next.line != op.line {
            return Ok(operands);
        }
        loop {
            operands.push(self.value("an operand")?);
            if !self.cursor.eat(",") {
                return Ok(operands);
            }
        }
    }

    fn op(&mut self, name: &Token<'_>) -> Result<Op, TextError> {
        let written = self.attributes()?;
        let texts: Vec<(String, String)> = written
            .iter()
            .map(|a| {
                let flag = a.key.start == a.value.start;
                let text = if flag { "true" } else { &self.cursor.source()[a.value.start..a.value.end] };
                (a.key.text.to_owned(), text.to_owned())
            })
            .collect();
        let op = op_from_text(name.text, &texts).map_err(|OpTextError { attribute, message }| {
            let at = attribute.and_then(|key| written.iter().rfind(|a| a.key.text == key));
            self.cursor.error_at(at.map_or(name, |a| &a.value), message)
        })?;
        if let Op::Prim(prim) = &op {
            self.declared(name, prim.dims().into_iter())?;
        }
        Ok(op)
    }

    fn attributes(&mut self) -> Result<Vec<Attribute<'a>>, TextError> {
        let mut attributes = Vec::new();
        if !self.cursor.eat("{") {
            return Ok(attributes);
        }
        while !self.cursor.eat("}") {
            if !attributes.is_empty() && !self.cursor.eat(",") {
                return Err(self.cursor.expected("`,` or `}`"));
            }
            let key = self.cursor.ident("an attribute")?;
            let value = if self.cursor.eat("=") { skip_value(self.cursor)? } else { key };
            attributes.push(Attribute { key, value });
        }
        Ok(attributes)
    }

    fn origin(&mut self) -> Result<Origin, TextError> {
        let mut origin = Origin::default();
        if self.cursor.peek().kind != Kind::Global {
            return Ok(origin);
        }
        let node = self.cursor.take().content();
        origin.node = (!node.is_empty()).then(|| node.into());
        for (word, part) in [("op", &mut origin.op), ("at", &mut origin.source)] {
            if self.cursor.peek().is_word(word) && self.cursor.peek_second().kind == Kind::Str {
                self.cursor.take();
                *part = Some(self.cursor.take().content().into());
            }
        }
        Ok(origin)
    }

    fn outputs(&mut self) -> Result<usize, TextError> {
        let line = self.cursor.expect_word("return")?.line;
        if self.cursor.peek().is_punct("}") {
            return Ok(line);
        }
        loop {
            let value = self.value("a value or `}`")?;
            let mut updates = None;
            if self.cursor.eat_word("updates") {
                updates = Some(self.cursor.expect_kind(Kind::Value, "an input")?.content().into_owned());
            }
            self.builder.add_output(value, updates);
            if !self.cursor.eat(",") {
                return Ok(line);
            }
        }
    }

    /// Bounds the work of typing: symbolic extents of operands and results stay small expressions.
    fn check_size(&self, at: &Token<'_>, values: &[Value]) -> Result<(), TextError> {
        let mut symbolic = 0usize;
        for &value in values {
            let shape = self.builder.ty(value).shape;
            symbolic += shape.iter().filter(|d| d.as_const().is_none()).map(Dim::term_count).sum::<usize>();
            if symbolic > MAX_ELEMENT_TERMS || element_terms(&shape) > MAX_ELEMENT_TERMS {
                return Err(self.cursor.error_at(at, "the extents are too large expressions"));
            }
        }
        Ok(())
    }
}

/// Under what a value is found: its name, apart from values without one.
fn key(token: &Token<'_>) -> String {
    let content = token.content();
    if token.quoted && !is_bare(&content) { format!("\"{content}") } else { content.into_owned() }
}

/// Takes the tokens up to a `,` or `}` outside of brackets, as one token.
pub(super) fn skip_value<'a>(cursor: &mut Cursor<'a>) -> Result<Token<'a>, TextError> {
    let first = cursor.peek();
    let mut depth = 0usize;
    loop {
        let token = cursor.peek();
        let open = token.kind == Kind::Punct && matches!(token.text, "(" | "[" | "{");
        let close = token.kind == Kind::Punct && matches!(token.text, ")" | "]" | "}");
        let ends = depth == 0 && (close || token.is_punct(","));
        if token.kind == Kind::End || ends && token.start == first.start {
            return Err(cursor.expected("a value"));
        }
        if ends {
            return Ok(Token { end: cursor.previous().end, ..first });
        }
        depth = if open { depth + 1 } else { depth - usize::from(close) };
        cursor.take();
    }
}
