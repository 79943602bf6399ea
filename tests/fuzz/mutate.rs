//! Mutations of valid inputs, drawn from a generator with a fixed seed.

/// A SplitMix64 generator: every seed and case number starts its own sequence.
#[derive(Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of one case.
    pub fn new(seed: u64, case: u64) -> Self {
        let mut random = Random { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ case };
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % (n.max(1) as u64)) as usize
    }

    /// One of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Words that are likely to be handled wrongly: numbers at the edges, openers without closers, empty and long names.
const HOSTILE: [&str; 24] = [
    "0",
    "-1",
    "1",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551616",
    "1e400",
    "-0.0",
    "nan",
    "inf",
    "0x",
    "((((((((",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "%",
    "@",
    "\u{0}",
    "ä",
    "s*s*s*s*s*s*s*s",
];

/// `text` cut into words, numbers, blanks and single signs.
fn tokens(text: &str) -> Vec<&str> {
    let class = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' || c == '.' => 0,
        c if c.is_whitespace() => 1,
        _ => 2,
    };
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match class(first) {
            2 => first.len_utf8(),
            kind => rest.find(|c| class(c) != kind).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    tokens
}

/// Whether a token is a number.
fn is_number(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit())
}

/// One of `texts` with one to three changes: tokens dropped, doubled, swapped, replaced by hostile words or by tokens of
/// another text, or, most often, replaced by tokens of the same kind, which keeps the grammar and breaks the meaning.
pub fn text(random: &mut Random, texts: &[String]) -> String {
    let mut out: Vec<&str> = tokens(random.pick(texts).as_str());
    let donor = tokens(random.pick(texts).as_str());
    for _ in 0..=random.below(3) {
        let at = random.below(out.len());
        let end = (at + 1 + random.below(8)).min(out.len());
        match random.below(14) {
            0 => drop(out.drain(at..end)),
            1 => {
                let copy = out[at..end].to_vec();
                out.splice(at..at, copy);
            }
            2 => {
                let other = random.below(out.len());
                if !out.is_empty() {
                    out.swap(at, other);
                }
            }
            3 => drop(out.splice(at..(at + 1).min(out.len()), [*random.pick::<&str>(&HOSTILE)])),
            4 => drop(out.splice(at..(at + 1).min(out.len()), [*random.pick::<&str>(&donor)])),
            5 => out.truncate(at),
            6 => out.insert(at, *random.pick::<&str>(&donor)),
            _ => replace_by_kind(random, &mut out, &donor),
        }
    }
    out.concat()
}

/// Replaces a word by a word of `donor`, or a number by another one.
fn replace_by_kind<'a>(random: &mut Random, out: &mut [&'a str], donor: &[&'a str]) {
    const NUMBERS: [&str; 10] = ["0", "1", "2", "3", "5", "7", "63", "64", "65", "4097"];
    let named = |token: &&&str| token.starts_with(|c: char| c.is_alphanumeric());
    let places: Vec<usize> = (0..out.len()).filter(|&i| named(&&out[i])).collect();
    if places.is_empty() {
        return;
    }
    let at = *random.pick(&places);
    let same = |token: &&&str| named(token) && is_number(token) == is_number(out[at]);
    let mut choices: Vec<&str> = donor.iter().filter(same).copied().collect();
    if is_number(out[at]) {
        choices.extend(NUMBERS);
    }
    if !choices.is_empty() {
        out[at] = *random.pick::<&str>(&choices);
    }
}
