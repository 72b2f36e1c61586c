//! JPEG images into pixels on the device: `kernels/image/jpeg_scan.cu` and `jpeg.cu`.

use std::sync::Arc;

use super::cuda::DeviceImage;
use super::jpeg::{BLOCK, Scan};
use super::memory::{jpeg_blocks, jpeg_entries, jpeg_pieces, jpeg_samples, jpeg_step};
use super::spec::Encoding;
use crate::device::shared::image::{
    JOIN_THREADS, JPEG_LANES, JpegBase, JpegBlocks, JpegPiece, JpegPixels, JpegScan, JpegTable,
    SCAN_THREADS, SEQUENCE, THREADS,
};
use crate::device::{
    Device, DeviceBuffer, DeviceError, Kernel, Launch, PinnedBuffer, Stream, bytes_of,
};

/// Blocks of coefficients per thread block.
const BLOCKS: u32 = THREADS / JPEG_LANES;

/// Makes the pixels of one encoder's JPEG images. All of its memory is reserved at the start.
pub(super) struct JpegPixelMaker {
    largest: [usize; 2],
    /// Kernels that read the compressed data: `sync`, `join`, `entries`.
    scans: [Kernel; 3],
    blocks: Kernel,
    pixels: Kernel,
    samples: DeviceBuffer,
    result: DeviceBuffer,
    pieces: DeviceBuffer,
    bases: DeviceBuffer,
    entered: DeviceBuffer,
    block_starts: DeviceBuffer,
    entries: DeviceBuffer,
    refused: DeviceBuffer,
    /// Word that the device writes: 0 unless the last image was refused.
    report: PinnedBuffer,
}

/// A [`Scan`] in an upload: the numbers that the launches need of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct UploadedJpeg {
    /// Address of the scan's [`parts`] on the device.
    address: u64,
    /// How its pixels are named: gray has only one way.
    encoding: Encoding,
    size: [usize; 2],
    components: usize,
    sampling: [usize; 2],
    units: [usize; 2],
    luma_blocks: usize,
    unit_blocks: usize,
    part_units: usize,
    pieces: usize,
    tables: usize,
}

/// The parts of an upload of a scan, in their order.
pub(super) fn parts(of: &Scan) -> [&[u8]; 4] {
    [of.quantisers.as_flattened(), bytes_of(&of.tables), bytes_of(&of.starts), &of.bytes]
}

impl UploadedJpeg {
    /// The scan whose [`parts`] are at an address.
    pub(super) fn new(of: &Scan, encoding: Encoding, address: u64) -> Self {
        UploadedJpeg {
            address,
            encoding,
            size: [of.width, of.height],
            components: of.components,
            sampling: of.sampling,
            units: of.units(),
            luma_blocks: of.luma_blocks(),
            unit_blocks: of.unit_blocks(),
            part_units: of.part_units,
            pieces: of.pieces(),
            tables: of.tables.len(),
        }
    }

    pub(super) fn size(&self) -> (usize, usize) {
        self.size.into()
    }
}

impl JpegPixelMaker {
    /// For images of at most `largest` (width, height) pixels.
    pub(super) fn new(device: &Arc<Device>, largest: [usize; 2]) -> Result<Self, DeviceError> {
        let reserve = |bytes: usize| DeviceBuffer::new(device, bytes);
        Ok(JpegPixelMaker {
            largest,
            scans: [
                device.kernel("image_jpeg_sync")?,
                device.kernel("image_jpeg_join")?,
                device.kernel("image_jpeg_entries")?,
            ],
            blocks: device.kernel("image_jpeg_blocks")?,
            pixels: device.kernel("image_jpeg_pixels")?,
            samples: reserve(jpeg_samples(largest))?,
            result: reserve(jpeg_step(largest[0]) * largest[1])?,
            pieces: reserve(jpeg_pieces(largest) * size_of::<JpegPiece>())?,
            bases: reserve(jpeg_pieces(largest) * size_of::<JpegBase>())?,
            entered: reserve(2 * JOIN_THREADS as usize * size_of::<u32>())?,
            block_starts: reserve((jpeg_blocks(largest) + 1) * size_of::<u32>())?,
            entries: reserve(jpeg_entries(largest) * size_of::<u16>())?,
            refused: reserve(size_of::<u32>())?,
            report: PinnedBuffer::new(device, size_of::<u32>())?,
        })
    }

    /// True if there is memory for an image, and the kernels can read it: they compare none of its numbers.
    pub(super) fn fits(&self, of: &Scan) -> bool {
        of.width <= self.largest[0]
            && of.height <= self.largest[1]
            && of.pieces() <= jpeg_pieces(self.largest)
            && of.is_whole()
    }

    /// Forgets whether the last image was refused. The caller has waited for it.
    pub(super) fn forget(&mut self) {
        self.report.fill(0);
    }

    /// True if a core must decode the last image. The caller has waited for it.
    pub(super) fn refused(&self) -> bool {
        self.report.iter().any(|byte| *byte != 0)
    }

    /// Puts on `stream` what makes the pixels of an image that [`JpegPixelMaker::fits`].
    ///
    /// # Safety
    /// Until the launch is done, the upload is valid on the device: the [`parts`] of a scan that the codec has
    /// read. All launches of this are on one stream, with those that read the result.
    pub(super) unsafe fn run(
        &self,
        of: &UploadedJpeg,
        stream: &Stream,
    ) -> Result<DeviceImage, DeviceError> {
        // SAFETY: the caller promises the same.
        unsafe { self.read(of, stream)? };
        let UploadedJpeg { address, encoding, size: [width, height], components, .. } = *of;
        let ([across, down], [units_across, units_down]) = (of.sampling, of.units);
        let luma_stride = 8 * units_across * across;
        let chroma_stride = 8 * units_across;
        let luma_len = luma_stride * 8 * units_down * down;
        let chroma_len = chroma_stride * 8 * units_down;
        let luma = self.samples.address();
        let blue = luma + luma_len as u64;
        let planes = [luma, blue, blue + chroma_len as u64];
        let job = JpegBlocks {
            blocks: self.block_starts.address(),
            entries: self.entries.address(),
            quantisers: address,
            planes,
            refused: self.refused.address(),
            report: self.report.address(),
            count: (units_across * units_down * of.unit_blocks) as u32,
            unit_blocks: of.unit_blocks as u32,
            across: across as u32,
            down: down as u32,
            units_across: units_across as u32,
            reserved: 0,
        };
        let launch = |blocks: u32| Launch { blocks, threads: THREADS, shared: 0 };
        // SAFETY: the parameter is that of the kernel. The caller answers for the upload; the samples of an image that
        // fits have room in the buffer, which waits for the device before it goes.
        unsafe { self.blocks.follow_job(stream, launch(job.count.div_ceil(BLOCKS)), &job)? };
        if components == 1 {
            let address = luma;
            let encoding = Encoding::Mono8;
            let step = luma_stride;
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

    /// Puts on `stream` what reads the compressed data.
    ///
    /// # Safety
    /// As for [`JpegPixelMaker::run`].
    unsafe fn read(&self, of: &UploadedJpeg, stream: &Stream) -> Result<(), DeviceError> {
        let units = of.units[0] * of.units[1];
        let tables = of.address + (3 * BLOCK) as u64;
        let starts = tables + (of.tables * size_of::<JpegTable>()) as u64;
        let job = JpegScan {
            words: starts + ((of.pieces + 1) * size_of::<u32>()) as u64,
            starts,
            tables,
            pieces: self.pieces.address(),
            bases: self.bases.address(),
            entered: self.entered.address(),
            blocks: self.block_starts.address(),
            entries: self.entries.address(),
            refused: self.refused.address(),
            report: self.report.address(),
            count: of.pieces as u32,
            most_entries: jpeg_entries(self.largest) as u32,
            all_blocks: (units * of.unit_blocks) as u32,
            part_blocks: (of.part_units.min(units) * of.unit_blocks) as u32,
            unit_blocks: of.unit_blocks as u32,
            luma_blocks: of.luma_blocks as u32,
            table_count: of.tables as u32,
            reserved: 0,
        };
        let [sync, join, entries] = &self.scans;
        let all = |pieces| {
            let blocks = job.count.div_ceil(pieces);
            Launch { blocks, threads: SCAN_THREADS, shared: 0 }
        };
        let one = Launch { blocks: 1, threads: JOIN_THREADS, shared: 0 };
        // SAFETY: the parameter is that of the kernels. The caller answers for the upload. What the kernels write has room
        // in the buffers, which wait for the device before they go: the number of pieces and blocks was compared before,
        // and `join` compares the number of entries.
        unsafe {
            sync.launch_job(stream, all(SEQUENCE), &job)?;
            join.follow_job(stream, one, &job)?;
            entries.follow_job(stream, all(SCAN_THREADS), &job)
        }
    }
}
