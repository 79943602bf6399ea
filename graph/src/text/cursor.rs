//! Reading tokens one by one, with errors that say what was expected.

use super::error::TextError;
use super::lexer::{Kind, Token, lex};

/// A position in a text's tokens.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    source: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The start of a text.
    ///
    /// # Errors
    /// As [`lex`].
    pub fn new(source: &'a str) -> Result<Self, TextError> {
        Ok(Cursor { source, tokens: lex(source)?, at: 0 })
    }

    /// The whole text.
    pub fn source(&self) -> &'a str {
        self.source
    }

    /// The next token, without taking it.
    pub fn peek(&self) -> Token<'a> {
        self.tokens[self.at]
    }

    /// The token after the next one.
    pub fn peek_second(&self) -> Token<'a> {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)]
    }

    /// The token taken last; the first one if none was.
    pub fn previous(&self) -> Token<'a> {
        self.tokens[self.at.saturating_sub(1)]
    }

    /// Takes the next token; at the end it stays there.
    pub fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// Whether nothing is left.
    pub fn at_end(&self) -> bool {
        self.peek().kind == Kind::End
    }

    /// Takes the next token if it is that punctuation.
    pub fn eat(&mut self, punct: &str) -> bool {
        let found = self.peek().is_punct(punct);
        if found {
            self.take();
        }
        found
    }

    /// Takes the next token if it is that bare name.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek().is_word(word);
        if found {
            self.take();
        }
        found
    }

    /// Takes punctuation.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn expect(&mut self, punct: &str) -> Result<Token<'a>, TextError> {
        if self.peek().is_punct(punct) { Ok(self.take()) } else { Err(self.expected(&format!("`{punct}`"))) }
    }

    /// Takes a given bare name.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn expect_word(&mut self, word: &str) -> Result<Token<'a>, TextError> {
        if self.peek().is_word(word) { Ok(self.take()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    /// Takes a token of a kind; `what` names it in the error.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn expect_kind(&mut self, kind: Kind, what: &str) -> Result<Token<'a>, TextError> {
        if self.peek().kind == kind { Ok(self.take()) } else { Err(self.expected(what)) }
    }

    /// Takes a bare name.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn ident(&mut self, what: &str) -> Result<Token<'a>, TextError> {
        self.expect_kind(Kind::Ident, what)
    }

    /// Requires that nothing is left.
    ///
    /// # Errors
    /// Something is.
    pub fn expect_end(&self) -> Result<(), TextError> {
        if self.at_end() { Ok(()) } else { Err(self.expected("the end of the text")) }
    }

    /// Takes an integer with an optional sign.
    ///
    /// # Errors
    /// No integer, or one beyond 64 bits.
    pub fn int(&mut self) -> Result<i64, TextError> {
        let negative = self.eat("-");
        let token = self.expect_kind(Kind::Int, "an integer")?;
        let magnitude = parse_magnitude(token.text).filter(|m| *m <= i128::from(i64::MAX) + i128::from(negative));
        let signed = magnitude.map(|m| if negative { -m } else { m });
        let fits = signed.and_then(|v| i64::try_from(v).ok());
        fits.ok_or_else(|| self.error_at(&token, "the integer does not fit 64 bits"))
    }

    /// Takes an unsigned 64-bit integer, carried as the same bits.
    ///
    /// # Errors
    /// No such integer.
    pub fn unsigned_wide(&mut self) -> Result<i64, TextError> {
        let token = self.expect_kind(Kind::Int, "an unsigned integer")?;
        let fits = parse_magnitude(token.text).and_then(|m| u64::try_from(m).ok());
        fits.map(|v| v as i64).ok_or_else(|| self.error_at(&token, "the integer does not fit 64 bits"))
    }

    /// Takes an unsigned integer that fits `T`.
    ///
    /// # Errors
    /// No integer, or one out of range.
    pub fn unsigned<T: TryFrom<i64>>(&mut self) -> Result<T, TextError> {
        let token = self.peek();
        let value = self.int()?;
        let fits = (value >= 0).then(|| T::try_from(value).ok()).flatten();
        fits.ok_or_else(|| self.error_at(&token, format!("{value} is out of range")))
    }

    /// Takes the text of a number: optional sign, digits or `inf` or `nan`.
    ///
    /// # Errors
    /// No number.
    pub fn number(&mut self) -> Result<String, TextError> {
        let sign = if self.eat("-") { "-" } else { "" };
        let token = self.peek();
        let named = token.kind == Kind::Ident && ["inf", "nan"].iter().any(|n| token.text.eq_ignore_ascii_case(n));
        if named || matches!(token.kind, Kind::Int | Kind::Float) {
            if !named && token.text.parse::<f64>().is_ok_and(f64::is_infinite) {
                return Err(self.error_at(&token, format!("{} is beyond the range of numbers", token.describe())));
            }
            self.take();
            return Ok(format!("{sign}{}", token.text));
        }
        Err(self.expected("a number"))
    }

    /// An error at the next token: `expected …, found …`.
    pub fn expected(&self, what: &str) -> TextError {
        let token = self.peek();
        self.error_at(&token, format!("expected {what}, found {}", token.describe()))
    }

    /// An error at a token.
    pub fn error_at(&self, token: &Token<'_>, message: impl Into<String>) -> TextError {
        TextError::new(self.source, token.start, token.line, token.column, message)
    }
}

/// The value of an [`Kind::Int`] token, if it fits.
pub(super) fn parse_magnitude(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
