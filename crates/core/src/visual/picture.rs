//! A segment of images or depth as `sensor_msgs/msg/Image`.

use super::color::ColorMap;
use crate::cdr::messages::Image;
use crate::message::StepRead;
use robocache_ops::dtype::DType;
use robocache_ops::image::{Color, ImageLayout};

/// The colour of what is drawn over an invalid image.
const RED: [u8; 3] = [255, 0, 0];

/// How the elements of a segment become pixels.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    width: usize,
    height: usize,
    dtype: DType,
    pixel: Pixel,
}

/// Content of a pixel.
#[derive(Clone, Debug, PartialEq)]
enum Pixel {
    Bytes(Bytes),
    /// A distance \[m\]; pixels without one have this value.
    Distance {
        fill_m: f32,
    },
}

/// How elements become the bytes of an image again.
#[derive(Clone, Debug, PartialEq)]
struct Bytes {
    /// The place of red, green and blue among the channels.
    rgb: [usize; 3],
    channels: usize,
    /// Elements from one pixel to the next, and from one channel to the next.
    pixel_stride: usize,
    channel_stride: usize,
    /// Per channel of the row: a byte is `value * scale + offset`.
    scale: [f32; 3],
    offset: [f32; 3],
}

impl Picture {
    /// How rows of this colour and layout are shown. `normalisation`: mean and standard deviation of each
    /// channel, without effect on bytes.
    ///
    /// # Errors
    /// Why they cannot be shown.
    pub fn of_color(
        color: Color,
        layout: ImageLayout,
        [width, height]: [usize; 2],
        dtype: DType,
        [mean, std]: [[f32; 3]; 2],
    ) -> Result<Self, String> {
        let channels = color.channels();
        let (scale, offset) = match dtype {
            DType::U8 => ([1.0; 3], [0.0; 3]),
            // The inverse of `(byte / 255 - mean) / std`.
            DType::F32 | DType::F16 | DType::Bf16 => {
                (std.map(|std| 255.0 * std), mean.map(|mean| 255.0 * mean))
            }
            DType::I32 => return Err(format!("images of {} cannot be shown", dtype.name())),
        };
        let rgb = match color {
            Color::Rgb => [0, 1, 2],
            Color::Bgr => [2, 1, 0],
            Color::Mono => [0; 3],
        };
        let (pixel_stride, channel_stride) = match layout {
            ImageLayout::Chw => (1, width * height),
            ImageLayout::Hwc => (channels, 1),
        };
        let bytes = Bytes { rgb, channels, pixel_stride, channel_stride, scale, offset };
        Ok(Picture { width, height, dtype, pixel: Pixel::Bytes(bytes) })
    }

    /// How rows of depth are shown: near is dark, far is bright, and black has no distance.
    pub fn of_distances([width, height]: [usize; 2], dtype: DType, fill_m: f32) -> Self {
        Picture { width, height, dtype, pixel: Pixel::Distance { fill_m } }
    }

    /// The message, `rgb8`; `None` if the step has another size.
    pub(super) fn message(
        &self,
        step: &StepRead<'_>,
        frame_id: &str,
        buffer: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let pixels = self.pixels(step)?;
        let image = Image {
            stamp: step.target,
            frame_id,
            height: self.height as u32,
            width: self.width as u32,
            encoding: "rgb8",
            step: 3 * self.width as u32,
        };
        Some(image.to_cdr(buffer, |data| data.extend_from_slice(&pixels)))
    }

    /// Red, green and blue of each pixel, line by line.
    pub fn pixels(&self, step: &StepRead<'_>) -> Option<Vec<u8>> {
        let values = super::elements(self.dtype, step.bytes);
        let size = self.width * self.height;
        let mut pixels = match &self.pixel {
            Pixel::Bytes(bytes) if values.len() == size * bytes.channels => {
                (0..size).flat_map(|pixel| bytes.pixel(&values, pixel)).collect()
            }
            Pixel::Distance { fill_m } if values.len() == size => {
                let fill_m = super::rounded(self.dtype, *fill_m);
                distances(&values, fill_m)
            }
            Pixel::Bytes(_) | Pixel::Distance { .. } => return None,
        };
        if !step.valid {
            self.cross_out(&mut pixels);
        }
        Some(pixels)
    }

    /// The nearest and the farthest distance of a segment of depth \[m\]; `None` if it has none.
    pub fn reach(&self, step: &StepRead<'_>) -> Option<[f32; 2]> {
        let Pixel::Distance { fill_m } = self.pixel else { return None };
        let fill_m = super::rounded(self.dtype, fill_m);
        let values = super::elements(self.dtype, step.bytes).into_iter();
        let there = values.filter(|value| is_distance(*value, fill_m));
        there.fold(None, |reach, value| match reach {
            None => Some([value; 2]),
            Some([near, far]) => Some([near.min(value), far.max(value)]),
        })
    }

    /// Draws a red frame and a red cross: the policy must not act on this image.
    fn cross_out(&self, pixels: &mut [u8]) {
        let width = self.width;
        let height = self.height;
        let thick = (width.min(height) / 32).max(1);
        for (at, pixel) in pixels.as_chunks_mut::<3>().0.iter_mut().enumerate() {
            let x = at % width;
            let y = at / width;
            let edge = x.min(width - 1 - x).min(y).min(height - 1 - y);
            // The diagonals, in columns of this line.
            let down = (y * width) / height;
            let near = |column: usize| x.abs_diff(column) < thick;
            if edge < thick || near(down) || near(width - 1 - down) {
                *pixel = RED;
            }
        }
    }
}

impl Bytes {
    /// Red, green and blue of a pixel.
    fn pixel(&self, values: &[f32], pixel: usize) -> [u8; 3] {
        self.rgb.map(|channel| {
            let value = values[pixel * self.pixel_stride + channel * self.channel_stride];
            // A cast gives 0 for NaN, and the nearest byte for what is out of range.
            (value * self.scale[channel] + self.offset[channel]).round_ties_even() as u8
        })
    }
}

/// The colours of distances; black for a pixel without a distance.
fn distances(values: &[f32], fill_m: f32) -> Vec<u8> {
    let is_there = |value: &f32| is_distance(*value, fill_m);
    let map = ColorMap::of(values.iter().copied().filter(is_there));
    let color = |value: &f32| match is_there(value) {
        true => map.color(*value).map(|part| (255.0 * part).round() as u8),
        false => [0; 3],
    };
    values.iter().flat_map(color).collect()
}

/// True if a pixel has a distance.
fn is_distance(value: f32, fill_m: f32) -> bool {
    value != fill_m && value.is_finite()
}
