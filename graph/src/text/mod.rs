//! The text form: what is printed parses back to the same graph.
//!
//! ```text
//! graph @block(s: 1..8192; %x: bf16[s, 4096], %r: bf16[s, 4096], %w: weight bf16[4096]) {
//!   %h = add %x, %r  @"model.layers.0/residual"
//!   %y = rms_norm %h, %w {eps = 1e-5, round = once}
//!   return %y, %h updates %r
//! }
//! ```
//! The grammar is in `parse.rs`. [`lexer`], [`Cursor`] and the parsers of dims, types and literals are shared by all text
//! forms of the project.

pub mod lexer;
pub mod nearest;

mod cursor;
mod dim;
mod error;
mod literal;
mod op;
mod parse;
mod print;
mod rule;
mod ty;

pub use cursor::Cursor;
pub use dim::{MAX_DEPTH, MAX_TERMS, MAX_TOKENS, parse_dim, parse_shape};
pub use error::TextError;
pub use lexer::MAX_NAME;
pub use literal::{holds, parse_dtype, parse_literal, parse_value, print_float, print_literal};
pub use op::{OpTextError, is_op_name, op_attrs, op_from_text};
pub use parse::{MAX_SYMBOLS, ParsedGraph, parse_graph_at, parse_graphs};
pub use print::{PrintOptions, print_graph, print_op, value_names};
pub use rule::{AttrPattern, Bindings, Rest, Rule, RuleNode, RuleOp, RuleParam, parse_fragment_at};
pub use ty::{MAX_ELEMENT_TERMS, parse_type};

#[cfg(test)]
mod tests;
