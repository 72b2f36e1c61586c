//! Element types of the output, and the one rounding of a value to its type.

use half::{bf16, f16};

/// Element type of an output segment. All arithmetic before it is `f32`; a value is rounded once,
/// to nearest with ties to even, when it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16: largest finite value 65,504.
    F16,
    /// bfloat16: the upper half of an `f32`.
    Bf16,
}

impl DType {
    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::F16 | DType::Bf16 => 2,
        }
    }

    /// DLPack's `DLDataTypeCode`: 2 for IEEE floats, 4 for bfloat (dlpack.h).
    pub const fn dlpack_code(self) -> u8 {
        match self {
            DType::F32 | DType::F16 => 2,
            DType::Bf16 => 4,
        }
    }

    /// Bits per element, as DLPack counts them.
    pub const fn bits(self) -> u8 {
        self.size() as u8 * 8
    }

    /// The name used in configurations: `f32`, `f16` or `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
        }
    }

    /// Whether `value` is still finite when it is stored.
    pub fn holds(self, value: f32) -> bool {
        match self {
            DType::F32 => value.is_finite(),
            DType::F16 => f16::from_f32(value).is_finite(),
            DType::Bf16 => bf16::from_f32(value).is_finite(),
        }
    }

    /// Rounds `values` into `out` (little-endian, `values.len() * self.size()` bytes).
    ///
    /// # Panics
    /// If the lengths do not match. They come from the layout, never from a message.
    pub fn store(self, values: &[f32], out: &mut [u8]) {
        assert_eq!(out.len(), values.len() * self.size(), "store: length mismatch");
        match self {
            DType::F32 => {
                for (bytes, value) in out.chunks_exact_mut(4).zip(values) {
                    bytes.copy_from_slice(&value.to_le_bytes());
                }
            }
            DType::F16 => {
                for (bytes, value) in out.chunks_exact_mut(2).zip(values) {
                    bytes.copy_from_slice(&f16::from_f32(*value).to_le_bytes());
                }
            }
            DType::Bf16 => {
                for (bytes, value) in out.chunks_exact_mut(2).zip(values) {
                    bytes.copy_from_slice(&bf16_bits(*value).to_le_bytes());
                }
            }
        }
    }
}

/// `f32` to bfloat16 bits, to nearest with ties to even. It has no branch, so that loops over it
/// vectorise. It is wrong for NaN, but rows hold none: encoders drop them.
#[inline(always)]
pub fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) as u16
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
    fn ranges() {
        assert!(DType::F16.holds(65_504.0) && !DType::F16.holds(65_520.0));
        assert!(DType::Bf16.holds(3.38e38) && !DType::Bf16.holds(f32::MAX));
        assert!(DType::F32.holds(f32::MAX) && !DType::F32.holds(f32::NAN));
    }
}
