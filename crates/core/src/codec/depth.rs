//! Compressed depth images, as compressed_depth_image_transport and compressed_image_transport write
//! them.
//!
//! The `format` of a message is the encoding of the pixels, a semicolon, and what packed them:
//!
//! | format | data |
//! |---|---|
//! | `16UC1; compressedDepth` or `... compressedDepth png` | header, PNG of 16 bits |
//! | `16UC1; compressedDepth rvl` | header, RVL |
//! | `32FC1; compressedDepth` and so on | the same; the numbers are inverse depths |
//! | `16UC1; png compressed`, or `png` alone | PNG of 16 bits |
//!
//! The header has 12 bytes, little-endian: an `i32` that is 0 for inverse depth, and two `f32`, `a` and
//! `b`. A number `n` of a `32FC1` image is `a / (n - b)` metres, in `f32`; 0 is invalid.

use super::{malformed, png, rvl, unsupported};
use crate::rejected::Rejected;
use robocache_ops::depth::{DepthElement, DepthView};

/// The encodings of depth: name in messages, and what a pixel is. REP 118 has the first and the last;
/// some drivers call the same numbers `mono16`.
pub const ENCODINGS: [(&str, DepthElement); 3] =
    [("16UC1", DepthElement::U16), ("mono16", DepthElement::U16), ("32FC1", DepthElement::F32)];

/// The name and the element of an encoding of depth; `None` if it is no such encoding.
pub fn element_of(encoding: &[u8]) -> Option<(&'static str, DepthElement)> {
    ENCODINGS.into_iter().find(|known| known.0.as_bytes() == encoding)
}

/// Bytes in front of the file.
const HEADER: usize = 12;
const INVERSE_DEPTH: i32 = 0;

/// Packing of the numbers.
enum Packing {
    /// A PNG file alone.
    Png,
    /// A header, then PNG.
    HeaderPng,
    /// A header, then RVL.
    HeaderRvl,
}

/// Decodes an image into `pixels`, whose memory is used again. `largest` is the greatest width and
/// height \[px\].
///
/// # Errors
/// - `Unsupported`: another format, or a PNG that is not gray of 16 bits.
/// - `TooLarge`: more pixels than `largest`; nothing is reserved then.
/// - `Malformed`: the data is damaged or cut, or has no inverse depth.
pub fn decode<'a>(
    format: &[u8],
    data: &[u8],
    largest: [usize; 2],
    pixels: &'a mut Vec<u8>,
) -> Result<DepthView<'a>, Rejected> {
    let (element, packing) = parse(format)?;
    let (header, file) = match packing {
        Packing::Png => (&[][..], data),
        Packing::HeaderPng | Packing::HeaderRvl => {
            data.split_at_checked(HEADER).ok_or_else(|| {
                let found = data.len();
                malformed(format!("compressedDepth: expected {HEADER} bytes, found {found}"))
            })?
        }
    };
    let inverse = match element {
        DepthElement::F32 => Some(Inverse::of(header)?),
        DepthElement::U16 => None,
    };
    let [width, height] = match packing {
        Packing::HeaderRvl => rvl::decode(file, largest, pixels)?,
        Packing::Png | Packing::HeaderPng => png::decode_gray16(file, largest, pixels)?,
    };
    // Both give the most significant byte first.
    if let Some(inverse) = inverse {
        inverse.to_metres(pixels);
    }
    let step = width * element.size();
    Ok(DepthView { element, big_endian: true, width, height, step, data: pixels })
}

fn parse(format: &[u8]) -> Result<(DepthElement, Packing), Rejected> {
    let text = String::from_utf8_lossy(&format[..format.len().min(64)]);
    let (encoding, rest) = match text.split_once(';') {
        Some((encoding, rest)) => (encoding.trim(), rest),
        None => ("16UC1", &*text),
    };
    let words: Vec<_> = rest.split_whitespace().collect();
    // Without an encoding, only a picture says by itself what it is.
    let alone = !text.contains(';');
    let packing = match words.as_slice() {
        ["png"] => Some(Packing::Png),
        _ if alone => None,
        ["compressedDepth"] | ["compressedDepth", "png"] => Some(Packing::HeaderPng),
        ["compressedDepth", "rvl"] => Some(Packing::HeaderRvl),
        ["png", "compressed", ..] => Some(Packing::Png),
        _ => None,
    };
    let element = element_of(encoding.as_bytes()).map(|known| known.1);
    match (element, packing) {
        (Some(DepthElement::F32), Some(Packing::Png)) | (None, _) | (_, None) => {
            let expected = "16UC1, mono16 or 32FC1; compressedDepth, with png or rvl (image.depth)";
            Err(unsupported(format!("format: expected {expected}, found {text:?}")))
        }
        (Some(element), Some(packing)) => Ok((element, packing)),
    }
}

/// The parameters of inverse depth.
struct Inverse {
    a: f32,
    b: f32,
}

impl Inverse {
    fn of(header: &[u8]) -> Result<Self, Rejected> {
        let four = |at: usize| header[at..].first_chunk::<4>().copied().unwrap_or_default();
        let kind = i32::from_le_bytes(four(0));
        let a = f32::from_le_bytes(four(4));
        let b = f32::from_le_bytes(four(8));
        if kind != INVERSE_DEPTH || !a.is_finite() || !b.is_finite() || a <= 0.0 {
            return Err(malformed(format!(
                "compressedDepth: expected inverse depth (0) with a positive and a finite parameter, \
                 found {kind}, {a} and {b}"
            )));
        }
        Ok(Inverse { a, b })
    }

    /// Replaces numbers of 16 bits by metres, both big-endian, in the same memory: from the end, so that
    /// no number is overwritten before it is read.
    fn to_metres(&self, pixels: &mut Vec<u8>) {
        let count = pixels.len() / 2;
        pixels.resize(4 * count, 0);
        for at in (0..count).rev() {
            let number = u16::from_be_bytes([pixels[2 * at], pixels[2 * at + 1]]);
            let metres = match number {
                0 => f32::NAN,
                number => self.a / (f32::from(number) - self.b),
            };
            pixels[4 * at..4 * at + 4].copy_from_slice(&metres.to_be_bytes());
        }
    }
}
