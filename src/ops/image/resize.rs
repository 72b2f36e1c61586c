//! Resizes in integers, with bytes between the passes.
//!
//! `geometry.rs` explains the arithmetic.
//!
//! Speed comes from the layout. Lines are taken in blocks. A column of a block has 32 bytes side by
//! side, from 8 lines of 4 channels or from 32 lines of one. So a tap of the horizontal pass is one
//! multiplication of 32 lanes. Resized lines go to a ring buffer, just large enough for the
//! vertical pass. That pass runs along contiguous lines as soon as its inputs are there, so that
//! the data stays in the first-level cache between the passes.

use pulp::{Arch, Simd, WithSimd};

use super::geometry::{Axis, PRECISION_BITS};
use super::pixels::{self, Converted};
use super::spec::{Encoding, ImageView};

/// Rounds a sum to nearest.
const HALF: i32 = 1 << (PRECISION_BITS - 1);
/// Bytes that a tap handles at once: those of a column of a block, or a part of a line in the ring. The
/// length of a padded line is a multiple of it.
const LANES: usize = 32;
/// Columns that are packed line by line: so few that they stay in the first-level cache.
const TILE: usize = 256;

/// Resizes images of one size and number of channels; holds the buffers for it.
#[derive(Debug)]
pub struct Resizer {
    arch: Arch,
    horizontal: Axis,
    vertical: Axis,
    channels: usize,
    block: Vec<[u8; LANES]>,
    /// One less than the columns of `block`, a power of two.
    mask: usize,
    /// Resized columns of a block.
    columns: Vec<[u8; LANES]>,
    ring: Vec<[u8; LANES]>,
    line: Vec<[u8; LANES]>,
}

impl Resizer {
    /// A resizer of `luma` (of colour or mono images) or else of the channels of `encoding`.
    pub fn new(horizontal: Axis, vertical: Axis, encoding: Encoding, luma: bool) -> Self {
        let channels = pixels::channels(encoding, luma);
        let columns = horizontal.used().len().next_power_of_two();
        let chunks = (horizontal.outputs() * channels).div_ceil(LANES);
        // Room for whole blocks of lines. A power of two, so that a mask gives a line's place.
        let ring_lines = (vertical.longest() + LANES / channels).next_power_of_two();
        Resizer {
            arch: Arch::new(),
            channels,
            block: vec![[0; LANES]; columns],
            mask: columns - 1,
            columns: vec![[0; LANES]; horizontal.outputs()],
            ring: vec![[0; LANES]; ring_lines * chunks],
            line: vec![[0; LANES]; chunks],
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
                let block = (&self.block[..], self.mask);
                horizontal_pass::<CH>(&self.horizontal, block, &mut self.columns, resized);
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
        let (used, last) = (self.horizontal.used(), self.vertical.used().end - 1);
        let first = self.vertical.used().start + from;
        for (tile, columns) in self.block[..used.len()].chunks_mut(TILE).enumerate() {
            let start = (used.start + tile * TILE) * BPP;
            for lane in 0..LANES / CH {
                let line = &view.data[(first + lane).min(last) * view.step..];
                let pixels = &line[start..start + columns.len() * BPP];
                pack_line::<BPP, CH>(pixels, columns, lane * CH, convert);
            }
        }
    }
}

/// Puts the pixels of a line at byte `at` of their columns.
#[inline(always)]
fn pack_line<const BPP: usize, const CH: usize>(
    mut pixels: &[u8],
    mut columns: &mut [[u8; LANES]],
    at: usize,
    convert: impl Fn([u8; BPP]) -> [u8; CH],
) {
    if (BPP, CH) == (3, 4) {
        // The fourth byte has no meaning, so that the next pixel's will do: one load and one store
        // of four bytes per pixel.
        let (quads, twelves) = (columns.as_chunks_mut::<4>(), pixels.as_chunks::<12>());
        for ([a, b, c, d], bytes) in quads.0.iter_mut().zip(twelves.0) {
            let last = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) >> 8;
            a[at..at + 4].copy_from_slice(&bytes[..4]);
            b[at..at + 4].copy_from_slice(&bytes[3..7]);
            c[at..at + 4].copy_from_slice(&bytes[6..10]);
            d[at..at + 4].copy_from_slice(&last.to_le_bytes());
        }
        (columns, pixels) = (quads.1, twelves.1);
    }
    for (column, pixel) in columns.iter_mut().zip(pixels.as_chunks::<BPP>().0) {
        column[at..at + CH].copy_from_slice(&convert(*pixel));
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

/// Adds one tap to the sums of all lanes.
#[inline(always)]
fn add_tap(sums: &mut [i32; LANES], bytes: &[u8; LANES], coefficient: i32) {
    for (sum, byte) in sums.iter_mut().zip(bytes) {
        *sum += i32::from(*byte) * coefficient;
    }
}

/// The bytes of sums. Coefficients are not negative, but their sum may round above 2^22.
#[inline(always)]
fn to_bytes(sums: [i32; LANES]) -> [u8; LANES] {
    let mut bytes = [0; LANES];
    for (byte, sum) in bytes.iter_mut().zip(sums) {
        *byte = (sum >> PRECISION_BITS).min(255) as u8;
    }
    bytes
}

/// Resizes the lines of a block into as many padded lines, by way of `columns`.
///
/// `mask` is one less than the columns of the block, which are a power of two. It changes no number of a
/// column. But with it, LLVM does not see that taps are side by side. If it did, it would take eight of
/// them at once and gather their bytes one by one.
#[inline(always)]
fn horizontal_pass<const CH: usize>(
    axis: &Axis,
    (block, mask): (&[[u8; LANES]], usize),
    columns: &mut [[u8; LANES]],
    lines: &mut [u8],
) {
    for ((first, range), out) in axis.taps().iter().zip(&mut *columns) {
        let mut sums = [HALF; LANES];
        for (tap, coefficient) in axis.coefficients()[range.clone()].iter().enumerate() {
            add_tap(&mut sums, &block[(first + tap) & mask], *coefficient);
        }
        *out = to_bytes(sums);
    }
    let stride = lines.len() / (LANES / CH);
    for (lane, line) in lines.chunks_exact_mut(stride).enumerate() {
        for (pixel, column) in line.as_chunks_mut::<CH>().0.iter_mut().zip(&*columns) {
            pixel.copy_from_slice(&column[lane * CH..(lane + 1) * CH]);
        }
    }
}

/// One output line from the lines `first..` of the ring.
#[inline(always)]
fn vertical_pass(
    ring: &[[u8; LANES]],
    mask: usize,
    first: usize,
    coefficients: &[i32],
    line: &mut [[u8; LANES]],
) {
    let chunks = line.len();
    for (chunk, out) in line.iter_mut().enumerate() {
        let mut sums = [HALF; LANES];
        for (tap, coefficient) in coefficients.iter().enumerate() {
            let at = ((first + tap) & mask) * chunks + chunk;
            add_tap(&mut sums, &ring[at], *coefficient);
        }
        *out = to_bytes(sums);
    }
}
