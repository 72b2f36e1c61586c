//! `sensor_msgs/Image` as a borrowed view.

use super::{DecodeError, Header, header};
use crate::cdr::Reader;
use crate::stats::DropReason;

/// Pixel formats of `sensor_msgs/image_encodings.hpp` that a row can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the encodings' own
pub enum Encoding {
    Rgb8,
    Bgr8,
    Rgba8,
    Bgra8,
    Mono8,
}

/// The longest side of an image \[px\], longer than any camera's. What resizing costs grows with
/// it, whatever the image's area: a line of a million pixels would occupy the encoder for a minute.
pub const MAX_SIDE: usize = 16_384;

/// An image whose declared size has been checked against its data:
/// `data.len() >= (height - 1) * step + width * bytes_per_pixel`, and neither side is 0.
#[derive(Clone, Copy, Debug)]
pub struct ImageView<'a> {
    /// Pixel format.
    pub encoding: Encoding,
    /// Width \[px\].
    pub width: usize,
    /// Height \[px\].
    pub height: usize,
    /// Bytes from one line to the next, padding included.
    pub step: usize,
    /// The lines.
    pub data: &'a [u8],
}

impl Encoding {
    /// All of them.
    pub const ALL: [Encoding; 5] =
        [Encoding::Rgb8, Encoding::Bgr8, Encoding::Rgba8, Encoding::Bgra8, Encoding::Mono8];

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::Rgb8 => "rgb8",
            Encoding::Bgr8 => "bgr8",
            Encoding::Rgba8 => "rgba8",
            Encoding::Bgra8 => "bgra8",
            Encoding::Mono8 => "mono8",
        }
    }

    /// Bytes per pixel.
    pub const fn bytes_per_pixel(self) -> usize {
        match self {
            Encoding::Mono8 => 1,
            Encoding::Rgb8 | Encoding::Bgr8 => 3,
            Encoding::Rgba8 | Encoding::Bgra8 => 4,
        }
    }

    /// From the name in a message. `8UC1` and its like name a layout of bytes but not their
    /// meaning, so that they are refused rather than guessed.
    fn from_name(name: &[u8]) -> Result<Self, DecodeError> {
        Encoding::ALL.into_iter().find(|known| known.name().as_bytes() == name).ok_or_else(|| {
            let names = Encoding::ALL.map(Encoding::name).join(", ");
            // A camera's encoding is short; a message may claim anything.
            let found = String::from_utf8_lossy(&name[..name.len().min(32)]);
            DecodeError::new(
                DropReason::Unsupported,
                format!("encoding: expected one of {names}, found {found:?}"),
            )
        })
    }
}

/// Reads a `sensor_msgs/msg/Image`. `is_bigendian` says nothing about elements of one byte and is
/// not looked at; the padding of the last line may be missing, and bytes after it are ignored.
///
/// # Errors
/// [`DropReason::Unsupported`] for another encoding and for a side of more than [`MAX_SIDE`] pixels,
/// and [`DropReason::Malformed`] for a message that ends early, an image without pixels, a `step`
/// shorter than a line, and less data than `height`, `step` and `width` declare.
pub fn decode<'a>(message: &'a [u8]) -> Result<(Header<'a>, ImageView<'a>), DecodeError> {
    let mut reader = Reader::new(message)?;
    let header = header(&mut reader)?;
    let (height, width) = (reader.u32()? as usize, reader.u32()? as usize);
    let encoding = Encoding::from_name(reader.string_bytes()?)?;
    let _is_bigendian = reader.u8()?;
    let step = reader.u32()? as usize;
    let data = reader.bytes()?;
    let malformed = |detail: String| Err(DecodeError::new(DropReason::Malformed, detail));
    if width == 0 || height == 0 {
        return malformed(format!("image: expected at least 1x1 pixels, found {width}x{height}"));
    }
    let name = encoding.name();
    // u128: the products of two u32 do not fit the usize of every processor.
    let line = width as u128 * encoding.bytes_per_pixel() as u128;
    if (step as u128) < line {
        return malformed(format!(
            "step: expected at least {line} bytes for {width} pixels of {name}, found {step}"
        ));
    }
    let expected = (height - 1) as u128 * step as u128 + line;
    if (data.len() as u128) < expected {
        return malformed(format!(
            "data: expected at least {expected} bytes for {width}x{height} pixels of {name} with \
             step {step}, found {}",
            data.len()
        ));
    }
    if width.max(height) > MAX_SIDE {
        let detail =
            format!("image: expected sides of at most {MAX_SIDE} px, found {width}x{height}");
        return Err(DecodeError::new(DropReason::Unsupported, detail));
    }
    Ok((header, ImageView { encoding, width, height, step, data }))
}
