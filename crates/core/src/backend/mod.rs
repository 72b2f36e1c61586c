//! Backends, which hold the rows and compute the tensors.
//!
//! A backend owns the memory of all rows. Each ring has a slot more than rows: a sample is encoded
//! into the spare slot while the ring still reads the others. A backend knows nothing of
//! subscriptions, clocks or messages. The [`Pipeline`](crate::pipeline::Pipeline) tells it which
//! slot to fill and which slots to read.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod float_rows;
mod select;

use float_rows::FloatRows;
pub use select::{Choice, create, create_for_device, devices};

use std::sync::Arc;

use crate::encoder::EncodeError;
use crate::rejected::Rejected;
use crate::sample::PlacedSample;
use crate::spec::RingId;
#[cfg(any(feature = "cuda", test))]
use crate::spec::StreamSpec;
use robocache_ops::align::{Slot, Value};
use robocache_ops::device::{
    DeviceError, DeviceOutput, HostBuffer, MessagePool, Output, OutputMut, RowMemory,
};
use robocache_ops::voxelize::PointDrops;

/// The error for a sample of another kind than its ring takes. The pipeline rules this out when it
/// is made.
fn wrong_kind(backend: &'static str) -> BackendError {
    let detail = "the sample is not of the kind that the ring's encoder takes".into();
    BackendError::Failed { backend, operation: "encode a sample", detail }
}

/// Says from which rows of one ring the value of one step comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepJob {
    /// The ring.
    pub ring: RingId,
    /// Step of the ring's segment.
    pub step: usize,
    /// The slots to read, and the weight.
    pub value: Value<Slot>,
    /// True if the output already holds this value, because an earlier tick wrote it into the same
    /// memory. If so, the backend may skip the step.
    pub unchanged: bool,
}

/// Errors of a backend. All but `Sample` are fatal: the node stops, so that it never publishes a
/// tensor that was not computed.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The sample cannot become a row. The pipeline drops and counts it, and the backend goes on.
    #[error(transparent)]
    Sample(#[from] Rejected),
    /// A GPU does not take the sample. The backend then encodes it on a core.
    #[error("the GPU leaves the sample to a core")]
    ForCore,
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
        /// The operation of the backend that failed.
        operation: &'static str,
        /// Words for the fault.
        detail: String,
    },
}

#[cfg(any(feature = "cuda", test))]
impl BackendError {
    /// The error of reserving the memory of a stream: it names the keys that say how much.
    fn reserving_for(self, spec: &StreamSpec) -> Self {
        let BackendError::Failed { backend, operation, detail } = self else { return self };
        let limits = spec.encoder.limits(spec.bounds);
        let keys: Vec<String> = std::iter::once(("ring_rows", spec.ring_rows))
            .chain(limits)
            .map(|(key, value)| format!("streams.{}.{key} ({value})", spec.name))
            .collect();
        let keys = match keys.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        };
        let detail = format!("{detail}; how much is needed follows from {keys}");
        BackendError::Failed { backend, operation, detail }
    }
}

/// Says that an encoder of `backend` failed.
fn encode_error(backend: &'static str) -> impl Fn(EncodeError) -> BackendError {
    move |error| match error {
        EncodeError::Sample(rejected) => rejected.into(),
        EncodeError::Device(error) => error.into(),
        EncodeError::ForCore => BackendError::ForCore,
        EncodeError::WrongKind => wrong_kind(backend),
    }
}

impl From<DeviceError> for BackendError {
    fn from(error: DeviceError) -> Self {
        let backend = "cuda";
        match error {
            DeviceError::Unavailable { detail } => BackendError::Unavailable { backend, detail },
            DeviceError::Failed { operation, detail } => {
                BackendError::Failed { backend, operation, detail }
            }
        }
    }
}

/// Processor that encodes a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// The calling thread.
    Cpu,
    /// The GPU.
    Gpu,
}

/// How the samples of a ring were encoded, where either processor may encode them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encodes {
    /// The processor that has lately finished sooner, and encodes the next sample.
    pub in_use: Processor,
    /// Usual time of a core, from hand-over to the row \[ns\]; `None` until measured.
    pub cpu_ns: Option<u64>,
    /// Usual time of the GPU, from hand-over to the row \[ns\]; `None` until measured.
    pub gpu_ns: Option<u64>,
    /// Rows that a core encoded.
    pub by_cpu: u64,
    /// Rows that the GPU encoded.
    pub by_gpu: u64,
    /// Samples that a core took over, because the GPU took too long or failed.
    pub takeovers: u64,
}

/// Use of a GPU by a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuUse {
    /// None.
    None,
    /// One that it uses.
    InUse,
    /// One that it left, for good.
    Left {
        /// Why.
        reason: String,
    },
}

/// Computes rows and tensors.
///
/// Methods take `&self`: several threads encode samples while another thread fuses. The caller must
/// not encode into a slot while a call of [`Backend::fuse`] may read it.
pub trait Backend: Send + Sync {
    /// The name in logs: `cpu`, `cpu+cuda` (rows on the host, images and clouds encoded on a GPU)
    /// or `cuda`.
    fn name(&self) -> &'static str;

    /// The backend's use of a GPU, or why it no longer uses one.
    fn gpu(&self) -> GpuUse {
        GpuUse::None
    }

    /// How the samples of a ring were encoded; `None` unless either processor may encode them.
    fn encodes(&self, _ring: RingId) -> Option<Encodes> {
        None
    }

    /// Reserves `len` zeroed bytes for an output. [`Backend::fuse`] takes any memory, but is
    /// fastest with this memory.
    fn output_memory(&self, len: usize) -> Result<Output, BackendError> {
        Ok(Output::Host(HostBuffer::new(len)))
    }

    /// Prepares memory of another owner for outputs, as [`Backend::output_memory`] does with its own.
    fn adopt_memory(&self, memory: HostBuffer) -> Output {
        Output::Host(memory)
    }

    /// Reserves memory of the device for `len` bytes of data of an output, zero at first, if that is where this backend
    /// leaves them. Then [`Backend::output_memory`] is for the rest of the output.
    fn data_on_device(&self, _len: usize) -> Result<Option<DeviceOutput>, BackendError> {
        Ok(None)
    }

    /// Memory for messages whose samples the GPU reads where they are, for those that feed a ring. `None` if it reads none.
    fn messages(&self, _ring: RingId) -> Option<Arc<MessagePool>> {
        None
    }

    /// Encodes a sample into the spare slot of a ring. If it fails, the slot's content is
    /// unspecified and the slot stays spare. After a panic the caller must not encode into this
    /// ring again, because the encoder's state may be half changed.
    ///
    /// Returns the counts of dropped points of a cloud; zeros for other samples.
    fn encode(
        &self,
        ring: RingId,
        slot: Slot,
        placed: &PlacedSample<'_>,
    ) -> Result<PointDrops, BackendError>;

    /// Writes the value that rows of a ring give into a spare slot of it: where a plan is cut. Only
    /// for vectors that are interpolated.
    ///
    /// # Errors
    /// [`BackendError::Failed`] for another ring.
    fn blend(&self, _ring: RingId, _value: Value<Slot>, _slot: Slot) -> Result<(), BackendError> {
        Err(wrong_kind(self.name()))
    }

    /// Says that [`Backend::read_row`] will read every row. So a backend may begin to bring each row to the host when it is
    /// encoded.
    fn keep_rows(&self) {}

    /// Puts a row into `row`, as the backend keeps it: `f32` if a vector's rows are interpolated or go through
    /// operators ([`VectorSpec::keeps_f32`](robocache_ops::operators::VectorSpec::keeps_f32)), otherwise elements of the stream's type. A sparse row is as
    /// [`SparseRow`](robocache_ops::voxelize::SparseRow) says. The caller must not encode into the slot meanwhile.
    ///
    /// # Errors
    /// [`BackendError::Failed`] if the memory cannot be read.
    fn read_row(
        &self,
        _ring: RingId,
        _slot: Slot,
        _row: &mut RowMemory,
    ) -> Result<(), BackendError> {
        Err(wrong_kind(self.name()))
    }

    /// Writes every step's value into `out`, at the offsets of the layout. A step without a row is
    /// set to zero. If a job says `unchanged`, `out` already holds that step from an earlier call. If
    /// operators make the steps of a ring depend on each other, there is a job for each, and none is
    /// unchanged.
    fn fuse(&self, jobs: &[StepJob], out: OutputMut<'_>) -> Result<(), BackendError>;
}

#[cfg(test)]
mod tests;
