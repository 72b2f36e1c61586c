//! Specification of image rows, and the pixel formats of images.

use std::sync::Arc;

use super::remap::Remap;

/// Most resizes of an image, one after the other.
pub const MAX_RESIZES: usize = 4;

/// How an image becomes a row.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ImageSpec {
    /// True if images are undistorted first: each may come with a table for that.
    pub undistort: bool,
    /// The part of the image that is used; all of it if `None`.
    pub crop: Option<Crop>,
    /// One after the other: at least one, at most [`MAX_RESIZES`]. The last gives the row's size. Each
    /// gives bytes.
    pub resizes: Vec<Resize>,
    /// Order of the row's dimensions.
    pub layout: ImageLayout,
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

/// A part of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Crop {
    /// First column.
    pub x: usize,
    /// First line.
    pub y: usize,
    /// Columns, at least 1.
    pub width: usize,
    /// Lines, at least 1.
    pub height: usize,
}

/// One resize.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Resize {
    /// Width of the result \[px\].
    pub width: usize,
    /// Height of the result \[px\].
    pub height: usize,
    /// Which library's arithmetic.
    pub filter: Filter,
    /// Treatment of the aspect ratio.
    pub fit: Fit,
    /// Of each side, the centred part of this length is taken first: more than 0, at most 1.
    pub crop_fraction: f64,
}

/// The arithmetic of a resize, by the library whose pixels it gives. `geometry.rs` and `weights.rs`
/// explain each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// `BILINEAR` of Pillow 11.3 to 12.1, with antialias: columns are resized last. Those of Pillow 12.2 and
    /// 12.3 too, unless the image is more than 100 times as high as wide.
    #[default]
    PilBilinear,
    /// `BILINEAR` of Pillow 13: columns are resized first if the height shrinks by more than twice what the
    /// width does.
    Pil13Bilinear,
    /// `torch.nn.functional.interpolate(mode="bilinear", align_corners=False)`, rounded to bytes.
    TorchBilinear,
    /// `torch.nn.functional.interpolate` as for [`Filter::TorchBilinear`], with `antialias=True`.
    TorchBilinearAntialias,
    /// OpenCV's `INTER_LINEAR`, without antialias.
    Cv2Linear,
    /// OpenCV's `INTER_AREA`.
    Cv2Area,
    /// OpenCV's `INTER_NEAREST`: the input at `floor(output * scale)`.
    Nearest,
}

impl Filter {
    /// All of them.
    pub const ALL: [Filter; 7] = [
        Filter::PilBilinear,
        Filter::Pil13Bilinear,
        Filter::TorchBilinear,
        Filter::TorchBilinearAntialias,
        Filter::Cv2Linear,
        Filter::Cv2Area,
        Filter::Nearest,
    ];

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Filter::PilBilinear => "pil_bilinear",
            Filter::Pil13Bilinear => "pil13_bilinear",
            Filter::TorchBilinear => "torch_bilinear",
            Filter::TorchBilinearAntialias => "torch_bilinear_antialias",
            Filter::Cv2Linear => "cv2_linear",
            Filter::Cv2Area => "cv2_area",
            Filter::Nearest => "nearest",
        }
    }

    /// Whose pixels it gives: the function, its library and its versions.
    pub const fn library(self) -> &'static str {
        match self {
            Filter::PilBilinear => "BILINEAR of Pillow 11.3 to 12.1",
            Filter::Pil13Bilinear => "BILINEAR of Pillow 13",
            Filter::TorchBilinear => "bilinear interpolate of torch 2, without antialias",
            Filter::TorchBilinearAntialias => "bilinear interpolate of torch 2, with antialias",
            Filter::Cv2Linear => "INTER_LINEAR of OpenCV 4 and 5",
            Filter::Cv2Area => "INTER_AREA of OpenCV 4 and 5",
            Filter::Nearest => "INTER_NEAREST of OpenCV 4 and 5",
        }
    }

    /// True if there are bytes between the two passes, and not numbers of 32 bits.
    pub const fn has_bytes_between(self) -> bool {
        matches!(self, Filter::PilBilinear | Filter::Pil13Bilinear | Filter::Nearest)
    }
}

/// Treatment of an image's aspect ratio on resize.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// The whole image into the whole row.
    Stretch,
    /// The whole image, centred, with padding at two sides.
    #[default]
    PadCenter,
    /// The whole image at the lower right, with padding at the top or the left.
    PadTopLeft,
    /// The largest centred part of the row's aspect ratio, cut out before the resize.
    CropCenter,
    /// The whole image, resized to cover the row. The parts outside of the row are cut off after the resize.
    CoverCenter,
}

impl Fit {
    /// True if a part of the row may be padding.
    pub const fn pads(self) -> bool {
        matches!(self, Fit::PadCenter | Fit::PadTopLeft)
    }

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Fit::Stretch => "stretch",
            Fit::PadCenter => "pad_center",
            Fit::PadTopLeft => "pad_top_left",
            Fit::CropCenter => "crop_center",
            Fit::CoverCenter => "cover_center",
        }
    }
}

/// Order of the dimensions of an image row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageLayout {
    /// `[channels, height, width]`
    #[default]
    Chw,
    /// `[height, width, channels]`
    Hwc,
}

impl ImageLayout {
    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            ImageLayout::Chw => "chw",
            ImageLayout::Hwc => "hwc",
        }
    }
}

impl Resize {
    /// To `width` x `height` pixels, with the default filter and fit.
    pub const fn to(width: usize, height: usize) -> Resize {
        let filter = Filter::PilBilinear;
        let fit = Fit::PadCenter;
        Resize { width, height, filter, fit, crop_fraction: 1.0 }
    }
}

impl ImageSpec {
    /// Rows of RGB, `[3, height, width]`, from 0 to 1, padded with black. `resizes` is not empty.
    pub fn new(resizes: Vec<Resize>) -> ImageSpec {
        ImageSpec {
            undistort: false,
            crop: None,
            resizes,
            layout: ImageLayout::Chw,
            color: Color::Rgb,
            mean: [0.0; 3],
            std: [1.0; 3],
            pad_value: 0,
        }
    }

    /// The last resize, which gives the row its size.
    ///
    /// # Panics
    /// If the list is empty. No configuration gives an empty list.
    pub fn last(&self) -> &Resize {
        self.resizes.last().expect("image: expected at least one resize")
    }

    /// Shape of a row.
    pub fn row_shape(&self) -> [usize; 3] {
        let (Resize { width, height, .. }, channels) = (*self.last(), self.color.channels());
        match self.layout {
            ImageLayout::Chw => [channels, height, width],
            ImageLayout::Hwc => [height, width, channels],
        }
    }

    /// Elements of a row.
    pub fn row_len(&self) -> usize {
        self.row_shape().iter().product()
    }

    /// The part of an image of `width` x `height` pixels that is used: its columns and lines. `None` if
    /// the image does not have it.
    pub fn part(&self, width: usize, height: usize) -> Option<[std::ops::Range<usize>; 2]> {
        let Some(crop) = self.crop else { return Some([0..width, 0..height]) };
        let [right, bottom] = [crop.x + crop.width, crop.y + crop.height];
        (right <= width && bottom <= height).then_some([crop.x..right, crop.y..bottom])
    }
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

    /// The channels of an image between two resizes: the row's, but never blue first.
    pub(super) const fn between(self) -> Color {
        match self {
            Color::Rgb | Color::Bgr => Color::Rgb,
            Color::Mono => Color::Mono,
        }
    }

    /// The encoding of an image that has these channels.
    pub(super) const fn encoding(self) -> Encoding {
        match self {
            Color::Rgb => Encoding::Rgb8,
            Color::Bgr => Encoding::Bgr8,
            Color::Mono => Encoding::Mono8,
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
    /// Table that undistorts the image before anything else; `None` if it stays as it is. It is for images of this
    /// size, and for the part that the stream uses ([`ImageSpec::part`]).
    pub remap: Option<&'a Arc<Remap>>,
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

    /// The bytes of a pixel that are red, green and blue.
    pub const fn rgb(self) -> [usize; 3] {
        match self {
            Encoding::Rgb8 | Encoding::Rgba8 => [0, 1, 2],
            Encoding::Bgr8 | Encoding::Bgra8 => [2, 1, 0],
            Encoding::Mono8 => [0; 3],
        }
    }
}

impl<'a> ImageView<'a> {
    /// A part of the image.
    ///
    /// # Panics
    /// If the image does not have it.
    pub fn part(&self, [columns, lines]: [std::ops::Range<usize>; 2]) -> ImageView<'a> {
        assert!(columns.end <= self.width && lines.end <= self.height, "image: no such part");
        let first = lines.start * self.step + columns.start * self.encoding.bytes_per_pixel();
        let data = &self.data[first..];
        ImageView { width: columns.len(), height: lines.len(), data, ..*self }
    }
}
