//! Mappings of the configuration, and enumerations: a declaration each.

use super::check::Check;
use super::node::Node;

/// A mapping: [`mapping!`] declares one.
pub(super) trait Mapping: Sized {
    /// All keys.
    const KEYS: &'static [&'static str];

    /// Reads the values of the keys. Those that cannot be read are reported.
    fn fields(check: &mut Check<'_>, path: &str, node: &Node) -> Self;

    /// The keys that have a value.
    fn given(&self) -> Vec<&'static str>;
}

/// All keys of a configuration, by their paths. Of a mapping at several paths, the first path counts.
#[derive(Default)]
pub(super) struct AllKeys {
    pub(super) paths: Vec<String>,
    mappings: Vec<&'static str>,
}

impl AllKeys {
    /// Notes that a mapping is known; false if it was.
    pub(super) fn is_new(&mut self, mapping: &'static str) -> bool {
        let is_new = !self.mappings.contains(&mapping);
        self.mappings.push(mapping);
        is_new
    }
}

/// Declares a mapping: its keys, and the type of each. A key's name is that of the field, unless
/// another is given. An error lists all keys of the mapping, or those that `listed by` gives.
macro_rules! mapping {
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@listed $node:ident) => { <Self as Mapping>::KEYS };
    (@listed $node:ident $listed:path) => { &$listed($node) };
    ($(#[$meta:meta])* $name:ident $(listed by $listed:path)? {
        $($field:ident $(($key:literal))?: $type:ty,)*
    }) => {
        $(#[$meta])*
        #[derive(Default)]
        pub(super) struct $name { $(pub $field: Option<$type>,)* }

        impl $crate::config::mapping::Mapping for $name {
            const KEYS: &'static [&'static str] = &[$(mapping!(@key $field $($key)?)),*];

            fn fields(
                check: &mut $crate::config::check::Check<'_>,
                path: &str,
                node: &$crate::config::node::Node,
            ) -> Self {
                use $crate::config::read::field;
                $name { $($field: field(check, path, node, mapping!(@key $field $($key)?)),)* }
            }

            fn given(&self) -> Vec<&'static str> {
                let given = [$((mapping!(@key $field $($key)?), self.$field.is_some())),*];
                given.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect()
            }
        }

        impl $crate::config::read::Read for $name {
            fn read(
                check: &mut $crate::config::check::Check<'_>,
                path: &str,
                node: &$crate::config::node::Node,
            ) -> Option<Self> {
                use $crate::config::{mapping::Mapping, read::check_keys};
                check_keys(check, path, node, Self::KEYS, mapping!(@listed node $($listed)?))?;
                Some(Self::fields(check, path, node))
            }

            fn keys(path: &str, all: &mut $crate::config::mapping::AllKeys) {
                use $crate::config::{mapping::Mapping, node::join, read::Read};
                if !all.is_new(concat!(module_path!(), "::", stringify!($name))) {
                    return;
                }
                all.paths.extend(Self::KEYS.iter().map(|key| join(path, key)));
                $(<$type as Read>::keys(&join(path, mapping!(@key $field $($key)?)), all);)*
            }
        }
    };
}

/// Reads enumerations by the words that serde has for them.
macro_rules! read_words {
    ($($name:ident)*) => { $(
        impl $crate::config::read::Read for $name {
            fn read(
                check: &mut $crate::config::check::Check<'_>,
                key: &str,
                node: &$crate::config::node::Node,
            ) -> Option<Self> {
                $crate::config::read::word(check, key, node)
            }
        }
    )* };
}

pub(super) use {mapping, read_words};
