//! Images undistorted on the device: `kernels/image/remap.cu`, the twin of [`super::remap`].

use std::sync::Arc;

use super::cuda::DeviceImage;
use super::memory::{FRACTION_BYTES, POINT_BYTES, REMAPPED_BYTES, remap_pixels};
use super::remap::{Remap, remapped};
use super::spec::ImageSpec;
use crate::device::shared::image::{Remap as Job, THREADS};
use crate::device::{Device, DeviceBuffer, DeviceError, Kernel, Launch, Stream, bytes_of};

/// Undistorts the images of one encoder. All of its memory is reserved at the start.
pub(super) struct Undistorter {
    kernel: Kernel,
    points: DeviceBuffer,
    fractions: DeviceBuffer,
    result: DeviceBuffer,
    /// The table on the device.
    table: Option<Arc<Remap>>,
}

impl Undistorter {
    /// For images of at most `largest` (width, height) pixels.
    pub(super) fn new(
        device: &Arc<Device>,
        spec: &ImageSpec,
        largest: [usize; 2],
    ) -> Result<Self, DeviceError> {
        let pixels = remap_pixels(spec, largest);
        Ok(Undistorter {
            kernel: device.kernel("image_remap")?,
            points: DeviceBuffer::new(device, POINT_BYTES * pixels)?,
            fractions: DeviceBuffer::new(device, FRACTION_BYTES * pixels)?,
            result: DeviceBuffer::new(device, REMAPPED_BYTES * pixels)?,
            table: None,
        })
    }

    /// Puts on `stream` what undistorts an image. Returns the result, as if all of it were there: only the
    /// part of the table is.
    ///
    /// # Errors
    /// Those of the device, also if the table is for larger images.
    ///
    /// # Safety
    /// Until the launch is done, the lines that the table reads are valid on the device. All launches of
    /// this are on one stream, with those that read the result.
    pub(super) unsafe fn run(
        &mut self,
        image: &DeviceImage,
        table: &Arc<Remap>,
        stream: &Stream,
    ) -> Result<DeviceImage, DeviceError> {
        let DeviceImage { width, height, .. } = *image;
        let failed = |detail| Err(DeviceError::Failed { operation: "undistort an image", detail });
        if table.source() != [width, height] {
            let [w, h] = table.source();
            return failed(format!(
                "expected {w}x{h} px, for which the table is, found {width}x{height}"
            ));
        }
        let count = table.points().len();
        let most = self.points.len() / POINT_BYTES;
        if count > most {
            return failed(format!("expected a table of at most {most} px, found {count}"));
        }
        self.upload(table, stream)?;
        let encoding = remapped(image.encoding);
        let channels = encoding.bytes_per_pixel();
        let job = Job {
            image: image.address,
            step: image.step as u64,
            points: self.points.address(),
            fractions: self.fractions.address(),
            out: self.result.address(),
            count: count as u32,
            image_width: width as u32,
            image_height: height as u32,
            bytes: image.encoding.bytes_per_pixel() as u32,
            channels: channels as u32,
            reserved: 0,
        };
        let blocks = (count as u32).div_ceil(THREADS);
        // SAFETY: the parameter is that of the kernel. It names the image, for which the caller answers, and
        // buffers of this with room for `count` pixels, which wait for the device before they go.
        unsafe {
            self.kernel.launch_job(stream, Launch { blocks, threads: THREADS, shared: 0 }, &job)?;
        }
        let [columns, lines] = table.part();
        let step = columns.len() * channels;
        // No kernel uses an address before the result.
        let left_out = (lines.start * step + columns.start * channels) as u64;
        let address = self.result.address().wrapping_sub(left_out);
        Ok(DeviceImage { address, encoding, width, height, step })
    }

    /// Makes the table the one on the device. That happens once per table.
    fn upload(&mut self, table: &Arc<Remap>, stream: &Stream) -> Result<(), DeviceError> {
        if self.table.as_ref().is_some_and(|known| Arc::ptr_eq(known, table)) {
            return Ok(());
        }
        // The image before may still be read through the old one.
        self.table = None;
        stream.synchronize("change the table of an image")?;
        self.points.write(bytes_of(table.points()))?;
        self.fractions.write(bytes_of(table.fractions()))?;
        self.table = Some(Arc::clone(table));
        Ok(())
    }
}
