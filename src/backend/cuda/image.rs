//! Images into rows on the device: `kernels/image.cu`, the twin of [`crate::backend::cpu::image`].

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
    plan: Option<Plan>,
}

/// What follows from the size of an image; kept until it changes.
struct Plan {
    size: (usize, usize),
    placement: Placement,
    horizontal: DeviceAxis,
    vertical: DeviceAxis,
    /// The lines that are needed, resized: up to 4 bytes per pixel.
    lines: DeviceBuffer,
}

/// An [`Axis`] on the device.
struct DeviceAxis {
    used: std::ops::Range<usize>,
    outputs: usize,
    taps: DeviceBuffer,
    coefficients: DeviceBuffer,
}

impl DeviceAxis {
    fn new(device: &Arc<Device>, axis: &Axis) -> Result<Self, BackendError> {
        let tap = |(first, range): &(usize, std::ops::Range<usize>)| Tap {
            first: *first as u32,
            begin: range.start as u32,
            count: range.len() as u32,
        };
        let taps: Vec<Tap> = axis.taps().iter().map(tap).collect();
        Ok(DeviceAxis {
            used: axis.used(),
            outputs: axis.outputs(),
            taps: DeviceBuffer::from_bytes(device, bytes_of(&taps))?,
            coefficients: DeviceBuffer::from_bytes(device, bytes_of(axis.coefficients()))?,
        })
    }
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
            plan: None,
        })
    }

    /// Puts upload and encoding of an image into the row at `row` on `stream`, and returns while
    /// they are under way. Reserves memory only when the image's size differs from the last one's.
    pub fn encode(
        &mut self,
        view: &ImageView<'_>,
        row: u64,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        if self.plan.as_ref().is_none_or(|plan| plan.size != (view.width, view.height)) {
            // The plan may be in use.
            stream.synchronize("encode an image")?;
            self.plan = None;
            self.plan = Some(Plan::new(stream.device(), &self.spec, view)?);
        }
        let Some(plan) = &self.plan else { return Ok(()) };
        let used = plan.vertical.used.clone();
        let line = view.width * view.encoding.bytes_per_pixel();
        let bytes = &view.data[used.start * view.step..(used.end - 1) * view.step + line];
        self.staging.fill(&[bytes], stream)?;
        self.start(view, row, stream)
    }

    /// The part of [`ImageEncoder::encode`] after the image's bytes are in pinned memory.
    pub(super) fn start(
        &self,
        view: &ImageView<'_>,
        row: u64,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        let Some(plan) = &self.plan else { return Ok(()) };
        self.staging.send(stream)?;
        self.launch(plan, view, row, stream)
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
        let left_out = plan.horizontal.used.start * view.encoding.bytes_per_pixel();
        let mut lines = Lines {
            image: self.staging.address() + left_out as u64,
            step: view.step as u64,
            taps: plan.horizontal.taps.address(),
            coefficients: plan.horizontal.coefficients.address(),
            lines: plan.lines.address(),
            count: plan.vertical.used.len() as u32,
            width: plan.horizontal.outputs as u32,
            encoding: view.encoding as u32,
            luma: u32::from(luma),
        };
        let [columns, rows] = &plan.placement.target;
        let mut job = Row {
            lines: lines.lines,
            taps: plan.vertical.taps.address(),
            coefficients: plan.vertical.coefficients.address(),
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
        // upload holds all lines and columns that the plan reads.
        unsafe {
            let arguments = &mut [ptr::from_mut(&mut lines).cast()];
            self.lines_kernel.launch(stream, line_blocks, THREADS, arguments)?;
            let arguments = &mut [ptr::from_mut(&mut job).cast()];
            self.row_kernel.launch(stream, row_blocks, THREADS, arguments)
        }
    }
}

impl Plan {
    fn new(
        device: &Arc<Device>,
        spec: &ImageSpec,
        view: &ImageView<'_>,
    ) -> Result<Self, BackendError> {
        let placement = Placement::new(spec, view.width, view.height);
        let axis = |inputs, i: usize| {
            let part = placement.source[i].clone();
            DeviceAxis::new(device, &Axis::new(inputs, part, placement.target[i].len()))
        };
        let (horizontal, vertical) = (axis(view.width, 0)?, axis(view.height, 1)?);
        let lines = DeviceBuffer::new(device, 4 * vertical.used.len() * horizontal.outputs)?;
        Ok(Plan { size: (view.width, view.height), placement, horizontal, vertical, lines })
    }
}

/// Whether red and blue change places from the image to the row.
fn swaps(encoding: Encoding, color: Color) -> bool {
    match encoding {
        Encoding::Rgb8 | Encoding::Rgba8 => color == Color::Bgr,
        Encoding::Bgr8 | Encoding::Bgra8 => color == Color::Rgb,
        Encoding::Mono8 => false,
    }
}
