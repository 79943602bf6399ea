//! Versions of CANN, as its files and its users write them: `8.1.RC1`, `8.5.0`, `9.1.0-beta.1`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A version of CANN. Releases come behind their candidates and betas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CannVersion {
    numbers: [u32; 3],
    /// `RC1.alpha001`, `beta.1`; empty for a release.
    tail: String,
}

impl CannVersion {
    /// The first version with a front end that compiles kernels and their host in one source, and `--npu-arch`.
    pub const FRONT_END: CannVersion = CannVersion { numbers: [8, 5, 0], tail: String::new() };

    /// A release.
    pub const fn release(major: u32, minor: u32, patch: u32) -> Self {
        CannVersion { numbers: [major, minor, patch], tail: String::new() }
    }

    /// Whether this version, or a candidate or beta of it, is at least a release.
    pub fn reaches(&self, release: &CannVersion) -> bool {
        self.numbers >= release.numbers
    }
}

impl FromStr for CannVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no version of CANN such as 8.1.RC1 or 9.0.0");
        let mut numbers = [0; 3];
        let mut rest = text.trim();
        let mut read = 0;
        while read < numbers.len() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if digits == 0 {
                break;
            }
            numbers[read] = rest[..digits].parse().map_err(|_| wrong())?;
            read += 1;
            rest = &rest[digits..];
            let Some(behind) = rest.strip_prefix('.') else { break };
            rest = behind;
        }
        let tail = rest.trim_start_matches(['-', '.']);
        let plain = tail.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+'));
        if read < 2 || !plain {
            return Err(wrong());
        }
        Ok(CannVersion { numbers, tail: tail.to_owned() })
    }
}

impl fmt::Display for CannVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        match self.tail.as_str() {
            "" => write!(f, "{major}.{minor}.{patch}"),
            tail if tail.starts_with("RC") && patch == 0 => write!(f, "{major}.{minor}.{tail}"),
            tail => write!(f, "{major}.{minor}.{patch}-{tail}"),
        }
    }
}

impl PartialOrd for CannVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CannVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        let released = |v: &CannVersion| v.tail.is_empty();
        let key = |v: &CannVersion| (v.numbers, released(v));
        key(self).cmp(&key(other)).then_with(|| self.tail.cmp(&other.tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> CannVersion {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn versions_read_and_print_as_they_are_written() {
        for text in ["8.1.RC1", "8.5.0", "9.1.0-beta.1", "8.0.RC2.alpha001", "8.2.RC1"] {
            assert_eq!(version(text).to_string(), text);
        }
        assert_eq!(version("9.0").to_string(), "9.0.0");
        for text in ["", "9", "RC1", "nine.0", "8.1.RC1; rm"] {
            assert!(text.parse::<CannVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn releases_come_behind_what_leads_to_them() {
        let ordered = ["8.0.RC2", "8.0.0", "8.1.RC1", "8.5.0", "9.0.0", "9.1.0-beta.1", "9.1.0-beta.3", "9.1.0"];
        for pair in ordered.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
        assert!(version("8.5.0").reaches(&CannVersion::FRONT_END));
        assert!(version("8.5.0-beta.1").reaches(&CannVersion::FRONT_END));
        assert!(!version("8.3.RC1").reaches(&CannVersion::FRONT_END));
    }
}
