//! Takes chunks of actions, in the node.

use iceoryx2::node::Node;

use super::super::SharedError;
use super::super::service::{Engine, node};
use super::{ActionService, CHUNKS_WAITING, MessageHeader, Receiver, WRITERS, Way};

/// Chunks that one call gives: as many as may wait.
const MOST: usize = WRITERS * CHUNKS_WAITING;

/// Takes the chunks that policies send to a node. One thread at a time uses it.
#[derive(Debug)]
pub struct ChunkReader {
    service: String,
    receiver: Receiver,
    /// The newest header of each of the last writers.
    newest: [MessageHeader; WRITERS],
    /// The place of the next writer there.
    next: usize,
    _chunks: ActionService,
    _node: Node<Engine>,
}

impl ChunkReader {
    /// A reader of the chunks for the node of this name.
    ///
    /// # Errors
    /// [`SharedError`]
    pub fn new(service: &str) -> Result<Self, SharedError> {
        let node = node(service)?;
        // What a killed node has left would count as a reader.
        node.try_cleanup_dead_nodes();
        let chunks = Way::Chunks.make(&node, service)?;
        let receiver = Way::Chunks.receiver(&chunks, service)?;
        let service = service.to_owned();
        let newest = Default::default();
        Ok(ChunkReader { service, receiver, newest, next: 0, _chunks: chunks, _node: node })
    }

    /// Gives each chunk that waits: its message, and the number of its writer. It does not wait, gives a bounded number, and
    /// allocates nothing, unless a writer has come or gone. Returns how many chunks newer ones have replaced.
    ///
    /// # Errors
    /// The engine failed. What waits is given by a later call.
    pub fn take(&mut self, give: &mut dyn FnMut(&[u8], u64)) -> Result<u64, SharedError> {
        let mut lost = 0;
        for _ in 0..MOST {
            let received = self.receiver.receive();
            let received = received
                .map_err(|why| SharedError::failed(&self.service, "receive a chunk")(&why))?;
            let Some(sample) = received else { break };
            let header = *sample.user_header();
            lost += self.note(header);
            give(sample.payload(), header.sender);
        }
        Ok(lost)
    }

    /// Notes a chunk. Returns how many of its writer were lost before it.
    fn note(&mut self, header: MessageHeader) -> u64 {
        let known = self.newest.iter_mut().find(|newest| newest.sender == header.sender);
        if let Some(newest) = known {
            let lost = header.number.saturating_sub(newest.number).saturating_sub(1);
            *newest = header;
            return lost;
        }
        // It may have sent others before this node began.
        self.newest[self.next] = header;
        self.next = (self.next + 1) % WRITERS;
        0
    }
}
