//! How to skip members that no stream selects.

use super::{Count, Kind, Member, Struct};
use crate::cdr::{CdrError, Reader};

/// The layout of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A number of this size \[bytes\].
    Number(usize),
    /// A text.
    Text,
    /// Several values, one after the other.
    Struct(Vec<Shape>),
    /// A fixed array.
    Array(usize, Box<Shape>),
    /// A sequence.
    Sequence(Box<Shape>),
}

impl Shape {
    /// The layout of a member.
    ///
    /// # Errors
    /// The name of a `wstring` in it.
    pub(super) fn of(member: &Member) -> Result<Shape, String> {
        let element = Shape::of_element(member)?;
        Ok(match member.count {
            Count::One => element,
            Count::Fixed(len) => Shape::Array(len, Box::new(element)),
            Count::Sequence => Shape::Sequence(Box::new(element)),
        })
    }

    /// The layout of one element of a member.
    ///
    /// # Errors
    /// As for [`Shape::of`].
    pub(super) fn of_element(member: &Member) -> Result<Shape, String> {
        match &member.kind {
            Kind::Number(number) => Ok(Shape::Number(number.size())),
            Kind::Text => Ok(Shape::Text),
            Kind::WideText => Err(member.name.clone()),
            Kind::Struct(inner) => Ok(Shape::Struct(Shape::of_members(inner)?)),
        }
    }

    /// The layouts of all members of a type.
    ///
    /// # Errors
    /// As for [`Shape::of`].
    pub(super) fn of_members(of: &Struct) -> Result<Vec<Shape>, String> {
        let shape = |member: &Member| {
            Shape::of(member).map_err(|inner| match inner == member.name {
                true => inner,
                false => format!("{}.{inner}", member.name),
            })
        };
        of.members.iter().map(shape).collect()
    }

    /// Skips one value.
    pub(super) fn skip(&self, reader: &mut Reader<'_>) -> Result<(), CdrError> {
        match self {
            Shape::Number(size) => reader.skip(*size, *size),
            Shape::Text => reader.string_bytes().map(|_| ()),
            Shape::Struct(members) => members.iter().try_for_each(|member| member.skip(reader)),
            Shape::Array(len, element) => element.skip_many(*len, reader),
            Shape::Sequence(element) => {
                let len = reader.u32()? as usize;
                if let (0, Shape::Number(size)) = (len, &**element) {
                    reader.note_empty(*size);
                }
                element.skip_many(len, reader)
            }
        }
    }

    /// Skips `count` values. Each has a byte at least, so a wrong count soon ends at the message's
    /// end.
    pub(super) fn skip_many(&self, count: usize, reader: &mut Reader<'_>) -> Result<(), CdrError> {
        match self {
            _ if count == 0 => Ok(()),
            Shape::Number(size) => reader.skip(*size, count.saturating_mul(*size)),
            _ => (0..count).try_for_each(|_| self.skip(reader)),
        }
    }
}
