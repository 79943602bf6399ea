//! Names near to one that is not known.

/// Most names that are shown.
const SHOWN: usize = 3;

/// The known name nearest to `name`, unless they have little in common.
pub fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let few = name.chars().count().div_ceil(3).max(1);
    known
        .into_iter()
        .map(|other| (distance(name, other), other))
        .filter(|(far, _)| *far <= few)
        .min_by_key(|(far, _)| *far)
        .map(|(_, other)| other)
}

/// The known names nearest to `name`, nearest first, in words.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_by_key(|other| distance(name, other));
    let shown: Vec<String> = known.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    shown.join(", ")
}

/// Insertions, deletions and replacements of characters that lead from one name to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_little_in_common_is_not_near() {
        let known = ["to", "round", "saturate"];
        let found = ["t", "rond", "sturate", "speed", "x"].map(|name| near(name, known));
        assert_eq!(found, [Some("to"), Some("round"), Some("saturate"), None, None]);
    }

    #[test]
    fn the_nearest_come_first() {
        let known = ["rope", "rms_norm", "add_rms_norm", "silu_mul"];
        assert_eq!(nearest("rmsnorm", known), "`rms_norm`, `rope`, `add_rms_norm`");
        assert_eq!(nearest("rope", known).split(',').next(), Some("`rope`"));
        assert_eq!((distance("", "abc"), distance("abc", ""), distance("kitten", "sitting")), (3, 3, 3));
    }
}
