//! `sensor_msgs/msg/CompressedImage`: JPEG, PNG and compressed depth.

use super::{Content, Input, MessageType, Sink, header};
use crate::cdr::Reader;
use crate::codec::{self, CoefficientReader, PixelFormat};
use crate::rejected::{DropReason, Rejected};
use crate::sample::{Header, JpegView, Sample};
use crate::spec::Selection;
use robocache_ops::image::jpeg::Coefficients;
use robocache_ops::image::{Encoding, ImageView};

/// See [the message](self).
pub(super) const TYPE: MessageType = MessageType {
    name: "sensor_msgs/msg/CompressedImage",
    content: Content::Image,
    open: |selection| match selection {
        Selection::Image { largest_px, .. } => Some(Box::new(CompressedImageInput {
            largest_px: *largest_px,
            pixels: Vec::new(),
            coefficients: CoefficientReader::default(),
        })),
        Selection::Depth { largest_px } => {
            Some(Box::new(CompressedDepthInput { largest_px: *largest_px, pixels: Vec::new() }))
        }
        _ => None,
    },
};

struct CompressedImageInput {
    /// Greatest width and height \[px\].
    largest_px: [usize; 2],
    /// The pixels of one image.
    pixels: Vec<u8>,
    coefficients: CoefficientReader,
}

/// The encoding of the pixels, which compressed_image_transport writes in front of a semicolon.
fn pixels_of(format: &[u8]) -> Option<&[u8]> {
    let (pixels, _) = format.split_at(format.iter().position(|byte| *byte == b';')?);
    Some(pixels.trim_ascii()).filter(|pixels| !pixels.is_empty())
}

/// Whether a file of such pixels is a picture: a Bayer mosaic would decode as a gray image. Colours of 16
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

/// Whether a message of this format holds a picture, if its file is JPEG, or PNG if `is_png`.
pub fn is_compressed_picture(format: &[u8], is_png: bool) -> bool {
    pixels_of(format).is_none_or(|pixels| is_picture(pixels, is_png))
}

/// Reads the fields of a message: `format` and `data`.
fn fields(message: &[u8]) -> Result<(Header<'_>, &[u8], &[u8]), Rejected> {
    let mut reader = Reader::new(message)?;
    Ok((header(&mut reader)?, reader.string_bytes()?, reader.bytes()?))
}

/// Reads compressed depth images of at most this width and height \[px\].
struct CompressedDepthInput {
    largest_px: [usize; 2],
    /// The pixels of one image.
    pixels: Vec<u8>,
}

impl Input for CompressedDepthInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let (header, format, data) = fields(message)?;
        let view = codec::depth::decode(format, data, self.largest_px, &mut self.pixels)?;
        sink.sample(0, &header, Sample::Depth(view));
        Ok(())
    }
}

impl Input for CompressedImageInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let (header, format, file) = fields(message)?;
        let has = |words: &[u8]| format.windows(words.len()).any(|part| part == words);
        if has(b"compressedDepth") {
            let detail =
                "format: expected jpeg or png, found compressedDepth (image.depth takes it)";
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
        if sink.takes_coefficients(0)
            && let Some(jpeg) = self.coefficients.read(file, self.largest_px)
        {
            let jpeg = jpeg_view(file, jpeg, is_swapped);
            sink.sample(0, &header, Sample::Jpeg(jpeg));
            return Ok(());
        }
        let mut view = match pixels {
            // As JPEG they have 8 bits already.
            Some(b"mono16") if codec::is_png(file) => {
                codec::decode_mono16(file, self.largest_px, &mut self.pixels)?
            }
            _ => codec::decode(file, self.largest_px, &mut self.pixels)?,
        };
        if is_swapped {
            view.encoding = swapped(view.encoding);
        }
        sink.sample(0, &header, Sample::Image(view));
        Ok(())
    }
}

fn jpeg_view<'a>(file: &'a [u8], coefficients: &'a Coefficients, is_swapped: bool) -> JpegView<'a> {
    let Coefficients { width, height, components, .. } = *coefficients;
    let encoding = match components {
        1 => Encoding::Mono8,
        _ if is_swapped => swapped(Encoding::Rgb8),
        _ => Encoding::Rgb8,
    };
    let step = width * encoding.bytes_per_pixel();
    let image = ImageView { encoding, width, height, step, data: &[], remap: None };
    JpegView { image, file, coefficients }
}

/// The encoding if red and blue have changed places.
fn swapped(encoding: Encoding) -> Encoding {
    match encoding {
        Encoding::Rgb8 => Encoding::Bgr8,
        Encoding::Rgba8 => Encoding::Bgra8,
        other => other,
    }
}
