//! The code of an encoder on a processor.

#[cfg(feature = "cuda")]
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::rejected::Rejected;
use crate::sample::{Bounds, PlacedSample};
use robocache_ops::align::Slot;
use robocache_ops::device::DeviceError;
#[cfg(feature = "cuda")]
use robocache_ops::device::{MessagePool, RowPlace, Stream};
use robocache_ops::dtype::DType;
use robocache_ops::operators::VectorSpec;
use robocache_ops::voxelize::{PointDrops, VoxelizeError};

/// Why a sample did not become a row.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The sample cannot become one.
    #[error(transparent)]
    Sample(#[from] Rejected),
    /// A call of the device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The GPU does not take the sample: a core must encode it, or say why not.
    #[error("the GPU leaves the sample to a core")]
    ForCore,
    /// The encoder takes no such sample. The pipeline rules this out when it is made.
    #[error("the sample is not of the kind that the ring's encoder takes")]
    WrongKind,
}

impl From<VoxelizeError> for EncodeError {
    fn from(error: VoxelizeError) -> Self {
        EncodeError::Sample(error.into())
    }
}

#[cfg(feature = "cuda")]
impl From<robocache_ops::voxelize::cuda::EncodeError> for EncodeError {
    fn from(error: robocache_ops::voxelize::cuda::EncodeError) -> Self {
        use robocache_ops::voxelize::cuda::EncodeError as Voxels;
        match error {
            Voxels::Cloud(error) => error.into(),
            Voxels::Device(error) => error.into(),
        }
    }
}

/// Facts about a ring that its encoder needs.
#[derive(Clone, Copy, Debug)]
pub struct EncoderSetup {
    /// Element type of the rows.
    pub dtype: DType,
    /// Rows that it writes in turn. It may remember what it left in each.
    pub slots: usize,
    /// The largest sample.
    pub bounds: Bounds,
}

/// Code by which a core encodes samples.
pub enum CpuCode<'a> {
    /// Floats of each group, which a backend may keep as `f32` and interpolate.
    Floats(&'a VectorSpec),
    /// The bytes of whole rows.
    Rows(Box<dyn CpuEncoder>),
}

/// Encodes on the calling thread.
pub trait CpuEncoder: Send {
    /// Writes a sample as the row of `slot`, whose memory is `row`. `None` if `overtaken` became true before it was
    /// done: the row is then unspecified.
    ///
    /// Returns the counts of dropped points of a cloud; zeros for other samples.
    ///
    /// # Errors
    /// [`EncodeError::Sample`]: the row is then unspecified. [`EncodeError::WrongKind`].
    ///
    /// # Panics
    /// If `slot` or the length of `row` is not of this ring.
    fn encode(
        &mut self,
        placed: &PlacedSample<'_>,
        slot: Slot,
        row: &mut [u8],
        overtaken: Option<&AtomicBool>,
    ) -> Result<Option<PointDrops>, EncodeError>;

    /// Notes that something else has written the row of `slot`.
    fn forget(&mut self, _slot: Slot) {}
}

/// Encodes on a GPU. [`encode`](CudaEncoder::encode) is for a caller that may wait for the driver. The other three are
/// its parts, for a caller that hands the sample over: only [`stage`](CudaEncoder::stage) needs the sample.
#[cfg(feature = "cuda")]
pub trait CudaEncoder: Send {
    /// Puts upload and encoding of a sample on `stream`. Returns while they are under way, unless
    /// [`CudaEncoder::waits`].
    ///
    /// # Errors
    /// All of [`EncodeError`].
    fn encode(
        &mut self,
        placed: &PlacedSample<'_>,
        slot: Slot,
        row: RowPlace<'_>,
        stream: &Stream,
    ) -> Result<PointDrops, EncodeError>;

    /// True if [`CudaEncoder::encode`] returns only when the row is there.
    fn waits(&self) -> bool {
        false
    }

    /// Memory for messages whose samples it does not copy; `None` if it copies all.
    fn messages(&self) -> Option<&Arc<MessagePool>> {
        None
    }

    /// Copies what it needs of a sample into pinned memory, or holds its message. The caller has waited for the last row. Makes no call of
    /// the driver.
    ///
    /// # Errors
    /// All of [`EncodeError`]; `Device` if the sample is larger than the memory for it.
    fn stage(&mut self, placed: &PlacedSample<'_>) -> Result<(), EncodeError>;

    /// Puts upload and encoding of the staged sample on `stream`, as the row of slot 0.
    ///
    /// # Errors
    /// Those of the device.
    fn start(&mut self, row: RowPlace<'_>, stream: &Stream) -> Result<(), EncodeError>;

    /// Ends what [`CudaEncoder::start`] began. The caller has waited for the stream.
    ///
    /// # Errors
    /// [`EncodeError::Sample`] and [`EncodeError::ForCore`]: the row must not be used.
    fn finish(&mut self) -> Result<PointDrops, EncodeError>;

    /// Name of its operation, for errors: `encode an image`.
    fn operation(&self) -> &'static str;
}
