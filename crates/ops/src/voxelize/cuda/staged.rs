//! A cloud in the staging memory: its points, and behind them the tables that kernels read.

use super::deskew::StagedSweep;
use super::job;
use crate::device::shared::voxelize::Shape;
use crate::device::shared::voxelize::deskew::Knot;
use crate::voxelize::memory::tables_at;
use crate::voxelize::{FieldAt, PointsView};

/// How the points in the staging memory are laid out.
#[derive(Default)]
pub(super) struct Staged {
    pub width: usize,
    pub height: usize,
    pub point_step: usize,
    pub row_step: usize,
    pub big_endian: bool,
    pub fields: Vec<FieldAt>,
    pub t_base_sensor: [[f64; 4]; 3],
    pub sweep: Option<StagedSweep>,
    /// The knots of the sweep.
    pub knots: Vec<Knot>,
    /// The shapes of the filter.
    pub shapes: Vec<Shape>,
}

impl Staged {
    /// Bytes of the upload.
    pub(super) fn len(&self) -> usize {
        let points = self.point_bytes();
        let tables = self.knot_bytes() + self.shape_bytes();
        if tables == 0 { points } else { tables_at(points) + tables }
    }

    /// Bytes of the points.
    pub(super) fn point_bytes(&self) -> usize {
        job::byte_len(&self.view())
    }

    fn knot_bytes(&self) -> usize {
        size_of_val(self.knots.as_slice())
    }

    fn shape_bytes(&self) -> usize {
        size_of_val(self.shapes.as_slice())
    }

    /// Start of the shapes in the upload \[bytes\].
    pub(super) fn shapes_at(&self) -> usize {
        tables_at(self.point_bytes()) + self.knot_bytes()
    }

    /// The cloud, without its bytes and its sweep.
    pub(super) fn view(&self) -> PointsView<'_> {
        PointsView {
            width: self.width,
            height: self.height,
            point_step: self.point_step,
            row_step: self.row_step,
            big_endian: self.big_endian,
            fields: &self.fields,
            t_base_sensor: self.t_base_sensor,
            t_shapes: &[],
            sweep: None,
            data: &[],
        }
    }
}
