//! Printing graphs.
//!
//! Value names are kept where they are unique, made unique with a number where not; values without a name are `%0`,
//! `%1`, … in order. The same graph always prints the same text.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::graph::{Graph, InputKind, Node, Op, Origin, Value};
use crate::prim::Prim;

use super::lexer::{is_bare, quote, quote_unless_bare};
use super::literal::print_literal;
use super::op::op_attrs;

/// Widest header that is printed on one line.
const HEADER_WIDTH: usize = 110;

/// What is printed beside the graph itself.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PrintOptions {
    /// The type of every value, not only of inputs.
    pub types: bool,
    /// No origins.
    pub hide_origins: bool,
}

/// A graph as text.
pub fn print_graph(graph: &Graph, options: PrintOptions) -> String {
    let printer = Printer { graph, names: value_names(graph), options };
    let mut text = String::new();
    printer.graph(&mut text).expect("writing to a string cannot fail");
    text
}

/// The text name of every value, `%` included, by value number.
pub fn value_names(graph: &Graph) -> Vec<String> {
    let mut names = vec![String::new(); graph.value_count()];
    let mut taken: BTreeMap<String, u32> = BTreeMap::new();
    let mut unnamed = 0u32;
    for value in graph.values_in_order() {
        let name = match graph.value_name(value) {
            None => {
                unnamed += 1;
                format!("%{}", unnamed - 1)
            }
            Some(name) => {
                let unique = unique_name(name, &mut taken);
                if is_bare(&unique) { format!("%{unique}") } else { format!("%{}", quote(&unique)) }
            }
        };
        names[value.0 as usize] = name;
    }
    names
}

/// The name itself if it is new, else with the first number that makes it new.
fn unique_name(name: &str, taken: &mut BTreeMap<String, u32>) -> String {
    let mut unique = name.to_owned();
    while let Some(count) = taken.get_mut(&unique) {
        *count += 1;
        let next = format!("{name}_{count}");
        if !taken.contains_key(&next) {
            unique = next;
            break;
        }
    }
    taken.insert(unique.clone(), 0);
    unique
}

/// An op with its attributes and operands, without results and origin: `add %x, %y`.
pub fn print_op(op: &Op, operands: &[&str]) -> String {
    let mut text = op.name().to_owned();
    if let Op::Prim(Prim::Literal(literal)) = op {
        return text + " " + &print_literal(literal);
    }
    if !operands.is_empty() {
        text += " ";
        text += &operands.join(", ");
    }
    let attrs = op_attrs(op);
    if !attrs.is_empty() {
        let pairs = attrs.iter().map(|(key, value)| match value.as_str() {
            "true" => key.clone(),
            value => format!("{key} = {value}"),
        });
        text += &format!(" {{{}}}", pairs.collect::<Vec<_>>().join(", "));
    }
    text
}

struct Printer<'g> {
    graph: &'g Graph,
    names: Vec<String>,
    options: PrintOptions,
}

impl Printer<'_> {
    fn name(&self, value: Value) -> &str {
        self.names.get(value.0 as usize).map_or("%?", String::as_str)
    }

    fn graph(&self, out: &mut String) -> fmt::Result {
        self.header(out)?;
        for node in self.graph.nodes() {
            self.node(node, out)?;
        }
        out.write_str("  return")?;
        for (i, output) in self.graph.outputs().iter().enumerate() {
            write!(out, "{} {}", if i > 0 { "," } else { "" }, self.name(output.value))?;
            if let Some(input) = &output.updates {
                let updated = self.graph.inputs().iter().find(|i| i.name == *input);
                let name =
                    updated.map_or_else(|| format!("%{}", quote_unless_bare(input)), |i| self.name(i.value).to_owned());
                write!(out, " updates {name}")?;
            }
        }
        out.write_str("\n}\n")
    }

    fn header(&self, out: &mut String) -> fmt::Result {
        let symbols: Vec<String> = self.graph.symbols().iter().map(|s| format!("{}: {}", s.name, s.range())).collect();
        let inputs: Vec<String> = self
            .graph
            .inputs()
            .iter()
            .map(|input| {
                let kind = match input.kind {
                    InputKind::User => "",
                    InputKind::Settled => "settled ",
                    InputKind::Weight(_) => "weight ",
                };
                format!("{}: {kind}{}", self.name(input.value), self.graph.ty(input.value))
            })
            .collect();
        let separator = if symbols.is_empty() || inputs.is_empty() { "" } else { "; " };
        let name = quote_unless_bare(self.graph.name());
        let line = format!("graph @{name}({}{separator}{}) {{", symbols.join(", "), inputs.join(", "));
        if line.chars().count() <= HEADER_WIDTH {
            return writeln!(out, "{line}");
        }
        writeln!(out, "graph @{name}(")?;
        for part in symbols.iter().chain(&inputs) {
            writeln!(out, "  {part},")?;
        }
        writeln!(out, ") {{")
    }

    fn node(&self, node: &Node, out: &mut String) -> fmt::Result {
        out.write_str("  ")?;
        for (i, &result) in node.results.iter().enumerate() {
            write!(out, "{}{}", if i > 0 { ", " } else { "" }, self.name(result))?;
            if self.options.types {
                write!(out, ": {}", self.graph.ty(result))?;
            }
        }
        if !node.results.is_empty() {
            out.write_str(" = ")?;
        }
        let operands: Vec<&str> = node.operands.iter().map(|&v| self.name(v)).collect();
        out.write_str(&print_op(&node.op, &operands))?;
        if !self.options.hide_origins {
            print_origin(&node.origin, out)?;
        }
        out.write_str("\n")
    }
}

fn print_origin(origin: &Origin, out: &mut String) -> fmt::Result {
    if *origin == Origin::default() {
        return Ok(());
    }
    write!(out, "  @{}", quote(origin.node.as_deref().unwrap_or_default()))?;
    for (word, part) in [("op", &origin.op), ("at", &origin.source)] {
        if let Some(part) = part {
            write!(out, " {word} {}", quote(part))?;
        }
    }
    Ok(())
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print_graph(self, PrintOptions::default()))
    }
}
