//! An image into a row on the CPU: resize, pad or crop, normalise, `[channels, height, width]`.
//!
//! `geometry.rs` says what goes where. A byte becomes an element by a table of 256 per channel
//! (`elements.rs`).

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::elements::tables;
use super::geometry::{Axis, Placement};
use super::resize::Resizer;
use super::spec::{Color, Encoding, ImageSpec, ImageView};
use crate::dtype::DType;

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
    One(Vec<[[u8; 1]; 256]>),
    Two(Vec<[[u8; 2]; 256]>),
    Four(Vec<[[u8; 4]; 256]>),
}

impl ImageEncoder {
    /// An encoder into rows of `spec`, of element type `dtype`. The sides of the row are not 0.
    pub fn new(spec: &ImageSpec, dtype: DType) -> Self {
        let tables = match dtype {
            DType::U8 => Tables::One(tables(spec, dtype)),
            DType::F32 | DType::I32 => Tables::Four(tables(spec, dtype)),
            DType::F16 | DType::Bf16 => Tables::Two(tables(spec, dtype)),
        };
        ImageEncoder { spec: spec.clone(), tables, plan: None }
    }

    /// Writes the row `[channels, height, width]` of an image. Allocates only if the last image had
    /// another size, or if only one of the two is mono.
    ///
    /// # Panics
    /// If `row` has not the length of a row. It comes from the layout, never from a message.
    pub fn encode(&mut self, view: &ImageView<'_>, row: &mut [u8]) {
        self.encode_unless(None, view, row);
    }

    /// The same, unless `overtaken` becomes true, because the row is there from elsewhere. Then it
    /// stops at the next line of the row, returns false, and leaves anything in `row`.
    ///
    /// # Panics
    /// As [`ImageEncoder::encode`].
    pub fn encode_unless(
        &mut self,
        overtaken: Option<&AtomicBool>,
        view: &ImageView<'_>,
        row: &mut [u8],
    ) -> bool {
        let spec = &self.spec;
        let mono = view.encoding == Encoding::Mono8;
        let plan = match &mut self.plan {
            Some(plan) if plan.size == (view.width, view.height) && plan.mono == mono => plan,
            stale => stale.insert(Plan::new(spec, view)),
        };
        match &self.tables {
            Tables::One(tables) => plan.encode(spec, tables, overtaken, view, row),
            Tables::Two(tables) => plan.encode(spec, tables, overtaken, view, row),
            Tables::Four(tables) => plan.encode(spec, tables, overtaken, view, row),
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
        overtaken: Option<&AtomicBool>,
        view: &ImageView<'_>,
        row: &mut [u8],
    ) -> bool {
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
            !overtaken.is_some_and(|flag| flag.load(Ordering::Acquire))
        })
    }
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
