//! The arithmetic of the two passes of a resize, per kind of filter. `geometry.rs` and `weights.rs` explain
//! it. The CUDA twins are in `kernels/image/resize.cu`.

use super::geometry::PRECISION_BITS;
use super::weights::Finish;

/// The arithmetic of two passes.
pub trait Arithmetic: Copy + 'static {
    /// A weight, and a sum.
    type Number: Copy + Default + 'static;
    /// A value between the passes.
    type Between: Copy + Default + 'static;
    /// What a sum begins with.
    const START: Self::Number;

    /// Adds a byte of the image to a sum of the first pass.
    fn add_byte(sum: Self::Number, byte: u8, weight: Self::Number) -> Self::Number;

    /// The result of the first pass.
    fn between(sum: Self::Number) -> Self::Between;

    /// Adds a result of the first pass to a sum of the second.
    fn add_value(sum: Self::Number, value: Self::Between, weight: Self::Number) -> Self::Number;

    /// The byte of a sum of the second pass.
    fn finish(self, sum: Self::Number) -> u8;
}

/// Pillow's: in integers, with bytes between the passes.
#[derive(Clone, Copy, Debug)]
pub struct Bytes;

impl Arithmetic for Bytes {
    type Number = i32;
    type Between = u8;
    /// Rounds the sum to nearest.
    const START: i32 = 1 << (PRECISION_BITS - 1);

    #[inline(always)]
    fn add_byte(sum: i32, byte: u8, weight: i32) -> i32 {
        sum + i32::from(byte) * weight
    }

    /// Coefficients are not negative, but their sum may round above 2^22.
    #[inline(always)]
    fn between(sum: i32) -> u8 {
        (sum >> PRECISION_BITS).min(255) as u8
    }

    #[inline(always)]
    fn add_value(sum: i32, value: u8, weight: i32) -> i32 {
        Self::add_byte(sum, value, weight)
    }

    #[inline(always)]
    fn finish(self, sum: i32) -> u8 {
        Self::between(sum)
    }
}

impl Arithmetic for Finish {
    type Number = f32;
    type Between = f32;
    const START: f32 = 0.0;

    #[inline(always)]
    fn add_byte(sum: f32, byte: u8, weight: f32) -> f32 {
        sum + f32::from(byte) * weight
    }

    #[inline(always)]
    fn between(sum: f32) -> f32 {
        sum
    }

    #[inline(always)]
    fn add_value(sum: f32, value: f32, weight: f32) -> f32 {
        sum + value * weight
    }

    #[inline(always)]
    fn finish(self, sum: f32) -> u8 {
        let value = sum * self.scale;
        // `as u8` takes what is outside to the closest byte.
        if self.half_up { (value + 0.5) as u8 } else { value.round_ties_even() as u8 }
    }
}

/// torch's sums. A product of two `f32` is exact in `f64`.
#[derive(Clone, Copy, Debug)]
pub struct Torch;

impl Arithmetic for Torch {
    type Number = f32;
    type Between = f32;
    const START: f32 = 0.0;

    #[inline(always)]
    fn add_byte(sum: f32, byte: u8, weight: f32) -> f32 {
        Self::add_value(sum, f32::from(byte), weight)
    }

    #[inline(always)]
    fn between(sum: f32) -> f32 {
        sum
    }

    #[inline(always)]
    fn add_value(sum: f32, value: f32, weight: f32) -> f32 {
        (f64::from(sum) + f64::from(value) * f64::from(weight)) as f32
    }

    #[inline(always)]
    fn finish(self, sum: f32) -> u8 {
        sum.round_ties_even() as u8
    }
}

/// OpenCV's weights of 11 bits.
#[derive(Clone, Copy, Debug)]
pub struct Linear;

impl Arithmetic for Linear {
    type Number = i32;
    type Between = i32;
    const START: i32 = 0;

    #[inline(always)]
    fn add_byte(sum: i32, byte: u8, weight: i32) -> i32 {
        sum + i32::from(byte) * weight
    }

    #[inline(always)]
    fn between(sum: i32) -> i32 {
        sum
    }

    #[inline(always)]
    fn add_value(sum: i32, value: i32, weight: i32) -> i32 {
        sum + (((value >> 4) * weight) >> 16)
    }

    #[inline(always)]
    fn finish(self, sum: i32) -> u8 {
        ((sum + 2) >> 2).clamp(0, 255) as u8
    }
}
