//! Rows of images of bytes as JPEG files, and back: what a store keeps of a camera if a user accepts a loss.
//!
//! The files are those of libjpeg-turbo with fixed settings: all components in one scan, the usual tables of Huffman and
//! of the quality, and as many samples of colour as of luma. From quality 24 on they are baseline. So the bytes follow
//! from the row and the quality alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mozjpeg::{ColorSpace, Compress};
use serde::{Deserialize, Serialize};

use super::jpeg::{self, Stopped};
use super::{JPEG, jpeg_parts};
use robocache_ops::dtype::DType;
use robocache_ops::image::{Color, ImageLayout, ImageSpec};

/// An image row of bytes, `[channels, height, width]` or `[height, width, channels]`, as a JPEG file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JpegRow {
    /// libjpeg's quality, 1 to 100.
    pub quality: u8,
    /// Width \[px\].
    pub width: usize,
    /// Height \[px\].
    pub height: usize,
    /// The channels of the row. A file has red first, or luma alone.
    pub color: Color,
    /// The order of the row's dimensions.
    pub layout: ImageLayout,
}

impl JpegRow {
    /// How the rows of images are stored; `None` if their elements are no bytes.
    pub fn of(image: &ImageSpec, dtype: DType, quality: u8) -> Option<Self> {
        let last = image.last();
        let width = last.width;
        let height = last.height;
        let row = JpegRow { quality, width, height, color: image.color, layout: image.layout };
        (dtype == DType::U8).then_some(row)
    }

    /// Bytes of a row.
    pub const fn row_bytes(&self) -> usize {
        self.width * self.height * self.color.channels()
    }

    /// Writes a row as a file. `pixels` and `file` are replaced; their memory is used again.
    ///
    /// # Errors
    /// The row has another size, or libjpeg does not take it: in words.
    pub fn encode(
        &self,
        row: &[u8],
        pixels: &mut Vec<u8>,
        file: &mut Vec<u8>,
    ) -> Result<(), String> {
        if row.len() != self.row_bytes() {
            return Err(format!("expected {} bytes, found {}", self.row_bytes(), row.len()));
        }
        pixels.resize(row.len(), 0);
        self.pixels_of(row, pixels);
        file.clear();
        let written = catch_unwind(AssertUnwindSafe(|| self.write(pixels, file)));
        written.unwrap_or_else(|payload| {
            Err(match payload.downcast_ref() {
                Some(Stopped(code)) => format!("libjpeg's message {code}"),
                None => "a failure of the JPEG encoder".to_owned(),
            })
        })
    }

    fn write(&self, pixels: &[u8], file: &mut Vec<u8>) -> Result<(), String> {
        let space = match self.color {
            Color::Rgb | Color::Bgr => ColorSpace::JCS_RGB,
            Color::Mono => ColorSpace::JCS_GRAYSCALE,
        };
        let mut jpeg = Compress::new_err(Box::new(jpeg::errors()), space);
        jpeg.set_size(self.width, self.height);
        // The crate's own settings search for the smallest file, which takes ten times as long.
        jpeg.set_fastest_defaults();
        jpeg.set_quality(f32::from(self.quality));
        jpeg.set_chroma_sampling_pixel_sizes((1, 1), (1, 1));
        let written = jpeg.start_compress(file).and_then(|mut started| {
            started.write_scanlines(pixels)?;
            started.finish()
        });
        written.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Makes a row of a file. `row` has its size; the memory of `pixels` is used again.
    ///
    /// # Errors
    /// The file is damaged, or not the image that is expected: in words.
    pub fn decode(&self, file: &[u8], pixels: &mut Vec<u8>, row: &mut [u8]) -> Result<(), String> {
        let Self { width, height, color, .. } = *self;
        let expected = format!("a JPEG file of {width}x{height} pixels");
        let found = if file.starts_with(&JPEG) { jpeg_parts::size(file) } else { None };
        match found {
            Some(found) if found == [width, height] => {}
            Some([w, h]) => return Err(format!("expected {expected}, found {w}x{h}")),
            None => return Err(format!("expected {expected}, found other bytes")),
        }
        let decoded = jpeg::decode(file, [width, height], pixels).map_err(|wrong| wrong.detail)?;
        let expected = color.channels();
        let found = decoded.encoding.bytes_per_pixel();
        if (decoded.width, decoded.height) != (width, height) || found != expected {
            return Err(format!("expected {expected} channels, found {found}"));
        }
        self.row_of(pixels, row);
        Ok(())
    }

    /// The lines of pixels of a row, red first.
    fn pixels_of(&self, row: &[u8], pixels: &mut [u8]) {
        match (self.layout, self.color) {
            (_, Color::Mono) | (ImageLayout::Hwc, Color::Rgb) => pixels.copy_from_slice(row),
            (ImageLayout::Hwc, Color::Bgr) => swap(row, pixels),
            (ImageLayout::Chw, _) => {
                let [red, green, blue] = self.planes().map(|at| &row[at..]);
                let pixels = pixels.as_chunks_mut::<3>().0.iter_mut();
                for (pixel, ((red, green), blue)) in pixels.zip(red.iter().zip(green).zip(blue)) {
                    *pixel = [*red, *green, *blue];
                }
            }
        }
    }

    /// The row of lines of pixels.
    fn row_of(&self, pixels: &[u8], row: &mut [u8]) {
        match (self.layout, self.color) {
            (_, Color::Mono) | (ImageLayout::Hwc, Color::Rgb) => row.copy_from_slice(pixels),
            (ImageLayout::Hwc, Color::Bgr) => swap(pixels, row),
            (ImageLayout::Chw, _) => {
                let plane = self.width * self.height;
                for (channel, at) in self.planes().into_iter().enumerate() {
                    let pixels = pixels.as_chunks::<3>().0.iter();
                    for (value, pixel) in row[at..at + plane].iter_mut().zip(pixels) {
                        *value = pixel[channel];
                    }
                }
            }
        }
    }

    /// Offsets of the planes of red, green and blue in a row.
    const fn planes(&self) -> [usize; 3] {
        let plane = self.width * self.height;
        match self.color {
            Color::Bgr => [2 * plane, plane, 0],
            Color::Rgb | Color::Mono => [0, plane, 2 * plane],
        }
    }
}

/// Copies pixels with their first and last channel exchanged.
fn swap(from: &[u8], to: &mut [u8]) {
    for (to, from) in to.as_chunks_mut::<3>().0.iter_mut().zip(from.as_chunks::<3>().0) {
        *to = [from[2], from[1], from[0]];
    }
}

#[cfg(test)]
mod tests;
