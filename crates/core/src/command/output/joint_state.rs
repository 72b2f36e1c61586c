//! `sensor_msgs/msg/JointState` as a command: names with positions or velocities, as Isaac Sim and several drivers take it.

use super::{CommandOutput, CommandType, bytes};
use crate::cdr::Writer;
use crate::command::{CommandGroup, CommandTick, Made};
use crate::schema::{HEADER, TIME};
use crate::spec::Interface;

/// See [the message](self).
pub(super) static TYPE: CommandType = CommandType {
    name: "sensor_msgs/msg/JointState",
    definition: &[
        (
            "sensor_msgs/JointState",
            "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n",
        ),
        ("builtin_interfaces/Time", TIME),
        ("std_msgs/Header", HEADER),
    ],
    interfaces: &[Interface::Position, Interface::Velocity],
    has_points: false,
    open: |group, _| Box::new(JointStateCommand { message: Vec::with_capacity(bytes(group)) }),
};

struct JointStateCommand {
    message: Vec<u8>,
}

impl CommandOutput for JointStateCommand {
    fn write(&mut self, at: CommandTick, made: Made, group: &mut CommandGroup) -> Option<&[u8]> {
        if !made.sends {
            return None;
        }
        let mut writer = Writer::reusing(std::mem::take(&mut self.message));
        writer.header(at.stamp, "");
        writer.string_sequence(group.spec().joints.iter().map(|joint| joint.name.as_str()));
        let (positions, velocities) = match group.spec().interface {
            Interface::Position => (group.command(), &[][..]),
            Interface::Velocity => (&[][..], group.command()),
        };
        writer.f64_sequence(positions);
        writer.f64_sequence(velocities);
        writer.f64_sequence(&[]);
        self.message = writer.finish();
        Some(&self.message)
    }
}
