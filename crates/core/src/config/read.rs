//! Reads typed values from the tree. Each value that cannot be read is reported, and the others are
//! read all the same.

use serde::de::DeserializeOwned;
use serde::de::value::{Error, StrDeserializer};

use super::check::Check;
use super::mapping::AllKeys;
use super::node::{Node, Value, join};
use super::words::{near_key, nearest, one_of};

/// A type of values in a configuration.
pub(super) trait Read: Sized {
    /// Reads the value at a key path. If it cannot, it reports what is wrong and returns `None`.
    fn read(check: &mut Check<'_>, key: &str, node: &Node) -> Option<Self>;

    /// Notes the keys that a value at this path may have.
    fn keys(_path: &str, _all: &mut AllKeys) {}
}

/// Reads the value of a key of `node`, a mapping at `path`. `None` if it has no such key, or if the
/// value cannot be read. Then [`Check::is_unread`] tells, and no other problem is reported there.
pub(super) fn field<T: Read>(
    check: &mut Check<'_>,
    path: &str,
    node: &Node,
    key: &str,
) -> Option<T> {
    let value = node.get(key)?;
    let path = join(path, key);
    let read = T::read(check, &path, value);
    if read.is_none() {
        check.set_unread(path);
    }
    read
}

/// Reports that a value is no mapping, or which of its keys are not `known`. The reports list the
/// keys `listed`.
pub(super) fn check_keys(
    check: &mut Check<'_>,
    path: &str,
    node: &Node,
    known: &[&str],
    listed: &[&str],
) -> Option<()> {
    let Some(entries) = node.entries() else {
        check.fail(path, expected_or_value(node, "a mapping"));
        return None;
    };
    for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        let near = near_key(&entry.key, listed);
        let expected = match near {
            Some(_) => "a known key".into(),
            None => format!("a known key, {}", one_of(listed)),
        };
        check.fail_found(&join(path, &entry.key), expected, format!("`{}`", entry.key));
        if let Some((key, hint)) = near {
            check.hint(hint);
            // That it is missing need not be said, too.
            if node.get(key).is_none() {
                check.set_unread(join(path, key));
            }
        }
    }
    Some(())
}

/// True if a node has no value: it is an empty plain scalar, or a null.
fn is_nothing(node: &Node) -> bool {
    let nothing = ["", "~", "null", "Null", "NULL"];
    matches!(&node.value, Value::Scalar { text, plain: true } if nothing.contains(&text.as_str()))
}

/// Words for what an error expects: `expected`, or any value if the value is missing.
fn expected_or_value<'a>(node: &Node, expected: &'a str) -> &'a str {
    if is_nothing(node) { "a value" } else { expected }
}

fn fail<T>(check: &mut Check<'_>, key: &str, node: &Node, expected: &str) -> Option<T> {
    match is_nothing(node) {
        true => check.fail_found(key, "a value", "nothing"),
        false => check.fail(key, expected),
    }
    None
}

/// The text of a plain scalar.
fn plain(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, plain: true } => Some(text),
        _ => None,
    }
}

impl Read for f64 {
    fn read(check: &mut Check<'_>, key: &str, node: &Node) -> Option<Self> {
        let text = plain(node).unwrap_or_default();
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        if [".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"].contains(&unsigned) {
            return fail(check, key, node, "a finite number");
        }
        // YAML writes numbers as Rust does, but not `inf` and `nan`.
        let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let number = match whole(text) {
            Some(number) => Some(number as f64),
            None => text.parse::<f64>().ok().filter(|number| is_number && number.is_finite()),
        };
        number.or_else(|| fail(check, key, node, "a number"))
    }
}

impl Read for i64 {
    fn read(check: &mut Check<'_>, key: &str, node: &Node) -> Option<Self> {
        let number = plain(node).and_then(whole).and_then(|number| i64::try_from(number).ok());
        number.or_else(|| fail(check, key, node, "a whole number"))
    }
}

/// A whole number of YAML's core schema: decimal, `0x1f` or `0o17`.
fn whole(text: &str) -> Option<i128> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match unsigned.split_at_checked(2) {
        Some(("0x", digits)) => (digits, 16),
        Some(("0o", digits)) => (digits, 8),
        _ => (unsigned, 10),
    };
    // `from_str_radix` takes a sign of its own.
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    Some(if negative { -magnitude } else { magnitude })
}

impl Read for bool {
    fn read(check: &mut Check<'_>, key: &str, node: &Node) -> Option<Self> {
        match plain(node) {
            Some("true" | "True" | "TRUE") => Some(true),
            Some("false" | "False" | "FALSE") => Some(false),
            _ => fail(check, key, node, "true or false"),
        }
    }
}

impl Read for String {
    fn read(check: &mut Check<'_>, key: &str, node: &Node) -> Option<Self> {
        match node.scalar() {
            Some(text) if !is_nothing(node) => Some(text.into()),
            _ => fail(check, key, node, "text"),
        }
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(check: &mut Check<'_>, key: &str, node: &Node) -> Option<Self> {
        let Value::List(nodes) = &node.value else { return fail(check, key, node, "a list") };
        let read = nodes.iter().enumerate().map(|(at, node)| {
            let key = format!("{key}[{at}]");
            T::read(check, &key, node)
        });
        // All are read before it stops at one that cannot be.
        read.collect::<Vec<Option<T>>>().into_iter().collect()
    }

    fn keys(path: &str, all: &mut AllKeys) {
        T::keys(path, all);
    }
}

/// A mapping from names of the user's choice, in the order of the file.
pub(super) struct InOrder<T>(pub Vec<(String, T)>);

/// A value of an [`InOrder`] mapping.
pub(super) trait Named {
    /// The mapping that an error expects, in words.
    const EXPECTED: &str;
}

/// If a value cannot be read, [`Check::is_unread`] says so of the mapping; the others are there.
impl<T: Read + Named> Read for InOrder<T> {
    fn read(check: &mut Check<'_>, key: &str, node: &Node) -> Option<Self> {
        let Some(entries) = node.entries() else { return fail(check, key, node, T::EXPECTED) };
        let mut read = Vec::with_capacity(entries.len());
        for entry in entries {
            match T::read(check, &join(key, &entry.key), &entry.node) {
                Some(value) => read.push((entry.key.clone(), value)),
                None => check.set_unread(key.to_owned()),
            }
        }
        Some(InOrder(read))
    }

    fn keys(path: &str, all: &mut AllKeys) {
        T::keys(path, all);
    }
}

/// Reads one of the words of an enumeration, by the names that serde has for them.
pub(super) fn word<T: DeserializeOwned>(
    check: &mut Check<'_>,
    key: &str,
    node: &Node,
) -> Option<T> {
    let Some(text) = node.scalar().filter(|_| !is_nothing(node)) else {
        return fail(check, key, node, "a word");
    };
    let error = match T::deserialize(StrDeserializer::<Error>::new(text)) {
        Ok(value) => return Some(value),
        Err(error) => error.to_string(),
    };
    // "unknown variant `relaible`, expected `best_effort` or `reliable`"
    let known = error.rsplit_once("expected").map_or("", |(_, known)| known);
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    check.fail(key, one_of(&known));
    if let Some(near) = nearest(text, &known) {
        check.hint(format!("did you mean `{near}`?"));
    }
    None
}

#[cfg(test)]
mod tests;
