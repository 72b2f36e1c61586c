//! What merged rows left out, so that a row that is made again counts only what has not been counted.

use std::collections::VecDeque;

use crate::ops::voxelize::PointDrops;
use crate::time::Stamp;

/// Per row of the ring: what has been counted of it.
pub(super) struct LeftOut {
    /// Oldest first. As many as the ring has rows.
    rows: VecDeque<(Stamp, PointDrops)>,
    capacity: usize,
}

impl LeftOut {
    pub fn new(capacity: usize) -> Self {
        // One is over the capacity for a moment.
        LeftOut { rows: VecDeque::with_capacity(capacity + 1), capacity }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// Notes a row that entered the ring. Returns what has to be counted.
    ///
    /// A row is `again` if other clouds than its own make it again. It then counts what it leaves out
    /// beyond the most that it left out before: counters only rise, and the row made last is served.
    pub fn note(&mut self, stamp: Stamp, drops: PointDrops, again: bool) -> PointDrops {
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
mod tests {
    use super::*;

    fn drops(too_few: u64, voxels_beyond: u64) -> PointDrops {
        PointDrops { too_few, voxels_beyond, ..PointDrops::default() }
    }

    #[test]
    fn a_row_counts_the_most_that_it_left_out() {
        let mut rows = LeftOut::new(2);
        let mut note = |ns, given, again| rows.note(Stamp::from_nanos(ns), given, again);
        assert_eq!(note(5, drops(2, 0), false), drops(2, 0));
        assert_eq!(note(5, drops(1, 300), true), drops(0, 300));
        assert_eq!(note(5, drops(4, 200), true), drops(2, 0));
        assert_eq!(note(5, drops(4, 300), true), drops(0, 0));
        // The sensor's correction is another cloud.
        assert_eq!(note(5, drops(1, 1), false), drops(1, 1));
        // Only the newest rows are known, as the ring has no others.
        assert_eq!(note(7, drops(1, 0), false), drops(1, 0));
        assert_eq!(note(6, drops(1, 0), false), drops(1, 0));
        let stamps: Vec<_> = rows.rows.iter().map(|(stamp, _)| stamp.nanos()).collect();
        assert_eq!((stamps, rows.rows.capacity() >= 3), (vec![6, 7], true));
        rows.clear();
        assert_eq!(rows.note(Stamp::from_nanos(6), drops(1, 0), true), drops(1, 0));
    }
}
