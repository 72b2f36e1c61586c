//! An image into a row: resize, pad or crop, normalise, `[channels, height, width]`.
//!
//! Geometry, for an image of `w` x `h` and a row of `W` x `H` pixels, in integers (`/` rounds
//! down):
//!
//! - `stretch`: the whole image becomes `W` x `H`.
//! - `pad`: an image that is wider than the row (`w*H >= h*W`) becomes `W` x `h*W/w`, any other
//!   `w*H/h` x `H`, never less than one pixel; above and left of it stand half of the remaining
//!   pixels, rounded down. This is the `resize_with_pad` of robot policies (OpenPI).
//! - `crop`: of an image that is wider than the row the columns of a box `h*W/H` wide are taken,
//!   of any other the lines of a box `w*H/W` high, never less than one pixel; half of the cut
//!   pixels, rounded down, lie left of or above the box.
//!
//! Colour becomes mono before the resize, mono becomes colour after it. A byte becomes an element
//! by a table of 256 per channel, `(byte / 255 - mean) / std` in `f32`, rounded to the stream's
//! type once.

use std::ops::Range;

use super::resize::{Axis, Resizer};
use crate::config::{Color, Fit, ImageSpec};
use crate::decode::image::{Encoding, ImageView};
use crate::dtype::DType;

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
        let (mut source, mut target) = ([width, height], [spec.width, spec.height]);
        // Which axis gives way: x where the image is wider than the row and cropped.
        let wider = mul(width, spec.height) >= mul(height, spec.width);
        match (spec.fit, wider) {
            (Fit::Stretch, _) => {}
            (Fit::Pad, true) => target[1] = share(height, spec.width, width),
            (Fit::Pad, false) => target[0] = share(width, spec.height, height),
            (Fit::Crop, true) => source[0] = share(height, spec.width, spec.height),
            (Fit::Crop, false) => source[1] = share(width, spec.height, spec.width),
        }
        Placement {
            source: [centred(source[0], width), centred(source[1], height)],
            target: [centred(target[0], spec.width), centred(target[1], spec.height)],
        }
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

/// Turns the images of one stream into rows.
#[derive(Debug)]
pub struct ImageEncoder {
    spec: ImageSpec,
    tables: Tables,
    plan: Option<Plan>,
}

/// What follows from the size and the kind of an image; kept until they change.
#[derive(Debug)]
struct Plan {
    size: (usize, usize),
    mono: bool,
    target: [Range<usize>; 2],
    resizer: Resizer,
}

/// The elements of all bytes per channel of the row, as they are stored.
#[derive(Debug)]
enum Tables {
    Two(Vec<[[u8; 2]; 256]>),
    Four(Vec<[[u8; 4]; 256]>),
}

impl ImageEncoder {
    /// An encoder into rows of `spec`, of element type `dtype`. The sides of the row are not 0.
    pub fn new(spec: &ImageSpec, dtype: DType) -> Self {
        let tables = match dtype {
            DType::F32 => Tables::Four(tables(spec, dtype)),
            DType::F16 | DType::Bf16 => Tables::Two(tables(spec, dtype)),
        };
        ImageEncoder { spec: spec.clone(), tables, plan: None }
    }

    /// Writes the row `[channels, height, width]` of an image. Allocates only when the image's
    /// size, or whether it is mono, differs from the last one's.
    ///
    /// # Panics
    /// When `row` is not a row of the stream: its length comes from the layout, never from a
    /// message.
    pub fn encode(&mut self, view: &ImageView<'_>, row: &mut [u8]) {
        let spec = &self.spec;
        let mono = view.encoding == Encoding::Mono8;
        let plan = match &mut self.plan {
            Some(plan) if plan.size == (view.width, view.height) && plan.mono == mono => plan,
            stale => stale.insert(Plan::new(spec, view)),
        };
        match &self.tables {
            Tables::Two(tables) => plan.encode(spec, tables, view, row),
            Tables::Four(tables) => plan.encode(spec, tables, view, row),
        }
    }
}

impl Plan {
    fn new(spec: &ImageSpec, view: &ImageView<'_>) -> Self {
        let Placement { source: [columns, lines], target } =
            Placement::new(spec, view.width, view.height);
        let horizontal = Axis::new(view.width, columns, target[0].len());
        let vertical = Axis::new(view.height, lines, target[1].len());
        Plan {
            size: (view.width, view.height),
            mono: view.encoding == Encoding::Mono8,
            target,
            resizer: Resizer::new(horizontal, vertical, view.encoding, spec.color == Color::Mono),
        }
    }

    fn encode<const N: usize>(
        &mut self,
        spec: &ImageSpec,
        tables: &[[[u8; N]; 256]],
        view: &ImageView<'_>,
        row: &mut [u8],
    ) {
        let plane_len = spec.width * spec.height * N;
        assert_eq!(row.len(), tables.len() * plane_len, "encode: length mismatch");
        let [columns, lines] = self.target.clone();
        let line_len = spec.width * N;
        for (plane, table) in row.chunks_exact_mut(plane_len).zip(tables) {
            let padding = &table[usize::from(spec.pad_value)];
            fill(&mut plane[..lines.start * line_len], padding);
            fill(&mut plane[lines.end * line_len..], padding);
            for line in plane[lines.start * line_len..lines.end * line_len].chunks_mut(line_len) {
                fill(&mut line[..columns.start * N], padding);
                fill(&mut line[columns.end * N..], padding);
            }
        }
        let swap = match view.encoding {
            Encoding::Rgb8 | Encoding::Rgba8 => spec.color == Color::Bgr,
            Encoding::Bgr8 | Encoding::Bgra8 => spec.color == Color::Rgb,
            Encoding::Mono8 => false,
        };
        let mono = self.resizer.channels() == 1;
        self.resizer.run(view, |y, pixels| {
            let line = (lines.start + y) * line_len;
            let place = line + columns.start * N..line + columns.end * N;
            for (channel, (plane, table)) in row.chunks_exact_mut(plane_len).zip(tables).enumerate()
            {
                let lane = if swap { 2 - channel } else { channel };
                let out = plane[place.clone()].chunks_exact_mut(N);
                if mono {
                    look_up(out, pixels.iter().copied(), table);
                } else {
                    look_up(out, pixels.chunks_exact(4).map(|pixel| pixel[lane]), table);
                }
            }
        });
    }
}

/// The table of every channel of the row: the elements of all bytes, as they are stored.
pub fn tables<const N: usize>(spec: &ImageSpec, dtype: DType) -> Vec<[[u8; N]; 256]> {
    let mut tables = vec![[[0; N]; 256]; spec.color.channels()];
    for ((table, mean), std) in tables.iter_mut().zip(spec.mean).zip(spec.std) {
        for (byte, element) in (0u8..=255).zip(table.iter_mut()) {
            dtype.store(&[(f32::from(byte) / 255.0 - mean) / std], element);
        }
    }
    tables
}

#[inline(always)]
fn look_up<'a, const N: usize>(
    out: impl Iterator<Item = &'a mut [u8]>,
    bytes: impl Iterator<Item = u8>,
    table: &[[u8; N]; 256],
) {
    for (element, byte) in out.zip(bytes) {
        element.copy_from_slice(&table[usize::from(byte)]);
    }
}

fn fill<const N: usize>(out: &mut [u8], element: &[u8; N]) {
    out.chunks_exact_mut(N).for_each(|place| place.copy_from_slice(element));
}
