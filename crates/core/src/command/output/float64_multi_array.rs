//! `std_msgs/msg/Float64MultiArray`: what `forward_command_controller` takes, the values of its joints in its order.

use super::{CommandOutput, CommandType, bytes};
use crate::cdr::Writer;
use crate::command::{CommandGroup, CommandTick, Made};
use crate::spec::Interface;

/// See [the message](self).
pub(super) static TYPE: CommandType = CommandType {
    name: "std_msgs/msg/Float64MultiArray",
    definition: &[
        ("std_msgs/Float64MultiArray", "MultiArrayLayout layout\nfloat64[] data\n"),
        ("std_msgs/MultiArrayDimension", "string label\nuint32 size\nuint32 stride\n"),
        ("std_msgs/MultiArrayLayout", "MultiArrayDimension[] dim\nuint32 data_offset\n"),
    ],
    interfaces: &[Interface::Position, Interface::Velocity],
    has_points: false,
    open: |group, _| Box::new(Float64MultiArray { message: Vec::with_capacity(bytes(group)) }),
};

struct Float64MultiArray {
    message: Vec<u8>,
}

impl CommandOutput for Float64MultiArray {
    fn write(&mut self, _: CommandTick, made: Made, group: &mut CommandGroup) -> Option<&[u8]> {
        if !made.sends {
            return None;
        }
        let mut writer = Writer::reusing(std::mem::take(&mut self.message));
        // No dimensions, and no offset: the controller reads `data` alone.
        writer.u32(0);
        writer.u32(0);
        writer.f64_sequence(group.command());
        self.message = writer.finish();
        Some(&self.message)
    }
}
