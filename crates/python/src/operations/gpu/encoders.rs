//! Clouds and images.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use robocache_ops::align::Slot;
use robocache_ops::device::{DeviceError, Inputs, Stream};
use robocache_ops::dtype::DType;
use robocache_ops::image::Encoding;
use robocache_ops::image::cuda::{DeviceImage, ImageEncoder};
use robocache_ops::pool::Pool;
use robocache_ops::voxelize::batch::Clouds;
use robocache_ops::voxelize::cuda::{DevicePoints, EncodeError, Scatter, Voxelizer, Words};
use robocache_ops::voxelize::{PointDrops, VoxelSpec};

use super::devices::{Gpu, stream_of};
use crate::errors::{failed, wrong};
use crate::operations::{ImageRule, Place, VoxelRule};

/// Key of a voxelizer: the rule's specification and element type, and the most points.
type VoxelKey = (VoxelSpec, DType, usize);
/// Key of an encoder of images: the rule, the size of an image, and the stream.
type ImageKey = (u64, [usize; 2], u64);

/// Encoders that no call uses now.
pub(super) type Voxelizers = Pool<(VoxelKey, Voxelizer)>;
pub(super) type Images = Pool<(ImageKey, ImageEncoder)>;

/// Encoders that are kept of each kind: they have memory of their own.
pub(super) const MOST: usize = 4;

/// Takes the encoder for `key`, or makes one, and uses it. If that fails, the encoder is not used again.
fn with<K: PartialEq, V, T, E: From<DeviceError>>(
    free: &Pool<(K, V)>,
    key: K,
    make: impl FnOnce() -> Result<V, DeviceError>,
    act: impl FnOnce(&mut V) -> Result<T, E>,
) -> Result<T, E> {
    let mut encoder = match free.take(|(other, _)| *other == key) {
        Some((_, encoder)) => encoder,
        None => make()?,
    };
    let result = act(&mut encoder)?;
    free.put((key, encoder), 1);
    Ok(result)
}

/// A graph would use memory of an encoder after it was freed, or beside another call.
fn expect_no_capture(stream: &Stream, name: &str) -> PyResult<()> {
    match stream.is_capturing() {
        Ok(false) => Ok(()),
        _ => Err(PyRuntimeError::new_err(format!(
            "{name}: expected no capture of a CUDA graph, as the operation has memory of its own"
        ))),
    }
}

/// Writes the grids of clouds on the caller's stream, and waits for each: what happened to the points is
/// known only then.
pub(crate) fn voxelize(
    py: Python<'_>,
    place: Place,
    rule: &VoxelRule,
    clouds: &Clouds<'_>,
    points: usize,
    out: usize,
    row_bytes: usize,
) -> PyResult<Vec<PointDrops>> {
    let aligned = out.is_multiple_of(16) && (clouds.len() < 2 || row_bytes.is_multiple_of(16));
    if !aligned {
        return Err(wrong("out: expected grids at multiples of 16 bytes"));
    }
    let counts = clouds.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
    let most = counts.max().unwrap_or(0).next_power_of_two();
    let gpu = py.detach(|| Gpu::of(place.0)).map_err(failed)?;
    let stream = stream_of(&gpu.device, place);
    expect_no_capture(&stream, "voxelize")?;
    let make = || Voxelizer::new(&gpu.device, &rule.spec, rule.dtype, 1, most);
    let all = |voxelizer: &mut Voxelizer| {
        let run = |at| encode_cloud(voxelizer, clouds, at, points, out, row_bytes, &stream);
        (0..clouds.len()).map(run).collect()
    };
    let key = (rule.spec.clone(), rule.dtype, most);
    py.detach(|| with(&gpu.voxelizers, key, make, all)).map_err(|error| match error {
        EncodeError::Cloud(error) => wrong(error),
        EncodeError::Device(error) => failed(error),
    })
}

fn encode_cloud(
    voxelizer: &mut Voxelizer,
    clouds: &Clouds<'_>,
    at: usize,
    points: usize,
    out: usize,
    row_bytes: usize,
    stream: &Stream,
) -> Result<PointDrops, EncodeError> {
    let [first, end] = [0, 1].map(|next| clouds.offsets[at + next] as usize);
    let count = end - first;
    let points = DevicePoints {
        address: (points + first * clouds.point_step) as u64,
        width: count,
        height: 1,
        point_step: clouds.point_step,
        row_step: count * clouds.point_step,
        big_endian: false,
        fields: clouds.fields,
        t_base_sensor: clouds.t_base_sensor,
        t_shapes: &[],
    };
    let row = (out + at * row_bytes) as u64;
    voxelizer.forget(Slot::new(0), stream)?;
    // SAFETY: Python's side has checked the shapes, and keeps the arrays until the cloud is done. Nothing is on
    // another stream, because each call waits for its clouds.
    unsafe { voxelizer.launch(&points, Slot::new(0), row, Inputs::Ready, stream)? };
    voxelizer.finish(stream)
}

/// Puts counts or marks of clouds on the caller's stream, `[clouds, x, y, z]` in words of 32 bits. `clouds` are the
/// address of the points, how many clouds there are, and the points of each. `mark` is the word of an occupied voxel, or
/// 0 for counts. False, without a launch, if `f32` does not hold the coordinates.
#[pyfunction]
pub(crate) fn scatter(
    py: Python<'_>,
    place: Place,
    rule: &VoxelRule,
    clouds: (usize, usize, usize),
    out: u64,
    mark: u32,
) -> PyResult<bool> {
    let (address, clouds, count) = clouds;
    let points = DevicePoints {
        address: address as u64,
        width: count,
        height: 1,
        point_step: rule.point_step,
        row_step: count * rule.point_step,
        big_endian: false,
        fields: &rule.fields,
        t_base_sensor: rule.t_base_sensor,
        t_shapes: &[],
    };
    let grid = &rule.spec.grid;
    if !Scatter::takes(&points, grid) {
        return Ok(false);
    }
    let [_, y, z] = grid.shape;
    let words = if mark == 0 { Words::Counts } else { Words::Marks(mark) };
    let to = (out, [y * z, z, 1], words);
    py.detach(|| {
        let gpu = Gpu::of(place.0)?;
        let stream = stream_of(&gpu.device, place);
        // SAFETY: Python's side has checked the shapes. The caller's stream orders the launch with the use and the
        // release of the arrays. The strides are those of an array `[x, y, z]`.
        unsafe { gpu.scatter()?.launch(&points, clouds, grid, to, &stream) }
    })
    .map_err(failed)?;
    Ok(true)
}

/// Puts the rows of images on the caller's stream.
pub(crate) fn encode_images(
    py: Python<'_>,
    place: Place,
    rule: &ImageRule,
    (address, count): (usize, usize),
    (encoding, height, width): (Encoding, usize, usize),
    out: usize,
) -> PyResult<()> {
    let gpu = py.detach(|| Gpu::of(place.0)).map_err(failed)?;
    let stream = stream_of(&gpu.device, place);
    expect_no_capture(&stream, "encode_image")?;
    let make = || ImageEncoder::new(&gpu.device, &rule.spec, rule.dtype, [width, height]);
    let step = width * encoding.bytes_per_pixel();
    let all = |encoder: &mut ImageEncoder| {
        for at in 0..count {
            let address = (address + at * step * height) as u64;
            let image = DeviceImage { address, encoding, width, height, step };
            let row = (out + at * encoder.row_bytes()) as u64;
            // SAFETY: Python's side has checked the shapes. The caller's stream orders the launches with
            // the use and the release of the arrays; an encoder is for one stream.
            unsafe { encoder.launch(&image, row, Inputs::Ready, &stream)? };
        }
        Ok::<_, DeviceError>(())
    };
    let key = (rule.id, [width, height], place.1);
    py.detach(|| with(&gpu.images, key, make, all)).map_err(failed)
}
