//! `sensor_msgs/msg/Image`.

use super::depth_image::{self, DepthInput};
use super::{Content, Header, Input, MessageType, Sample, Sink, header};
use crate::cdr::Reader;
use crate::codec::yuv::{self, Yuv, YuvImage};
use crate::ops::image::{Encoding, ImageView, MAX_SIDE};
use crate::pipeline::{DropReason, Rejected};
use crate::spec::Selection;

/// See [the message](self).
pub(super) const TYPE: MessageType = MessageType {
    name: "sensor_msgs/msg/Image",
    content: Content::Image,
    open: |selection| match selection {
        Selection::Image { largest_px } => {
            Some(Box::new(ImageInput { largest_px: *largest_px, pixels: Vec::new() }))
        }
        Selection::Depth { largest_px } => Some(Box::new(DepthInput { largest_px: *largest_px })),
        _ => None,
    },
};

struct ImageInput {
    /// Greatest width and height \[px\].
    largest_px: [usize; 2],
    /// The pixels of one image, if the message has YUV.
    pixels: Vec<u8>,
}

impl Input for ImageInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let (header, message) = fields(message)?;
        let view = match Yuv::ALL.into_iter().find(|yuv| yuv.name().as_bytes() == message.encoding)
        {
            Some(layout) => {
                let Fields { size, step, data, .. } = message;
                let image = YuvImage { layout, size, step, data };
                yuv::to_rgb(&image, self.largest_px, &mut self.pixels)?
            }
            None => view(&message)?,
        };
        sink.sample(0, &header, Sample::Image(view));
        Ok(())
    }
}

/// The fields of a message.
pub(super) struct Fields<'a> {
    /// Width and height \[px\].
    pub size: [usize; 2],
    pub encoding: &'a [u8],
    /// Whether elements of several bytes have the most significant one first.
    pub big_endian: bool,
    pub step: usize,
    pub data: &'a [u8],
}

/// The encoding of a name in a message. Names such as `8UC1` are refused: they give the layout of
/// the bytes but not their meaning.
fn encoding_of(name: &[u8]) -> Result<Encoding, Rejected> {
    Encoding::ALL.into_iter().find(|known| known.name().as_bytes() == name).ok_or_else(|| {
        let names = [&Encoding::ALL.map(Encoding::name)[..], &Yuv::ALL.map(Yuv::name)].concat();
        let depth = depth_image::element_of(name).is_some();
        unsupported(&names, name, if depth { "image.depth takes it" } else { "" })
    })
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

/// Reads the fields of a message.
pub(super) fn fields(message: &[u8]) -> Result<(Header<'_>, Fields<'_>), Rejected> {
    let mut reader = Reader::new(message)?;
    let header = header(&mut reader)?;
    let (height, width) = (reader.u32()? as usize, reader.u32()? as usize);
    let encoding = reader.string_bytes()?;
    let big_endian = reader.u8()? != 0;
    let step = reader.u32()? as usize;
    let data = reader.bytes()?;
    Ok((header, Fields { size: [width, height], encoding, big_endian, step, data }))
}

/// Reads a `sensor_msgs/msg/Image` of pixels. `is_bigendian` is ignored, because elements have one
/// byte. Bytes after the last line are ignored.
///
/// # Errors
/// - `Unsupported`: another encoding.
/// - `TooLarge`: a side of more than [`MAX_SIDE`] pixels.
/// - `Malformed`: the message ends early, the image has no pixels, `step` is shorter than a line,
///   or there is less data than `height * step`.
pub fn decode(message: &[u8]) -> Result<(Header<'_>, ImageView<'_>), Rejected> {
    let (header, fields) = fields(message)?;
    Ok((header, view(&fields)?))
}

/// The pixels of a message; see [`decode`].
fn view<'a>(fields: &Fields<'a>) -> Result<ImageView<'a>, Rejected> {
    let encoding = encoding_of(fields.encoding)?;
    check_lines(fields, encoding.bytes_per_pixel())?;
    let Fields { size: [width, height], step, data, .. } = *fields;
    if width.max(height) > MAX_SIDE {
        let detail = format!(
            "image: expected sides of at most {MAX_SIDE} px, the most that image.max_width_px and \
             image.max_height_px allow, found {width}x{height}"
        );
        return Err(Rejected::new(DropReason::TooLarge, detail));
    }
    Ok(ImageView { encoding, width, height, step, data })
}

/// Checks that there are pixels of this many bytes, that `step` holds a line of them, and that the
/// data holds all lines with their padding: a body that is shorter was cut.
pub(super) fn check_lines(fields: &Fields<'_>, bytes_per_pixel: usize) -> Result<(), Rejected> {
    let Fields { size: [width, height], step, data, .. } = *fields;
    let malformed = |detail: String| Err(Rejected::new(DropReason::Malformed, detail));
    if width == 0 || height == 0 {
        return malformed(format!("image: expected at least 1x1 pixels, found {width}x{height}"));
    }
    let name = String::from_utf8_lossy(fields.encoding);
    // u128: the products of two u32 do not fit the usize of every processor.
    let line = width as u128 * bytes_per_pixel as u128;
    if (step as u128) < line {
        return malformed(format!(
            "step: expected at least {line} bytes for {width} pixels of {name}, found {step}"
        ));
    }
    let expected = height as u128 * step as u128;
    if (data.len() as u128) < expected {
        return malformed(format!(
            "data: expected at least {expected} bytes for {width}x{height} pixels of {name} with \
             step {step}, found {}",
            data.len()
        ));
    }
    Ok(())
}
