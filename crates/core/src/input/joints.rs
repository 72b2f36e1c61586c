//! The joints of a message, which are found by name.

use std::collections::HashMap;

use crate::cdr::{F64Sequence, Reader};
use crate::rejected::names_found;
use crate::rejected::{DropReason, Rejected};

/// Checks that a field has a value for each joint. `name` says what the field is called.
pub(super) fn check_values(
    values: F64Sequence<'_>,
    named: usize,
    name: impl FnOnce() -> String,
) -> Result<(), Rejected> {
    let reason = match values.len() {
        found if found == named => return Ok(()),
        0 => DropReason::MissingField,
        _ => DropReason::Malformed,
    };
    let found = if values.is_empty() { "none".to_owned() } else { values.len().to_string() };
    let name = name();
    let detail = format!("{name}: expected a value for each of {named} joints, found {found}");
    Err(Rejected::new(reason, detail))
}

/// Most joints of a message, and of a configuration.
pub const MAX_JOINTS: usize = 4096;
/// Publishers on one topic whose order of joints is kept.
const MOST_ORDERS: usize = 4;

/// The orders of joints in the messages of a topic. A publisher keeps its order, so the names of a
/// message are only compared with those of messages before it.
#[derive(Default)]
pub(super) struct JointOrders {
    orders: Vec<JointOrder>,
    /// The order that the next new one replaces.
    oldest: usize,
}

/// Places of the groups' joints in the messages of a publisher.
pub(super) struct JointOrder {
    pub names: Vec<Vec<u8>>,
    /// Per group.
    pub places: Vec<Places>,
}

/// Places of one group's joints in a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Places {
    /// It has none of them.
    Absent,
    /// It has some of them. The text says which it lacks.
    Incomplete(String),
    /// It has all of them, at these places.
    At(Vec<usize>),
}

impl JointOrders {
    /// Reads the names of a message, which must fill a group.
    pub(super) fn resolve(
        &mut self,
        reader: &mut Reader<'_>,
        groups: &[Vec<String>],
    ) -> Result<&JointOrder, Rejected> {
        self.read(reader, groups)?.filling(groups)
    }

    /// Finds the names of an array, which must fill a group.
    pub(super) fn resolve_names(
        &mut self,
        names: &[String],
        groups: &[Vec<String>],
    ) -> Result<&JointOrder, Rejected> {
        let is_of = |order: &JointOrder| order.names.iter().eq(names.iter().map(String::as_bytes));
        let at = match self.orders.iter().position(is_of) {
            Some(at) => at,
            None => {
                let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
                self.keep(JointOrder::new(names, groups)?)
            }
        };
        self.orders[at].filling(groups)
    }

    /// Reads the names of a message.
    pub(super) fn read(
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
        let count = reader.u32()? as usize;
        // Before memory is taken: a name takes four bytes in a message, and many times that here.
        if count > MAX_JOINTS {
            let detail = format!("name: expected at most {MAX_JOINTS} joints, found {count}");
            return Err(Rejected::new(DropReason::Malformed, detail));
        }
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            names.push(reader.string_bytes()?.to_vec());
        }
        Self::new(names, groups)
    }

    /// Finds the joints of each group among names.
    fn new(names: Vec<Vec<u8>>, groups: &[Vec<String>]) -> Result<Self, Rejected> {
        // Where each name is; `None` if it is there repeatedly.
        let mut places = HashMap::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            places.entry(name.as_slice()).and_modify(|at| *at = None).or_insert(Some(at));
        }
        let places: Result<Vec<_>, _> = groups.iter().map(|group| find(group, &places)).collect();
        Ok(JointOrder { places: places?, names })
    }

    /// Returns the order, which must fill a group.
    fn filling(&self, groups: &[Vec<String>]) -> Result<&Self, Rejected> {
        match self.places.iter().any(|places| matches!(places, Places::At(_))) {
            true => Ok(self),
            false => Err(self.missing(groups)),
        }
    }

    /// The error for a message that fills no group: what it lacks. Of several groups, the one that lacks least counts.
    pub(super) fn missing(&self, groups: &[Vec<String>]) -> Rejected {
        let has = |joint: &&String| self.names.iter().any(|name| name == joint.as_bytes());
        let is_known = |name: &&Vec<u8>| groups.iter().flatten().any(|j| j.as_bytes() == **name);
        let lacking = |joints: &&Vec<String>| joints.iter().filter(|joint| !has(joint)).count();
        let begun = groups.iter().zip(&self.places);
        let begun = begun.filter(|(_, places)| matches!(places, Places::Incomplete(_)));
        if let Some((_, Places::Incomplete(words))) =
            begun.min_by_key(|(joints, _)| lacking(joints))
        {
            // A name that no group has may be the missing one, misspelt.
            let others: Vec<_> = self.names.iter().filter(|name| !is_known(name)).collect();
            let others = match others.is_empty() {
                true => String::new(),
                false => {
                    format!("; other joints found: {}", names_found(others.iter().map(|n| &n[..])))
                }
            };
            return Rejected::new(DropReason::MissingField, format!("name: {words}{others}"));
        }
        let expected = match groups {
            [joints] => format!("joint {}", joints.first().map_or("", String::as_str)),
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

/// Most joints that a text about a group names one by one.
const LACKING_NAMED: usize = 3;

/// Says which joints of a group are missing.
fn are_missing(lacking: &[&String]) -> String {
    let named: Vec<&str> = lacking.iter().take(LACKING_NAMED).map(|joint| joint.as_str()).collect();
    match (&named[..], lacking.len() - named.len()) {
        ([one], 0) => format!("{one} is missing"),
        ([first @ .., last], 0) => format!("{} and {last} are missing", first.join(", ")),
        (_, more) => format!("{} and {more} more joints are missing", named.join(", ")),
    }
}

fn find(group: &[String], places: &HashMap<&[u8], Option<usize>>) -> Result<Places, Rejected> {
    let mut found = Vec::with_capacity(group.len());
    let mut lacking = Vec::new();
    for joint in group {
        match places.get(joint.as_bytes()) {
            None => lacking.push(joint),
            Some(Some(at)) => found.push(*at),
            Some(None) => {
                let detail = format!("name: expected joint {joint} once, found it repeatedly");
                return Err(Rejected::new(DropReason::Malformed, detail));
            }
        }
    }
    Ok(match found.len() {
        0 => Places::Absent,
        some if some < group.len() => Places::Incomplete(are_missing(&lacking)),
        _ => Places::At(found),
    })
}
