//! Dim expressions: `s*4096 + floordiv(s, 2)`.
//!
//! ```text
//! sum     = ["-"] product {("+" | "-") product}
//! product = factor {"*" factor}
//! factor  = integer | symbol | "%" name | function "(" sum "," sum ")" | "(" sum ")"
//! ```
//! `%v` is the symbol `%v`, which Kernel IR uses for gathered integers. An expression has at most [`MAX_TOKENS`] tokens,
//! [`MAX_TERMS`] terms and [`MAX_DEPTH`] levels, so that hostile text costs little.

use std::str::FromStr;

use crate::dim::{Dim, DimFn};

use super::cursor::{Cursor, parse_magnitude};
use super::error::TextError;
use super::lexer::{Kind, Token};

/// Most tokens of one expression.
pub const MAX_TOKENS: usize = 1024;
/// Most terms of the normal form of any part of an expression.
pub const MAX_TERMS: usize = 256;
/// Most nested parentheses.
pub const MAX_DEPTH: usize = 48;

/// Reads a dim expression.
///
/// # Errors
/// The text is no dim expression, or a limit is passed.
pub fn parse_dim(cursor: &mut Cursor<'_>) -> Result<Dim, TextError> {
    Parser { cursor, tokens: 0, depth: 0 }.sum()
}

/// Reads `[dim, dim, …]`.
///
/// # Errors
/// As [`parse_dim`].
pub fn parse_shape(cursor: &mut Cursor<'_>) -> Result<Vec<Dim>, TextError> {
    cursor.expect("[")?;
    let mut shape = Vec::new();
    if cursor.eat("]") {
        return Ok(shape);
    }
    loop {
        shape.push(parse_dim(cursor)?);
        if cursor.eat("]") {
            return Ok(shape);
        }
        if !cursor.eat(",") {
            return Err(cursor.expected("`,` or `]`"));
        }
    }
}

impl FromStr for Dim {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut cursor = Cursor::new(text)?;
        let dim = parse_dim(&mut cursor)?;
        cursor.expect_end()?;
        Ok(dim)
    }
}

struct Parser<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    tokens: usize,
    depth: usize,
}

impl<'a> Parser<'_, 'a> {
    fn sum(&mut self) -> Result<Dim, TextError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_large("more nested parentheses than a dim may have"));
        }
        let mut total = Dim::constant(0);
        let mut negative = self.eat("-")?;
        loop {
            let product = self.product(negative)?;
            total = &total + &product;
            if total.term_count() > MAX_TERMS {
                return Err(self.too_large("more terms than a dim may have"));
            }
            negative = match () {
                () if self.eat("+")? => false,
                () if self.eat("-")? => true,
                () => break,
            };
        }
        self.depth -= 1;
        Ok(total)
    }

    /// Integer factors are multiplied apart, so that `-9223372036854775808` is in range.
    fn product(&mut self, negative: bool) -> Result<Dim, TextError> {
        let start = self.cursor.peek();
        let mut coefficient: i128 = if negative { -1 } else { 1 };
        let mut rest: Option<Dim> = None;
        loop {
            let token = self.cursor.peek();
            if token.kind == Kind::Int {
                self.take()?;
                let value = parse_magnitude(token.text).and_then(|m| coefficient.checked_mul(m));
                coefficient = value.ok_or_else(|| self.cursor.error_at(&token, "the integer does not fit 64 bits"))?;
            } else {
                let factor = self.factor()?;
                let product = match rest {
                    None => factor,
                    Some(product) if product.term_count() * factor.term_count() <= MAX_TERMS => &product * &factor,
                    Some(_) => return Err(self.too_large("more terms than a dim may have")),
                };
                rest = Some(product);
            }
            if !self.eat("*")? {
                break;
            }
        }
        let out_of_range = |_| self.cursor.error_at(&start, "the integer does not fit 64 bits");
        let coefficient = Dim::constant(i64::try_from(coefficient).map_err(out_of_range)?);
        Ok(match rest {
            Some(product) => &coefficient * &product,
            None => coefficient,
        })
    }

    fn factor(&mut self) -> Result<Dim, TextError> {
        let token = self.cursor.peek();
        match token.kind {
            Kind::Ident => {
                self.take()?;
                if !self.cursor.peek().is_punct("(") {
                    return Ok(Dim::symbol(token.text));
                }
                let function = DimFn::ALL.into_iter().find(|f| f.name() == token.text);
                let known = || DimFn::ALL.map(DimFn::name).join(", ");
                let unknown = || self.cursor.error_at(&token, format!("no function of dims; there are {}", known()));
                let function = function.ok_or_else(unknown)?;
                self.expect("(")?;
                let a = self.sum()?;
                self.expect(",")?;
                let b = self.sum()?;
                self.expect(")")?;
                Ok(Dim::function(function, &a, &b))
            }
            Kind::Value => {
                self.take()?;
                Ok(Dim::symbol(&format!("%{}", token.content())))
            }
            Kind::Punct if token.text == "(" => {
                self.take()?;
                let inner = self.sum()?;
                self.expect(")")?;
                Ok(inner)
            }
            _ => Err(self.cursor.expected("an integer, a symbol or `(`")),
        }
    }

    fn take(&mut self) -> Result<Token<'a>, TextError> {
        self.tokens += 1;
        if self.tokens > MAX_TOKENS {
            return Err(self.too_large("more tokens than a dim may have"));
        }
        Ok(self.cursor.take())
    }

    fn eat(&mut self, punct: &str) -> Result<bool, TextError> {
        let found = self.cursor.peek().is_punct(punct);
        if found {
            self.take()?;
        }
        Ok(found)
    }

    fn expect(&mut self, punct: &str) -> Result<(), TextError> {
        if self.eat(punct)? { Ok(()) } else { Err(self.cursor.expected(&format!("`{punct}`"))) }
    }

    fn too_large(&self, message: &str) -> TextError {
        self.cursor.error_at(&self.cursor.peek(), message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dim(text: &str) -> Dim {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn printed_dims_read_back() {
        let s = Dim::symbol("s");
        let half = Dim::function(DimFn::FloorDiv, &(&s + &Dim::constant(127)), &Dim::constant(128));
        let gathered = Dim::symbol("%3");
        let least = Dim::constant(i64::MIN);
        let odd = Dim::function(DimFn::Mod, &Dim::function(DimFn::Max, &s, &half), &Dim::constant(0));
        for d in [
            Dim::constant(0),
            Dim::constant(-7),
            Dim::constant(i64::MAX),
            least.clone(),
            &least * &s,
            s.clone(),
            &(&s * &s) - &Dim::constant(5),
            half.clone(),
            &(&half * &gathered) + &s,
            odd,
        ] {
            assert_eq!(dim(&d.to_string()), d, "{d}");
        }
    }

    #[test]
    fn written_dims_are_normalised() {
        assert_eq!(dim("s*4096 + floordiv(s, 2)").to_string(), dim("floordiv(s,2)+4096*s").to_string());
        assert_eq!(dim("(s + 1)*(s - 1)"), dim("s*s - 1"));
        assert_eq!(dim("- (2*3) * -1 + 0x10".replace("-1", "(-1)").as_str()), Dim::constant(22));
        assert_eq!(dim("floordiv(s*8, 4)"), dim("2*s"));
    }

    #[test]
    fn errors_name_the_place() {
        for (text, column, part) in [
            ("s +", 4, "expected an integer, a symbol or `(`, found the end of the text"),
            ("s s", 3, "expected the end of the text, found `s`"),
            ("gcd(s, 2)", 1, "floordiv, mod, max, min"),
            ("9223372036854775808", 1, "does not fit"),
            ("max(s, 2", 9, "expected `)`"),
        ] {
            let error = text.parse::<Dim>().expect_err(text);
            assert_eq!(error.column, column, "{error}");
            assert!(error.message.contains(part), "{error}");
        }
    }

    #[test]
    fn hostile_dims_are_refused_quickly() {
        let deep = "(".repeat(100_000);
        let wide: Vec<String> = (0..100_000).map(|i| format!("s{i}")).collect();
        let product: Vec<String> = (0..200).map(|i| format!("(a{i} + b{i})")).collect();
        for text in [deep, wide.join("+"), wide.join("*"), product.join("*"), "-1".repeat(100_000)] {
            assert!(text.parse::<Dim>().is_err());
        }
    }
}
