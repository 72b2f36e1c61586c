//! The facts of commands in a recording.

use super::event::RecordingEvent;
use crate::commands::{Judged, RecordedCommands};
use robocache_core::command::CommandTick;
use robocache_runtime::Event;

/// Gives an event of a recording, a serialized [`RecordingEvent`], to its commands. If it ends a command tick, returns how
/// the commands of the tick compare with those of the node.
pub fn take_fact(again: &mut RecordedCommands, message: &[u8]) -> Option<(CommandTick, Judged)> {
    match RecordingEvent::read(message) {
        Ok(RecordingEvent::Chunk(chunk)) => again.found(chunk),
        Ok(RecordingEvent::Node(Event::Command(record))) => return again.fact(record),
        Ok(RecordingEvent::GapOfEvents { .. }) | Err(_) => again.lost(),
        Ok(_) => {}
    }
    None
}
