//! An image whose pixels are those of another at given points: OpenCV's `remap` with `INTER_LINEAR`, a
//! border of zeros, and points in the fixed point of `CV_16SC2`.
//!
//! A point lies on a grid of 1/32 pixel. If `(x, y)` is the pixel at its upper left, and `fx` and `fy` are
//! the 32nds of the way to the next, then a byte of the result is
//!
//! ```text
//! ((32 - fx) (32 - fy) a(x, y) + fx (32 - fy) a(x + 1, y)
//!  + (32 - fx) fy a(x, y + 1) + fx fy a(x + 1, y + 1) + 512) >> 10
//! ```
//!
//! and a pixel outside of the image counts as zero. OpenCV's weights of 15 bits are these times 32, so the
//! bytes are the same. These are integers: every processor gives the same bits.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use pulp::{Arch, Simd, WithSimd};

use super::spec::{Encoding, ImageView};

/// Fraction bits of a point.
const FRACTION_BITS: u32 = 5;
const ONE: u32 = 1 << FRACTION_BITS;
const MASK: i32 = (1 << FRACTION_BITS) - 1;
/// Added to a sum of weighted bytes to round it. Then the sum is shifted right by `SHIFT`.
const HALF: u32 = 1 << (SHIFT - 1);
const SHIFT: u32 = 2 * FRACTION_BITS;
/// Most columns and lines of a sensor: points have 16 bits \[px\].
pub const MAX_SENSOR: usize = 32_000;
/// No offset of a pixel.
const NOWHERE: u32 = u32::MAX;
/// A point whose pixels are all outside of the image.
const OUTSIDE: (i16, i16) = (i16::MIN, i16::MIN);

/// Which point of an image each pixel of another one shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Remap {
    /// Width and height of the image that is read.
    source: [usize; 2],
    /// Columns and lines of the whole result that the table has.
    part: [Range<usize>; 2],
    /// Per pixel: x of the upper left of four pixels in the lower half, y in the upper. In memory these are
    /// the pairs of OpenCV's first map.
    points: Vec<u32>,
    /// Per pixel: 32nds of the way to the next column, and 32 times those to the next line. OpenCV's
    /// second map.
    fractions: Vec<u16>,
    /// The lines of the image that are read.
    source_lines: Range<usize>,
}

impl std::fmt::Debug for Remap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Remap { source, part, .. } = self;
        f.debug_struct("Remap").field("source", source).field("part", part).finish_non_exhaustive()
    }
}

impl Remap {
    /// The table for a part (columns, lines) of images of this width and height. `point` gives column and
    /// line of the point that a pixel shows, counted from `first` pixels left of the image and above it. If
    /// one is not finite, or far away, the pixel is black.
    ///
    /// # Panics
    /// If the images do not have the part.
    pub fn new(
        source: [usize; 2],
        first: [usize; 2],
        part: &[Range<usize>; 2],
        point: impl Fn(usize, usize) -> [f64; 2],
    ) -> Remap {
        let [columns, lines] = part;
        assert!(columns.end <= source[0] && lines.end <= source[1], "remap: no such part");
        let pixels = columns.len() * lines.len();
        let mut table = Remap {
            source,
            part: part.clone(),
            points: Vec::with_capacity(pixels),
            fractions: Vec::with_capacity(pixels),
            source_lines: 0..0,
        };
        for line in lines.clone() {
            for column in columns.clone() {
                table.push(first, point(column, line));
            }
        }
        table
    }

    #[inline(always)]
    fn push(&mut self, first: [usize; 2], [column, line]: [f64; 2]) {
        // A comparison with what is not a number is false.
        let (pixel, fraction) = match column.abs() < MAX_SENSOR as f64
            && line.abs() < MAX_SENSOR as f64
        {
            false => (OUTSIDE, 0),
            true => {
                let [u, v] = [column, line].map(fixed);
                let pixel = |at: i32, first: usize| ((at >> FRACTION_BITS) - first as i32) as i16;
                let fraction = (v & MASK) << FRACTION_BITS | (u & MASK);
                ((pixel(u, first[0]), pixel(v, first[1])), fraction as u16)
            }
        };
        let (x, y) = pixel;
        let beside = |at: i16, length: usize| i32::from(at) >= -1 && i32::from(at) < length as i32;
        if beside(x, self.source[0]) && beside(y, self.source[1]) {
            let start = usize::try_from(y).unwrap_or(0);
            let end = (y + 2) as usize;
            let lines = &mut self.source_lines;
            let first = if lines.start == lines.end { start } else { lines.start.min(start) };
            *lines = first..lines.end.max(end.min(self.source[1]));
        }
        self.points.push(u32::from(x as u16) | u32::from(y as u16) << 16);
        self.fractions.push(fraction);
    }

    /// Width and height of the image that is read.
    pub fn source(&self) -> [usize; 2] {
        self.source
    }

    /// Columns and lines of the whole result that the table has.
    pub fn part(&self) -> &[Range<usize>; 2] {
        &self.part
    }

    /// Per pixel: x and y of the upper left of the four pixels that it is made of, each of 16 bits, x in
    /// the lower half.
    pub fn points(&self) -> &[u32] {
        &self.points
    }

    /// Per pixel: 32 times the 32nds of the way to the next line, plus those to the next column.
    pub fn fractions(&self) -> &[u16] {
        &self.fractions
    }

    /// The lines of the image that are read.
    pub fn source_lines(&self) -> Range<usize> {
        self.source_lines.clone()
    }

    /// Writes the part of the result into `out`, and returns it: the same channels without alpha. `None` if
    /// `overtaken` became true before it was done.
    ///
    /// # Panics
    /// If the image has another size than the table is for.
    pub fn run<'a>(
        &self,
        overtaken: Option<&AtomicBool>,
        view: &ImageView<'_>,
        out: &'a mut Vec<u8>,
    ) -> Option<ImageView<'a>> {
        assert_eq!([view.width, view.height], self.source, "remap: the size of the image");
        let encoding = remapped(view.encoding);
        let [width, height] = self.part.each_ref().map(ExactSizeIterator::len);
        let step = width * encoding.bytes_per_pixel();
        out.resize(step * height, 0);
        let done = Arch::new().dispatch(Lines { table: self, overtaken, view, out });
        done.then_some(ImageView { encoding, width, height, step, data: out, remap: None })
    }
}

/// The lines of a result, for the widest vectors of this processor.
struct Lines<'a, 'v> {
    table: &'a Remap,
    overtaken: Option<&'a AtomicBool>,
    view: &'a ImageView<'v>,
    out: &'a mut [u8],
}

impl WithSimd for Lines<'_, '_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> bool {
        match self.view.encoding {
            Encoding::Mono8 => self.run::<1, 1>(),
            Encoding::Rgb8 | Encoding::Bgr8 => self.run::<3, 3>(),
            Encoding::Rgba8 | Encoding::Bgra8 => self.run::<4, 3>(),
        }
    }
}

impl Lines<'_, '_> {
    /// All of them, of an image with `BYTES` bytes per pixel, into `CHANNELS` bytes. False if `overtaken`
    /// became true before it was done.
    #[inline(always)]
    fn run<const BYTES: usize, const CHANNELS: usize>(self) -> bool {
        let Lines { table: Remap { part, points, fractions, .. }, overtaken, view, out } = self;
        let width = part[0].len();
        let lines = points.chunks(width).zip(fractions.chunks(width));
        for ((points, fractions), line) in lines.zip(out.chunks_mut(width * CHANNELS)) {
            let blocks = points.chunks(BLOCK).zip(fractions.chunks(BLOCK));
            for ((points, fractions), out) in blocks.zip(line.chunks_mut(BLOCK * CHANNELS)) {
                let mut block = Block::new(fractions);
                block.gather::<BYTES>(view, points);
                let pixels = block.blend::<CHANNELS>();
                for (out, pixel) in out.as_chunks_mut::<CHANNELS>().0.iter_mut().zip(&pixels) {
                    let bytes = pixel.to_le_bytes();
                    *out = std::array::from_fn(|channel| bytes[channel]);
                }
            }
            if overtaken.is_some_and(|flag| flag.load(Ordering::Acquire)) {
                return false;
            }
        }
        true
    }
}

/// Pixels that are computed side by side.
struct Block {
    /// Upper left, upper right, lower left, lower right pixel: a byte per channel, in the lower three.
    taps: [[u32; BLOCK]; 4],
    fractions: [u32; BLOCK],
}

/// A loop over this many numbers takes 8 vector operations of 256 bits.
const BLOCK: usize = 64;
/// Bytes that are read at once: at least two neighbours of four bytes.
const READ: usize = 8;

impl Block {
    #[inline(always)]
    fn new(fractions: &[u16]) -> Self {
        let mut block = Block { taps: [[0; BLOCK]; 4], fractions: [0; BLOCK] };
        block.fractions.iter_mut().zip(fractions).for_each(|(to, from)| *to = u32::from(*from));
        block
    }

    /// Reads the four pixels of each point.
    #[inline(always)]
    fn gather<const BYTES: usize>(&mut self, view: &ImageView<'_>, points: &[u32]) {
        // First all offsets, which vector operations compute. What does not lie inside, with all that is
        // read at once, has none. Offsets that would not fit 32 bits are not used at all.
        let span = view.step.saturating_add(READ);
        let small = u32::try_from(view.data.len()).ok();
        let last = small.and_then(|len| len.checked_sub(u32::try_from(span).ok()?));
        let last = last.filter(|last| *last < NOWHERE);
        let inside = match last {
            Some(_) => [view.width as u32 - 1, view.height as u32 - 1],
            None => [0; 2],
        };
        let last = last.unwrap_or(0);
        let step = view.step as u32;
        let mut offsets = [NOWHERE; BLOCK];
        for (offset, point) in offsets.iter_mut().zip(points) {
            // As unsigned numbers, those below zero are too large.
            let [x, y] = pixel(*point).map(|at| at as u32);
            let at = y.wrapping_mul(step).wrapping_add(x.wrapping_mul(BYTES as u32));
            let read = (x < inside[0]) & (y < inside[1]) & (at <= last);
            *offset = if read { at } else { NOWHERE };
        }
        let [top_left, top_right, bottom_left, bottom_right] = &mut self.taps;
        for (i, (offset, point)) in offsets.iter().zip(points).enumerate() {
            let lines = view.data.get(*offset as usize..).and_then(|from| from.get(..span));
            let words = lines.and_then(|lines| {
                let ends = [lines.first_chunk::<READ>()?, lines.last_chunk::<READ>()?];
                Some(ends.map(|bytes| u64::from_le_bytes(*bytes)))
            });
            let four = match words {
                Some([top, bottom]) => {
                    [top, top >> (8 * BYTES), bottom, bottom >> (8 * BYTES)].map(|word| word as u32)
                }
                None => at_border::<BYTES>(view, pixel(*point)),
            };
            [top_left[i], top_right[i], bottom_left[i], bottom_right[i]] = four;
        }
    }

    /// The weighted means: a byte per channel. Lanes of 16 bits hold the sum of a column, at most 32 * 255,
    /// so that two channels are weighted side by side.
    #[inline(always)]
    fn blend<const CHANNELS: usize>(&self) -> [u32; BLOCK] {
        const TWO: u32 = 0x00FF_00FF;
        let Block { taps: [top_left, top_right, bottom_left, bottom_right], fractions } = self;
        let mut pixels = [0; BLOCK];
        for (i, pixel) in pixels.iter_mut().enumerate() {
            let fx = fractions[i] % ONE;
            let fy = fractions[i] / ONE;
            // These are sums of whole words. A difference below zero borrows from the next lane, which the
            // sum gives back.
            let between = |a: u32, b: u32, of: u32| {
                (a * ONE).wrapping_add(b.wrapping_sub(a).wrapping_mul(of))
            };
            let column = |top: u32, bottom: u32| between(top, bottom, fy);
            let finish = |left: u32, right: u32| (between(left, right, fx) + HALF) >> SHIFT;
            let [left, right] = [
                column(top_left[i] & TWO, bottom_left[i] & TWO),
                column(top_right[i] & TWO, bottom_right[i] & TWO),
            ];
            *pixel = finish(left & 0xFFFF, right & 0xFFFF);
            if CHANNELS > 1 {
                let second = |tap: u32| tap >> 8 & 0xFF;
                *pixel |= finish(left >> 16, right >> 16) << 16;
                *pixel |= finish(
                    column(second(top_left[i]), second(bottom_left[i])),
                    column(second(top_right[i]), second(bottom_right[i])),
                ) << 8;
            }
        }
        pixels
    }
}

/// The encoding of the result: that of the image, without alpha.
pub(super) fn remapped(encoding: Encoding) -> Encoding {
    match encoding {
        Encoding::Rgb8 | Encoding::Rgba8 => Encoding::Rgb8,
        Encoding::Bgr8 | Encoding::Bgra8 => Encoding::Bgr8,
        Encoding::Mono8 => Encoding::Mono8,
    }
}

/// To 32nds, a tie to the even number. At this size the sum has no bits for fractions.
#[inline(always)]
fn fixed(value: f64) -> i32 {
    const ROUNDER: f64 = 1.5 * (1u64 << 52) as f64;
    ((value * f64::from(ONE) + ROUNDER) - ROUNDER) as i32
}

/// Column and line of the upper left pixel.
#[inline(always)]
fn pixel(point: u32) -> [i32; 2] {
    [i32::from(point as u16 as i16), i32::from((point >> 16) as u16 as i16)]
}

/// The four pixels of a point. Some may be outside of the image.
#[cold]
#[inline(never)]
fn at_border<const BYTES: usize>(view: &ImageView<'_>, [x, y]: [i32; 2]) -> [u32; 4] {
    let read = |x: i32, y: i32| {
        let x = usize::try_from(x).ok()?;
        let y = usize::try_from(y).ok()?;
        let bytes = || &view.data[y * view.step + x * BYTES..][..BYTES];
        let pixel = || bytes().iter().rev().fold(0, |pixel, byte| pixel << 8 | u32::from(*byte));
        (x < view.width && y < view.height).then(pixel)
    };
    [(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)].map(|(x, y)| read(x, y).unwrap_or(0))
}

#[cfg(test)]
mod tests;
