//! Depth images into rows on the device: `kernels/depth/depth.cu`, the twin of [`super::cpu`].

use std::sync::Arc;

use super::memory::upload_bytes;
use super::spec::{DepthElement, DepthSpec, DepthView, nearest};
use crate::device::shared::depth::{METRES, Row, THREADS, U16};
use crate::device::{Device, DeviceError, Kernel, Launch, RowPlace, Staging, Stream};
use crate::dtype::DType;

// The kernel names elements by the same codes.
const _: () = assert!(DepthElement::U16 as u32 == U16 && DepthElement::F32 as u32 == METRES);

/// Turns depth images into rows, of one stream of launches.
pub struct DepthEncoder {
    spec: DepthSpec,
    dtype: DType,
    kernel: Kernel,
    staging: Staging,
    /// Parameters of the kernel for the image in `staging`; the row's address is still unknown.
    staged: Option<Row>,
}

impl DepthEncoder {
    /// An encoder into rows of `spec`, of element type `dtype`, for images of at most `largest`
    /// (width, height) pixels. It reserves all memory for them.
    pub fn new(
        device: &Arc<Device>,
        spec: &DepthSpec,
        dtype: DType,
        largest: [usize; 2],
    ) -> Result<Self, DeviceError> {
        Ok(DepthEncoder {
            spec: spec.clone(),
            dtype,
            kernel: device.kernel("depth_row")?,
            staging: Staging::new(device, upload_bytes(spec, largest))?,
            staged: None,
        })
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.spec.height * self.spec.width * self.dtype.size()
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
        view: &DepthView<'_>,
        row: RowPlace<'_>,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        self.staging.wait()?;
        self.restage(view)?;
        self.start(row, stream)
    }

    /// Notes that the caller has waited for the stream of the last image.
    pub fn settled(&mut self) {
        self.staging.settled();
    }

    /// The first part of [`DepthEncoder::encode`], after [`DepthEncoder::settled`]: takes the bytes of
    /// the lines that are read, without the padding between them. Makes no call of the driver.
    ///
    /// # Errors
    /// As [`DepthEncoder::encode`].
    pub fn restage(&mut self, view: &DepthView<'_>) -> Result<(), DeviceError> {
        let placement = self.spec.placement(view.width, view.height);
        let [source_columns, source_lines] = placement.source;
        let [columns, rows] = placement.target;
        // Of more lines than the row has, those that it shows: each is then its own nearest line.
        let lines = source_lines.len().min(rows.len());
        let len = view.width * view.element.size();
        let line = |y: usize| &view.data[y * view.step..y * view.step + len];
        self.staging.fill(nearest(source_lines, lines).map(line))?;
        self.staged = Some(Row {
            image: self.staging.address(),
            row: 0,
            unit_m: self.spec.unit_m.to_bits(),
            image_width: view.width as u32,
            first_column: source_columns.start as u32,
            columns: source_columns.len() as u32,
            lines: lines as u32,
            width: self.spec.width as u32,
            height: self.spec.height as u32,
            left: columns.start as u32,
            right: columns.end as u32,
            top: rows.start as u32,
            bottom: rows.end as u32,
            min_m: self.spec.min_m.to_bits(),
            max_m: self.spec.max_m.to_bits(),
            fill_m: self.spec.fill_m.to_bits(),
            element: view.element as u32,
            big_endian: u32::from(view.big_endian),
            dtype: self.dtype as u32,
        });
        Ok(())
    }

    /// The second part of [`DepthEncoder::encode`], for the image that was staged last.
    ///
    /// # Panics
    /// When none was staged, or the row is not inside `rows`.
    pub fn start(&mut self, row: RowPlace<'_>, stream: &Stream) -> Result<(), DeviceError> {
        let RowPlace { rows, at } = row;
        let staged = self.staged.expect("depth: expected an image that was staged");
        let end = at.checked_add(self.row_bytes());
        assert!(end.is_some_and(|end| end <= rows.len()), "depth: the row is not inside");
        self.staging.send(stream)?;
        let job = Row { row: rows.address() + at as u64, ..staged };
        let blocks = (u64::from(job.width) * u64::from(job.height)).div_ceil(u64::from(THREADS));
        let launch = Launch { blocks: blocks as u32, threads: THREADS, shared: 0 };
        // SAFETY: the parameter is that of the kernel. The upload holds all lines that it names, each
        // `image_width` pixels long; the row is inside `rows`. Both wait for the device before they
        // go.
        unsafe { self.kernel.launch_job(stream, launch, &job) }
    }
}
