//! How point clouds become voxel grids.

use super::check::{Check, Range, is_printable};
use super::filter::filter;
use super::raw::{GridOutput, RawChannel, RawCloud, RawFeature, Reduce};
use crate::input::laser_scan;
use crate::sample::Bounds;
use robocache_ops::voxelize::{
    COORDINATES_OF_VOXEL, Feature, Grid, MAX_POINTS, PLACES_PER_VOXEL, Reduction, VoxelSpec,
};

/// Most voxels along one axis.
const MAX_SIDE: usize = 4096;
/// Most elements of a row.
const MAX_ELEMENTS: usize = 1 << 28;

/// Validates the key `cloud` of the stream at `key`: what a cloud becomes, and how large it may be. A row holds clouds
/// of `inputs` inputs.
pub(super) fn cloud(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<RawCloud>,
    inputs: usize,
    base_frame: &str,
) -> Option<(VoxelSpec, Bounds)> {
    let key = format!("{key}.cloud");
    let keys = "a mapping with the keys `origin_m`, `size_m`, `shape` and `channels`";
    let mut raw = check.required(&key, raw, keys)?;
    let filter = filter(check, &key, &mut raw, base_frame);
    let output = raw.output;
    let given = raw.max_voxels;
    let min_points = raw.min_points.unwrap_or(1);
    let min_points =
        check.integer(&format!("{key}.min_points"), min_points, 1, MAX_POINTS as usize);
    let channels = channels(check, &format!("{key}.channels"), raw.channels);
    let default = Bounds::default();
    let most = MAX_POINTS as usize / inputs.max(1);
    let max_points = raw.max_points.unwrap_or(default.max_points.min(most) as i64);
    let at = format!("{key}.max_points");
    let max_points = check.integer(&at, max_points, 1, most);
    let at = format!("{key}.origin_m");
    let origin_m = check
        .required(&at, raw.origin_m, "the lower corner [x, y, z] of the grid in metres")
        .and_then(|origin| check.numbers::<3>(&at, &origin, Range::ANY_M));
    let at = format!("{key}.size_m");
    let size_m = check
        .required(&at, raw.size_m, "the edge of a voxel in metres")
        .and_then(|size| check.number(&at, size, Range::POSITIVE_M));
    let shape = shape(check, &format!("{key}.shape"), raw.shape);
    let channels = channels?;
    let shape = shape?;
    let max_voxels = max_voxels(check, &key, output, given, shape).ok()?;
    let volume = shape.iter().product::<usize>();
    let elements = match max_voxels {
        Some(most) => (channels.len() + COORDINATES_OF_VOXEL) * most,
        None => channels.len() * volume,
    };
    if elements.max(volume) > MAX_ELEMENTS {
        let more = if max_voxels.is_some() { " and coordinates (3)" } else { "" };
        let expected = format!("at most {MAX_ELEMENTS} voxels times channels{more}");
        check.fail_found(&format!("{key}.shape"), expected, elements.max(volume).to_string());
        return None;
    }
    let origin_m = origin_m?;
    let size_m = size_m?;
    let grid = Grid { origin_m, size_m: size_m as f32, shape };
    resolves(check, &at, &grid)?;
    let bounds = Bounds { max_points: max_points?, ..default };
    let min_points = min_points? as u32;
    let spec =
        VoxelSpec { filter: filter?, min_points, max_voxels, ..VoxelSpec::new(grid, channels) };
    Some((spec, bounds))
}

/// Marks that a problem has been reported.
struct Reported;

/// The greatest number of voxels of a sparse row; `None` for the whole grid.
fn max_voxels(
    check: &mut Check<'_>,
    key: &str,
    output: Option<GridOutput>,
    given: Option<i64>,
    shape: [usize; 3],
) -> Result<Option<usize>, Reported> {
    let at = format!("{key}.max_voxels");
    if output != Some(GridOutput::Sparse) {
        if given.is_some() {
            check.fail(&at, "no such key unless output is sparse");
            return Err(Reported);
        }
        return Ok(None);
    }
    let given = check.required(&at, given, "the greatest number of voxels of a row");
    let most = given.and_then(|given| check.integer(&at, given, 1, shape.iter().product()));
    most.map(Some).ok_or(Reported)
}

/// Checks that points of the type `ros_type` have these fields, where that is known before a message is.
pub(super) fn fields_exist(
    check: &mut Check<'_>,
    key: &str,
    ros_type: &str,
    fields: &[String],
) -> Option<()> {
    if ros_type != laser_scan::NAME {
        return Some(());
    }
    let known = |field: &&String| laser_scan::FIELDS.contains(&field.as_str());
    let Some(unknown) = fields.iter().find(|field| !known(field)) else { return Some(()) };
    let expected = "x, y, z, intensity or t, the fields of the points of a LaserScan";
    check.fail_found(key, expected, unknown);
    None
}

fn shape(check: &mut Check<'_>, key: &str, raw: Option<Vec<i64>>) -> Option<[usize; 3]> {
    let raw = check.required(key, raw, "the numbers of voxels along [x, y, z]")?;
    let Ok(sides) = <[i64; 3]>::try_from(raw) else {
        check.fail(key, "a list of 3 whole numbers");
        return None;
    };
    let mut side = |i: usize| check.integer(&format!("{key}[{i}]"), sides[i], 1, MAX_SIDE);
    let x = side(0);
    let y = side(1);
    let z = side(2);
    Some([x?, y?, z?])
}

/// Checks that coordinates in `f64` resolve the voxels. They do not if the voxels are tiny.
fn resolves(check: &mut Check<'_>, key: &str, grid: &Grid) -> Option<()> {
    let farthest = grid.farthest_m();
    let resolution = farthest * f64::EPSILON;
    let least = (f64::from(PLACES_PER_VOXEL) * resolution).max(f64::from(f32::MIN_POSITIVE));
    if f64::from(grid.size_m) >= least {
        return Some(());
    }
    check.fail(key, format!("at least {least}: f64 resolves {farthest} m to {resolution} m"));
    None
}

fn channels(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<Vec<RawChannel>>,
) -> Option<Vec<Reduction>> {
    let raw = check.required(key, raw, "a list of channels such as {reduce: count}")?;
    if raw.is_empty() {
        check.fail(key, "at least one channel");
        return None;
    }
    let mut channels: Vec<Option<Reduction>> = Vec::with_capacity(raw.len());
    for (i, raw) in raw.into_iter().enumerate() {
        let key = format!("{key}[{i}]");
        let channel = channel(check, &key, raw);
        let first = channels.iter().position(|other| channel.is_some() && *other == channel);
        if let Some(first) = first {
            check.fail(&key, format!("each channel only once (first at [{first}])"));
        }
        channels.push(channel);
    }
    channels.into_iter().collect()
}

fn channel(check: &mut Check<'_>, key: &str, raw: RawChannel) -> Option<Reduction> {
    let at = format!("{key}.reduce");
    let words = "one of count, occupancy, mean, max, min, sum, last";
    let reduce = check.required(&at, raw.reduce, words)?;
    if let Reduce::Count | Reduce::Occupancy = reduce {
        let given = [("field", raw.field.is_some()), ("feature", raw.feature.is_some())];
        if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
            let expected = "no such key with count or occupancy, which look at no field";
            check.fail(&format!("{key}.{name}"), expected);
            return None;
        }
    }
    let feature = |check: &mut Check<'_>| match (raw.field, raw.feature) {
        (Some(field), None) if is_printable(&field) => Some(Feature::Field(field)),
        (None, Some(feature)) => Some(match feature {
            RawFeature::Range => Feature::Range,
            RawFeature::Height => Feature::from("z"),
            RawFeature::OffsetX => Feature::Offset(0),
            RawFeature::OffsetY => Feature::Offset(1),
            RawFeature::OffsetZ => Feature::Offset(2),
        }),
        (Some(_), Some(_)) => {
            check.fail_found(&format!("{key}.feature"), "only one of field and feature", "both");
            None
        }
        (None, None) if check.is_unread(&format!("{key}.feature")) => None,
        _ => {
            let expected = "the name of a field of the cloud, such as intensity";
            check.fail(&format!("{key}.field"), expected);
            None
        }
    };
    Some(match reduce {
        Reduce::Count => Reduction::Count,
        Reduce::Occupancy => Reduction::Occupancy,
        Reduce::Mean => Reduction::Mean(feature(check)?),
        Reduce::Max => Reduction::Max(feature(check)?),
        Reduce::Min => Reduction::Min(feature(check)?),
        Reduce::Sum => Reduction::Sum(feature(check)?),
        Reduce::Last => Reduction::Last(feature(check)?),
    })
}
