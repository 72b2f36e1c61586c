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

    /// Whether `value` is still finite when it is stored as a float, or within the range of the
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
    for (bytes, value) in out.chunks_exact_mut(N).zip(values) {
        bytes.copy_from_slice(&element(*value));
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
mod tests {
    use super::*;

    #[test]
    fn bf16_rounding_is_that_of_the_half_crate() {
        let mut bits = 0u32;
        while bits < 0x7F80_0000 {
            for candidate in [bits, bits | 0x8000_0000] {
                let value = f32::from_bits(candidate);
                assert_eq!(bf16_bits(value), bf16::from_f32(value).to_bits(), "{value:e}");
            }
            bits += 0x3FF1; // a stride that meets ties, odd and even neighbours
        }
        for tie in [0x3F80_8000u32, 0x3F81_8000, 0x3F80_8001, 0x7F7F_FFFF] {
            let value = f32::from_bits(tie);
            assert_eq!(bf16_bits(value), bf16::from_f32(value).to_bits());
        }
    }

    #[test]
    fn every_nan_is_the_one_of_a_gpu() {
        for fraction in 1..1u32 << 23 {
            for sign in [0, 1 << 31] {
                let value = f32::from_bits(sign | 0x7F80_0000 | fraction);
                assert_eq!(bf16_bits(value), 0x7FFF, "{:x}", value.to_bits());
            }
        }
        for sign in [0, 0x8000] {
            assert_eq!(bf16_bits(f32::from_bits((sign | 0x7F80) << 16)), (sign | 0x7F80) as u16);
        }
        // A few of them in one block, so that those beside them are seen too.
        let values = [1.0, f32::NAN, f32::from_bits(0xFF80_0001), f32::INFINITY, -0.0];
        for (dtype, expected) in [
            (DType::F16, [0x3C00, 0x7FFF, 0x7FFF, 0x7C00, 0x8000]),
            (DType::Bf16, [0x3F80, 0x7FFF, 0x7FFF, 0x7F80, 0x8000u16]),
        ] {
            let mut bytes = [0; 10];
            dtype.store(&values, &mut bytes);
            assert_eq!(bytes, expected.map(u16::to_le_bytes).as_flattened(), "{dtype:?}");
        }
    }

    #[test]
    fn ranges() {
        assert!(DType::F16.holds(65_504.0) && !DType::F16.holds(65_520.0));
        assert!(DType::Bf16.holds(3.38e38) && !DType::Bf16.holds(f32::MAX));
        assert!(DType::F32.holds(f32::MAX) && !DType::F32.holds(f32::NAN));
        assert!(DType::U8.holds(255.4) && DType::U8.holds(-0.5));
        assert!(!DType::U8.holds(255.5) && !DType::U8.holds(-0.51) && !DType::U8.holds(f32::NAN));
        let least = i32::MIN as f32;
        assert!(DType::I32.holds(least) && !DType::I32.holds(-least));
    }

    #[test]
    fn integers_are_rounded_to_even_and_kept_in_their_range() {
        let mut bytes = [0; 6];
        DType::U8.store(&[0.5, 1.5, 254.5, 300.0, -3.0, 7.4], &mut bytes);
        assert_eq!(bytes, [0, 2, 254, 255, 0, 7]);
        let mut words = [0; 12];
        DType::I32.store(&[-2.5, 3e9, -70_000.0], &mut words);
        let expected = [-2, i32::MAX, -70_000].map(i32::to_le_bytes);
        assert_eq!(words, expected.as_flattened());
    }

    #[test]
    fn types_are_those_of_dlpack() {
        let codes = DType::ALL.map(|dtype| (dtype.name(), dtype.dlpack_code(), dtype.bits()));
        let expected =
            [("f32", 2, 32), ("f16", 2, 16), ("bf16", 4, 16), ("u8", 1, 8), ("i32", 0, 32)];
        assert_eq!(codes, expected);
    }
}
