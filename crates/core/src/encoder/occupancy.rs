//! Maps of what is free and what is occupied, cropped around a frame.

use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::{CpuCode, CpuEncoder, Drawn, EncodeError, Encoder, EncoderSetup, Meaning, map, within};
use crate::rejected::Rejected;
use crate::sample::{Bounds, PlacedSample, Sample, SampleKind};
use robocache_ops::align::Slot;
use robocache_ops::dtype::DType;
use robocache_ops::image::{Color, ImageLayout};
use robocache_ops::occupancy::OccupancySpec;
use robocache_ops::occupancy::cpu::OccupancyEncoder;
use robocache_ops::voxelize::PointDrops;

const MAX_WIDTH: &str = "occupancy.max_width_cells";
const MAX_HEIGHT: &str = "occupancy.max_height_cells";

impl Encoder for OccupancySpec {
    fn kind(&self) -> &'static str {
        "occupancy"
    }

    fn plural(&self) -> &'static str {
        "maps"
    }

    fn takes(&self) -> SampleKind {
        SampleKind::Map
    }

    fn dtypes(&self) -> &'static [DType] {
        &[DType::F32, DType::F16, DType::Bf16, DType::U8]
    }

    fn row_shape(&self) -> Vec<usize> {
        map::row_shape(self.width, self.height)
    }

    fn axes(&self) -> &'static [&'static str] {
        map::AXES
    }

    fn channels(&self) -> Vec<String> {
        vec!["occupancy".to_owned()]
    }

    fn contents(&self, _: DType) -> String {
        let OccupancySpec { free, occupied, unknown, .. } = self;
        format!(
            "occupancy: free {free}, occupied {occupied}, unknown {unknown}; row 0 at the least y"
        )
    }

    fn meaning(&self, _: DType) -> Meaning {
        map::meaning(self.width, self.height, self.resolution_m)
    }

    /// Free is white, and occupied is black.
    fn drawn(&self, dtype: DType) -> Drawn {
        let span = self.free - self.occupied;
        if span == 0.0 {
            return Drawn::Hidden("a map whose free and occupied cells are the same");
        }
        if dtype == DType::U8 {
            return Drawn::Hidden("a map of bytes, whose values are no shades");
        }
        Drawn::Colors {
            color: Color::Mono,
            layout: ImageLayout::Chw,
            size: [self.width, self.height],
            // A byte is `255 * (std * value + mean)`.
            normalisation: [[-self.occupied / span; 3], [1.0 / span; 3]],
        }
    }

    fn limits(&self, bounds: Bounds) -> Vec<(&'static str, usize)> {
        vec![(MAX_WIDTH, bounds.max_width_px), (MAX_HEIGHT, bounds.max_height_px)]
    }

    fn check(&self, sample: &Sample<'_>, bounds: Bounds) -> Result<(), Rejected> {
        let Sample::Map(view) = sample else { return Ok(()) };
        within(MAX_WIDTH, bounds.max_width_px, view.width as u64, "cells")?;
        within(MAX_HEIGHT, bounds.max_height_px, view.height as u64, "cells")
    }

    fn settings(&self, _: DType) -> Value {
        super::json_of(self)
    }

    /// There is no CUDA twin: a core encodes a map, and only its row goes to a GPU.
    fn cpu(&self, setup: EncoderSetup) -> CpuCode<'_> {
        CpuCode::Rows(Box::new(OccupancyEncoder::new(self, setup.dtype)))
    }
}

impl CpuEncoder for OccupancyEncoder {
    fn encode(
        &mut self,
        placed: &PlacedSample<'_>,
        _: Slot,
        row: &mut [u8],
        overtaken: Option<&AtomicBool>,
    ) -> Result<Option<PointDrops>, EncodeError> {
        let Sample::Map(view) = &placed.sample else { return Err(EncodeError::WrongKind) };
        Ok(self
            .encode_unless(overtaken, &placed.placement.map(view), row)
            .then(PointDrops::default))
    }
}
