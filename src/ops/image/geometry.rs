//! What goes where when an image becomes a row, and with which coefficients: for every processor.
//!
//! Geometry, for an image of `w` x `h` and a row of `W` x `H` pixels, in integers (`/` rounds
//! down):
//!
//! - `stretch`: the whole image becomes `W` x `H`.
//! - `pad`: if the image is wider than the row (`w*H >= h*W`), it becomes `W` x `h*W/w`, otherwise
//!   `w*H/h` x `H`, never less than one pixel. Half of the remaining pixels, rounded down, are
//!   above and left of it. This is the `resize_with_pad` of robot policies (OpenPI).
//! - `crop`: if the image is wider than the row, `h*W/H` of its columns are taken, otherwise
//!   `w*H/W` of its lines, never less than one pixel. Half of the cut pixels, rounded down, are
//!   left of or above those taken.
//!
//! Colour becomes mono before the resize, mono becomes colour after it.
//!
//! # Bilinear resize with antialias, in integers
//!
//! The result is that of Pillow's `Image.resize(size, Image.BILINEAR, box)` on 8-bit images, bit
//! for bit (`src/libImaging/Resample.c`; compared with version 12.0.0). If the height shrinks much
//! more than the width, Pillow 13 runs the passes in the other order, which changes the rounding
//! between them. Here the horizontal pass always comes first. Per axis, from the box `[in0, in1)`
//! of an input of `n` pixels to `out` pixels, in `f64`:
//!
//! ```text
//! scale = (in1 - in0) / out           support = max(scale, 1)
//! centre of output i = in0 + (i + 0.5) * scale
//! inputs  trunc(centre - support + 0.5) .. trunc(centre + support + 0.5), clipped to 0..n
//! weight of input x = max(0, 1 - |x - centre + 0.5| / support), divided by the sum of all
//! coefficient = trunc(weight * 2^22 + 0.5)
//! ```
//!
//! If the image is larger than the box, the support reaches past the box. A pass computes
//! `(2^21 + sum of byte * coefficient) >> 22`, at most 255, in `i32`; the result of the first pass
//! is rounded to bytes. These are integers, so that every order of summation and every processor
//! gives the same bits.

use std::ops::Range;

use super::spec::{Fit, ImageSpec};

/// Fraction bits of a coefficient: 32, less 8 of the byte, one of the sign and one of the sum.
pub const PRECISION_BITS: u32 = 22;

/// Which part of an image goes where in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Columns and lines of the image that are resized.
    pub source: [Range<usize>; 2],
    /// Columns and lines of the row that they fill; the rest is padding.
    pub target: [Range<usize>; 2],
}

impl Placement {
    /// The placement of an image of `width` x `height` pixels, neither of them 0.
    pub fn new(spec: &ImageSpec, width: usize, height: usize) -> Self {
        Placement::fitting(spec.fit, [spec.width, spec.height], [width, height])
    }

    /// The same of an image of `size` in a row of `row` pixels (width, height), none of them 0.
    pub fn fitting(fit: Fit, row: [usize; 2], size: [usize; 2]) -> Self {
        let (mut source, mut target) = (size, row);
        // Which axis gives way: x where the image is wider than the row and cropped.
        let wider = mul(size[0], row[1]) >= mul(size[1], row[0]);
        match (fit, wider) {
            (Fit::Stretch, _) => {}
            (Fit::Pad, true) => target[1] = share(size[1], row[0], size[0]),
            (Fit::Pad, false) => target[0] = share(size[0], row[1], size[1]),
            (Fit::Crop, true) => source[0] = share(size[1], row[0], row[1]),
            (Fit::Crop, false) => source[1] = share(size[0], row[1], row[0]),
        }
        let centred = |part: [usize; 2], whole: [usize; 2]| {
            [centred(part[0], whole[0]), centred(part[1], whole[1])]
        };
        Placement { source: centred(source, size), target: centred(target, row) }
    }
}

/// `a * b` without overflow: both are lengths of something in memory.
fn mul(a: usize, b: usize) -> u128 {
    a as u128 * b as u128
}

/// `length * numerator / denominator`, rounded down, at least 1. At most one of the lengths it is
/// centred in, so that it fits.
fn share(length: usize, numerator: usize, denominator: usize) -> usize {
    (mul(length, numerator) / denominator as u128).max(1) as usize
}

/// The middle `part` of `0..whole`; the odd pixel lies behind it.
fn centred(part: usize, whole: usize) -> Range<usize> {
    let start = (whole - part) / 2;
    start..start + part
}

/// What one axis of a resize reads, and with which coefficients.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Inputs that are read at all.
    used: Range<usize>,
    /// Per output: the first input, counted from `used.start`, and its range in `coefficients`.
    taps: Vec<(usize, Range<usize>)>,
    coefficients: Vec<i32>,
}

impl Axis {
    /// The taps that take the part `part` (not empty) of an axis of `inputs` pixels to `outputs`
    /// pixels (not 0).
    pub fn new(inputs: usize, part: Range<usize>, outputs: usize) -> Self {
        let scale = (part.end - part.start) as f64 / outputs as f64;
        let support = scale.max(1.0);
        let mut axis = Axis { used: 0..0, taps: Vec::with_capacity(outputs), coefficients: vec![] };
        let mut weights = Vec::new();
        for output in 0..outputs {
            let centre = part.start as f64 + (output as f64 + 0.5) * scale;
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
        let start = axis.taps.iter().map(|(first, _)| *first).min().unwrap_or(0);
        let end = axis.taps.iter().map(|(first, range)| first + range.len()).max().unwrap_or(0);
        axis.taps.iter_mut().for_each(|(first, _)| *first -= start);
        axis.used = start..end;
        axis
    }

    /// At most this many coefficients, for any part of an axis of at most `inputs` pixels and for at
    /// most `outputs` pixels. An output reads twice its support, rounded up, and one more where the
    /// arithmetic rounds.
    pub const fn most_coefficients(inputs: usize, outputs: usize) -> usize {
        let most = if inputs > outputs { inputs } else { outputs };
        2 * most + 2 * outputs
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

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.taps.len()
    }

    /// The inputs that are read at all.
    pub fn used(&self) -> Range<usize> {
        self.used.clone()
    }

    /// Per output: the first input, counted from the start of [`Axis::used`], and the range of its
    /// coefficients.
    pub fn taps(&self) -> &[(usize, Range<usize>)] {
        &self.taps
    }

    /// The coefficients of all outputs, with 22 fraction bits.
    pub fn coefficients(&self) -> &[i32] {
        &self.coefficients
    }

    /// The most inputs that an output reads.
    pub fn longest(&self) -> usize {
        self.taps.iter().map(|(_, range)| range.len()).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ops::image::memory;

    proptest! {
        #[test]
        fn no_axis_has_more_coefficients_than_the_bound(
            inputs in 1usize..3000, outputs in 1usize..600, from in 0.0f64..1.0, to in 0.0f64..1.0,
            more in 0usize..100,
        ) {
            let start = ((inputs as f64 * from) as usize).min(inputs - 1);
            let end = start + 1 + ((inputs - start - 1) as f64 * to) as usize;
            let axis = Axis::new(inputs, start..end, outputs);
            let most = Axis::most_coefficients(inputs + more, outputs + more);
            prop_assert!(axis.coefficients().len() <= most, "{} > {most}", axis.coefficients().len());
        }
    }

    #[test]
    fn the_memory_of_a_large_camera_is_its_pixels_and_little_more() {
        let spec = ImageSpec {
            width: 224,
            height: 224,
            fit: Fit::Pad,
            color: crate::ops::image::Color::Rgb,
            mean: [0.0; 3],
            std: [1.0; 3],
            pad_value: 0,
        };
        let pixels = 4 * 3840 * 2160;
        let bytes = memory::upload_bytes(&spec, [3840, 2160]);
        assert!((pixels..pixels + 65_536).contains(&bytes), "{bytes}");
        assert_eq!(memory::lines_bytes(&spec, [3840, 2160]), 4 * 224 * 2160);
    }
}
