//! Messages that are a header and fields of fixed size. Such a type is a list of its members.

use super::{Content, Input, MessageType, Sink, header};
use crate::cdr::Reader;
use crate::rejected::{DropReason, Rejected};
use crate::sample::{Header, Sample};
use crate::spec::Selection;
use robocache_ops::resample::Lane;

/// A field that a vector can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, in configurations and in the message.
    pub name: &'static str,
    /// The names of its numbers, `f64` each.
    pub components: &'static [&'static str],
    /// How each of its numbers is interpolated.
    pub lane: Lane,
}

/// One member of a message, after its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// A field.
    Field(Field),
    /// A covariance of this many numbers, which no vector takes.
    Covariance(usize),
    /// A covariance of the field before it. If its first element is -1, this message has no
    /// estimate of that field, as `sensor_msgs/Imu` defines it.
    CovarianceOrNone(usize),
    /// The `child_frame_id`: the frame of what comes after it. It is the first member, if it is one.
    ChildFrame,
}

impl Member {
    /// A `geometry_msgs/Vector3` or `Point`.
    pub const fn vector3(name: &'static str) -> Member {
        Member::Field(Field { name, components: &["x", "y", "z"], lane: Lane::Linear })
    }

    /// A `geometry_msgs/Quaternion`.
    pub const fn quaternion(name: &'static str) -> Member {
        Member::Field(Field { name, components: &["x", "y", "z", "w"], lane: Lane::Quaternion })
    }

    /// The field, if it is one.
    pub const fn field(&self) -> Option<&Field> {
        match self {
            Member::Field(field) => Some(field),
            Member::Covariance(_) | Member::CovarianceOrNone(_) | Member::ChildFrame => None,
        }
    }
}

impl MessageType {
    /// A type whose messages are a header and `members`. `open` is [`open`] with the same members.
    pub(super) const fn of_fields(
        name: &'static str,
        members: &'static [Member],
        open: fn(&Selection) -> Option<Box<dyn Input>>,
    ) -> MessageType {
        let mut at = 1;
        while at < members.len() {
            assert!(!matches!(members[at], Member::ChildFrame), "ChildFrame is the first member");
            at += 1;
        }
        MessageType { name, content: Content::Fields(members), open }
    }
}

/// Declares the type of a message that is a header and a list of members.
macro_rules! message_of_fields {
    ($name:literal, [$($member:expr),* $(,)?]) => {
        const MEMBERS: &[$crate::input::fields::Member] = &[$($member),*];

        /// See [the message](self).
        pub(super) const TYPE: $crate::input::MessageType = $crate::input::MessageType::of_fields(
            $name,
            MEMBERS,
            |selection| $crate::input::fields::open(MEMBERS, selection),
        );
    };
}
pub(super) use message_of_fields;

/// Makes an input of messages of `members`.
pub(super) fn open(members: &'static [Member], selection: &Selection) -> Option<Box<dyn Input>> {
    let Selection::Fields(names) = selection else { return None };
    let all: Vec<&Field> = members.iter().filter_map(Member::field).collect();
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        let at = all.iter().position(|field| field.name == name)?;
        let start: usize = all[..at].iter().map(|field| field.components.len()).sum();
        places.push((start, all[at].components.len()));
    }
    let wanted = |field: &Field| names.iter().any(|name| name == field.name);
    let wanted = all.iter().map(|field| wanted(field)).collect();
    Some(Box::new(FieldsInput { members, wanted, places, values: vec![], row: vec![] }))
}

/// Reads such messages.
struct FieldsInput {
    members: &'static [Member],
    /// Per field of the message: whether it is selected.
    wanted: Vec<bool>,
    /// Per selected field: the position of its first number in `values`, and how many it has.
    places: Vec<(usize, usize)>,
    /// All numbers of the message, in its own order.
    values: Vec<f64>,
    /// The selected numbers, in the order of the selection.
    row: Vec<f64>,
}

impl Input for FieldsInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let mut header: Header<'_> = header(&mut reader)?;
        let members = match self.members {
            [Member::ChildFrame, members @ ..] => {
                // Only a frame that is looked up must be UTF-8, and no frame has an empty name.
                let name = std::str::from_utf8(reader.string_bytes()?);
                header.child_frame_id = name.unwrap_or_default();
                members
            }
            members => members,
        };
        let Some(sink) = sink.admit(&header) else { return Ok(()) };
        self.values.clear();
        let mut fields = 0;
        for member in members {
            match member {
                Member::Field(field) => {
                    for _ in field.components {
                        self.values.push(reader.f64()?);
                    }
                    fields += 1;
                }
                Member::Covariance(count) => reader.skip(8, 8 * count)?,
                Member::CovarianceOrNone(count) => {
                    let none = reader.f64()? == -1.0;
                    reader.skip(8, 8 * (count - 1))?;
                    if none && self.wanted[fields - 1] {
                        return Err(self.no_estimate(fields - 1));
                    }
                }
                // Only the first member can be one, and it has been read.
                Member::ChildFrame => {}
            }
        }
        self.row.clear();
        for (start, len) in &self.places {
            self.row.extend_from_slice(&self.values[*start..start + len]);
        }
        sink.sample(0, Sample::Vector(&self.row));
        Ok(())
    }
}

impl FieldsInput {
    fn no_estimate(&self, field: usize) -> Rejected {
        let name = self.members.iter().filter_map(Member::field).nth(field).map_or("", |f| f.name);
        let detail = format!("{name}: its covariance says that there is no estimate");
        Rejected::new(DropReason::MissingField, detail)
    }
}
