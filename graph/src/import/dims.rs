//! Sizes as text: the `srepr` of a sympy integer expression, read into a [`Dim`].
//!
//! Heads: `Symbol`, `Integer`, the integer constants `Zero`, `One`, `NegativeOne`, `Add`, `Mul`, `Pow` with a small
//! literal exponent, `FloorDiv`, `CleanDiv`, `CeilDiv`, `Mod`, `PythonMod`, `Max` and `Min`. Keyword
//! arguments such as `positive=True` are assumptions and are skipped.

use crate::dim::{Dim, DimFn};

/// Nesting that no real shape expression comes near.
const MAX_DEPTH: usize = 64;
/// Terms beyond which a product is refused instead of multiplied out; operands of one sum or product at most.
const MAX_TERMS: usize = 256;
const TOO_MANY: &str = "has too many terms";
/// Sum of powers beyond which a product is refused.
const MAX_DEGREE: u32 = 32;
/// Characters of a file's text that a message repeats.
const MAX_REPEATED: usize = 80;

/// As much of a text as tells which one it is.
pub(super) fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_REPEATED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Reads an expression.
///
/// # Errors
/// Text that is not an expression, an unknown head, or an expression that is too deep or too large.
pub(super) fn parse(text: &str) -> Result<Dim, String> {
    let mut parser = Parser { text, at: 0 };
    let dim = parser.expr(0)?;
    parser.skip_space();
    match parser.text.len() - parser.at {
        0 => Ok(dim),
        _ => Err(parser.error("the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn expr(&mut self, depth: usize) -> Result<Dim, String> {
        if depth > MAX_DEPTH {
            return Err("is nested too deeply".into());
        }
        let head = self.word();
        match head {
            "" => Err(self.error("an expression")),
            "Symbol" => {
                self.expect('(')?;
                let name = self.quoted()?;
                self.skip_assumptions()?;
                Ok(Dim::symbol(name))
            }
            "Integer" => {
                self.expect('(')?;
                let value = self.integer()?;
                self.expect(')')?;
                Ok(Dim::constant(value))
            }
            "Zero" | "One" | "NegativeOne" => {
                if self.accept('(') {
                    self.expect(')')?;
                }
                Ok(Dim::constant(match head {
                    "Zero" => 0,
                    "One" => 1,
                    _ => -1,
                }))
            }
            _ => {
                self.expect('(')?;
                let args = self.args(depth)?;
                apply(head, &args)
            }
        }
    }

    /// Arguments up to the closing parenthesis.
    fn args(&mut self, depth: usize) -> Result<Vec<Dim>, String> {
        let mut args = Vec::new();
        loop {
            if self.accept(')') {
                return Ok(args);
            }
            let before = self.at;
            if !self.word().is_empty() && self.accept('=') {
                self.word();
            } else {
                self.at = before;
                args.push(self.expr(depth + 1)?);
            }
            if args.len() > MAX_TERMS {
                return Err(TOO_MANY.into());
            }
            if !self.accept(',') {
                self.expect(')')?;
                return Ok(args);
            }
        }
    }

    /// `, name=value` pairs and the closing parenthesis.
    fn skip_assumptions(&mut self) -> Result<(), String> {
        while self.accept(',') {
            self.word();
            if self.accept('=') {
                self.word();
            }
        }
        self.expect(')')
    }

    fn quoted(&mut self) -> Result<&'a str, String> {
        self.skip_space();
        let quote = match self.rest().chars().next() {
            Some(c @ ('\'' | '"')) => c,
            _ => return Err(self.error("a quoted name")),
        };
        let body = &self.rest()[1..];
        let end = body.find(quote).ok_or_else(|| self.error("a closing quote"))?;
        let name = &body[..end];
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !plain || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("`{}` is not a symbol name", clipped(name).escape_debug()));
        }
        self.at += end + 2;
        Ok(name)
    }

    fn integer(&mut self) -> Result<i64, String> {
        self.skip_space();
        let digits = self.rest().bytes().take_while(|b| b.is_ascii_digit() || *b == b'-').count();
        let text = &self.rest()[..digits];
        let value = text.parse().map_err(|_| self.error("a 64-bit integer"))?;
        self.at += digits;
        Ok(value)
    }

    fn word(&mut self) -> &'a str {
        self.skip_space();
        let length = self.rest().bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')).count();
        let word = &self.rest()[..length];
        self.at += length;
        word
    }

    fn accept(&mut self, token: char) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len_utf8();
        }
        found
    }

    fn expect(&mut self, token: char) -> Result<(), String> {
        if self.accept(token) { Ok(()) } else { Err(self.error(&format!("`{token}`"))) }
    }

    fn skip_space(&mut self) {
        self.at += self.rest().bytes().take_while(u8::is_ascii_whitespace).count();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, expected: &str) -> String {
        let rest: String = self.rest().chars().take(24).collect();
        format!("expected {expected} at byte {}, found `{rest}`", self.at)
    }
}

/// The value of `head(args)`.
fn apply(head: &str, args: &[Dim]) -> Result<Dim, String> {
    let two = || match args {
        [a, b] => Ok((a, b)),
        _ => Err(format!("`{head}` takes 2 arguments, got {}", args.len())),
    };
    match head {
        "Add" => args.iter().try_fold(Dim::constant(0), |sum, d| bounded(&sum + d)),
        "Mul" => args.iter().try_fold(Dim::constant(1), |product, d| times(&product, d)),
        "Pow" => {
            let (base, exponent) = two()?;
            let n = exponent.as_const().filter(|n| (0..=i64::from(MAX_DEGREE)).contains(n));
            let n = n.ok_or_else(|| {
                format!("exponent `{}` is not a small natural number", clipped(&exponent.to_string()))
            })?;
            (0..n).try_fold(Dim::constant(1), |product, _| times(&product, base))
        }
        "FloorDiv" | "CleanDiv" => two().map(|(a, b)| Dim::function(DimFn::FloorDiv, a, b)),
        "CeilDiv" => two().map(|(a, b)| a.ceil_div(b)),
        "Mod" | "PythonMod" => two().map(|(a, b)| Dim::function(DimFn::Mod, a, b)),
        "Max" | "Min" => {
            let function = if head == "Max" { DimFn::Max } else { DimFn::Min };
            let (first, rest) = args.split_first().ok_or_else(|| format!("`{head}` of nothing"))?;
            Ok(rest.iter().fold(first.clone(), |acc, d| Dim::function(function, &acc, d)))
        }
        _ => Err(format!("`{}` is not supported in a size", clipped(head))),
    }
}

fn times(a: &Dim, b: &Dim) -> Result<Dim, String> {
    let terms = a.term_count().saturating_mul(b.term_count());
    let degree = a.degree().saturating_add(b.degree());
    if terms > MAX_TERMS || degree > MAX_DEGREE { Err(TOO_MANY.into()) } else { Ok(a * b) }
}

fn bounded(dim: Dim) -> Result<Dim, String> {
    if dim.term_count() > MAX_TERMS { Err(TOO_MANY.into()) } else { Ok(dim) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reads(text: &str, expected: &str) {
        assert_eq!(parse(text).map(|d| d.to_string()), Ok(expected.to_owned()), "{text}");
    }

    #[test]
    fn expressions() {
        reads("Symbol('s17', positive=True, integer=True)", "s17");
        reads("Integer(-3)", "-3");
        reads("Mul(Integer(2), Symbol('s12', positive=True, integer=True))", "s12*2");
        reads("Add(Symbol(\"s1\"), Integer(1), Mul(Integer(-1), Symbol('s1')))", "1");
        reads("Pow(Symbol('s1', integer=True), Integer(2))", "s1*s1");
        reads("FloorDiv(Add(Symbol('u0'), Integer(3)), Integer(4))", "floordiv(u0 + 3, 4)");
        reads("Mod(Symbol('s0'), Integer(8))", "mod(s0, 8)");
        reads("Max(Integer(1), Symbol('s0'), evaluate=False)", "max(1, s0)");
        reads(" Min ( Integer(4) , Integer(9) , Integer(2) ) ", "2");
        reads("CeilDiv(Mul(Integer(8), Symbol('s0')), Integer(4))", "s0*2");
    }

    #[test]
    fn messages_repeat_no_more_than_tells_what_is_meant() {
        let deep = "Add(".repeat(10_000);
        let size = |text: &str| super::super::types::dim(&crate::import::schema::SymInt::Expr(text.to_owned()));
        let error = size(&deep).expect_err("it is nested too deeply");
        assert!(error.starts_with("size `Add(Add(") && error.ends_with("…` is nested too deeply"), "{error}");
        let (head, name) = ("a".repeat(10_000), format!("Symbol('{}')", "é".repeat(10_000)));
        for text in [format!("{head}(Integer(1))"), name, format!("Pow(Integer(2), Symbol('{head}'))")] {
            let error = size(&text).expect_err("it is no size");
            assert!(error.chars().count() < 300, "{error}");
        }
        assert_eq!(clipped("Integer(1"), "Integer(1");
    }

    #[test]
    fn refusals() {
        for text in [
            "",
            "Symbol(",
            "Symbol(s)",
            "Symbol('a b')",
            "Symbol('')",
            "Integer(99999999999999999999)",
            "Integer(1) x",
            "Pow(Symbol('s'), Symbol('t'))",
            "Pow(Integer(2), Integer(1000000000))",
            "Pow(Pow(Symbol('s'), Integer(16)), Integer(16))",
            "Rational(1, 2)",
            "Mod(Symbol('s'))",
            "Max()",
            "Mul(Integer(2), ",
            "é",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        assert!(parse(&"Add(".repeat(100_000)).is_err());
        let alike = |n: usize| parse(&format!("Add({})", vec!["Symbol('s')"; n].join(", ")));
        assert!(alike(MAX_TERMS).is_ok());
        assert_eq!(alike(MAX_TERMS + 1), Err(TOO_MANY.into()));
        let sum = |tag: &str| {
            let symbols: Vec<String> = (0..40).map(|i| format!("Symbol('{tag}{i}')")).collect();
            format!("Add({})", symbols.join(", "))
        };
        assert!(parse(&format!("Mul({}, {})", sum("a"), sum("b"))).is_err());
    }

    #[test]
    fn large_coefficients_do_not_overflow() {
        let big = i64::MAX;
        assert!(parse(&format!("Mul(Integer({big}), Integer({big}), Symbol('s'))")).is_ok());
        assert!(parse(&format!("Add(Integer({big}), Integer({big}))")).is_ok());
    }
}
