//! `sensor_msgs/msg/Image`.

use super::depth_image::DepthInput;
use super::{Content, Input, MessageType, Sink, header};
use crate::cdr::Reader;
use crate::codec::{PixelFormat, RawImage, depth};
use crate::rejected::{DropReason, Rejected};
use crate::sample::{Header, Sample};
use crate::spec::Selection;
use robocache_ops::image::ImageView;

/// See [the message](self).
pub(super) const TYPE: MessageType = MessageType {
    name: "sensor_msgs/msg/Image",
    content: Content::Image,
    open: |selection| match selection {
        Selection::Image { largest_px, encoding_8uc } => Some(Box::new(ImageInput {
            largest_px: *largest_px,
            encoding_8uc: *encoding_8uc,
            pixels: Vec::new(),
        })),
        Selection::Depth { largest_px } => Some(Box::new(DepthInput { largest_px: *largest_px })),
        _ => None,
    },
};

struct ImageInput {
    /// Greatest width and height \[px\].
    largest_px: [usize; 2],
    /// Meaning of `8UC1`, `8UC3` or `8UC4`.
    encoding_8uc: Option<PixelFormat>,
    /// The pixels of one image, if those of the message must be converted.
    pixels: Vec<u8>,
}

impl Input for ImageInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let Some(sink) = sink.admit(&header(&mut reader)?) else { return Ok(()) };
        let Fields { encoding, image } = fields(&mut reader)?;
        let ImageInput { encoding_8uc, largest_px, pixels, .. } = self;
        sink.sample(0, Sample::Image(view(encoding, &image, *encoding_8uc, *largest_px, pixels)?));
        Ok(())
    }
}

/// Reads a `sensor_msgs/msg/Image`: a picture in the message itself, or converted into `pixels`, whose
/// memory is used again. `encoding_8uc` is what `8UC1`, `8UC3` or `8UC4` means; `largest` is the greatest
/// width and height \[px\]. `is_bigendian` says nothing about elements of one byte. Bytes after the last
/// line are ignored.
///
/// # Errors
/// - `Unsupported`: another encoding.
/// - `TooLarge`: more pixels than `largest`.
/// - `Malformed`: the message ends early, the image has no pixels, `step` is shorter than a line,
///   or there is less data than `height * step`.
pub fn decode<'a>(
    message: &'a [u8],
    encoding_8uc: Option<PixelFormat>,
    largest: [usize; 2],
    pixels: &'a mut Vec<u8>,
) -> Result<(Header<'a>, ImageView<'a>), Rejected> {
    let mut reader = Reader::new(message)?;
    let header = header(&mut reader)?;
    let Fields { encoding, image } = fields(&mut reader)?;
    Ok((header, view(encoding, &image, encoding_8uc, largest, pixels)?))
}

/// The picture of an image in this encoding. The rest is as for [`decode`].
pub(crate) fn view<'a>(
    encoding: &[u8],
    image: &RawImage<'a>,
    encoding_8uc: Option<PixelFormat>,
    largest: [usize; 2],
    pixels: &'a mut Vec<u8>,
) -> Result<ImageView<'a>, Rejected> {
    format_of(encoding, encoding_8uc)?.picture(image, largest, pixels)
}

/// Pixel format of an encoding in a message. Names such as `8UC1` give the layout of the bytes but not their
/// meaning: that is `encoding_8uc`.
fn format_of(name: &[u8], encoding_8uc: Option<PixelFormat>) -> Result<PixelFormat, Rejected> {
    let untyped = |of: &PixelFormat| of.untyped_name().is_some_and(|own| own.as_bytes() == name);
    let found = PixelFormat::of(name).or(encoding_8uc.filter(untyped));
    found.ok_or_else(|| {
        let names: Vec<_> = PixelFormat::all().map(PixelFormat::name).collect();
        let hint = match name {
            b"8UC1" | b"8UC3" | b"8UC4" => "image.encoding_8uc can say what its channels are",
            _ if depth::element_of(name).is_some() => "image.depth takes it",
            _ => "",
        };
        unsupported(&names, name, hint)
    })
}

/// The fields of a message behind its header.
pub(crate) struct Fields<'a> {
    pub encoding: &'a [u8],
    pub image: RawImage<'a>,
}

/// The drop of an image of another encoding than `names`.
pub(super) fn unsupported(names: &[&str], found: &[u8], hint: &str) -> Rejected {
    let names = names.join(", ");
    // The name of an encoding is short, but a message may hold any text.
    let found = String::from_utf8_lossy(&found[..found.len().min(32)]);
    let hint = if hint.is_empty() { String::new() } else { format!(" ({hint})") };
    let detail = format!("encoding: expected one of {names}, found {found:?}{hint}");
    Rejected::new(DropReason::Unsupported, detail)
}

/// Reads the fields of a message behind its header.
pub(super) fn fields<'a>(reader: &mut Reader<'a>) -> Result<Fields<'a>, Rejected> {
    let height = reader.u32()? as usize;
    let width = reader.u32()? as usize;
    let encoding = reader.string_bytes()?;
    let big_endian = reader.u8()? != 0;
    let step = reader.u32()? as usize;
    let data = reader.bytes()?;
    let image = RawImage { size: [width, height], big_endian, step, data };
    Ok(Fields { encoding, image })
}

#[cfg(test)]
mod tests;
