//! Messages that show people what the policy sees: images and voxel grids for RViz and Foxglove.
//!
//! The bytes of a tensor message in, the bytes of an image or of markers out; no I/O. The newest
//! history step of each segment is shown. If it is invalid, that is drawn in red.
//!
//! The encoder of a stream says how its rows are drawn ([`Drawn`]). [`shown`] makes the drawing.

mod color;
mod grid;
mod picture;
mod tap;

pub use color::ColorMap;
pub use grid::GridView;
pub use picture::Picture;
pub use tap::Tap;

use half::{bf16, f16};

use crate::encoder::Drawn;
use crate::message::TensorRead;
use crate::spec::{Config, StreamSpec};
use robocache_ops::dtype::DType;

/// How the segment of a stream is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// As `sensor_msgs/msg/Image`.
    Picture(Picture),
    /// As `visualization_msgs/msg/MarkerArray`.
    Grid(GridView),
}

/// Says how the segment of a stream is shown; `None` if it holds nothing that can be seen.
///
/// # Errors
/// What it holds could be seen, but this does not show it; in words.
pub fn shown(spec: &StreamSpec) -> Result<Option<Shown>, String> {
    match spec.encoder.drawn(spec.dtype) {
        Drawn::Nothing => Ok(None),
        Drawn::Hidden(what) => Err(what.to_owned()),
        Drawn::Colors { color, layout, size, normalisation } => {
            let picture = Picture::of_color(color, layout, size, spec.dtype, normalisation)?;
            Ok(Some(Shown::Picture(picture)))
        }
        Drawn::Distances { size, fill_m } => {
            Ok(Some(Shown::Picture(Picture::of_distances(size, spec.dtype, fill_m))))
        }
        Drawn::Cubes(cubes) => Ok(Some(Shown::Grid(GridView::new(cubes, spec.dtype)))),
    }
}

/// A segment that is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The stream, and its segment in the tensor.
    pub name: String,
    shown: Shown,
    base_frame: String,
}

impl View {
    /// The views of a configuration's streams, and the streams that cannot be shown, with the reason.
    pub fn all(config: &Config) -> (Vec<View>, Vec<(String, String)>) {
        let mut views = Vec::new();
        let mut hidden = Vec::new();
        for spec in &config.streams {
            let name = spec.name.clone();
            let base_frame = config.base_frame.clone();
            match shown(spec) {
                Ok(Some(shown)) => views.push(View { name, shown, base_frame }),
                Ok(None) => {}
                Err(reason) => hidden.push((name, reason)),
            }
        }
        (views, hidden)
    }

    /// The type of its messages.
    pub fn ros_type(&self) -> &'static str {
        match self.shown {
            Shown::Picture(_) => "sensor_msgs/msg/Image",
            Shown::Grid(_) => "visualization_msgs/msg/MarkerArray",
        }
    }

    /// The message of the newest step, in the memory of `buffer`; `None` if the tensor has no such
    /// segment. The stamp is the step's target time, and the frame is the base frame.
    pub fn message(&self, tensor: &TensorRead<'_>, buffer: Vec<u8>) -> Option<Vec<u8>> {
        let step = tensor.segment(&self.name)?.newest()?;
        match &self.shown {
            Shown::Picture(picture) => picture.message(&step, &self.base_frame, buffer),
            Shown::Grid(grid) => grid.message(&step, &self.name, &self.base_frame, buffer),
        }
    }
}

/// The elements of a segment as `f32`.
pub fn elements(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    fn read<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks::<N>().0.iter().map(|chunk| value(*chunk)).collect()
    }
    match dtype {
        DType::F32 => read(bytes, f32::from_le_bytes),
        DType::F16 => read(bytes, |bytes| f16::from_le_bytes(bytes).to_f32()),
        DType::Bf16 => read(bytes, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        DType::U8 => read(bytes, |[byte]| f32::from(byte)),
        DType::I32 => read(bytes, |bytes| i32::from_le_bytes(bytes) as f32),
    }
}

/// A value as a segment of this type holds it.
fn rounded(dtype: DType, value: f32) -> f32 {
    let mut bytes = vec![0; dtype.size()];
    dtype.store(&[value], &mut bytes);
    elements(dtype, &bytes)[0]
}

#[cfg(test)]
mod tests;
