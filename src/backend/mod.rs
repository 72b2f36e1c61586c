//! Where rows live and tensors are computed.
//!
//! A backend owns the memory of all rows: `ring_rows + 1` slots per stream, so that a message can
//! be encoded into a spare slot while the ring still serves the others. It knows nothing of
//! subscriptions, clocks or decoding; the [`Pipeline`](crate::pipeline::Pipeline) tells it which
//! slot to fill and which to read.

pub mod batch;
pub mod cpu;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // a driver in another language; every block says why it is sound
pub mod cuda;
mod select;

use std::fmt::Debug;
use std::ops::DerefMut;

pub use select::{Choice, create};

use crate::align::Value;
use crate::decode::{DecodeError, cloud::CloudView, image::ImageView};
use crate::stats::DropReason;

/// Index of a row's memory inside its stream, `0..=ring_rows`.
pub type Slot = usize;

/// A decoded message on its way into a row.
#[derive(Clone, Copy, Debug)]
pub enum Sample<'a> {
    /// The elements of a vector row: finite, and within the range of the stream's element type.
    Vector(&'a [f32]),
    /// An image in one of the raw encodings.
    Image(ImageView<'a>),
    /// A point cloud.
    Cloud(CloudView<'a>),
}

/// What every backend says to a sample that is not of its stream's message type.
fn wrong_type() -> DecodeError {
    let detail = "the sample is not of the stream's message type";
    DecodeError::new(DropReason::Unsupported, detail)
}

/// What happened to the points of a cloud on the way into a row; all 0 for other samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeReport {
    /// Points dropped because a coordinate or a used field was NaN or infinite.
    pub points_non_finite: u64,
    /// Points dropped because a used field's value exceeds the fixed-point range.
    pub points_out_of_range: u64,
    /// Points outside the grid.
    pub points_outside: u64,
}

/// A step of a segment: where its value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepJob {
    /// Stream index in the configuration.
    pub stream: usize,
    /// History step inside the stream's segment.
    pub step: usize,
    /// The rows to read, as slots, and the weight.
    pub value: Value<Slot>,
    /// Whether the output already holds this value, from an earlier tick into the same memory: the
    /// backend may pass over the step.
    pub unchanged: bool,
}

/// Errors of a backend. All but `Sample` are fatal: a node stops rather than publish what was not
/// computed.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The message cannot become a row; it is dropped and counted, and the backend goes on.
    #[error(transparent)]
    Sample(#[from] DecodeError),
    /// The backend cannot be used on this machine.
    #[error("backend {backend}: {detail}")]
    Unavailable {
        /// Name of the backend.
        backend: &'static str,
        /// Why not.
        detail: String,
    },
    /// An operation of the backend failed while it was running.
    #[error("backend {backend}: failed to {operation}: {detail}")]
    Failed {
        /// Name of the backend.
        backend: &'static str,
        /// What it was doing.
        operation: &'static str,
        /// What went wrong.
        detail: String,
    },
}

/// Memory of the host that a backend reserved for outputs.
pub trait HostBytes: DerefMut<Target = [u8]> + Debug + Send + Sync {}

impl HostBytes for Vec<u8> {}

/// Computes rows and tensors. Methods take `&self`: streams are encoded from several threads while
/// another one fuses. The caller guarantees that no slot is encoded into while a fuse may read it.
pub trait Backend: Send + Sync {
    /// The name in logs: `cpu` or `cuda`.
    fn name(&self) -> &'static str;

    /// Reserves `len` zeroed bytes for an output. [`Backend::fuse`] takes any memory, and is
    /// fastest with this.
    fn output_memory(&self, len: usize) -> Result<Box<dyn HostBytes>, BackendError> {
        Ok(Box::new(vec![0; len]))
    }

    /// Encodes a sample into a slot that no ring refers to. On an error the slot's content is
    /// unspecified and the slot stays spare. After a panic the stream is not to be encoded again:
    /// what the next row is made with may be half changed.
    fn encode(
        &self,
        stream: usize,
        slot: Slot,
        sample: Sample<'_>,
    ) -> Result<EncodeReport, BackendError>;

    /// Writes every step's value into `out`, at the offsets of the layout. Steps without a row are
    /// zeroed. Where a job says `unchanged`, `out` holds that step as an earlier call left it.
    fn fuse(&self, jobs: &[StepJob], out: &mut [u8]) -> Result<(), BackendError>;
}
