//! Tells policies what becomes of their chunks, in the node.

use iceoryx2::node::Node;
use robocache_core::command::CommandStatus;
use robocache_core::spec::CommandsSpec;

use super::super::SharedError;
use super::super::service::{Engine, node};
use super::{ActionService, MessageHeader, Sender, Way, send};

/// Sends the statuses of a node to the policies. One thread at a time uses it.
#[derive(Debug)]
pub struct StatusPublisher {
    service: String,
    sender: Sender,
    number: u64,
    _statuses: ActionService,
    _node: Node<Engine>,
}

impl StatusPublisher {
    /// A publisher of the statuses of these groups, with all of its memory.
    ///
    /// # Errors
    /// [`SharedError`], also if there is no room for the memory.
    pub fn new(service: &str, commands: &CommandsSpec) -> Result<Self, SharedError> {
        let node = node(service)?;
        // What a killed node has left would count as a publisher.
        node.try_cleanup_dead_nodes();
        let statuses = Way::Statuses.make(&node, service)?;
        let most = commands.groups.iter().map(CommandStatus::most_bytes).max().unwrap_or(1);
        let sender = Way::Statuses.sender(&statuses, service, most)?;
        let service = service.to_owned();
        Ok(StatusPublisher { service, sender, number: 0, _statuses: statuses, _node: node })
    }

    /// Sends a serialized status of a node with this run. It does not wait. The engine allocates a note of each message.
    ///
    /// # Errors
    /// The engine failed: the status was not sent.
    pub fn send(&mut self, run: u64, status: &[u8]) -> Result<(), SharedError> {
        self.number += 1;
        let header = MessageHeader { sender: run, number: self.number };
        send(&self.sender, &self.service, header, status)
    }
}
