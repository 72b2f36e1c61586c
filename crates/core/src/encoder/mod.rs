//! How a sample becomes a row: one type per encoder, which answers every question about itself.
//!
//! An encoder takes every sample of its kind, whatever the message. [`Encoder`] lists what others ask of it: what it
//! takes, what its rows are, how they are described and drawn, what memory it needs, and its code on both processors.
//! No other module asks which encoder it is. Each has a file here, and a variant of [`EncoderSpec`].

mod code;
mod depth;
mod image;
pub mod kind;
mod map;
mod occupancy;
mod vector;
mod voxels;

use std::ops::Deref;

use serde::Serialize;
use serde_json::Value;

#[cfg(feature = "cuda")]
pub use self::code::CudaEncoder;
pub use self::code::{CpuCode, CpuEncoder, EncodeError, EncoderSetup};
pub use self::vector::VectorEncoder;

use crate::rejected::{DropReason, Rejected};
use crate::sample::{Bounds, Sample, SampleKind};
use robocache_ops::depth::DepthSpec;
#[cfg(feature = "cuda")]
use robocache_ops::device::{Device, DeviceError};
use robocache_ops::dtype::DType;
use robocache_ops::image::camera::Camera;
use robocache_ops::image::{Color, ImageLayout, ImageSpec, Remap};
use robocache_ops::occupancy::OccupancySpec;
use robocache_ops::operators::VectorSpec;
use robocache_ops::packing::Run;
use robocache_ops::voxelize::cpu::Condenser;
use robocache_ops::voxelize::{Filter, Grid, SparseRow, VoxelSpec};
#[cfg(feature = "cuda")]
use std::sync::Arc;

/// How a sample becomes a row.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(tag = "kind", content = "encoder", rename_all = "snake_case")]
pub enum EncoderSpec {
    /// Numbers: a row is `[channels]`.
    Vector(VectorSpec),
    /// An image: a row is `[channels, height, width]` or `[height, width, channels]`.
    Image(ImageSpec),
    /// A depth image: a row is `[1, height, width]`.
    Depth(DepthSpec),
    /// Points: a row is `[channels, z, y, x]`; if it is sparse, `[max_voxels, channels]`.
    Voxels(VoxelSpec),
    /// A map: a row is `[1, height, width]`.
    Occupancy(OccupancySpec),
}

impl Deref for EncoderSpec {
    type Target = dyn Encoder;

    fn deref(&self) -> &(dyn Encoder + 'static) {
        match self {
            EncoderSpec::Vector(spec) => spec,
            EncoderSpec::Image(spec) => spec,
            EncoderSpec::Depth(spec) => spec,
            EncoderSpec::Voxels(spec) => spec,
            EncoderSpec::Occupancy(spec) => spec,
        }
    }
}

/// Interface of an encoder for the rest of the program. `dtype` is always the element type of the stream.
pub trait Encoder {
    /// The word for its rows, as in `FusedTensorInfo`. [`kind`] has those that programs ask for.
    fn kind(&self) -> &'static str;

    /// Word for its rows in errors, such as `images`.
    fn plural(&self) -> &'static str;

    /// The samples that it takes.
    fn takes(&self) -> SampleKind;

    /// The element types that its rows can have.
    fn dtypes(&self) -> &'static [DType] {
        &[DType::F32, DType::F16, DType::Bf16]
    }

    /// Shape of one row, row-major.
    fn row_shape(&self) -> Vec<usize>;

    /// The name of each dimension of a row.
    fn axes(&self) -> &'static [&'static str];

    /// The name of each entry along the dimension of the channels.
    fn channels(&self) -> Vec<String>;

    /// Contents of a row, in words, for `robocache check`.
    fn contents(&self, _dtype: DType) -> String {
        self.channels().join(", ")
    }

    /// Meaning of a segment of such rows, beside its channels.
    fn meaning(&self, _dtype: DType) -> Meaning {
        Meaning::default()
    }

    /// How a row is drawn for people.
    fn drawn(&self, _: DType) -> Drawn {
        Drawn::Nothing
    }

    /// Its keys that bound a message, and their values: memory for the largest message is reserved at the start.
    fn limits(&self, _bounds: Bounds) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    /// Checks that a sample can become a row. The detail of an error begins with the key that forbids it.
    ///
    /// # Errors
    /// `TooLarge` beyond the bounds; `WrongSize` if the sample lacks what the encoder crops.
    fn check(&self, _sample: &Sample<'_>, _bounds: Bounds) -> Result<(), Rejected> {
        Ok(())
    }

    /// Memory on a GPU, and pinned memory, for the largest message \[bytes\]. Rows are not included.
    fn message_bytes(&self, _dtype: DType, _bounds: Bounds) -> [usize; 2] {
        [0; 2]
    }

    /// Its settings that bear on the values of its rows, for contracts. What the channels are called is left out.
    fn settings(&self, dtype: DType) -> Value;

    /// Its code for a core.
    fn cpu(&self, setup: EncoderSetup) -> CpuCode<'_>;

    /// Its code for a GPU, with memory for the largest message; `None` if it has no CUDA twin.
    ///
    /// # Errors
    /// Those of the device, also if its memory does not suffice.
    #[cfg(feature = "cuda")]
    fn cuda(
        &self,
        _device: &Arc<Device>,
        _setup: EncoderSetup,
    ) -> Result<Option<Box<dyn CudaEncoder>>, DeviceError> {
        Ok(None)
    }

    /// Places of the parts of a row, if it lists voxels. Their coordinates are a second segment.
    fn sparse_row(&self, _dtype: DType) -> Option<SparseRow> {
        None
    }

    /// Shape of the coordinates of a row, if it lists voxels.
    fn coordinates_shape(&self) -> Option<Vec<usize>> {
        None
    }

    /// Rings of a stream: one per group of a vector, otherwise one.
    fn rings(&self) -> usize {
        1
    }

    /// Elements of a row of the ring of `group`.
    fn ring_row_len(&self, _group: usize) -> usize {
        self.row_len()
    }

    /// Places in a step of the elements that a ring gives.
    fn runs(&self, _group: usize) -> Vec<Run> {
        vec![Run { row_at: 0, step_at: 0, len: self.row_len() }]
    }

    /// True if a step depends on the values of other steps.
    fn unwraps(&self) -> bool {
        false
    }

    /// Numbers, whose rows are interpolated: only vectors have groups, lanes and operators.
    fn as_vector(&self) -> Option<&VectorSpec> {
        None
    }

    /// The shapes that choose among the points of a cloud.
    fn filter(&self) -> Option<&Filter> {
        None
    }

    /// Condenser of clouds of several inputs, which makes them one row.
    fn condenser(&self) -> Option<Condenser> {
        None
    }

    /// The encoder of condensed points.
    fn of_condensed(&self) -> Option<EncoderSpec> {
        None
    }

    /// True if an image needs the `CameraInfo` of its camera.
    fn undistorts(&self) -> bool {
        false
    }

    /// The table that undistorts the images of a camera; `None` if they stay as they are.
    fn remap(&self, _camera: &Camera) -> Option<Remap> {
        None
    }

    /// Elements of one row.
    fn row_len(&self) -> usize {
        self.row_shape().iter().product()
    }

    /// Elements of one row, with those of its coordinates.
    fn elements(&self) -> usize {
        self.row_len() + self.coordinates_shape().map_or(0, |shape| shape.iter().product())
    }

    /// Bytes of one row as a processor writes it.
    fn row_bytes(&self, dtype: DType) -> usize {
        self.sparse_row(dtype).map_or(self.row_len() * dtype.size(), |row| row.bytes())
    }
}

/// The JSON of a setting. A float of 32 bits is the shortest number that means it, and not the float of 64 bits that
/// is nearest to it.
fn json_of(setting: &impl Serialize) -> Value {
    let text = serde_json::to_string(setting);
    text.and_then(|text| serde_json::from_str(&text)).unwrap_or_default()
}

/// A mapping without some of its keys.
fn without(mut mapping: Value, keys: &[&str]) -> Value {
    if let Some(map) = mapping.as_object_mut() {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
    mapping
}

/// Meaning of a segment of rows, as `FusedTensorInfo` says it. A field that does not apply is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meaning {
    /// Per channel: mean and standard deviation of the normalisation.
    pub mean: Vec<f32>,
    /// See `mean`.
    pub std: Vec<f32>,
    /// Lower corner of the grid in its frame \[m\].
    pub origin_m: Vec<f64>,
    /// Edge of a cell \[m\].
    pub size_m: f32,
    /// Per channel: its unit after operators.
    pub units: Vec<String>,
    /// Per channel: its operators as JSON.
    pub operators: Vec<String>,
    /// Order of the dimensions of an image.
    pub layout: &'static str,
    /// The filters of the resizes.
    pub filters: Vec<&'static str>,
}

/// How a row is drawn for people.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawn {
    /// Not at all: it holds nothing that can be seen.
    Nothing,
    /// It could be seen, but no drawing shows it. This says what it is.
    Hidden(&'static str),
    /// As pixels.
    Colors {
        /// Which channels a pixel has.
        color: Color,
        /// Order of the dimensions.
        layout: ImageLayout,
        /// Width and height \[px\].
        size: [usize; 2],
        /// Mean and standard deviation of each channel.
        normalisation: [[f32; 3]; 2],
    },
    /// As distances.
    Distances {
        /// Width and height \[px\].
        size: [usize; 2],
        /// The value of a pixel without a distance \[m\].
        fill_m: f32,
    },
    /// As cubes.
    Cubes(Cubes),
}

/// Cells that are drawn as cubes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cubes {
    /// The cells.
    pub grid: Grid,
    /// Channels of a cell.
    pub channels: usize,
    /// The channel that gives the colour; `None`: the height does.
    pub colored_by: Option<usize>,
}

/// Checks a size against its limit; `found` and `most` are in `unit`.
fn within(key: &str, most: usize, found: u64, unit: &str) -> Result<(), Rejected> {
    if found <= most as u64 {
        return Ok(());
    }
    let detail = format!("{key}: expected at most {most} {unit}, found {found}");
    Err(Rejected::new(DropReason::TooLarge, detail))
}

/// The keys that bound an image.
fn image_limits(bounds: Bounds) -> Vec<(&'static str, usize)> {
    vec![("image.max_width_px", bounds.max_width_px), ("image.max_height_px", bounds.max_height_px)]
}

/// Checks that an image is within these bounds.
fn check_image(width: usize, height: usize, bounds: Bounds) -> Result<(), Rejected> {
    within("image.max_width_px", bounds.max_width_px, width as u64, "px")?;
    within("image.max_height_px", bounds.max_height_px, height as u64, "px")
}
