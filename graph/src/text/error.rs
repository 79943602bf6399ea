//! Errors of the text forms: where, what was expected, and the line itself.

use std::fmt;

/// Longest part of an offending line that a message shows, in characters.
const SHOWN: usize = 160;

/// A text is not in its form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, or what was expected.
    pub message: String,
    /// The offending line, or the part of it around the column.
    pub excerpt: String,
    /// Characters of the excerpt before the column.
    pub caret: usize,
}

impl TextError {
    /// An error at a byte offset of a text whose line and column are known.
    pub fn new(text: &str, offset: usize, line: usize, column: usize, message: impl Into<String>) -> Self {
        let offset = offset.min(text.len());
        let before = &text[..offset];
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        let lead: Vec<char> = text[start..offset].chars().collect();
        let skip = lead.len().saturating_sub(SHOWN / 2);
        let tail = text[offset..].chars().take_while(|c| *c != '\n').take(SHOWN / 2);
        let excerpt: String = lead[skip..].iter().copied().chain(tail).collect();
        TextError {
            line,
            column,
            message: message.into(),
            excerpt: excerpt.trim_end().to_owned(),
            caret: lead.len() - skip,
        }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        writeln!(f, "  | {}", self.excerpt)?;
        write!(f, "  | {:caret$}^", "", caret = self.caret)
    }
}

impl std::error::Error for TextError {}
