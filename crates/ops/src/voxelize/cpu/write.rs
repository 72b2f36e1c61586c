//! Writes the values of the occupied voxels into a row, and clears them again.

use crate::dtype::{DType, bf16_bits};
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Writes single elements of rows of one type.
pub(super) struct Writer {
    dtype: DType,
    /// Values on their way to `f16`, which the processor rounds many at a time.
    halves: Vec<f16>,
}

impl Writer {
    /// A writer of elements of `dtype`.
    pub(super) fn new(dtype: DType) -> Self {
        Writer { dtype, halves: Vec::new() }
    }

    /// Reserves memory for this many values.
    pub(super) fn reserve(&mut self, values: usize) {
        if self.dtype == DType::F16 {
            self.halves.reserve(values);
        }
    }

    /// Rounds the finite `values[i]` and writes it at element `voxels[i]` of `plane`, for every
    /// `i`. If the element type cannot hold one, returns it and leaves `plane` as it was.
    pub(super) fn store(
        &mut self,
        values: &[f32],
        voxels: &[u32],
        plane: &mut [u8],
    ) -> Result<(), f32> {
        match self.dtype {
            DType::F32 => put(voxels, values, plane, |value| value.to_le_bytes()),
            DType::U8 => self.integers::<1>(values, voxels, plane)?,
            DType::I32 => self.integers::<4>(values, voxels, plane)?,
            DType::Bf16 => {
                if let Some(value) = values.iter().find(|value| !DType::Bf16.holds(**value)) {
                    return Err(*value);
                }
                put(voxels, values, plane, |value| bf16_bits(*value).to_le_bytes());
            }
            DType::F16 => {
                self.halves.resize(values.len(), f16::ZERO);
                self.halves.convert_from_f32_slice(values);
                if let Some(at) = self.halves.iter().position(|half| !half.is_finite()) {
                    return Err(values[at]);
                }
                put(voxels, &self.halves, plane, |half| half.to_le_bytes());
            }
        }
        Ok(())
    }

    fn integers<const SIZE: usize>(
        &self,
        values: &[f32],
        voxels: &[u32],
        plane: &mut [u8],
    ) -> Result<(), f32> {
        if let Some(value) = values.iter().find(|value| !self.dtype.holds(**value)) {
            return Err(*value);
        }
        put(voxels, values, plane, |value| {
            let mut element = [0; SIZE];
            self.dtype.store(&[*value], &mut element);
            element
        });
        Ok(())
    }

    /// Zeros the elements at `voxels` in every plane of `row`, each `volume` elements long.
    pub(super) fn clear(&self, voxels: &[u32], volume: usize, row: &mut [u8]) {
        for plane in row.chunks_exact_mut((volume * self.dtype.size()).max(1)) {
            match self.dtype {
                DType::U8 => put(voxels, voxels, plane, |_| [0; 1]),
                DType::F32 | DType::I32 => put(voxels, voxels, plane, |_| [0; 4]),
                DType::F16 | DType::Bf16 => put(voxels, voxels, plane, |_| [0; 2]),
            }
        }
    }
}

#[inline(always)]
fn put<T, const SIZE: usize>(
    voxels: &[u32],
    values: &[T],
    plane: &mut [u8],
    bytes: impl Fn(&T) -> [u8; SIZE],
) {
    for (voxel, value) in voxels.iter().zip(values) {
        plane[*voxel as usize * SIZE..][..SIZE].copy_from_slice(&bytes(value));
    }
}
