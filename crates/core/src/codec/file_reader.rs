//! Compressed images on their way to a GPU: compressed data if the GPU can make the pixels of them, or else pixels.

use super::{ScanReader, decode_compressed};
use crate::rejected::Rejected;
use crate::sample::{CompressedImage, Sample};

/// Reads compressed images one after the other; its memory is used again.
#[derive(Default)]
pub struct FileReader {
    scans: ScanReader,
    pixels: Vec<u8>,
}

impl FileReader {
    /// Returns the image with its scan, or its pixels if a core must decode it.
    ///
    /// # Errors
    /// Those of [`decode_compressed`].
    pub fn read<'a>(&'a mut self, image: &CompressedImage<'a>) -> Result<Sample<'a>, Rejected> {
        let FileReader { scans, pixels } = self;
        let read = scans.read(image.file, image.size);
        // The table that undistorts the image was checked for this size.
        if let Some(read) = read.filter(|read| [read.width, read.height] == image.size) {
            return Ok(Sample::Compressed(CompressedImage { scan: Some(read), ..*image }));
        }
        decode_compressed(image, pixels).map(Sample::Image)
    }
}
