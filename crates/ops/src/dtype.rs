//! Element types of the output, and the one rounding of a value to its type.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Element type of an output segment.
///
/// All arithmetic before a float is `f32`; a value is rounded once, to nearest with ties to even,
/// when it is stored. Integers are stored as they are: the bytes of an image, which the policy
/// normalises itself, and the coordinates of voxels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16: largest finite value 65,504.
    F16,
    /// bfloat16: the upper half of an `f32`.
    Bf16,
    /// Unsigned byte.
    U8,
    /// Signed integer of 32 bits.
    I32,
}

impl DType {
    /// All of them.
    pub const ALL: [DType; 5] = [DType::F32, DType::F16, DType::Bf16, DType::U8, DType::I32];

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::Bf16 => 2,
            DType::U8 => 1,
        }
    }

    /// DLPack's `DLDataTypeCode`: 0 for signed integers, 1 for unsigned ones, 2 for IEEE floats, 4
    /// for bfloat (dlpack.h).
    pub const fn dlpack_code(self) -> u8 {
        match self {
            DType::I32 => 0,
            DType::U8 => 1,
            DType::F32 | DType::F16 => 2,
            DType::Bf16 => 4,
        }
    }

    /// Bits per element, as DLPack counts them.
    pub const fn bits(self) -> u8 {
        self.size() as u8 * 8
    }

    /// The name used in configurations: `f32`, `f16`, `bf16`, `u8` or `i32`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::U8 => "u8",
            DType::I32 => "i32",
        }
    }

    /// True if `value` is still finite when it is stored as a float, or within the range of the
    /// integers when it is rounded to one.
    pub fn holds(self, value: f32) -> bool {
        match self {
            DType::F32 => value.is_finite(),
            DType::F16 => f16::from_f32(value).is_finite(),
            DType::Bf16 => bf16::from_f32(value).is_finite(),
            DType::U8 => (0.0..=255.0).contains(&value.round_ties_even()),
            // -2^31 and 2^31 are floats, and the greatest i32 is not.
            DType::I32 => {
                let beyond = -(i32::MIN as f32);
                (-beyond..beyond).contains(&value.round_ties_even())
            }
        }
    }

    /// Rounds `values` into `out` (little-endian, `values.len() * self.size()` bytes). What an
    /// integer type cannot hold becomes the closest integer that it holds.
    ///
    /// # Panics
    /// If the lengths do not match. They come from the layout, never from a message.
    pub fn store(self, values: &[f32], out: &mut [u8]) {
        assert_eq!(out.len(), values.len() * self.size(), "store: length mismatch");
        match self {
            DType::F32 => put(values, out, f32::to_le_bytes),
            DType::F16 => put_halves(values, out),
            DType::Bf16 => put(values, out, |value| bf16_bits(value).to_le_bytes()),
            DType::U8 => put(values, out, |value| [value.round_ties_even() as u8]),
            DType::I32 => put(values, out, |value| (value.round_ties_even() as i32).to_le_bytes()),
        }
    }
}

#[inline(always)]
fn put<const N: usize>(values: &[f32], out: &mut [u8], element: impl Fn(f32) -> [u8; N]) {
    for (bytes, value) in out.as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *bytes = element(*value);
    }
}

/// Values as `f16`. The processor rounds many at a time; it keeps what a NaN carries, and a GPU does not.
fn put_halves(values: &[f32], out: &mut [u8]) {
    let mut halves = [f16::ZERO; 64];
    for (values, out) in values.chunks(halves.len()).zip(out.chunks_mut(2 * halves.len())) {
        let halves = &mut halves[..values.len()];
        halves.convert_from_f32_slice(values);
        for (bytes, half) in out.as_chunks_mut::<2>().0.iter_mut().zip(halves) {
            let bits = half.to_bits();
            *bytes = if bits & 0x7FFF > 0x7C00 { NAN_BITS } else { bits }.to_le_bytes();
        }
    }
}

/// The bits of NaN in `f16` and bfloat16: those that `cvt.rn` of a GPU gives for every NaN.
const NAN_BITS: u16 = 0x7FFF;

/// `f32` to bfloat16 bits, to nearest with ties to even; every NaN is that of a GPU. It selects and does not
/// branch, so that loops over it vectorise.
#[inline(always)]
pub fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    // The sum of a NaN may wrap around; it is not used.
    let rounded = (bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16) as u16;
    if value.is_nan() { NAN_BITS } else { rounded }
}

#[cfg(test)]
mod tests;
