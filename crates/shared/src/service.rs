//! Names, types and limits that publishers and readers agree on.

use iceoryx2::node::{Node, NodeBuilder};
use iceoryx2::port::event_id::EventId;
use iceoryx2::prelude::{
    CallbackProgression, Service, ServiceName, SignalHandlingMode, ZeroCopySend, ipc_threadsafe,
};
use iceoryx2::service::builder::publish_subscribe::{
    Builder, PublishSubscribeOpenError as OpenError,
};
use iceoryx2::service::port_factory::{event, publish_subscribe};
use iceoryx2::service::static_config::messaging_pattern::MessagingPattern;

use super::SharedError;
use super::folder;
use robocache_core::config::describe::shared_memory::{HELD, HISTORY, PAGE, READERS, WAITING};

/// The engine's kind of service: between processes. Its ports may move between threads.
pub(crate) type Engine = ipc_threadsafe::Service;
/// The service of tensors: each sample is the memory of one message.
pub(crate) type Tensors = publish_subscribe::PortFactory<Engine, [Page], TensorHeader>;
type Samples = Builder<[Page], TensorHeader, Engine>;
/// The service that wakes readers.
pub(crate) type Wakes = event::PortFactory<Engine>;

/// Policies that may write chunks for a node at once.
pub(crate) const WRITERS: usize = 4;
/// Most processes that use a service: its readers and writers, its node, and programs that list services.
pub(crate) const NODES: usize = READERS + WRITERS + 8;
/// The longest name.
const MOST_LETTERS: usize = 128;

/// End of the name of a service of info.
const INFO: &str = ":info";

/// A page, of which samples consist. The engine would give each byte of an aligned sample of bytes a page of its own.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
pub(crate) struct Page([u8; PAGE]);

// SAFETY: bytes, without pointers, and the same in every process.
unsafe impl ZeroCopySend for Page {}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Page")
    }
}

/// The bytes of pages.
pub(crate) fn bytes_of(pages: &[Page]) -> &[u8] {
    // SAFETY: a page is bytes, without padding.
    unsafe { std::slice::from_raw_parts(pages.as_ptr().cast(), size_of_val(pages)) }
}

/// The bytes of pages, to be written.
pub(crate) fn bytes_of_mut(pages: &mut [Page]) -> &mut [u8] {
    // SAFETY: as above; borrowed alone.
    unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), size_of_val(pages)) }
}

/// Header of a sample, beside its bytes.
///
/// Both sides must know the type by one name. The number in it stands for the layout of the message, so the engine refuses
/// a program of another version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ZeroCopySend)]
#[type_name("robocache_ros/msg/FusedTensor 2")]
#[repr(C)]
pub(crate) struct TensorHeader {
    /// The run of the node, as the message says it: what belongs together.
    pub run: u64,
    /// The number of the sample among those of its publisher, from 1.
    pub number: u64,
    /// Start of the message in the sample \[bytes\]. So its data is aligned.
    pub start: u64,
    /// Bytes of the message.
    pub len: u64,
}

/// A checked name.
pub(crate) fn name_of(name: &str) -> Result<ServiceName, SharedError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/_-.".contains(letter);
    let error = || SharedError::Name { found: name.to_owned(), most: MOST_LETTERS };
    // `/robot` and `robot//x` would be other services than the `robot` and `robot/x` that a user means.
    let has_gap = name.split('/').any(str::is_empty);
    if has_gap || name.len() > MOST_LETTERS || !name.chars().all(is_plain) {
        return Err(error());
    }
    ServiceName::new(name).map_err(|_| error())
}

/// A node of the engine: this process, as the others see it.
pub(crate) fn node(service: &str) -> Result<Node<Engine>, SharedError> {
    NodeBuilder::new()
        // The program handles its signals itself.
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .config(&folder::config()?)
        .create::<Engine>()
        .map_err(|why| SharedError::Join { service: service.to_owned(), why: format!("{why:?}") })
}

/// How a service of samples for so many readers is opened or made.
fn samples(node: &Node<Engine>, name: &ServiceName, readers: usize) -> Samples {
    node.service_builder(name)
        .publish_subscribe::<[Page]>()
        .user_header::<TensorHeader>()
        .enable_safe_overflow(true)
        .subscriber_max_buffer_size(WAITING)
        .subscriber_max_borrowed_samples(HELD + 1)
        .history_size(HISTORY)
        .max_publishers(1)
        .max_subscribers(readers)
        .max_nodes(NODES)
}

/// The two services of samples below a name: tensors, and what they mean.
#[derive(Clone, Copy)]
pub(crate) enum ServiceKind {
    Tensors,
    Info,
}

impl ServiceKind {
    fn name(self, service: &str) -> Result<ServiceName, SharedError> {
        match self {
            ServiceKind::Tensors => name_of(service),
            // A user cannot choose this name.
            ServiceKind::Info => {
                name_of(service)?;
                let name = ServiceName::new(&format!("{service}{INFO}"));
                name.map_err(|why| SharedError::failed(service, "name its info")(&why))
            }
        }
    }

    /// Most readers. Writers of chunks read what the tensors mean, too.
    fn readers(self) -> usize {
        match self {
            ServiceKind::Tensors => READERS,
            ServiceKind::Info => READERS + WRITERS,
        }
    }

    /// Opens the service, or makes it.
    pub(crate) fn make(self, node: &Node<Engine>, service: &str) -> Result<Tensors, SharedError> {
        let made = samples(node, &self.name(service)?, self.readers()).open_or_create();
        made.map_err(|why| SharedError::opening(service, &why))
    }

    /// Opens the service; `None` if no node has made it.
    pub(crate) fn open(
        self,
        node: &Node<Engine>,
        service: &str,
    ) -> Result<Option<Tensors>, SharedError> {
        match samples(node, &self.name(service)?, self.readers()).open() {
            Ok(opened) => Ok(Some(opened)),
            // The others are of a service that is being made or removed, and of a signal.
            Err(
                OpenError::DoesNotExist
                | OpenError::IsMarkedForDestruction
                | OpenError::HangsInCreation
                | OpenError::ServiceInCorruptedState
                | OpenError::Interrupt,
            ) => Ok(None),
            Err(why) => Err(SharedError::opening(service, &why)),
        }
    }
}

/// Opens or makes the service that wakes readers. A reader may come first: then it makes the service, and the
/// notifier of the node wakes it.
pub(crate) fn wakes(node: &Node<Engine>, service: &str) -> Result<Wakes, SharedError> {
    node.service_builder(&name_of(service)?)
        .event()
        .max_listeners(READERS)
        .max_notifiers(2)
        .max_nodes(NODES)
        .notifier_created_event(EventId::new(1))
        .open_or_create()
        .map_err(|why| SharedError::opening(service, &why))
}

/// The names under which nodes share tensors, sorted.
pub(crate) fn names(node: &Node<Engine>) -> Result<Vec<String>, SharedError> {
    let mut names = Vec::new();
    let listed = Engine::list(node.config(), |service| {
        let found = service.static_details;
        let is_samples = matches!(found.messaging_pattern(), MessagingPattern::PublishSubscribe(_));
        // The services of other programs have other names, or are no samples.
        if is_samples && !found.name().ends_with(INFO) && name_of(found.name()).is_ok() {
            names.push(found.name().to_string());
        }
        CallbackProgression::Continue
    });
    listed.map_err(|why| SharedError::failed("shared memory", "list its services")(&why))?;
    names.sort();
    Ok(names)
}
