//! The text form: what is printed parses back to an equal graph.
//!
//! [`lexer`], [`Cursor`] and the dim parser are shared by all text forms of the project.

pub mod lexer;

mod cursor;
mod dim;
mod error;

pub use cursor::Cursor;
pub use dim::{MAX_DEPTH, MAX_TERMS, MAX_TOKENS, parse_dim, parse_shape};
pub use error::TextError;
