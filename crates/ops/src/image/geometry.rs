//! Pillow's bilinear resize, and the nearest pixel: one axis, in integers, for every processor. What
//! goes where is in `placement.rs`; the other filters are in `weights.rs`.
//!
//! Colour becomes mono before the first resize, mono becomes colour after it.
//!
//! # Bilinear resize with antialias, in integers
//!
//! The result is that of Pillow's `Image.resize(size, Image.BILINEAR)` on 8-bit images, bit for bit
//! (`src/libImaging/Resample.c`; compared with versions 11.3 to 13.0). The order of the two passes depends
//! on the version, and changes the rounding between them. From `w` x `h` to `W` x `H` pixels:
//!
//! ```text
//! pil_bilinear, Pillow 11.3 to 12.1: the horizontal pass comes first
//! pil13_bilinear, Pillow 13: the vertical pass comes first if h > H and h - H > 2 * (w - W)
//! ```
//!
//! In Pillow 12.2 and 12.3 the vertical pass comes first if `h > 100 * w` and `h > H`: otherwise they are
//! `pil_bilinear` too. A part is cut out first and is an image of its own (`crop`, then `resize`). Pillow's
//! `resize(box=...)` is something else: it reads pixels around the box, and takes `w` and `h` of the whole
//! image for the order.
//!
//! Per axis, from `n` to `out` pixels, in `f64`:
//!
//! ```text
//! scale = n / out                     support = max(scale, 1)
//! centre of output i = (i + 0.5) * scale
//! inputs  trunc(centre - support + 0.5) .. trunc(centre + support + 0.5), clipped to 0..n
//! weight of input x = max(0, 1 - |x - centre + 0.5| / support), divided by the sum of all
//! coefficient = trunc(weight * 2^22 + 0.5)
//! ```
//!
//! A pass computes `(2^21 + sum of byte * coefficient) >> 22`, at most 255, in `i32`; the result of the
//! first pass is rounded to bytes. These are integers, so that every order of summation and every
//! processor gives the same bits. The nearest pixel has the one coefficient 2^22.

use std::ops::Range;

use super::weights::Weights;

/// Fraction bits of a coefficient: 32, less 8 of the byte, one of the sign and one of the sum.
pub(super) const PRECISION_BITS: u32 = 22;

/// Inputs and coefficients of one axis of a resize.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Inputs that are read at all.
    used: Range<usize>,
    /// Per output: the first input, counted from `used.start`, and its range in `coefficients`.
    taps: Vec<(usize, Range<usize>)>,
    coefficients: Vec<i32>,
}

impl Axis {
    /// The taps of the outputs `window` (not empty) of a bilinear resize from `inputs` to `outputs`
    /// pixels (neither is 0).
    pub(super) fn bilinear(inputs: usize, outputs: usize, window: Range<usize>) -> Self {
        let scale = inputs as f64 / outputs as f64;
        let support = scale.max(1.0);
        let mut axis = Axis::with_capacity(window.len());
        let mut weights = Vec::new();
        for output in window {
            let centre = (output as f64 + 0.5) * scale;
            // `as usize` truncates, and takes what is below 0 to 0.
            let first = (centre - support + 0.5) as usize;
            let end = ((centre + support + 0.5) as usize).min(inputs);
            weights.clear();
            // Pillow multiplies by the reciprocal; a division would round differently.
            let inverse = 1.0 / support;
            weights.extend((first..end).map(|input| {
                let distance = (input as f64 - centre + 0.5) * inverse;
                (1.0 - distance.abs()).max(0.0)
            }));
            axis.push(first, &weights);
        }
        axis.finish()
    }

    /// An axis for the nearest pixel, by the rule of OpenCV's `INTER_NEAREST`: the input at `floor(output * scale)`, in
    /// `f64`. That of torch's `nearest` is the same in `f32`.
    pub(super) fn nearest(inputs: usize, outputs: usize, window: Range<usize>) -> Self {
        let scale = 1.0 / (outputs as f64 / inputs as f64);
        let mut axis = Axis::with_capacity(window.len());
        for output in window {
            axis.push(((output as f64 * scale) as usize).min(inputs - 1), &[1.0]);
        }
        axis.finish()
    }

    fn with_capacity(outputs: usize) -> Self {
        Axis { used: 0..0, taps: Vec::with_capacity(outputs), coefficients: vec![] }
    }

    /// Counts the taps from the first input that is used.
    fn finish(mut self) -> Self {
        let start = self.taps.iter().map(|(first, _)| *first).min().unwrap_or(0);
        let end = self.taps.iter().map(|(first, range)| first + range.len()).max().unwrap_or(0);
        self.taps.iter_mut().for_each(|(first, _)| *first -= start);
        self.used = start..end;
        self
    }

    /// Appends an output. Zero coefficients at both ends are left out: they only cost time.
    fn push(&mut self, first: usize, weights: &[f64]) {
        let sum: f64 = weights.iter().sum();
        let fixed = |weight: &f64| {
            let share = if sum == 0.0 { *weight } else { *weight / sum };
            (share * f64::from(1 << PRECISION_BITS) + 0.5) as i32
        };
        let skipped = weights.iter().take_while(|weight| fixed(weight) == 0).count();
        let from = self.coefficients.len();
        self.coefficients.extend(weights[skipped..].iter().map(fixed));
        while self.coefficients.len() > from && self.coefficients.last() == Some(&0) {
            self.coefficients.pop();
        }
        self.taps.push((first + skipped, from..self.coefficients.len()));
    }

    /// Lists every input of the axis, with its weight.
    pub(super) fn into_weights(self) -> Weights<i32> {
        let inputs = |(first, range): &(usize, Range<usize>)| {
            let first = (self.used.start + first) as u32;
            first..first + range.len() as u32
        };
        Weights {
            inputs: self.taps.iter().flat_map(inputs).collect(),
            taps: self.taps.into_iter().map(|(_, range)| range).collect(),
            values: self.coefficients,
        }
    }

    /// Number of outputs.
    pub(super) fn outputs(&self) -> usize {
        self.taps.len()
    }

    /// The inputs that are read at all.
    #[cfg(feature = "cuda")]
    pub(super) fn used(&self) -> Range<usize> {
        self.used.clone()
    }

    /// Per output: the first input, counted from the start of [`Axis::used`], and the range of its
    /// coefficients.
    #[cfg(feature = "cuda")]
    pub(super) fn taps(&self) -> &[(usize, Range<usize>)] {
        &self.taps
    }

    /// The coefficients of all outputs, with 22 fraction bits.
    #[cfg(any(test, feature = "cuda"))]
    pub(super) fn coefficients(&self) -> &[i32] {
        &self.coefficients
    }
}

#[cfg(test)]
mod tests;
