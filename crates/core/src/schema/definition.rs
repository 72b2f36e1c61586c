//! The text of a `.msg` file: <https://design.ros2.org/articles/legacy_interface_definition.html>.
//!
//! Only types and names of members count here. Constants and default values are not read, so their
//! many notations (hexadecimal, quoted text with any character) cannot be read wrongly.

use super::{Count, Number};

/// A member as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    pub name: String,
    pub element: Element,
    pub count: Count,
}

/// The type of a member as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Number(Number),
    Text,
    WideText,
    /// Another type, as `package/msg/Type`.
    Type(String),
}

const NUMBERS: [(&str, Number); 13] = [
    ("bool", Number::Bool),
    ("uint8", Number::U8),
    ("byte", Number::U8),
    ("char", Number::U8),
    ("int8", Number::I8),
    ("uint16", Number::U16),
    ("int16", Number::I16),
    ("uint32", Number::U32),
    ("int32", Number::I32),
    ("uint64", Number::U64),
    ("int64", Number::I64),
    ("float32", Number::F32),
    ("float64", Number::F64),
];

/// The name of a number's type.
pub(super) fn name_of(number: Number) -> &'static str {
    NUMBERS.iter().find(|(_, known)| *known == number).map_or("", |(name, _)| name)
}

/// Reads the members of a definition. Types without a package are of `package`.
///
/// # Errors
/// What is wrong with a line.
pub(super) fn parse(text: &str, package: &str) -> Result<Vec<Declared>, String> {
    let mut members: Vec<Declared> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        // A # inside of a quoted text comes after the name, and nothing after the name is read.
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |what: String| format!("line {}: {what}", at + 1);
        let (declared, rest) = line
            .split_once(|c: char| c.is_whitespace())
            .ok_or_else(|| wrong(format!("expected a type and a name, found `{line}`")))?;
        let rest = rest.trim_start();
        let end = rest.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(rest.len());
        let (name, value) = rest.split_at(end);
        if value.trim_start().starts_with('=') {
            continue; // a constant
        }
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(wrong(format!("expected the name of a member, found `{name}`")));
        }
        if members.iter().any(|member| member.name == name) {
            return Err(wrong(format!("expected each member once, found `{name}` again")));
        }
        let (element, count) = element(declared, package).map_err(wrong)?;
        members.push(Declared { name: name.to_owned(), element, count });
    }
    if members.is_empty() {
        // ROS 2 gives an empty message a member, because C has no empty struct.
        let name = "structure_needs_at_least_one_member".to_owned();
        members.push(Declared { name, element: Element::Number(Number::U8), count: Count::One });
    }
    Ok(members)
}

/// Reads a type: `float64[36]`, `string<=10[<=3]`, `geometry_msgs/Point[]`.
fn element(text: &str, package: &str) -> Result<(Element, Count), String> {
    let (element, count) = match text.split_once('[') {
        None => (text, Count::One),
        Some((element, count)) => {
            let inside = count.strip_suffix(']');
            let count = match inside {
                Some("") => Some(Count::Sequence),
                Some(bound) if bound.starts_with("<=") => {
                    bound[2..].trim().parse::<usize>().ok().map(|_| Count::Sequence)
                }
                Some(len) => len.parse().ok().filter(|len| *len > 0).map(Count::Fixed),
                None => None,
            };
            let count = count.ok_or_else(|| {
                format!("expected a length such as [3], [<=3] or [], found `{text}`")
            })?;
            (element, count)
        }
    };
    let plain = element.split_once("<=").map_or(element, |(name, _)| name);
    let element = match plain {
        "string" => Element::Text,
        "wstring" => Element::WideText,
        name => match NUMBERS.iter().find(|(known, _)| *known == name) {
            Some((_, number)) => Element::Number(*number),
            None => Element::Type(full_name(name, package)?),
        },
    };
    Ok((element, count))
}

/// The name of a type as `package/msg/Type`.
fn full_name(name: &str, package: &str) -> Result<String, String> {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        _ if !parts.iter().all(|part| is_word(part)) => {
            Err(format!("expected a type such as geometry_msgs/Point, found `{name}`"))
        }
        [own] => Ok(format!("{package}/msg/{own}")),
        [package, own] => Ok(format!("{package}/msg/{own}")),
        [_, _, _] => Ok(name.to_owned()),
        _ => Err(format!("expected a type such as geometry_msgs/Point, found `{name}`")),
    }
}
