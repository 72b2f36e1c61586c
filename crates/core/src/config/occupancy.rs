//! How maps become rows: the key `occupancy`.

use super::check::{Check, Range};
use super::map;
use super::mapping::{mapping, read_words};
use crate::sample::Bounds;
use crate::spec::InFrame;
use robocache_ops::dtype::DType;
use robocache_ops::occupancy::{Between, MAX_PERCENT, OccupancySpec};

/// The thresholds of nav2_map_server \[%\].
const FREE_MAX: i64 = 25;
const OCCUPIED_MIN: i64 = 65;
const F32: Range = Range::from(f32::MIN as f64, f32::MAX as f64);

mapping! { RawOccupancy {
    size_m: Vec<f64>,
    resolution_m: f64,
    frame: String,
    free: f64,
    occupied: f64,
    unknown: f64,
    free_max: i64,
    occupied_min: i64,
    between: Between,
    max_width_cells: i64,
    max_height_cells: i64,
} }

read_words! { Between }

/// Validates the key `occupancy` of the stream at `key`: what a map becomes, and how large it may be.
pub(super) fn occupancy(
    check: &mut Check<'_>,
    key: &str,
    raw: RawOccupancy,
    dtype: DType,
    base_frame: &str,
) -> Option<(OccupancySpec, Bounds, Option<InFrame>)> {
    let key = format!("{key}.occupancy");
    let at = |name: &str| format!("{key}.{name}");
    let crop = map::crop(check, &key, raw.size_m.as_ref(), raw.resolution_m);
    let bounds = map::bounds(check, &key, raw.max_width_cells, raw.max_height_cells);
    let centre = map::frame(check, &key, raw.frame, base_frame);
    let mut value = |name: &str, given: Option<f64>, default: f64| {
        value(check, &at(name), given.unwrap_or(default), dtype)
    };
    let free = value("free", raw.free, 0.0);
    let occupied = value("occupied", raw.occupied, 1.0);
    let unknown = value("unknown", raw.unknown, 0.5);
    let mut percent = |name: &str, given: Option<i64>, default: i64| {
        check.integer(&at(name), given.unwrap_or(default), 0, usize::from(MAX_PERCENT))
    };
    let free_max = percent("free_max", raw.free_max, FREE_MAX);
    let occupied_min = percent("occupied_min", raw.occupied_min, OCCUPIED_MIN);
    let free_max = free_max?;
    let occupied_min = occupied_min?;
    if occupied_min <= free_max {
        let expected = format!("a probability greater than free_max ({free_max})");
        check.fail_found(&at("occupied_min"), expected, occupied_min.to_string());
        return None;
    }
    let map::Crop { width, height, resolution_m } = crop?;
    let spec = OccupancySpec {
        width,
        height,
        resolution_m,
        free: free?,
        occupied: occupied?,
        unknown: unknown?,
        free_max: free_max as u8,
        occupied_min: occupied_min as u8,
        between: raw.between.unwrap_or_default(),
    };
    // Cells in between get a value in between.
    if !(spec.occupied - spec.free).is_finite() {
        let found = format!("{} and {}", spec.free, spec.occupied);
        let expected = "values whose difference fits f32";
        check.fail_found(&at("occupied"), expected, found);
        return None;
    }
    Some((spec, bounds?, centre))
}

/// A value of cells. Rows of `dtype` hold it: as it is, if they hold bytes.
fn value(check: &mut Check<'_>, key: &str, value: f64, dtype: DType) -> Option<f32> {
    let value = check.number(key, value, F32)?;
    let whole = dtype != DType::U8 || value.fract() == 0.0;
    if whole && dtype.holds(value as f32) {
        return Some(value as f32);
    }
    let expected = match dtype {
        DType::U8 => "a whole number from 0 to 255, since dtype is u8".to_owned(),
        _ => format!("a number that fits {}", dtype.name()),
    };
    check.fail_found(key, expected, value.to_string());
    None
}
