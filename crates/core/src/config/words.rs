//! Words of error messages: lists of names, and the name that was probably meant.

/// `one of a, b, c`.
pub(super) fn one_of(names: &[&str]) -> String {
    format!("one of {}", names.join(", "))
}

/// Keys that are not misspelt but have another name here, and what that name takes.
const OTHER_NAMES: [(&str, &str, &str); 1] =
    [("topics", "inputs", "It is a list, and each input has a `topic`")];

/// The key of `known` that `name` was probably meant to be, and a sentence that asks so.
pub(super) fn near_key<'a>(name: &str, known: &[&'a str]) -> Option<(&'a str, String)> {
    if let Some(key) = known.iter().find(|key| unit_is_missing(name, key)) {
        return Some((key, format!("did you mean `{key}`? Keys carry their unit")));
    }
    let other = OTHER_NAMES.iter().find(|(other, ..)| *other == name);
    if let Some((key, takes)) =
        other.and_then(|(_, key, takes)| Some((*known.iter().find(|known| *known == key)?, takes)))
    {
        return Some((key, format!("did you mean `{key}`? {takes}")));
    }
    nearest(name, known).map(|key| (key, format!("did you mean `{key}`?")))
}

/// The type of `known` that the type `name` was probably meant to be. Types are compared without their packages: the
/// names of two types of a package are alike for that alone.
pub(super) fn near_type<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let own = |name: &str| name.rsplit('/').next().unwrap_or_default().to_lowercase();
    let wanted = own(name);
    let find = |wanted: &str| known.iter().copied().find(|known| own(known) == wanted);
    // Most types have a variant with a header, and that is the one that streams take.
    find(&wanted).or_else(|| find(&format!("{wanted}stamped"))).or_else(|| {
        let owns: Vec<String> = known.iter().map(|known| own(known)).collect();
        let owns: Vec<&str> = owns.iter().map(String::as_str).collect();
        find(nearest(&wanted, &owns)?)
    })
}

/// True if `key` is `name` and a unit: `max_age_ms` for `max_age`.
fn unit_is_missing(name: &str, key: &str) -> bool {
    let unit = key.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
    matches!(unit, Some("ms" | "hz" | "m" | "px" | "deg" | "xyzw" | "rpy_deg"))
}

/// The name that `name` is most likely a misspelling of.
pub fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    // A name that is much longer than all known names matches none of them, and would take long to compare.
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

/// Most names that a suggestion lists.
const LISTED: usize = 5;

/// A sentence that asks whether one of the `known` names was meant by `name`. If none is like it, the sentence lists
/// known names, the most similar ones first: `what` they are. `None` if no other name is known.
pub fn suggestion(name: &str, known: &[&str], what: &str) -> Option<String> {
    let mut known: Vec<&str> = known.iter().copied().filter(|known| *known != name).collect();
    known.sort_unstable();
    if let Some(near) = nearest(name, &known) {
        return Some(format!("did you mean {near}?"));
    }
    // A name that only lacks a part, or has one more, is many letters away.
    let mut ranked: Vec<(f64, &str)> =
        known.iter().map(|known| (common_parts(name, known), *known)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    match *ranked.first()? {
        (share, near) if share > 0.5 => Some(format!("did you mean {near}?")),
        _ => {
            let more = ranked.len().saturating_sub(LISTED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let listed: Vec<&str> = ranked.iter().take(LISTED).map(|(_, name)| *name).collect();
            Some(format!("{what}: {}{more}", listed.join(", ")))
        }
    }
}

/// Share of the parts, between slashes and underscores, that two names have in common.
fn common_parts(a: &str, b: &str) -> f64 {
    let parts = |name: &str| -> Vec<String> {
        let parts = name.split(['/', '_']).filter(|part| !part.is_empty());
        parts.map(str::to_lowercase).collect()
    };
    let a = parts(a);
    let mut b = parts(b);
    let most = a.len().max(b.len()).max(1);
    let mut common = 0;
    for part in &a {
        if let Some(at) = b.iter().position(|other| other == part) {
            b.swap_remove(at);
            common += 1;
        }
    }
    common as f64 / most as f64
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
mod tests;
