//! Counts: numbers of rows, blocks and elements as expressions over a kernel's integer arguments.
//!
//! The compiler writes them, the runtime evaluates them at launch; so neither symbols nor shapes cross.

use std::fmt;

/// An integer expression over the integer arguments of a kernel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Count {
    /// A known number.
    Constant(i64),
    /// The integer argument of that position.
    Dim(usize),
    /// A function of two counts.
    Binary(CountOp, Box<Count>, Box<Count>),
}

/// Functions of two counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CountOp {
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// Quotient rounded toward minus infinity.
    FloorDiv,
    /// Remainder with the sign of the divisor.
    Mod,
    /// The larger.
    Max,
    /// The smaller.
    Min,
}

impl CountOp {
    const ALL: [CountOp; 6] = [CountOp::Add, CountOp::Mul, CountOp::FloorDiv, CountOp::Mod, CountOp::Max, CountOp::Min];

    /// Name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            CountOp::Add => "add",
            CountOp::Mul => "mul",
            CountOp::FloorDiv => "floordiv",
            CountOp::Mod => "mod",
            CountOp::Max => "max",
            CountOp::Min => "min",
        }
    }

    fn apply(self, a: i64, b: i64) -> Option<i64> {
        match self {
            CountOp::Add => a.checked_add(b),
            CountOp::Mul => a.checked_mul(b),
            CountOp::FloorDiv => {
                let (q, r) = (a.checked_div(b)?, a.checked_rem(b)?);
                Some(if r != 0 && (r < 0) != (b < 0) { q - 1 } else { q })
            }
            CountOp::Mod => {
                let r = a.checked_rem(b)?;
                Some(if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
            }
            CountOp::Max => Some(a.max(b)),
            CountOp::Min => Some(a.min(b)),
        }
    }
}

impl Count {
    /// The value for concrete integer arguments; `None` for an argument that is missing, a zero divisor or a value
    /// beyond 64 bits.
    pub fn eval(&self, dims: &[i64]) -> Option<i64> {
        match self {
            Count::Constant(value) => Some(*value),
            Count::Dim(index) => dims.get(*index).copied(),
            Count::Binary(op, a, b) => op.apply(a.eval(dims)?, b.eval(dims)?),
        }
    }

    /// The value as a number of things: zero where it is negative or has none.
    pub fn count(&self, dims: &[i64]) -> usize {
        self.eval(dims).and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
    }
}

impl Count {
    /// The expression with the names of the integer arguments: `add(mul(s, 4), 1)`.
    pub fn with_names(&self, names: &[&str]) -> String {
        match self {
            Count::Constant(value) => value.to_string(),
            Count::Dim(index) => names.get(*index).map_or_else(|| format!("d{index}"), ToString::to_string),
            Count::Binary(op, a, b) => format!("{}({}, {})", op.name(), a.with_names(names), b.with_names(names)),
        }
    }
}

/// How deep the functions of an expression that is read may lie in one another.
const DEPTH: usize = 64;

impl Count {
    /// Reads what [`Count::with_names`] writes. `None` for any other text, an unknown name, or functions in one another
    /// more than 64 deep.
    pub fn parse(text: &str, names: &[&str]) -> Option<Count> {
        let (count, rest) = Count::parse_one(text, names, DEPTH)?;
        rest.is_empty().then_some(count)
    }

    /// The expression that a text begins with, and what is behind it.
    fn parse_one<'a>(text: &'a str, names: &[&str], depth: usize) -> Option<(Count, &'a str)> {
        let (word, rest) = text.split_at(text.find(['(', ')', ',']).unwrap_or(text.len()));
        let Some(operands) = rest.strip_prefix('(') else {
            let dim = || names.iter().position(|name| *name == word).map(Count::Dim);
            return Some((word.parse().ok().map(Count::Constant).or_else(dim)?, rest));
        };
        let op = CountOp::ALL.into_iter().find(|op| op.name() == word)?;
        let (a, rest) = Count::parse_one(operands, names, depth.checked_sub(1)?)?;
        let (b, rest) = Count::parse_one(rest.strip_prefix(", ")?, names, depth - 1)?;
        Some((Count::Binary(op, Box::new(a), Box::new(b)), rest.strip_prefix(')')?))
    }
}

impl fmt::Display for Count {
    /// `dN` stands for integer argument N: `add(mul(d0, 4), 1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_names(&[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(op: CountOp, a: Count, b: Count) -> Count {
        Count::Binary(op, Box::new(a), Box::new(b))
    }

    #[test]
    fn values_follow_the_arguments() {
        let padded =
            binary(CountOp::FloorDiv, binary(CountOp::Add, Count::Dim(0), Count::Constant(3)), Count::Constant(4));
        assert_eq!(padded.to_string(), "floordiv(add(d0, 3), 4)");
        assert_eq!(padded.with_names(&["s"]), "floordiv(add(s, 3), 4)");
        assert_eq!([0, 1, 4, 5].map(|n| padded.count(&[n])), [0, 1, 1, 2]);
        assert_eq!(binary(CountOp::Mod, Count::Constant(-7), Count::Constant(2)).eval(&[]), Some(1));
    }

    #[test]
    fn print_and_parse_agree() {
        let rows = binary(CountOp::Add, Count::Dim(1), Count::Constant(-3));
        for op in CountOp::ALL {
            let count = binary(op, binary(op, Count::Dim(0), rows.clone()), Count::Dim(1));
            assert_eq!(Count::parse(&count.with_names(&["s", "t"]), &["s", "t"]), Some(count));
        }
        for text in
            ["", "u", "add(s)", "add(s, 1", "add(s, 1))", "pow(s, 1)", "add(s,1)", "s 1", "99999999999999999999"]
        {
            assert_eq!(Count::parse(text, &["s"]), None, "{text}");
        }
        let nested = |depth: usize| format!("{}s{}", "add(".repeat(depth), ", 1)".repeat(depth));
        assert!(Count::parse(&nested(DEPTH), &["s"]).is_some());
        assert_eq!(Count::parse(&nested(100_000), &["s"]), None);
    }

    #[test]
    fn what_has_no_value_counts_nothing() {
        assert_eq!(Count::Dim(1).count(&[5]), 0);
        assert_eq!(binary(CountOp::FloorDiv, Count::Constant(1), Count::Constant(0)).eval(&[]), None);
        assert_eq!(binary(CountOp::Mul, Count::Constant(i64::MAX), Count::Constant(2)).eval(&[]), None);
        assert_eq!(Count::Constant(-3).count(&[]), 0);
    }
}
