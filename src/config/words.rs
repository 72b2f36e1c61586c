//! Words of error messages: lists of names, and the name that was probably meant.

/// `one of a, b, c`.
pub(super) fn one_of(names: &[&str]) -> String {
    format!("one of {}", names.join(", "))
}

/// The key of `known` that `name` was probably meant to be, and a sentence that asks so.
pub(super) fn near_key<'a>(name: &str, known: &[&'a str]) -> Option<(&'a str, String)> {
    if let Some(key) = known.iter().find(|key| unit_is_missing(name, key)) {
        return Some((key, format!("did you mean `{key}`? Keys carry their unit")));
    }
    nearest(name, known).map(|key| (key, format!("did you mean `{key}`?")))
}

/// Whether `key` is `name` and a unit: `max_age_ms` for `max_age`.
fn unit_is_missing(name: &str, key: &str) -> bool {
    let unit = key.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
    matches!(unit, Some("ms" | "hz" | "m" | "px" | "deg" | "xyzw" | "rpy_deg"))
}

/// The name that `name` is most likely a misspelling of.
pub(crate) fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    // A name that is much longer than all others is none of them, and would take long to compare.
    let longest = names.iter().map(|known| known.len()).max()?;
    if name.len() > 2 * longest {
        return None;
    }
    let (distance, near) = names.iter().map(|known| (edits(name, known), *known)).min()?;
    let allowed = match name.len().min(near.len()) {
        0..=4 => 1,
        5..=11 => 2,
        _ => 3,
    };
    (distance <= allowed).then_some(near)
}

/// Levenshtein's distance: characters to insert, delete or replace to turn `a` into `b`.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.chars().count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_and_hints() {
        assert_eq!((edits("kitten", "sitting"), edits("", "ab"), edits("a", "a")), (3, 2, 0));
        assert_eq!(nearest("tpoic", &["type", "topic"]), Some("topic"));
        assert_eq!(nearest("banana", &["type", "topic"]), None);
        assert_eq!(nearest(&"type".repeat(1000), &["type", "topic"]), None);
        assert!(unit_is_missing("max_age", "max_age_ms") && unit_is_missing("rate", "rate_hz"));
        assert!(!unit_is_missing("max", "max_age_ms"));
    }
}
