//! The last tick of a node, with which a replay of its recording ends.
//!
//! A node stops its ticks first, and then writes what waits. So its log goes on after the last tick.

use super::BagDefinitions;
use crate::bag::{Bag, Recorded};
use crate::recording::{EVENT_TYPE, Manifest, RecordingEvent};
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp, TickGrid};
use robocache_runtime::{CommandFact, Event};

/// Part of the log that is looked at first \[ns\]. It is longer than the end of most recordings.
const REACH_NS: i64 = 500 * NANOS_PER_MS;

/// The instant of the last tick or command tick of a recording, on the clock of the log. `None` if the recording has no event
/// END, no tick, or lacks events of its end: then a replay goes on to the last message.
pub(super) fn last_tick(bag: &Bag, manifest: &Manifest) -> Option<Stamp> {
    let config = manifest.config(&BagDefinitions::new(bag).ok()?).ok()?;
    let commands = config.commands.as_ref().map(|commands| commands.grid);
    let wanted: Vec<bool> = bag.topics.iter().map(|topic| topic.ros_type == EVENT_TYPE).collect();
    let (begin, end) = bag.span()?;
    let mut reach = REACH_NS;
    loop {
        let from = end.offset(-reach);
        let mut tail = Tail::default();
        for recorded in bag.messages_from(&wanted, from).ok()? {
            tail.take(&recorded, config.grid, commands);
        }
        match tail.newest {
            Some((_, tick, told)) if tail.is_whole => {
                return Some(if manifest.simulated { told } else { tail.in_log(tick, told) });
            }
            None if tail.is_whole && from > begin => reach = reach.saturating_mul(8),
            _ => return None,
        }
    }
}

/// The last events of a recording.
#[derive(Default)]
struct Tail {
    /// The newest tick: its epoch, its instant, and when it was told, by the log.
    newest: Option<(Epoch, Stamp, Stamp)>,
    /// How far the log is ahead of the node's clock \[ns\]: the log goes on when the clock is set back.
    ahead: Option<(Epoch, i64)>,
    /// True if END is the last event, and no event before it is missing.
    is_whole: bool,
    lacks_events: bool,
}

impl Tail {
    fn take(&mut self, recorded: &Recorded, grid: TickGrid, commands: Option<TickGrid>) {
        let at = recorded.received;
        let Ok(event) = RecordingEvent::read(&recorded.bytes) else {
            self.lacks_events = true;
            return;
        };
        self.is_whole = event == RecordingEvent::End && !self.lacks_events;
        match event {
            RecordingEvent::GapOfEvents { .. } => self.lacks_events = true,
            RecordingEvent::Received { arrival, .. } => {
                let Some(stamp) = arrival.stamp else { return };
                let ahead_ns = at.since(stamp);
                let before = self.ahead.filter(|(epoch, _)| *epoch == arrival.epoch);
                let least = before.map_or(ahead_ns, |(_, before)| before.min(ahead_ns));
                self.ahead = Some((arrival.epoch, least));
            }
            RecordingEvent::Node(Event::Tick(tick)) => {
                self.note(tick.epoch, grid.stamp_of(tick.tick), at);
            }
            RecordingEvent::Node(Event::Command(command)) => {
                let is_made = matches!(command.fact, CommandFact::Made { .. });
                if let Some(grid) = commands.filter(|_| is_made) {
                    self.note(command.epoch, grid.stamp_of(command.tick), at);
                }
            }
            _ => {}
        }
    }

    fn note(&mut self, epoch: Epoch, tick: Stamp, at: Stamp) {
        let before = self.newest.filter(|(known, ..)| *known == epoch);
        let tick = before.map_or(tick, |(_, before, _)| before.max(tick));
        self.newest = Some((epoch, tick, at));
    }

    /// An instant of the node's clock in the log. Without a message in the log's end, it is when the tick was told.
    fn in_log(&self, tick: Stamp, told: Stamp) -> Stamp {
        self.ahead.map_or(told, |(_, ahead_ns)| tick.offset(ahead_ns.max(0)).min(told))
    }
}
