//! What the tensors mean: the bytes of `robocache_ros/msg/FusedTensorInfo`, for readers that come at any time.

use iceoryx2::node::Node;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::BackpressureStrategy;

use super::SharedError;
use super::room;
use super::service::{Engine, Kind, Page, TensorHeader, Tensors, bytes_of_mut, node};
use robocache_core::config::describe::shared_memory::PAGE;

/// Publishes what the tensors mean, once. A thread that reports owns it.
#[derive(Debug)]
pub struct InfoPublisher {
    service: String,
    port: Publisher<Engine, [Page], TensorHeader>,
    _samples: Tensors,
    node: Node<Engine>,
}

impl InfoPublisher {
    /// Publishes `info`. `run` is that of the tensors.
    ///
    /// # Errors
    /// [`SharedError`]
    pub fn new(service: &str, run: u64, info: &[u8]) -> Result<Self, SharedError> {
        let node = node(service)?;
        let samples = Kind::Info.make(&node, service)?;
        let failed = |why: &dyn std::fmt::Debug| {
            SharedError::failed(service, "publish what its tensors mean")(why)
        };
        let pages = info.len().div_ceil(PAGE).max(1);
        let builder = samples
            .publisher_builder()
            .initial_max_slice_len(pages)
            .backpressure_strategy(BackpressureStrategy::DiscardData);
        let port = builder.create().map_err(|why| failed(&why))?;
        let loan = port.loan_slice_uninit(pages).map_err(|why| failed(&why))?;
        // SAFETY: the memory is of a file, zeros.
        let mut loan = unsafe { loan.assume_init() };
        room::take(service, loan.payload_mut().as_mut_ptr() as usize)?;
        bytes_of_mut(loan.payload_mut())[..info.len()].copy_from_slice(info);
        *loan.user_header_mut() = TensorHeader { run, number: 1, start: 0, len: info.len() as u64 };
        loan.send().map_err(|why| failed(&why))?;
        Ok(InfoPublisher { service: service.to_owned(), port, _samples: samples, node })
    }

    /// Serves readers that came since the last call, and removes what killed processes have left. The caller calls this
    /// about once a second.
    ///
    /// # Errors
    /// The engine failed.
    pub fn follow(&self) -> Result<(), SharedError> {
        self.node.try_cleanup_dead_nodes();
        let updated = self.port.update_connections();
        updated.map_err(|why| SharedError::failed(&self.service, "find its readers")(&why))
    }
}
