//! Resizes in integers, with bytes between the passes.
//!
//! `geometry.rs` explains the arithmetic.
//!
//! Speed comes from the layout. Lines are taken in blocks. A column of a block has 16 bytes side by
//! side, from 4 lines of 4 channels or from 16 lines of one. So a tap of the horizontal pass is one
//! multiplication of 16 lanes. Resized lines go to a ring buffer, just large enough for the
//! vertical pass. That pass runs along contiguous lines as soon as its inputs are there, so that
//! the data stays in the first-level cache between the passes.

use pulp::{Arch, Simd, WithSimd};

use super::geometry::{Axis, PRECISION_BITS};
use super::pixels::{self, Converted};
use super::spec::{Encoding, ImageView};

/// Rounds a sum to nearest.
const HALF: i32 = 1 << (PRECISION_BITS - 1);
/// Bytes per column of a block.
const LANES: usize = 16;
/// Bytes of a line that the vertical pass handles at once: the length of a padded line is a
/// multiple of it.
const CHUNK: usize = 32;

/// Resizes images of one size and number of channels; holds the buffers for it.
#[derive(Debug)]
pub struct Resizer {
    arch: Arch,
    horizontal: Axis,
    vertical: Axis,
    channels: usize,
    block: Vec<[u8; LANES]>,
    ring: Vec<[u8; CHUNK]>,
    line: Vec<[u8; CHUNK]>,
}

impl Resizer {
    /// A resizer of `luma` (of colour or mono images) or else of the channels of `encoding`.
    pub fn new(horizontal: Axis, vertical: Axis, encoding: Encoding, luma: bool) -> Self {
        let channels = pixels::channels(encoding, luma);
        let chunks = (horizontal.outputs() * channels).div_ceil(CHUNK);
        // Room for whole blocks of lines. A power of two, so that a mask gives a line's place.
        let ring_lines = (vertical.longest() + LANES / channels).next_power_of_two();
        Resizer {
            arch: Arch::new(),
            channels,
            block: vec![[0; LANES]; horizontal.used().len()],
            ring: vec![[0; CHUNK]; ring_lines * chunks],
            line: vec![[0; CHUNK]; chunks],
            horizontal,
            vertical,
        }
    }

    /// Bytes per pixel of the result: 1, or 4 if there are 3 or 4 channels.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Resizes `view`, which must have the size and the kind of encoding that the resizer is for.
    /// Gives every line of the result to `sink` with its number, top to bottom. The channels are in
    /// the order of the encoding; the fourth has no meaning. If `sink` returns false, it gets no
    /// other line, and this returns false too.
    pub fn run(
        &mut self,
        view: &ImageView<'_>,
        mut sink: impl FnMut(usize, &[u8]) -> bool,
    ) -> bool {
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
        let lines = LANES / CH;
        let chunks = self.line.len();
        let mask = self.ring.len() / chunks - 1;
        let mut done = 0;
        for y in 0..self.vertical.outputs() {
            let (first, range) = self.vertical.taps()[y].clone();
            while done < first + range.len() {
                self.pack::<BPP, CH>(view, done, convert);
                let at = (done & mask) * chunks;
                let resized = self.ring[at..at + lines * chunks].as_flattened_mut();
                horizontal_pass::<CH>(&self.horizontal, &self.block, resized);
                done += lines;
            }
            let coefficients = &self.vertical.coefficients()[range];
            vertical_pass(&self.ring, mask, first, coefficients, &mut self.line);
            if !sink(y, &self.line.as_flattened()[..self.horizontal.outputs() * CH]) {
                return false;
            }
        }
        true
    }

    /// Puts the used columns of a block of lines side by side, starting at line `from` of those
    /// used. Past the last line it repeats that line; nothing reads these copies.
    #[inline(always)]
    fn pack<const BPP: usize, const CH: usize>(
        &mut self,
        view: &ImageView<'_>,
        from: usize,
        convert: impl Fn([u8; BPP]) -> [u8; CH] + Copy,
    ) {
        let columns = self.horizontal.used();
        for lane in 0..LANES / CH {
            let y = (self.vertical.used().start + from + lane).min(self.vertical.used().end - 1);
            let line = &view.data[y * view.step..][columns.start * BPP..columns.end * BPP];
            for (column, pixel) in self.block.iter_mut().zip(line.chunks_exact(BPP)) {
                let mut bytes = [0; BPP];
                bytes.copy_from_slice(pixel);
                column[lane * CH..(lane + 1) * CH].copy_from_slice(&convert(bytes));
            }
        }
    }
}

/// A run of the passes, before the kind of the pixels is chosen.
struct Run<'a, 'v, Sink> {
    resizer: &'a mut Resizer,
    view: &'a ImageView<'v>,
    sink: &'a mut Sink,
}

impl<Sink: FnMut(usize, &[u8]) -> bool> Converted for Run<'_, '_, Sink> {
    /// Runs the passes in code compiled for this processor's vector instructions.
    fn run<const BPP: usize, const CH: usize>(
        self,
        convert: impl Fn([u8; BPP]) -> [u8; CH] + Copy,
    ) -> bool {
        let Run { resizer, view, sink } = self;
        resizer.arch.dispatch(Passes::<_, _, BPP, CH> { resizer, view, convert, sink })
    }
}

/// The arguments of [`Resizer::passes`]. A closure would not do: unless the optimiser inlines it,
/// it is compiled for the oldest processor.
struct Passes<'a, 'v, Convert, Sink, const BPP: usize, const CH: usize> {
    resizer: &'a mut Resizer,
    view: &'a ImageView<'v>,
    convert: Convert,
    sink: &'a mut Sink,
}

impl<Convert, Sink, const BPP: usize, const CH: usize> WithSimd
    for Passes<'_, '_, Convert, Sink, BPP, CH>
where
    Convert: Fn([u8; BPP]) -> [u8; CH] + Copy,
    Sink: FnMut(usize, &[u8]) -> bool,
{
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> bool {
        self.resizer.passes::<BPP, CH>(self.view, self.convert, self.sink)
    }
}

/// Adds one tap to the sums of `N` lanes.
#[inline(always)]
fn add_tap<const N: usize>(sums: &mut [i32; N], bytes: &[u8; N], coefficient: i32) {
    for (sum, byte) in sums.iter_mut().zip(bytes) {
        *sum += i32::from(*byte) * coefficient;
    }
}

/// The bytes of `N` sums. Coefficients are not negative, but their sum may round above 2^22.
#[inline(always)]
fn to_bytes<const N: usize>(sums: [i32; N]) -> [u8; N] {
    let mut bytes = [0; N];
    for (byte, sum) in bytes.iter_mut().zip(sums) {
        *byte = (sum >> PRECISION_BITS).min(255) as u8;
    }
    bytes
}

/// Resizes the lines of a block into as many padded lines.
#[inline(always)]
fn horizontal_pass<const CH: usize>(axis: &Axis, block: &[[u8; LANES]], lines: &mut [u8]) {
    let stride = lines.len() / (LANES / CH);
    for (x, (first, range)) in axis.taps().iter().enumerate() {
        let coefficients = &axis.coefficients()[range.clone()];
        let mut sums = [HALF; LANES];
        for (column, coefficient) in block[*first..].iter().zip(coefficients) {
            add_tap(&mut sums, column, *coefficient);
        }
        let bytes = to_bytes(sums);
        for lane in 0..LANES / CH {
            let at = lane * stride + x * CH;
            lines[at..at + CH].copy_from_slice(&bytes[lane * CH..(lane + 1) * CH]);
        }
    }
}

/// One output line from the lines `first..` of the ring.
#[inline(always)]
fn vertical_pass(
    ring: &[[u8; CHUNK]],
    mask: usize,
    first: usize,
    coefficients: &[i32],
    line: &mut [[u8; CHUNK]],
) {
    let chunks = line.len();
    for (chunk, out) in line.iter_mut().enumerate() {
        let mut sums = [HALF; CHUNK];
        for (tap, coefficient) in coefficients.iter().enumerate() {
            let at = ((first + tap) & mask) * chunks + chunk;
            add_tap(&mut sums, &ring[at], *coefficient);
        }
        *out = to_bytes(sums);
    }
}
