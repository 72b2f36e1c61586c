//! `sensor_msgs/msg/CompressedImage`: JPEG, PNG and compressed depth.

use super::{Content, Input, MessageType, Sink, header};
use crate::cdr::Reader;
use crate::codec::{self, PixelFormat};
use crate::rejected::{DropReason, Rejected};
use crate::sample::{CompressedImage, Sample};
use crate::spec::Selection;

/// See [the message](self).
pub(super) const TYPE: MessageType = MessageType {
    name: "sensor_msgs/msg/CompressedImage",
    content: Content::Image,
    open: |selection| match selection {
        Selection::Image { largest_px, .. } => {
            Some(Box::new(CompressedImageInput { largest_px: *largest_px }))
        }
        Selection::Depth { largest_px } => {
            Some(Box::new(CompressedDepthInput { largest_px: *largest_px, pixels: Vec::new() }))
        }
        _ => None,
    },
};

struct CompressedImageInput {
    /// Greatest width and height \[px\].
    largest_px: [usize; 2],
}

/// The encoding of the pixels, which compressed_image_transport writes in front of a semicolon.
fn pixels_of(format: &[u8]) -> Option<&[u8]> {
    let (pixels, _) = format.split_at(format.iter().position(|byte| *byte == b';')?);
    Some(pixels.trim_ascii()).filter(|pixels| !pixels.is_empty())
}

/// True if a file of such pixels is a picture: a Bayer mosaic would decode as a gray image. Colours of 16
/// bits are one as PNG: the encoder of a JPEG file clips them to 8 bits.
fn is_picture(pixels: &[u8], is_png: bool) -> bool {
    match pixels {
        b"rgb16" | b"bgr16" | b"rgba16" | b"bgra16" => is_png,
        _ => !matches!(
            PixelFormat::of(pixels),
            None | Some(PixelFormat::Bayer(_) | PixelFormat::Bayer16(_))
        ),
    }
}

/// True if a message of this format holds a picture, if its file is JPEG, or PNG if `is_png`.
pub fn is_compressed_picture(format: &[u8], is_png: bool) -> bool {
    pixels_of(format).is_none_or(|pixels| is_picture(pixels, is_png))
}

/// Reads compressed depth images of at most this width and height \[px\].
struct CompressedDepthInput {
    largest_px: [usize; 2],
    /// The pixels of one image.
    pixels: Vec<u8>,
}

impl Input for CompressedDepthInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let Some(sink) = sink.admit(&header(&mut reader)?) else { return Ok(()) };
        let format = reader.string_bytes()?;
        let data = reader.bytes()?;
        let view = codec::depth::decode(format, data, self.largest_px, &mut self.pixels)?;
        sink.sample(0, Sample::Depth(view));
        Ok(())
    }
}

impl Input for CompressedImageInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let Some(sink) = sink.admit(&header(&mut reader)?) else { return Ok(()) };
        let format = reader.string_bytes()?;
        let file = reader.bytes()?;
        sink.sample(0, Sample::Compressed(picture(format, file, self.largest_px)?));
        Ok(())
    }
}

/// The picture of a file. `format` is that of a message, `largest_px` the greatest width and height.
pub(super) fn picture<'a>(
    format: &[u8],
    file: &'a [u8],
    largest_px: [usize; 2],
) -> Result<CompressedImage<'a>, Rejected> {
    let has = |words: &[u8]| format.windows(words.len()).any(|part| part == words);
    if has(b"compressedDepth") {
        let detail = "format: expected jpeg or png, found compressedDepth (image.depth takes it)";
        return Err(Rejected::new(DropReason::Unsupported, detail.to_owned()));
    }
    let pixels = pixels_of(format);
    if let Some(pixels) = pixels.filter(|pixels| !is_picture(pixels, codec::is_png(file))) {
        let pixels = String::from_utf8_lossy(&pixels[..pixels.len().min(32)]);
        let detail = format!("format: expected the encoding of an image, found {pixels:?}");
        return Err(Rejected::new(DropReason::Unsupported, detail));
    }
    // compressed_image_transport may encode RGB pixels as if they were BGR, and says so: then
    // red and blue of the file have changed places.
    let is_swapped = has(b"compressed rgb");
    // As JPEG they have 8 bits already.
    let is_mono16 = pixels == Some(b"mono16") && codec::is_png(file);
    let size = codec::size(file)?;
    codec::check_size(size, largest_px)?;
    Ok(CompressedImage { file, size, is_swapped, is_mono16, scan: None })
}
