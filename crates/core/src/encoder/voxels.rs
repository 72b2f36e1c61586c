//! Clouds of points, as voxels.

use std::sync::atomic::AtomicBool;

use serde_json::Value;

#[cfg(feature = "cuda")]
use super::CudaEncoder;
use super::{
    CpuCode, CpuEncoder, Cubes, Drawn, EncodeError, Encoder, EncoderSetup, EncoderSpec, Meaning,
    within,
};
use crate::rejected::Rejected;
use crate::sample::{Bounds, PlacedSample, Sample, SampleKind};
use robocache_ops::align::Slot;
use robocache_ops::dtype::DType;
use robocache_ops::voxelize::cpu::{Condenser, Voxelizer};
use robocache_ops::voxelize::{
    COORDINATES_OF_VOXEL, Filter, PointDrops, PointsView, Reduction, SparseRow, VoxelSpec,
    extra_fields, memory,
};
#[cfg(feature = "cuda")]
use {
    robocache_ops::device::{Device, DeviceError, RowPlace, Stream},
    robocache_ops::voxelize::cuda,
    std::sync::Arc,
};

/// The key that bounds a cloud.
const MAX_POINTS: &str = "cloud.max_points";

impl Encoder for VoxelSpec {
    fn kind(&self) -> &'static str {
        super::kind::VOXELS
    }

    fn plural(&self) -> &'static str {
        "voxel grids"
    }

    fn takes(&self) -> SampleKind {
        SampleKind::Points
    }

    fn row_shape(&self) -> Vec<usize> {
        match (self.max_voxels, self.grid.shape) {
            (Some(most), _) => vec![most, self.channels.len()],
            (None, [x, y, z]) => vec![self.channels.len(), z, y, x],
        }
    }

    fn axes(&self) -> &'static [&'static str] {
        match self.max_voxels {
            Some(_) => &["voxel", "channel"],
            None => &["channel", "z", "y", "x"],
        }
    }

    fn channels(&self) -> Vec<String> {
        self.channels.iter().map(Reduction::label).collect()
    }

    fn meaning(&self, _: DType) -> Meaning {
        Meaning {
            origin_m: self.grid.origin_m.to_vec(),
            size_m: self.grid.size_m,
            ..Meaning::default()
        }
    }

    /// The colour says the first channel that is a value of the points, or else the count, or else the height.
    fn drawn(&self, _: DType) -> Drawn {
        if self.max_voxels.is_some() {
            return Drawn::Hidden("a sparse grid");
        }
        let is_value =
            |channel: &Reduction| !matches!(channel, Reduction::Count | Reduction::Occupancy);
        let first = |wanted: &dyn Fn(&Reduction) -> bool| self.channels.iter().position(wanted);
        let count = || first(&|channel| *channel == Reduction::Count);
        let colored_by = first(&is_value).or_else(count);
        Drawn::Cubes(Cubes { grid: self.grid, channels: self.channels.len(), colored_by })
    }

    fn limits(&self, bounds: Bounds) -> Vec<(&'static str, usize)> {
        vec![(MAX_POINTS, bounds.max_points)]
    }

    fn check(&self, sample: &Sample<'_>, bounds: Bounds) -> Result<(), Rejected> {
        let Sample::Points(view) = sample else { return Ok(()) };
        within(MAX_POINTS, bounds.max_points, view.points(), "points")
    }

    fn message_bytes(&self, dtype: DType, bounds: Bounds) -> [usize; 2] {
        let points = bounds.max_points;
        let columns = 3 + extra_fields(self).count();
        let sweep = if bounds.swept { memory::sweep_bytes(points) } else { 0 };
        let shapes = memory::shape_bytes(self.filter.shapes.len());
        let upload = memory::upload_bytes(columns, points) + sweep + shapes;
        // Points are sorted for channels that have values, or if more is asked for. Others go into buckets.
        let valued = self.channels.iter().any(|channel| channel.feature().is_some());
        let channels = self.channels.len();
        let volume = self.grid.volume();
        let mut sorted = 0;
        if valued || self.is_sifted() {
            sorted += memory::SortedBytes::most(points, channels, volume).total();
            sorted += memory::last_bytes(points, self.last_channels());
        } else {
            sorted += memory::most_bucket_bytes(points);
        }
        if let Some(row) = SparseRow::new(self, dtype) {
            sorted += memory::ListBytes::total(points, volume, row.feature_bytes);
        }
        [upload + sorted, upload]
    }

    fn settings(&self, _: DType) -> Value {
        super::without(super::json_of(self), &["channels"])
    }

    fn cpu(&self, setup: EncoderSetup) -> CpuCode<'_> {
        let mut voxelizer = Voxelizer::new(self, setup.dtype, setup.slots);
        voxelizer.reserve(setup.bounds.max_points);
        CpuCode::Rows(Box::new(voxelizer))
    }

    #[cfg(feature = "cuda")]
    fn cuda(
        &self,
        device: &Arc<Device>,
        setup: EncoderSetup,
    ) -> Result<Option<Box<dyn CudaEncoder>>, DeviceError> {
        let EncoderSetup { dtype, slots, bounds } = setup;
        let voxelizer = cuda::Voxelizer::new(device, self, dtype, slots, bounds.max_points)?;
        Ok(Some(Box::new(match bounds.swept {
            true => voxelizer.with_sweeps(device, bounds.max_points)?,
            false => voxelizer,
        })))
    }

    fn sparse_row(&self, dtype: DType) -> Option<SparseRow> {
        SparseRow::new(self, dtype)
    }

    fn coordinates_shape(&self) -> Option<Vec<usize>> {
        Some(vec![self.max_voxels?, COORDINATES_OF_VOXEL])
    }

    fn filter(&self) -> Option<&Filter> {
        Some(&self.filter)
    }

    fn condenser(&self) -> Option<Condenser> {
        Some(Condenser::new(self))
    }

    fn of_condensed(&self) -> Option<EncoderSpec> {
        Some(EncoderSpec::Voxels(VoxelSpec::of_condensed(self)))
    }
}

/// The cloud of a sample, with its place.
fn points_of<'a>(placed: &PlacedSample<'a>) -> Result<PointsView<'a>, EncodeError> {
    let Sample::Points(view) = &placed.sample else { return Err(EncodeError::WrongKind) };
    Ok(placed.placement.points(view))
}

impl CpuEncoder for Voxelizer {
    fn encode(
        &mut self,
        placed: &PlacedSample<'_>,
        slot: Slot,
        row: &mut [u8],
        overtaken: Option<&AtomicBool>,
    ) -> Result<Option<PointDrops>, EncodeError> {
        let view = points_of(placed)?;
        Ok(self.encode_unless(overtaken, &view, slot, row)?)
    }

    fn forget(&mut self, slot: Slot) {
        self.forget(slot);
    }
}

#[cfg(feature = "cuda")]
impl CudaEncoder for cuda::Voxelizer {
    fn encode(
        &mut self,
        placed: &PlacedSample<'_>,
        slot: Slot,
        row: RowPlace<'_>,
        stream: &Stream,
    ) -> Result<PointDrops, EncodeError> {
        let view = points_of(placed)?;
        Ok(self.encode(&view, slot, row, stream)?)
    }

    fn waits(&self) -> bool {
        true
    }

    fn stage(&mut self, placed: &PlacedSample<'_>) -> Result<(), EncodeError> {
        Ok(self.restage(&points_of(placed)?)?)
    }

    fn start(&mut self, row: RowPlace<'_>, stream: &Stream) -> Result<(), EncodeError> {
        Ok(self.start(Slot::new(0), row, stream)?)
    }

    fn finish(&mut self) -> Result<PointDrops, EncodeError> {
        self.settled();
        Ok(self.outcome()?)
    }

    fn operation(&self) -> &'static str {
        "voxelize a cloud"
    }
}
