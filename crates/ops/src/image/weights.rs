//! The passes of all filters, and the weights of those that keep numbers of 32 bits between their two
//! passes: those of torch and of OpenCV. There the horizontal pass comes first.
//! Every sum is taken in the order of the weights and begins with 0.
//!
//! # torch
//!
//! The numbers are `f32`, and the result is rounded, to the even number on a tie. The weights, per axis
//! from `n` to `out` pixels, in `f32` (`aten/src/ATen/native/cpu/UpSampleKernel.cpp`):
//!
//! ```text
//! torch_bilinear: at = max((i + 0.5) * n/out - 0.5, 0); inputs trunc(at) and the next, if there is one
//!                 weight of the next = at - trunc(at), of the first 1 less that; the next comes first
//! torch_bilinear_antialias: inputs and weights as in `geometry.rs`
//! ```
//!
//! torch's own code contracts each multiplication with the addition after it. Here the product is exact
//! in `f64` and the sum is rounded to `f32`: the same but in one case of 2^29, on every processor. Where
//! it is next to a half, a result with antialias may be off by one (`tests/golden/make_filter_golden.py`
//! counts them).
//!
//! # `cv2_area`
//!
//! In `f32` (`modules/imgproc/src/resize.cpp`). The weight of an input is the part of an output's
//! `n/out` inputs that it is, if this is over 0.001. The result is `round(sum * scale)`, to the even
//! number on a tie. If both axes have whole numbers of inputs, all weights are 1 and scale is
//! `1 / (inputs of an output)`; of 2 x 2 inputs a tie is rounded up. If either axis grows, it is
//! `cv2_linear` with other weights.
//!
//! # `cv2_linear`
//!
//! In `i32`, two inputs per axis with weights of 11 bits. The second pass adds
//! `(value >> 4) * weight >> 16`; the result is `(sum + 2) >> 2`. If both sides are halved, it is
//! `cv2_area`.

use std::ops::Range;

use super::geometry::Axis;
use super::placement::Placement;
use super::spec::Filter;

/// How the two passes are computed, and with which weights: of columns, then of lines.
#[derive(Clone, Debug)]
pub(super) enum Kernel {
    /// In integers, with bytes between the passes.
    Bytes([Axis; 2]),
    /// In integers, with bytes between the passes, of which the vertical one is first.
    VerticalFirst([Axis; 2]),
    /// `cv2_linear`.
    Linear([Weights<i32>; 2]),
    /// `cv2_area`.
    Area([Weights<f32>; 2], Finish),
    /// The two of torch.
    Torch([Weights<f32>; 2]),
}

/// From a sum of `f32` to a byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Finish {
    /// The sum is multiplied by it.
    pub scale: f32,
    /// True if a tie is rounded up, and not to the even number.
    pub half_up: bool,
}

/// Inputs and weights of one axis of a resize.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Weights<T> {
    /// Per output: its range in `inputs` and `values`.
    pub taps: Vec<Range<usize>>,
    /// The inputs, in the order of the sum. One may be there twice.
    pub inputs: Vec<u32>,
    /// Their weights.
    pub values: Vec<T>,
}

impl Kernel {
    /// The kernel of a resize.
    pub(super) fn new(filter: Filter, placement: &Placement) -> Kernel {
        let inputs = placement.source.each_ref().map(Range::len);
        let outputs = placement.size;
        let on = |axis: usize| (inputs[axis], outputs[axis], placement.window[axis].clone());
        let float = |weights: fn(usize, usize, Range<usize>) -> Weights<f32>| {
            [on(0), on(1)].map(|(n, out, window)| weights(n, out, window))
        };
        let bytes = |axis: fn(usize, usize, Range<usize>) -> Axis| {
            [on(0), on(1)].map(|(n, out, window)| axis(n, out, window))
        };
        let shrinks = inputs[0] >= outputs[0] && inputs[1] >= outputs[1];
        match filter {
            Filter::Pil13Bilinear if is_vertical_first(inputs, outputs) => {
                Kernel::VerticalFirst(bytes(Axis::bilinear))
            }
            Filter::PilBilinear | Filter::Pil13Bilinear => Kernel::Bytes(bytes(Axis::bilinear)),
            Filter::Nearest => Kernel::Bytes(bytes(Axis::nearest)),
            Filter::TorchBilinear => Kernel::Torch(float(Weights::torch)),
            Filter::TorchBilinearAntialias => Kernel::Torch(float(Weights::torch_antialias)),
            Filter::Cv2Linear if outputs.map(|side| 2 * side) == inputs => {
                whole_area([on(0), on(1)])
            }
            Filter::Cv2Area if (0..2).all(|axis| is_whole(inputs[axis], outputs[axis])) => {
                whole_area([on(0), on(1)])
            }
            Filter::Cv2Area if shrinks => {
                Kernel::Area(float(Weights::area), Finish { scale: 1.0, half_up: false })
            }
            Filter::Cv2Linear | Filter::Cv2Area => {
                let of_area = filter == Filter::Cv2Area;
                let [columns, lines] = [on(0), on(1)];
                Kernel::Linear([
                    Weights::linear(columns, of_area, true),
                    Weights::linear(lines, of_area, false),
                ])
            }
        }
    }

    /// The inputs of each axis that are read at all: columns and lines.
    #[cfg(feature = "cuda")]
    pub(super) fn used(&self) -> [Range<usize>; 2] {
        match self {
            Kernel::Bytes(axes) | Kernel::VerticalFirst(axes) => axes.each_ref().map(Axis::used),
            Kernel::Linear(weights) => weights.each_ref().map(Weights::used),
            Kernel::Area(weights, _) | Kernel::Torch(weights) => {
                weights.each_ref().map(Weights::used)
            }
        }
    }
}

/// True if Pillow 13 resizes columns first: if the height shrinks by more than twice what the width does. A
/// width that grows shrinks by less than nothing.
fn is_vertical_first([w, h]: [usize; 2], [width, height]: [usize; 2]) -> bool {
    h > height && h + 2 * width > height + 2 * w
}

/// True if OpenCV takes the scale of an axis for a whole number.
fn is_whole(inputs: usize, outputs: usize) -> bool {
    let scale = 1.0 / (outputs as f64 / inputs as f64);
    inputs.is_multiple_of(outputs) && (scale - scale.round()).abs() < f64::EPSILON
}

/// `cv2_area` with whole numbers of inputs.
fn whole_area(axes: [(usize, usize, Range<usize>); 2]) -> Kernel {
    let counts = axes.each_ref().map(|(inputs, outputs, _)| inputs / outputs);
    let weights = axes.map(|(inputs, outputs, window)| {
        let count = inputs / outputs;
        let mut weights = Weights::with_capacity(window.len());
        window.for_each(|output| {
            weights.push((0..count).map(|i| ((output * count + i) as u32, 1.0f32)));
        });
        weights
    });
    let scale = 1.0 / (counts[0] * counts[1]) as f32;
    Kernel::Area(weights, Finish { scale, half_up: counts == [2, 2] })
}

impl<T: Copy> Weights<T> {
    fn with_capacity(outputs: usize) -> Self {
        Weights { taps: Vec::with_capacity(outputs), inputs: Vec::new(), values: Vec::new() }
    }

    /// Appends an output.
    fn push(&mut self, weights: impl IntoIterator<Item = (u32, T)>) {
        let from = self.inputs.len();
        for (input, weight) in weights {
            self.inputs.push(input);
            self.values.push(weight);
        }
        self.taps.push(from..self.inputs.len());
    }

    /// The inputs that are read at all.
    #[cfg(feature = "cuda")]
    pub(super) fn used(&self) -> Range<usize> {
        let first = self.inputs.iter().min().copied().unwrap_or(0);
        let last = self.inputs.iter().max().copied().unwrap_or(0);
        first as usize..last as usize + 1
    }
}

impl Weights<f32> {
    fn torch(inputs: usize, outputs: usize, window: Range<usize>) -> Self {
        let scale = inputs as f32 / outputs as f32;
        let mut weights = Weights::with_capacity(window.len());
        for output in window {
            let at = ((output as f32 + 0.5) * scale - 0.5).max(0.0);
            let first = (at as usize).min(inputs - 1);
            let second = (first + 1).min(inputs - 1);
            let weight = (at - first as f32).clamp(0.0, 1.0);
            weights.push([(second as u32, weight), (first as u32, 1.0 - weight)]);
        }
        weights
    }

    fn torch_antialias(inputs: usize, outputs: usize, window: Range<usize>) -> Self {
        let scale = inputs as f32 / outputs as f32;
        let support = scale.max(1.0);
        let inverse = 1.0 / support;
        let mut weights = Weights::with_capacity(window.len());
        let mut values: Vec<f32> = Vec::new();
        for output in window {
            let centre = (output as f32 + 0.5) * scale;
            // `as usize` truncates, and takes what is below 0 to 0.
            let first = (centre - support + 0.5) as usize;
            let end = ((centre + support + 0.5) as usize).min(inputs);
            let weight = |input: usize| {
                let distance = (input as f32 - centre + 0.5) * inverse;
                if distance.abs() < 1.0 { 1.0 - distance.abs() } else { 0.0 }
            };
            values.clear();
            values.extend((first..end).map(weight));
            let sum = values.iter().fold(0.0f32, |sum, value| sum + value);
            weights.push((first as u32..).zip(values.iter().map(|value| value / sum)));
        }
        weights
    }

    fn area(inputs: usize, outputs: usize, window: Range<usize>) -> Self {
        let scale = 1.0 / (outputs as f64 / inputs as f64);
        let mut weights = Weights::with_capacity(window.len());
        for output in window {
            let from = output as f64 * scale;
            let to = from + scale;
            let width = scale.min(inputs as f64 - from);
            let last = (to.floor() as usize).min(inputs - 1);
            let first = (from.ceil() as usize).min(last);
            let before = (first as f64 - from > 1e-3)
                .then(|| (first as u32 - 1, ((first as f64 - from) / width) as f32));
            let after = (to - last as f64 > 1e-3)
                .then(|| (last as u32, ((to - last as f64).min(1.0).min(width) / width) as f32));
            let whole = (first as u32..last as u32).map(|input| (input, (1.0 / width) as f32));
            weights.push(before.into_iter().chain(whole).chain(after));
        }
        weights
    }
}

impl Weights<i32> {
    /// OpenCV shifts the place of columns at the border, and takes lines from the border again.
    fn linear(
        (inputs, outputs, window): (usize, usize, Range<usize>),
        of_area: bool,
        columns: bool,
    ) -> Self {
        let inverse = outputs as f64 / inputs as f64;
        let scale = 1.0 / inverse;
        let last = inputs as i64 - 1;
        let mut weights = Weights::with_capacity(window.len());
        for output in window {
            let (mut first, mut weight) = match of_area {
                false => {
                    let at = ((output as f64 + 0.5) * scale - 0.5) as f32;
                    (at.floor() as i64, at - at.floor())
                }
                true => {
                    let first = (output as f64 * scale).floor() as i64;
                    let past = ((output + 1) as f64 - (first + 1) as f64 * inverse) as f32;
                    (first, if past <= 0.0 { 0.0 } else { past - past.floor() })
                }
            };
            if columns && !(0..last).contains(&first) {
                (first, weight) = (first.clamp(0, last), 0.0);
            }
            let fixed = |weight: f32| (weight * 2048.0).round_ties_even() as i32;
            let input = |at: i64| at.clamp(0, last) as u32;
            weights.push([(input(first), fixed(1.0 - weight)), (input(first + 1), fixed(weight))]);
        }
        weights
    }
}

#[cfg(test)]
mod tests;
