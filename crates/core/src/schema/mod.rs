//! Types of messages that are known only at load: their definitions, and plans that read numbers
//! out of their serialized bytes.
//!
//! 1. [`definition`] reads the text of a `.msg` file.
//! 2. [`resolve`] follows the types of its members, and makes one tree.
//! 3. [`path`] reads what the user selects: `pose.position.x`, `values[3]`, `position["elbow"]`.
//! 4. [`FieldReader::new`] finds the paths in the tree, once. [`FieldReader::read`] then walks through each message,
//!    skips members that no stream selects, and makes no look-up by name but those of keys in the message itself.
//!
//! There is one source of definitions for a live node ([`Prefixes`]). A bag carries its own.

mod compile;
mod definition;
mod draft;
mod field_reader;
mod find;
mod path;
mod shape;
mod spatial;
mod survey;
#[cfg(test)]
mod tests;

pub use field_reader::{FieldReader, StampSource};
pub use find::{Definitions, Prefixes};
pub use path::{Path, PathError};
pub use spatial::Unframed;
pub use survey::{Leaf, Survey};

use std::fmt::{self, Display};
use std::sync::Arc;

/// The definition of `builtin_interfaces/Time`.
pub const TIME: &str = "# Seconds since the epoch of the clock, and nanoseconds of that second.\nint32 sec\nuint32 nanosec\n";
/// The definition of `std_msgs/Header`.
pub const HEADER: &str = "builtin_interfaces/Time stamp\nstring frame_id\n";

/// Deepest nesting of types. Real messages have fewer than ten levels.
const MOST_LEVELS: usize = 32;
/// Most members of a type, those of its members included. A definition in a bag may be hostile.
const MOST_MEMBERS: usize = 100_000;

/// Numbers as messages have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// `bool`: 0 or 1.
    Bool,
    /// `uint8`, `byte` and `char`.
    U8,
    /// `int8`
    I8,
    /// `uint16`
    U16,
    /// `int16`
    I16,
    /// `uint32`
    U32,
    /// `int32`
    I32,
    /// `uint64`
    U64,
    /// `int64`
    I64,
    /// `float32`
    F32,
    /// `float64`
    F64,
}

impl Number {
    /// Its size, and its alignment in CDR \[bytes\].
    pub const fn size(self) -> usize {
        match self {
            Number::Bool | Number::U8 | Number::I8 => 1,
            Number::U16 | Number::I16 => 2,
            Number::U32 | Number::I32 | Number::F32 => 4,
            Number::U64 | Number::I64 | Number::F64 => 8,
        }
    }
}

/// Kind of a member's element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Number(Number),
    /// `string`
    Text,
    /// `wstring`. Middlewares disagree on its encoding, so no plan reads past one.
    WideText,
    /// Another type.
    Struct(Arc<Struct>),
}

/// How many elements a member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// One.
    One,
    /// A fixed array.
    Fixed(usize),
    /// A sequence, bounded or not: each message says how many.
    Sequence,
}

/// A member of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Kind of its elements.
    pub kind: Kind,
    /// How many it has.
    pub count: Count,
}

/// A type with all types of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its name, as `package/msg/Type`.
    pub name: String,
    /// Its members, in the order of the message; at least one.
    pub members: Vec<Member>,
}

impl Struct {
    /// The names of its members.
    pub fn names(&self) -> Vec<&str> {
        self.members.iter().map(|member| member.name.as_str()).collect()
    }

    /// True if its first member is a `std_msgs/Header`.
    pub fn has_header(&self) -> bool {
        self.members.first().is_some_and(|first| compile::is_one(first, compile::HEADER))
    }
}

impl Display for Member {
    /// As in a definition: `float64[36] covariance`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Number(number) => write!(f, "{}", definition::name_of(*number))?,
            Kind::Text => f.write_str("string")?,
            Kind::WideText => f.write_str("wstring")?,
            Kind::Struct(inner) => f.write_str(&inner.name)?,
        }
        match self.count {
            Count::One => {}
            Count::Fixed(len) => write!(f, "[{len}]")?,
            Count::Sequence => f.write_str("[]")?,
        }
        write!(f, " {}", self.name)
    }
}

/// Why a type is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Its definition was not found, or cannot be read.
    #[error("the definition of {name}: {problem}")]
    Definition {
        /// The type.
        name: String,
        /// Words for the fault.
        problem: String,
    },
    /// Types contain each other, or there are too many.
    #[error("{name}: expected at most {MOST_LEVELS} levels and {MOST_MEMBERS} members, found more")]
    TooLarge {
        /// The type.
        name: String,
    },
}

/// Makes the tree of a type.
///
/// # Errors
/// [`SchemaError`], also for a type of one of its members.
pub fn resolve(name: &str, definitions: &dyn Definitions) -> Result<Arc<Struct>, SchemaError> {
    let mut members = 0;
    resolve_at(name, definitions, 0, &mut members)
}

/// Returns the definition of a type followed by those of the types that it has, as rosbag2 stores them.
///
/// # Errors
/// As for [`resolve`].
pub fn full_text(name: &str, definitions: &dyn Definitions) -> Result<String, SchemaError> {
    // It also bounds what the texts are.
    let root = resolve(name, definitions)?;
    let mut names = vec![root.name.clone()];
    let mut texts = String::new();
    let mut at = 0;
    while let Some(name) = names.get(at).cloned() {
        let wrong = |problem: String| SchemaError::Definition { name: name.clone(), problem };
        let text = definitions.find(&name).map_err(wrong)?;
        if at > 0 {
            let short = name.replace("/msg/", "/");
            let line = "=".repeat(80);
            texts.extend([line.as_str(), "\nMSG: ", &short, "\n"]);
        }
        texts.push_str(&text);
        if !texts.ends_with('\n') {
            texts.push('\n');
        }
        let package = name.split('/').next().unwrap_or_default();
        for declared in definition::parse(&text, package).map_err(wrong)? {
            if let definition::Element::Type(part) = declared.element
                && !names.contains(&part)
            {
                names.push(part);
            }
        }
        at += 1;
    }
    Ok(texts)
}

fn resolve_at(
    name: &str,
    definitions: &dyn Definitions,
    level: usize,
    total: &mut usize,
) -> Result<Arc<Struct>, SchemaError> {
    let too_large = || SchemaError::TooLarge { name: name.to_owned() };
    let wrong = |problem: String| SchemaError::Definition { name: name.to_owned(), problem };
    if level == MOST_LEVELS {
        return Err(too_large());
    }
    let text = definitions.find(name).map_err(wrong)?;
    let package = name.split('/').next().unwrap_or_default();
    let declared = definition::parse(&text, package).map_err(wrong)?;
    *total += declared.len();
    if *total > MOST_MEMBERS {
        return Err(too_large());
    }
    let mut members = Vec::with_capacity(declared.len());
    for definition::Declared { name, element, count } in declared {
        let kind = match element {
            definition::Element::Number(number) => Kind::Number(number),
            definition::Element::Text => Kind::Text,
            definition::Element::WideText => Kind::WideText,
            definition::Element::Type(name) => {
                Kind::Struct(resolve_at(&name, definitions, level + 1, total)?)
            }
        };
        members.push(Member { name, kind, count });
    }
    Ok(Arc::new(Struct { name: name.to_owned(), members }))
}
