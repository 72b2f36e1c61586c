//! The way back in shared memory: chunks of actions from policies to the node, and its statuses to them.
//!
//! Two services are beside that of the tensors. A sample is a serialized `robocache_ros/msg/ActionChunk` or
//! `robocache_ros/msg/CommandStatus`. Either side may make a service, so either may start first.

mod chunks;
mod statuses;
mod writer;

use iceoryx2::node::Node;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::{Subscriber, SubscriberCreateError};
use iceoryx2::prelude::{AllocationStrategy, BackpressureStrategy, ServiceName, ZeroCopySend};
use iceoryx2::sample_mut_uninit::SampleMutUninit;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

use super::SharedError;
use super::room;
use super::service::{Engine, NODES, WRITERS, name_of};
pub use chunks::ChunkReader;
pub use statuses::StatusPublisher;
pub use writer::{ActionWriter, Answered};

/// Chunks of a writer that wait for a command tick: a newer one replaces the oldest.
const CHUNKS_WAITING: usize = 8;
/// Statuses that wait for a policy: a newer one replaces the oldest.
const STATUSES_WAITING: usize = 16;

type ActionService = PortFactory<Engine, [u8], MessageHeader>;
type Sender = Publisher<Engine, [u8], MessageHeader>;
type Receiver = Subscriber<Engine, [u8], MessageHeader>;

/// Sender and number of a message. The number in the name of the type stands for the layout of both messages, so the engine
/// refuses a program of another version.
#[derive(Clone, Copy, Debug, Default, ZeroCopySend)]
#[type_name("robocache actions 1")]
#[repr(C)]
struct MessageHeader {
    /// Who sends it: a number that a writer of chunks has drawn, or the run of a node.
    sender: u64,
    /// Its number among those of its sender, from 1.
    number: u64,
}

/// The two services of messages below a name.
#[derive(Clone, Copy)]
enum Way {
    Chunks,
    Statuses,
}

impl Way {
    /// End of the service's name. A user cannot choose such a name.
    fn suffix(self) -> &'static str {
        match self {
            Way::Chunks => ":chunks",
            Way::Statuses => ":status",
        }
    }

    /// Opens the service, or makes it.
    fn make(self, node: &Node<Engine>, service: &str) -> Result<ActionService, SharedError> {
        name_of(service)?;
        let name = ServiceName::new(&format!("{service}{}", self.suffix()));
        let name = name.map_err(|why| SharedError::failed(service, "name its messages")(&why))?;
        let (publishers, subscribers, waiting, history) = match self {
            Way::Chunks => (WRITERS, 1, CHUNKS_WAITING, 0),
            Way::Statuses => (1, WRITERS, STATUSES_WAITING, 1),
        };
        let made = node
            .service_builder(&name)
            .publish_subscribe::<[u8]>()
            .user_header::<MessageHeader>()
            .enable_safe_overflow(true)
            .subscriber_max_buffer_size(waiting)
            .subscriber_max_borrowed_samples(1)
            .history_size(history)
            .max_publishers(publishers)
            .max_subscribers(subscribers)
            .max_nodes(NODES)
            .open_or_create();
        made.map_err(|why| SharedError::opening(service, &why))
    }

    /// Makes a sender of messages of at most so many bytes, and takes all of its memory.
    fn sender(
        self,
        messages: &ActionService,
        service: &str,
        most_bytes: usize,
    ) -> Result<Sender, SharedError> {
        use iceoryx2::port::publisher::PublisherCreateError as Error;
        let builder = messages
            .publisher_builder()
            .initial_max_slice_len(most_bytes)
            .allocation_strategy(AllocationStrategy::Static)
            .max_loaned_samples(1)
            .backpressure_strategy(BackpressureStrategy::DiscardData);
        let sender = builder.create().map_err(|why| match (self, why) {
            (Way::Chunks, Error::ExceedsMaxSupportedPublishers) => full(service),
            (Way::Statuses, Error::ExceedsMaxSupportedPublishers) => {
                SharedError::Taken(service.to_owned())
            }
            (_, why) => SharedError::failed(service, "make the memory of its messages")(&why),
        })?;
        let loan = lend(&sender, service, most_bytes)?;
        let address = loan.payload().as_ptr() as usize;
        room::take(service, address).map_err(SharedError::of_messages)?;
        Ok(sender)
    }

    /// Makes a receiver of the messages.
    fn receiver(self, messages: &ActionService, service: &str) -> Result<Receiver, SharedError> {
        let history = match self {
            Way::Chunks => 0,
            Way::Statuses => 1,
        };
        let receiver = messages.subscriber_builder().history_request(history).create();
        receiver.map_err(|why| match (self, why) {
            (Way::Chunks, SubscriberCreateError::ExceedsMaxSupportedSubscribers) => {
                SharedError::Taken(service.to_owned())
            }
            (Way::Statuses, SubscriberCreateError::ExceedsMaxSupportedSubscribers) => full(service),
            (_, why) => SharedError::failed(service, "read its messages")(&why),
        })
    }
}

/// Sends a message.
fn send(
    sender: &Sender,
    service: &str,
    header: MessageHeader,
    message: &[u8],
) -> Result<(), SharedError> {
    let mut loan = lend(sender, service, message.len())?;
    *loan.user_header_mut() = header;
    let loan = loan.write_from_slice(message);
    loan.send().map(|_| ()).map_err(|why| SharedError::failed(service, "send a message")(&why))
}

/// Lends memory for a message.
fn lend(
    sender: &Sender,
    service: &str,
    bytes: usize,
) -> Result<SampleMutUninit<Engine, [std::mem::MaybeUninit<u8>], MessageHeader>, SharedError> {
    let loan = sender.loan_slice_uninit(bytes);
    loan.map_err(|why| SharedError::failed(service, "lend memory for a message")(&why))
}

fn full(service: &str) -> SharedError {
    SharedError::FullOfWriters { service: service.to_owned(), most: WRITERS }
}

#[cfg(test)]
mod tests;
