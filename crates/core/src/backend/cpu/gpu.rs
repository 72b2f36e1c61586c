//! The encoder of one ring on a CUDA device, for rows on the host.

use std::sync::Arc;
use std::time::Duration;

use super::choice::CALL_LIMIT_NS;
use super::gpu_thread::GpuEncoder;
use crate::backend::{BackendError, wrong_kind};
use crate::sample::Sample;
use crate::spec::{EncoderSpec, StreamSpec};
use robocache_ops::align::Slot;
use robocache_ops::depth::cuda::DepthEncoder;
use robocache_ops::device::{Device, Download, HostBuffer, Stream};
use robocache_ops::image::cuda::ImageEncoder;
use robocache_ops::voxelize::PointDrops;
use robocache_ops::voxelize::cuda::{EncodeError, Voxelizer};

/// A row that is not there after this time is a failure.
const LIMIT: Duration = Duration::from_nanos(CALL_LIMIT_NS);

/// Encodes into a row on the device and copies that to memory of the host.
pub struct CudaEncoder {
    operation: Operation,
    download: Download,
    stream: Stream,
    /// Whether a message was larger than the memory for messages, which is logged once.
    refused: bool,
}

enum Operation {
    Image(Box<ImageEncoder>),
    Depth(Box<DepthEncoder>),
    /// Its only slot is the row on the device.
    Voxels(Box<Voxelizer>),
}

impl CudaEncoder {
    /// For the samples of a stream of images or clouds.
    ///
    /// # Errors
    /// [`BackendError::Failed`] where the GPU's memory does not suffice.
    pub fn new(device: &Arc<Device>, spec: &StreamSpec) -> Result<Self, BackendError> {
        let operation = match &spec.encoder {
            EncoderSpec::Image(image) => Operation::Image(Box::new(ImageEncoder::new(
                device,
                image,
                spec.dtype,
                spec.bounds.image_px(),
            )?)),
            EncoderSpec::Depth(depth) => Operation::Depth(Box::new(DepthEncoder::new(
                device,
                depth,
                spec.dtype,
                spec.bounds.image_px(),
            )?)),
            EncoderSpec::Voxels(voxels) => {
                let most = spec.bounds.max_points;
                let voxelizer = Voxelizer::new(device, voxels, spec.dtype, 1, most)?;
                Operation::Voxels(Box::new(match spec.bounds.swept {
                    true => voxelizer.with_sweeps(device, most)?,
                    false => voxelizer,
                }))
            }
            EncoderSpec::Vector(_) => return Err(wrong_kind("cuda")),
        };
        let row_bytes = match &operation {
            Operation::Voxels(voxelizer) => voxelizer.row_bytes(),
            _ => spec.encoder.row_len() * spec.dtype.size(),
        };
        let download = Download::new(device, row_bytes)?;
        Ok(CudaEncoder { operation, download, stream: Stream::new(device, true)?, refused: false })
    }
}

impl GpuEncoder for CudaEncoder {
    fn stage(&mut self, sample: &Sample<'_>) -> bool {
        let staged = match (&mut self.operation, sample) {
            (Operation::Image(encoder), Sample::Image(view)) => {
                encoder.restage(view).map_err(EncodeError::from)
            }
            (Operation::Depth(encoder), Sample::Depth(view)) => {
                encoder.restage(view).map_err(EncodeError::from)
            }
            (Operation::Voxels(voxelizer), Sample::Points(view)) => voxelizer.restage(view),
            _ => return false,
        };
        if let (Err(EncodeError::Device(error)), false) = (&staged, self.refused) {
            self.refused = true;
            tracing::warn!("{error}; a core encodes such messages");
        }
        staged.is_ok()
    }

    fn run(&mut self) -> Result<PointDrops, BackendError> {
        let CudaEncoder { operation, download, stream, .. } = self;
        match operation {
            Operation::Image(encoder) => {
                encoder.start((download.row(), 0), stream)?;
                download.copy(stream, LIMIT, "encode an image")?;
                encoder.settled();
                Ok(PointDrops::default())
            }
            Operation::Depth(encoder) => {
                encoder.start((download.row(), 0), stream)?;
                download.copy(stream, LIMIT, "encode a depth image")?;
                encoder.settled();
                Ok(PointDrops::default())
            }
            Operation::Voxels(voxelizer) => {
                voxelizer.start(Slot::new(0), (download.row(), 0), stream)?;
                // Also a row that must not be used: one wait for both is less than two.
                download.copy(stream, LIMIT, "voxelize a cloud")?;
                voxelizer.settled();
                Ok(voxelizer.outcome()?)
            }
        }
    }

    fn row(&mut self) -> Option<&mut HostBuffer> {
        self.download.host()
    }
}
