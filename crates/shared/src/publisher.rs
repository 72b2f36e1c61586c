//! Writes tensors into shared memory, in place.
//!
//! A chunk of the memory goes around: the publisher lends it to a message, a tick fuses into it, the publisher sends
//! it, readers release it, and it is lent again. A tick skips what has not changed since the message was written last.
//! So what a message knows of its bytes belongs to its chunk, and comes back with the chunk, by its address.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

use iceoryx2::node::Node;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::prelude::{AllocationStrategy, BackpressureStrategy, PortFactory};
use iceoryx2::sample_mut::SampleMut;
use robocache_core::config::describe::shared_memory::{LOANS, PAGE, shared_output_bytes};
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::Pipeline;
use robocache_ops::device::HostBuffer;

use super::SharedError;
use super::room;
use super::service::{Engine, Page, ServiceKind, TensorHeader, Tensors, bytes_of_mut, node, wakes};

type Port = Publisher<Engine, [Page], TensorHeader>;
type Loan = SampleMut<Engine, [Page], TensorHeader>;

/// Publishes the tensors of one pipeline. The thread that publishes owns it; ticks use only the memory of messages.
#[derive(Debug)]
pub struct TensorPublisher {
    service: String,
    /// Pages of a chunk.
    pages: usize,
    /// Lent chunks, by the address of their memory.
    loans: HashMap<usize, Loan>,
    /// The message that was last written into each chunk that is not lent, by its address.
    known: HashMap<usize, TensorMessage>,
    notifier: Notifier<Engine>,
    /// The memory: each message that lies in it keeps it.
    port: Arc<Port>,
    number: u64,
    memory_bytes: u64,
    _tensors: Tensors,
    _node: Node<Engine>,
}

impl TensorPublisher {
    /// Makes the service, and takes all of its memory. Tensors of different layouts must be of different runs.
    ///
    /// # Errors
    /// [`SharedError`], also if there is no room for the memory.
    pub fn new(service: &str, pipeline: &Pipeline) -> Result<Self, SharedError> {
        let len = pipeline.message_memory_len();
        let needed = shared_output_bytes(len) as u64;
        let node = node(service)?;
        // What killed nodes have left would count as used, and the name as taken.
        node.try_cleanup_dead_nodes();
        let tensors = ServiceKind::Tensors.make(&node, service)?;
        if tensors.dynamic_config().number_of_publishers() > 0 {
            return Err(SharedError::Taken(service.to_owned()));
        }
        room::check(service, needed)?;
        let pages = len.div_ceil(PAGE);
        let port = tensors
            .publisher_builder()
            .initial_max_slice_len(pages)
            .allocation_strategy(AllocationStrategy::Static)
            .max_loaned_samples(LOANS)
            .backpressure_strategy(BackpressureStrategy::DiscardData)
            .create();
        let port = port.map_err(|why| {
            use iceoryx2::port::publisher::PublisherCreateError as Error;
            match why {
                Error::ExceedsMaxSupportedPublishers => SharedError::Taken(service.to_owned()),
                why => SharedError::failed(service, "make its memory")(&why),
            }
        })?;
        let mut publisher = TensorPublisher {
            service: service.to_owned(),
            pages,
            loans: HashMap::new(),
            known: HashMap::new(),
            // The last, because it wakes the readers that wait for the service.
            notifier: wakes(&node, service)?
                .notifier_builder()
                .create()
                .map_err(|why| SharedError::failed(service, "make what wakes readers")(&why))?,
            port: Arc::new(port),
            number: 0,
            memory_bytes: 0,
            _tensors: tensors,
            _node: node,
        };
        let address = publisher.lend()?;
        publisher.memory_bytes = room::take(service, address)?;
        // The chunks that go around while nobody keeps a tensor are prepared now.
        for _ in 1..LOANS {
            publisher.lend()?;
        }
        publisher.know_loans(pipeline);
        Ok(publisher)
    }

    /// Publishes the tensors of another pipeline of the same configuration from now on, in the same memory. The messages
    /// of the one before must have ended.
    pub fn serve(&mut self, pipeline: &Pipeline) {
        self.known.clear();
        self.loans.clear();
        // Readers may keep some of the memory. What is not prepared here is prepared when it is free.
        while self.loans.len() < LOANS && self.lend().is_ok() {}
        self.know_loans(pipeline);
    }

    /// Makes a message in each chunk that is lent, and takes the chunks back.
    fn know_loans(&mut self, pipeline: &Pipeline) {
        let lent: Vec<_> = self.loans.keys().copied().collect();
        for address in lent {
            let message = self.message_at(address, pipeline);
            self.known.insert(address, message);
        }
        self.loans.clear();
    }

    /// Bytes of shared memory that the tensors take.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Sends a tensor, and wakes the readers. Returns how many readers it went to. Until
    /// [`TensorPublisher::exchange`], the message may be read and must not be written.
    ///
    /// # Errors
    /// The engine failed: the tensor was not sent.
    pub fn send(&mut self, message: &mut TensorMessage) -> Result<usize, SharedError> {
        let address = match self.loans.contains_key(&address_of(message)) {
            true => address_of(message),
            // The first messages of a runtime are in memory of their own.
            false => self.copy(message)?,
        };
        let failed = SharedError::failed(&self.service, "send a tensor");
        let Some(mut loan) = self.loans.remove(&address) else {
            return Err(failed(&"it is lost"));
        };
        let bytes = message.message();
        let start = bytes.as_ptr() as usize - address_of(message);
        *loan.user_header_mut() = TensorHeader {
            run: message.run(),
            number: self.number + 1,
            start: start as u64,
            len: bytes.len() as u64,
        };
        let received = loan.send().map_err(|why| {
            // The chunk is free again, and another message may write it.
            message.forget_rows();
            failed(&why)
        })?;
        self.number += 1;
        // A reader that is not woken looks again by itself.
        let _ = self.notifier.notify();
        Ok(received)
    }

    /// Replaces a message that was sent by one that the next tick may write.
    ///
    /// # Errors
    /// No memory is free: `message` is then in memory of its own.
    pub fn exchange(
        &mut self,
        pipeline: &Pipeline,
        message: &mut TensorMessage,
    ) -> Result<(), SharedError> {
        let lent = self.lend();
        let address = lent.as_ref().ok().copied();
        if address == Some(address_of(message)) {
            // It was not sent, and has its chunk again.
            return Ok(());
        }
        let next = match address {
            Some(address) => match self.known.remove(&address) {
                Some(known) => known,
                None => self.message_at(address, pipeline),
            },
            None => pipeline.new_message(),
        };
        let sent = std::mem::replace(message, next);
        if sent.is_lent() {
            self.known.insert(address_of(&sent), sent);
        }
        lent.map(|_| ())
    }

    /// Lends a chunk, and returns its address.
    fn lend(&mut self) -> Result<usize, SharedError> {
        let loan = self.port.loan_slice_uninit(self.pages);
        let loan = loan.map_err(|why| SharedError::failed(&self.service, "lend memory")(&why))?;
        // SAFETY: the memory is of a file: zeros, or what was written before.
        let mut loan = unsafe { loan.assume_init() };
        let address = loan.payload_mut().as_mut_ptr() as usize;
        self.loans.insert(address, loan);
        Ok(address)
    }

    /// A new message in a chunk that was just lent.
    fn message_at(&mut self, address: usize, pipeline: &Pipeline) -> TensorMessage {
        let payload = self.loans.get_mut(&address).map(|loan| bytes_of_mut(loan.payload_mut()));
        let start = payload.and_then(|bytes| {
            bytes.fill(0);
            NonNull::new(bytes.as_mut_ptr())
        });
        let Some(start) = start else { return pipeline.new_message() };
        let owner = Arc::clone(&self.port);
        // SAFETY: these are whole pages of the loan. The port keeps them mapped. Only the message that is lent them
        // writes them: it comes back before they are sent, and goes out again only after they were lent again.
        let memory = unsafe { HostBuffer::lent(start, pipeline.message_memory_len(), owner) };
        pipeline.new_message_in(memory)
    }

    /// Copies a message into a chunk, at the same place behind its start.
    fn copy(&mut self, message: &TensorMessage) -> Result<usize, SharedError> {
        let address = self.lend()?;
        // Its bytes are no longer those that a message knows.
        self.known.remove(&address);
        let bytes = message.message();
        let start = bytes.as_ptr() as usize - address_of(message);
        if let Some(loan) = self.loans.get_mut(&address) {
            bytes_of_mut(loan.payload_mut())[start..start + bytes.len()].copy_from_slice(bytes);
        }
        Ok(address)
    }
}

/// Address of the start of a message's memory.
fn address_of(message: &TensorMessage) -> usize {
    message.memory_start() as usize
}
