//! Images into rows on the device: `kernels/image/resize.cu`, the twin of [`super::cpu`].

use std::ops::Range;
use std::sync::Arc;

use super::cpu::swaps;
use super::elements::{bytes, tables};
use super::geometry::Axis;
use super::jpeg::Scan;
use super::jpeg_cuda::{self, JpegPixelMaker, UploadedJpeg};
use super::memory::{IMAGE_ALIGNMENT, between_bytes, lines_bytes, upload_bytes};
use super::placement::Placement;
use super::remap::Remap;
use super::spec::{Color, Encoding, ImageLayout, ImageSpec, ImageView, Resize};
use super::undistort_cuda::Undistorter;
use super::weights::{Finish, Kernel as Filter, Weights};
use crate::device::shared::image::{
    BGR8, BGRA8, Lines, MONO8, RGB8, RGBA8, Row, THREADS, Tap, Weight,
};
use crate::device::{
    Device, DeviceBuffer, DeviceError, Inputs, Kernel, Launch, MessagePool, RowPlace, Staging,
    Stream, bytes_of,
};
use crate::dtype::DType;

// The kernels name encodings by the same codes.
const _: () = assert!(Encoding::Rgb8 as u32 == RGB8 && Encoding::Bgr8 as u32 == BGR8);
const _: () = assert!(Encoding::Rgba8 as u32 == RGBA8 && Encoding::Bgra8 as u32 == BGRA8);
const _: () = assert!(Encoding::Mono8 as u32 == MONO8);

/// An image on the device. Neither side is 0.
#[derive(Clone, Copy, Debug)]
pub struct DeviceImage {
    /// Its first byte.
    pub address: u64,
    /// Pixel format.
    pub encoding: Encoding,
    /// Width \[px\].
    pub width: usize,
    /// Height \[px\].
    pub height: usize,
    /// Bytes from one line to the next.
    pub step: usize,
}

/// Turns images into rows, of one stream of launches.
pub struct ImageEncoder {
    spec: ImageSpec,
    dtype: DType,
    /// The two kernels of each kind of filter, by [`Stage::kind`].
    kernels: [[Kernel; 2]; KERNELS.len()],
    table: DeviceBuffer,
    /// The table of the images between resizes, and these images.
    between_table: DeviceBuffer,
    between: DeviceBuffer,
    staging: Staging,
    /// Messages whose images the device reads where they are.
    messages: Arc<MessagePool>,
    /// The image in `staging`, and what undistorts it.
    staged: Option<(Staged, Option<Arc<Remap>>)>,
    /// If images are undistorted.
    undistorter: Option<Undistorter>,
    /// If images may be JPEG.
    jpeg: Option<JpegPixelMaker>,
    /// Result of the first pass: up to 16 bytes per pixel.
    lines: DeviceBuffer,
    /// The last used first.
    plans: Vec<ResizeTables>,
}

/// Form of the staged image: pixels, or a JPEG file that the device decodes.
#[derive(Clone, Copy)]
enum Staged {
    Pixels(DeviceImage),
    Jpeg(UploadedJpeg),
}

/// The kernels of each kind of filter: of the first pass, and of the row.
const KERNELS: [[&str; 2]; 5] = [
    ["image_lines", "image_row"],
    ["image_lines_vertical_first", "image_row_vertical_first"],
    ["image_lines_linear", "image_row_linear"],
    ["image_lines_area", "image_row_area"],
    ["image_lines_torch", "image_row_torch"],
];
/// The place there of the kernels that resize columns first.
const VERTICAL_FIRST: usize = 1;

/// Sizes whose plans are kept, for a topic on which more than one size arrives in turn.
const MOST_PLANS: usize = 4;

/// Resizes and their tables, for images of one size.
///
/// The taps and coefficients are part of every upload, in front of the image: they are a hundredth
/// of it. So a new size needs no memory on the device, and does not wait for the kernels of the
/// last size.
struct ResizeTables {
    size: (usize, usize),
    /// One per resize.
    stages: Vec<Stage>,
    /// Of all axes, one after the other: taps, then weights.
    tables: Vec<u8>,
    /// Copy of the tables on the device, for images that are there already.
    on_device: Option<DeviceBuffer>,
}

/// One resize of images of one size: the parts it reads and fills, its kernels, and its places in the tables.
struct Stage {
    resize: Resize,
    /// Columns and lines of the row that are filled.
    target: [Range<usize>; 2],
    /// Columns and lines of the image that are read.
    used: [Range<usize>; 2],
    /// Its place in [`KERNELS`].
    kind: usize,
    finish: Finish,
    /// Offsets in the tables \[bytes\]: of taps and weights, first those of the first pass, then those of the second.
    places: [[usize; 2]; 2],
}

impl ImageEncoder {
    /// An encoder into rows of `spec`, of element type `dtype`, for images of at most `largest`
    /// (width, height) pixels. It reserves all memory for them.
    pub fn new(
        device: &Arc<Device>,
        spec: &ImageSpec,
        dtype: DType,
        largest: [usize; 2],
    ) -> Result<Self, DeviceError> {
        let table = match dtype {
            DType::U8 => tables::<1>(spec, dtype).as_flattened().as_flattened().to_vec(),
            DType::F32 | DType::I32 => {
                tables::<4>(spec, dtype).as_flattened().as_flattened().to_vec()
            }
            DType::F16 | DType::Bf16 => {
                tables::<2>(spec, dtype).as_flattened().as_flattened().to_vec()
            }
        };
        let mut kernels = Vec::with_capacity(KERNELS.len());
        for [lines, row] in KERNELS {
            kernels.push([device.kernel(lines)?, device.kernel(row)?]);
        }
        let Ok(kernels) = kernels.try_into() else { unreachable!("there are as many as names") };
        let of_messages = Arc::clone(device);
        let between_table = bytes(spec.color.between()).as_flattened().as_flattened();
        Ok(ImageEncoder {
            spec: spec.clone(),
            dtype,
            kernels,
            table: DeviceBuffer::from_bytes(device, &table)?,
            between_table: DeviceBuffer::from_bytes(device, between_table)?,
            between: DeviceBuffer::new(device, between_bytes(spec).max(1))?,
            staging: Staging::new(device, upload_bytes(spec, largest))?,
            messages: MessagePool::new(move |buffer| buffer.register(&of_messages)),
            staged: None,
            undistorter: match spec.undistort {
                true => Some(Undistorter::new(device, spec, largest)?),
                false => None,
            },
            jpeg: None,
            lines: DeviceBuffer::new(device, lines_bytes(spec, largest))?,
            plans: Vec::with_capacity(MOST_PLANS),
        })
    }

    /// Reserves memory for the pixels of JPEG images of at most `largest` (width, height) pixels.
    pub fn with_jpeg(
        mut self,
        device: &Arc<Device>,
        largest: [usize; 2],
    ) -> Result<Self, DeviceError> {
        self.jpeg = Some(JpegPixelMaker::new(device, largest)?);
        Ok(self)
    }

    /// Memory for messages with images. The device reads an image in it where it is, and one that is elsewhere is copied
    /// first. When an image is under way, the caller [supplies](MessagePool::supply) it.
    pub fn messages(&self) -> &Arc<MessagePool> {
        &self.messages
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.spec.row_len() * self.dtype.size()
    }

    /// Puts upload and encoding of an image on `stream`, into the row that is `at` bytes from the
    /// start of `rows`, and returns while they are under way.
    ///
    /// # Errors
    /// Those of the device, also if the image is larger than the encoder has memory for.
    ///
    /// # Panics
    /// When the row is not inside `rows`.
    pub fn encode(
        &mut self,
        view: &ImageView<'_>,
        row: RowPlace<'_>,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        self.stage(view)?;
        self.start(row, stream)
    }

    /// The first part of [`ImageEncoder::encode`]: takes the bytes of the lines that are read. If they are in one of the
    /// [messages](ImageEncoder::messages), it holds them. Otherwise it copies them, without the padding between lines.
    pub fn stage(&mut self, view: &ImageView<'_>) -> Result<(), DeviceError> {
        self.wait()?;
        self.restage(view)
    }

    /// Waits until the memory for the next image is free.
    pub fn wait(&mut self) -> Result<(), DeviceError> {
        self.staging.wait()
    }

    /// Notes that the caller has waited for the stream of the last image.
    pub fn settled(&mut self) {
        self.staging.settled();
    }

    /// As [`ImageEncoder::stage`], after [`ImageEncoder::wait`] or [`ImageEncoder::settled`]: makes no call of the driver.
    pub fn restage(&mut self, view: &ImageView<'_>) -> Result<(), DeviceError> {
        let ImageView { encoding, width, height, step, data, remap } = *view;
        self.choose_plan((width, height))?;
        let plan = &self.plans[0];
        let lines = match remap {
            None => plan.stages[0].used[1].clone(),
            Some(remap) => remap.source_lines(),
        };
        // A table may read nothing, and then all is black.
        let lines = if lines.start == lines.end { 0..1 } else { lines };
        let line = width * encoding.bytes_per_pixel();
        let image = &data[lines.start * step..(lines.end - 1) * step + line];
        let first_line = self.staging.address() + plan.image_at() as u64;
        let step = self.take_lines(image, step, line)?;
        // As if its first lines, which are not read, were there too: no kernel uses this address.
        let address = first_line.wrapping_sub((lines.start * step) as u64);
        let image = DeviceImage { address, encoding, width, height, step };
        self.staged = Some((Staged::Pixels(image), remap.cloned()));
        Ok(())
    }

    /// Takes lines that are `step` bytes apart in `image`, behind the tables of the first plan. Of each line, `line` bytes
    /// count. Returns how far apart they are on the device.
    fn take_lines(&mut self, image: &[u8], step: usize, line: usize) -> Result<usize, DeviceError> {
        let plan = &self.plans[0];
        let tables = plan.tables.as_slice();
        let image_at = plan.image_at();
        // With the padding of its lines, it may need more room than its pixels.
        let fits = image_at + image.len() <= self.staging.capacity();
        if let Some(held) = fits.then(|| self.messages.hold(image)).flatten() {
            self.staging.fill([tables].into_iter())?;
            self.staging.add(image_at, held);
            return Ok(step);
        }
        let padding = &[0; IMAGE_ALIGNMENT][..image_at - tables.len()];
        // One copy if there is nothing between the lines.
        let (part, len) = if step == line { (image.len(), image.len()) } else { (step, line) };
        let pixels = image.chunks(part).map(|part| &part[..len]);
        self.staging.fill([tables, padding].into_iter().chain(pixels))?;
        Ok(line)
    }

    /// As [`ImageEncoder::restage`], for a scan. Returns false if it does not fit its memory or itself. Then nothing is
    /// staged, and the encoder takes the pixels alone. Pixels are named by `encoding` if they are not gray. When the
    /// row is done, [`ImageEncoder::refused`] says whether it counts.
    pub fn restage_jpeg(
        &mut self,
        of: &Scan,
        encoding: Encoding,
        remap: Option<&Arc<Remap>>,
    ) -> Result<bool, DeviceError> {
        self.staged = None;
        self.choose_plan((of.width, of.height))?;
        let bytes = jpeg_cuda::parts(of).map(<[u8]>::len).iter().sum::<usize>();
        let has_room = self.plans[0].image_at() + bytes <= self.staging.capacity();
        if !has_room || !self.jpeg.as_ref().is_some_and(|jpeg| jpeg.fits(of)) {
            return Ok(false);
        }
        let plan = &self.plans[0];
        let padding = &[0; IMAGE_ALIGNMENT][..plan.image_at() - plan.tables.len()];
        let parts = [plan.tables.as_slice(), padding].into_iter().chain(jpeg_cuda::parts(of));
        self.staging.fill(parts)?;
        let address = self.staging.address() + plan.image_at() as u64;
        let uploaded = UploadedJpeg::new(of, encoding, address);
        self.jpeg.iter_mut().for_each(JpegPixelMaker::forget);
        self.staged = Some((Staged::Jpeg(uploaded), remap.cloned()));
        Ok(true)
    }

    /// True if the staged image has no pixels yet, so that the device may refuse it.
    pub fn may_refuse(&self) -> bool {
        matches!(self.staged, Some((Staged::Jpeg(_), _)))
    }

    /// True if the row of the staged image must not be used, and a core must decode the file. The caller has waited for
    /// the row.
    pub fn refused(&self) -> bool {
        self.may_refuse() && self.jpeg.as_ref().is_some_and(JpegPixelMaker::refused)
    }

    /// The second part of [`ImageEncoder::encode`], for the image that was staged last.
    ///
    /// # Panics
    /// When none was staged, or the row is not inside `rows`.
    pub fn start(&mut self, row: RowPlace<'_>, stream: &Stream) -> Result<(), DeviceError> {
        let RowPlace { rows, at } = row;
        let staged = self.staged.clone();
        let (image, remap) = staged.expect("image: expected one that was staged");
        let end = at.checked_add(self.row_bytes());
        assert!(end.is_some_and(|end| end <= rows.len()), "image: the row is not inside");
        self.choose_plan(match &image {
            Staged::Pixels(image) => (image.width, image.height),
            Staged::Jpeg(jpeg) => jpeg.size(),
        })?;
        self.staging.send(stream)?;
        let image = match (image, &self.jpeg) {
            (Staged::Pixels(image), _) => image,
            // SAFETY: the upload holds the scan.
            (Staged::Jpeg(jpeg), Some(maker)) => unsafe { maker.run(&jpeg, stream)? },
            (Staged::Jpeg(_), None) => {
                let detail = "expected pixels, found a JPEG file".to_owned();
                return Err(DeviceError::Failed { operation: "take an image", detail });
            }
        };
        let image = match (remap, &mut self.undistorter) {
            (None, _) => image,
            // SAFETY: the upload holds the lines that the table reads.
            (Some(remap), Some(undistorter)) => unsafe { undistorter.run(&image, &remap, stream)? },
            (Some(_), None) => {
                let detail = "expected no table for images that stay as they are".to_owned();
                return Err(DeviceError::Failed { operation: "undistort an image", detail });
            }
        };
        let tables = self.staging.address();
        // SAFETY: the upload holds the plan's tables, and all lines and columns that the plan
        // reads. It and the rows wait for the device before they go.
        unsafe {
            let row = rows.address() + at as u64;
            self.launch_plan(&image, tables, row, Inputs::MayBeInFlight, stream)
        }
    }

    /// Puts the encoding of an image that is on the device on `stream`, into the row at address
    /// `row`. An image of a new size makes it reserve memory for tables, and wait.
    ///
    /// # Safety
    /// Until the launch is done, the image and a row ([`ImageEncoder::row_bytes`]) at a multiple of
    /// its element's size are valid on the device, nothing else writes the image, and nothing else
    /// uses the row. `inputs` is [`Inputs::Ready`] only if no kernel that may still run writes the
    /// image. All launches of this encoder are on one stream.
    pub unsafe fn launch(
        &mut self,
        image: &DeviceImage,
        row: u64,
        inputs: Inputs,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        self.choose_plan((image.width, image.height))?;
        let plan = &mut self.plans[0];
        if plan.on_device.is_none() {
            plan.on_device = Some(DeviceBuffer::from_bytes(stream.device(), &plan.tables)?);
        }
        let tables = plan.on_device.as_ref().map_or(0, DeviceBuffer::address);
        // SAFETY: the tables are those of the plan, and wait for the device before they go; the
        // caller answers for the rest.
        unsafe { self.launch_plan(image, tables, row, inputs, stream) }
    }

    /// Moves the plan for images of `size` to the front.
    fn choose_plan(&mut self, size: (usize, usize)) -> Result<(), DeviceError> {
        if let Some(at) = self.plans.iter().position(|plan| plan.size == size) {
            self.plans[..=at].rotate_right(1);
            return Ok(());
        }
        // Memory of the plan that was not used for longest.
        let oldest = if self.plans.len() == MOST_PLANS { self.plans.pop() } else { None };
        let tables = oldest.map_or_else(Vec::new, |plan| plan.tables);
        let failed = |detail| DeviceError::Failed { operation: "take an image", detail };
        let plan = ResizeTables::new(&self.spec, size, tables).ok_or_else(|| {
            failed(format!("expected the part that is cropped, found {}x{} px", size.0, size.1))
        })?;
        let needed = plan.lines_len();
        let capacity = self.lines.len();
        if needed > capacity {
            let detail = format!("expected at most {capacity} bytes of lines, found {needed}");
            return Err(failed(detail));
        }
        self.plans.insert(0, plan);
        Ok(())
    }

    /// Launches the kernels of all resizes with the first plan.
    ///
    /// # Safety
    /// As for [`ImageEncoder::launch`]; `tables` are those of the first plan.
    unsafe fn launch_plan(
        &self,
        image: &DeviceImage,
        tables: u64,
        row: u64,
        inputs: Inputs,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let spec = &self.spec;
        let plan = &self.plans[0];
        let mut image = *image;
        let mut inputs = inputs;
        let mut between = self.between.address();
        for (number, stage) in plan.stages.iter().enumerate() {
            let out = if number + 1 == plan.stages.len() {
                let table = self.table.address();
                Out { color: spec.color, layout: spec.layout, table, row, size: self.dtype.size() }
            } else {
                let color = spec.color.between();
                let table = self.between_table.address();
                Out { color, layout: ImageLayout::Hwc, table, row: between, size: 1 }
            };
            // SAFETY: the caller answers for the first image and the row. The images between are in a
            // buffer of this encoder, and the kernels of a resize wait for those of the one before.
            unsafe { self.launch_stage(stage, &image, tables, &out, inputs, stream)? };
            let Resize { width, height, .. } = stage.resize;
            let encoding = out.color.encoding();
            let step = width * out.color.channels();
            image = DeviceImage { address: out.row, encoding, width, height, step };
            between += (step * height) as u64;
            inputs = Inputs::MayBeInFlight;
        }
        Ok(())
    }

    /// Launches both kernels of a resize.
    ///
    /// # Safety
    /// As for [`ImageEncoder::launch_plan`], for this image and what `out` names.
    unsafe fn launch_stage(
        &self,
        stage: &Stage,
        image: &DeviceImage,
        tables: u64,
        out: &Out,
        inputs: Inputs,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let luma = out.color == Color::Mono;
        let Resize { width, height, .. } = stage.resize;
        let [first_column, first_line] = stage.used.each_ref().map(|used| used.start);
        let left_out = first_line * image.step + first_column * image.encoding.bytes_per_pixel();
        let [first, second] = stage.places.map(|at| at.map(|place| tables + place as u64));
        let [columns, rows] = &stage.target;
        let [lines_width, count] = stage.lines();
        let lines = Lines {
            image: image.address.wrapping_add(left_out as u64),
            step: image.step as u64,
            taps: first[0],
            coefficients: first[1],
            lines: self.lines.address(),
            count: count as u32,
            width: lines_width as u32,
            encoding: image.encoding as u32,
            luma: u32::from(luma),
            inputs_ready: inputs.are_ready(),
            reserved: 0,
        };
        let plane = (width * height) as u64;
        let channels = out.color.channels() as u32;
        let (pixel_stride, channel_stride) = match out.layout {
            ImageLayout::Chw => (1, plane),
            ImageLayout::Hwc => (u64::from(channels), 1),
        };
        let job = Row {
            lines: lines.lines,
            taps: second[0],
            coefficients: second[1],
            table: out.table,
            row: out.row,
            pixel_stride,
            channel_stride,
            lines_width: lines.width,
            mono: u32::from(luma || image.encoding == Encoding::Mono8),
            width: width as u32,
            height: height as u32,
            left: columns.start as u32,
            right: columns.end as u32,
            top: rows.start as u32,
            bottom: rows.end as u32,
            channels,
            swap: u32::from(swaps(image.encoding, out.color)),
            pad_value: u32::from(self.spec.pad_value),
            element_size: out.size as u32,
            scale: stage.finish.scale,
            half_up: u32::from(stage.finish.half_up),
        };
        let launch = |elements: u64| {
            let blocks = elements.div_ceil(u64::from(THREADS)) as u32;
            Launch { blocks, threads: THREADS, shared: 0 }
        };
        let all_lines = launch(u64::from(lines.count) * u64::from(lines.width));
        let [lines_kernel, row_kernel] = &self.kernels[stage.kind];
        // SAFETY: the parameters are those of the kernels. They name what the caller answers for,
        // and buffers of this encoder, which are used on one stream, and wait for the device before
        // they go.
        unsafe {
            lines_kernel.launch_job(stream, all_lines, &lines)?;
            match all_lines.blocks {
                0 => row_kernel.launch_job(stream, launch(plane), &job),
                _ => row_kernel.follow_job(stream, launch(plane), &job),
            }
        }
    }
}

impl Drop for ImageEncoder {
    fn drop(&mut self) {
        // Then the staging holds no message. After an error it keeps its message, also when it is dropped.
        _ = self.staging.wait();
        self.messages.end();
    }
}

/// Destination of a resize: its row, and the form of the numbers there.
struct Out {
    color: Color,
    layout: ImageLayout,
    table: u64,
    row: u64,
    /// Bytes of an element.
    size: usize,
}

impl ResizeTables {
    /// The plan for images of `size` (width, height), in the memory of `tables`. `None` if they lack
    /// the part that is cropped.
    fn new(spec: &ImageSpec, size: (usize, usize), mut tables: Vec<u8>) -> Option<Self> {
        tables.clear();
        let mut part = spec.part(size.0, size.1)?;
        let mut stages = Vec::with_capacity(spec.resizes.len());
        for resize in &spec.resizes {
            stages.push(Stage::new(resize, &part, &mut tables));
            part = [0..resize.width, 0..resize.height];
        }
        Some(ResizeTables { size, stages, tables, on_device: None })
    }

    /// Bytes of what a first pass gives, of the resize that has most.
    fn lines_len(&self) -> usize {
        let bytes = self.stages.iter().map(|stage| {
            let pixel = if stage.resize.filter.has_bytes_between() { 4 } else { 16 };
            stage.lines().iter().product::<usize>() * pixel
        });
        bytes.max().unwrap_or(0)
    }

    /// Offset of the image in the upload \[bytes\].
    fn image_at(&self) -> usize {
        self.tables.len().next_multiple_of(IMAGE_ALIGNMENT)
    }
}

impl Stage {
    /// The resize of this part of an image; appends what the kernels read to `tables`.
    fn new(resize: &Resize, part: &[Range<usize>; 2], tables: &mut Vec<u8>) -> Self {
        let placement = Placement::new(resize, part[0].len(), part[1].len());
        let filter = Filter::new(resize.filter, &placement);
        let read = filter.used();
        let used = [0, 1].map(|axis| {
            let start = part[axis].start + placement.source[axis].start;
            start + read[axis].start..start + read[axis].end
        });
        let mut finish = Finish { scale: 1.0, half_up: false };
        let (kind, places) = match &filter {
            Filter::Bytes(axes) => (0, axes.each_ref().map(|axis| append(tables, axis))),
            Filter::VerticalFirst([columns, lines]) => {
                (VERTICAL_FIRST, [lines, columns].map(|axis| append(tables, axis)))
            }
            Filter::Linear(axes) => {
                (2, axes.each_ref().map(|axis| append_weights(tables, axis, |value| value as u32)))
            }
            Filter::Area(axes, of_area) => {
                finish = *of_area;
                (3, axes.each_ref().map(|axis| append_weights(tables, axis, f32::to_bits)))
            }
            Filter::Torch(axes) => {
                (4, axes.each_ref().map(|axis| append_weights(tables, axis, f32::to_bits)))
            }
        };
        Stage { resize: *resize, target: placement.target, used, kind, finish, places }
    }

    /// Width and height of what the first pass gives.
    fn lines(&self) -> [usize; 2] {
        let [read, filled] = [&self.used, &self.target].map(|axes| axes.each_ref().map(Range::len));
        match self.kind {
            VERTICAL_FIRST => [read[0], filled[1]],
            _ => [filled[0], read[1]],
        }
    }
}

/// Appends taps and coefficients, and returns where each of the two starts.
fn append(tables: &mut Vec<u8>, axis: &Axis) -> [usize; 2] {
    let taps_at = tables.len();
    for (first, range) in axis.taps() {
        let first = *first as u32;
        let begin = range.start as u32;
        let count = range.len() as u32;
        tables.extend_from_slice(bytes_of(&[Tap { first, begin, count }]));
    }
    let coefficients_at = tables.len();
    tables.extend_from_slice(bytes_of(axis.coefficients()));
    [taps_at, coefficients_at]
}

/// Appends taps and weights, and returns where each of the two starts. The inputs count from the first that is used.
fn append_weights<T: Copy>(
    tables: &mut Vec<u8>,
    axis: &Weights<T>,
    bits: fn(T) -> u32,
) -> [usize; 2] {
    let taps_at = tables.len();
    for range in &axis.taps {
        let begin = range.start as u32;
        let count = range.len() as u32;
        tables.extend_from_slice(bytes_of(&[Tap { first: 0, begin, count }]));
    }
    let weights_at = tables.len();
    let start = axis.used().start as u32;
    for (input, value) in axis.inputs.iter().zip(&axis.values) {
        tables.extend_from_slice(bytes_of(&[Weight { input: input - start, value: bits(*value) }]));
    }
    [taps_at, weights_at]
}
