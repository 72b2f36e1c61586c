//! Tests of encoders, a file each: rows end to end, bits on every backend, keys in a contract. Rows of vectors, images,
//! depth and clouds are in `pipeline` and `public_cases`, and bits of vectors, images and clouds in `backends`.

use robocache_core::contract::DifferenceKind;

mod clouds;
mod depth;
mod images;
mod maps;
mod vectors;

/// All keys of configurations, by encoder.
pub(crate) const KEYS: &[&[Keys]] =
    &[vectors::KEYS, images::KEYS, depth::KEYS, clouds::KEYS, maps::KEYS];

/// A configuration with keys that bear on a contract, or do not.
pub(crate) struct Keys {
    /// The text.
    pub(crate) config: &'static str,
    /// Changes that are refused: a policy would get other numbers.
    pub(crate) refused: &'static [Change],
    /// Changes that are said or warned of, by the kind of difference.
    pub(crate) said: &'static [(DifferenceKind, &'static [Change])],
    /// Changes that are accepted.
    pub(crate) accepted: &'static [Change],
    /// Fields of a report that limit messages. They are accepted when they differ.
    pub(crate) limits: &'static [&'static str],
}

/// A key, the text that has it, and the text in its place.
pub(crate) type Change = (&'static str, &'static str, &'static str);

impl Keys {
    /// No keys.
    const NONE: Keys = Keys { config: "", refused: &[], said: &[], accepted: &[], limits: &[] };
}
