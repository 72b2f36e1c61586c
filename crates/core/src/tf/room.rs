//! Room for new frames: a tracker that gives each person a new name would fill the buffer for good.

use super::{Buffer, Frame, FrameId, Moving, Row};
use robocache_ops::time::{NANOS_PER_S, Stamp};

/// If no transform of a link has arrived for this long \[ns\], its rows may make room. tf2 keeps transforms for
/// ten seconds, and a message waits for ten seconds at most.
const ABANDONED_NS: i64 = 20 * NANOS_PER_S;
/// Least time between two looks for room for moving frames \[ns\]: a look reads all rows.
const LOOK_NS: i64 = NANOS_PER_S;

/// The frames that made room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// How many they are.
    pub count: u64,
    /// The name of the newest of them; empty if none was forgotten.
    pub newest: String,
}

impl Frame {
    fn is_abandoned(&self, now: Stamp) -> bool {
        let silent = |heard: Stamp| now.since(heard) > ABANDONED_NS;
        let heard = |moving: &Moving| moving.heard.is_none_or(silent);
        !self.of_gyro && self.moving.as_deref().is_some_and(heard)
    }

    /// All rows of the frame.
    fn rows(&self) -> impl Iterator<Item = &Row> {
        let fixed = self.fixed.iter().map(|(_, _, row)| row);
        let moving =
            self.moving.as_deref().into_iter().flat_map(|Moving { ring, rows, .. }| {
                ring.entries().map(|entry| &rows[entry.slot.index()])
            });
        fixed.chain(moving)
    }
}

impl Buffer {
    /// Forgets the frames without a row that no row names, and abandoned links before that. It decides by
    /// arrivals, so that a replay forgets the same. Frames of a gyro and of fixed links stay.
    ///
    /// For a fixed link it looks at once, because a fixed link is said only once; but once per message.
    pub(super) fn make_room(&mut self, now: Option<Stamp>, fixed: bool) {
        // Without a clock nothing is abandoned, and no epoch has ended.
        let Some(now) = now else { return };
        // The links of one message share their arrival.
        let least_ns = if fixed { 1 } else { LOOK_NS };
        if self.looked.is_some_and(|looked| now.since(looked) < least_ns) {
            return;
        }
        self.looked = Some(now);
        for frame in &mut self.frames {
            if frame.is_abandoned(now) {
                frame.moving = None;
            }
        }
        let mut needed: Vec<bool> = self
            .frames
            .iter()
            .map(|frame| frame.of_gyro || frame.rows().next().is_some())
            .collect();
        for row in self.frames.iter().flat_map(Frame::rows) {
            needed[row.parent as usize] = true;
        }
        for (id, frame) in self.frames.iter().enumerate().filter(|(id, _)| !needed[*id]) {
            // If its place is spare already, another one may have its name.
            if self.ids.get(&frame.name) == Some(&(id as FrameId)) {
                self.ids.remove(&frame.name);
                self.spare.push(id as FrameId);
                self.forgotten.count += 1;
                self.forgotten.newest = frame.name.to_string();
            }
        }
    }
}

#[cfg(test)]
mod tests;
