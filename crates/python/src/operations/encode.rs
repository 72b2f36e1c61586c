//! Clouds and images to rows.

use pyo3::prelude::*;
use robocache_ops::dtype::DType;
use robocache_ops::image::batch::Images;
use robocache_ops::image::{
    Color, Crop, Encoding, Filter, Fit, ImageLayout, ImageSpec, MAX_RESIZES, MAX_SIDE, Resize,
};
use robocache_ops::voxelize::batch::Clouds;
use robocache_ops::voxelize::{
    Feature, FieldAt, FieldType, Grid, PointDrops, Reduction, VoxelSpec, extra_fields,
};
use robocache_ops::{image, voxelize};

use super::resample::threads;
use super::{Place, dtype, gpu};
use crate::dlpack::{values, values_mut};
use crate::errors::wrong;

/// How clouds become voxel grids.
#[pyclass(frozen, module = "robocache._native")]
pub struct VoxelRule {
    pub(super) spec: VoxelSpec,
    pub(super) dtype: DType,
    pub(super) fields: Vec<FieldAt>,
    pub(super) point_step: usize,
    pub(super) t_base_sensor: [[f64; 4]; 3],
}

#[pymethods]
impl VoxelRule {
    /// The rule for points of these `fields`, which are all float32, or float64 if `wide`. A channel is a reduction
    /// and the name of its feature, which is empty if it takes none.
    #[new]
    #[allow(clippy::too_many_arguments)] // as many as the operation has
    fn new(
        origin_m: [f64; 3],
        size_m: f64,
        shape: [usize; 3],
        channels: Vec<(String, String)>,
        fields: Vec<String>,
        wide: bool,
        min_points: u32,
        of_values: u32,
        t_base_sensor: [[f64; 4]; 3],
    ) -> PyResult<Self> {
        let grid = checked_grid(origin_m, size_m, shape)?;
        let channels = channels.iter().map(|channel| reduction(channel, &fields));
        let channels = channels.collect::<PyResult<Vec<_>>>()?;
        if channels.is_empty() || min_points == 0 {
            return Err(wrong("channels and min_points: expected at least one, found none"));
        }
        if t_base_sensor.as_flattened().iter().any(|number| !number.is_finite()) {
            return Err(wrong("t_base_sensor: expected finite numbers"));
        }
        let spec = VoxelSpec { min_points, ..VoxelSpec::new(grid, channels) };
        let (kind, size) = match wide {
            true => (FieldType::Float64, 8),
            false => (FieldType::Float32, 4),
        };
        let place = |name: &str| {
            let at = fields.iter().position(|field| field == name).ok_or_else(|| {
                let found = fields.join(", ");
                wrong(format!("fields: expected {name} among them, found {found}"))
            })?;
            Ok(FieldAt { offset: at * size, kind })
        };
        let names = ["x", "y", "z"].into_iter().chain(extra_fields(&spec));
        let used = names.map(place).collect::<PyResult<_>>()?;
        let dtype = dtype(of_values)?;
        let point_step = fields.len() * size;
        Ok(VoxelRule { spec, dtype, fields: used, point_step, t_base_sensor })
    }
}

fn checked_grid(origin_m: [f64; 3], size_m: f64, shape: [usize; 3]) -> PyResult<Grid> {
    let size_m = size_m as f32;
    let limit = 5e9;
    if !(size_m.is_finite() && size_m > 0.0) {
        return Err(wrong(format!("size_m: expected a positive number, found {size_m}")));
    }
    let volume = shape.iter().try_fold(1usize, |all, side| all.checked_mul(*side));
    let sides = shape.iter().all(|side| (1..=1 << 23).contains(side));
    if !sides || volume.is_none_or(|volume| volume > i32::MAX as usize) {
        return Err(wrong(format!("shape: expected 1 to 2^31 - 1 voxels, found {shape:?}")));
    }
    let grid = Grid { origin_m, size_m, shape };
    if origin_m.iter().any(|edge| !edge.is_finite()) || grid.farthest_m() > limit {
        return Err(wrong(format!(
            "origin_m: expected a grid within {limit:e} m, found {origin_m:?}"
        )));
    }
    Ok(grid)
}

fn reduction(channel: &(String, String), fields: &[String]) -> PyResult<Reduction> {
    let (word, feature) = channel;
    let taken = || match feature.as_str() {
        name if fields.iter().any(|field| field == name) => Ok(Feature::from(name)),
        "range" => Ok(Feature::Range),
        "offset_x" => Ok(Feature::Offset(0)),
        "offset_y" => Ok(Feature::Offset(1)),
        "offset_z" => Ok(Feature::Offset(2)),
        name => {
            let fields = fields.join(", ");
            let expected = format!("{fields}, range, offset_x, offset_y or offset_z");
            Err(wrong(format!("channels: expected a feature of {expected}, found {name:?}")))
        }
    };
    Ok(match (word.as_str(), feature.is_empty()) {
        ("count", true) => Reduction::Count,
        ("occupancy", true) => Reduction::Occupancy,
        ("mean", false) => Reduction::Mean(taken()?),
        ("max", false) => Reduction::Max(taken()?),
        ("min", false) => Reduction::Min(taken()?),
        ("sum", false) => Reduction::Sum(taken()?),
        ("last", false) => Reduction::Last(taken()?),
        _ => {
            let expected = "count, occupancy, or mean, max, min, sum or last of a feature";
            return Err(wrong(format!("channels: expected {expected}, found {word}({feature})")));
        }
    })
}

/// Counts of dropped points of a cloud: `non_finite`, `out_of_range`, `outside` and `too_few`.
type Dropped = [u64; 4];

fn dropped(drops: PointDrops) -> Dropped {
    [drops.non_finite, drops.out_of_range, drops.outside, drops.too_few]
}

/// Writes the grids of clouds: the address and the number of all points, and offsets that are on the host. Returns what happened to the points of each.
#[pyfunction(name = "voxelize")]
pub(crate) fn voxelize_clouds(
    py: Python<'_>,
    place: Place,
    rule: &VoxelRule,
    cloud_points: (usize, usize),
    offsets: Vec<i64>,
    out: usize,
) -> PyResult<Vec<Dropped>> {
    let (points, count) = cloud_points;
    let ends = (offsets.first().copied(), offsets.last().copied());
    if ends != (Some(0), Some(count as i64)) || offsets.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err(wrong(format!("offsets: expected them from 0 to {count}, without a decrease")));
    }
    let clouds = |data| Clouds {
        data,
        point_step: rule.point_step,
        fields: &rule.fields,
        t_base_sensor: rule.t_base_sensor,
        offsets: &offsets,
    };
    let VoxelRule { spec, dtype, .. } = rule;
    let row_bytes = spec.channels.len() * spec.grid.volume() * dtype.size();
    let drops = if place.0 >= 0 {
        gpu::voxelize(py, place, rule, &clouds(&[]), points, out, row_bytes)?
    } else {
        // SAFETY: Python's side has checked the shapes, and keeps the arrays until this returns.
        let (data, rows) = unsafe {
            let rows = values_mut::<u8>(out, row_bytes * (offsets.len() - 1));
            (values::<u8>(points, count * rule.point_step), rows)
        };
        py.detach(|| voxelize::batch::encode(spec, *dtype, &clouds(data), rows, threads(place)))
            .map_err(wrong)?
    };
    Ok(drops.into_iter().map(dropped).collect())
}

/// How images become rows.
#[pyclass(frozen, module = "robocache._native")]
pub struct ImageRule {
    pub(super) spec: ImageSpec,
    pub(super) dtype: DType,
    /// A number of its own.
    #[cfg(feature = "cuda")]
    pub(super) id: u64,
}

#[pymethods]
impl ImageRule {
    /// The rule. `sizes` are (height, width) of the resizes, one after the other; `crop` is x, y, width and height.
    #[new]
    #[allow(clippy::too_many_arguments)] // as many as the operation has
    fn new(
        sizes: Vec<(usize, usize)>,
        filter: &str,
        fit: &str,
        crop: Option<(usize, usize, usize, usize)>,
        layout: &str,
        color: &str,
        mean: [f32; 3],
        std: [f32; 3],
        pad_value: u8,
        of_values: u32,
    ) -> PyResult<Self> {
        let filter = named("filter", filter, Filter::ALL, Filter::name)?;
        let fits =
            [Fit::Stretch, Fit::PadCenter, Fit::PadTopLeft, Fit::CropCenter, Fit::CoverCenter];
        let fit = named("fit", fit, fits, Fit::name)?;
        let layout =
            named("layout", layout, [ImageLayout::Chw, ImageLayout::Hwc], ImageLayout::name)?;
        let color_name = |color: Color| match color {
            Color::Rgb => "rgb",
            Color::Bgr => "bgr",
            Color::Mono => "mono",
        };
        let color = named("color", color, [Color::Rgb, Color::Bgr, Color::Mono], color_name)?;
        let sides = |(height, width): (usize, usize)| {
            (1..=MAX_SIDE).contains(&height) && (1..=MAX_SIDE).contains(&width)
        };
        if !(1..=MAX_RESIZES).contains(&sizes.len()) || !sizes.iter().copied().all(sides) {
            return Err(wrong(format!(
                "size: expected 1 to {MAX_RESIZES} sizes of 1 to {MAX_SIDE} pixels, found {sizes:?}"
            )));
        }
        if let Some((x, y, width, height)) = crop
            && [x, y, width, height].iter().any(|side| *side > MAX_SIDE)
        {
            return Err(wrong(format!("crop: expected numbers up to {MAX_SIDE}, found {crop:?}")));
        }
        let finite = mean.iter().chain(&std).all(|number| number.is_finite());
        if !finite || std.iter().any(|number| *number <= 0.0) {
            return Err(wrong("mean and std: expected finite numbers, and a positive std"));
        }
        let dtype = dtype(of_values)?;
        if dtype == DType::I32 {
            return Err(wrong("dtype: expected float32, float16, bfloat16 or uint8, found int32"));
        }
        let resizes = sizes.into_iter().map(|(height, width)| Resize {
            filter,
            fit,
            ..Resize::to(width, height)
        });
        let spec = ImageSpec {
            crop: crop.map(|(x, y, width, height)| Crop { x, y, width, height }),
            layout,
            color,
            mean,
            std,
            pad_value,
            ..ImageSpec::new(resizes.collect())
        };
        #[cfg(feature = "cuda")]
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        Ok(ImageRule {
            spec,
            dtype,
            #[cfg(feature = "cuda")]
            id: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        })
    }

    /// The shape of a row.
    #[getter]
    fn shape(&self) -> [usize; 3] {
        self.spec.row_shape()
    }
}

fn named<T: Copy, const N: usize>(
    what: &str,
    name: &str,
    all: [T; N],
    name_of: impl Fn(T) -> &'static str,
) -> PyResult<T> {
    all.into_iter().find(|each| name_of(*each) == name).ok_or_else(|| {
        let names = all.map(&name_of).join(", ");
        wrong(format!("{what}: expected one of {names}, found {name}"))
    })
}

/// Writes the rows of images of one encoding: their address, number, height and width.
#[pyfunction]
pub(crate) fn encode_images(
    py: Python<'_>,
    place: Place,
    rule: &ImageRule,
    encoding: &str,
    images: (usize, usize, usize, usize),
    out: usize,
) -> PyResult<()> {
    let (address, count, height, width) = images;
    let encoding = named("encoding", encoding, Encoding::ALL, Encoding::name)?;
    if !(1..=MAX_SIDE).contains(&height) || !(1..=MAX_SIDE).contains(&width) {
        return Err(wrong(format!(
            "images: expected sides of 1 to {MAX_SIDE} pixels, found {height} x {width}"
        )));
    }
    let ImageRule { spec, dtype, .. } = rule;
    let has_part =
        spec.part(width, height).is_some_and(|part| part.iter().all(|side| !side.is_empty()));
    if !has_part {
        return Err(wrong(format!("crop: expected a part of {height} x {width} pixels")));
    }
    if place.0 >= 0 {
        return gpu::encode_images(
            py,
            place,
            rule,
            (address, count),
            (encoding, height, width),
            out,
        );
    }
    // SAFETY: Python's side has checked the shapes, and keeps the arrays until this returns.
    let (data, rows) = unsafe {
        let bytes = count * height * width * encoding.bytes_per_pixel();
        (values::<u8>(address, bytes), values_mut::<u8>(out, count * spec.row_len() * dtype.size()))
    };
    py.detach(|| {
        let images = Images { data, encoding, width, height };
        image::batch::encode(spec, *dtype, &images, rows, threads(place));
    });
    Ok(())
}
