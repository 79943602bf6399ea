//! Rust text seen as code only: comments and literals blanked, test items blanked, words found whole.
//!
//! A scanner of a dozen token shapes, not a parser. It relies on the text being Rust that compiles.

/// `text` with comments and the insides of string and character literals replaced by blanks, line breaks kept.
pub fn mask(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skip(&chars, at);
        if end > at {
            out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            // A whole word at once, so that the `r` of `for` does not open a raw string.
            let word = chars[at..].iter().take_while(|&&c| is_word(c)).count().max(1);
            out.extend(&chars[at..at + word]);
            at += word;
        }
    }
    out
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn skip(chars: &[char], at: usize) -> usize {
    let peek = |n: usize| chars.get(at + n).copied().unwrap_or('\0');
    match (peek(0), peek(1)) {
        ('/', '/') => chars[at..].iter().position(|&c| c == '\n').map_or(chars.len(), |n| at + n),
        ('/', '*') => skip_block_comment(chars, at),
        ('"', _) => skip_string(chars, at + 1),
        ('b' | 'c', '"') => skip_string(chars, at + 2),
        ('b', '\'') => skip_char(chars, at + 1).unwrap_or(at),
        ('r', '"' | '#') => skip_raw_string(chars, at + 1).unwrap_or(at),
        ('b' | 'c', 'r') if matches!(peek(2), '"' | '#') => skip_raw_string(chars, at + 2).unwrap_or(at),
        ('\'', _) => skip_char(chars, at).unwrap_or(at),
        _ => at,
    }
}

fn skip_block_comment(chars: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(chars.len())
}

/// `at` is behind the opening quote.
fn skip_string(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// `at` is behind the `r`. A raw identifier is no string.
fn skip_raw_string(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return None;
    }
    let body = at + hashes + 1;
    let closes =
        |&i: &usize| chars[i] == '"' && chars[i + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes;
    Some((body..chars.len()).find(closes).map_or(chars.len(), |i| i + 1 + hashes))
}

/// `at` is on the quote. A lifetime is no character.
fn skip_char(chars: &[char], at: usize) -> Option<usize> {
    match (chars.get(at + 1)?, chars.get(at + 2)?) {
        ('\\', _) => (at + 3..chars.len()).find(|&i| chars[i] == '\'').map(|i| i + 1),
        (_, '\'') => Some(at + 3),
        _ => None,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Byte offsets at which `needle` stands in `text` and is not part of a longer word.
pub fn words<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(needle).map(|(at, _)| at).filter(move |&at| {
        let joins =
            |inside: Option<char>, outside: Option<char>| inside.is_some_and(is_word) && outside.is_some_and(is_word);
        !joins(needle.chars().next(), text[..at].chars().next_back())
            && !joins(needle.chars().next_back(), text[at + needle.len()..].chars().next())
    })
}

/// The line, from 1, of a byte offset.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Whether the whole file is test code.
pub fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "benches" || part == "tests.rs")
}

/// `code` (masked) with every item under `#[cfg(test)]` blanked.
pub fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find(MARK) {
        let (before, item) = rest.split_at(start);
        let (item, after) = item.split_at(item_end(item));
        out.push_str(before);
        out.extend(item.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The end of the item that `code` starts with: behind its first `;` or its first closed brace pair.
fn item_end(code: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `code` is what is left, written with single blanks; lengths and line breaks stay.
    #[track_caller]
    fn check_mask(text: &str, code: &str) {
        let masked = mask(text);
        assert_eq!(masked.split_whitespace().collect::<Vec<_>>().join(" "), code);
        assert_eq!(masked.chars().count(), text.chars().count());
        assert_eq!(masked.lines().count(), text.lines().count());
    }

    #[test]
    fn comments_and_literals_are_blank() {
        check_mask("a // b\nc", "a c");
        check_mask("a /* b /* c */\n d */ e", "a e");
        check_mask(r#"f("un\"safe", 'x', b'\'', '\\', "ä")"#, "f( , , , , )");
        check_mask("r\"a\\\" br#\"b\"c\"# cr\"\" r#type", "r#type");
        check_mask("for\"x\" 'a: loop", "for 'a: loop");
        check_mask("a /* open", "a");
        check_mask("a \"open \\", "a");
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("unsafe unsafe_code (unsafe)", "unsafe").collect::<Vec<_>>(), [0, 20]);
        assert_eq!(words("a.unwrap() unwrap()", ".unwrap()").collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn test_items_are_blank() {
        let code =
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c } }\nfn d() {}\n#[cfg(test)]\nmod tests;\nfn e() {}";
        let left = without_tests(code);
        assert_eq!(
            left.split_whitespace().collect::<Vec<_>>(),
            ["fn", "a()", "{}", "fn", "d()", "{}", "fn", "e()", "{}"]
        );
        assert_eq!(left.lines().count(), code.lines().count());
    }
}
