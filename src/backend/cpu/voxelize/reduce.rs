//! The reductions: values of points to one value per occupied voxel, and on into the row.

use super::FRACTION_BITS;
use super::block::{BLOCK, Block};
use crate::config::Reduction;
use crate::dtype::{DType, bf16_bits};
use half::f16;

/// 2^20: scales a value to fixed point.
const ONE: f64 = (1u64 << FRACTION_BITS) as f64;

/// 1.5 * 2^52. Its sum with a number of at most 2^51 in magnitude lies between 2^52 and 2^53, where
/// an `f64` resolves exactly 1: the addition itself rounds to an integer, ties to even, and the
/// bits of the sum count on from those of this constant.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// The points of a block that are inside the grid.
pub struct Hits {
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

/// One channel of the row and what it has gathered, per occupied voxel.
pub enum Channel {
    /// Number of points, which is counted for all channels at once.
    Count,
    /// 1.
    Occupancy,
    /// Mean of the values in a column.
    Mean { column: usize, sums: Vec<i64> },
    /// Greatest of the values in a column.
    Max { column: usize, greatest: Vec<f32> },
}

impl Channel {
    /// A channel that finds its field in the column that `column` names.
    pub fn new(reduction: &Reduction, column: impl Fn(&str) -> usize) -> Self {
        match reduction {
            Reduction::Count => Channel::Count,
            Reduction::Occupancy => Channel::Occupancy,
            Reduction::Mean(name) => Channel::Mean { column: column(name), sums: Vec::new() },
            Reduction::Max(name) => Channel::Max { column: column(name), greatest: Vec::new() },
        }
    }

    /// Forgets the last cloud.
    pub fn reset(&mut self) {
        match self {
            Channel::Count | Channel::Occupancy => {}
            Channel::Mean { sums, .. } => sums.clear(),
            Channel::Max { greatest, .. } => greatest.clear(),
        }
    }

    /// Takes in the points of a block. `occupied` voxels have been met so far.
    pub fn add(&mut self, block: &Block, hits: &Hits, occupied: usize) {
        match self {
            Channel::Count | Channel::Occupancy => {}
            Channel::Mean { column, sums } => {
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
        }
    }

    /// Writes the values of the occupied `voxels` into the channel's `plane`. Returns a value that
    /// `dtype` cannot hold, if there is one.
    pub fn write(
        &self,
        dtype: DType,
        voxels: &[u32],
        counts: &[u32],
        plane: &mut [u8],
    ) -> Option<f32> {
        match self {
            Channel::Count => store(dtype, voxels, plane, |i| counts[i] as f32),
            Channel::Occupancy => store(dtype, voxels, plane, |_| 1.0),
            Channel::Mean { sums, .. } => {
                let mean = |i: usize| sums[i] as f64 / (f64::from(counts[i]) * ONE);
                store(dtype, voxels, plane, |i| mean(i) as f32)
            }
            Channel::Max { greatest, .. } => store(dtype, voxels, plane, |i| greatest[i]),
        }
    }
}

/// `value * 2^20`, rounded to the nearest integer with ties to even. `|value| <= 2^20`.
fn fixed_point(value: f32) -> i64 {
    let rounded = f64::from(value) * ONE + ROUNDER;
    rounded.to_bits() as i64 - ROUNDER.to_bits() as i64
}

/// Zeros the elements at `voxels` in every plane of `row`, each `volume` elements long.
pub fn clear(dtype: DType, voxels: &[u32], volume: usize, row: &mut [u8]) {
    for plane in row.chunks_exact_mut((volume * dtype.size()).max(1)) {
        match dtype {
            DType::F32 => put(voxels, plane, |_| [0; 4]),
            DType::F16 | DType::Bf16 => put(voxels, plane, |_| [0; 2]),
        }
    }
}

/// Rounds `value(i)` to `dtype` and writes it at `voxels[i]`, for every `i`. Returns a value that
/// `dtype` cannot hold, if there is one.
fn store(
    dtype: DType,
    voxels: &[u32],
    plane: &mut [u8],
    value: impl Fn(usize) -> f32,
) -> Option<f32> {
    if dtype != DType::F32 {
        // Values are finite, so that only the narrow types can fail to hold one.
        let beyond = (0..voxels.len()).map(&value).find(|value| !dtype.holds(*value));
        if beyond.is_some() {
            return beyond;
        }
    }
    match dtype {
        DType::F32 => put(voxels, plane, |i| value(i).to_le_bytes()),
        DType::F16 => put(voxels, plane, |i| f16::from_f32(value(i)).to_le_bytes()),
        DType::Bf16 => put(voxels, plane, |i| bf16_bits(value(i)).to_le_bytes()),
    }
    None
}

#[inline(always)]
fn put<const SIZE: usize>(voxels: &[u32], plane: &mut [u8], bytes: impl Fn(usize) -> [u8; SIZE]) {
    for (i, voxel) in voxels.iter().enumerate() {
        plane[*voxel as usize * SIZE..][..SIZE].copy_from_slice(&bytes(i));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fixed_point_rounds_ties_to_even(value in -1048576.0f32..=1048576.0) {
            let exact = f64::from(value) * ONE;
            prop_assert_eq!(fixed_point(value), exact.round_ties_even() as i64);
        }
    }

    #[test]
    fn fixed_point_at_ties_and_bounds() {
        let unit = (1.0 / ONE) as f32;
        for (units, expected) in
            [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (-2.5, -2), (0.51, 1)]
        {
            assert_eq!(fixed_point(units * unit), expected, "{units}");
        }
        assert_eq!(fixed_point(super::super::MAX_SUMMED), 1 << 40);
        assert_eq!(fixed_point(-super::super::MAX_SUMMED), -(1 << 40));
        assert_eq!(fixed_point(f32::MIN_POSITIVE), 0);
    }
}
