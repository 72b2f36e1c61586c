//! Info about the tensors: the bytes of `robocache_ros/msg/FusedTensorInfo`, for readers that come at any time.

use iceoryx2::node::Node;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::BackpressureStrategy;
use iceoryx2::sample_mut::SampleMut;

use super::SharedError;
use super::port::{Port, message_in, receive, subscribe};
use super::room;
use super::service::{Engine, Page, ServiceKind, TensorHeader, Tensors, bytes_of_mut, node};
use robocache_core::config::describe::shared_memory::PAGE;

type Loan = SampleMut<Engine, [Page], TensorHeader>;

/// Publishes what the tensors mean, once for each run. A thread that reports owns it.
#[derive(Debug)]
pub struct InfoPublisher {
    service: String,
    info: Vec<u8>,
    /// Samples that were sent.
    number: u64,
    port: Publisher<Engine, [Page], TensorHeader>,
    _samples: Tensors,
    node: Node<Engine>,
}

impl InfoPublisher {
    /// Publishes `info` for the tensors of a run.
    ///
    /// # Errors
    /// [`SharedError`]
    pub fn new(service: &str, run: u64, info: &[u8]) -> Result<Self, SharedError> {
        let node = node(service)?;
        let samples = ServiceKind::Info.make(&node, service)?;
        let builder = samples
            .publisher_builder()
            .initial_max_slice_len(pages_of(info))
            .backpressure_strategy(BackpressureStrategy::DiscardData);
        let port = builder.create().map_err(|why| failed(service, &why))?;
        let service = service.to_owned();
        let info = info.to_owned();
        let mut publisher =
            InfoPublisher { service, info, number: 0, port, _samples: samples, node };
        let mut loan = publisher.loan()?;
        room::take(&publisher.service, loan.payload_mut().as_mut_ptr() as usize)?;
        publisher.send(loan, run)?;
        Ok(publisher)
    }

    /// Publishes it again, for the tensors of another run. A reader has it before the tensors that are sent later.
    ///
    /// # Errors
    /// The engine failed.
    pub fn serve(&mut self, run: u64) -> Result<(), SharedError> {
        let loan = self.loan()?;
        self.send(loan, run)
    }

    /// Lends memory for the bytes.
    fn loan(&self) -> Result<Loan, SharedError> {
        let loan = self.port.loan_slice_uninit(pages_of(&self.info));
        // SAFETY: the memory is of a file: zeros, or what was written before.
        let loan = loan.map(|loan| unsafe { loan.assume_init() });
        loan.map_err(|why| failed(&self.service, &why))
    }

    /// Writes the bytes into lent memory, and sends it.
    fn send(&mut self, mut loan: Loan, run: u64) -> Result<(), SharedError> {
        let len = self.info.len();
        bytes_of_mut(loan.payload_mut())[..len].copy_from_slice(&self.info);
        self.number += 1;
        *loan.user_header_mut() =
            TensorHeader { run, number: self.number, start: 0, len: len as u64 };
        loan.send().map(|_| ()).map_err(|why| failed(&self.service, &why))
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

/// Reads what the tensors mean, for policies.
#[derive(Debug, Default)]
pub(crate) struct InfoReader {
    /// `None` until a node has published it.
    port: Option<Port>,
    /// The newest message, and the run that it is of.
    newest: Option<(u64, Vec<u8>)>,
}

impl InfoReader {
    /// The newest message, if it is of this run; `None` if none has come. Of no run, the newest one.
    ///
    /// # Errors
    /// The engine failed.
    pub(crate) fn newest(
        &mut self,
        node: &Node<Engine>,
        service: &str,
        run: Option<u64>,
    ) -> Result<Option<&[u8]>, SharedError> {
        self.open(node, service)?;
        if let Some(port) = &self.port
            && let Some(sample) = receive(port, service)?
        {
            let bytes = message_in(&sample).unwrap_or_default().to_vec();
            self.newest = Some((sample.user_header().run, bytes));
        }
        let of_run = self.newest.as_ref().filter(|(of, _)| run.is_none_or(|run| run == *of));
        Ok(of_run.map(|(_, bytes)| &bytes[..]))
    }

    /// Subscribes, if a node has published it.
    ///
    /// # Errors
    /// The engine failed, or the service has as many readers as it may.
    pub(crate) fn open(&mut self, node: &Node<Engine>, service: &str) -> Result<(), SharedError> {
        if self.port.is_none()
            && let Some(samples) = ServiceKind::Info.open(node, service)?
        {
            self.port = Some(subscribe(&samples, service)?);
        }
        Ok(())
    }
}

/// Pages that these bytes take.
fn pages_of(info: &[u8]) -> usize {
    info.len().div_ceil(PAGE).max(1)
}

fn failed(service: &str, why: &dyn std::fmt::Debug) -> SharedError {
    SharedError::failed(service, "publish what its tensors mean")(why)
}
