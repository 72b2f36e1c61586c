//! Images into rows on the device: `kernels/image.cu`, the twin of [`crate::backend::cpu::image`].

use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use super::driver::{Device, Kernel, Stream};
use super::memory::{DeviceBuffer, Plain, Staging, bytes_of};
use crate::backend::BackendError;
use crate::backend::cpu::image::{Placement, tables};
use crate::backend::cpu::resize::Axis;
use crate::config::{Color, ImageSpec};
use crate::decode::image::{Encoding, ImageView};
use crate::dtype::DType;

const THREADS: u32 = 256;

/// What one output of an axis reads; `Tap` in `kernels/image.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Tap {
    first: u32,
    begin: u32,
    count: u32,
}

// SAFETY: three numbers of one size.
unsafe impl Plain for Tap {}

/// `Lines` in `kernels/image.cu`.
#[repr(C)]
struct Lines {
    image: u64,
    step: u64,
    taps: u64,
    coefficients: u64,
    lines: u64,
    count: u32,
    width: u32,
    encoding: u32,
    luma: u32,
}

/// `Row` in `kernels/image.cu`.
#[repr(C)]
struct Row {
    lines: u64,
    taps: u64,
    coefficients: u64,
    table: u64,
    row: u64,
    lines_width: u32,
    mono: u32,
    width: u32,
    height: u32,
    left: u32,
    right: u32,
    top: u32,
    bottom: u32,
    channels: u32,
    swap: u32,
    pad_value: u32,
    element_size: u32,
}

/// Turns the images of one stream into rows.
pub struct ImageEncoder {
    spec: ImageSpec,
    element_size: u32,
    lines_kernel: Kernel,
    row_kernel: Kernel,
    table: DeviceBuffer,
    staging: Staging,
    /// The lines that are needed, resized: up to 4 bytes per pixel.
    lines: DeviceBuffer,
    /// The last used first. It never is empty after the first image.
    plans: Vec<Plan>,
}

/// Lines of an image that need no more memory than is reserved at the start.
const LINES_AT_START: usize = 1200;

/// Sizes whose plans are kept, for a topic on which more than one size arrives in turn.
const MOST_PLANS: usize = 4;

/// The image stands at a multiple of this in the upload.
const IMAGE_ALIGNMENT: usize = 256;

/// What follows from the size of an image.
///
/// The taps and coefficients are part of every upload, in front of the image. That is a hundredth
/// of it, and they need no memory of their own on the device that a new size would have to grow,
/// or to wait for until the kernels of the last size are done with it.
struct Plan {
    size: (usize, usize),
    placement: Placement,
    /// Columns and lines of the image that are read.
    used: [Range<usize>; 2],
    /// Of both axes, one after the other: taps, then coefficients.
    tables: Vec<u8>,
    /// Where the taps and the coefficients of both axes start in `tables`.
    places: [[usize; 2]; 2],
}

impl ImageEncoder {
    /// An encoder into rows of `spec`, of element type `dtype`.
    pub fn new(device: &Arc<Device>, spec: &ImageSpec, dtype: DType) -> Result<Self, BackendError> {
        let table = match dtype {
            DType::F32 => tables::<4>(spec, dtype).as_flattened().as_flattened().to_vec(),
            DType::F16 | DType::Bf16 => {
                tables::<2>(spec, dtype).as_flattened().as_flattened().to_vec()
            }
        };
        Ok(ImageEncoder {
            spec: spec.clone(),
            element_size: dtype.size() as u32,
            lines_kernel: device.kernel("image_lines")?,
            row_kernel: device.kernel("image_row")?,
            table: DeviceBuffer::from_bytes(device, &table)?,
            staging: Staging::new(device)?,
            lines: DeviceBuffer::new(device, 4 * spec.width * LINES_AT_START)?,
            plans: Vec::with_capacity(MOST_PLANS),
        })
    }

    /// Puts upload and encoding of an image into the row at `row` on `stream`, and returns while
    /// they are under way. Reserves memory only for an image larger than all before, and than is
    /// common.
    pub fn encode(
        &mut self,
        view: &ImageView<'_>,
        row: u64,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        self.choose_plan(view);
        let plan = &self.plans[0];
        let needed = plan.lines_len();
        if needed > self.lines.len() {
            // The lines may be in use.
            stream.synchronize("finish earlier images")?;
            let capacity = needed.next_power_of_two();
            tracing::info!("reserving {capacity} bytes for images of {} lines", view.height);
            self.lines = DeviceBuffer::new(stream.device(), capacity)?;
        }
        let lines = &plan.used[1];
        let line = view.width * view.encoding.bytes_per_pixel();
        let image = &view.data[lines.start * view.step..(lines.end - 1) * view.step + line];
        let padding = &[0; IMAGE_ALIGNMENT][..plan.image_at() - plan.tables.len()];
        self.staging.fill(&[&plan.tables, padding, image], stream)?;
        self.start(view, row, stream)
    }

    /// The part of [`ImageEncoder::encode`] after the image's bytes are in pinned memory, for the
    /// image that was encoded last.
    pub(super) fn start(
        &self,
        view: &ImageView<'_>,
        row: u64,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        self.staging.send(stream)?;
        self.launch(&self.plans[0], view, row, stream)
    }

    /// Moves the plan for the size of `view` to the front.
    fn choose_plan(&mut self, view: &ImageView<'_>) {
        let size = (view.width, view.height);
        if let Some(at) = self.plans.iter().position(|plan| plan.size == size) {
            self.plans[..=at].rotate_right(1);
            return;
        }
        // Memory of the plan that was not used for longest.
        let oldest = if self.plans.len() == MOST_PLANS { self.plans.pop() } else { None };
        let tables = oldest.map_or_else(Vec::new, |plan| plan.tables);
        self.plans.insert(0, Plan::new(&self.spec, size, tables));
    }

    fn launch(
        &self,
        plan: &Plan,
        view: &ImageView<'_>,
        row: u64,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        let spec = &self.spec;
        let luma = spec.color == Color::Mono;
        let upload = self.staging.address();
        let left_out = plan.used[0].start * view.encoding.bytes_per_pixel();
        let [columns_at, rows_at] = plan.places.map(|at| at.map(|place| upload + place as u64));
        let [columns, rows] = &plan.placement.target;
        let mut lines = Lines {
            image: upload + (plan.image_at() + left_out) as u64,
            step: view.step as u64,
            taps: columns_at[0],
            coefficients: columns_at[1],
            lines: self.lines.address(),
            count: plan.used[1].len() as u32,
            width: columns.len() as u32,
            encoding: view.encoding as u32,
            luma: u32::from(luma),
        };
        let mut job = Row {
            lines: lines.lines,
            taps: rows_at[0],
            coefficients: rows_at[1],
            table: self.table.address(),
            row,
            lines_width: lines.width,
            mono: u32::from(luma || view.encoding == Encoding::Mono8),
            width: spec.width as u32,
            height: spec.height as u32,
            left: columns.start as u32,
            right: columns.end as u32,
            top: rows.start as u32,
            bottom: rows.end as u32,
            channels: spec.color.channels() as u32,
            swap: u32::from(swaps(view.encoding, spec.color)),
            pad_value: u32::from(spec.pad_value),
            element_size: self.element_size,
        };
        let blocks = |elements: u64| elements.div_ceil(u64::from(THREADS)) as u32;
        let line_blocks = blocks(u64::from(lines.count) * u64::from(lines.width));
        let row_blocks = blocks(u64::from(job.width) * u64::from(job.height));
        // SAFETY: the arguments are those of the kernels. They name buffers of this encoder that
        // are only used on this stream, and a row that is not read until the encode is done. The
        // upload holds the plan's tables, and all lines and columns that the plan reads.
        unsafe {
            let arguments = &mut [ptr::from_mut(&mut lines).cast()];
            self.lines_kernel.launch(stream, line_blocks, THREADS, arguments)?;
            let arguments = &mut [ptr::from_mut(&mut job).cast()];
            self.row_kernel.launch(stream, row_blocks, THREADS, arguments)
        }
    }
}

impl Plan {
    /// The plan for images of `size` (width, height), in the memory of `tables`.
    fn new(spec: &ImageSpec, size: (usize, usize), mut tables: Vec<u8>) -> Self {
        let placement = Placement::new(spec, size.0, size.1);
        tables.clear();
        let mut used = [0..0, 0..0];
        let mut places = [[0; 2]; 2];
        for (i, inputs) in [size.0, size.1].into_iter().enumerate() {
            let part = placement.source[i].clone();
            let axis = Axis::new(inputs, part, placement.target[i].len());
            used[i] = axis.used();
            places[i] = append(&mut tables, &axis);
        }
        Plan { size, placement, used, tables, places }
    }

    /// Bytes of the resized lines.
    fn lines_len(&self) -> usize {
        4 * self.used[1].len() * self.placement.target[0].len()
    }

    /// Where the image stands in the upload.
    fn image_at(&self) -> usize {
        self.tables.len().next_multiple_of(IMAGE_ALIGNMENT)
    }
}

/// Appends taps and coefficients, which are words, and returns where each of the two starts.
fn append(tables: &mut Vec<u8>, axis: &Axis) -> [usize; 2] {
    let taps_at = tables.len();
    for (first, range) in axis.taps() {
        let (first, begin, count) = (*first as u32, range.start as u32, range.len() as u32);
        tables.extend_from_slice(bytes_of(&[Tap { first, begin, count }]));
    }
    let coefficients_at = tables.len();
    tables.extend_from_slice(bytes_of(axis.coefficients()));
    [taps_at, coefficients_at]
}

/// Whether red and blue change places from the image to the row.
fn swaps(encoding: Encoding, color: Color) -> bool {
    match encoding {
        Encoding::Rgb8 | Encoding::Rgba8 => color == Color::Bgr,
        Encoding::Bgr8 | Encoding::Bgra8 => color == Color::Rgb,
        Encoding::Mono8 => false,
    }
}
