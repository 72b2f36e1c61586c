//! Drops of merged rows, so that a row that is made again counts only what has not been counted.

use std::collections::VecDeque;

use robocache_ops::time::Stamp;
use robocache_ops::voxelize::PointDrops;

/// Per row of the ring: what has been counted of it.
pub(super) struct LeftOut {
    /// Oldest first. As many as the ring has rows.
    rows: VecDeque<(Stamp, PointDrops)>,
    capacity: usize,
}

impl LeftOut {
    pub(super) fn new(capacity: usize) -> Self {
        // One is over the capacity for a moment.
        LeftOut { rows: VecDeque::with_capacity(capacity + 1), capacity }
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }

    /// Notes a row that entered the ring. Returns what has to be counted.
    ///
    /// A row is `again` if other clouds than its own make it again. It then counts what it leaves out
    /// beyond the most that it left out before: counters only rise, and the row made last is served.
    pub(super) fn note(&mut self, stamp: Stamp, drops: PointDrops, again: bool) -> PointDrops {
        let place = self.rows.partition_point(|(row, _)| *row < stamp);
        let Some((_, counted)) = self.rows.get_mut(place).filter(|(row, _)| *row == stamp) else {
            self.rows.insert(place, (stamp, drops));
            // The ring holds the newest rows, and so do these.
            if self.rows.len() > self.capacity {
                self.rows.pop_front();
            }
            return drops;
        };
        if !again {
            *counted = drops;
            return drops;
        }
        let beyond = PointDrops {
            too_few: drops.too_few.saturating_sub(counted.too_few),
            voxels_beyond: drops.voxels_beyond.saturating_sub(counted.voxels_beyond),
            // What a cloud lost by itself was counted when it came.
            ..PointDrops::default()
        };
        counted.too_few += beyond.too_few;
        counted.voxels_beyond += beyond.voxels_beyond;
        beyond
    }
}

#[cfg(test)]
mod tests;
