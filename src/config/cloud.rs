//! How point clouds become voxel grids.

use nalgebra::{Matrix3, Quaternion, Rotation3, UnitQuaternion};

use super::check::{Check, Range, is_printable};
use super::raw::{RawChannel, RawCloud, RawTransform, Reduce};
use crate::ops::voxelize::{Grid, MAX_POINTS, Reduction, VoxelSpec};
use crate::spec::Bounds;

/// Most voxels along one axis.
const MAX_SIDE: usize = 4096;
/// Most elements of a row.
const MAX_ELEMENTS: usize = 1 << 28;
/// How far the length of a quaternion may be from 1.
const MAX_NORM_ERROR: f64 = 1e-3;
/// An `f32` coordinate must have at least this many steps within a voxel.
const PLACES_PER_VOXEL: f32 = 16.0;

/// Validates the key `cloud` of the stream at `key`: what a cloud becomes, and how large it may be.
pub(super) fn cloud(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<RawCloud>,
) -> Option<(VoxelSpec, Bounds)> {
    let key = format!("{key}.cloud");
    let keys = "a mapping with the keys `origin_m`, `size_m`, `shape` and `channels`";
    let raw = check.required(&key, raw, keys)?;
    let transform = raw.t_base_lidar.unwrap_or_default();
    let t_base_lidar = t_base_lidar(check, &format!("{key}.t_base_lidar"), transform);
    let channels = channels(check, &format!("{key}.channels"), raw.channels);
    let default = Bounds::default();
    let max_points = raw.max_points.unwrap_or(default.max_points as i64);
    let at = format!("{key}.max_points");
    let max_points = check.integer(&at, max_points, 1, MAX_POINTS as usize);
    let at = format!("{key}.origin_m");
    let origin_m = check
        .required(&at, raw.origin_m, "the lower corner [x, y, z] of the grid in metres")
        .and_then(|origin| check.numbers::<3>(&at, &origin, Range::ANY_M));
    let at = format!("{key}.size_m");
    let size_m = check
        .required(&at, raw.size_m, "the edge of a voxel in metres")
        .and_then(|size| check.number(&at, size, Range::POSITIVE_M));
    let shape = shape(check, &format!("{key}.shape"), raw.shape);
    let (channels, shape) = (channels?, shape?);
    let elements = channels.len() * shape.iter().product::<usize>();
    if elements > MAX_ELEMENTS {
        let expected = format!("at most {MAX_ELEMENTS} voxels times channels");
        check.fail_found(&format!("{key}.shape"), expected, elements.to_string());
        return None;
    }
    let (origin_m, size_m) = (origin_m?, size_m?);
    resolves(check, &at, origin_m, size_m, shape)?;
    let grid = Grid { origin_m: origin_m.map(|m| m as f32), size_m: size_m as f32, shape };
    let bounds = Bounds { max_points: max_points?, ..default };
    Some((VoxelSpec { grid, t_base_lidar: t_base_lidar?, channels }, bounds))
}

fn shape(check: &mut Check<'_>, key: &str, raw: Option<Vec<i64>>) -> Option<[usize; 3]> {
    let raw = check.required(key, raw, "the numbers of voxels along [x, y, z]")?;
    let Ok(sides) = <[i64; 3]>::try_from(raw) else {
        check.fail(key, "a list of 3 whole numbers");
        return None;
    };
    let mut side = |i: usize| check.integer(&format!("{key}[{i}]"), sides[i], 1, MAX_SIDE);
    let (x, y, z) = (side(0), side(1), side(2));
    Some([x?, y?, z?])
}

/// Checks that coordinates in `f32` resolve the voxels. They do not if the grid is far from the
/// origin or if the voxels are tiny.
fn resolves(
    check: &mut Check<'_>,
    key: &str,
    origin_m: [f64; 3],
    size_m: f64,
    shape: [usize; 3],
) -> Option<()> {
    let ends = (0..3).map(|axis| origin_m[axis] + size_m * shape[axis] as f64);
    let farthest = ends.chain(origin_m).map(f64::abs).fold(0.0, f64::max);
    // In f32, so that the check accepts the number that its message names.
    let resolution = farthest as f32 * f32::EPSILON;
    let least = (PLACES_PER_VOXEL * resolution).max(f32::MIN_POSITIVE);
    if size_m as f32 >= least {
        return Some(());
    }
    check.fail(key, format!("at least {least}: f32 resolves {farthest} m to {resolution} m"));
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
    let reduce = check.required(&at, raw.reduce, "one of count, occupancy, mean, max")?;
    let at = format!("{key}.field");
    match (reduce, raw.field) {
        (Reduce::Count, None) => Some(Reduction::Count),
        (Reduce::Occupancy, None) => Some(Reduction::Occupancy),
        (Reduce::Count | Reduce::Occupancy, Some(_)) => {
            check.fail(&at, "no such key with count or occupancy, which look at no field");
            None
        }
        (Reduce::Mean, Some(field)) if is_printable(&field) => Some(Reduction::Mean(field)),
        (Reduce::Max, Some(field)) if is_printable(&field) => Some(Reduction::Max(field)),
        (Reduce::Mean | Reduce::Max, _) => {
            check.fail(&at, "the name of a field of the cloud, such as intensity");
            None
        }
    }
}

/// `[R | t]`, computed in `f64` and rounded once.
fn t_base_lidar(check: &mut Check<'_>, key: &str, raw: RawTransform) -> Option<[[f32; 4]; 3]> {
    let translation = match raw.translation_m {
        Some(values) => check.numbers::<3>(&format!("{key}.translation_m"), &values, Range::ANY_M),
        None => Some([0.0; 3]),
    };
    let rotation = match (raw.rotation_xyzw, raw.rotation_rpy_deg) {
        (None, None) => Some(Matrix3::identity()),
        (Some(xyzw), None) => from_quaternion(check, &format!("{key}.rotation_xyzw"), &xyzw),
        (None, Some(rpy)) => from_rpy(check, &format!("{key}.rotation_rpy_deg"), &rpy),
        (Some(_), Some(_)) => {
            let expected = "only one of rotation_xyzw and rotation_rpy_deg";
            check.fail_found(&format!("{key}.rotation_rpy_deg"), expected, "both");
            None
        }
    };
    let (rotation, translation) = (rotation?, translation?);
    let row = |i: usize| {
        [rotation[(i, 0)], rotation[(i, 1)], rotation[(i, 2)], translation[i]].map(|v| v as f32)
    };
    Some([row(0), row(1), row(2)])
}

fn from_quaternion(check: &mut Check<'_>, key: &str, xyzw: &[f64]) -> Option<Matrix3<f64>> {
    let [x, y, z, w] = check.numbers::<4>(key, xyzw, Range::from(-2.0, 2.0))?;
    let quaternion = Quaternion::new(w, x, y, z);
    let norm = quaternion.norm();
    if (norm - 1.0).abs() > MAX_NORM_ERROR {
        check.fail_found(key, "a quaternion [x, y, z, w] of length 1", format!("length {norm:.4}"));
        return None;
    }
    let unit = UnitQuaternion::from_quaternion(quaternion);
    Some(unit.to_rotation_matrix().into_inner())
}

/// Roll, pitch and yaw about the fixed axes x, y and z, in this order: URDF's `rpy`, in degrees.
fn from_rpy(check: &mut Check<'_>, key: &str, rpy_deg: &[f64]) -> Option<Matrix3<f64>> {
    let degrees = check.numbers::<3>(key, rpy_deg, Range::from(-360.0, 360.0))?;
    let [roll, pitch, yaw] = degrees.map(f64::to_radians);
    Some(Rotation3::from_euler_angles(roll, pitch, yaw).into_inner())
}
