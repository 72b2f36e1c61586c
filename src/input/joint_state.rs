//! `sensor_msgs/msg/JointState`.
//!
//! Joints are found by name, whatever their order in the message. Several publishers may share a
//! topic, for example an arm and a gripper. A message fills every group that it holds completely.

use std::collections::HashMap;

use super::{Content, Header, Input, MessageType, Sample, Sink, header, names_found};
use crate::cdr::{F64Sequence, Reader};
use crate::pipeline::{DropReason, Rejected};
use crate::spec::Selection;

/// The fields of a joint, as the message has them.
pub const JOINT_FIELDS: [&str; 3] = ["position", "velocity", "effort"];

/// See [the message](self).
pub(super) const TYPE: MessageType = MessageType {
    name: "sensor_msgs/msg/JointState",
    content: Content::Joints,
    open: |selection| match selection {
        Selection::Joints { fields, groups } => {
            let place = |name: &String| JOINT_FIELDS.iter().position(|field| field == name);
            let fields = fields.iter().map(place).collect::<Option<Vec<_>>>()?;
            Some(Box::new(JointStateInput {
                fields,
                groups: groups.clone(),
                orders: JointOrders::default(),
                row: Vec::new(),
            }))
        }
        _ => None,
    },
};

struct JointStateInput {
    /// Positions in [`JOINT_FIELDS`].
    fields: Vec<usize>,
    groups: Vec<Vec<String>>,
    orders: JointOrders,
    /// The sample of the group at hand.
    row: Vec<f64>,
}

impl Input for JointStateInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let header: Header<'_> = header(&mut reader)?;
        let order = self.orders.resolve(&mut reader, &self.groups)?;
        let named = order.names.len();
        let values = [reader.f64_sequence()?, reader.f64_sequence()?, reader.f64_sequence()?];
        for field in &self.fields {
            check_values(JOINT_FIELDS[*field], values[*field], named)?;
        }
        for (part, places) in order.places.iter().enumerate() {
            match places {
                Places::Absent => {}
                Places::Incomplete => sink.incomplete(part),
                Places::At(places) => {
                    self.row.clear();
                    for field in &self.fields {
                        // The lengths have been checked: every place has a value.
                        let value = |at: &usize| values[*field].get(*at).unwrap_or(f64::NAN);
                        self.row.extend(places.iter().map(value));
                    }
                    sink.sample(part, &header, Sample::Vector(&self.row));
                }
            }
        }
        Ok(())
    }
}

fn check_values(name: &str, values: F64Sequence<'_>, named: usize) -> Result<(), Rejected> {
    let reason = match values.len() {
        found if found == named => return Ok(()),
        0 => DropReason::MissingField,
        _ => DropReason::Malformed,
    };
    let found = if values.is_empty() { "none".to_owned() } else { values.len().to_string() };
    let detail = format!("{name}: expected a value for each of {named} joints, found {found}");
    Err(Rejected::new(reason, detail))
}

/// Publishers on one topic whose order of joints is kept.
const MOST_ORDERS: usize = 4;

/// The orders of joints in the messages of a topic. A publisher keeps its order, so the names of a
/// message are only compared with those of messages before it.
#[derive(Default)]
struct JointOrders {
    orders: Vec<JointOrder>,
    /// The order that the next new one replaces.
    oldest: usize,
}

/// Where the joints of the groups are in the messages of a publisher.
struct JointOrder {
    names: Vec<Vec<u8>>,
    /// Per group.
    places: Vec<Places>,
}

/// Where the joints of one group are in a message.
#[derive(Clone, Debug, PartialEq)]
enum Places {
    /// It has none of them.
    Absent,
    /// It has some of them.
    Incomplete,
    /// It has all of them, at these places.
    At(Vec<usize>),
}

impl JointOrders {
    /// Reads the names of a message.
    fn resolve(
        &mut self,
        reader: &mut Reader<'_>,
        groups: &[Vec<String>],
    ) -> Result<&JointOrder, Rejected> {
        let known = self.orders.iter().position(|order| {
            let mut ahead = reader.clone();
            let same = order.is_next(&mut ahead);
            if same {
                *reader = ahead;
            }
            same
        });
        let at = match known {
            Some(at) => at,
            None => self.keep(JointOrder::read(reader, groups)?),
        };
        Ok(&self.orders[at])
    }

    fn keep(&mut self, order: JointOrder) -> usize {
        if self.orders.len() < MOST_ORDERS {
            self.orders.push(order);
            return self.orders.len() - 1;
        }
        let at = self.oldest;
        self.orders[at] = order;
        self.oldest = (at + 1) % MOST_ORDERS;
        at
    }
}

impl JointOrder {
    /// Reads names; whether they are these.
    fn is_next(&self, reader: &mut Reader<'_>) -> bool {
        let is = |reader: &mut Reader<'_>, name: &Vec<u8>| matches!(reader.string_bytes(), Ok(found) if found == name.as_slice());
        matches!(reader.u32(), Ok(count) if count as usize == self.names.len())
            && self.names.iter().all(|name| is(reader, name))
    }

    /// Reads names and finds the joints of each group among them.
    fn read(reader: &mut Reader<'_>, groups: &[Vec<String>]) -> Result<Self, Rejected> {
        let mut names = Vec::new();
        for _ in 0..reader.u32()? {
            names.push(reader.string_bytes()?.to_vec());
        }
        // Where each name is; `None` if it is there repeatedly.
        let mut places = HashMap::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            places.entry(name.as_slice()).and_modify(|at| *at = None).or_insert(Some(at));
        }
        let places: Result<Vec<_>, _> = groups.iter().map(|group| find(group, &places)).collect();
        let order = JointOrder { places: places?, names };
        match order.places.iter().any(|places| matches!(places, Places::At(_))) {
            true => Ok(order),
            false => Err(order.missing(groups)),
        }
    }

    /// The error for a message that fills no group: what it lacks.
    fn missing(&self, groups: &[Vec<String>]) -> Rejected {
        let has = |joint: &&String| self.names.iter().any(|name| name == joint.as_bytes());
        let expected = match groups {
            [joints] => {
                let lacking = joints.iter().find(|joint| !has(joint));
                format!("joint {}", lacking.map_or("", String::as_str))
            }
            _ => {
                let lists: Vec<_> = groups.iter().map(|joints| joints.join(", ")).collect();
                format!("all joints of a group ({})", lists.join("; "))
            }
        };
        let found = names_found(self.names.iter().map(Vec::as_slice));
        let detail = format!("name: expected {expected}, found {found}");
        Rejected::new(DropReason::MissingField, detail)
    }
}

fn find(group: &[String], places: &HashMap<&[u8], Option<usize>>) -> Result<Places, Rejected> {
    let mut found = Vec::with_capacity(group.len());
    for joint in group {
        match places.get(joint.as_bytes()) {
            None => {}
            Some(Some(at)) => found.push(*at),
            Some(None) => {
                let detail = format!("name: expected joint {joint} once, found it repeatedly");
                return Err(Rejected::new(DropReason::Malformed, detail));
            }
        }
    }
    Ok(match found.len() {
        0 => Places::Absent,
        some if some < group.len() => Places::Incomplete,
        _ => Places::At(found),
    })
}
