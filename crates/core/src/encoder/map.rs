//! Rows of the part of a map around a frame: what all encoders of maps share.

use super::Meaning;

/// The dimensions of a row.
pub(super) const AXES: &[&str] = &["channel", "y", "x"];

/// Returns the shape of a row with one channel.
pub(super) fn row_shape(width: usize, height: usize) -> Vec<usize> {
    vec![1, height, width]
}

/// Describes a row. Its lower corner is in the frame that it is centred on.
pub(super) fn meaning(width: usize, height: usize, resolution_m: f64) -> Meaning {
    let corner = |cells: usize| -(cells as f64 / 2.0) * resolution_m;
    Meaning {
        origin_m: vec![corner(width), corner(height)],
        size_m: resolution_m as f32,
        ..Meaning::default()
    }
}
