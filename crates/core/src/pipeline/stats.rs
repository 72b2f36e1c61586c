//! Counters of the pipeline: every message is either accepted or dropped for one reason.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::histogram::Histogram;
use crate::rejected::DropReason;
use robocache_ops::align::InvalidReason;
use robocache_ops::voxelize::PointDrops;

/// A counter that any thread may raise. Its order is relaxed, because each counter is read alone.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Raises the counter.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one input. `received` equals `accepted` plus all drops.
#[derive(Debug, Default)]
pub struct InputStats {
    /// Messages handed to the pipeline.
    pub received: Counter,
    /// Messages that were not dropped.
    pub accepted: Counter,
    /// Groups of joints that were skipped because a message held only some of their joints.
    pub groups_incomplete: Counter,
    /// Arrival on the node's clock minus the stamp, offset included \[ns\]: of messages that were
    /// accepted, or dropped because their stamp is ahead or late. Empty under `timeline: receive`.
    pub delay: Histogram,
    drops: [Counter; DropReason::ALL.len()],
    parts: [Counter; DropReason::ALL.len()],
}

impl InputStats {
    /// Counts a dropped message.
    pub fn drop(&self, reason: DropReason) {
        self.drops[reason as usize].add(1);
    }

    /// Messages dropped for `reason` so far.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize].get()
    }

    /// Messages dropped so far.
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().map(Counter::get).sum()
    }

    /// Counts parts that were dropped from an accepted message.
    pub fn drop_parts(&self, reason: DropReason, parts: u64) {
        self.parts[reason as usize].add(parts);
    }

    /// Parts dropped from accepted messages for `reason` so far.
    pub fn parts_dropped(&self, reason: DropReason) -> u64 {
        self.parts[reason as usize].get()
    }

    /// Parts dropped from accepted messages so far.
    pub fn parts_dropped_total(&self) -> u64 {
        self.parts.iter().map(Counter::get).sum()
    }
}

/// Counters of one stream.
#[derive(Debug, Default)]
pub struct StreamStats {
    /// Rows that entered a ring.
    pub rows: Counter,
    /// Rows that came after a newer one and were put in their place.
    pub reordered: Counter,
    /// Rows that replaced one of the same stamp.
    pub replaced: Counter,
    /// Merged rows that were made again, because a cloud came late or had the stamp of another input's.
    pub remade: Counter,
    /// Points dropped because a value was NaN or infinite, in clouds that were kept.
    pub points_non_finite: Counter,
    /// Points dropped because a value was outside the fixed-point range, in clouds that were kept.
    pub points_out_of_range: Counter,
    /// Points outside the grid.
    pub points_outside: Counter,
    /// Points closer to the sensor, or further from it, than the filter takes.
    pub points_out_of_reach: Counter,
    /// Points that the filter's boxes do not keep, or remove.
    pub points_cropped: Counter,
    /// Points on the robot itself.
    pub points_on_robot: Counter,
    /// Points in voxels that have too few.
    pub points_too_few: Counter,
    /// Occupied voxels that sparse rows had no room for.
    pub voxels_beyond_capacity: Counter,
    /// Steps of all ticks.
    pub steps: Counter,
    /// Steps that were valid.
    pub steps_valid: Counter,
    /// Ticks whose newest step is a valid row from before the target, although the strategy asks
    /// for rows on both sides: no newer row had come yet.
    pub newest_held: Counter,
    invalid: [Counter; InvalidReason::ALL.len()],
}

impl StreamStats {
    /// Counts the points that a cloud lost on its way into a row.
    pub fn add_points(&self, drops: &PointDrops) {
        for (counter, points) in [
            (&self.points_non_finite, drops.non_finite),
            (&self.points_out_of_range, drops.out_of_range),
            (&self.points_outside, drops.outside),
            (&self.points_out_of_reach, drops.out_of_reach),
            (&self.points_cropped, drops.cropped),
            (&self.points_on_robot, drops.on_robot),
            (&self.points_too_few, drops.too_few),
            (&self.voxels_beyond_capacity, drops.voxels_beyond),
        ] {
            counter.add(points);
        }
    }

    /// Counts invalid steps, by [`InvalidReason`].
    pub fn add_invalid(&self, steps: &[u64; InvalidReason::ALL.len()]) {
        let counted = self.invalid.iter().zip(steps).filter(|(_, steps)| **steps > 0);
        counted.for_each(|(counter, steps)| counter.add(*steps));
    }

    /// Steps that were invalid for `reason` so far.
    pub fn invalid(&self, reason: InvalidReason) -> u64 {
        self.invalid[reason as usize].get()
    }
}

#[cfg(test)]
mod tests;
