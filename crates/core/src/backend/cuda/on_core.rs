//! Images and clouds that a core encodes into rows on the device.

use std::sync::Arc;

use super::NAME;
use crate::backend::{BackendError, encode_error};
use crate::encoder::CpuEncoder;
use crate::sample::PlacedSample;
use robocache_ops::align::Slot;
use robocache_ops::device::{Device, RowPlace, Stream, Upload};
use robocache_ops::voxelize::PointDrops;

/// An encoder of the CPU, and the way of its rows to the device.
pub(super) struct OnCore {
    /// Every row is made in the same memory: its only slot.
    encoder: Box<dyn CpuEncoder>,
    upload: Upload,
}

impl OnCore {
    /// For rows of `row_bytes`.
    pub(super) fn new(
        device: &Arc<Device>,
        encoder: Box<dyn CpuEncoder>,
        row_bytes: usize,
    ) -> Result<Self, BackendError> {
        Ok(OnCore { encoder, upload: Upload::new(device, row_bytes)? })
    }

    /// Encodes a sample, and puts the row's way to the bytes of `rows` from `at` on, on `stream`.
    pub(super) fn encode(
        &mut self,
        placed: &PlacedSample<'_>,
        place: RowPlace<'_>,
        stream: &Stream,
    ) -> Result<PointDrops, BackendError> {
        let row = self.upload.row()?;
        let encoded =
            self.encoder.encode(placed, Slot::new(0), row, None).map_err(encode_error(NAME))?;
        self.upload.send(place.rows, place.at, stream)?;
        Ok(encoded.unwrap_or_default())
    }
}
