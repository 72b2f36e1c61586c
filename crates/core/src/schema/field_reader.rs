//! Reads the selected numbers of a message.

use std::sync::Arc;

use super::compile::{self, Compiled, SelectError};
use super::shape::Shape;
use super::spatial::Unframed;
use super::{Count, Number, Path, Struct};
use crate::cdr::{CdrError, Reader};
use crate::rejected::{DropReason, Rejected};
use crate::rejected::{NAMES_LOGGED, names_found};
use crate::tf::FramedPart;
use robocache_ops::resample::Lane;

/// Source of a message's stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampSource {
    /// In its `std_msgs/Header`, the first member.
    Header,
    /// In a `builtin_interfaces/Time` that the user has named.
    Member,
    /// Nowhere: the time of arrival counts.
    None,
}

/// Reads numbers from the messages of one type, in the order of the selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldReader {
    root: StructNode,
    channels: Vec<(String, Lane)>,
    stamp: StampSource,
    stamp_path: Option<String>,
    has_header: bool,
    has_part_of_quaternion: bool,
    framed: Result<Vec<FramedPart>, Unframed>,
}

/// A part of a message that something is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// A number, and its places in the row.
    Number(Number, Vec<usize>),
    Struct(StructNode),
    Elements(Box<Elements>),
}

/// A type: what happens to each of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StructNode {
    pub parts: Vec<FieldPart>,
    pub named: Vec<Named>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldPart {
    Skip(Shape),
    Read(Node),
}

/// Elements by their index, or by a text inside of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Elements {
    /// For errors.
    pub name: String,
    pub count: Count,
    pub element: Shape,
    /// In the order of the indices.
    pub at: Vec<(usize, Node)>,
    pub by_member: Vec<ByMember>,
}

/// The elements whose text member has one of these values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ByMember {
    /// The members in front of the text.
    pub before: Vec<Shape>,
    /// In the order of the names.
    pub wanted: Vec<(String, Node)>,
}

/// Elements of one member whose names are in another one, as in `sensor_msgs/JointState`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// For errors: of the elements, and of the names.
    pub labels: [String; 2],
    /// Positions of both members in the type.
    pub members: [usize; 2],
    pub counts: [Count; 2],
    pub element: Shape,
    /// In the order of the names.
    pub wanted: Vec<(String, Node)>,
}

impl FieldReader {
    /// A plan for messages of `root`. `path_of_stamp` is the path of their stamp, if the user names one.
    ///
    /// # Errors
    /// [`SelectError`]: which path is wrong, what was expected there.
    pub fn new(
        root: &Arc<Struct>,
        paths: &[Path],
        path_of_stamp: Option<&Path>,
    ) -> Result<FieldReader, SelectError> {
        let Compiled { root, channels, stamp, has_header, has_part_of_quaternion, framed } =
            compile::compile(root, paths, path_of_stamp)?;
        let stamp_path = path_of_stamp.map(ToString::to_string);
        Ok(FieldReader {
            root,
            channels,
            stamp,
            stamp_path,
            has_header,
            has_part_of_quaternion,
            framed,
        })
    }

    /// The name of each number, and how it is interpolated.
    pub fn channels(&self) -> &[(String, Lane)] {
        &self.channels
    }

    /// Source of a message's stamp.
    pub fn stamp(&self) -> StampSource {
        self.stamp
    }

    /// The path of the stamp, if the user has named one.
    pub fn stamp_path(&self) -> Option<&str> {
        self.stamp_path.as_deref()
    }

    /// True if the first member of a message is a `std_msgs/Header`.
    pub fn has_header(&self) -> bool {
        self.has_header
    }

    /// True if a quaternion is selected in part, or in another order than x, y, z, w. Its numbers
    /// must not be interpolated.
    pub fn has_part_of_quaternion(&self) -> bool {
        self.has_part_of_quaternion
    }

    /// Quantities of the numbers in the frame of the message's header.
    ///
    /// # Errors
    /// [`Unframed`] unless that is certain for all of them.
    pub fn framed(&self) -> Result<&[FramedPart], &Unframed> {
        self.framed.as_deref()
    }

    /// Reads a message into `values`: the channels and, if the stamp is [`StampSource::Member`], its
    /// seconds and nanoseconds.
    ///
    /// # Errors
    /// `Malformed` if the message is not what its type says; `MissingField` if it lacks an element.
    pub fn read(&self, reader: &mut Reader<'_>, values: &mut Vec<f64>) -> Result<(), Rejected> {
        let stamp = if self.stamp == StampSource::Member { 2 } else { 0 };
        values.clear();
        values.resize(self.channels.len() + stamp, f64::NAN);
        self.root.read(reader, values)?;
        if reader.left() > reader.most_padding() {
            let detail = format!(
                "expected the end of the message, found {} bytes more; the publisher may have another \
                 version of the definition",
                reader.left()
            );
            return Err(Rejected::new(DropReason::Malformed, detail));
        }
        Ok(())
    }
}

impl Node {
    fn read(&self, reader: &mut Reader<'_>, values: &mut [f64]) -> Result<(), Rejected> {
        match self {
            Node::Number(number, slots) => {
                let value = number.read(reader)?;
                for slot in slots {
                    values[*slot] = value;
                }
                Ok(())
            }
            Node::Struct(node) => node.read(reader, values),
            Node::Elements(elements) => elements.read(reader, values),
        }
    }
}

impl Number {
    pub(super) fn read(self, reader: &mut Reader<'_>) -> Result<f64, CdrError> {
        Ok(match self {
            Number::Bool => f64::from(u8::from(reader.u8()? != 0)),
            Number::U8 => reader.u8()?.into(),
            Number::I8 => reader.u8()?.cast_signed().into(),
            Number::U16 => reader.u16()?.into(),
            Number::I16 => reader.u16()?.cast_signed().into(),
            Number::U32 => reader.u32()?.into(),
            Number::I32 => reader.i32()?.into(),
            Number::U64 => reader.u64()? as f64,
            Number::I64 => reader.i64()? as f64,
            Number::F32 => f32::from_bits(reader.u32()?).into(),
            Number::F64 => reader.f64()?,
        })
    }
}

impl StructNode {
    fn read(&self, reader: &mut Reader<'_>, values: &mut [f64]) -> Result<(), Rejected> {
        let mut places = Vec::new();
        for part in &self.parts {
            if !self.named.is_empty() {
                places.push(reader.clone());
            }
            match part {
                FieldPart::Skip(shape) => shape.skip(reader)?,
                FieldPart::Read(node) => node.read(reader, values)?,
            }
        }
        // Names may come after what they name.
        for named in &self.named {
            let [elements, names] = named.members.map(|member| places[member].clone());
            named.read(elements, names, values)?;
        }
        Ok(())
    }
}

fn len_of(count: Count, reader: &mut Reader<'_>) -> Result<usize, CdrError> {
    match count {
        Count::One => Ok(1),
        Count::Fixed(len) => Ok(len),
        Count::Sequence => Ok(reader.u32()? as usize),
    }
}

impl Elements {
    fn read(&self, reader: &mut Reader<'_>, values: &mut [f64]) -> Result<(), Rejected> {
        let len = len_of(self.count, reader)?;
        for by_member in &self.by_member {
            self.read_named(by_member, len, reader.clone(), values)?;
        }
        let mut next = 0;
        for (at, node) in &self.at {
            if *at >= len {
                let detail = format!("{}[{at}]: expected an element, found {len}", self.name);
                return Err(Rejected::new(DropReason::MissingField, detail));
            }
            self.element.skip_many(at - next, reader)?;
            node.read(reader, values)?;
            next = at + 1;
        }
        Ok(self.element.skip_many(len - next, reader)?)
    }

    fn read_named(
        &self,
        ByMember { before, wanted }: &ByMember,
        len: usize,
        mut reader: Reader<'_>,
        values: &mut [f64],
    ) -> Result<(), Rejected> {
        let mut found = vec![false; wanted.len()];
        let begin = reader.clone();
        for _ in 0..len {
            let mut key = reader.clone();
            before.iter().try_for_each(|shape| shape.skip(&mut key))?;
            let text = key.string_bytes()?;
            if let Some((at, node)) = find(wanted, text) {
                if std::mem::replace(&mut found[at], true) {
                    return Err(repeated(&self.name, &wanted[at].0));
                }
                node.read(&mut reader.clone(), values)?;
            }
            self.element.skip(&mut reader)?;
        }
        let Some(lacking) = found.iter().position(|found| !found) else { return Ok(()) };
        let mut names = Vec::new();
        let mut reader = begin;
        for _ in 0..len.min(NAMES_LOGGED + 1) {
            let mut key = reader.clone();
            before.iter().try_for_each(|shape| shape.skip(&mut key))?;
            names.push(key.string_bytes()?);
            self.element.skip(&mut reader)?;
        }
        Err(missing(&self.name, &wanted[lacking].0, &names))
    }
}

impl Named {
    fn read(
        &self,
        mut elements: Reader<'_>,
        mut texts: Reader<'_>,
        values: &mut [f64],
    ) -> Result<(), Rejected> {
        let named = len_of(self.counts[1], &mut texts)?;
        let begin = texts.clone();
        // By position in the message, so that one pass reads all.
        let mut places = Vec::with_capacity(self.wanted.len());
        let mut found = vec![false; self.wanted.len()];
        for at in 0..named {
            let text = texts.string_bytes()?;
            if let Some((wanted, _)) = find(&self.wanted, text) {
                if std::mem::replace(&mut found[wanted], true) {
                    return Err(repeated(&self.labels[1], &self.wanted[wanted].0));
                }
                places.push((at, wanted));
            }
        }
        let [label, names_label] = &self.labels;
        if let Some(lacking) = found.iter().position(|found| !found) {
            let mut texts = begin;
            let some = 0..named.min(NAMES_LOGGED + 1);
            let all = some.map(|_| texts.string_bytes()).collect::<Result<Vec<_>, _>>()?;
            return Err(missing(names_label, &self.wanted[lacking].0, &all));
        }
        let len = len_of(self.counts[0], &mut elements)?;
        if len != named {
            let reason = if len == 0 { DropReason::MissingField } else { DropReason::Malformed };
            let detail = format!(
                "{label}: expected a value for each of {named} in {names_label}, found {len}"
            );
            return Err(Rejected::new(reason, detail));
        }
        let mut next = 0;
        for (at, wanted) in places {
            self.element.skip_many(at - next, &mut elements)?;
            self.wanted[wanted].1.read(&mut elements, values)?;
            next = at + 1;
        }
        Ok(())
    }
}

/// The wanted element of this name. The list is in the order of its names.
fn find<'a>(wanted: &'a [(String, Node)], text: &[u8]) -> Option<(usize, &'a Node)> {
    let at = wanted.binary_search_by(|(name, _)| name.as_bytes().cmp(text)).ok()?;
    Some((at, &wanted[at].1))
}

fn missing(label: &str, text: &str, names: &[&[u8]]) -> Rejected {
    let found = names_found(names.iter().copied());
    let detail = format!("{label}: expected \"{text}\", found {found}");
    Rejected::new(DropReason::MissingField, detail)
}

fn repeated(label: &str, text: &str) -> Rejected {
    let detail = format!("{label}: expected \"{text}\" once, found it repeatedly");
    Rejected::new(DropReason::Malformed, detail)
}
