//! What an image becomes, and the pixels that it is made of.

/// How an image becomes a row.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ImageSpec {
    /// Width of the row \[px\].
    pub width: usize,
    /// Height of the row \[px\].
    pub height: usize,
    /// What happens to the aspect ratio.
    pub fit: Fit,
    /// Channels of the row, in order.
    pub color: Color,
    /// Per channel of the row: the value is `(byte / 255 - mean) / std`, in `f32`. If there is one
    /// channel, its number is in all three places. Rows of `u8` hold the bytes: mean and std have no
    /// meaning there.
    pub mean: [f32; 3],
    /// See `mean`; positive.
    pub std: [f32; 3],
    /// Byte value of padding, before normalisation.
    pub pad_value: u8,
}

/// What happens to an image's aspect ratio on resize.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// The whole image into the whole row.
    Stretch,
    /// The whole image, centred, with padding at two sides.
    #[default]
    Pad,
    /// The largest centred part of the row's aspect ratio.
    Crop,
}

/// Channels of an image row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Color {
    /// Red, green, blue.
    #[default]
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Luma, ITU-R BT.601.
    Mono,
}

impl Color {
    /// Number of channels.
    pub const fn channels(self) -> usize {
        match self {
            Color::Rgb | Color::Bgr => 3,
            Color::Mono => 1,
        }
    }

    /// The name of each channel.
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Color::Rgb => &["r", "g", "b"],
            Color::Bgr => &["b", "g", "r"],
            Color::Mono => &["mono"],
        }
    }
}

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

/// The longest side of an image that a configuration may allow \[px\], longer than any camera's. The
/// cost of a resize grows with the side, whatever the area: a line of a million pixels would occupy
/// the encoder for a minute.
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
}
