//! How maps become rows: the key `occupancy`.

use super::check::{Check, Range};
use super::mapping::{mapping, read_words};
use crate::sample::Bounds;
use crate::spec::InFrame;
use robocache_ops::dtype::DType;
use robocache_ops::occupancy::{Between, MAX_PERCENT, OccupancySpec};

/// Most cells of a row along one axis.
const MAX_SIDE: usize = 4096;
/// Most cells of a map along one axis.
const MAX_CELLS: usize = 1 << 15;
/// A map of 200 m at 5 cm.
const CELLS: i64 = 4096;
/// The thresholds of nav2_map_server \[%\].
const FREE_MAX: i64 = 25;
const OCCUPIED_MIN: i64 = 65;
/// How far a size may be from a whole number of cells.
const MAX_REST: f64 = 1e-6;
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
    raw: Option<RawOccupancy>,
    dtype: DType,
) -> Option<(OccupancySpec, Bounds)> {
    let key = format!("{key}.occupancy");
    let raw = check.required(&key, raw, "a mapping with the keys `size_m` and `resolution_m`")?;
    let at = |name: &str| format!("{key}.{name}");
    let resolution_m = check
        .required(&at("resolution_m"), raw.resolution_m, "the edge of a cell in metres")
        .and_then(|metres| check.number(&at("resolution_m"), metres, Range::POSITIVE_M));
    let size_m = check
        .required(&at("size_m"), raw.size_m.as_ref(), "[x, y], the size of the row in metres")
        .and_then(|size| check.numbers::<2>(&at("size_m"), size, Range::POSITIVE_M));
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
    let mut cells = |name: &str, given: Option<i64>| {
        check.integer(&at(name), given.unwrap_or(CELLS), 1, MAX_CELLS)
    };
    let max_width_px = cells("max_width_cells", raw.max_width_cells);
    let max_height_px = cells("max_height_cells", raw.max_height_cells);
    let (free_max, occupied_min) = (free_max?, occupied_min?);
    if occupied_min <= free_max {
        let expected = format!("a probability greater than free_max ({free_max})");
        check.fail_found(&at("occupied_min"), expected, occupied_min.to_string());
        return None;
    }
    let (resolution_m, [x_m, y_m]) = (resolution_m?, size_m?);
    let mut side = |axis: usize, size_m: f64| {
        side(check, &format!("{key}.size_m[{axis}]"), size_m, resolution_m)
    };
    let (width, height) = (side(0, x_m), side(1, y_m));
    let spec = OccupancySpec {
        width: width?,
        height: height?,
        resolution_m,
        free: free?,
        occupied: occupied?,
        unknown: unknown?,
        free_max: free_max as u8,
        occupied_min: occupied_min as u8,
        between: raw.between.unwrap_or_default(),
    };
    let (max_width_px, max_height_px) = (max_width_px?, max_height_px?);
    // Cells in between get a value in between.
    if !(spec.occupied - spec.free).is_finite() {
        let found = format!("{} and {}", spec.free, spec.occupied);
        let expected = "values whose difference fits f32";
        check.fail_found(&at("occupied"), expected, found);
        return None;
    }
    Some((spec, Bounds { max_width_px, max_height_px, ..Bounds::default() }))
}

/// The frame that rows are centred on, by the tree of frames; `None` if it is wrong, which is reported.
pub(super) fn frame(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<&RawOccupancy>,
    base_frame: &str,
) -> Option<InFrame> {
    let frame = match raw.and_then(|raw| raw.frame.clone()) {
        Some(frame) => check.frame_id(&format!("{key}.occupancy.frame"), frame)?,
        None => base_frame.to_owned(),
    };
    Some(InFrame { frame, parts: Vec::new() })
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

/// Cells of a row along an axis.
fn side(check: &mut Check<'_>, key: &str, size_m: f64, resolution_m: f64) -> Option<usize> {
    let cells = size_m / resolution_m;
    let whole = cells.round();
    if (1.0..=MAX_SIDE as f64).contains(&whole) && (cells - whole).abs() <= MAX_REST * whole {
        return Some(whole as usize);
    }
    let expected = format!("from 1 to {MAX_SIDE} whole cells of {resolution_m} m");
    check.fail_found(key, expected, format!("{size_m} m"));
    None
}
