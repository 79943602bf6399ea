//! Tokens of every text form: graphs, rules, kernels.
//!
//! Names are bare (`rms_norm`), values `%x`, globals `@block`; a name with other characters is quoted (`%"a b"`).
//! Numbers have no sign; `inf` and `nan` are bare names. `;` starts a comment at the start of a line or after a blank;
//! straight after a token it is a separator. Line ends separate nothing.
//!
//! The lexer is linear in the text and refuses what it does not know; [`super::Cursor`] reads its tokens.

use std::borrow::Cow;

use super::error::TextError;

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A bare name.
    Ident,
    /// `%name`; the token's text is the name.
    Value,
    /// `@name`; the token's text is the name.
    Global,
    /// `"text"`; the token's text is what is between the quotes, escapes as written.
    Str,
    /// Digits, or `0x` and hexadecimal digits.
    Int,
    /// A number with a fraction or an exponent.
    Float,
    /// Punctuation.
    Punct,
    /// The end of the text.
    End,
}

/// One token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its text, without `%`, `@` and quotes.
    pub text: &'a str,
    /// Whether the text was quoted and may contain escapes.
    pub quoted: bool,
    /// Byte offset of its first character, sigils and quotes included.
    pub start: usize,
    /// Byte offset past its last character.
    pub end: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl<'a> Token<'a> {
    /// The text with escapes resolved.
    pub fn content(&self) -> Cow<'a, str> {
        if self.quoted && self.text.contains('\\') { Cow::Owned(unescape(self.text)) } else { Cow::Borrowed(self.text) }
    }

    /// Whether the token is that punctuation.
    pub fn is_punct(&self, text: &str) -> bool {
        self.kind == Kind::Punct && self.text == text
    }

    /// Whether the token is that bare name.
    pub fn is_word(&self, text: &str) -> bool {
        self.kind == Kind::Ident && self.text == text
    }

    /// The token as messages show it.
    pub fn describe(&self) -> String {
        let short: String = self.text.chars().take(40).collect();
        match self.kind {
            Kind::Value => format!("`%{short}`"),
            Kind::Global => format!("`@{short}`"),
            Kind::Str => format!("`\"{short}\"`"),
            Kind::End => "the end of the text".to_owned(),
            Kind::Ident | Kind::Int | Kind::Float | Kind::Punct => format!("`{short}`"),
        }
    }
}

/// Most bytes of a name.
pub const MAX_NAME: usize = 1024;

const TWO: [&str; 7] = ["..", "->", "=>", "==", "!=", "<=", ">="];
const ONE: &str = "()[]{}<>,:;=+-*/%@?$|!&^~.#";

/// The tokens of a text; the last one is [`Kind::End`].
///
/// # Errors
/// An unknown character, an open string or a malformed number.
pub fn lex(text: &str) -> Result<Vec<Token<'_>>, TextError> {
    let mut lexer = Lexer { text, at: 0, line: 1, counted: 0, column: 1 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blank();
        let token = lexer.token()?;
        tokens.push(token);
        if token.kind == Kind::End {
            return Ok(tokens);
        }
    }
}

/// Whether a name can stand without quotes.
pub fn is_bare(name: &str) -> bool {
    let mut chars = name.chars();
    let dotted = name.contains("..") || name.ends_with('.');
    chars.next().is_some_and(is_name_start) && chars.all(is_name) && !dotted
}

/// The text in quotes, so that it reads back exactly.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control() => quoted.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The name, in quotes if it cannot stand bare.
pub fn quote_unless_bare(name: &str) -> Cow<'_, str> {
    if is_bare(name) { Cow::Borrowed(name) } else { Cow::Owned(quote(name)) }
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('u') => {
                let digits: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
                plain.extend(u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32));
            }
            other => plain.extend(other),
        }
    }
    plain
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    /// Offset up to which `column` is counted.
    counted: usize,
    column: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_blank(&mut self) {
        while let Some(c) = self.peek() {
            if c == '\n' {
                self.at += 1;
                self.line += 1;
                (self.counted, self.column) = (self.at, 1);
            } else if c.is_ascii_whitespace() {
                self.at += 1;
            } else if c == ';' && self.after_blank() {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            } else {
                return;
            }
        }
    }

    fn after_blank(&self) -> bool {
        self.at == 0 || self.text.as_bytes()[self.at - 1].is_ascii_whitespace()
    }

    fn column(&mut self) -> usize {
        self.column += self.text[self.counted..self.at].chars().count();
        self.counted = self.at;
        self.column
    }

    fn fail<T>(&mut self, message: impl Into<String>) -> Result<T, TextError> {
        let column = self.column();
        Err(TextError::new(self.text, self.at, self.line, column, message))
    }

    fn token(&mut self) -> Result<Token<'a>, TextError> {
        let (start, line, column) = (self.at, self.line, self.column());
        let (kind, text, quoted) = self.scan()?;
        if matches!(kind, Kind::Ident | Kind::Value | Kind::Global) && text.len() > MAX_NAME {
            self.at = start;
            return self.fail(format!("a name of {} bytes, more than {MAX_NAME}", text.len()));
        }
        Ok(Token { kind, text, quoted, start, end: self.at, line, column })
    }

    fn scan(&mut self) -> Result<(Kind, &'a str, bool), TextError> {
        let Some(c) = self.peek() else { return Ok((Kind::End, "", false)) };
        if is_name_start(c) {
            return Ok((Kind::Ident, self.take_name(), false));
        }
        if c.is_ascii_digit() {
            return self.number();
        }
        if c == '"' {
            return Ok((Kind::Str, self.string()?, true));
        }
        if c == '%' || c == '@' {
            let kind = if c == '%' { Kind::Value } else { Kind::Global };
            match self.rest().chars().nth(1) {
                Some('"') => {
                    self.at += 1;
                    return Ok((kind, self.string()?, true));
                }
                Some(next) if is_name(next) && next != '.' => {
                    self.at += 1;
                    return Ok((kind, self.take_name(), false));
                }
                _ => {}
            }
        }
        let two = TWO.iter().find(|p| self.rest().starts_with(**p));
        let length = match two {
            Some(_) => 2,
            None if ONE.contains(c) => 1,
            None => return self.fail(format!("unknown character `{}`", c.escape_default())),
        };
        let text = &self.rest()[..length];
        self.at += length;
        Ok((Kind::Punct, text, false))
    }

    /// A name; a dot belongs to it only between other name characters, so that `s..8` is a range.
    fn take_name(&mut self) -> &'a str {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let is = |i: usize| bytes.get(i).is_some_and(|b| is_name(char::from(*b)) && *b != b'.');
        let mut length = 0;
        while is(length) || bytes.get(length) == Some(&b'.') && length > 0 && is(length + 1) && is(length - 1) {
            length += 1;
        }
        self.at += length;
        &rest[..length]
    }

    fn number(&mut self) -> Result<(Kind, &'a str, bool), TextError> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut kind = Kind::Int;
        let mut length = digits(0);
        if bytes[0] == b'0' && bytes.get(1) == Some(&b'x') {
            length = 2 + bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        } else {
            if bytes.get(length) == Some(&b'.') && bytes.get(length + 1).is_some_and(u8::is_ascii_digit) {
                kind = Kind::Float;
                length += 1 + digits(length + 1);
            }
            if matches!(bytes.get(length), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
                let exponent = digits((length + 1 + sign).min(bytes.len()));
                if exponent > 0 {
                    kind = Kind::Float;
                    length += 1 + sign + exponent;
                }
            }
        }
        let glued = bytes.get(length).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        if glued || &rest[..length] == "0x" {
            return self.fail("malformed number");
        }
        self.at += length;
        Ok((kind, &rest[..length], false))
    }

    fn string(&mut self) -> Result<&'a str, TextError> {
        let rest = &self.rest()[1..];
        let mut escaped = false;
        for (i, c) in rest.char_indices() {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    self.at += i + 2;
                    return Ok(&rest[..i]);
                }
                _ => {}
            }
        }
        self.fail("the string has no end on this line")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str)> {
        lex(text).expect("lexes").iter().map(|t| (t.kind, t.text)).collect()
    }

    #[test]
    fn every_kind_of_token() {
        use Kind::{End, Float, Global, Ident, Int, Punct, Str, Value};
        assert_eq!(
            kinds("%h.1 = add %0 @b @\"x y\" 1e-5 -0.0 1..8192 0x1F inf s..4 ->"),
            [
                (Value, "h.1"),
                (Punct, "="),
                (Ident, "add"),
                (Value, "0"),
                (Global, "b"),
                (Global, "x y"),
                (Float, "1e-5"),
                (Punct, "-"),
                (Float, "0.0"),
                (Int, "1"),
                (Punct, ".."),
                (Int, "8192"),
                (Int, "0x1F"),
                (Ident, "inf"),
                (Ident, "s"),
                (Punct, ".."),
                (Int, "4"),
                (Punct, "->"),
                (End, ""),
            ]
        );
        assert_eq!(kinds("\"a\\\"b\"")[0], (Str, "a\\\"b"));
    }

    #[test]
    fn a_semicolon_after_a_blank_is_a_comment() {
        assert_eq!(
            kinds("; all\na; b ; c\n;d"),
            [(Kind::Ident, "a"), (Kind::Punct, ";"), (Kind::Ident, "b"), (Kind::End, "")]
        );
    }

    #[test]
    fn places_count_characters() {
        let tokens = lex("\"é\" x\n  y").expect("lexes");
        let places: Vec<_> = tokens.iter().map(|t| (t.line, t.column)).collect();
        assert_eq!(places, [(1, 1), (1, 5), (2, 3), (2, 4)]);
    }

    #[test]
    fn quoting_reads_back() {
        for text in ["", "plain", "a\"b\\c", "line\nend\t\r", "nul\0 bell\u{7} é 界", "\\u{41}"] {
            let quoted = quote(text);
            let tokens = lex(&quoted).expect("lexes");
            assert_eq!(tokens[0].content(), text, "{quoted}");
        }
        assert_eq!(quote_unless_bare("a.b"), "a.b");
        for name in ["0a", "", "a..b", "a.", ".a", "é"] {
            assert_eq!(quote_unless_bare(name), format!("\"{name}\""));
        }
    }

    #[test]
    fn bad_text_is_refused_with_its_place() {
        for (text, place) in [("a\n  \u{1}", (2, 3)), ("x \"open\n", (1, 3)), ("12ab", (1, 1)), ("0x", (1, 1))] {
            let error = lex(text).expect_err(text);
            assert_eq!((error.line, error.column), place, "{error}");
        }
    }
}
