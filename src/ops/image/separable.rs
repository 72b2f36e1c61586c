//! Resizes with numbers of 32 bits between the passes; `weights.rs` explains the arithmetic.
//!
//! A line of the image is resized when the first output needs it, into a ring buffer that is just large
//! enough for the inputs of one output. So lines that nothing reads cost nothing.

use pulp::{Arch, Simd, WithSimd};

use super::pixels::{self, Converted};
use super::spec::{Encoding, ImageView};
use super::weights::{Finish, Weights};

/// The arithmetic of two passes. Its CUDA twin is in `kernels/image/resize.cu`.
pub trait Arithmetic: Copy + 'static {
    /// A weight, a value between the passes, and a sum.
    type Number: Copy + Default + 'static;

    /// Adds a byte of the image to a sum of the first pass.
    fn add_byte(sum: Self::Number, byte: u8, weight: Self::Number) -> Self::Number;

    /// Adds a result of the first pass to a sum of the second.
    fn add_value(sum: Self::Number, value: Self::Number, weight: Self::Number) -> Self::Number;

    /// The byte of a sum of the second pass.
    fn finish(self, sum: Self::Number) -> u8;
}

impl Arithmetic for Finish {
    type Number = f32;

    #[inline(always)]
    fn add_byte(sum: f32, byte: u8, weight: f32) -> f32 {
        sum + f32::from(byte) * weight
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

    #[inline(always)]
    fn add_byte(sum: f32, byte: u8, weight: f32) -> f32 {
        Self::add_value(sum, f32::from(byte), weight)
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

    #[inline(always)]
    fn add_byte(sum: i32, byte: u8, weight: i32) -> i32 {
        sum + i32::from(byte) * weight
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

/// Resizes images of one size and number of channels; holds the buffers for it.
#[derive(Debug)]
pub struct Separable<A: Arithmetic> {
    arch: Arch,
    arithmetic: A,
    columns: Weights<A::Number>,
    lines: Weights<A::Number>,
    channels: usize,
    /// Which line of the image each line of `ring` is.
    held: Vec<Option<u32>>,
    ring: Vec<A::Number>,
    sums: Vec<A::Number>,
    bytes: Vec<u8>,
}

impl<A: Arithmetic> Separable<A> {
    /// A resizer of `luma` (of colour or mono images) or else of the channels of `encoding`.
    pub fn new(
        arithmetic: A,
        [columns, lines]: [Weights<A::Number>; 2],
        encoding: Encoding,
        luma: bool,
    ) -> Self {
        let channels = pixels::channels(encoding, luma);
        let len = columns.outputs() * channels;
        Separable {
            arch: Arch::new(),
            arithmetic,
            channels,
            held: vec![None; lines.longest()],
            ring: vec![A::Number::default(); lines.longest() * len],
            sums: vec![A::Number::default(); len],
            bytes: vec![0; len],
            columns,
            lines,
        }
    }

    /// Bytes per pixel of the result: 1, or 4 if there are 3 or 4 channels.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// As [`super::resize::Resizer::run`].
    pub fn run(
        &mut self,
        view: &ImageView<'_>,
        mut sink: impl FnMut(usize, &[u8]) -> bool,
    ) -> bool {
        self.held.fill(None);
        let channels = self.channels;
        pixels::convert(view.encoding, channels, Run { resizer: self, view, sink: &mut sink })
    }

    /// Both passes, for pixels of `BPP` bytes that `convert` takes to `CH` bytes.
    #[inline(always)]
    fn passes<const BPP: usize, const CH: usize>(
        &mut self,
        view: &ImageView<'_>,
        convert: impl Fn([u8; BPP]) -> [u8; CH] + Copy,
        sink: &mut impl FnMut(usize, &[u8]) -> bool,
    ) -> bool {
        let len = self.sums.len();
        for y in 0..self.lines.outputs() {
            let tap = self.lines.taps[y].clone();
            self.sums.fill(A::Number::default());
            for (input, weight) in
                self.lines.inputs[tap.clone()].iter().zip(&self.lines.values[tap])
            {
                let place = *input as usize % self.held.len();
                let line = &mut self.ring[place * len..(place + 1) * len];
                if self.held[place] != Some(*input) {
                    self.held[place] = Some(*input);
                    let bytes = &view.data[*input as usize * view.step..][..view.width * BPP];
                    resize_line::<A, BPP, CH>(&self.columns, bytes, convert, line);
                }
                for (sum, value) in self.sums.iter_mut().zip(line) {
                    *sum = A::add_value(*sum, *value, *weight);
                }
            }
            for (byte, sum) in self.bytes.iter_mut().zip(&self.sums) {
                *byte = self.arithmetic.finish(*sum);
            }
            if !sink(y, &self.bytes) {
                return false;
            }
        }
        true
    }
}

/// The first pass of one line.
#[inline(always)]
fn resize_line<A: Arithmetic, const BPP: usize, const CH: usize>(
    columns: &Weights<A::Number>,
    bytes: &[u8],
    convert: impl Fn([u8; BPP]) -> [u8; CH] + Copy,
    out: &mut [A::Number],
) {
    for (pixel, tap) in out.chunks_exact_mut(CH).zip(&columns.taps) {
        let mut sums = [A::Number::default(); CH];
        for (input, weight) in columns.inputs[tap.clone()].iter().zip(&columns.values[tap.clone()])
        {
            let mut of = [0; BPP];
            of.copy_from_slice(&bytes[*input as usize * BPP..][..BPP]);
            for (sum, byte) in sums.iter_mut().zip(convert(of)) {
                *sum = A::add_byte(*sum, byte, *weight);
            }
        }
        pixel.copy_from_slice(&sums);
    }
}

/// A run of the passes, before the kind of the pixels is chosen.
struct Run<'a, 'v, A: Arithmetic, Sink> {
    resizer: &'a mut Separable<A>,
    view: &'a ImageView<'v>,
    sink: &'a mut Sink,
}

impl<A: Arithmetic, Sink: FnMut(usize, &[u8]) -> bool> Converted for Run<'_, '_, A, Sink> {
    fn run<const BPP: usize, const CH: usize>(
        self,
        convert: impl Fn([u8; BPP]) -> [u8; CH] + Copy,
    ) -> bool {
        let Run { resizer, view, sink } = self;
        resizer.arch.dispatch(Passes::<_, _, _, BPP, CH> { resizer, view, convert, sink })
    }
}

/// The arguments of [`Separable::passes`], for the dispatch to the processor's vector instructions.
struct Passes<'a, 'v, A: Arithmetic, Convert, Sink, const BPP: usize, const CH: usize> {
    resizer: &'a mut Separable<A>,
    view: &'a ImageView<'v>,
    convert: Convert,
    sink: &'a mut Sink,
}

impl<A, Convert, Sink, const BPP: usize, const CH: usize> WithSimd
    for Passes<'_, '_, A, Convert, Sink, BPP, CH>
where
    A: Arithmetic,
    Convert: Fn([u8; BPP]) -> [u8; CH] + Copy,
    Sink: FnMut(usize, &[u8]) -> bool,
{
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> bool {
        self.resizer.passes::<BPP, CH>(self.view, self.convert, self.sink)
    }
}
