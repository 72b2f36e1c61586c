//! The encodings of `sensor_msgs/msg/Image` that become a picture.

use super::bayer::{self, Bayer};
use super::yuv::{self, Yuv, YuvImage};
use super::{check_size, malformed, mono16};
use crate::rejected::Rejected;
use robocache_ops::image::{Encoding, ImageView};

/// An image as a message has it.
#[derive(Clone, Copy, Debug)]
pub struct RawImage<'a> {
    /// Width and height \[px\].
    pub size: [usize; 2],
    /// True if elements of several bytes have the most significant one first.
    pub big_endian: bool,
    /// Bytes from one line to the next.
    pub step: usize,
    /// The lines.
    pub data: &'a [u8],
}

impl RawImage<'_> {
    /// Checks that there are pixels of this many bytes, that `step` holds a line of them, and that the
    /// data holds all lines with their padding: a body that is shorter was cut.
    pub fn check_lines(&self, name: &str, bytes_per_pixel: usize) -> Result<(), Rejected> {
        let RawImage { size: [width, height], step, data, .. } = *self;
        let malformed = |detail: String| Err(malformed(detail));
        if width == 0 || height == 0 {
            return malformed(format!(
                "image: expected at least 1x1 pixels, found {width}x{height}"
            ));
        }
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
}

/// Format of a raw image's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelFormat {
    /// Pixels that an encoder takes as they are.
    Pixels(Encoding),
    /// `mono16`: gray of 16 bits.
    Mono16,
    /// Luma and chroma.
    Yuv(Yuv),
    /// One colour of 8 bits per pixel.
    Bayer(Bayer),
    /// One colour of 16 bits per pixel.
    Bayer16(Bayer),
}

impl PixelFormat {
    /// All of them.
    pub fn all() -> impl Iterator<Item = PixelFormat> {
        let pixels = Encoding::ALL.into_iter().map(PixelFormat::Pixels);
        let yuv = Yuv::ALL.into_iter().map(PixelFormat::Yuv);
        let bayer = Bayer::ALL.into_iter().map(PixelFormat::Bayer);
        let bayer16 = Bayer::ALL.into_iter().map(PixelFormat::Bayer16);
        pixels.chain([PixelFormat::Mono16]).chain(yuv).chain(bayer).chain(bayer16)
    }

    /// The format of a name in a message.
    pub fn of(name: &[u8]) -> Option<PixelFormat> {
        PixelFormat::all().find(|known| known.name().as_bytes() == name)
    }

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            PixelFormat::Pixels(encoding) => encoding.name(),
            PixelFormat::Mono16 => "mono16",
            PixelFormat::Yuv(yuv) => yuv.name(),
            PixelFormat::Bayer(pattern) => pattern.name(),
            PixelFormat::Bayer16(pattern) => pattern.name16(),
        }
    }

    /// The name of its bytes alone, if each channel is one: `8UC1`, `8UC3` or `8UC4`.
    pub const fn untyped_name(self) -> Option<&'static str> {
        match self {
            PixelFormat::Pixels(encoding) => Some(match encoding.bytes_per_pixel() {
                1 => "8UC1",
                3 => "8UC3",
                _ => "8UC4",
            }),
            PixelFormat::Bayer(_) => Some("8UC1"),
            PixelFormat::Mono16 | PixelFormat::Yuv(_) | PixelFormat::Bayer16(_) => None,
        }
    }

    /// The picture in a message: in the message itself, or converted into `pixels`, whose memory is
    /// used again. `largest` is the greatest width and height \[px\].
    ///
    /// # Errors
    /// `TooLarge` or `Malformed`.
    pub fn picture<'a>(
        self,
        image: &RawImage<'a>,
        largest: [usize; 2],
        pixels: &'a mut Vec<u8>,
    ) -> Result<ImageView<'a>, Rejected> {
        let RawImage { size, big_endian, step, data } = *image;
        if let PixelFormat::Yuv(layout) = self {
            return yuv::to_rgb(&YuvImage { layout, size, step, data }, largest, pixels);
        }
        check_size(size, largest)?;
        match self {
            PixelFormat::Mono16 => {
                image.check_lines(self.name(), 2)?;
                Ok(mono16::to_mono8(size, step, data, big_endian, pixels))
            }
            PixelFormat::Bayer(pattern) => {
                image.check_lines(self.name(), 1)?;
                bayer::to_rgb(pattern, size, step, data, pixels)
            }
            PixelFormat::Bayer16(pattern) => {
                image.check_lines(self.name(), 2)?;
                bayer::to_rgb16(pattern, size, step, data, big_endian, pixels)
            }
            PixelFormat::Pixels(encoding) => {
                image.check_lines(self.name(), encoding.bytes_per_pixel())?;
                let [width, height] = size;
                Ok(ImageView { encoding, width, height, step, data, remap: None })
            }
            PixelFormat::Yuv(_) => unreachable!("converted above"),
        }
    }
}
