//! From a byte to an element: `(byte / 255 - mean) / std` in `f32`, rounded to the row's type once.
//! In a row of `u8` an element is the byte itself: the policy normalises it.

use super::spec::{Color, ImageSpec};
use crate::dtype::DType;

/// The table of every channel of the row: the elements of all bytes, as they are stored.
///
/// # Panics
/// If `N` is not the size of the element type.
pub(super) fn tables<const N: usize>(spec: &ImageSpec, dtype: DType) -> Vec<[[u8; N]; 256]> {
    let mut tables = vec![[[0; N]; 256]; spec.color.channels()];
    for ((table, mean), std) in tables.iter_mut().zip(spec.mean).zip(spec.std) {
        for (byte, element) in (0u8..=255).zip(table.iter_mut()) {
            if dtype == DType::U8 {
                element.copy_from_slice(&[byte]);
                continue;
            }
            dtype.store(&[(f32::from(byte) / 255.0 - mean) / std], element);
        }
    }
    tables
}

/// The tables of an image between two resizes, whose elements are the bytes.
pub(super) fn bytes(color: Color) -> &'static [[[u8; 1]; 256]] {
    static BYTES: [[[u8; 1]; 256]; 3] = {
        let mut table = [[0; 1]; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = [byte as u8];
            byte += 1;
        }
        [table; 3]
    };
    &BYTES[..color.channels()]
}
