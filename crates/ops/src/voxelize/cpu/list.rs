//! Writes occupied voxels as a list in the order of the grid.

use crate::dtype::DType;
use crate::voxelize::sparse::{COORDINATES_OF_VOXEL, SparseRow};
use crate::voxelize::spec::Grid;

/// Bits of a voxel that one pass sorts by.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Sorts and writes the voxels of one cloud at a time.
pub(super) struct List {
    place: SparseRow,
    shape: [usize; 3],
    dtype: DType,
    /// A voxel and where its values are; in the order of the grid once they are sorted.
    order: Vec<(u32, u32)>,
    scratch: Vec<(u32, u32)>,
    starts: Vec<u32>,
    /// The values of a channel as they are stored, not yet in order.
    elements: Vec<u8>,
}

impl List {
    /// A list for rows of this kind.
    pub(super) fn new(place: SparseRow, grid: &Grid, dtype: DType) -> Self {
        List {
            place,
            shape: grid.shape,
            dtype,
            order: Vec::new(),
            scratch: Vec::new(),
            starts: vec![0; DIGITS],
            elements: Vec::new(),
        }
    }

    /// Reserves memory for this many occupied voxels.
    pub(super) fn reserve(&mut self, voxels: usize) {
        self.order.reserve(voxels);
        self.scratch.reserve(voxels);
        if self.dtype != DType::F32 {
            self.elements.reserve(voxels * self.dtype.size());
        }
    }

    /// Bytes of a row.
    pub(super) fn row_bytes(&self) -> usize {
        self.place.bytes()
    }

    /// Zeros the first `voxels` of a row.
    pub(super) fn clear(&self, voxels: usize, row: &mut [u8]) {
        row[..voxels * self.place.feature_bytes].fill(0);
        row[self.place.coordinates_at()..]
            [..voxels * self.place.coordinates() / self.place.max_voxels]
            .fill(0);
    }

    /// Sorts `voxels` and writes the coordinates of the first ones, as many as there is room for. Returns
    /// how many these are.
    pub(super) fn write_coordinates(&mut self, voxels: &[u32], row: &mut [u8]) -> usize {
        self.sort(voxels);
        self.order.truncate(self.place.max_voxels);
        let [nx, ny, _] = self.shape.map(|n| n as u32);
        let out = row[self.place.coordinates_at()..].as_chunks_mut::<4>().0;
        let out = out.as_chunks_mut::<COORDINATES_OF_VOXEL>().0;
        // Voxels of a line along x follow each other: a division per line, not per voxel.
        let mut z = 0;
        let mut y = 0;
        let mut line = 0..0;
        for ((voxel, _), out) in self.order.iter().zip(out) {
            if *voxel >= line.end {
                let number = voxel / nx;
                (z, y, line) = (number / ny, number % ny, number * nx..(number + 1) * nx);
            }
            *out = [z, y, voxel - line.start].map(u32::to_le_bytes);
        }
        self.order.len()
    }

    /// Writes channel `channel`, whose finite values are in the order of the voxels that were sorted. Returns a
    /// value that the element type cannot hold, if there is one, also of a voxel without room.
    pub(super) fn write_channel(
        &mut self,
        channel: usize,
        values: &[f32],
        row: &mut [u8],
    ) -> Result<(), f32> {
        let step = self.place.feature_bytes;
        let dtype = self.dtype;
        if dtype == DType::F32 {
            // Holds every value, as all are finite.
            for ((_, at), out) in self.order.iter().zip(row.chunks_exact_mut(step)) {
                out[channel * 4..][..4].copy_from_slice(&values[*at as usize].to_le_bytes());
            }
            return Ok(());
        }
        // All are rounded before any is put in its place, because the processor rounds many at a time.
        self.elements.resize(values.len() * dtype.size(), 0);
        dtype.store(values, &mut self.elements);
        if let Some(at) = first_beyond(dtype, values, &self.elements) {
            return Err(values[at]);
        }
        match dtype.size() {
            1 => gather::<1>(&self.elements, &self.order, channel, step, row),
            2 => gather::<2>(&self.elements, &self.order, channel, step, row),
            _ => gather::<4>(&self.elements, &self.order, channel, step, row),
        }
        Ok(())
    }

    /// Sorts by voxel, digit by digit from the lowest: O(voxels), whatever the grid.
    fn sort(&mut self, voxels: &[u32]) {
        self.order.clear();
        self.order.extend(voxels.iter().enumerate().map(|(at, voxel)| (*voxel, at as u32)));
        let volume: usize = self.shape.iter().product();
        let bits = usize::BITS - volume.saturating_sub(1).leading_zeros();
        for shift in (0..bits).step_by(DIGIT_BITS as usize) {
            let digit = |voxel: u32| (voxel >> shift) as usize % DIGITS;
            self.starts.fill(0);
            self.order.iter().for_each(|(voxel, _)| self.starts[digit(*voxel)] += 1);
            let mut start = 0;
            for count in &mut self.starts {
                start += std::mem::replace(count, start);
            }
            self.scratch.resize(self.order.len(), (0, 0));
            for entry in &self.order {
                let place = &mut self.starts[digit(entry.0)];
                self.scratch[*place as usize] = *entry;
                *place += 1;
            }
            std::mem::swap(&mut self.order, &mut self.scratch);
        }
    }
}

/// The first value that the element type cannot hold. `elements` are the values as stored: a float that
/// is beyond the type's range became infinite.
fn first_beyond(dtype: DType, values: &[f32], elements: &[u8]) -> Option<usize> {
    let infinite = match dtype {
        DType::F16 => 0x7C00,
        DType::Bf16 => 0x7F80,
        DType::F32 | DType::U8 | DType::I32 => {
            return values.iter().position(|value| !dtype.holds(*value));
        }
    };
    let is_infinite = |bytes: &[u8; 2]| u16::from_le_bytes(*bytes) & infinite == infinite;
    let elements = elements.as_chunks::<2>().0;
    // Without an early end, so that it vectorises. An early end would almost never come.
    let any = elements.iter().fold(false, |any, bytes| any | is_infinite(bytes));
    any.then(|| elements.iter().position(is_infinite)).flatten()
}

/// Writes elements of one channel in this order, each `step` bytes after the one before.
fn gather<const SIZE: usize>(
    elements: &[u8],
    order: &[(u32, u32)],
    channel: usize,
    step: usize,
    row: &mut [u8],
) {
    let elements = elements.as_chunks::<SIZE>().0;
    for ((_, at), out) in order.iter().zip(row.chunks_exact_mut(step)) {
        out[channel * SIZE..][..SIZE].copy_from_slice(&elements[*at as usize]);
    }
}
