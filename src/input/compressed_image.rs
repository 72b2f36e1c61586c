//! `sensor_msgs/msg/CompressedImage`: JPEG and PNG.

use super::{Content, Header, Input, MessageType, Sample, Sink, header};
use crate::cdr::Reader;
use crate::codec::{self, yuv::Yuv};
use crate::ops::image::Encoding;
use crate::pipeline::{DropReason, Rejected};
use crate::spec::Selection;

/// See [the message](self).
pub(super) const TYPE: MessageType = MessageType {
    name: "sensor_msgs/msg/CompressedImage",
    content: Content::Image,
    open: |selection| match selection {
        Selection::Image { largest_px } => {
            Some(Box::new(CompressedImageInput { largest_px: *largest_px, pixels: Vec::new() }))
        }
        _ => None,
    },
};

struct CompressedImageInput {
    /// Greatest width and height \[px\].
    largest_px: [usize; 2],
    /// The pixels of one image.
    pixels: Vec<u8>,
}

/// compressed_image_transport writes the encoding of the pixels in front of a semicolon. Returns it if a
/// file of such pixels is no picture: a Bayer mosaic would decode as a gray image.
fn unknown_pixels(format: &[u8]) -> Option<String> {
    let (pixels, _) = format.split_at(format.iter().position(|byte| *byte == b';')?);
    let is = |name: &str| pixels.trim_ascii() == name.as_bytes();
    let known = Encoding::ALL.iter().any(|encoding| is(encoding.name()))
        || Yuv::ALL.iter().any(|yuv| is(yuv.name()))
        || pixels.trim_ascii().is_empty();
    (!known).then(|| String::from_utf8_lossy(&pixels[..pixels.len().min(32)]).into_owned())
}

impl Input for CompressedImageInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let header: Header<'_> = header(&mut reader)?;
        let format = reader.string_bytes()?;
        let file = reader.bytes()?;
        let has = |words: &[u8]| format.windows(words.len()).any(|part| part == words);
        if has(b"compressedDepth") {
            let detail = "format: expected jpeg or png, found compressedDepth";
            return Err(Rejected::new(DropReason::Unsupported, detail.to_owned()));
        }
        if let Some(pixels) = unknown_pixels(format) {
            let detail = format!("format: expected the encoding of an image, found {pixels:?}");
            return Err(Rejected::new(DropReason::Unsupported, detail));
        }
        let mut view = codec::decode(file, self.largest_px, &mut self.pixels)?;
        // compressed_image_transport may encode RGB pixels as if they were BGR, and says so: then
        // red and blue of the file have changed places.
        if has(b"compressed rgb") {
            view.encoding = match view.encoding {
                Encoding::Rgb8 => Encoding::Bgr8,
                Encoding::Rgba8 => Encoding::Bgra8,
                other => other,
            };
        }
        sink.sample(0, &header, Sample::Image(view));
        Ok(())
    }
}
