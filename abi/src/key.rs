//! Content keys: 32 bytes that name a kernel by everything that changes it.
//!
//! The hash itself is computed by the compiler; here it is only carried, compared and printed.

use std::fmt;
use std::str::FromStr;

/// SHA-256 of the canonical text of what is named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentKey(pub [u8; 32]);

impl ContentKey {
    /// The first 12 hexadecimal digits, enough for file and symbol names.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for ContentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentKey({self})")
    }
}

/// The text is no content key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseKeyError(pub String);

impl fmt::Display for ParseKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no content key: 64 hexadecimal digits in lower case", self.0)
    }
}

impl std::error::Error for ParseKeyError {}

impl FromStr for ContentKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseKeyError(text.to_owned());
        let digit = |c: u8| match c {
            b'0'..=b'9' => Some(c - b'0'),
            b'a'..=b'f' => Some(c - b'a' + 10),
            _ => None,
        };
        let digits: Option<Vec<u8>> = text.bytes().map(digit).collect();
        let digits = digits.filter(|digits| digits.len() == 64).ok_or_else(error)?;
        let mut key = [0; 32];
        key.iter_mut().zip(digits.chunks(2)).for_each(|(byte, pair)| *byte = pair[0] << 4 | pair[1]);
        Ok(ContentKey(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn print_and_parse_agree() {
        let key = ContentKey(std::array::from_fn(|i| (i * 37) as u8));
        assert_eq!(key.to_string().parse(), Ok(key));
        for text in ["", "00", &"0".repeat(63), &"0".repeat(65), &"A".repeat(64), &"é".repeat(32)] {
            assert!(text.parse::<ContentKey>().is_err(), "{text}");
        }
    }
}
