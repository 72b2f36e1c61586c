//! The encoder of one ring on a CUDA device, for rows on the host.

use std::sync::Arc;
use std::time::Duration;

use super::choice::CALL_LIMIT_NS;
use super::gpu_thread::GpuEncoder;
use crate::backend::{BackendError, encode_error};
use crate::encoder::{self, EncodeError, EncoderSetup};
use crate::sample::PlacedSample;
use crate::spec::StreamSpec;
use robocache_ops::device::{Device, Download, HostBuffer, MessagePool, RowPlace, Stream};
use robocache_ops::voxelize::PointDrops;

/// The backend's name in errors.
const NAME: &str = "cuda";
/// If a row is not ready after this time, the GPU has failed.
const LIMIT: Duration = Duration::from_nanos(CALL_LIMIT_NS);

/// Encodes into a row on the device and copies that to memory of the host.
struct CudaEncoder {
    /// Its only slot is the row on the device.
    encoder: Box<dyn encoder::CudaEncoder>,
    download: Download,
    stream: Stream,
    /// True if a message was larger than the memory for messages, which is logged once.
    refused: bool,
}

/// For the samples of a stream; `None` if its encoder has no CUDA twin.
///
/// # Errors
/// [`BackendError::Failed`] where the GPU's memory does not suffice.
pub(super) fn encoder(
    device: &Arc<Device>,
    spec: &StreamSpec,
) -> Result<Option<Box<dyn GpuEncoder>>, BackendError> {
    let StreamSpec { dtype, bounds, .. } = *spec;
    let Some(encoder) = spec.encoder.cuda(device, EncoderSetup { dtype, slots: 1, bounds })? else {
        return Ok(None);
    };
    let download = Download::new(device, spec.encoder.row_bytes(dtype))?;
    let stream = Stream::new(device, true)?;
    Ok(Some(Box::new(CudaEncoder { encoder, download, stream, refused: false })))
}

impl GpuEncoder for CudaEncoder {
    fn stage(&mut self, placed: &PlacedSample<'_>) -> bool {
        let staged = self.encoder.stage(placed);
        if let (Err(EncodeError::Device(error)), false) = (&staged, self.refused) {
            self.refused = true;
            tracing::warn!("{error}; a core encodes such messages");
        }
        staged.is_ok()
    }

    fn messages(&self) -> Option<Arc<MessagePool>> {
        self.encoder.messages().cloned()
    }

    fn run(&mut self) -> Result<PointDrops, BackendError> {
        let CudaEncoder { encoder, download, stream, .. } = self;
        let row = RowPlace { rows: download.row(), at: 0 };
        encoder.start(row, stream).map_err(encode_error(NAME))?;
        // Also a row that must not be used: one wait for both is less than two.
        download.copy(stream, LIMIT, encoder.operation())?;
        encoder.finish().map_err(encode_error(NAME))
    }

    fn row(&mut self) -> Option<&mut HostBuffer> {
        self.download.host()
    }
}
