//! Commands to messages, one file per message type, registered in [`TYPES`].

mod float64_multi_array;
mod joint_state;
mod joint_trajectory;

use super::group::{CommandGroup, CommandTick, Made};
use crate::spec::{CommandForm, Interface};

/// All types of command messages. A new one is a file in this folder and a line here.
pub static TYPES: &[&CommandType] =
    &[&float64_multi_array::TYPE, &joint_trajectory::TYPE, &joint_state::TYPE];

/// A type of command messages.
#[derive(Debug)]
pub struct CommandType {
    /// Its name, as `package/msg/Type`.
    pub name: &'static str,
    /// Its definition, followed by those of the types that it has.
    pub definition: &'static [(&'static str, &'static str)],
    /// Interfaces of the groups that it takes.
    pub interfaces: &'static [Interface],
    /// True if a message has points of a plan: all of them, or one.
    pub has_points: bool,
    /// Makes a writer for a group.
    open: fn(&CommandGroup, CommandForm) -> Box<dyn CommandOutput>,
}

/// Writes the messages of a group. It takes its memory once.
pub trait CommandOutput: Send {
    /// Writes the message of a tick. Returns its bytes; `None` if this tick has no message.
    fn write(&mut self, at: CommandTick, made: Made, group: &mut CommandGroup) -> Option<&[u8]>;
}

impl CommandType {
    /// The type of this name, if it is known.
    pub fn find(name: &str) -> Option<&'static CommandType> {
        TYPES.iter().copied().find(|known| known.name == name)
    }

    /// Makes a writer for a group.
    pub fn open(&self, group: &CommandGroup, form: CommandForm) -> Box<dyn CommandOutput> {
        (self.open)(group, form)
    }
}

/// Bytes of a message with the names and one value of each joint of a group, and more than enough for the rest.
fn bytes(group: &CommandGroup) -> usize {
    let joints = &group.spec().joints;
    64 + joints.iter().map(|joint| joint.name.len() + 8 + 16).sum::<usize>()
}

#[cfg(test)]
mod tests;
