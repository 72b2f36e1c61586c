//! The two passes of a resize, whatever their arithmetic.
//!
//! Speed comes from the layout. Lines are taken in blocks. A column of a block has 32 bytes side by
//! side, from 8 lines of 4 channels or from 32 lines of one. So the horizontal pass takes 32 lanes at once, and two
//! taps, because processors multiply pairs of small integers and add them in one instruction. Resized lines go to a ring buffer, just large enough for the
//! vertical pass. That pass runs along contiguous lines as soon as its inputs are there, so that
//! the data stays in the first-level cache between the passes. Columns and lines that no output reads
//! are left out.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::arithmetic::{Arithmetic, LANES, Pair};
use super::pixels::{self, Converted};
use super::spec::{Encoding, ImageView};
use super::weights::Weights;

/// The number of columns that are packed line by line. They fit into the first-level cache. Most images have fewer, and
/// are then read from the first byte to the last, as processors expect it.
const TILE: usize = 768;

/// Resizes images of one size and number of channels; holds the buffers for it.
#[derive(Debug)]
pub(super) struct Resizer<A: Arithmetic> {
    arch: Arch,
    arithmetic: A,
    horizontal: Taps<A::Number>,
    vertical: Taps<A::Number>,
    channels: usize,
    /// The columns of a block that are read.
    block: Vec<[u8; LANES]>,
    /// Resized columns of a block.
    columns: Vec<[A::Between; LANES]>,
    ring: Vec<[A::Between; LANES]>,
    /// A line of the result, filled up to a multiple of the lanes.
    line: Vec<[u8; LANES]>,
}

/// Inputs and weights of one axis of a resize.
#[derive(Debug)]
struct Taps<T> {
    /// The inputs that are read at all, each once, in their order.
    used: Vec<u32>,
    /// Per output: its range in `pairs`.
    ranges: Vec<Range<usize>>,
    /// Places in `used`, and weights.
    pairs: Vec<([u32; 2], Pair<T>)>,
}

impl<T: Copy + Default> Taps<T> {
    fn new(weights: &Weights<T>, pair: impl Fn([T; 2]) -> Pair<T>) -> Self {
        let Weights { taps, inputs, values } = weights;
        let mut used = inputs.clone();
        used.sort_unstable();
        used.dedup();
        let place = |input: &u32| used.partition_point(|other| other < input) as u32;
        let mut ranges = Vec::with_capacity(taps.len());
        let mut pairs = Vec::new();
        for range in taps {
            let from = pairs.len();
            for (inputs, values) in
                inputs[range.clone()].chunks(2).zip(values[range.clone()].chunks(2))
            {
                let first = place(&inputs[0]);
                let second = inputs.get(1).map(place);
                let weights = [values[0], values.get(1).copied().unwrap_or_default()];
                pairs.push(([first, second.unwrap_or(first)], pair(weights)));
            }
            ranges.push(from..pairs.len());
        }
        Taps { used, ranges, pairs }
    }

    /// The pairs of places and weights of an output, in the order of its sum.
    fn of(&self, output: usize) -> impl Iterator<Item = ([usize; 2], Pair<T>)> {
        let pairs = self.pairs[self.ranges[output].clone()].iter();
        pairs.map(|([first, second], pair)| ([*first as usize, *second as usize], *pair))
    }

    /// From the first to the last place of an output: the most that this is.
    fn longest(&self) -> usize {
        let span = |range: &Range<usize>| {
            let places = self.pairs[range.clone()].iter().flat_map(|(places, _)| places);
            let first = places.clone().min();
            let last = places.max();
            first.zip(last).map_or(0, |(first, last)| (last - first) as usize + 1)
        };
        self.ranges.iter().map(span).max().unwrap_or(0)
    }
}

impl<A: Arithmetic> Resizer<A> {
    /// A resizer of `luma` (of colour or mono images) or else of the channels of `encoding`.
    pub(super) fn new(
        arithmetic: A,
        axes: [Weights<A::Number>; 2],
        encoding: Encoding,
        luma: bool,
    ) -> Self {
        let channels = pixels::channels(encoding, luma);
        let [horizontal, vertical] = axes.each_ref().map(|weights| Taps::new(weights, A::pair));
        let outputs = horizontal.ranges.len();
        let chunks = (outputs * channels).div_ceil(LANES);
        // Room for whole blocks of lines. A power of two, so that a mask gives a line's place.
        let ring_lines = (vertical.longest() + LANES / channels).next_power_of_two();
        Resizer {
            arch: Arch::new(),
            arithmetic,
            channels,
            block: vec![[0; LANES]; horizontal.used.len()],
            columns: vec![[A::Between::default(); LANES]; outputs],
            ring: vec![[A::Between::default(); LANES]; ring_lines * chunks],
            line: vec![[0; LANES]; chunks],
            horizontal,
            vertical,
        }
    }

    /// Bytes per pixel of the result: 1, or 4 if there are 3 or 4 channels.
    pub(super) fn channels(&self) -> usize {
        self.channels
    }

    /// Resizes `view`, which must have the size and the kind of encoding that the resizer is for.
    /// Gives every line of the result to `sink` with its number, top to bottom. The channels are in
    /// the order of the encoding; the fourth has no meaning. If `sink` returns false, it gets no
    /// other line, and this returns false too.
    pub(super) fn run(
        &mut self,
        view: &ImageView<'_>,
        mut sink: impl FnMut(usize, &[u8]) -> bool,
    ) -> bool {
        let channels = self.channels;
        pixels::convert(view.encoding, channels, Run { resizer: self, view, sink: &mut sink })
    }

    /// Both passes, for pixels of `BPP` bytes that `convert` takes to `CH` bytes.
    #[inline(always)]
    fn passes<S: Simd, const BPP: usize, const CH: usize>(
        &mut self,
        simd: S,
        view: &ImageView<'_>,
        convert: impl Fn([u8; BPP]) -> [u8; CH] + Copy,
        sink: &mut impl FnMut(usize, &[u8]) -> bool,
    ) -> bool {
        let lines = LANES / CH;
        let chunks = self.line.len();
        let mask = self.ring.len() / chunks - 1;
        let outputs = self.horizontal.ranges.len();
        let mut done = 0;
        for y in 0..self.vertical.ranges.len() {
            while self.vertical.of(y).any(|(places, _)| places[0].max(places[1]) >= done) {
                self.pack::<BPP, CH>(view, done, convert);
                let at = (done & mask) * chunks;
                let resized = &mut self.ring[at..at + lines * chunks];
                horizontal_pass::<A, S>(simd, &self.horizontal, &self.block, &mut self.columns);
                unpack::<A, CH>(&self.columns, resized);
                done += lines;
            }
            self.vertical_pass(simd, y, mask);
            if !sink(y, &self.line.as_flattened()[..outputs * CH]) {
                return false;
            }
        }
        true
    }

    /// Puts the columns that are read of a block of lines side by side, starting at line `from` of those
    /// that are read. Past the last line it repeats that line; nothing reads these copies.
    #[inline(always)]
    fn pack<const BPP: usize, const CH: usize>(
        &mut self,
        view: &ImageView<'_>,
        from: usize,
        convert: impl Fn([u8; BPP]) -> [u8; CH] + Copy,
    ) {
        let columns = &self.horizontal.used;
        let lines = &self.vertical.used;
        let last = lines.len() - 1;
        for (inputs, tile) in columns.chunks(TILE).zip(self.block.chunks_mut(TILE)) {
            for lane in 0..LANES / CH {
                let start = lines[(from + lane).min(last)] as usize * view.step;
                let line = &view.data[start..start + view.width * BPP];
                pack_line::<BPP, CH>(line, inputs, tile, lane * CH, convert);
            }
        }
    }

    /// One line of the result from the lines of the ring.
    #[inline(always)]
    fn vertical_pass<S: Simd>(&mut self, simd: S, y: usize, mask: usize) {
        let chunks = self.line.len();
        for (chunk, out) in self.line.iter_mut().enumerate() {
            let value = |place: usize| &self.ring[(place & mask) * chunks + chunk];
            let inputs = self.vertical.of(y);
            let inputs =
                inputs.map(|([first, second], pair)| ([value(first), value(second)], pair));
            *out = self.arithmetic.second_pass(simd, inputs);
        }
    }
}

/// Puts the pixels `inputs` of a line at byte `at` of their columns.
///
/// The fourth byte of a pixel of three has no meaning, so that the next pixel's will do. So a pixel takes
/// one load and one store of four bytes.
#[inline(always)]
fn pack_line<const BPP: usize, const CH: usize>(
    line: &[u8],
    inputs: &[u32],
    columns: &mut [[u8; LANES]],
    at: usize,
    convert: impl Fn([u8; BPP]) -> [u8; CH],
) {
    let first = inputs[0] as usize;
    let last = inputs[inputs.len() - 1] as usize;
    let whole = columns.len() - 1;
    if last - first != whole {
        for (column, input) in columns[..whole].iter_mut().zip(inputs) {
            let from = *input as usize * BPP;
            // There is a pixel after it: the last that is read.
            match (BPP, CH) {
                (3, 4) => column[at..at + 4].copy_from_slice(&line[from..from + 4]),
                _ => column[at..at + CH].copy_from_slice(&convert(pixel(&line[from..]))),
            }
        }
        columns[whole][at..at + CH].copy_from_slice(&convert(pixel(&line[last * BPP..])));
        return;
    }
    let mut pixels = &line[first * BPP..(last + 1) * BPP];
    let mut columns = columns;
    if (BPP, CH) == (3, 4) {
        let quads = columns.as_chunks_mut::<4>();
        let twelves = pixels.as_chunks::<12>();
        for ([a, b, c, d], bytes) in quads.0.iter_mut().zip(twelves.0) {
            let last = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) >> 8;
            a[at..at + 4].copy_from_slice(&bytes[..4]);
            b[at..at + 4].copy_from_slice(&bytes[3..7]);
            c[at..at + 4].copy_from_slice(&bytes[6..10]);
            d[at..at + 4].copy_from_slice(&last.to_le_bytes());
        }
        (columns, pixels) = (quads.1, twelves.1);
    }
    for (column, bytes) in columns.iter_mut().zip(pixels.as_chunks::<BPP>().0) {
        column[at..at + CH].copy_from_slice(&convert(*bytes));
    }
}

/// The first pixel of some bytes.
#[inline(always)]
fn pixel<const BPP: usize>(bytes: &[u8]) -> [u8; BPP] {
    let mut pixel = [0; BPP];
    pixel.copy_from_slice(&bytes[..BPP]);
    pixel
}

/// Resizes the lines of a block. Inputs are found by a list of places. If they were side by side, LLVM
/// would take eight taps at once and gather their bytes one by one.
#[inline(always)]
fn horizontal_pass<A: Arithmetic, S: Simd>(
    simd: S,
    taps: &Taps<A::Number>,
    block: &[[u8; LANES]],
    columns: &mut [[A::Between; LANES]],
) {
    for (x, out) in columns.iter_mut().enumerate() {
        let inputs = taps.of(x);
        let inputs = inputs.map(|([first, second], pair)| ([&block[first], &block[second]], pair));
        *out = A::first_pass(simd, inputs);
    }
}

/// Puts the columns of a block back into lines, each of whole chunks.
#[inline(always)]
fn unpack<A: Arithmetic, const CH: usize>(
    columns: &[[A::Between; LANES]],
    lines: &mut [[A::Between; LANES]],
) {
    let chunks = lines.len() / (LANES / CH);
    for (lane, line) in lines.chunks_exact_mut(chunks).enumerate() {
        let pixels = line.as_flattened_mut().as_chunks_mut::<CH>().0;
        for (pixel, column) in pixels.iter_mut().zip(columns) {
            pixel.copy_from_slice(&column[lane * CH..(lane + 1) * CH]);
        }
    }
}

/// A run of the passes, before the kind of the pixels is chosen.
struct Run<'a, 'v, A: Arithmetic, Sink> {
    resizer: &'a mut Resizer<A>,
    view: &'a ImageView<'v>,
    sink: &'a mut Sink,
}

impl<A: Arithmetic, Sink: FnMut(usize, &[u8]) -> bool> Converted for Run<'_, '_, A, Sink> {
    /// Runs the passes in code compiled for this processor's vector instructions.
    fn run<const BPP: usize, const CH: usize>(
        self,
        convert: impl Fn([u8; BPP]) -> [u8; CH] + Copy,
    ) -> bool {
        let Run { resizer, view, sink } = self;
        resizer.arch.dispatch(Passes::<_, _, _, BPP, CH> { resizer, view, convert, sink })
    }
}

/// The arguments of [`Resizer::passes`]. A closure would not do: unless the optimiser inlines it,
/// it is compiled for the oldest processor.
struct Passes<'a, 'v, A: Arithmetic, Convert, Sink, const BPP: usize, const CH: usize> {
    resizer: &'a mut Resizer<A>,
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
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        self.resizer.passes::<S, BPP, CH>(simd, self.view, self.convert, self.sink)
    }
}
