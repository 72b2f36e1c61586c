//! The reductions: values of points to one value per occupied voxel.

use super::block::{BLOCK, Block};
use crate::voxelize::spec::{FRACTION_BITS, Feature, Reduction};

/// 2^20: scales a value to fixed point.
const ONE: f64 = (1u64 << FRACTION_BITS) as f64;

/// 1.5 * 2^52. Its sum with a number of at most 2^51 in magnitude is between 2^52 and 2^53, where
/// an `f64` resolves exactly 1. So the addition itself rounds to an integer, ties to even. The bits
/// of the sum minus the bits of this constant are that integer.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// The points of a block that are inside the grid.
pub(super) struct Hits {
    /// Number of them.
    pub len: usize,
    /// Their positions in the block.
    pub points: [u32; BLOCK],
    /// The positions of their voxels among the occupied ones.
    pub entries: [u32; BLOCK],
}

impl Default for Hits {
    fn default() -> Self {
        Hits { len: 0, points: [0; BLOCK], entries: [0; BLOCK] }
    }
}

impl Hits {
    fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        let both = self.points[..self.len].iter().zip(&self.entries);
        both.map(|(point, entry)| (*point as usize, *entry as usize))
    }
}

/// One channel of the row, with its state per occupied voxel.
pub(super) enum Channel {
    /// Number of points, which is counted for all channels at once.
    Count,
    /// 1.
    Occupancy,
    /// Mean of the values in a column.
    Mean { column: usize, sums: Vec<i64> },
    /// Sum of the values in a column.
    Sum { column: usize, sums: Vec<i64> },
    /// Greatest of the values in a column.
    Max { column: usize, greatest: Vec<f32> },
    /// Least of the values in a column.
    Min { column: usize, least: Vec<f32> },
    /// The last of the values in a column.
    Last { column: usize, last: Vec<f32> },
}

impl Channel {
    /// A channel that finds its feature in the column that `column` names.
    pub(super) fn new(reduction: &Reduction, column: impl Fn(&Feature) -> usize) -> Self {
        match reduction {
            Reduction::Count => Channel::Count,
            Reduction::Occupancy => Channel::Occupancy,
            Reduction::Mean(of) => Channel::Mean { column: column(of), sums: Vec::new() },
            Reduction::Sum(of) => Channel::Sum { column: column(of), sums: Vec::new() },
            Reduction::Max(of) => Channel::Max { column: column(of), greatest: Vec::new() },
            Reduction::Min(of) => Channel::Min { column: column(of), least: Vec::new() },
            Reduction::Last(of) => Channel::Last { column: column(of), last: Vec::new() },
        }
    }

    /// Reserves memory for this many occupied voxels.
    pub(super) fn reserve(&mut self, voxels: usize) {
        match self {
            Channel::Count | Channel::Occupancy => {}
            Channel::Mean { sums, .. } | Channel::Sum { sums, .. } => sums.reserve(voxels),
            Channel::Max { greatest: values, .. }
            | Channel::Min { least: values, .. }
            | Channel::Last { last: values, .. } => values.reserve(voxels),
        }
    }

    /// Forgets the last cloud.
    pub(super) fn reset(&mut self) {
        match self {
            Channel::Count | Channel::Occupancy => {}
            Channel::Mean { sums, .. } | Channel::Sum { sums, .. } => sums.clear(),
            Channel::Max { greatest: values, .. }
            | Channel::Min { least: values, .. }
            | Channel::Last { last: values, .. } => values.clear(),
        }
    }

    /// Takes in the points of a block. `occupied` voxels have been met so far.
    pub(super) fn add(&mut self, block: &Block, hits: &Hits, occupied: usize) {
        match self {
            Channel::Count | Channel::Occupancy => {}
            Channel::Mean { column, sums } | Channel::Sum { column, sums } => {
                sums.resize(occupied, 0);
                let values = block.column(*column);
                for (point, entry) in hits.iter() {
                    sums[entry] += fixed_point(values[point]);
                }
            }
            Channel::Max { column, greatest } => {
                greatest.resize(occupied, f32::NEG_INFINITY);
                let values = block.column(*column);
                for (point, entry) in hits.iter() {
                    let value = values[point] + 0.0; // -0.0 + 0.0 is 0.0
                    if value > greatest[entry] {
                        greatest[entry] = value;
                    }
                }
            }
            Channel::Min { column, least } => {
                least.resize(occupied, f32::INFINITY);
                let values = block.column(*column);
                for (point, entry) in hits.iter() {
                    let value = values[point] + 0.0;
                    if value < least[entry] {
                        least[entry] = value;
                    }
                }
            }
            Channel::Last { column, last } => {
                last.resize(occupied, 0.0);
                let values = block.column(*column);
                for (point, entry) in hits.iter() {
                    last[entry] = values[point] + 0.0;
                }
            }
        }
    }

    /// Moves the state of voxel `from` to the place of voxel `to`.
    pub(super) fn relocate(&mut self, from: usize, to: usize) {
        match self {
            Channel::Count | Channel::Occupancy => {}
            Channel::Mean { sums, .. } | Channel::Sum { sums, .. } => sums[to] = sums[from],
            Channel::Max { greatest: values, .. }
            | Channel::Min { least: values, .. }
            | Channel::Last { last: values, .. } => values[to] = values[from],
        }
    }

    /// Forgets all voxels but the first `count`.
    pub(super) fn truncate(&mut self, count: usize) {
        match self {
            Channel::Count | Channel::Occupancy => {}
            Channel::Mean { sums, .. } | Channel::Sum { sums, .. } => sums.truncate(count),
            Channel::Max { greatest: values, .. }
            | Channel::Min { least: values, .. }
            | Channel::Last { last: values, .. } => values.truncate(count),
        }
    }

    /// The value of every occupied voxel, into `values`. All are finite.
    pub(super) fn values(&self, counts: &[u32], values: &mut Vec<f32>) {
        values.clear();
        match self {
            Channel::Count => values.extend(counts.iter().map(|count| *count as f32)),
            Channel::Occupancy => values.resize(counts.len(), 1.0),
            Channel::Mean { sums, .. } => {
                let means = sums.iter().zip(counts).map(|(sum, count)| mean(*sum, *count));
                values.extend(means);
            }
            Channel::Sum { sums, .. } => {
                values.extend(sums.iter().map(|sum| (*sum as f64 / ONE) as f32));
            }
            Channel::Max { greatest: all, .. }
            | Channel::Min { least: all, .. }
            | Channel::Last { last: all, .. } => values.extend_from_slice(all),
        }
    }
}

/// The mean of `count` values whose fixed-point sum is `sum`.
fn mean(sum: i64, count: u32) -> f32 {
    (sum as f64 / (f64::from(count) * ONE)) as f32
}

/// `value * 2^20`, rounded to the nearest integer with ties to even. `|value| <= 2^20`.
fn fixed_point(value: f32) -> i64 {
    let rounded = f64::from(value) * ONE + ROUNDER;
    rounded.to_bits() as i64 - ROUNDER.to_bits() as i64
}

#[cfg(test)]
mod tests;
