//! From a byte to an element: `(byte / 255 - mean) / std` in `f32`, rounded to the row's type once.

use super::spec::ImageSpec;
use crate::dtype::DType;

/// The table of every channel of the row: the elements of all bytes, as they are stored.
pub fn tables<const N: usize>(spec: &ImageSpec, dtype: DType) -> Vec<[[u8; N]; 256]> {
    let mut tables = vec![[[0; N]; 256]; spec.color.channels()];
    for ((table, mean), std) in tables.iter_mut().zip(spec.mean).zip(spec.std) {
        for (byte, element) in (0u8..=255).zip(table.iter_mut()) {
            dtype.store(&[(f32::from(byte) / 255.0 - mean) / std], element);
        }
    }
    tables
}
