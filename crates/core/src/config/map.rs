//! The part of a map that becomes a row, and how large maps may be: what all encoders of maps share.

use super::check::{Check, Range};
use crate::sample::Bounds;
use crate::spec::InFrame;

/// Most cells of a row along one axis.
const MAX_SIDE: usize = 4096;
/// Most cells of a map along one axis.
const MAX_CELLS: usize = 1 << 15;
/// A map of 200 m at 5 cm.
const CELLS: i64 = 4096;
/// How far a size may be from a whole number of cells.
const MAX_REST: f64 = 1e-6;

/// The part of a map around a frame.
pub(super) struct Crop {
    pub width: usize,
    pub height: usize,
    pub resolution_m: f64,
}

/// Validates `size_m` and `resolution_m` of the mapping at `key`.
pub(super) fn crop(
    check: &mut Check<'_>,
    key: &str,
    size_m: Option<&Vec<f64>>,
    resolution_m: Option<f64>,
) -> Option<Crop> {
    let at = |name: &str| format!("{key}.{name}");
    let resolution_m = check
        .required(&at("resolution_m"), resolution_m, "the edge of a cell in metres")
        .and_then(|metres| check.number(&at("resolution_m"), metres, Range::POSITIVE_M));
    let size_m = check
        .required(&at("size_m"), size_m, "[x, y], the size of the row in metres")
        .and_then(|size| check.numbers::<2>(&at("size_m"), size, Range::POSITIVE_M));
    let resolution_m = resolution_m?;
    let [x_m, y_m] = size_m?;
    let width = side(check, &at("size_m[0]"), x_m, resolution_m);
    let height = side(check, &at("size_m[1]"), y_m, resolution_m);
    Some(Crop { width: width?, height: height?, resolution_m })
}

/// Validates `max_width_cells` and `max_height_cells` of the mapping at `key`.
pub(super) fn bounds(
    check: &mut Check<'_>,
    key: &str,
    width: Option<i64>,
    height: Option<i64>,
) -> Option<Bounds> {
    let mut cells = |name: &str, given: Option<i64>| {
        check.integer(&format!("{key}.{name}"), given.unwrap_or(CELLS), 1, MAX_CELLS)
    };
    let max_width_px = cells("max_width_cells", width);
    let max_height_px = cells("max_height_cells", height);
    Some(Bounds { max_width_px: max_width_px?, max_height_px: max_height_px?, ..Bounds::default() })
}

/// Validates `frame` of the mapping at `key`: rows are centred on it, by the tree of frames. `None` if it is wrong, which is
/// reported.
pub(super) fn frame(
    check: &mut Check<'_>,
    key: &str,
    frame: Option<String>,
    base_frame: &str,
) -> Option<InFrame> {
    let frame = match frame {
        Some(frame) => check.frame_id(&format!("{key}.frame"), frame)?,
        None => base_frame.to_owned(),
    };
    Some(InFrame { frame, parts: Vec::new() })
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
