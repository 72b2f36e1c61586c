//! Images and clouds that a core encodes into rows on the device.

use std::sync::Arc;

use super::NAME;
use crate::backend::{BackendError, wrong_kind};
use crate::sample::Sample;
use crate::spec::{EncoderSpec, StreamSpec};
use robocache_ops::align::Slot;
use robocache_ops::depth::cpu::DepthEncoder;
use robocache_ops::device::{Device, DeviceBuffer, Stream, Upload};
use robocache_ops::image::cpu::ImageEncoder;
use robocache_ops::voxelize::PointDrops;
use robocache_ops::voxelize::cpu::Voxelizer;

/// An encoder of the CPU, and the way of its rows to the device.
pub(super) struct OnCore {
    encoder: Encoder,
    upload: Upload,
}

enum Encoder {
    Image(Box<ImageEncoder>),
    Depth(DepthEncoder),
    Voxels(Box<Voxelizer>),
}

impl OnCore {
    /// For rows of `row_bytes`; `None` for vectors.
    pub fn new(
        device: &Arc<Device>,
        spec: &StreamSpec,
        row_bytes: usize,
    ) -> Result<Option<Self>, BackendError> {
        let encoder = match &spec.encoder {
            EncoderSpec::Vector(_) => return Ok(None),
            EncoderSpec::Image(image) => {
                Encoder::Image(Box::new(ImageEncoder::new(image, spec.dtype)))
            }
            EncoderSpec::Depth(depth) => Encoder::Depth(DepthEncoder::new(depth, spec.dtype)),
            EncoderSpec::Voxels(voxels) => {
                // Every row is made in the same memory.
                let mut encoder = Voxelizer::new(voxels, spec.dtype, 1);
                encoder.reserve(spec.bounds.max_points);
                Encoder::Voxels(Box::new(encoder))
            }
        };
        Ok(Some(OnCore { encoder, upload: Upload::new(device, row_bytes)? }))
    }

    /// Encodes a sample, and puts the row's way to the bytes of `rows` from `at` on, on `stream`.
    pub fn encode(
        &mut self,
        sample: &Sample<'_>,
        (rows, at): (&DeviceBuffer, usize),
        stream: &Stream,
    ) -> Result<PointDrops, BackendError> {
        let row = self.upload.row()?;
        let drops = match (&mut self.encoder, sample) {
            (Encoder::Image(encoder), Sample::Image(view)) => {
                encoder.encode(view, row);
                PointDrops::default()
            }
            (Encoder::Depth(encoder), Sample::Depth(view)) => {
                encoder.encode(view, row);
                PointDrops::default()
            }
            (Encoder::Voxels(encoder), Sample::Points(view)) => {
                encoder.encode(view, Slot::new(0), row)?
            }
            _ => return Err(wrong_kind(NAME)),
        };
        self.upload.send(rows, at, stream)?;
        Ok(drops)
    }
}
