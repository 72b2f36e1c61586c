//! `sensor_msgs/Image` as a borrowed view.

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

/// Images are not decoded yet.
pub fn decode(_: &[u8]) -> Result<(super::Header<'_>, ImageView<'_>), super::DecodeError> {
    Err(super::DecodeError::new(
        crate::stats::DropReason::Unsupported,
        "images are not decoded yet",
    ))
}
