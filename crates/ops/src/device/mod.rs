//! The GPU, the memory that it shares with the host, and what the kernels share with both.
//!
//! - `driver` (feature `cuda`): a device, streams, events, graphs and kernels, as safe types.
//! - `memory` (feature `cuda`): memory of the device, and pinned memory of the host.
//! - [`HostBuffer`]: ordinary memory, which may be registered with a GPU.
//! - [`MessagePool`]: such memory for messages that a GPU reads where they are.
//! - [`Output`]: memory of an output, from the backend that reserves it to the publisher.
//! - [`DeviceOutput`]: the data of an output that stays on the device.
//! - [`RowMemory`]: a row that has left its ring.
//! - [`shared`]: every structure that a kernel reads or writes, compared with the kernels by
//!   `crates/kernels/build.rs`.
//!
//! `unsafe` code is here and in the operations' CUDA twins. Everything that has no `unsafe` in its
//! signature can be used in any way without touching memory that it should not: addresses come from
//! live buffers, and a buffer waits for the device before it goes.

#![allow(unsafe_code)] // a driver in another language; every block says why it is sound

#[cfg(feature = "cuda")]
mod device_output;
#[cfg(not(feature = "cuda"))]
#[path = "no_device_output.rs"]
mod device_output;
#[cfg(feature = "cuda")]
mod download;
#[cfg(feature = "cuda")]
mod driver;
mod host;
#[cfg(feature = "cuda")]
mod memory;
mod messages;
mod output;
#[cfg(feature = "cuda")]
mod row_downloads;
mod row_memory;
pub mod shared;
#[cfg(feature = "cuda")]
mod staging;
#[cfg(feature = "cuda")]
mod turns;

pub use device_output::DeviceOutput;
#[cfg(feature = "cuda")]
pub use download::Download;
#[cfg(feature = "cuda")]
pub use driver::{Device, Event, Graph, HostAccess, Kernel, Launch, Limits, Stream, own_thread};
pub use host::{HostBuffer, LENT_PAGE};
#[cfg(feature = "cuda")]
pub use memory::{DeviceBuffer, PinnedBuffer, PinnedMut, RowPlace, bytes_of};
pub use messages::{HeldBytes, MessageBuffer, MessagePool, TakenMessage};
pub use output::{Output, OutputMut};
#[cfg(feature = "cuda")]
pub use row_downloads::{PinnedSlab, RowDownloads};
pub use row_memory::RowMemory;
pub use shared::Shared;
#[cfg(feature = "cuda")]
pub use staging::{Staging, Upload};
#[cfg(feature = "cuda")]
pub use turns::PinnedTurns;

/// The version of CUDA that the kernels were compiled with, as 1000 * major + 10 * minor; `None` if this build has none.
pub const fn cuda_version() -> Option<&'static str> {
    #[cfg(feature = "cuda")]
    return Some(robocache_kernels::TOOLKIT);
    #[cfg(not(feature = "cuda"))]
    None
}

/// In a build without CUDA there is no driver to tell anything.
#[cfg(not(feature = "cuda"))]
pub fn own_thread() {}

/// Why the GPU did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// It cannot be used on this machine.
    #[error("{detail}")]
    Unavailable {
        /// Why not.
        detail: String,
    },
    /// An operation failed while the GPU was in use.
    #[error("failed to {operation}: {detail}")]
    Failed {
        /// The operation that failed.
        operation: &'static str,
        /// The cause of the failure.
        detail: String,
    },
}

/// Says if a kernel may read its inputs at once.
///
/// Kernels of one stream overlap: one starts while the kernel before it ends. So the order of a
/// stream alone does not say that inputs are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// No kernel that may still run writes them: they were waited for, or copied, or made long ago.
    Ready,
    /// An earlier kernel of the same stream may still write them: the kernel waits before it reads
    /// them.
    MayBeInFlight,
}

impl Inputs {
    /// As the kernels have it.
    #[cfg(feature = "cuda")]
    pub(crate) fn are_ready(self) -> u32 {
        u32::from(self == Inputs::Ready)
    }
}
