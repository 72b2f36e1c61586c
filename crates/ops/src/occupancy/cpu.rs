//! The part of a map around a robot into a row on the CPU.

use std::sync::atomic::{AtomicBool, Ordering};

use super::spec::OccupancySpec;
use crate::dtype::DType;
use crate::map::{CropToMap, MapView, centre};

/// Turns the maps of one stream into rows.
#[derive(Debug)]
pub struct OccupancyEncoder {
    spec: OccupancySpec,
    dtype: DType,
    /// The value of each number of a cell, by its bits.
    values: [f32; 256],
    /// One line of the row, before it is rounded.
    line: Vec<f32>,
}

impl OccupancyEncoder {
    /// An encoder into rows of `spec`, of element type `dtype`. The sides of the row are not 0.
    pub fn new(spec: &OccupancySpec, dtype: DType) -> Self {
        OccupancyEncoder {
            values: std::array::from_fn(|bits| spec.value(bits as u8 as i8)),
            line: vec![0.0; spec.width],
            spec: spec.clone(),
            dtype,
        }
    }

    /// Writes the row `[1, height, width]` of a map, unless `overtaken` becomes true, because the row is there from
    /// elsewhere. Then it stops at the next line of the row, returns false, and leaves anything in `row`. Allocates
    /// nothing.
    ///
    /// # Panics
    /// If `row` has not the length of a row, or the map's size does not fit its data, which [`MapView`] rules out.
    pub fn encode_unless(
        &mut self,
        overtaken: Option<&AtomicBool>,
        view: &MapView<'_>,
        row: &mut [u8],
    ) -> bool {
        let OccupancySpec { width, height, resolution_m, unknown, .. } = self.spec;
        let bytes = width * self.dtype.size();
        assert_eq!(row.len(), height * bytes, "occupancy: length mismatch");
        let to_map = CropToMap::new(view);
        for (j, out) in row.chunks_exact_mut(bytes).enumerate() {
            if overtaken.is_some_and(|overtaken| overtaken.load(Ordering::Relaxed)) {
                return false;
            }
            let y = centre(j, height, resolution_m);
            for (i, value) in self.line.iter_mut().enumerate() {
                let cell = to_map.cell(centre(i, width, resolution_m), y);
                *value = cell.map_or(unknown, |cell| self.values[usize::from(view.data[cell])]);
            }
            self.dtype.store(&self.line, out);
        }
        true
    }
}
