//! `sensor_msgs/msg/JointState`.
//!
//! Joints are found by name, whatever their order in the message. Several publishers may share a
//! topic, for example an arm and a gripper. A message fills every group that it holds completely.

use super::joints::{JointOrder, JointOrders, Places, check_values};
use super::{Content, Input, MessageType, SampleSink, Sink, header};
use crate::cdr::{F64Sequence, Reader};
use crate::rejected::Rejected;
use crate::sample::Sample;
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
        let header = header(&mut reader)?;
        // Several publishers share a topic. A message of others is none of ours, whatever its header says.
        let order = self.orders.resolve(&mut reader, &self.groups)?;
        let Some(sink) = sink.admit(&header) else { return Ok(()) };
        let values = [reader.f64_sequence()?, reader.f64_sequence()?, reader.f64_sequence()?];
        take(order, &self.fields, values, &mut self.row, sink)
    }

    fn read_joints(
        &mut self,
        names: &[String],
        positions: F64Sequence<'_>,
        sink: &mut dyn SampleSink,
    ) -> Result<(), Rejected> {
        let order = self.orders.resolve_names(names, &self.groups)?;
        let values = [positions, F64Sequence::of_le_bytes(&[]), F64Sequence::of_le_bytes(&[])];
        take(order, &self.fields, values, &mut self.row, sink)
    }
}

/// Hands the values of the joints to the sink, group by group. `values` are those of [`JOINT_FIELDS`].
fn take(
    order: &JointOrder,
    fields: &[usize],
    values: [F64Sequence<'_>; 3],
    row: &mut Vec<f64>,
    sink: &mut dyn SampleSink,
) -> Result<(), Rejected> {
    let named = order.names.len();
    for field in fields {
        check_values(values[*field], named, || JOINT_FIELDS[*field].to_owned())?;
    }
    for (part, places) in order.places.iter().enumerate() {
        match places {
            Places::Absent => {}
            Places::Incomplete(lacking) => sink.incomplete(part, lacking),
            Places::At(places) => {
                row.clear();
                for field in fields {
                    // The lengths have been checked: every place has a value.
                    let value = |at: &usize| values[*field].get(*at).unwrap_or(f64::NAN);
                    row.extend(places.iter().map(value));
                }
                sink.sample(part, Sample::Vector(row));
            }
        }
    }
    Ok(())
}
