//! JPEG images into pixels on the device: `kernels/image/jpeg.cu`.

use std::sync::Arc;

use super::cuda::DeviceImage;
use super::jpeg::{self, BLOCK, Coefficients};
use super::memory::{jpeg_samples, jpeg_step};
use super::spec::Encoding;
use crate::device::shared::image::{JPEG_LANES, JpegBlocks, JpegPixels, THREADS, VALUE_BITS};
use crate::device::{Device, DeviceBuffer, DeviceError, Kernel, Launch, Stream, bytes_of};

// The kernels read entries in the same way.
const _: () = assert!(VALUE_BITS == jpeg::VALUE_BITS);

/// Blocks of coefficients per thread block.
const BLOCKS: u32 = THREADS / JPEG_LANES;

/// Makes the pixels of one encoder's JPEG images. All of its memory is reserved at the start.
pub(super) struct JpegPixelMaker {
    largest: [usize; 2],
    blocks: Kernel,
    pixels: Kernel,
    samples: DeviceBuffer,
    result: DeviceBuffer,
}

/// What of [`Coefficients`] the launches need, when the coefficients are in an upload.
#[derive(Clone, Copy, Debug)]
pub(super) struct UploadedJpeg {
    /// Where the upload is.
    address: u64,
    /// How its pixels are named: gray has only one way.
    encoding: Encoding,
    size: [usize; 2],
    components: usize,
    sampling: [usize; 2],
    units: [usize; 2],
    unit_blocks: usize,
}

/// The parts of an upload of coefficients, in their order.
pub(super) fn parts(of: &Coefficients) -> [&[u8]; 3] {
    [of.quantisers.as_flattened(), bytes_of(&of.blocks), bytes_of(of.used())]
}

impl UploadedJpeg {
    /// The coefficients whose [`parts`] are at an address.
    pub(super) fn new(of: &Coefficients, encoding: Encoding, address: u64) -> Self {
        UploadedJpeg {
            address,
            encoding,
            size: [of.width, of.height],
            components: of.components,
            sampling: of.sampling,
            units: of.units(),
            unit_blocks: of.unit_blocks(),
        }
    }

    pub(super) fn size(&self) -> (usize, usize) {
        self.size.into()
    }
}

impl JpegPixelMaker {
    /// For images of at most `largest` (width, height) pixels.
    pub(super) fn new(device: &Arc<Device>, largest: [usize; 2]) -> Result<Self, DeviceError> {
        Ok(JpegPixelMaker {
            largest,
            blocks: device.kernel("image_jpeg_blocks")?,
            pixels: device.kernel("image_jpeg_pixels")?,
            samples: DeviceBuffer::new(device, jpeg_samples(largest))?,
            result: DeviceBuffer::new(device, jpeg_step(largest[0]) * largest[1])?,
        })
    }

    /// Whether there is memory for an image.
    pub(super) fn fits(&self, of: &Coefficients) -> bool {
        of.width <= self.largest[0] && of.height <= self.largest[1]
    }

    /// Puts on `stream` what makes the pixels of an image that [`JpegPixelMaker::fits`].
    ///
    /// # Safety
    /// Until the launch is done, the upload is valid on the device: the [`parts`] of coefficients that the codec has
    /// read. All launches of this are on one stream, with those that read the result.
    pub(super) unsafe fn run(
        &self,
        of: &UploadedJpeg,
        stream: &Stream,
    ) -> Result<DeviceImage, DeviceError> {
        let UploadedJpeg { address, encoding, size: [width, height], components, .. } = *of;
        let ([across, down], [units_across, units_down]) = (of.sampling, of.units);
        let count = units_across * units_down * of.unit_blocks;
        let quantisers_len = 3 * BLOCK;
        let blocks_at = address + quantisers_len as u64;
        let (luma_stride, chroma_stride) = (8 * units_across * across, 8 * units_across);
        let luma_len = luma_stride * 8 * units_down * down;
        let chroma_len = chroma_stride * 8 * units_down;
        let luma = self.samples.address();
        let blue = luma + luma_len as u64;
        let planes = [luma, blue, blue + chroma_len as u64];
        let job = JpegBlocks {
            blocks: blocks_at,
            entries: blocks_at + ((count + 1) * size_of::<u32>()) as u64,
            quantisers: address,
            planes,
            count: count as u32,
            unit_blocks: of.unit_blocks as u32,
            across: across as u32,
            down: down as u32,
            units_across: units_across as u32,
            reserved: 0,
        };
        let launch = |blocks: u32| Launch { blocks, threads: THREADS, shared: 0 };
        // SAFETY: the parameter is that of the kernel. The caller answers for the upload; the samples of an image that
        // fits have room in the buffer, which waits for the device before it goes.
        unsafe { self.blocks.launch_job(stream, launch(job.count.div_ceil(BLOCKS)), &job)? };
        if components == 1 {
            let (address, encoding, step) = (luma, Encoding::Mono8, luma_stride);
            return Ok(DeviceImage { address, encoding, width, height, step });
        }
        let step = jpeg_step(width);
        let job = JpegPixels {
            planes,
            out: self.result.address(),
            step: step as u32,
            width: width as u32,
            height: height as u32,
            luma_stride: luma_stride as u32,
            chroma_stride: chroma_stride as u32,
            chroma_width: width.div_ceil(across) as u32,
            chroma_height: height.div_ceil(down) as u32,
            across: across as u32,
            down: down as u32,
            reserved: 0,
        };
        let fours = (width.div_ceil(4) * height) as u32;
        // SAFETY: as above, for the samples that the first kernel writes and the pixels.
        unsafe { self.pixels.follow_job(stream, launch(fours.div_ceil(THREADS)), &job)? };
        Ok(DeviceImage { address: job.out, encoding, width, height, step })
    }
}
