//! Keys that only some streams have, or that `defaults` treats in its own way: one table.

use super::check::Check;
use super::defaults::Kind;
use super::mapping::Mapping;
use super::message::{Type, types};
use super::raw::RawStream;
use crate::input::Content;
use Content::{Image, Joints, Map, Points, Selected, Trajectory};
use Inherited::{ByKey, Never, Whole};
use Owner::{Elsewhere, Types, Words};

const FIELDS: Content = Content::Fields(&[]);
/// All contents, also new ones.
const ALL: &[Content] = &[];
const VECTORS: &[Content] = &[FIELDS, Joints, Trajectory, Selected];
/// Joints by their names.
pub(super) const JOINTS: &[Content] = &[Joints, Trajectory];
const NAMED: &[Content] = &[Joints, Trajectory, Selected];

/// A key of a stream.
struct Key {
    name: &'static str,
    /// The contents whose streams usually have it.
    of: &'static [Content],
    inherited: Inherited,
    /// Whose it is, if a stream of another content has it.
    owner: Owner,
}

/// How a stream inherits a key from the `defaults` of its kind.
#[derive(PartialEq)]
enum Inherited {
    /// Each stream says it for itself.
    Never,
    /// As a whole.
    Whole,
    /// Key by key: a mapping of which the stream may have a part.
    ByKey,
}

/// The owner of a key, for an error.
enum Owner {
    /// Other checks find it in a stream of another content.
    Elsewhere,
    /// The types of messages with its contents.
    Types,
    /// These words.
    Words(&'static str),
}

const fn key(
    name: &'static str,
    of: &'static [Content],
    inherited: Inherited,
    owner: Owner,
) -> Key {
    Key { name, of, inherited, owner }
}

/// The table. Other keys are keys of all streams, and are inherited as a whole.
static KEYS: &[Key] = &[
    key("type", ALL, Never, Elsewhere),
    key("topic", ALL, Never, Elsewhere),
    key("inputs", &[Joints, Trajectory, Points, Selected], Never, Elsewhere),
    key("valid_when", &[Points], Never, Elsewhere),
    key("history", ALL, ByKey, Elsewhere),
    key("horizon", ALL, ByKey, Elsewhere),
    key("max_gap_ms", VECTORS, Whole, Elsewhere),
    key("qos", ALL, ByKey, Elsewhere),
    key("t_base_sensor", &[Points], Never, Elsewhere),
    key("deskew", &[Points], Whole, Elsewhere),
    key("in_frame", &[FIELDS, Selected], Whole, Elsewhere),
    key(
        "fields",
        &[FIELDS, Joints, Trajectory],
        Never,
        Words("types that become a vector, without `select`"),
    ),
    key("joints", JOINTS, Never, Types),
    key("groups", JOINTS, Never, Types),
    key("angular", NAMED, Never, Types),
    key("quaternions", JOINTS, Never, Types),
    key("held", NAMED, Never, Types),
    key("operators", VECTORS, Never, Words("types that become a vector")),
    key("select", &[Selected], Never, Elsewhere),
    key("stamp", &[Selected], Never, Words("types with `select`")),
    key("image", &[Image], ByKey, Types),
    key("cloud", &[Points], ByKey, Types),
    key("occupancy", &[Map], Whole, Types),
];

impl Key {
    fn of(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// True if such a content has it.
    fn is_of(&self, such: impl Fn(Content) -> bool) -> bool {
        self.of.is_empty() || self.of.iter().copied().any(such)
    }
}

/// True if streams of this content usually have the key.
pub(super) fn is_usual(name: &str, content: Content) -> bool {
    Key::of(name).is_none_or(|key| key.is_of(|of| of.is_as(content)))
}

/// Keys that each stream must say for itself.
pub(super) fn of_each() -> Vec<&'static str> {
    KEYS.iter().filter(|key| key.inherited == Never).map(|key| key.name).collect()
}

/// The keys that `defaults` may have for this kind.
pub(super) fn of_kind(kind: Kind) -> Vec<&'static str> {
    let such = |content: Content| Kind::of_content(content) == Some(kind);
    let fits = |name: &&&'static str| {
        Key::of(name).is_none_or(|key| key.inherited != Never && key.is_of(such))
    };
    RawStream::KEYS.iter().filter(fits).copied().collect()
}

/// True if a mapping at this key is filled in key by key.
pub(super) fn is_inherited_by_key(name: &str) -> bool {
    // A resize is in the mapping `image`.
    name == "resize" || Key::of(name).is_some_and(|key| key.inherited == ByKey)
}

/// Reports the keys of other contents in a stream of this type.
pub(super) fn no_foreign_keys(check: &mut Check<'_>, path: &str, raw: &RawStream, message: &Type) {
    let is_foreign = |key: &&Key| !key.is_of(|of| of.is_as(message.content));
    for key in raw.given().into_iter().filter_map(Key::of).filter(is_foreign) {
        let owner = match key.owner {
            Elsewhere => continue,
            Types => types(key.of),
            Words(words) => words.to_owned(),
        };
        let own = &message.name;
        let expected = format!("no such key on a {own} stream (it is for {owner})");
        check.fail(&format!("{path}.{}", key.name), expected);
    }
}

#[cfg(test)]
mod tests;
