//! Errors of the benchmarks.

use robocache_core::backend::BackendError;
use robocache_core::pipeline::SpecError;
use robocache_ops::device::DeviceError;
use robocache_runtime::RuntimeError;

/// Why a benchmark has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// An encoder failed.
    #[error(transparent)]
    Encode(#[from] robocache_core::encoder::EncodeError),
    /// The GPU failed.
    #[error("GPU: {0}")]
    Device(#[from] DeviceError),
    /// A thread of the runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// An output differs from that of the CPU backend: its times say nothing.
    #[error("{case}: expected the bits of the CPU backend, found {found}")]
    Mismatch {
        /// The case.
        case: String,
        /// The difference.
        found: String,
    },
    /// No case has such a name.
    #[error("case: expected a part of one of these names, found {found:?}\n  {}", names.join("\n  "))]
    NoCase {
        /// The text that the user asked for.
        found: String,
        /// The cases of this backend.
        names: Vec<String>,
    },
    /// Bits differ, memory grows, or ticks take too long, while ticks go on.
    #[error("ticks at 1 kHz: {0}")]
    Soak(String),
    /// A configuration of the benchmark is at fault.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The pipeline dropped what it was given.
    #[error("{case}: expected the message to be taken, found {found}")]
    Dropped {
        /// The case.
        case: String,
        /// Why.
        found: String,
    },
}
