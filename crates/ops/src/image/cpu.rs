//! An image into a row on the CPU: undistort, crop, resize once or several times, pad, normalise.
//!
//! `placement.rs` says what goes where. A byte becomes an element by a table of 256 per channel
//! (`elements.rs`). Between two resizes there is an image of bytes: RGB, or mono if the row is.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::arithmetic::{Bytes, Linear, Torch};
use super::elements::{bytes, tables};
use super::geometry::Axis;
use super::placement::Placement;
use super::resize::Resizer;
use super::spec::{Color, Encoding, ImageLayout, ImageSpec, ImageView, Resize};
use super::weights::{Finish, Kernel};
use crate::dtype::DType;

/// Turns the images of one stream into rows.
#[derive(Debug)]
pub struct ImageEncoder {
    spec: ImageSpec,
    /// The last image that was undistorted.
    undistorted: Vec<u8>,
    /// All resizes but the last, and the image that each gives.
    between: Vec<(Stage, Vec<u8>)>,
    last: Stage,
    tables: Tables,
}

/// One resize.
#[derive(Debug)]
struct Stage {
    resize: Resize,
    color: Color,
    layout: ImageLayout,
    pad_value: u8,
    plan: Option<ResizeTables>,
}

/// Tables that follow from the size and the kind of an image; kept until these change.
#[derive(Debug)]
struct ResizeTables {
    size: (usize, usize),
    mono: bool,
    source: [Range<usize>; 2],
    target: [Range<usize>; 2],
    passes: Passes,
}

/// The passes of a resize.
#[derive(Debug)]
enum Passes {
    Bytes(Resizer<Bytes>),
    VerticalFirst(Box<VerticalFirst>),
    Linear(Resizer<Linear>),
    Area(Resizer<Finish>),
    Torch(Resizer<Torch>),
}

/// The vertical pass, then the horizontal one: two resizes, each along one axis.
#[derive(Debug)]
struct VerticalFirst {
    vertical: Resizer<Bytes>,
    /// Output of the vertical pass; channels are in the order of the image's.
    between: Vec<u8>,
    encoding: Encoding,
    horizontal: Resizer<Bytes>,
}

/// The elements of all bytes per channel of the row, as they are stored.
#[derive(Debug)]
enum Tables {
    One(Vec<[[u8; 1]; 256]>),
    Two(Vec<[[u8; 2]; 256]>),
    Four(Vec<[[u8; 4]; 256]>),
}

impl ImageEncoder {
    /// An encoder into rows of `spec`, of element type `dtype`. No side of a resize is 0.
    ///
    /// # Panics
    /// If `spec` has no resize.
    pub fn new(spec: &ImageSpec, dtype: DType) -> Self {
        let tables = match dtype {
            DType::U8 => Tables::One(tables(spec, dtype)),
            DType::F32 | DType::I32 => Tables::Four(tables(spec, dtype)),
            DType::F16 | DType::Bf16 => Tables::Two(tables(spec, dtype)),
        };
        let stage = |resize: &Resize, color, layout| {
            let resize = *resize;
            let pad_value = spec.pad_value;
            Stage { resize, color, layout, pad_value, plan: None }
        };
        let between = spec.resizes[..spec.resizes.len() - 1].iter().map(|resize| {
            let color = spec.color.between();
            let image = vec![0; resize.width * resize.height * color.channels()];
            (stage(resize, color, ImageLayout::Hwc), image)
        });
        let between = between.collect();
        let last = stage(spec.last(), spec.color, spec.layout);
        ImageEncoder { spec: spec.clone(), undistorted: Vec::new(), between, last, tables }
    }

    /// Writes the row of an image. Allocates only if the last image had another size, or if only one of
    /// the two is mono.
    ///
    /// # Panics
    /// If `row` has not the length of a row, or the image not the part that the spec crops, or if its table
    /// is for another part. The row comes from the layout, never from a message, and the pipeline has
    /// checked the size of the image.
    pub fn encode(&mut self, view: &ImageView<'_>, row: &mut [u8]) {
        self.encode_unless(None, view, row);
    }

    /// Writes the row of an image, unless `overtaken` becomes true, because the row is there from elsewhere. Then it
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
        let part = self.spec.part(view.width, view.height);
        let part = part.expect("encode: expected the part that is cropped");
        let mut view = match view.remap {
            None => view.part(part),
            Some(remap) => {
                assert_eq!(*remap.part(), part, "encode: the part that is undistorted");
                match remap.run(overtaken, view, &mut self.undistorted) {
                    Some(undistorted) => undistorted,
                    None => return false,
                }
            }
        };
        for (stage, image) in &mut self.between {
            let Resize { width, height, .. } = stage.resize;
            let color = stage.color;
            if !stage.encode(bytes(color), overtaken, &view, image) {
                return false;
            }
            let encoding = color.encoding();
            let step = width * color.channels();
            view = ImageView { encoding, width, height, step, data: image, remap: None };
        }
        match &self.tables {
            Tables::One(tables) => self.last.encode(tables, overtaken, &view, row),
            Tables::Two(tables) => self.last.encode(tables, overtaken, &view, row),
            Tables::Four(tables) => self.last.encode(tables, overtaken, &view, row),
        }
    }
}

impl Stage {
    fn encode<const N: usize>(
        &mut self,
        tables: &[[[u8; N]; 256]],
        overtaken: Option<&AtomicBool>,
        view: &ImageView<'_>,
        row: &mut [u8],
    ) -> bool {
        let Resize { width, height, .. } = self.resize;
        assert_eq!(row.len(), tables.len() * width * height * N, "encode: length mismatch");
        let mono = view.encoding == Encoding::Mono8;
        let plan = match &mut self.plan {
            Some(plan) if plan.size == (view.width, view.height) && plan.mono == mono => plan,
            stale => stale.insert(ResizeTables::new(&self.resize, self.color, view)),
        };
        let swap = swaps(view.encoding, self.color);
        let part = view.part(plan.source.clone());
        let out = Out { row, tables, width, target: &plan.target, pad_value: self.pad_value, swap };
        match self.layout {
            ImageLayout::Chw => plan.passes.run_planes(&part, out, overtaken),
            ImageLayout::Hwc => plan.passes.run_pixels(&part, out, overtaken),
        }
    }
}

impl ResizeTables {
    fn new(resize: &Resize, color: Color, view: &ImageView<'_>) -> Self {
        let placement = Placement::new(resize, view.width, view.height);
        let luma = color == Color::Mono;
        let encoding = view.encoding;
        let passes = match Kernel::new(resize.filter, &placement) {
            Kernel::Bytes(axes) => {
                let weights = axes.map(Axis::into_weights);
                Passes::Bytes(Resizer::new(Bytes, weights, encoding, luma))
            }
            Kernel::VerticalFirst(axes) => {
                let width = placement.source[0].len();
                Passes::VerticalFirst(Box::new(VerticalFirst::new(axes, width, encoding, luma)))
            }
            Kernel::Linear(weights) => {
                Passes::Linear(Resizer::new(Linear, weights, encoding, luma))
            }
            Kernel::Area(weights, finish) => {
                Passes::Area(Resizer::new(finish, weights, encoding, luma))
            }
            Kernel::Torch(weights) => Passes::Torch(Resizer::new(Torch, weights, encoding, luma)),
        };
        let Placement { source, target, .. } = placement;
        let mono = view.encoding == Encoding::Mono8;
        ResizeTables { size: (view.width, view.height), mono, source, target, passes }
    }
}

impl VerticalFirst {
    /// The passes along `axes` of images that are `width` pixels wide.
    fn new([columns, lines]: [Axis; 2], width: usize, encoding: Encoding, luma: bool) -> Self {
        let lines_between = lines.outputs();
        let same = |length| Axis::nearest(length, length, 0..length);
        let resizer = |axes: [Axis; 2], encoding| {
            Resizer::new(Bytes, axes.map(Axis::into_weights), encoding, luma)
        };
        let vertical = resizer([same(width), lines], encoding);
        let encoding = if vertical.channels() == 1 { Encoding::Mono8 } else { Encoding::Rgba8 };
        let between = vec![0; width * lines_between * encoding.bytes_per_pixel()];
        let horizontal = resizer([columns, same(lines_between)], encoding);
        VerticalFirst { vertical, between, encoding, horizontal }
    }

    fn run(
        &mut self,
        view: &ImageView<'_>,
        overtaken: Option<&AtomicBool>,
        sink: impl FnMut(usize, &[u8]) -> bool,
    ) -> bool {
        let VerticalFirst { vertical, between, encoding, horizontal } = self;
        let encoding = *encoding;
        let width = view.width;
        let step = width * encoding.bytes_per_pixel();
        let done = vertical.run(view, |y, line| {
            between[y * step..(y + 1) * step].copy_from_slice(line);
            !is_set(overtaken)
        });
        let height = between.len() / step;
        let lines = ImageView { encoding, width, height, step, data: between, remap: None };
        done && horizontal.run(&lines, sink)
    }
}

fn is_set(flag: Option<&AtomicBool>) -> bool {
    flag.is_some_and(|flag| flag.load(Ordering::Acquire))
}

/// Destination of a resize.
struct Out<'a, const N: usize> {
    row: &'a mut [u8],
    tables: &'a [[[u8; N]; 256]],
    width: usize,
    target: &'a [Range<usize>; 2],
    pad_value: u8,
    /// True if red and blue change places.
    swap: bool,
}

impl Passes {
    fn channels(&self) -> usize {
        match self {
            Passes::Bytes(resizer) => resizer.channels(),
            Passes::VerticalFirst(resizers) => resizers.horizontal.channels(),
            Passes::Linear(resizer) => resizer.channels(),
            Passes::Area(resizer) => resizer.channels(),
            Passes::Torch(resizer) => resizer.channels(),
        }
    }

    /// Gives every line to `write`, unless `overtaken` becomes true: then it returns false.
    fn run(
        &mut self,
        view: &ImageView<'_>,
        overtaken: Option<&AtomicBool>,
        mut write: impl FnMut(usize, &[u8]),
    ) -> bool {
        let sink = |y: usize, line: &[u8]| {
            write(y, line);
            !is_set(overtaken)
        };
        match self {
            Passes::Bytes(resizer) => resizer.run(view, sink),
            Passes::VerticalFirst(resizers) => resizers.run(view, overtaken, sink),
            Passes::Linear(resizer) => resizer.run(view, sink),
            Passes::Area(resizer) => resizer.run(view, sink),
            Passes::Torch(resizer) => resizer.run(view, sink),
        }
    }

    /// Into `[channels, height, width]`.
    fn run_planes<const N: usize>(
        &mut self,
        view: &ImageView<'_>,
        out: Out<'_, N>,
        overtaken: Option<&AtomicBool>,
    ) -> bool {
        let Out { row, tables, width, target, pad_value, swap } = out;
        let [columns, lines] = target.clone();
        let plane_len = row.len() / tables.len();
        let line_len = width * N;
        for (plane, table) in row.chunks_exact_mut(plane_len).zip(tables) {
            let padding = &table[usize::from(pad_value)];
            fill(&mut plane[..lines.start * line_len], padding);
            fill(&mut plane[lines.end * line_len..], padding);
            for line in plane[lines.start * line_len..lines.end * line_len].chunks_mut(line_len) {
                fill(&mut line[..columns.start * N], padding);
                fill(&mut line[columns.end * N..], padding);
            }
        }
        let mono = self.channels() == 1;
        self.run(view, overtaken, |y, pixels| {
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
        })
    }

    /// Into `[height, width, channels]`.
    fn run_pixels<const N: usize>(
        &mut self,
        view: &ImageView<'_>,
        out: Out<'_, N>,
        overtaken: Option<&AtomicBool>,
    ) -> bool {
        let Out { row, tables, width, target, pad_value, swap } = out;
        let [columns, lines] = target.clone();
        let pixel_len = tables.len() * N;
        let line_len = width * pixel_len;
        let pad = |part: &mut [u8]| {
            for (element, channel) in part.chunks_exact_mut(N).zip((0..tables.len()).cycle()) {
                element.copy_from_slice(&tables[channel][usize::from(pad_value)]);
            }
        };
        pad(&mut row[..lines.start * line_len]);
        pad(&mut row[lines.end * line_len..]);
        for line in row[lines.start * line_len..lines.end * line_len].chunks_mut(line_len) {
            pad(&mut line[..columns.start * pixel_len]);
            pad(&mut line[columns.end * pixel_len..]);
        }
        let lanes = self.channels();
        self.run(view, overtaken, |y, pixels| {
            let line = (lines.start + y) * line_len;
            let out = &mut row[line + columns.start * pixel_len..line + columns.end * pixel_len];
            for (channel, table) in tables.iter().enumerate() {
                let lane = match lanes {
                    1 => 0,
                    _ if swap => 2 - channel,
                    _ => channel,
                };
                let elements = out.chunks_exact_mut(pixel_len);
                let elements = elements.map(|pixel| &mut pixel[channel * N..(channel + 1) * N]);
                look_up(elements, pixels.chunks_exact(lanes).map(|pixel| pixel[lane]), table);
            }
        })
    }
}

/// True if red and blue change places from the image to the row.
pub(super) fn swaps(encoding: Encoding, color: Color) -> bool {
    match encoding.rgb() {
        [0, _, 2] => color == Color::Bgr,
        [2, _, 0] => color == Color::Rgb,
        _ => false,
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
