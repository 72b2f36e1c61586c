//! The arithmetic of the two passes of a resize, per kind of filter. `geometry.rs` and `weights.rs` explain
//! it. The CUDA twins are in `kernels/image/resize.cu`.

#[cfg(target_arch = "x86_64")]
use std::any::Any;

use pulp::Simd;
#[cfg(target_arch = "x86_64")]
use pulp::x86::V3;

use super::geometry::PRECISION_BITS;
use super::weights::Finish;

/// Numbers that a pair of taps handles at once.
pub(super) const LANES: usize = 32;

/// The weights of a pair of taps. An output with an odd number of inputs ends with a weight of 0, which
/// adds nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<T> {
    /// Both weights, in the order of the sum.
    pub weights: [T; 2],
    /// Both weights as `vpmaddwd` and `vpmaddubsw` take them; see [`Bytes`].
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AVX2 reads them"))]
    pub parts: [u32; 2],
}

/// The arithmetic of two passes.
pub(super) trait Arithmetic: Copy + 'static {
    /// A weight, and a sum.
    type Number: Copy + Default + 'static;
    /// A value between the passes.
    type Between: Copy + Default + 'static;
    /// Initial value of a sum.
    const START: Self::Number;

    /// Adds a byte of the image to a sum of the first pass.
    fn add_byte(sum: Self::Number, byte: u8, weight: Self::Number) -> Self::Number;

    /// The result of the first pass.
    fn between(sum: Self::Number) -> Self::Between;

    /// Adds a result of the first pass to a sum of the second.
    fn add_value(sum: Self::Number, value: Self::Between, weight: Self::Number) -> Self::Number;

    /// The byte of a sum of the second pass.
    fn finish(self, sum: Self::Number) -> u8;

    /// A pair of weights.
    fn pair(weights: [Self::Number; 2]) -> Pair<Self::Number> {
        Pair { weights, parts: [0; 2] }
    }

    /// The results of the first pass for a column of a block, from its pairs of inputs.
    #[inline(always)]
    fn first_pass<'a, S: Simd>(
        _: S,
        inputs: impl Iterator<Item = ([&'a [u8; LANES]; 2], Pair<Self::Number>)>,
    ) -> [Self::Between; LANES] {
        lanes(inputs, Self::START, Self::add_byte, Self::between)
    }

    /// The bytes of the second pass for a part of a line, from its pairs of inputs.
    #[inline(always)]
    fn second_pass<'a, S: Simd>(
        self,
        _: S,
        inputs: impl Iterator<Item = ([&'a [Self::Between; LANES]; 2], Pair<Self::Number>)>,
    ) -> [u8; LANES] {
        lanes(inputs, Self::START, Self::add_value, |sum| self.finish(sum))
    }
}

/// The sums of `inputs`, one tap after the other.
#[inline(always)]
fn lanes<'a, T: Copy + 'a, Number: Copy, Out: Copy + Default>(
    inputs: impl Iterator<Item = ([&'a [T; LANES]; 2], Pair<Number>)>,
    start: Number,
    add: impl Fn(Number, T, Number) -> Number,
    finish: impl Fn(Number) -> Out,
) -> [Out; LANES] {
    let mut sums = [start; LANES];
    for ([first, second], Pair { weights, .. }) in inputs {
        for ((sum, a), b) in sums.iter_mut().zip(first).zip(second) {
            *sum = add(add(*sum, *a, weights[0]), *b, weights[1]);
        }
    }
    let mut results = [Out::default(); LANES];
    for (result, sum) in results.iter_mut().zip(sums) {
        *result = finish(sum);
    }
    results
}

/// Pillow's: in integers, with bytes between the passes.
///
/// With AVX2 a weight is `high * 2^16 + low`, where `low` is signed. `vpmaddwd` multiplies bytes with `low` and
/// `vpmaddubsw` with `high`, each for both taps of a pair. Two weights are at most 2^22 and a rounding
/// error, so `high` is at most 64, and no pair of products exceeds 16 bits. The sums of `high` wrap modulo 2^16, and
/// those of `low` modulo 2^32: together that is the sum modulo 2^32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes;

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

    fn pair(weights: [i32; 2]) -> Pair<i32> {
        let low = weights.map(|weight| weight as u16);
        let high = weights.map(high_of);
        let low = u32::from(low[0]) | u32::from(low[1]) << 16;
        let high = u32::from(high[0]) | u32::from(high[1]) << 8;
        Pair { weights, parts: [low, high << 16 | high] }
    }

    #[inline(always)]
    fn first_pass<'a, S: Simd>(
        simd: S,
        inputs: impl Iterator<Item = ([&'a [u8; LANES]; 2], Pair<i32>)>,
    ) -> [u8; LANES] {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = (&simd as &dyn Any).downcast_ref() {
            return bytes_by_avx2(*avx2, inputs);
        }
        let _ = simd;
        lanes(inputs, Self::START, Self::add_byte, Self::between)
    }

    #[inline(always)]
    fn second_pass<'a, S: Simd>(
        self,
        simd: S,
        inputs: impl Iterator<Item = ([&'a [u8; LANES]; 2], Pair<i32>)>,
    ) -> [u8; LANES] {
        Self::first_pass(simd, inputs)
    }
}

/// The part above the lowest 16 bits, if these are signed.
fn high_of(weight: i32) -> u8 {
    ((weight + (1 << 15)) >> 16) as u8
}

/// [`lanes`] of [`Bytes`]. The unpack instructions leave lanes in another order, and the packs restore it.
///
/// It has no closures: the methods of arrays that take them are not compiled for AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn bytes_by_avx2<'a>(
    simd: V3,
    inputs: impl Iterator<Item = ([&'a [u8; LANES]; 2], Pair<i32>)>,
) -> [u8; LANES] {
    let avx = simd.avx;
    let avx2 = simd.avx2;
    let zero = avx._mm256_setzero_si256();
    let mut low = [[avx._mm256_set1_epi32(Bytes::START); 2]; 2];
    let mut high = [zero; 2];
    for ([first, second], Pair { parts, .. }) in inputs {
        let first = pulp::cast(*first);
        let second = pulp::cast(*second);
        let low_parts = avx._mm256_set1_epi32(parts[0] as i32);
        let high_parts = avx._mm256_set1_epi32(parts[1] as i32);
        let pairs =
            [avx2._mm256_unpacklo_epi8(first, second), avx2._mm256_unpackhi_epi8(first, second)];
        for half in 0..2 {
            let product = avx2._mm256_maddubs_epi16(pairs[half], high_parts);
            high[half] = avx2._mm256_add_epi16(high[half], product);
            let words = avx2._mm256_unpacklo_epi8(pairs[half], zero);
            let product = avx2._mm256_madd_epi16(words, low_parts);
            low[half][0] = avx2._mm256_add_epi32(low[half][0], product);
            let words = avx2._mm256_unpackhi_epi8(pairs[half], zero);
            let product = avx2._mm256_madd_epi16(words, low_parts);
            low[half][1] = avx2._mm256_add_epi32(low[half][1], product);
        }
    }
    let mut words = [zero; 2];
    for half in 0..2 {
        let sum = avx2._mm256_unpacklo_epi16(zero, high[half]);
        let sum = avx2._mm256_add_epi32(low[half][0], sum);
        let first = avx2._mm256_srai_epi32::<{ PRECISION_BITS as i32 }>(sum);
        let sum = avx2._mm256_unpackhi_epi16(zero, high[half]);
        let sum = avx2._mm256_add_epi32(low[half][1], sum);
        let second = avx2._mm256_srai_epi32::<{ PRECISION_BITS as i32 }>(sum);
        words[half] = avx2._mm256_packs_epi32(first, second);
    }
    pulp::cast(avx2._mm256_packus_epi16(words[0], words[1]))
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
pub(super) struct Torch;

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
pub(super) struct Linear;

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

#[cfg(test)]
mod tests;
